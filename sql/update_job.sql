-- update_job: the name, labels and priority of a job change while it waits or
-- runs, and nothing that it pays for does.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set check :folder '/sql/include/check.sql'
\i :check
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET gpucredit.clock = '2027-07-01 00:00+00';

DO $$
BEGIN
	PERFORM gpucredit.create_pool('uj');
	PERFORM gpucredit.set_price('UJ-A', 1);
	PERFORM gpucredit.register_node('uj', 'uj-1', 'UJ-A', 2, 40960);
	PERFORM gpucredit.create_account('uj');
	PERFORM gpucredit.create_account('uj', 'ann'), gpucredit.create_account('uj', 'ben');
	PERFORM gpucredit.create_account('uj-other');
	PERFORM gpucredit.issue('uj', '', 'i', 1000);
END $$;

CREATE FUNCTION pg_temp.submit(key text, options jsonb DEFAULT '{}') RETURNS bigint LANGUAGE sql AS $$
	SELECT r.job FROM gpucredit.reserve('uj', 'ann', submit.key, '2xUJ-A', '1 h', pool => 'uj', options => submit.options) r
$$;
CREATE FUNCTION pg_temp.update(job bigint, key text, changes jsonb) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', u.job_state, CASE WHEN u.replayed THEN 'replayed' END)
	FROM gpucredit.update_job('uj', update.job, update.key, update.changes) u
$$;
-- The columns and options of a job that can change
CREATE FUNCTION pg_temp.job(job bigint) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', j.name, j.priority, j.options) FROM gpucredit.job j WHERE j.org = 'uj' AND j.job = $1
$$;
-- The error of a change, and its detail
CREATE FUNCTION pg_temp.refusal(job bigint, changes text, org text DEFAULT 'uj') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	PERFORM gpucredit.update_job(org, job, 'refused', changes::jsonb);
	RETURN 'none';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN concat_ws(': ', SQLSTATE, SQLERRM, detail);
END $$;
-- All else of a job, its credit included
CREATE FUNCTION pg_temp.rest(job bigint) RETURNS text LANGUAGE sql AS $$
	SELECT md5((to_jsonb(j) - '{options,name,priority}'::text[])::text || to_jsonb(h)::text)
	FROM gpucredit.job j JOIN gpucredit.hold h USING (org, hold) WHERE j.org = 'uj' AND j.job = $1
$$;

\echo A job that waits
SELECT pg_temp.submit('first') AS first, pg_temp.submit('second', '{"name": "old", "prefer": "node", "labels": {"comment": "mine", "model": "m"}}') AS second \gset
SELECT pg_temp.rest(:second) AS rest \gset
SELECT pg_temp.check_value('a name, a label and a priority', pg_temp.update(:second, 'u1', '{"name": "new", "priority": 5, "labels": {"comment": "ours", "wckey": "w"}}'), 'queued');
SELECT pg_temp.check_value('labels that are not named stay', pg_temp.job(:second),
	'new 5 {"name": "new", "labels": {"model": "m", "wckey": "w", "comment": "ours"}, "prefer": "node", "priority": 5}');
SELECT pg_temp.check_value('all else is as before', pg_temp.rest(:second), :'rest');
SELECT pg_temp.check_value('the same call again changes nothing', pg_temp.update(:second, 'u1', '{"name": "new", "priority": 5, "labels": {"comment": "ours", "wckey": "w"}}'), 'queued replayed');
SELECT pg_temp.check_error('its key is for one change', format($$SELECT pg_temp.update(%s, 'u1', '{"name": "x"}')$$, :second), 'UC201');
SELECT pg_temp.check_error('and for one job', format($$SELECT pg_temp.update(%s, 'u1', '{"name": "new", "priority": 5, "labels": {"comment": "ours", "wckey": "w"}}')$$, :first), 'UC201');
SELECT pg_temp.check_value('another change', pg_temp.update(:second, 'u2', '{"name": "third"}'), 'queued');
SELECT pg_temp.check_value('a replay of the first', pg_temp.update(:second, 'u1', '{"name": "new", "priority": 5, "labels": {"comment": "ours", "wckey": "w"}}'), 'queued replayed');
SELECT pg_temp.check_value('does not bring it back', split_part(pg_temp.job(:second), ' ', 1), 'third');
SELECT pg_temp.check_value('null removes a label', pg_temp.update(:second, 'u3', '{"labels": {"comment": null, "none": null}}'), 'queued');
SELECT pg_temp.check_value('and no other', pg_temp.job(:second), 'third 5 {"name": "third", "labels": {"model": "m", "wckey": "w"}, "prefer": "node", "priority": 5}');
SELECT pg_temp.check_value('null removes a name', pg_temp.update(:second, 'u4', '{"name": null, "labels": null}'), 'queued');
SELECT pg_temp.check_value('and all labels', pg_temp.job(:second), '5 {"prefer": "node", "priority": 5}');
SELECT pg_temp.check_value('a job that had no options', pg_temp.update(:first, 'u5', '{"labels": {"a": "b"}}'), 'queued');
SELECT pg_temp.check_value('has some', pg_temp.job(:first), '0 {"labels": {"a": "b"}}');
SELECT pg_temp.check_none('verify()', $$SELECT * FROM gpucredit.verify('uj')$$);

\echo Its place
SELECT count(*) AS beats FROM gpucredit.heartbeat('uj-1') \gset
SELECT pg_temp.check_rows('the job with the higher priority starts first', $$SELECT p.action, p.job = $$ || :second || $$ AS second FROM gpucredit.place('uj') p$$, $$
	action | second
	start | true
$$);

\echo A job that runs, and one that is over
SELECT pg_temp.check_value('a job that runs can be renamed', pg_temp.update(:second, 'u6', '{"name": "runs", "priority": null}'), 'active');
SELECT pg_temp.check_value('its priority is the default', pg_temp.job(:second), 'runs 0 {"name": "runs", "prefer": "node"}');
CALL pg_temp.act(format($$SELECT gpucredit.settle('uj', %s, 1, 'completed', '10 min')$$, :second));
SELECT pg_temp.check_value('one that is over cannot', pg_temp.refusal(:second, '{"name": "x"}'), format('UC303: job %s is over: Its state is completed.', :second));
SELECT pg_temp.check_value('but a replay has its answer', pg_temp.update(:second, 'u6', '{"name": "runs", "priority": null}'), 'active replayed');

\echo Refusals
SELECT pg_temp.check_value('what is priced', pg_temp.refusal(:first, '{"wall_limit": "9 h"}'), '22023: "wall_limit" of a job cannot change: Only name, labels and priority can.');
SELECT pg_temp.check_value('what a job waits for', pg_temp.refusal(:first, format('{"after": "afterok:%s"}', :second)), '22023: "after" of a job cannot change: Only name, labels and priority can.');
SELECT pg_temp.check_value('one bad word among good ones', pg_temp.refusal(:first, '{"name": "x", "hold": true}'), '22023: "hold" of a job cannot change: Only name, labels and priority can.');
SELECT pg_temp.check_value('nothing', pg_temp.refusal(:first, '{}'), '22023: "changes" is empty: It names nothing that is to change.');
SELECT pg_temp.check_value('no object', left(pg_temp.refusal(:first, '[]'), 5), '22023');
SELECT pg_temp.check_value('a value that reserve() refuses: ' || v, left(pg_temp.refusal(:first, v), 5), '22023')
FROM unnest(ARRAY['{"name": ""}', '{"name": "a\nb"}', '{"name": 7}', '{"priority": 0.5}', '{"priority": "1"}', '{"priority": 2147483648}', '{"labels": []}', '{"labels": {"": "x"}}',
	'{"labels": {"a": ""}}', '{"labels": {"a": 1}}', '{"labels": {"a": {}}}', '{"labels": {"a": {"b": null}}}', '{"labels": {"a,b": "c"}}']) v;
SELECT pg_temp.check_value('more labels than a job can have', left(pg_temp.refusal(:first, (SELECT jsonb_build_object('labels', jsonb_object_agg('k' || i, 'v'))::text FROM generate_series(1, 16) i)), 5), '22023');
SELECT pg_temp.check_value('another organisation''s job', left(pg_temp.refusal(:first, '{"name": "x"}', 'uj-other'), 5), 'UC301');
SELECT pg_temp.check_value('nothing of it was written', pg_temp.job(:first) || ' ' || (SELECT count(*) FROM gpucredit.request r WHERE r.org = 'uj' AND r.key = 'refused'), '0 {"labels": {"a": "b"}} 0');
SELECT pg_temp.submit('alone', '{"name": "one", "after": "singleton"}') AS single \gset
SELECT pg_temp.check_value('a job that waits for those of its name keeps a name', pg_temp.refusal(:single, '{"name": null}'), '22023: "after" in "options" needs "name": Without the other member it has no meaning.');
SELECT pg_temp.check_value('but not the same', pg_temp.update(:single, 'u7', '{"name": "two"}'), 'queued');

\echo Whoever may cancel the job may change it
CREATE ROLE uj_ann IN ROLE gpucredit_tenant;
CREATE ROLE uj_ben IN ROLE gpucredit_tenant;
CREATE ROLE uj_nobody;
CREATE ROLE uj_agent IN ROLE gpucredit_agent;
CALL pg_temp.act($$SELECT gpucredit.bind_tenant('uj_ann', 'uj', 'ann'), gpucredit.bind_tenant('uj_ben', 'uj', 'ben')$$);
SET ROLE uj_ben;
SELECT pg_temp.check_value('another tenant''s job is unknown', left(pg_temp.refusal(:first, '{"name": "x"}'), 5), 'UC301');
SET ROLE uj_nobody;
SELECT pg_temp.check_value('PUBLIC changes none', left(pg_temp.refusal(:first, '{"name": "x"}'), 5), '42501');
SET ROLE uj_agent;
SELECT pg_temp.check_value('nor does an agent', left(pg_temp.refusal(:first, '{"name": "x"}'), 5), '42501');
SET ROLE uj_ann;
SELECT pg_temp.check_value('its owner does', pg_temp.update(:first, 'u8', '{"name": "hers"}'), 'queued');
RESET ROLE;
SELECT pg_temp.check_rows('each change is audited with all options after it', $$SELECT u.detail ->> 'key' AS key, u.detail -> 'options' AS options
	FROM gpucredit.audit u WHERE u.org = 'uj' AND u.operation = 'update_job' AND u.decision = 'updated' ORDER BY u.audit DESC LIMIT 3$$, $$
	key | options
	u8 | {"name": "hers", "labels": {"a": "b"}}
	u7 | {"name": "two", "after": "singleton"}
	u6 | {"name": "runs", "prefer": "node"}
$$);

\echo What verify() notices
SELECT pg_temp.check_none('nothing so far', $$SELECT * FROM gpucredit.verify('uj')$$);
BEGIN;
UPDATE gpucredit.job SET options = options || '{"labels": {"a": "forged"}}' WHERE org = 'uj' AND job = :first;
SELECT pg_temp.check_value('options that no call wrote', (SELECT string_agg(v.invariant, ' ') FROM gpucredit.verify('uj') v), 'job_is_as_submitted');
ROLLBACK;
DROP ROLE uj_ann, uj_ben, uj_nobody, uj_agent;
