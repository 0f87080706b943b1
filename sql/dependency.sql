--
-- Jobs that wait for other jobs, for an instant, or for their release; arrays;
-- and what such a job pays.  Output is unaligned, so that each result stands in
-- one line.
--
SET search_path = gpucredit, public;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
SET gpucredit.node_suspect = 0;
SET gpucredit.node_lost = 0;
SET gpucredit.clock = '2036-01-01 00:00+00';
\pset format unaligned
\pset tuples_only on
\pset null '-'
SELECT create_pool('dp'), create_pool('dp-slurm', '{"placed_by": "foreign"}'),
	set_price('DpA', 1), register_node('dp', 'dp-1', 'DpA', 16, 80000),
	register_node('dp-slurm', 'dp-s', 'DpA', 4, 80000),
	create_account('dp'), create_account('dp', 'a'), create_account('dp', 'b'),
	create_account('dq') \g /dev/null
SELECT count(issue('dp', '', 'paid', 1000)), count(issue('dq', '', 'paid', 1000)) \g /dev/null
CREATE FUNCTION pg_temp.at(text) RETURNS void LANGUAGE sql AS
$$ SELECT set_config('gpucredit.clock', $1, false) $$;
CREATE FUNCTION pg_temp.id(k text) RETURNS bigint LANGUAGE sql AS
$$ SELECT max(r.result[1]::bigint) FROM gpucredit.request r
	WHERE r.operation = 'reserve' AND r.org IN ('dp', 'dq') AND r.key = k $$;
-- <key> in a text stands for the number of the job with this key, and back.
CREATE FUNCTION pg_temp.numbers(said text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	name text;
BEGIN
	FOR name IN SELECT m[1] FROM regexp_matches(said, '<([a-z0-9 ]+)>', 'g') m LOOP
		said := replace(said, '<' || name || '>', coalesce(pg_temp.id(name), 0)::text);
	END LOOP;
	RETURN said;
END $$;
CREATE FUNCTION pg_temp.names(said text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	name record;
BEGIN
	FOR name IN SELECT r.key, r.result[1] AS job FROM gpucredit.request r
		WHERE r.operation = 'reserve' AND r.org IN ('dp', 'dq') AND r.result[1] IS NOT NULL
	LOOP
		said := regexp_replace(said, '(\mjob |:)' || name.job || '(?!\d)',
			'\1<' || name.key || '>', 'g');
	END LOOP;
	RETURN said;
END $$;
CREATE FUNCTION pg_temp.try(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
	detail text;
BEGIN
	EXECUTE 'SELECT (' || pg_temp.numbers(call) || ')::text' INTO result;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN pg_temp.names(sqlstate || ' ' || sqlerrm || ': ' || detail);
END $$;
CREATE FUNCTION pg_temp.ask(k text, options text DEFAULT '{}', account text DEFAULT 'a',
	org text DEFAULT 'dp', pool text DEFAULT 'dp', request text DEFAULT '1xDpA') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	RETURN (SELECT coalesce(r.reason, r.status) || CASE WHEN r.replayed THEN ', replayed' ELSE '' END
		FROM gpucredit.reserve(org, account, k, request, '1 hour', pool => ask.pool,
			max_retries => 0, options => pg_temp.numbers(ask.options)::jsonb) r);
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN sqlstate || ' ' || sqlerrm || ': ' || detail;
END $$;
-- What a cycle does, in the order of submission
CREATE FUNCTION pg_temp.go(pool text DEFAULT 'dp') RETURNS text LANGUAGE sql AS
$$ SELECT coalesce(string_agg(p.action || ' ' || r.key || coalesce(': ' || p.reason, ''), ', '
		ORDER BY p.job), 'nothing')
	FROM gpucredit.place($1) p JOIN gpucredit.request r ON r.org = p.org
		AND r.operation = 'reserve' AND r.result[1] = p.job::text $$;
CREATE FUNCTION pg_temp.finish(k text, how text DEFAULT 'completed') RETURNS text LANGUAGE sql AS
$$ SELECT s.job_state FROM gpucredit.job j, gpucredit.settle(j.org, j.job, j.attempt, how) s
	WHERE j.job = pg_temp.id(k) $$;
CREATE FUNCTION pg_temp.state(k text) RETURNS text LANGUAGE sql AS
$$ SELECT j.state FROM gpucredit.jobs j WHERE j.job = pg_temp.id(k) $$;
CREATE FUNCTION pg_temp.why(k text) RETURNS SETOF text LANGUAGE sql AS
$$ SELECT e.check_name || ': ' || pg_temp.names(e.detail)
	FROM gpucredit.job j, gpucredit.explain(j.org, j.job) e
	WHERE j.job = pg_temp.id(k) AND e.check_name IN ('dependency', 'hold', 'begin', 'array', 'deadline', 'price') $$;

-- afterok: the parent must complete.
SELECT pg_temp.ask('parent');
SELECT pg_temp.ask('child', '{"after": "afterok:<parent>"}');
SELECT pg_temp.ask('grandchild', '{"after": "afterok:<child>"}');
SELECT pg_temp.go();
SELECT pg_temp.go();
SELECT pg_temp.why('child');
SELECT pg_temp.finish('parent');
SELECT pg_temp.go();
SELECT pg_temp.finish('child'), pg_temp.go();
SELECT pg_temp.finish('grandchild');
-- What waited for others is audited as it becomes eligible.
SELECT decision, pg_temp.names(':' || reason) FROM audit WHERE job = pg_temp.id('child')
	AND operation = 'place' ORDER BY audit;

-- Each condition, after a parent that completes and after one that fails.
SELECT pg_temp.ask('good'), pg_temp.ask('bad'), pg_temp.go();
SELECT string_agg(pg_temp.ask(word || ' ' || parent, format('{"after": "%s:<%s>"}', word, parent)), ' '
		ORDER BY parent, word)
	FROM unnest(ARRAY['after', 'afterany', 'afterok', 'afternotok']) word, unnest(ARRAY['good', 'bad']) parent;
SELECT pg_temp.finish('good'), pg_temp.finish('bad', 'failed');
SELECT regexp_split_to_table(pg_temp.go(), ', ') COLLATE "C" AS started ORDER BY 1;
SELECT pg_temp.why('afterok bad');
SELECT pg_temp.state('afterok bad'), pg_temp.state('afternotok good');
SELECT reason FROM queue('dp') WHERE job = pg_temp.id('afterok bad');
SELECT count(*) FROM job j, cancel(j.org, j.job, 'c' || j.job) WHERE j.pool = 'dp' AND j.state = 'queued';
SELECT count(pg_temp.finish(word)) FROM unnest(ARRAY['after good', 'after bad', 'afterany good',
	'afterany bad', 'afterok good', 'afternotok bad']) word;

-- kill_on_invalid_dep: the cycle that finds that it can never hold cancels it,
-- and its credit returns.
SELECT pg_temp.ask('fails'), pg_temp.go();
SELECT pg_temp.ask('killed', '{"after": "afterok:<fails>", "kill_on_invalid_dep": true}');
SELECT held FROM balance('dp');
SELECT pg_temp.finish('fails', 'failed');
SELECT action, reason FROM plan('dp');
SELECT pg_temp.go();
SELECT pg_temp.state('killed'), held FROM balance('dp');
SELECT pg_temp.go();

-- "," asks for all, "?" for one; minutes count from the begin.
SELECT pg_temp.ask('one'), pg_temp.ask('two'), pg_temp.go();
SELECT pg_temp.ask('all', '{"after": "afterok:<one>:<two>"}'),
	pg_temp.ask('any', '{"after": "afterok:<one>?afterok:<two>"}'),
	pg_temp.ask('later', '{"after": "after:<one>+5"}');
SELECT pg_temp.finish('two', 'failed'), pg_temp.go();
SELECT pg_temp.at('2036-01-01 00:04:59.999999+00'), pg_temp.go();
SELECT pg_temp.at('2036-01-01 00:05+00'), pg_temp.go();
SELECT pg_temp.finish('one'), pg_temp.go();
SELECT pg_temp.why('all');
SELECT pg_temp.finish('any'), pg_temp.finish('later'), job_state
	FROM cancel('dp', pg_temp.id('all'), 'stop all');

-- A parent that is queued again has not ended, and has begun.  A job whose
-- dependency held once is not asked again when it is queued again itself.
SELECT pg_temp.ask('again'), pg_temp.go();
SELECT pg_temp.ask('ended', '{"after": "afterany:<again>"}'),
	pg_temp.ask('begun', '{"after": "after:<again>"}');
SELECT pg_temp.finish('again', 'preempted'), pg_temp.go();
SELECT pg_temp.finish('begun', 'preempted'), pg_temp.go();
SELECT pg_temp.finish('again', 'failed'), pg_temp.go();
SELECT pg_temp.finish('begun'), pg_temp.finish('ended');
-- A parent that is cancelled before it began has ended.
SELECT pg_temp.ask('never', '{"hold": true}'), pg_temp.ask('after never', '{"after": "after:<never>"}'),
	pg_temp.go();
SELECT job_state, pg_temp.go() FROM cancel('dp', pg_temp.id('never'), 'stop never');
SELECT pg_temp.finish('after never');

-- No dependencies form a cycle: a job names only jobs that exist.
SELECT pg_temp.ask('self', '{"after": "afterok:9223372036854775807"}');
SELECT pg_temp.ask('foreign one', '{}', '', 'dq');
-- Another organisation's job is refused in the same words.
SELECT count(DISTINCT regexp_replace(pg_temp.ask('spy', v), 'job \d+', 'job N')) AS answers
	FROM (VALUES ('{"after": "afterany:<foreign one>"}'), ('{"after": "afterany:9223372036854775807"}')) v (v);
-- So is a job of an account that a tenant is not bound to.
CREATE ROLE regress_dp_tenant;
GRANT gpucredit_tenant TO regress_dp_tenant;
SELECT bind_tenant('regress_dp_tenant', 'dp', 'a') \g /dev/null
SELECT pg_temp.ask('of a', '{"hold": true}'), pg_temp.ask('of b', '{"hold": true}', 'b');
SELECT pg_temp.numbers('<of a>') AS of_a, pg_temp.numbers('<of b>') AS of_b \gset
SET ROLE regress_dp_tenant;
\set VERBOSITY sqlstate
SELECT status FROM reserve('dp', 'a', 't1', '1xDpA', '1 hour', pool => 'dp',
	options => format('{"after": "afterok:%s"}', :of_a)::jsonb);
SELECT status FROM reserve('dp', 'a', 't2', '1xDpA', '1 hour', pool => 'dp',
	options => format('{"after": "afterok:%s"}', :of_b)::jsonb);
SELECT job_state, held_by FROM hold_job('dp', :of_b, 't3');
SELECT job_state, held_by FROM release_job('dp', :of_b, 't4');
SELECT job_state, held_by, replayed FROM release_job('dp', :of_a, 't5');
SELECT job_state, held_by, replayed FROM release_job('dp', :of_a, 't5');
SELECT job_state, held_by, replayed FROM hold_job('dp', :of_a, 't6', 'not yet');
SELECT job_state, held_by, replayed FROM hold_job('dp', :of_a, 't5');
SELECT job_state FROM release_job('dp', 9223372036854775807, 't7');
RESET ROLE;
\set VERBOSITY default
SELECT count(*) FROM job j, cancel(j.org, j.job, 'd' || j.job) WHERE j.pool = 'dp' AND j.state = 'queued';

-- A repeated call is answered as before, whatever became of the parent; other
-- options under the same key are another call.
SELECT pg_temp.ask('p'), pg_temp.go(), pg_temp.ask('c', '{"after": "afterok:<p>"}');
SELECT pg_temp.finish('p', 'failed'), pg_temp.ask('c', '{"after": "afterok:<p>"}');
SELECT substr(pg_temp.ask('c', '{"after": "afternotok:<p>"}'), 1, 5);
SELECT job_state FROM cancel('dp', pg_temp.id('c'), 'stop c');

-- singleton: one after the other, by name and account.
SELECT pg_temp.ask('s1', '{"name": "train", "after": "singleton"}'),
	pg_temp.ask('s2', '{"name": "train", "after": "singleton"}'),
	pg_temp.ask('s3', '{"name": "train"}'),
	pg_temp.ask('s4', '{"name": "train", "after": "singleton"}'),
	pg_temp.ask('s5', '{"name": "train", "after": "singleton"}', 'b'),
	pg_temp.ask('s6', '{"name": "other", "after": "singleton"}');
SELECT pg_temp.go();
SELECT pg_temp.finish('s1', 'failed'), pg_temp.go();
SELECT pg_temp.finish('s2'), pg_temp.go();
SELECT pg_temp.finish('s3'), pg_temp.go();
SELECT pg_temp.finish('s4'), pg_temp.finish('s5'), pg_temp.finish('s6');

-- An array: so many at once, in the order of submission.
SELECT string_agg(pg_temp.ask('t' || n, format('{"array": "sweep", "task": %s, "at_most": 2}', n)), ' ' ORDER BY n)
	FROM generate_series(1, 4) n;
-- aftercorr: each task after the task of the same number; 12_3 and 12_*.
SELECT string_agg(pg_temp.ask('u' || n, format('{"array": "use", "task": %s, "after": "aftercorr:<t1>"}', n)), ' ' ORDER BY n)
	FROM generate_series(1, 4) n;
SELECT pg_temp.ask('third', '{"after": "afterok:<t1>_3"}'), pg_temp.ask('whole', '{"after": "afterany:<t1>_*"}'),
	pg_temp.ask('each ok', '{"after": "afterok:<t1>_*", "kill_on_invalid_dep": true}');
SELECT pg_temp.go();
SELECT pg_temp.why('t3');
SELECT pg_temp.finish('t1'), pg_temp.go();
SELECT pg_temp.finish('t2', 'failed'), pg_temp.go();
SELECT pg_temp.finish('t3'), pg_temp.finish('t4'), pg_temp.go();
SELECT pg_temp.state('u2'), count(pg_temp.finish(k)) FROM unnest(ARRAY['u1', 'u3', 'u4', 'third', 'whole']) k;
SELECT job_state FROM cancel('dp', pg_temp.id('u2'), 'stop u2');

-- begin and deadline
SELECT pg_temp.ask('at noon', '{"begin": "2036-01-01 12:00+00"}'),
	pg_temp.ask('by ten', '{"deadline": "2036-01-01 10:00+00", "hold": true}'), pg_temp.go();
SELECT pg_temp.why('at noon');
SELECT pg_temp.at('2036-01-01 09:00:00.000001+00'), job_state FROM release_job('dp', pg_temp.id('by ten'), 'r1');
SELECT pg_temp.go();
SELECT pg_temp.at('2036-01-01 12:00+00'), pg_temp.go();
SELECT waited FROM job WHERE job = pg_temp.id('at noon');
SELECT pg_temp.finish('at noon');

-- Who holds a job, and who releases it.
SELECT pg_temp.ask('mine', '{"hold": true}'), pg_temp.go();
SELECT pg_temp.why('mine');
SELECT pg_temp.numbers('<mine>') AS mine \gset
SELECT job_state, held_by FROM hold_job('dp', :mine, 'h1');
SET ROLE gpucredit_app;
\set VERBOSITY terse
SELECT job_state, held_by FROM hold_job('dp', :mine, 'h2');
\set VERBOSITY sqlstate
SELECT job_state, held_by FROM release_job('dp', :mine, 'h3');
RESET ROLE;
SELECT job_state, held_by FROM release_job('dp', :mine, 'h4');
SELECT pg_temp.go();
SELECT job_state, held_by FROM hold_job('dp', :mine, 'h5');
SELECT pg_temp.finish('mine');
SELECT job_state, held_by FROM release_job('dp', :mine, 'h6');
\set VERBOSITY default

-- A job that kept itself from starting pays the prices in force once it may: no
-- price rise, no expiry and no end of a budget's period is escaped by waiting.
SELECT pg_temp.ask('held', '{"hold": true}'), pg_temp.ask('begins', '{"begin": "2036-01-01 13:00+00"}'),
	pg_temp.ask('waits', '{"after": "afterany:<held>"}'), pg_temp.ask('same day', '{"hold": true}');
SELECT hold AS before FROM job WHERE job = pg_temp.id('same day') \gset
SELECT job_state, pg_temp.go() FROM release_job('dp', pg_temp.id('same day'), 'r2');
SELECT hold = :before AS same_hold FROM job WHERE job = pg_temp.id('same day');
SELECT pg_temp.at('2036-01-01 12:30+00'), set_price('DpA', 3);
SELECT pg_temp.at('2036-01-01 13:00+00'), job_state FROM release_job('dp', pg_temp.id('held'), 'r3');
SELECT action FROM plan('dp');
SELECT pg_temp.go();
SELECT pg_temp.go();
SELECT pg_temp.finish('held'), pg_temp.go();
SELECT pg_temp.go();
SELECT r.key, a.per_gpu_hour FROM attempt a JOIN request r ON r.org = a.org AND r.operation = 'reserve'
		AND r.result[1] = a.job::text
	WHERE r.key IN ('held', 'begins', 'waits', 'same day') ORDER BY 1;
SELECT * FROM verify();
SELECT pg_temp.finish('begins'), pg_temp.finish('waits'), pg_temp.finish('same day');
-- A fall of the price counts as well; the next day counts as a change.
SELECT pg_temp.ask('cheaper', '{"hold": true}'), pg_temp.ask('tomorrow', '{"hold": true}');
SELECT pg_temp.at('2036-01-01 14:00+00'), set_price('DpA', 2);
SELECT pg_temp.at('2036-01-01 15:00+00'), job_state FROM release_job('dp', pg_temp.id('cheaper'), 'r4');
SELECT pg_temp.go(), pg_temp.go();
SELECT held FROM jobs WHERE job = pg_temp.id('cheaper');
SELECT hold AS before FROM job WHERE job = pg_temp.id('tomorrow') \gset
SELECT pg_temp.at('2036-01-02 00:00+00'), job_state FROM release_job('dp', pg_temp.id('tomorrow'), 'r5');
SELECT pg_temp.go(), pg_temp.go();
SELECT hold = :before AS same_hold FROM job WHERE job = pg_temp.id('tomorrow');
SELECT pg_temp.finish('cheaper'), pg_temp.finish('tomorrow');
-- A task that waited for its turn in its array.
SELECT pg_temp.ask('x1', '{"array": "x", "at_most": 1}'), pg_temp.ask('x2', '{"array": "x", "at_most": 1}'), pg_temp.go();
SELECT pg_temp.at('2036-01-02 01:00+00'), set_price('DpA', 4);
SELECT pg_temp.at('2036-01-02 02:00+00'), pg_temp.finish('x1'), pg_temp.go(), pg_temp.go();
SELECT per_gpu_hour FROM attempt WHERE job = pg_temp.id('x2');
SELECT pg_temp.finish('x2');
-- Credit that expired while a hold kept it is gone; without other credit the job
-- is unfunded.  A held job gets none.
SELECT create_account('dp2') \g /dev/null
SELECT count(issue('dp2', '', 'promo', 4, 'promo', '2036-01-02 04:00+00')) \g /dev/null
SELECT job AS promo, status, held FROM reserve('dp2', '', 'j', '1xDpA', '1 hour', pool => 'dp', options => '{"hold": true}') \gset
SELECT :'status', :held;
SELECT pg_temp.at('2036-01-02 05:00+00'), job_state FROM release_job('dp2', :promo, 'r6');
SELECT count(*) FROM place('dp');
SELECT j.state, h.lapsed, h.held FROM jobs j, hold h WHERE j.job = :promo AND h.org = 'dp2' AND h.job = j.job;
SELECT job_state, held_by FROM hold_job('dp2', :promo, 'h7');
SELECT count(issue('dp2', '', 'paid', 10));
SELECT count(*) FROM place('dp');
SELECT state FROM jobs WHERE job = :promo;
SELECT job_state, held_by FROM release_job('dp2', :promo, 'h8');
SELECT action FROM place('dp');
SELECT job_state FROM settle('dp2', :promo, 1, 'completed');
SELECT * FROM verify();

-- Where another scheduler places, a job that may not start is refused.
SELECT pg_temp.ask('f1', '{"hold": true}', pool => 'dp-slurm'), pg_temp.ask('f2', '{"after": "afterany:<f1>"}', pool => 'dp-slurm'),
	pg_temp.ask('f3', '{"array": "f", "at_most": 1}', pool => 'dp-slurm'), pg_temp.ask('f4', '{"array": "f", "at_most": 1}', pool => 'dp-slurm');
SELECT pg_temp.try($$placed('dp', <f1>, 'q1', '{dp-s}', '{"{0}"}')$$);
SELECT pg_temp.try($$placed('dp', <f2>, 'q2', '{dp-s}', '{"{0}"}')$$);
SELECT pg_temp.try($$placed('dp', <f4>, 'q4', '{dp-s}', '{"{1}"}')$$);
SELECT pg_temp.try($$placed('dp', <f3>, 'q3', '{dp-s}', '{"{2}"}')$$);
SELECT job_state FROM cancel('dp', pg_temp.id('f1'), 'stop f1');
SELECT pg_temp.try($$placed('dp', <f2>, 'q2', '{dp-s}', '{"{0}"}')$$);
SELECT pg_temp.finish('f2'), pg_temp.finish('f4'), job_state FROM cancel('dp', pg_temp.id('f3'), 'stop f3');

-- plan_with honours what hypothetical jobs ask for, and writes nothing.
SELECT pg_temp.ask('real', '{"hold": true}');
SELECT action, job, reason FROM plan_with('dp', pg_temp.numbers('{"jobs": [
	{"org": "dp", "account": "a", "request": "1xDpA", "wall_limit": "1 h"},
	{"org": "dp", "account": "a", "request": "1xDpA", "wall_limit": "1 h", "options": {"hold": true}, "count": 2},
	{"org": "dp", "account": "a", "request": "1xDpA", "wall_limit": "1 h", "options": {"after": "afterok:<real>"}},
	{"org": "dp", "account": "a", "request": "1xDpA", "wall_limit": "1 h", "options": {"after": "afterok:<bad>"}},
	{"org": "dp", "account": "a", "request": "1xDpA", "wall_limit": "1 h", "options": {"after": "afterany:<bad>"}},
	{"org": "dp", "account": "a", "request": "1xDpA", "wall_limit": "1 h", "options": {"begin": "2036-02-01 00:00+00"}},
	{"org": "dp", "account": "a", "request": "1xDpA", "wall_limit": "1 h", "options": {"array": "y", "at_most": 2}, "count": 3}]}')::jsonb)
	ORDER BY job DESC;
SELECT job_state FROM cancel('dp', pg_temp.id('real'), 'stop real');

-- What jobs with a label have cost
SELECT pg_temp.at('2036-01-02 05:10+00'), pg_temp.ask('l1', '{"labels": {"model": "llama", "team": "x"}}'),
	pg_temp.ask('l2', '{"labels": {"model": "gpt"}}'), pg_temp.ask('l3'), pg_temp.go();
SELECT pg_temp.at('2036-01-02 05:40+00');
SELECT count(settle('dp', pg_temp.id(k), 1, 'completed', '30 min'))
	FROM unnest(ARRAY['l1', 'l2', 'l3']) k;
SELECT item, spent, gpu_hours, jobs FROM usage_by('dp', 'a', '2036-01-02 05:10+00', by => 'label:model,tier');
SELECT item, spent, keys FROM usage_by('dp', 'a', '2036-01-02 05:10+00', by => 'label:team');
SELECT pg_temp.try($$(SELECT count(*) FROM usage_by('dp', by => 'label:'))$$);

-- Words that are refused
SELECT v, pg_temp.ask('refused', v) FROM (VALUES
	('{"after": "afterok"}'), ('{"after": ""}'), ('{"after": "afterok:x"}'), ('{"after": "afterok:1,afterany:1?afterok:1"}'),
	('{"after": "singleton"}'), ('{"after": "afterok:1+5"}'), ('{"after": "aftercorr:1", "array": "z"}'),
	('{"at_most": 1}'), ('{"task": 1}'), ('{"kill_on_invalid_dep": true}'), ('{"array": "z", "at_most": 0}'),
	('{"begin": "2038-01-01 00:00+00"}'), ('{"deadline": "2035-01-01 00:00+00"}'), ('{"begin": "infinity"}'),
	('{"hold": "yes"}'), ('{"labels": {"a": 1}}'), ('{"name": ""}')) v (v);

SELECT count(*) FROM job WHERE pool LIKE 'dp%' AND ended_at IS NULL AND org IN ('dp', 'dp2');
SELECT * FROM verify();
SELECT unbind_tenant('regress_dp_tenant', 'dp', 'a') \g /dev/null
DROP ROLE regress_dp_tenant;
-- However many jobs of an array are named, it is read once, and not job by job
SELECT create_account('wide'), issue('wide', '', 'i', 1000), create_pool('wide'),
	set_price('Wide', 1, 'wide'), register_node('wide', 'wide-1', 'Wide', 1, 1000) \g /dev/null
SELECT count(r) FROM generate_series(1, 300) n, reserve('wide', '', 'w' || n, '1xWide', wall_limit => '1 hour', pool => 'wide',
	options => '{"array": "w"}') r;
SELECT count(c) FROM (SELECT job FROM job WHERE org = 'wide' ORDER BY job LIMIT 299) j, cancel('wide', j.job, 'c' || j.job) c;
SELECT count(r) FROM reserve('wide', '', 'after', '1xWide', wall_limit => '1 hour', pool => 'wide',
	options => jsonb_build_object('after', (SELECT 'afterany:' || string_agg(j.job || '_*', ':')
		FROM (SELECT job FROM job WHERE org = 'wide' ORDER BY job LIMIT 64) j))) r;
BEGIN;
CREATE TEMP VIEW fetched AS SELECT idx_tup_fetch AS n
FROM pg_stat_xact_user_tables WHERE relid = 'gpucredit.job'::regclass;
SELECT n AS before FROM fetched \gset
SELECT count(*) FROM plan('wide');
SELECT n - :before < 300 AS few FROM fetched;
ROLLBACK;
SELECT * FROM verify('wide');
