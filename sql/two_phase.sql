--
-- Two-phase transfers and burn-down, case by case, as other ledgers' suites
-- test them: holding, capturing and releasing, and credit that burns in order
-- and expires. Each case is a row: calls in order, each at an offset from the
-- start, and what each answers.
--
SET search_path = gpucredit, public;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET client_min_messages = warning;

-- Plays a case in an organisation of its own and shows each step's answer or
-- SQLSTATE. {name} is what the step of that name returned first.
CREATE TEMP TABLE steps (story text, n serial, at interval, name text,
	call text, says text);
CREATE FUNCTION pg_temp.play(story text) RETURNS TABLE (n int, said text)
LANGUAGE plpgsql AS $$
DECLARE
	org text := 'tp ' || play.story;
	s record;
	sql text;
	given jsonb := '{}';
	k record;
BEGIN
	PERFORM set_config('gpucredit.clock', '2035-01-01 00:00+00', false);
	PERFORM gpucredit.create_account(org), gpucredit.create_account(org, 'a');
	FOR s IN SELECT * FROM steps t WHERE t.story = play.story ORDER BY t.n
	LOOP
		PERFORM set_config('gpucredit.clock',
			(timestamptz '2035-01-01 00:00+00' + s.at)::text, false);
		sql := replace(s.call, '(', format('(%L, ', org));
		FOR k IN SELECT * FROM jsonb_each_text(given) LOOP
			sql := replace(sql, '{' || k.key || '}', k.value);
		END LOOP;
		n := s.n;
		BEGIN
			EXECUTE format('SELECT trim(both ''()'' FROM r::text), (regexp_match(r::text, ''^\(([^,)]*)''))[1]'
				' FROM gpucredit.%s r', sql) INTO said, sql;
			given := given || jsonb_build_object(s.name, sql);
		EXCEPTION WHEN others THEN
			said := SQLSTATE;
		END;
		-- numbers that depend on earlier tests, and instants, are left out
		said := regexp_replace(regexp_replace(said, '^\d+,(granted|denied|[tf]$)', '\1'),
			',"20[^"]*"', '', 'g');
		RETURN NEXT;
	END LOOP;
END $$;

INSERT INTO steps (story, at, name, call, says) VALUES
-- Pending and posted
('capture all', '0', 'i', $$issue('', 'i', 10)$$, 'f'),
('capture all', '0', 'h', $$hold('', 'h', 10, '1 h')$$, 'granted,,10.000000,f'),
('capture all', '0', 'c', $$capture({h}, 'c', 10)$$, '10.000000,0.000000,0.000000,f,0.000000'),
('capture all', '0', 'b', $$balance('')$$, '0.000000,0.000000,0.000000,0.000000,10.000000,0.000000,0.000000,0.000000,,'),
('capture part', '0', 'i', $$issue('', 'i', 10)$$, 'f'),
('capture part', '0', 'h', $$hold('', 'h', 10, '1 h')$$, 'granted,,10.000000,f'),
('capture part', '0', 'c', $$capture({h}, 'c', 3)$$, '3.000000,7.000000,0.000000,f,0.000000'),
('capture part', '0', 'b', $$balance('')$$, '7.000000,7.000000,0.000000,0.000000,3.000000,0.000000,0.000000,7.000000,,'),
('capture nothing', '0', 'i', $$issue('', 'i', 10)$$, 'f'),
('capture nothing', '0', 'h', $$hold('', 'h', 10, '1 h')$$, 'granted,,10.000000,f'),
('capture nothing', '0', 'c', $$capture({h}, 'c', 0)$$, '0.000000,10.000000,0.000000,f,0.000000'),
('capture nothing', '0', 'c2', $$capture({h}, 'c2', 0)$$, 'UC003'),
('release', '0', 'i', $$issue('', 'i', 10)$$, 'f'),
('release', '0', 'h', $$hold('', 'h', 10, '1 h')$$, 'granted,,10.000000,f'),
('release', '0', 'r', $$release({h}, 'r')$$, '10.000000,0.000000,f'),
('release', '0', 'b', $$balance('')$$, '10.000000,10.000000,0.000000,0.000000,0.000000,0.000000,0.000000,10.000000,,'),
-- Pending credit is not available to others
('pending binds', '0', 'i', $$issue('', 'i', 10)$$, 'f'),
('pending binds', '0', 'h', $$hold('', 'h', 10, '1 h')$$, 'granted,,10.000000,f'),
('pending binds', '0', 'h2', $$hold('', 'h2', 0.000001, '1 h')$$, ',denied,insufficient_credits,0.000000,,f'),
('pending binds', '0', 't', $$transfer('', 'a', 't', 0.000001)$$, '0.000000,denied,insufficient_credits,f'),
-- More than is held; twice; both directions
('more than held', '0', 'i', $$issue('', 'i', 20)$$, 'f'),
('more than held', '0', 'h', $$hold('', 'h', 10, '1 h')$$, 'granted,,10.000000,f'),
('more than held', '0', 'c', $$capture({h}, 'c', 10.000001)$$, '22023'),
('more than held', '0', 'c2', $$capture({h}, 'c', 10)$$, '10.000000,0.000000,0.000000,f,0.000000'),
('more in pieces', '0', 'i', $$issue('', 'i', 20)$$, 'f'),
('more in pieces', '0', 'h', $$hold('', 'h', 10, '1 h')$$, 'granted,,10.000000,f'),
('more in pieces', '0', 'c1', $$capture({h}, 'c1', 6, false)$$, '6.000000,0.000000,0.000000,f,0.000000'),
('more in pieces', '0', 'c2', $$capture({h}, 'c2', 4.000001, false)$$, '22023'),
('more in pieces', '0', 'c3', $$capture({h}, 'c3', 4, false)$$, '4.000000,0.000000,0.000000,f,0.000000'),
('more in pieces', '0', 'c4', $$capture({h}, 'c4', 0.000001, false)$$, '22023'),
('more in pieces', '0', 'c5', $$capture({h}, 'c5', 0)$$, '0.000000,0.000000,0.000000,f,0.000000'),
('double capture', '0', 'i', $$issue('', 'i', 20)$$, 'f'),
('double capture', '0', 'h', $$hold('', 'h', 10, '1 h')$$, 'granted,,10.000000,f'),
('double capture', '0', 'c', $$capture({h}, 'c', 10)$$, '10.000000,0.000000,0.000000,f,0.000000'),
('double capture', '0', 'c2', $$capture({h}, 'c2', 10)$$, 'UC003'),
('double capture', '0', 'c3', $$capture({h}, 'c', 10)$$, '10.000000,0.000000,0.000000,t,0.000000'),
('double capture', '0', 'r', $$release({h}, 'r')$$, 'UC003'),
('double release', '0', 'i', $$issue('', 'i', 20)$$, 'f'),
('double release', '0', 'h', $$hold('', 'h', 10, '1 h')$$, 'granted,,10.000000,f'),
('double release', '0', 'r', $$release({h}, 'r')$$, '10.000000,0.000000,f'),
('double release', '0', 'r2', $$release({h}, 'r2')$$, 'UC003'),
('double release', '0', 'r3', $$release({h}, 'r')$$, '10.000000,0.000000,t'),
('double release', '0', 'c', $$capture({h}, 'c', 1)$$, 'UC003'),
('no such hold', '0', 'c', $$capture(0, 'c', 1)$$, 'UC003'),
('no such hold', '0', 'r', $$release(0, 'r')$$, 'UC003'),
('no such hold', '0', 'f', $$refund_hold(0, 'f', 1, NULL)$$, 'UC003'),
-- Timeouts: a microsecond before, at the instant, and after it
('just in time', '0', 'i', $$issue('', 'i', 10)$$, 'f'),
('just in time', '0', 'h', $$hold('', 'h', 10, '10 s')$$, 'granted,,10.000000,f'),
('just in time', '9.999999 s', 'c', $$capture({h}, 'c', 10)$$, '10.000000,0.000000,0.000000,f,0.000000'),
('timed out', '0', 'i', $$issue('', 'i', 10)$$, 'f'),
('timed out', '0', 'h', $$hold('', 'h', 10, '10 s')$$, 'granted,,10.000000,f'),
('timed out', '10 s', 'c', $$capture({h}, 'c', 10)$$, 'UC003'),
('timed out', '10 s', 'b', $$balance('')$$, '10.000000,10.000000,0.000000,0.000000,0.000000,0.000000,0.000000,10.000000,,'),
('timed out', '10 s', 'h2', $$hold('', 'h2', 10, '10 s')$$, 'granted,,10.000000,f'),
('timed out', '10 s', 'c2', $$capture({h}, 'c2', 10)$$, 'UC003'),
('timed out', '10 s', 'r', $$release({h}, 'r')$$, '10.000000,0.000000,f'),
('timed out', '11 s', 'r2', $$release({h}, 'r2')$$, '10.000000,0.000000,f'),
('timed out', '11 s', 'b2', $$balance('')$$, '0.000000,0.000000,10.000000,0.000000,0.000000,0.000000,0.000000,0.000000,,'),
('part, then timed out', '0', 'i', $$issue('', 'i', 10)$$, 'f'),
('part, then timed out', '0', 'h', $$hold('', 'h', 10, '10 s')$$, 'granted,,10.000000,f'),
('part, then timed out', '5 s', 'c', $$capture({h}, 'c', 4, false)$$, '4.000000,0.000000,0.000000,f,0.000000'),
('part, then timed out', '10 s', 'c2', $$capture({h}, 'c2', 1)$$, 'UC003'),
('part, then timed out', '10 s', 'b', $$balance('')$$, '6.000000,6.000000,0.000000,0.000000,4.000000,0.000000,0.000000,6.000000,,'),
('part, then timed out', '10 s', 'c3', $$capture({h}, 'c', 4, false)$$, '4.000000,0.000000,0.000000,t,0.000000'),
-- Burn-down: the first to expire burns first; of one instant, the promotion
('soonest first', '0', 'never', $$issue('', 'i1', 5)$$, 'f'),
('soonest first', '0', 'late', $$issue('', 'i2', 5, 'grant', valid_for => '2 h')$$, 'f'),
('soonest first', '0', 'soon', $$issue('', 'i3', 5, 'paid', valid_for => '1 h')$$, 'f'),
('soonest first', '0', 'promo', $$issue('', 'i4', 5, 'promo', valid_for => '1 h')$$, 'f'),
('soonest first', '0', 'h', $$hold('', 'h', 12, '1 d')$$, 'granted,,12.000000,f'),
('soonest first', '0', 'b', $$balance('')$$, '8.000000,8.000000,12.000000,0.000000,0.000000,0.000000,3.000000,5.000000,3.000000'),
('priority beats expiry', '0', 'soon', $$issue('', 'i1', 5, valid_for => '1 h')$$, 'f'),
('priority beats expiry', '0', 'first', $$issue('', 'i2', 5, priority => 1)$$, 'f'),
('priority beats expiry', '0', 'h', $$hold('', 'h', 5, '1 d')$$, 'granted,,5.000000,f'),
('priority beats expiry', '0', 'b', $$balance('')$$, '5.000000,5.000000,5.000000,0.000000,0.000000,0.000000,0.000000,5.000000,5.000000'),
-- Active in [effective_at, expires_at), to the microsecond
('not yet', '0', 'i', $$issue('', 'i', 5, effective_at => '2035-01-01 01:00+00', valid_for => '1 h')$$, 'f'),
('not yet', '59 min 59.999999 s', 'h', $$hold('', 'h', 1, '1 d')$$, ',denied,insufficient_credits,0.000000,,f'),
('not yet', '1 h', 'h2', $$hold('', 'h2', 1, '1 d')$$, 'granted,,1.000000,f'),
('not yet', '1 h 59 min 59.999999 s', 'h3', $$hold('', 'h3', 1, '1 d')$$, 'granted,,1.000000,f'),
('not yet', '2 h', 'h4', $$hold('', 'h4', 1, '1 d')$$, ',denied,insufficient_credits,0.000000,,f'),
('not yet', '2 h', 'b', $$balance('')$$, '0.000000,0.000000,2.000000,0.000000,0.000000,0.000000,0.000000,0.000000,,'),
-- What was held before its bucket's end is good after it; what returns lapses
('held over the end', '0', 'i', $$issue('', 'i', 10, valid_for => '1 h')$$, 'f'),
('held over the end', '0', 'h', $$hold('', 'h', 10, '1 d')$$, 'granted,,10.000000,f'),
('held over the end', '1 h', 'c', $$capture({h}, 'c', 4, false)$$, '4.000000,0.000000,0.000000,f,0.000000'),
('held over the end', '2 h', 'c2', $$capture({h}, 'c2', 1)$$, '1.000000,0.000000,5.000000,f,0.000000'),
('held over the end', '3 h', 'f', $$refund_hold({h}, 'f', 2, NULL)$$, '0.000000,2.000000,f'),
('held over the end', '3 h', 'f2', $$refund_hold({h}, 'f2', 3.000001, NULL)$$, '22023'),
('held over the end', '3 h', 'b', $$balance('')$$, '0.000000,0.000000,0.000000,0.000000,3.000000,0.000000,0.000000,0.000000,,'),
('released at the end', '0', 'i', $$issue('', 'i', 10, valid_for => '1 h')$$, 'f'),
('released at the end', '0', 'h', $$hold('', 'h', 10, '1 d')$$, 'granted,,10.000000,f'),
('released at the end', '59 min 59.999999 s', 'c', $$capture({h}, 'c', 1, false)$$, '1.000000,0.000000,0.000000,f,0.000000'),
('released at the end', '1 h', 'r', $$release({h}, 'r')$$, '0.000000,9.000000,f'),
('released before it', '0', 'i', $$issue('', 'i', 10, valid_for => '1 h')$$, 'f'),
('released before it', '0', 'h', $$hold('', 'h', 10, '1 d')$$, 'granted,,10.000000,f'),
('released before it', '59 min 59.999999 s', 'r', $$release({h}, 'r')$$, '10.000000,0.000000,f'),
-- A hold and its bucket end at one instant: the credit lapses and is available
-- to nobody
('both at once', '0', 'i', $$issue('', 'i', 10, valid_for => '1 h')$$, 'f'),
('both at once', '0', 'h', $$hold('', 'h', 10, '1 h')$$, 'granted,,10.000000,f'),
('both at once', '1 h', 'b', $$balance('')$$, '0.000000,0.000000,0.000000,0.000000,0.000000,0.000000,0.000000,0.000000,,'),
('both at once', '1 h', 'r', $$release({h}, 'r')$$, '0.000000,10.000000,f'),
-- Burn-down through several grants to the last micro-credit, and no further
('to the last', '0', 'i1', $$issue('', 'i1', 0.000001, 'promo')$$, 'f'),
('to the last', '0', 'i2', $$issue('', 'i2', 0.000001, 'grant')$$, 'f'),
('to the last', '0', 'i3', $$issue('', 'i3', 0.000001)$$, 'f'),
('to the last', '0', 'h', $$hold('a', 'h', 0.000003, '1 h')$$, 'granted,,0.000003,f'),
('to the last', '0', 'h2', $$hold('a', 'h2', 0.000001, '1 h')$$, ',denied,insufficient_credits,0.000000,,f'),
('to the last', '0', 'c', $$capture({h}, 'c', 0.000002)$$, '0.000002,0.000001,0.000000,f,0.000000'),
('to the last', '0', 'b', $$balance('')$$, '0.000001,0.000001,0.000000,0.000000,0.000002,0.000000,0.000000,0.000001,,'),
-- Released while part of it is captured
('voided', '0', 'i', $$issue('', 'i', 10)$$, 'f'),
('voided', '0', 'h', $$hold('', 'h', 6, '1 d')$$, 'granted,,6.000000,f'),
('voided', '0', 'v', $$revoke({i}, 'v', 'a mistake')$$, '4.000000,f'),
('voided', '0', 'v2', $$revoke({i}, 'v2', 'again')$$, '0.000000,f'),
('voided', '0', 'c', $$capture({h}, 'c', 5)$$, '5.000000,0.000000,1.000000,f,0.000000'),
('voided', '0', 'f', $$refund_hold({h}, 'f', 5, NULL)$$, '0.000000,5.000000,f'),
('voided', '0', 'b', $$balance('')$$, '0.000000,0.000000,0.000000,0.000000,0.000000,0.000000,0.000000,0.000000,,');

SELECT count(DISTINCT story) AS stories, count(*) AS calls FROM steps;
-- the cases that differ from what was expected
CREATE TEMP TABLE played AS
SELECT p.* FROM (SELECT DISTINCT story FROM steps) s, LATERAL pg_temp.play(s.story) p;
SELECT count(*) AS played, count(*) FILTER (WHERE said ~ '^[0-9A-Z]{5}$') AS refused FROM played;
SELECT s.story, s.at, s.call, s.says, p.said FROM steps s JOIN played p USING (n)
WHERE s.says IS DISTINCT FROM p.said ORDER BY s.n;
SELECT v.* FROM (SELECT DISTINCT story FROM steps) s, verify('tp ' || s.story) v;

-- The same key with each argument changed in turn, for the keyed calls that
-- sql/request.sql does not have
SET gpucredit.clock = '2035-01-01 00:00+00';
SELECT create_account('tk'), create_account('tk', 'a'), create_account('tk', 'b') \g /dev/null
SELECT create_pool('tk') \g /dev/null
SELECT set_price('TK', 1), register_node('tk', 'tk1', 'TK', 8, 1000) \g /dev/null
SELECT bucket AS bucket FROM issue('tk', 'a', 'i1', 100) \gset
SELECT bucket AS other FROM issue('tk', 'a', 'i2', 100) \gset
SELECT hold AS hold FROM hold('tk', 'a', 'h1', 10, '1 h') \gset
SELECT hold AS hold2 FROM hold('tk', 'a', 'h2', 10, '1 h') \gset
SELECT captured FROM capture('tk', :hold, 'c1', 10);
SELECT captured FROM capture('tk', :hold2, 'c2', 10);
SELECT job AS job FROM reserve('tk', 'a', 'j1', '1xTK', '1 h', pool => 'tk') \gset
SELECT job AS job2 FROM reserve('tk', 'a', 'j2', '1xTK', '1 h', pool => 'tk') \gset
SELECT action FROM place('tk');
SET gpucredit.clock = '2035-01-01 01:00+00';
SELECT billed FROM settle('tk', :job, 1, 'completed', '1 h');
SELECT billed FROM settle('tk', :job2, 1, 'completed', '1 h');
CREATE TEMP TABLE keyed (n serial, fn text, args text[], changed text[]);
INSERT INTO keyed (fn, args, changed) VALUES
	('transfer', ARRAY[$$'tk'$$, $$'a'$$, $$'b'$$, $$'k1'$$, '5'],
		ARRAY[NULL, $$''$$, $$''$$, NULL, '5.000001']),
	('refund', ARRAY[$$'tk'$$, :'job', $$'k2'$$, '0.5', $$'slow'$$],
		ARRAY[NULL, :'job2', NULL, '0.4', 'NULL']),
	('refund_hold', ARRAY[$$'tk'$$, :'hold', $$'k3'$$, '5', 'NULL'],
		ARRAY[NULL, :'hold2', NULL, '4', $$''$$]),
	('revoke', ARRAY[$$'tk'$$, :'other', $$'k4'$$, $$'fraud'$$],
		ARRAY[NULL, :'bucket', NULL, $$'Fraud'$$]);
CREATE FUNCTION pg_temp.state_of(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	replayed boolean;
BEGIN
	EXECUTE 'SELECT replayed FROM gpucredit.' || call INTO replayed;
	RETURN CASE WHEN replayed THEN 'replayed' ELSE 'new' END;
EXCEPTION WHEN others THEN
	RETURN SQLSTATE;
END $$;
SELECT fn, pg_temp.state_of(format('%s(%s)', fn, array_to_string(args, ', '))) AS first,
	pg_temp.state_of(format('%s(%s)', fn, array_to_string(args, ', '))) AS again
FROM keyed ORDER BY n;
SELECT k.fn, p.proargnames[i] AS changed, pg_temp.state_of(format('%s(%s)', k.fn,
	array_to_string(k.args[:i - 1] || k.changed[i] || k.args[i + 1:], ', '))) AS state
FROM keyed k, pg_proc p, generate_subscripts(k.args, 1) i
WHERE p.pronamespace = 'gpucredit'::regnamespace AND p.proname = k.fn
	AND k.changed[i] IS NOT NULL
ORDER BY k.n, i;
SELECT fn, pg_temp.state_of(format('%s(%s)', fn, array_to_string(args, ', '))) AS again
FROM keyed ORDER BY n;
-- each took effect once
SELECT account, kind, available, spent, revoked, moved FROM buckets('tk', 'a');
SELECT * FROM verify('tk');

-- A refused caller hears why, and what to do instead.
CREATE FUNCTION pg_temp.advice(call text, OUT detail text, OUT hint text)
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'SELECT gpucredit.' || call;
EXCEPTION WHEN SQLSTATE 'UC003' THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
END $$;
RESET gpucredit.clock;
SELECT count(set_price('TPH', 1)), count(register_node('default', 'tph', 'TPH', 1, 1024)),
	count(issue('tk', 'a', 'more', 10));
SELECT status FROM reserve('tk', 'a', 'a job''s', '1xTPH', '1 hour');
SELECT max(hold) AS of_job FROM gpucredit.hold WHERE org = 'tk' AND job IS NOT NULL \gset
SELECT hold AS own FROM hold('tk', 'a', 'own', 1, '1 hour') \gset
SELECT captured FROM capture('tk', :own, 'own captured', 1);
SELECT c.call, c.of, a.* FROM (VALUES (1, 'capture', 'none', -1, ', 1'), (2, 'capture', 'a job''s', :of_job, ', 1'),
	(3, 'capture', 'closed', :own, ', 1'), (4, 'release', 'none', -1, ''), (5, 'release', 'closed', :own, '')) c (n, call, of, hold, rest),
	pg_temp.advice(format('%s(''tk'', %s, ''late''%s)', c.call, c.hold, c.rest)) a ORDER BY c.n;
-- The clock is set back: recorded ends stand; what ended by the clock alone is
-- open again until its time
SET gpucredit.clock = '2030-01-01 00:00+00';
SELECT create_account('tb'), issue('tb', '', 'short', 10, valid_for => '1 hour') \g /dev/null
SELECT hold AS back FROM hold('tb', '', 'back', 3, '10 min') \gset
SET gpucredit.clock = '2030-01-01 02:00+00';
SELECT available, held FROM balance('tb');
SET gpucredit.clock = '2030-01-01 00:05+00';
SELECT available, held FROM balance('tb');
SET gpucredit.clock = '2030-01-01 02:00+00';
SELECT lapsed FROM release('tb', :back, 'back r');
SELECT count(*) FROM expire_credits() WHERE affected > 0;
SET gpucredit.clock = '2030-01-01 00:05+00';
SELECT available, held FROM balance('tb');
\set VERBOSITY sqlstate
SELECT captured FROM capture('tb', :back, 'back c', 1);
SELECT * FROM verify('tb');
