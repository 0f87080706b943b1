-- Idempotency: a keyed call takes effect once.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2027-01-01 00:00+00';
\set VERBOSITY sqlstate
\pset null '-'

DO $$
BEGIN
	PERFORM gpucredit.create_account('rq');
	PERFORM gpucredit.create_account('rq', 'a');
	PERFORM gpucredit.create_account('rq-2');
	PERFORM gpucredit.create_account('rq-2', 'a');
	PERFORM gpucredit.create_pool('rq');
	PERFORM gpucredit.create_pool('rq-2');
	PERFORM gpucredit.set_price('RQ-A', 1, p),
		gpucredit.set_price('RQ-B', 1, p),
		gpucredit.register_node(p, p || '-1', 'RQ-A', 8, 40960),
		gpucredit.register_node(p, p || '-2', 'RQ-B', 8, 40960)
	FROM unnest(ARRAY['rq', 'rq-2']) p;
END $$;

-- Each call is made once with its defaults left out, then again in other
-- words; same: it names the same bucket, hold or job.
CREATE FUNCTION pg_temp.twice(first text, again text)
RETURNS TABLE (replayed boolean, same boolean)
LANGUAGE plpgsql AS $$
DECLARE
	one jsonb;
	two jsonb;
BEGIN
	EXECUTE 'SELECT to_jsonb(r) FROM gpucredit.' || first || ' r' INTO one;
	EXECUTE 'SELECT to_jsonb(r) FROM gpucredit.' || again || ' r' INTO two;
	RETURN QUERY SELECT (one ->> 'replayed')::boolean,
		NULL::boolean WHERE (one ->> 'replayed')::boolean;
	RETURN QUERY SELECT (two ->> 'replayed')::boolean,
		one - 'replayed' = two - 'replayed';
END $$;

-- Equal by value: 1.0 is 1.00, 60 min is 1 h, a default written out is a
-- default left out, and a jsonb is compared by value.
SELECT * FROM pg_temp.twice($$issue('rq', 'a', 'i1', 1000)$$,
	$$issue('rq', 'a', 'i1', 1000.000, 'paid', NULL, NULL, 100, '{}', NULL, NULL)$$);
SELECT * FROM pg_temp.twice(
	$$issue('rq', 'a', 'i2', 1.5, 'promo', '2028-01-01 00:00+00',
		policy => '{"max_share": 0.50, "tiers": ["x", "y"], "max_per_job": 10}')$$,
	$$issue('rq', 'a', 'i2', 1.500000, 'promo', '2027-12-31 19:00-05',
		policy => '{"max_per_job": 1e1, "tiers": ["x", "y"], "max_share": 0.5}')$$);
SELECT * FROM pg_temp.twice($$issue('rq', 'a', 'i3', 1, valid_for => '1 day')$$,
	$$issue('rq', 'a', 'i3', 1, valid_for => '24 h')$$);
SELECT * FROM pg_temp.twice($$hold('rq', 'a', 'h1', 10, '1 h')$$,
	$$hold('rq', 'a', 'h1', 10.0, '60 min')$$);
SELECT hold AS h1 FROM gpucredit.hold('rq', 'a', 'h1', 10, '1 h') \gset
SELECT hold AS h2 FROM gpucredit.hold('rq', 'a', 'h2', 10, '1 h') \gset
SELECT set_config('test.h1', :'h1', false) <> '' AS set,
	set_config('test.h2', :'h2', false) <> '' AS set;
SELECT * FROM pg_temp.twice(
	$$capture('rq', current_setting('test.h1')::bigint, 'c1', 2.5)$$,
	$$capture('rq', current_setting('test.h1')::bigint, 'c1', 2.500, true)$$);
SELECT * FROM pg_temp.twice(
	$$release('rq', current_setting('test.h2')::bigint, 'e1')$$,
	$$release('rq', current_setting('test.h2')::bigint, 'e1')$$);
SELECT * FROM pg_temp.twice(
	$$reserve('rq', 'a', 'r1', '1xRQ-A', pool => 'rq')$$,
	$$reserve('rq', 'a', 'r1', '1xRQ-A', NULL, 'standard_training', 'rq',
		'any', NULL, 3, 0, 0, NULL, '{}', '{}')$$);
SELECT * FROM pg_temp.twice(
	$$reserve('rq', 'a', 'r2', '1xRQ-A', '1 h', pool => 'rq',
		spec => '{"image": "x", "env": {"A": 1, "B": [1, 2.0]}}',
		options => '{"priority": 5}')$$,
	$$reserve('rq', 'a', 'r2', '1xRQ-A', '3600 s', pool => 'rq',
		spec => '{"env": {"B": [1.0, 2], "A": 1.00}, "image": "x"}',
		options => '{"priority": 5.0}')$$);
SELECT job AS r2 FROM gpucredit.reserve('rq', 'a', 'r2', '1xRQ-A', '1 h',
	pool => 'rq', spec => '{"image": "x", "env": {"A": 1, "B": [1, 2]}}',
	options => '{"priority": 5}') \gset
SELECT set_config('test.r2', :'r2', false) <> '' AS set;
SELECT * FROM pg_temp.twice(
	$$cancel('rq', current_setting('test.r2')::bigint, 'k1')$$,
	$$cancel('rq', current_setting('test.r2')::bigint, 'k1', NULL)$$);
-- each took effect once
SELECT available, held, spent FROM gpucredit.balance('rq', 'a');
SELECT operation, decision, count(*) FROM gpucredit.audit
WHERE org = 'rq' AND account = 'a' GROUP BY 1, 2 ORDER BY 1, 2;

-- The stored answer returns, also when the world has changed since.
SELECT gpucredit.set_price('RQ-A', 5, 'rq');
SELECT gpucredit.suspend_account('rq', 'a', true);
SET gpucredit.clock = '2027-01-02 00:00+00';
SELECT status, held, expires_at, replayed FROM gpucredit.hold('rq', 'a', 'h1', 10, '1 h');
SELECT status, held, replayed FROM gpucredit.reserve('rq', 'a', 'r1', '1xRQ-A', pool => 'rq');
SELECT job_state, replayed FROM gpucredit.cancel('rq', :r2, 'k1');
SELECT gpucredit.suspend_account('rq', 'a', false);
SET gpucredit.clock = '2027-01-01 00:00+00';

-- Any argument changed is another call: UC201.
CREATE TEMP TABLE keyed (n serial, fn text, args text[], changed text[]);
INSERT INTO keyed (fn, args, changed) VALUES
	('issue', ARRAY[$$'rq'$$, $$'a'$$, $$'u1'$$, '5', $$'grant'$$,
		$$'2028-01-01'$$, $$'2027-01-02'$$, '7', $$'{"max_share": 0.5}'$$,
		$$'memo'$$, 'NULL'],
	ARRAY[NULL, $$''$$, NULL, '5.000001', $$'paid'$$, $$'2028-01-02'$$,
		$$'2027-01-03'$$, '8', $$'{"max_share": 0.6}'$$, 'NULL', NULL]),
	('issue', ARRAY[$$'rq'$$, $$'a'$$, $$'u2'$$, '5', $$'paid'$$,
		'NULL', 'NULL', '100', $$'{"tiers": ["a", "b"]}'$$,
		$$''$$, $$'1 day'$$],
	ARRAY[NULL, NULL, NULL, NULL, NULL, NULL, $$'2027-01-01'$$, NULL,
		$$'{"tiers": ["b", "a"]}'$$, 'NULL', $$'2 days'$$]),
	('hold', ARRAY[$$'rq'$$, $$'a'$$, $$'u3'$$, '5', $$'1 h'$$],
	ARRAY[NULL, $$''$$, NULL, '6', $$'2 h'$$]),
	('capture', ARRAY[$$'rq'$$, '{hold}', $$'u4'$$, '1', 'false', 'false'],
	ARRAY[NULL, '{hold} + 1', NULL, '2', 'true', 'true']),
	('extend_hold', ARRAY[$$'rq'$$, '{hold}', $$'u4e'$$, '1', $$'2 h'$$],
	ARRAY[NULL, '{hold} + 1', NULL, '2', 'NULL']),
	('reserve', ARRAY[$$'rq'$$, $$'a'$$, $$'u5'$$, $$'1xRQ-A'$$, $$'1 h'$$,
		$$'batch_inference'$$, $$'rq'$$, $$'any'$$, 'NULL', '3', '0', '0',
		'NULL', $$'{"a": 1}'$$, $$'{"priority": 1}'$$],
	ARRAY[NULL, $$''$$, NULL, $$'1xRQ-A|RQ-B'$$, $$'2 h'$$,
		$$'standard_training'$$, $$'rq-2'$$, $$'node'$$, $$'capacity'$$, '4',
		'1', '1', $$'30 min'$$, $$'{"a": "1"}'$$, $$'{"priority": 2}'$$]),
	('cancel', ARRAY[$$'rq'$$, '{job}', $$'u6'$$, $$'reason'$$],
	ARRAY[NULL, '{other}', NULL, 'NULL']),
	('release', ARRAY[$$'rq'$$, '{hold}', $$'u7'$$],
	ARRAY[NULL, '{hold} + 1', NULL]);
CREATE FUNCTION pg_temp.state_of(call text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	replayed boolean;
BEGIN
	EXECUTE 'SELECT replayed FROM gpucredit.' || call INTO replayed;
	RETURN CASE WHEN replayed THEN 'replayed' ELSE 'new' END;
EXCEPTION WHEN others THEN
	RETURN SQLSTATE;
END $$;
SELECT hold AS hold FROM gpucredit.hold('rq', 'a', 'h3', 10, '1 h') \gset
SELECT job AS job FROM gpucredit.reserve('rq', 'a', 'r3', '1xRQ-A', '1 h', pool => 'rq') \gset
SELECT job AS other FROM gpucredit.reserve('rq', 'a', 'r4', '1xRQ-A', '1 h', pool => 'rq') \gset
UPDATE keyed SET
	args = replace(replace(args::text, '{hold}', :'hold'), '{job}', :'job')::text[],
	changed = replace(replace(changed::text, '{hold}', :'hold'), '{other}', :'other')::text[];
SELECT fn, pg_temp.state_of(format('%s(%s)', fn, array_to_string(args, ', '))) AS first,
	pg_temp.state_of(format('%s(%s)', fn, array_to_string(args, ', '))) AS again
FROM keyed ORDER BY n;
SELECT k.fn, p.proargnames[i] AS changed, pg_temp.state_of(
	format('%s(%s)', k.fn, array_to_string(k.args[:i - 1] || k.changed[i]
		|| k.args[i + 1:], ', '))) AS state
FROM keyed k, pg_proc p, generate_subscripts(k.args, 1) i
WHERE p.pronamespace = 'gpucredit'::regnamespace AND p.proname = k.fn
	AND k.changed[i] IS NOT NULL
ORDER BY k.n, i;
-- only the key itself is left out
SELECT k.fn, p.proargnames[i] AS not_changed
FROM keyed k, pg_proc p, generate_subscripts(k.args, 1) i
WHERE p.pronamespace = 'gpucredit'::regnamespace AND p.proname = k.fn
GROUP BY k.fn, p.proargnames[i] HAVING max(k.changed[i]) IS NULL
ORDER BY 1, 2;
-- and the first call is still answered as before
SELECT fn, pg_temp.state_of(format('%s(%s)', fn, array_to_string(args, ', '))) AS again
FROM keyed ORDER BY n;

-- A key belongs to one function and one organisation; case and blanks count.
SELECT pg_temp.state_of($$hold('rq', 'a', 'i1', 1000, '1 h')$$) AS hold,
	pg_temp.state_of($$reserve('rq', 'a', 'i1', '1xRQ-A', pool => 'rq')$$) AS reserve,
	pg_temp.state_of($$release('rq', current_setting('test.h1')::bigint, 'c1')$$) AS release,
	pg_temp.state_of($$cancel('rq', current_setting('test.r2')::bigint, 'r2')$$) AS cancel,
	pg_temp.state_of($$issue('rq', 'a', 'h1', 10)$$) AS issue;
SELECT pg_temp.state_of($$issue('rq-2', 'a', 'i1', 1000)$$) AS other_org,
	pg_temp.state_of($$issue('rq', 'a', 'I1', 1000)$$) AS other_case,
	pg_temp.state_of($$issue('rq', 'a', 'i1 ', 1000)$$) AS blank,
	pg_temp.state_of($$issue('rq', 'a', repeat('k', 255), 1000)$$) AS longest,
	pg_temp.state_of($$issue('rq', 'a', repeat('k', 255), 1000.0)$$) AS again;

-- An error takes no key.
SELECT pg_temp.state_of($$hold('rq', 'no such', 'e', 1, '1 h')$$) AS no_account,
	pg_temp.state_of($$capture('rq', 0, 'e', 1)$$) AS no_hold,
	pg_temp.state_of($$cancel('rq', 0, 'e')$$) AS no_job,
	pg_temp.state_of($$issue('rq', 'a', 'e', 1, 'loan')$$) AS bad_kind,
	pg_temp.state_of($$reserve('rq', 'a', 'e', '1xRQ-NONE', pool => 'rq')$$) AS no_type,
	pg_temp.state_of($$hold('rq', 'a', 'e', 1, '1 h')$$) AS then_it_works;

-- A denial is a result: it stays, although credit came since.
SELECT status, reason, replayed FROM gpucredit.hold('rq-2', '', 'd1', 50, '1 h');
SELECT status, reason, job, held, replayed
FROM gpucredit.reserve('rq-2', '', 'd2', '1xRQ-A', '1 h', pool => 'rq-2');
SELECT replayed FROM gpucredit.issue('rq-2', '', 'd3', 100);
SELECT status, reason, replayed FROM gpucredit.hold('rq-2', '', 'd1', 50, '1 h');
SELECT status, reason, job, held, replayed
FROM gpucredit.reserve('rq-2', '', 'd2', '1xRQ-A', '1 h', pool => 'rq-2');
SELECT status, reason, replayed FROM gpucredit.hold('rq-2', '', 'd1 again', 50, '1 h');

-- Past its retention a key is new again, unless it is a payment's (key_spaces);
-- up to then it is not.
SET gpucredit.key_retention = '1 h';
SELECT pg_temp.state_of($$hold('rq-2', '', 'old', 1, '1 min')$$);
SET gpucredit.clock = '2027-01-01 00:59:59.999999+00';
SELECT pg_temp.state_of($$hold('rq-2', '', 'old', 1, '1 min')$$) AS again,
	pg_temp.state_of($$hold('rq-2', '', 'old', 2, '1 min')$$) AS changed;
SET gpucredit.clock = '2027-01-01 01:00+00';
SELECT pg_temp.state_of($$hold('rq-2', '', 'old', 2, '1 min')$$) AS changed,
	pg_temp.state_of($$hold('rq-2', '', 'old', 2, '1 min')$$) AS again,
	pg_temp.state_of($$hold('rq-2', '', 'old', 1, '1 min')$$) AS first;
-- a call under it takes effect again: another hold, no capture of a closed one
SELECT hold AS first FROM gpucredit.hold('rq-2', '', 'h', 1, '1 day') \gset
SELECT captured, replayed FROM gpucredit.capture('rq-2', :first, 'c', 1);
SET gpucredit.clock = '2027-01-01 01:59:59.999999+00';
SELECT hold = :first AS same, replayed FROM gpucredit.hold('rq-2', '', 'h', 1, '1 day');
SELECT captured, replayed FROM gpucredit.capture('rq-2', :first, 'c', 1);
BEGIN;
SET LOCAL gpucredit.clock = '2027-01-01 02:00+00';
SELECT hold = :first AS same, replayed FROM gpucredit.hold('rq-2', '', 'h', 1, '1 day');
SAVEPOINT s;
SELECT captured, replayed FROM gpucredit.capture('rq-2', :first, 'c', 1);
ROLLBACK;
SET gpucredit.clock = '2027-01-01 01:00+00';
-- upkeep deletes such keys, and no others
SELECT pg_temp.state_of($$hold('rq-2', '', 'young', 1, '1 min')$$);
SET gpucredit.clock = '2027-01-01 01:30+00';
SELECT affected > 0 AS forgot FROM gpucredit.maintain() WHERE task = 'forget_requests';
SELECT key, operation FROM gpucredit.request WHERE org = 'rq-2' ORDER BY key;
RESET gpucredit.key_retention;

-- Within one transaction a rolled back call never happened.
BEGIN;
SELECT pg_temp.state_of($$issue('rq-2', '', 'tx', 1)$$);
SELECT pg_temp.state_of($$issue('rq-2', '', 'tx', 1)$$);
ROLLBACK;
SELECT pg_temp.state_of($$issue('rq-2', '', 'tx', 1)$$);
SELECT available, held, spent FROM gpucredit.balance('rq-2');

-- A stored time is the same instant for a session with another time format.
BEGIN;
SET LOCAL datestyle = 'German';
SET LOCAL timezone = 'Pacific/Kiritimati';
SELECT replayed FROM gpucredit.hold('rq-2', '', 'written otherwise', 0.5, '27 h');
SET LOCAL datestyle = 'ISO, MDY';
SET LOCAL timezone = 'UTC';
SELECT expires_at - gpucredit.now() AS ttl, replayed
FROM gpucredit.hold('rq-2', '', 'written otherwise', 0.5, '27 h');
ROLLBACK;

-- A result type has grown since: older rows have NULL there.
BEGIN;
SELECT replayed FROM gpucredit.issue('rq-2', '', 'grown', 1);
ALTER TYPE gpucredit.issue_result ADD ATTRIBUTE later text;
SELECT bucket IS NOT NULL AS bucket, replayed, later
FROM gpucredit.issue('rq-2', '', 'grown', 1);
ROLLBACK;

-- A row without a result, which only a hand could write, is an error.
BEGIN;
SELECT replayed FROM gpucredit.issue('rq-2', '', 'no result', 1);
UPDATE gpucredit.request SET result = NULL WHERE org = 'rq-2' AND key = 'no result';
SELECT pg_temp.state_of($$issue('rq-2', '', 'no result', 1)$$);
-- So is one with fewer columns than any release returned.
UPDATE gpucredit.request SET result = '{}' WHERE org = 'rq-2' AND key = 'no result';
SELECT pg_temp.state_of($$issue('rq-2', '', 'no result', 1)$$);
UPDATE gpucredit.request SET result = '{1}' WHERE org = 'rq-2' AND key = 'no result';
SELECT pg_temp.state_of($$issue('rq-2', '', 'no result', 1)$$);
ROLLBACK;

-- A user's trigger on our tables swallows rows: an error, and neither a crash
-- nor an endless loop.
CREATE FUNCTION pg_temp.swallow() RETURNS trigger LANGUAGE plpgsql
AS 'BEGIN RETURN NULL; END';
BEGIN;
SET LOCAL statement_timeout = '60s';
CREATE TRIGGER a_first BEFORE INSERT ON gpucredit.request
FOR EACH ROW EXECUTE FUNCTION pg_temp.swallow();
SELECT pg_temp.state_of($$issue('rq-2', '', 'swallowed', 1)$$);
ROLLBACK;
BEGIN;
CREATE TRIGGER a_first BEFORE INSERT ON gpucredit.bucket
FOR EACH ROW EXECUTE FUNCTION pg_temp.swallow();
SELECT pg_temp.state_of($$issue('rq-2', '', 'swallowed', 1)$$);
ROLLBACK;

SELECT * FROM gpucredit.verify();
