/*
 * 97_plans.sql: what the planner supposes of an organisation's size.
 *
 * Statements run with kept plans, made for an average organisation. Where
 * thousands of organisations have ten rows of a table each, a plan that reads
 * all rows of one looks as good as one that searches by account, and reads
 * everything of an organisation that has fifty thousand. So ANALYZE notes that
 * an organisation has a hundredth of each table's rows, whatever it counts.
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
