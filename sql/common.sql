-- The clock, the settings, the roles.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
\set VERBOSITY sqlstate

-- now() is the wall clock, unless the clock is frozen; then it does not move.
SELECT gpucredit.now() BETWEEN statement_timestamp() AND clock_timestamp()
	AS wall_clock;
SET gpucredit.clock = '2027-01-01 00:00+00';
SELECT gpucredit.now(), pg_sleep(0.001), gpucredit.now() AS same;
SET gpucredit.clock = '2027-06-01 12:00:00.123456 America/New_York';
SELECT gpucredit.now();
SET gpucredit.clock = '2027-01-01';		-- in the session's time zone
SELECT gpucredit.now();
SET timezone = 'Asia/Tokyo';
SELECT gpucredit.now();
SET timezone = 'UTC';
SET gpucredit.clock = '4713-01-01 00:00:00 BC';
SELECT gpucredit.now();
SET gpucredit.clock = '294276-12-31 23:59:59.999999+00';
SELECT gpucredit.now();

-- A text that is no instant is refused, and the clock is unchanged.
SET gpucredit.clock = 'infinity';
SET gpucredit.clock = '-infinity';
SET gpucredit.clock = 'epoch';
SET gpucredit.clock = 'noon';
SET gpucredit.clock = '2027-02-30 00:00+00';
SET gpucredit.clock = '12:00';
SET gpucredit.clock = '294277-01-01 00:00+00';
SET gpucredit.clock = '4714-01-01 00:00 BC';
SET gpucredit.clock = '2027-01-01 00:00 Nowhere/Land';
SELECT set_config('gpucredit.clock', repeat('2', 100000), false);
\set VERBOSITY default
SET gpucredit.clock = 'tomorrow at noon';
-- so is a duration, printed as durations are
SELECT gpucredit.hold('none', '', 'key', 1, '-90 min');
SELECT gpucredit.meter_batch('{none,none}', '{1,2}', '{1,1}', '{1 s,-1.5 s}');
\set VERBOSITY sqlstate
SELECT gpucredit.now();
SET LOCAL gpucredit.clock = '';			-- outside a transaction: nothing

-- The setting follows the transaction that set it.
SET gpucredit.clock = '2027-01-01 00:00+00';
BEGIN;
SET LOCAL gpucredit.clock = '2028-01-01 00:00+00';
SELECT gpucredit.now();
COMMIT;
SELECT gpucredit.now();
BEGIN;
SET gpucredit.clock = '2028-01-01 00:00+00';
ROLLBACK;
SELECT gpucredit.now();

-- A parallel worker uses the same instant: it gets the text that was set
-- before it has the session's time zone and abbreviations.
CREATE FUNCTION pg_temp.clock_of_worker(clock text, zone text, style text)
RETURNS TABLE (same boolean, shown text) LANGUAGE plpgsql AS $$
DECLARE
	leader timestamptz;
BEGIN
	PERFORM set_config('timezone', zone, true),
		set_config('datestyle', style, true),
		set_config('gpucredit.clock', clock, true);
	leader := gpucredit.now();
	PERFORM set_config('timezone', 'UTC', true),
		set_config('datestyle', 'ISO, MDY', true),
		set_config(name, 'on', true) FROM pg_settings
	WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
	RETURN QUERY EXECUTE 'SELECT gpucredit.now() = $1,
		current_setting(''gpucredit.clock'')' USING leader;
END $$;
SELECT w.*
FROM (VALUES ('2027-01-01', 'Asia/Tokyo', 'ISO'),
	('2027-06-01 12:00 America/New_York', 'UTC', 'ISO'),
	('Tue Jun 01 12:00:00.123456 2027 PDT', 'UTC', 'ISO'),
	('02/01/2027 PST', 'UTC', 'SQL, DMY'),
	('4713-01-01 00:00:00 BC', 'UTC', 'ISO')) t (clock, zone, style),
	pg_temp.clock_of_worker(t.clock, t.zone, t.style) w;

-- Settings, their units, and who may set them: only a superuser sets what
-- changes billing or safety.
SELECT name, setting, unit, context, min_val
FROM pg_settings WHERE name LIKE 'gpucredit.%' ORDER BY name;
SELECT name FROM pg_settings
WHERE name LIKE 'gpucredit.%' AND coalesce(short_desc, '') = '';
SET gpucredit.clock_skew = '-1s';
SET gpucredit.clock_skew = '1 parsec';
SET gpucredit.key_retention = '59s';
SET gpucredit.max_starts = 0;
SET gpucredit.no_such_setting = 1;		-- the prefix is reserved
CREATE ROLE gpucredit_test_common;
SET ROLE gpucredit_test_common;
SET gpucredit.clock = '2027-01-01 00:00+00';
SET gpucredit.clock_skew = '1h';
RESET ROLE;
DROP ROLE gpucredit_test_common;
RESET gpucredit.clock;

-- The roles: none can log in, and none has more rights than a group.
SELECT rolname, rolcanlogin, rolsuper, rolcreaterole, rolcreatedb,
	rolreplication, rolbypassrls
FROM pg_roles WHERE rolname ~ '^gpucredit_(admin|operator|app|agent|auditor)$'
ORDER BY rolname;

-- The extension has the control file's version.
SELECT e.extversion = a.default_version AS newest, e.extrelocatable
FROM pg_extension e JOIN pg_available_extensions a ON a.name = e.extname
WHERE e.extname = 'gpucredit';

-- Every function, called with only NULL, even by a superuser, answers or
-- raises a clear error, and never crashes.
CREATE TABLE pg_temp.called (function text, state text);
DO $$
DECLARE
	f record;
BEGIN
	FOR f IN SELECT p.oid::regprocedure AS name, format('SELECT %s.%I(%s)',
			p.pronamespace::regnamespace, p.proname, (SELECT string_agg('NULL::' || t::regtype, ', ' ORDER BY n)
				FROM unnest(p.proargtypes) WITH ORDINALITY u (t, n))) AS call
		FROM pg_proc p
		WHERE p.pronamespace IN ('gpucredit'::regnamespace, 'gpucredit_internal'::regnamespace)
			AND p.prokind = 'f'
			AND NOT (p.prorettype IN ('trigger'::regtype, 'internal'::regtype)
				OR p.proargtypes::oid[] && ARRAY['internal', 'cstring']::regtype[]::oid[])
	LOOP
		BEGIN
			EXECUTE f.call;
			RAISE EXCEPTION SQLSTATE '00000';
		EXCEPTION WHEN OTHERS THEN
			INSERT INTO pg_temp.called VALUES (f.name, SQLSTATE);
		END;
	END LOOP;
END
$$;
SELECT count(*) > 100 AS called,
	count(*) FILTER (WHERE state ~ '^(XX|58|53)') AS broken FROM pg_temp.called;
SELECT function, state FROM pg_temp.called WHERE state ~ '^(XX|58|53)' ORDER BY 1;

-- A user's trigger on one of our tables calls us: a statement is prepared
-- again while it runs.
BEGIN;
CREATE FUNCTION pg_temp.call_again() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM gpucredit.create_account(NEW.org, NEW.account || '/x');
	RETURN NULL;
END
$$;
SELECT gpucredit.create_account('again');
CREATE TRIGGER call_again AFTER INSERT ON gpucredit.audit FOR EACH ROW
	WHEN (NEW.account !~ 'x') EXECUTE FUNCTION pg_temp.call_again();
SELECT count(gpucredit.create_account('again', 'a' || n))
FROM generate_series(1, 20) n;
SELECT count(*) FROM gpucredit.account WHERE org = 'again';
ROLLBACK;

SELECT * FROM gpucredit.verify();
