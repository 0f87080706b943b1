-- Devices that fail: what becomes of the work on them, who is told, and when
-- they are given out again.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set check :folder '/sql/include/check.sql'
\set scenario :folder '/sql/include/scenario.sql'
\i :check
\i :scenario
SET scenario.org = 'dev';

CALL pg_temp.open_account();
CALL pg_temp.open_pool('dev', 3);

\echo
\echo # A device fails under a gang of eight, beside a job on another node
CALL pg_temp.submit('gang', '8xSC-A');
CALL pg_temp.submit('two', '2xSC-A');
SELECT pg_temp.check_rows('the gang fills two nodes, and the job of two starts on the third',
$$ SELECT * FROM pg_temp.place() $$, $$
	job  | attempt | node  | gpus
	gang | 1       | dev-1 | {0-3}
	gang | 1       | dev-2 | {0-3}
	two  | 1       | dev-3 | {0-1}
$$);
SELECT pg_temp.check_rows('a gang on healthy devices is told to continue',
$$ SELECT action, reason FROM gpucredit.meter('dev', pg_temp.job('gang'), 1, '0') $$, $$
	action   | reason
	continue | -
$$);
CALL pg_temp.later('1 h');
SELECT pg_temp.check_rows('the gang is still told to continue after an hour',
$$ SELECT action, reason FROM gpucredit.meter('dev', pg_temp.job('gang'), 1, '1 h') $$, $$
	action   | reason
	continue | -
$$);
SELECT pg_temp.check_value('each of the three nodes has an attempt to report', count(*)::text, '3')
FROM pg_temp.beat();
CALL pg_temp.later('10 s');
SELECT pg_temp.check_rows('the node that reports the failed device is told to stop the gang',
$$ SELECT pg_temp.key(job) AS job, attempt, action, reason
	FROM gpucredit.heartbeat('dev-1', '{0-1,3}', pg_temp.running('gang/1')) $$, $$
	job  | attempt | action | reason
	gang | 1       | stop   | device_failed
$$);
SELECT pg_temp.check_rows('the whole gang ends as last metered, is queued again at once, and has no failure counted; the job on other devices goes on',
$$ SELECT * FROM pg_temp.attempts('gang', 'two') $$, $$
	job  | attempt | outcome   | elapsed  | billed   | job_state | failures | retry_in
	gang | 1       | node_lost | 01:00:00 | 8.000000 | queued    | 0        | 00:00:00
	two  | 1       | -         | 00:00:00 | -        | -         | 0        | -
$$);
SELECT pg_temp.check_rows('the gang is charged for eight GPUs for the metered hour, and what its next attempt may cost is held',
$$ SELECT * FROM pg_temp.money('gang') $$, $$
	job  | charged  | refunded | returned   | held      | uncovered
	gang | 8.000000 | 0.000000 | 72.000000  | 80.000000 | 0.000000
$$);
SELECT pg_temp.check_value('audit names the failed device as the reason of the settlement',
	pg_temp.why('gang'), 'device_failed');
SELECT pg_temp.check_rows('the message of the attempt names the device and its node',
$$ SELECT message FROM gpucredit.attempt WHERE org = 'dev' AND job = pg_temp.job('gang') $$, $$
	message
	device {2} of node dev-1 is not healthy
$$);
SELECT pg_temp.check_rows('other nodes that name the ended gang are told to stop it, and the other job still starts',
$$ SELECT n AS told, r.* FROM unnest('{dev-2,dev-3}'::text[]) n, pg_temp.reports(n, 'gang/1') r $$, $$
	told  | job  | attempt | action | reason
	dev-2 | gang | 1       | stop   | over
	dev-3 | two  | 1       | start  | -
	dev-3 | gang | 1       | stop   | over
$$);
SELECT pg_temp.check_rows('all devices of the gang are fenced, on both of its nodes',
$$ SELECT node, gpus, free FROM gpucredit.attempt_gpu
	WHERE org = 'dev' AND job = pg_temp.job('gang') ORDER BY node $$, $$
	node  | gpus  | free
	dev-1 | {0-3} | false
	dev-2 | {0-3} | false
$$);
CALL pg_temp.submit('next', '4xSC-A');
SELECT pg_temp.check_none('a job of four does not start while the gang''s devices are fenced',
$$ SELECT * FROM pg_temp.place() $$);
SELECT pg_temp.check_none('a node that reports that it runs nothing is told nothing',
$$ SELECT * FROM gpucredit.heartbeat('dev-2', running => '{}') $$);
SELECT pg_temp.check_rows('the job of four starts on the node that reported its devices free',
$$ SELECT * FROM pg_temp.place() $$, $$
	job  | attempt | node  | gpus
	next | 1       | dev-2 | {0-3}
$$);
SELECT pg_temp.check_rows('the node of the failed device stays ready with its three other devices',
$$ SELECT node, healthy, state FROM gpucredit.nodes WHERE pool = 'dev' ORDER BY node $$, $$
	node  | healthy | state
	dev-1 | {0-1,3} | ready
	dev-2 | {0-3}   | ready
	dev-3 | {0-3}   | ready
$$);
SELECT pg_temp.check_none('the node of the failed device reports that the gang is gone, and is told nothing',
$$ SELECT * FROM gpucredit.heartbeat('dev-1', '{0-1,3}', '{}') $$);
CALL pg_temp.submit('three', '3xSC-A');
CALL pg_temp.submit('last', '1xSC-A');
SELECT pg_temp.check_rows('the three healthy devices are given out, and the failed one is not',
$$ SELECT * FROM pg_temp.place() $$, $$
	job   | attempt | node  | gpus
	three | 1       | dev-1 | {0-1,3}
	last  | 1       | dev-3 | {2}
$$);
SELECT pg_temp.check_value('the node reports all devices healthy again, and goes on with its attempt',
	count(*)::text, '1')
FROM gpucredit.heartbeat('dev-1', running => pg_temp.running('three/1'));
SELECT pg_temp.check_rows('audit has when the device failed and when it came back',
$$ SELECT decision, detail FROM gpucredit.audit WHERE operation = 'heartbeat'
	AND detail ->> 'node' = 'dev-1' ORDER BY audit $$, $$
	decision      | detail
	device_failed | {"was": "{0-3}", "node": "dev-1", "pool": "dev", "healthy": "{0-1,3}"}
	device_back   | {"was": "{0-1,3}", "node": "dev-1", "pool": "dev", "healthy": "{0-3}"}
$$);
SELECT pg_temp.check_rows('the scenario leaves four running attempts, and the gang waits',
$$ SELECT * FROM pg_temp.finish() $$, $$
	completed | cancelled
	4         | 1
$$);
SELECT pg_temp.check_rows('the cancelled gang has paid for its hour and nothing more, and gets the rest back',
$$ SELECT * FROM pg_temp.money('gang') $$, $$
	job  | charged  | refunded | returned   | held      | uncovered
	gang | 8.000000 | 0.000000 | 152.000000 | 0.000000  | 0.000000
$$);

\echo
\echo # An attempt on a failed device cannot be settled at once
CALL pg_temp.submit('held', '1xSC-A');
SELECT pg_temp.check_rows('the job starts on a device of the first node',
$$ SELECT * FROM pg_temp.place() $$, $$
	job  | attempt | node  | gpus
	held | 1       | dev-1 | {0}
$$);
-- no settlement can read a job like this
UPDATE gpucredit.job SET topology = 'broken' WHERE org = 'dev' AND job = pg_temp.job('held');
SET client_min_messages = error;
SELECT pg_temp.check_rows('the agent is told to stop the attempt although it cannot be settled',
$$ SELECT action, reason FROM gpucredit.heartbeat('dev-1', '{}') $$, $$
	action | reason
	stop   | device_failed
$$);
SELECT pg_temp.check_rows('the sweep skips the attempt that it cannot settle',
$$ SELECT * FROM gpucredit.check_nodes() $$, $$
	task                 | affected
	settle_node_lost     | 0
	settle_device_failed | 0
	settle_reclaimed     | 0
	skipped              | 1
$$);
RESET client_min_messages;
SELECT pg_temp.check_rows('the order to stop is kept, with the node as its cause',
$$ SELECT cause, action, reason FROM gpucredit.directive WHERE org = 'dev' $$, $$
	cause        | action | reason
	device/dev-1 | stop   | device_failed
$$);
UPDATE gpucredit.job SET topology = 'any' WHERE org = 'dev' AND job = pg_temp.job('held');
SELECT pg_temp.check_rows('whoever meters the attempt is told to stop, too',
$$ SELECT action, reason FROM gpucredit.meter('dev', pg_temp.job('held'), 1, '1 s') $$, $$
	action | reason
	stop   | device_failed
$$);
SELECT pg_temp.check_rows('the next sweep settles the attempt',
$$ SELECT * FROM gpucredit.check_nodes() $$, $$
	task                 | affected
	settle_node_lost     | 0
	settle_device_failed | 1
	settle_reclaimed     | 0
	skipped              | 0
$$);
SELECT pg_temp.check_rows('the attempt ends as last metered, and its job is queued again without a failure',
$$ SELECT * FROM pg_temp.attempts('held') $$, $$
	job  | attempt | outcome   | elapsed  | billed   | job_state | failures | retry_in
	held | 1       | node_lost | 00:00:01 | 0.000278 | queued    | 0        | 00:00:00
$$);
SELECT pg_temp.check_none('no order to stop is left', $$ SELECT * FROM gpucredit.directive WHERE org = 'dev' $$);
SELECT pg_temp.check_rows('the waiting job is cancelled at once',
$$ SELECT * FROM gpucredit.cancel('dev', pg_temp.job('held'), 'ch') $$, $$
	job_state | replayed
	cancelled | false
$$);
SELECT pg_temp.check_rows('the cancelled job has paid for a second, and gets the rest back',
$$ SELECT * FROM pg_temp.money('held') $$, $$
	job  | charged  | refunded | returned   | held      | uncovered
	held | 0.000278 | 0.000000 | 19.999722  | 0.000000  | 0.000000
$$);
SELECT pg_temp.check_none('no node is told anything about the job any more',
$$ SELECT * FROM unnest('{dev-1,dev-2,dev-3}'::text[]) n, pg_temp.reports(n) $$);

\echo
\echo # An agent says why devices are out of service
SELECT pg_temp.check_value('no device has a reason before', (SELECT string_agg(out_of_service::text, ' ') FROM gpucredit.nodes WHERE node = 'dev-1'), NULL);
SELECT pg_temp.check_none('a heartbeat with reasons is answered as any other', $$ SELECT * FROM gpucredit.heartbeat('dev-1', '{0-1}', '{}',
	'{"out_of_service": {"2": "its test failed: no answer", "3": "Xid 79"}}') $$);
SELECT pg_temp.check_rows('nodes shows the reasons', $$ SELECT node, healthy, out_of_service FROM gpucredit.nodes WHERE node = 'dev-1' $$, $$
	node  | healthy | out_of_service
	dev-1 | {0-1}   | {"2": "its test failed: no answer", "3": "Xid 79"}
$$);
SELECT pg_temp.check_rows('the audit row of the devices has them', $$ SELECT decision, detail ->> 'healthy' AS healthy, detail ->> 'out_of_service' AS reasons
	FROM gpucredit.audit WHERE operation = 'heartbeat' AND detail ->> 'node' = 'dev-1' ORDER BY audit DESC LIMIT 1 $$, $$
	decision      | healthy | reasons
	device_failed | {0-1}   | {"2": "its test failed: no answer", "3": "Xid 79"}
$$);
SELECT pg_temp.check_rows('the metric has a row for each of them', $$ SELECT labels ->> 'device' AS device, labels ->> 'reason' AS reason, value
	FROM gpucredit.metric_samples('{device_out_of_service}') WHERE labels ->> 'node' = 'dev-1' ORDER BY 1 $$, $$
	device | reason                     | value
	2      | its test failed: no answer | 1
	3      | Xid 79                     | 1
$$);
SELECT pg_temp.check_error(format('reasons as %s are refused', left(bad, 40)), format($$SELECT * FROM gpucredit.heartbeat('dev-1', '{0-3}', '{}', %L)$$,
	format('{"out_of_service": %s}', bad)), '22023')
FROM unnest(ARRAY['"x"', '["x"]', '{"64": "x"}', '{"-1": "x"}', '{"03": "x"}', '{"": "x"}', '{"a": "x"}', '{"3": ""}', '{"3": 1}', '{"3": null}',
	'{"3": {"a": "x"}}', '{"3": "a\u0007"}', format('{"3": "%s"}', repeat('x', 256))]) bad;
SELECT pg_temp.check_value('what was refused has changed nothing', (SELECT concat_ws(' ', healthy, out_of_service) FROM gpucredit.nodes WHERE node = 'dev-1'),
	'{0-1} {"2": "its test failed: no answer", "3": "Xid 79"}');
SELECT pg_temp.check_none('all devices work again', $$ SELECT * FROM gpucredit.heartbeat('dev-1', '{0-3}', '{}', '{"out_of_service": {}}') $$);
SELECT pg_temp.check_none('no device has a reason after', $$ SELECT * FROM gpucredit.nodes WHERE out_of_service IS NOT NULL $$);

\echo
\echo # The sweep of nodes where nothing can be written
BEGIN READ ONLY;
SELECT pg_temp.check_error('the sweep of nodes fails as a write in a read-only transaction, and blames no row as bad data',
	'SELECT * FROM gpucredit.check_nodes()', '25006');
ROLLBACK;

SELECT pg_temp.check_none('verify() finds nothing wrong', 'SELECT * FROM gpucredit.verify()');
