/*
 * 97_plans.sql: what the planner assumes about an organisation's size.
 *
 * Statements run with kept plans, which are made for an average organisation.
 * If there are thousands of organisations with ten rows of a table each, a
 * plan that reads all rows of an organisation looks as cheap as one that
 * searches by account.  Used for an organisation that has fifty thousand rows,
 * it reads all of them.  So a setting makes ANALYZE record that an
 * organisation has a hundredth of each table's rows, whatever it counts.
 */
DO $plans$
DECLARE
	tenant_table regclass;
BEGIN
	FOR tenant_table IN
		SELECT c.oid::regclass
		FROM pg_catalog.pg_class c
			JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
		WHERE c.relnamespace = 'gpucredit'::regnamespace AND c.relkind = 'r'
			AND a.attname = 'org' AND NOT a.attisdropped
	LOOP
		EXECUTE format('ALTER TABLE %s ALTER COLUMN org SET (n_distinct = 100)',
			tenant_table);
	END LOOP;
END
$plans$;
