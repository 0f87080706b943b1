-- setup.sql: gpucredit with :orgs organisations ("0", "1", ...) of :projects
-- accounts each ("0", "1", ...), one bucket an organisation.
-- Names are numbers, since pgbench's variables are.
\set QUIET on
SET client_min_messages = warning;
CREATE EXTENSION gpucredit;
CREATE EXTENSION gpucredit_report;
CREATE SCHEMA bench;
-- :analyze: statistics of tables while they are empty, which stay; or none
\if :{?analyze}
SELECT format('ALTER TABLE %s SET (autovacuum_enabled = off)', c.oid::regclass)
FROM pg_class c
WHERE c.relnamespace = 'gpucredit'::regnamespace AND c.relkind = 'r' \gexec
SELECT :'analyze' = 'empty' AS empty \gset
\if :empty
ANALYZE;
\endif
\endif

SELECT count(gpucredit.create_account(o::text))
FROM generate_series(0, :orgs - 1) o;
SELECT count(gpucredit.create_account(o::text, a::text))
FROM generate_series(0, :orgs - 1) o, generate_series(0, :projects - 1) a;
-- another version of the extension may have no grants
SELECT count(*) > 0 AS grants FROM pg_proc WHERE proname = 'grant_tier' \gset
\if :grants
SELECT count(gpucredit.grant_tier(o::text, '', t))
FROM generate_series(0, :orgs - 1) o,
	unnest('{production_inference,premium_training}'::text[]) t;
\endif
SELECT count(gpucredit.issue(o::text, '', 'setup', 1000000000,
	effective_at => now() - interval '30 days'))
FROM generate_series(0, :orgs - 1) o;

-- Submits jobs number first to last, each in a transaction of its own as
-- callers would: of organisation job % orgs, accounts in turn.  asks: one
-- request after another.
CREATE PROCEDURE bench.submit(first int, last int, asks text[],
	memory_mib bigint[], wall_limit interval)
LANGUAGE plpgsql AS $$
DECLARE
	orgs int := (SELECT count(*) FROM gpucredit.account WHERE account = '');
	projects int := (SELECT count(*) FROM gpucredit.account
		WHERE org = '0' AND account <> '');
	granted text;
	number bigint;
BEGIN
	FOR i IN first .. last LOOP
		SELECT r.status, r.job INTO granted, number
		FROM gpucredit.reserve((i % orgs)::text, (i / orgs % projects)::text,
			'submit' || i, asks[1 + i % array_length(asks, 1)], wall_limit,
			'production_inference',
			memory_mib => memory_mib[1 + i % array_length(memory_mib, 1)]) r;
		-- scripts know a job's organisation by its number
		IF granted <> 'granted' OR number <> i THEN
			RAISE EXCEPTION 'job % was %, number %', i, granted, number;
		END IF;
		COMMIT;
	END LOOP;
END
$$;

-- Runs cycles until nothing starts.
CREATE PROCEDURE bench.place_all(expected int)
LANGUAGE plpgsql AS $$
DECLARE
	total int := 0;
	n int;
BEGIN
	LOOP
		SELECT count(DISTINCT (p.org, p.job)) INTO n FROM gpucredit.place() p;
		COMMIT;
		EXIT WHEN n = 0;
		total := total + n;
	END LOOP;
	IF total <> expected THEN
		RAISE EXCEPTION '% jobs were started, not %', total, expected;
	END IF;
END
$$;
