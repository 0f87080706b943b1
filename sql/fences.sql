-- Fences: the devices of an attempt that is over are given to nobody as long as
-- something of it may still run there.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set check :folder '/sql/include/check.sql'
\set scenario :folder '/sql/include/scenario.sql'
\i :check
\i :scenario
SET scenario.org = 'fen';

CALL pg_temp.open_account();
CALL pg_temp.open_pool('fen', 3);

\echo
\echo # An agent goes on to report an attempt that an application has settled
CALL pg_temp.submit('zombie', '4xSC-A');
CALL pg_temp.submit('after', '12xSC-A');
SELECT pg_temp.check_rows('the first job fills a node, and the job of all twelve devices waits',
$$ SELECT * FROM pg_temp.place() $$, $$
	job    | attempt | node  | gpus
	zombie | 1       | fen-1 | {0-3}
$$);
SELECT pg_temp.check_value('an application settles the attempt as preempted',
	pg_temp.settle_as_app('zombie', 1, 'preempted'), 'preempted');
SELECT pg_temp.check_rows('the node that still runs the attempt is told to stop it',
$$ SELECT * FROM pg_temp.reports('fen-1', 'zombie/1') $$, $$
	job    | attempt | action | reason
	zombie | 1       | stop   | over
$$);
SELECT pg_temp.check_none('neither the fenced devices are given out, nor does the job of the attempt start elsewhere',
$$ SELECT * FROM pg_temp.place() $$);
SELECT pg_temp.check_rows('explain tells the job which node its earlier attempt may still run on',
$$ SELECT check_name, passes, detail FROM gpucredit.explain('fen', pg_temp.job('zombie'))
	WHERE check_name = 'earlier attempt' $$, $$
	check_name      | passes | detail
	earlier attempt | false  | it may still run on fen-1: until a heartbeat comes without it, or node_lost has passed, it does not start again
$$);
SELECT pg_temp.check_rows('the job of the settled attempt waits again, so it is cancelled at once',
$$ SELECT * FROM gpucredit.cancel('fen', pg_temp.job('zombie'), 'cz') $$, $$
	job_state | replayed
	cancelled | false
$$);
SELECT pg_temp.check_rows('explain tells the other waiting job how many devices are kept, and why',
$$ SELECT check_name, passes, regexp_replace(detail, ' \d{4}-.*', ' T') AS detail
	FROM gpucredit.explain('fen', pg_temp.job('after')) WHERE check_name IN ('free', 'kept') $$, $$
	check_name | passes | detail
	free | false | 12 devices wanted, 8 are free: what is kept, promised to others, or given to jobs ahead of it must come free first
	kept | false | 4 devices are kept from all: what ran there is over, but its node has not told that it is gone; they are given out when it does, or from T
$$);
CREATE FUNCTION pg_temp.kept() RETURNS text LANGUAGE sql AS $$
	SELECT substring(e.detail, '^\d+ devices') FROM gpucredit.explain('fen', pg_temp.job('after')) e
	WHERE e.check_name = 'kept'
$$;
BEGIN;
SELECT pg_temp.check_value('the node is told of its one attempt when it reports a failed device', count(*)::text, '1')
FROM gpucredit.heartbeat('fen-1', '{0,2-3}', pg_temp.running('zombie/1'));
SELECT pg_temp.check_value('a fenced device that is out of service is not counted as kept', pg_temp.kept(), '3 devices');
CALL pg_temp.act($$ SELECT gpucredit.drain('fen-1', 'd') $$);
SELECT pg_temp.check_value('fenced devices of a draining node are not counted as kept', pg_temp.kept(), NULL);
ROLLBACK;
BEGIN;
CALL pg_temp.later('20 s');
SELECT pg_temp.check_none('the other two nodes have nothing to be told',
$$ SELECT * FROM unnest('{fen-2,fen-3}'::text[]) n, gpucredit.heartbeat(n) $$);
SELECT pg_temp.check_value('fenced devices of a silent node are not counted as kept', pg_temp.kept(), NULL);
ROLLBACK;
CALL pg_temp.beats(10, pg_temp.running('zombie/1'));
SELECT pg_temp.check_none('while the agent names the attempt its devices stay fenced, also beyond node_lost',
$$ SELECT * FROM pg_temp.place() $$);
SELECT pg_temp.check_error('a node whose devices are fenced cannot be removed',
	$$ SELECT gpucredit.remove_node('fen-1') $$, 'UC303');
CALL pg_temp.beats(5);
SELECT pg_temp.check_none('heartbeats that list no attempts do not end the fence',
$$ SELECT * FROM pg_temp.place() $$);
CALL pg_temp.beats(1);
SELECT pg_temp.check_rows('after a minute in which nobody named the attempt its devices are given out',
$$ SELECT * FROM pg_temp.place() $$, $$
	job   | attempt | node  | gpus
	after | 1       | fen-1 | {0-3}
	after | 1       | fen-2 | {0-3}
	after | 1       | fen-3 | {0-3}
$$);
SELECT pg_temp.check_value('an agent settles the attempt on all three nodes as preempted',
	pg_temp.settle('after', 1, 'preempted'), 'preempted');
SELECT pg_temp.check_rows('the settlement by an agent leaves no fence: the job starts again at once',
$$ SELECT * FROM pg_temp.place() $$, $$
	job   | attempt | node  | gpus
	after | 2       | fen-1 | {0-3}
	after | 2       | fen-2 | {0-3}
	after | 2       | fen-3 | {0-3}
$$);
SELECT pg_temp.check_rows('the scenario leaves one running attempt and no waiting job',
$$ SELECT * FROM pg_temp.finish() $$, $$
	completed | cancelled
	1         | 0
$$);

\echo
\echo # A node that never lists its attempts
CALL pg_temp.open_pool('fen-n', 2, gpus => 1);
CALL pg_temp.submit('untold', '1xSC-A', pool => 'fen-n');
SELECT pg_temp.check_rows('the job starts on the first node',
$$ SELECT * FROM pg_temp.place('fen-n') $$, $$
	job    | attempt | node    | gpus
	untold | 1       | fen-n-1 | {0}
$$);
SELECT pg_temp.check_value('the node of the job is told of one attempt', count(*)::text, '1') FROM gpucredit.heartbeat('fen-n-1');
SELECT pg_temp.check_value('an application settles the first attempt',
	pg_temp.settle_as_app('untold', 1, 'preempted'), 'preempted');
SELECT pg_temp.check_rows('the job does not wait for a fence that time alone ends: it starts on the other node',
$$ SELECT * FROM pg_temp.place('fen-n') $$, $$
	job    | attempt | node    | gpus
	untold | 2       | fen-n-2 | {0}
$$);
SELECT pg_temp.check_value('an application settles the second attempt',
	pg_temp.settle_as_app('untold', 2, 'preempted'), 'preempted');
SELECT pg_temp.check_none('both devices are fenced, so the job does not start a third time',
$$ SELECT * FROM pg_temp.place('fen-n') $$);
SELECT pg_temp.check_rows('the job that waits for the fenced devices is cancelled at once',
$$ SELECT * FROM gpucredit.cancel('fen', pg_temp.job('untold'), 'cu') $$, $$
	job_state | replayed
	cancelled | false
$$);

CALL pg_temp.later('1 min');
SELECT pg_temp.check_none('the first node is alive, and has nothing to be told',
$$ SELECT * FROM gpucredit.heartbeat('fen-n-1') $$);
CALL pg_temp.submit('beside', '1xSC-A', pool => 'fen-n');
SELECT pg_temp.check_rows('after node_lost the next job starts on the node that is alive',
$$ SELECT * FROM pg_temp.place('fen-n') $$, $$
	job    | attempt | node    | gpus
	beside | 1       | fen-n-1 | {0}
$$);
SELECT pg_temp.check_rows('a cycle ends the fence of the node that is alive, and not that of the silent one',
$$ SELECT node, free FROM gpucredit.attempt_gpu WHERE org = 'fen' AND job = pg_temp.job('untold') ORDER BY node $$, $$
	node    | free
	fen-n-1 | true
	fen-n-2 | false
$$);
SELECT pg_temp.check_value('an agent settles the attempt on the node that is alive',
	pg_temp.settle('beside', 1, 'completed'), 'completed');

-- The fences of the pool that has one node: whether all devices of ended
-- attempts are free, when the node last named one of these, how many devices
-- count as used in the capacity and in the metric, and the node's map.
CREATE FUNCTION pg_temp.fences() RETURNS TABLE (free boolean, named_before interval, used numeric, metric float8,
	map text) LANGUAGE sql AS $$
	SELECT bool_and(g.free), min(gpucredit.now() - g.seen_at) FILTER (WHERE NOT g.free),
		(SELECT c.allocated FROM gpucredit.node_capacity c WHERE c.node = 'fen-z-1'),
		(SELECT m.value FROM gpucredit.metrics m WHERE m.name = 'gpucredit_devices_fenced'
			AND m.labels @> '{"pool": "fen-z"}'),
		(SELECT substring(c.map, 'fen-z-1 *(.{6})') FROM gpucredit.cluster_map('fen-z') c
			WHERE c.map ~ 'fen-z-1')
	FROM gpucredit.attempt_gpu g WHERE g.pool = 'fen-z' AND g.ended_at IS NOT NULL
$$;
DO $$
BEGIN
	PERFORM gpucredit.create_pool('fen-z');
	PERFORM gpucredit.register_node('fen-z', 'fen-z-1', 'SC-A', 4, 40960, 8000, 8192);
	PERFORM gpucredit.heartbeat('fen-z-1', running => '{}');
END $$;

\echo
\echo # A silent node may still run an attempt that an application has settled
CALL pg_temp.submit('z1', '3xSC-A', pool => 'fen-z');
CALL pg_temp.submit('z2', '4xSC-A', pool => 'fen-z');
SELECT pg_temp.check_rows('the job of three devices starts, and the job of four waits',
$$ SELECT * FROM pg_temp.place('fen-z') $$, $$
	job | attempt | node    | gpus
	z1  | 1       | fen-z-1 | {0-2}
$$);
SELECT pg_temp.check_rows('the node is told to start the attempt that it got',
$$ SELECT * FROM pg_temp.reports('fen-z-1', 'z1/1') $$, $$
	job | attempt | action | reason
	z1  | 1       | start  | -
$$);
SELECT pg_temp.check_value('an application settles the attempt as cancelled',
	pg_temp.settle_as_app('z1', 1, 'cancelled'), 'cancelled');
CALL pg_temp.later('59.999999 s');
SELECT pg_temp.check_rows('until node_lost has passed the three devices are fenced, and counted and drawn as such',
$$ SELECT * FROM pg_temp.fences() $$, $$
	free  | named_before | used  | metric | map
	false | -            | 3.000 | 3      | ?%%%.?
$$);
CALL pg_temp.later('1 us');
SELECT pg_temp.check_rows('when node_lost has passed the fenced devices are counted no more, but are not free either, as the node is lost',
$$ SELECT * FROM pg_temp.fences() $$, $$
	free  | named_before | used  | metric | map
	false | -            | 0.000 | 0      | #....#
$$);
CALL pg_temp.later('1 s');
SELECT pg_temp.check_none('nothing is started on the lost node', $$ SELECT * FROM pg_temp.place('fen-z') $$);
SELECT pg_temp.check_rows('the node that was silent for more than a minute is lost', $$ SELECT state FROM gpucredit.nodes WHERE node = 'fen-z-1' $$, $$
	state
	lost
$$);
SELECT pg_temp.check_rows('a lost node that is back and names the settled attempt is told to stop it',
$$ SELECT * FROM pg_temp.reports('fen-z-1', 'z1/1') $$, $$
	job | attempt | action | reason
	z1  | 1       | stop   | over
$$);
SELECT pg_temp.check_rows('the devices of the settled attempt that the node names are fenced and counted again',
$$ SELECT * FROM pg_temp.fences() $$, $$
	free  | named_before | used  | metric | map
	false | 00:00:00     | 3.000 | 3      | [%%%.]
$$);
SELECT pg_temp.check_none('the job of four does not start while the node runs the settled attempt',
$$ SELECT * FROM pg_temp.place('fen-z') $$);
CALL pg_temp.later('10 s');
SELECT pg_temp.check_none('the node reports that nothing runs, and is told nothing',
$$ SELECT * FROM pg_temp.reports('fen-z-1') $$);
SELECT pg_temp.check_rows('the job of four starts on the devices that the node reported free',
$$ SELECT * FROM pg_temp.place('fen-z') $$, $$
	job | attempt | node    | gpus
	z2  | 1       | fen-z-1 | {0-3}
$$);

\echo
\echo # A silent node may still run an attempt that was settled as lost with it
SELECT pg_temp.check_rows('the node is told to start the attempt that it got',
$$ SELECT * FROM pg_temp.reports('fen-z-1', 'z2/1') $$, $$
	job | attempt | action | reason
	z2  | 1       | start  | -
$$);
CALL pg_temp.later('1 min');
SELECT pg_temp.check_rows('after a minute of silence the sweep settles the attempt',
$$ SELECT * FROM gpucredit.check_nodes() WHERE task = 'settle_node_lost' $$, $$
	task             | affected
	settle_node_lost | 1
$$);
CALL pg_temp.later('1 min');
SELECT pg_temp.check_none('the job of the lost attempt does not start on the lost node', $$ SELECT * FROM pg_temp.place('fen-z') $$);
CALL pg_temp.act($$ SELECT gpucredit.drain('fen-z-1', 'looked at') $$);
SELECT pg_temp.check_none('the job of the lost attempt does not start while the lost node is drained', $$ SELECT * FROM pg_temp.place('fen-z') $$);
CALL pg_temp.act($$ SELECT gpucredit.resume('fen-z-1') $$);
SELECT pg_temp.check_none('the job of the lost attempt does not start when the lost node is resumed', $$ SELECT * FROM pg_temp.place('fen-z') $$);
SELECT pg_temp.check_rows('the node that comes back with the attempt is told to stop it',
$$ SELECT * FROM pg_temp.reports('fen-z-1', 'z2/1') $$, $$
	job | attempt | action | reason
	z2  | 1       | stop   | over
$$);
SELECT pg_temp.check_none('the job does not start again while its earlier attempt runs',
$$ SELECT * FROM pg_temp.place('fen-z') $$);
SELECT pg_temp.check_rows('all four devices are fenced and counted',
$$ SELECT * FROM pg_temp.fences() $$, $$
	free  | named_before | used  | metric | map
	false | 00:00:00     | 4.000 | 4      | [%%%%]
$$);
SELECT pg_temp.check_none('the node reports that the attempt has stopped, and is told nothing',
$$ SELECT * FROM pg_temp.reports('fen-z-1') $$);
SELECT pg_temp.check_rows('the job starts again on the node where its earlier attempt has stopped',
$$ SELECT * FROM pg_temp.place('fen-z') $$, $$
	job | attempt | node    | gpus
	z2  | 2       | fen-z-1 | {0-3}
$$);
SELECT pg_temp.check_rows('the lost attempt has ended as node_lost, with nothing billed and no failure counted, and a second one runs',
$$ SELECT * FROM pg_temp.attempts('z2') $$, $$
	job | attempt | outcome   | elapsed  | billed   | job_state | failures | retry_in
	z2  | 1       | node_lost | 00:00:00 | 0.000000 | queued    | 0        | 00:00:00
	z2  | 2       | -         | 00:00:00 | -        | -         | 0        | -
$$);

\echo
\echo # A silent node comes back by registering
CALL pg_temp.submit('z3', '1xSC-A', pool => 'fen-z');
SELECT pg_temp.check_value('an application settles the attempt as cancelled',
	pg_temp.settle_as_app('z2', 2, 'cancelled'), 'cancelled');
CALL pg_temp.later('10 min');
SELECT pg_temp.check_none('no job starts on the lost node', $$ SELECT * FROM pg_temp.place('fen-z') $$);
CALL pg_temp.act($$ SELECT gpucredit.register_node('fen-z', 'fen-z-1', 'SC-A', 4, 40960, 8000, 8192) $$);
SELECT pg_temp.check_rows('the node that registers has its devices fenced as if it had named the attempt now',
$$ SELECT * FROM pg_temp.fences() $$, $$
	free  | named_before | used  | metric | map
	false | 00:00:00     | 4.000 | 4      | [%%%%]
$$);
SELECT pg_temp.check_none('no job starts there before the node has reported what it runs',
$$ SELECT * FROM pg_temp.place('fen-z') $$);
SELECT pg_temp.check_rows('the registered node that names a settled attempt is told to stop it',
$$ SELECT * FROM pg_temp.reports('fen-z-1', 'z2/2') $$, $$
	job | attempt | action | reason
	z2  | 2       | stop   | over
$$);
SELECT pg_temp.check_none('no job starts there while the settled attempt runs',
$$ SELECT * FROM pg_temp.place('fen-z') $$);
SELECT pg_temp.check_none('the node reports that nothing runs, and is told nothing',
$$ SELECT * FROM pg_temp.reports('fen-z-1') $$);
SELECT pg_temp.check_rows('the next job starts on the node that reported all of its devices free',
$$ SELECT * FROM pg_temp.place('fen-z') $$, $$
	job | attempt | node    | gpus
	z3  | 1       | fen-z-1 | {0}
$$);

\echo
\echo # Time ends a fence where nobody can know more
CALL pg_temp.submit('z4', '4xSC-A', pool => 'fen-z');
CALL pg_temp.submit('z5', '4xSC-A', pool => 'fen-z');
SELECT pg_temp.check_value('an application settles the attempt on one device',
	pg_temp.settle_as_app('z3', 1, 'cancelled'), 'cancelled');
CALL pg_temp.later('1 min');
SELECT pg_temp.check_none('no job starts on the node that was silent for a minute',
$$ SELECT * FROM pg_temp.place('fen-z') $$);
SELECT pg_temp.check_none('a heartbeat that lists no attempts is answered with nothing',
$$ SELECT * FROM gpucredit.heartbeat('fen-z-1') $$);
SELECT pg_temp.check_rows('on a node that is alive and never lists its attempts a fence ends after node_lost',
$$ SELECT * FROM pg_temp.place('fen-z') $$, $$
	job | attempt | node    | gpus
	z4  | 1       | fen-z-1 | {0-3}
$$);
SELECT pg_temp.check_value('an application settles the attempt on all devices',
	pg_temp.settle_as_app('z4', 1, 'cancelled'), 'cancelled');
CALL pg_temp.later('1 min');
SELECT pg_temp.check_none('no job starts on the silent node', $$ SELECT * FROM pg_temp.place('fen-z') $$);
SET gpucredit.node_suspect = 0;
SELECT pg_temp.check_rows('where silent nodes get work (node_suspect is 0) the job starts there when the fence has run out',
$$ SELECT * FROM pg_temp.place('fen-z') $$, $$
	job | attempt | node    | gpus
	z5  | 1       | fen-z-1 | {0-3}
$$);
RESET gpucredit.node_suspect;

\echo
\echo # Another machine gets the name of a node with fenced devices
SELECT pg_temp.check_value('an application settles the attempt on all devices',
	pg_temp.settle_as_app('z5', 1, 'cancelled'), 'cancelled');
CALL pg_temp.submit('z6', '2xSC-A', pool => 'fen-z');
CALL pg_temp.later('59 s');
SELECT pg_temp.check_error('a machine with other devices cannot register while the fence counts',
	$$ SELECT gpucredit.register_node('fen-z', 'fen-z-1', 'SC-A', 2, 40960) $$, 'UC303');
CALL pg_temp.later('1 s');
SELECT pg_temp.check_none('no job starts on the silent node', $$ SELECT * FROM pg_temp.place('fen-z') $$);
SELECT pg_temp.check_rows('the fence stands although its time has run out', $$ SELECT free FROM pg_temp.fences() $$, $$
	free
	false
$$);
CALL pg_temp.act($$ SELECT gpucredit.register_node('fen-z', 'fen-z-1', 'SC-A', 2, 40960) $$);
SELECT pg_temp.check_rows('the machine that registers then inherits no fence', $$ SELECT free FROM pg_temp.fences() $$, $$
	free
	true
$$);
SELECT pg_temp.check_rows('the next job starts on the new machine',
$$ SELECT * FROM pg_temp.place('fen-z') $$, $$
	job | attempt | node    | gpus
	z6  | 1       | fen-z-1 | {0-1}
$$);
SELECT pg_temp.check_value('an application settles the attempt there',
	pg_temp.settle_as_app('z6', 1, 'cancelled'), 'cancelled');
CALL pg_temp.later('1 min');
SELECT pg_temp.check_none('no job is left to start', $$ SELECT * FROM pg_temp.place('fen-z') $$);
SELECT pg_temp.check_rows('the devices of the silent node are fenced', $$ SELECT free FROM pg_temp.fences() $$, $$
	free
	false
$$);
CALL pg_temp.act($$ SELECT gpucredit.remove_node('fen-z-1') $$);
SELECT pg_temp.check_rows('a fence that has run out does not keep the node from being removed, and ends with it',
$$ SELECT free FROM pg_temp.fences() $$, $$
	free
	true
$$);
SELECT pg_temp.check_none('verify() finds nothing wrong after a node with a fence is removed', $$ SELECT * FROM gpucredit.verify('fen') $$);

BEGIN;
\echo
\echo # A node is registered again in another pool while its machine runs an ended attempt
SELECT gpucredit.create_pool('fen-y') \g /dev/null
CALL pg_temp.act($$ SELECT gpucredit.register_node('fen-y', 'fen-z-1', 'SC-A', 2, 40960) $$);
CALL pg_temp.submit('y1', '2xSC-A', pool => 'fen-y');
SELECT pg_temp.check_rows('the machine names the ended attempt of the other pool and is told to stop it',
$$ SELECT * FROM pg_temp.reports('fen-z-1', 'z6/1') $$, $$
	job | attempt | action | reason
	z6  | 1       | stop   | over
$$);
SELECT pg_temp.check_none('no job of the new pool starts while the ended attempt runs', $$ SELECT * FROM pg_temp.place('fen-y') $$);
SELECT pg_temp.check_none('verify() finds nothing wrong while an attempt of another pool is fenced', $$ SELECT * FROM gpucredit.verify('fen') $$);
SELECT pg_temp.check_none('the machine reports that the attempt is gone, and is told nothing',
$$ SELECT * FROM pg_temp.reports('fen-z-1') $$);
SELECT pg_temp.check_rows('the job of the new pool starts on the devices that the attempt has left',
$$ SELECT * FROM pg_temp.place('fen-y') $$, $$
	job | attempt | node    | gpus
	y1  | 1       | fen-z-1 | {0-1}
$$);
SELECT pg_temp.check_none('verify() finds nothing wrong after an attempt of another pool was fenced', $$ SELECT * FROM gpucredit.verify('fen') $$);
ROLLBACK;

BEGIN;
\echo
\echo # A node is removed and registered again while its machine runs an ended attempt
CALL pg_temp.act($$ SELECT gpucredit.register_node('fen-z', 'fen-z-1', 'SC-A', 2, 40960) $$);
CALL pg_temp.submit('z7', '2xSC-A', pool => 'fen-z');
SELECT pg_temp.check_rows('the machine names the ended attempt and is told to stop it',
$$ SELECT * FROM pg_temp.reports('fen-z-1', 'z6/1') $$, $$
	job | attempt | action | reason
	z6  | 1       | stop   | over
$$);
SELECT pg_temp.check_rows('the two devices of the ended attempt are fenced and counted from the heartbeat that names it',
$$ SELECT free, named_before, used, metric FROM pg_temp.fences() $$, $$
	free  | named_before | used  | metric
	false | 00:00:00     | 2.000 | 2
$$);
SELECT pg_temp.check_none('no job starts while the ended attempt runs', $$ SELECT * FROM pg_temp.place('fen-z') $$);
CALL pg_temp.later('10 s');
SELECT pg_temp.check_rows('the machine names two ended attempts and is told to stop both',
$$ SELECT * FROM pg_temp.reports('fen-z-1', 'z6/1', 'z1/1') $$, $$
	job | attempt | action | reason
	z6  | 1       | stop   | over
	z1  | 1       | stop   | over
$$);
SELECT pg_temp.check_rows('the fence counts from the last heartbeat that named the attempt',
$$ SELECT named_before FROM pg_temp.fences() $$, $$
	named_before
	00:00:00
$$);
SELECT pg_temp.check_none('no job starts while both ended attempts run', $$ SELECT * FROM pg_temp.place('fen-z') $$);
SELECT pg_temp.check_none('verify() finds nothing wrong while two ended attempts are fenced on a node that registered again', $$ SELECT * FROM gpucredit.verify('fen') $$);
SELECT pg_temp.check_none('the machine reports that nothing runs, and is told nothing',
$$ SELECT * FROM pg_temp.reports('fen-z-1') $$);
SELECT pg_temp.check_rows('the next job starts on the devices that the machine reported free',
$$ SELECT * FROM pg_temp.place('fen-z') $$, $$
	job | attempt | node    | gpus
	z7  | 1       | fen-z-1 | {0-1}
$$);

\echo
\echo # An ended attempt is named when another job has some of its devices
SELECT pg_temp.check_value('an application settles the attempt on both devices',
	pg_temp.settle_as_app('z7', 1, 'cancelled'), 'cancelled');
CALL pg_temp.later('1 min');
CALL pg_temp.act($$ SELECT gpucredit.remove_node('fen-z-1') $$);
CALL pg_temp.act($$ SELECT gpucredit.register_node('fen-z', 'fen-z-1', 'SC-A', 2, 40960) $$);
CALL pg_temp.submit('z8', '1xSC-A', pool => 'fen-z');
SELECT pg_temp.check_rows('the next job starts on a device of the ended attempt, as the removal of the node ended the fence',
$$ SELECT * FROM pg_temp.place('fen-z') $$, $$
	job | attempt | node    | gpus
	z8  | 1       | fen-z-1 | {0}
$$);
SELECT pg_temp.check_rows('the node is told to stop the ended attempt and to start the new one',
$$ SELECT * FROM pg_temp.reports('fen-z-1', 'z7/1', 'z8/1') $$, $$
	job | attempt | action | reason
	z8  | 1       | start  | -
	z7  | 1       | stop   | over
$$);
SELECT pg_temp.check_rows('the new attempt keeps its device: the ended attempt is not fenced',
$$ SELECT free FROM pg_temp.fences() $$, $$
	free
	true
$$);
SELECT pg_temp.check_none('verify() finds nothing wrong while an ended attempt and a new one are named on one device', $$ SELECT * FROM gpucredit.verify('fen') $$);
SELECT pg_temp.check_value('an agent settles the new attempt as completed',
	pg_temp.settle('z8', 1, 'completed'), 'completed');
SELECT pg_temp.check_rows('a node that names an attempt which ended there after it registered is told to stop it',
$$ SELECT * FROM pg_temp.reports('fen-z-1', 'z8/1') $$, $$
	job | attempt | action | reason
	z8  | 1       | stop   | over
$$);
SELECT pg_temp.check_rows('the device of an attempt that an agent settled is not fenced when the node names that attempt',
$$ SELECT free FROM pg_temp.fences() $$, $$
	free
	true
$$);
ROLLBACK;

SELECT pg_temp.check_none('verify() finds nothing wrong', 'SELECT * FROM gpucredit.verify()');
