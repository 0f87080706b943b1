-- Nodes that a provider takes back, with notice: what the attempts there are
-- told, in which order they save while time and bandwidth last, and what
-- becomes of them.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set check :folder '/sql/include/check.sql'
\set scenario :folder '/sql/include/scenario.sql'
\i :check
\i :scenario
SET scenario.org = 'rec';

CALL pg_temp.open_account();
CALL pg_temp.open_pool('rec', 4, spot => true);

-- When each attempt on a reclaimed node may save, by when it is promised to be
-- through (NULL without a promise), and when its node is gone, all from now.
CREATE FUNCTION pg_temp.turns() RETURNS TABLE (job text, turn interval, saved interval,
	gone interval) LANGUAGE sql AS $$
	SELECT pg_temp.key(d.job), d.starts_at - gpucredit.now(), d.saved_by - gpucredit.now(),
		d.deadline - gpucredit.now() FROM gpucredit.directive d
	WHERE d.org = 'rec' AND d.cause = 'reclaim' ORDER BY 1
$$;
-- The nodes of pools, and when those that are reclaimed will be gone.
CREATE FUNCTION pg_temp.nodes(VARIADIC pools text[]) RETURNS TABLE (node text, state text, gone interval)
LANGUAGE sql AS $$
	SELECT n.node, n.state, n.deadline - gpucredit.now() FROM gpucredit.nodes n
	WHERE n.pool = ANY (pools) ORDER BY n.node
$$;
-- Starts the use of all attempts, each metered as 0.
CREATE FUNCTION pg_temp.meter_all() RETURNS bigint LANGUAGE sql AS $$
	SELECT count(gpucredit.meter(a.org, a.job, a.attempt, '0')) FROM gpucredit.attempt a
	WHERE a.org = 'rec' AND a.ended_at IS NULL
$$;
-- The names of the nodes on which a job runs.
CREATE FUNCTION pg_temp.nodes_of(job_key text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT DISTINCT g.node FROM gpucredit.attempt_gpu g
	WHERE g.org = 'rec' AND g.job = pg_temp.job(job_key) AND g.ended_at IS NULL
$$;

\echo
\echo # Two nodes are taken back, under a job on one of them and a gang on the other
SELECT pg_temp.check_none('nodes that run nothing have nothing to be told', $$ SELECT * FROM pg_temp.beat() $$);
CALL pg_temp.submit('spot', '4xSC-A');
CALL pg_temp.submit('wide', '6xSC-A');
SELECT pg_temp.check_rows('the job fills the first node, and the gang has all of the second and half of the third',
$$ SELECT * FROM pg_temp.place() $$, $$
	job  | attempt | node  | gpus
	spot | 1       | rec-1 | {0-3}
	wide | 1       | rec-2 | {0-3}
	wide | 1       | rec-3 | {0-1}
$$);
SELECT pg_temp.check_rows('both attempts are told to continue',
$$ SELECT k AS job, m.action FROM unnest('{spot,wide}'::text[]) k, gpucredit.meter('rec', pg_temp.job(k), 1, '0') m $$, $$
	job  | action
	spot | continue
	wide | continue
$$);
CALL pg_temp.later('10 min');
SELECT pg_temp.check_value('each of the three busy nodes has an attempt to report', count(*)::text, '3')
FROM pg_temp.beat();
CALL pg_temp.act($$ SELECT gpucredit.reclaim('rec-1', '2 min') $$);
CALL pg_temp.act($$ SELECT gpucredit.reclaim('rec-2', '3 min') $$);
SELECT pg_temp.check_rows('every node of the attempts, also the one that stays, is told to save and by when to leave',
$$ SELECT * FROM pg_temp.beat() $$, $$
	node  | job  | attempt | action     | reason  | save | time_left
	rec-1 | spot | 1       | checkpoint | reclaim | true | 00:02:00
	rec-2 | wide | 1       | checkpoint | reclaim | true | 00:03:00
	rec-3 | wide | 1       | checkpoint | reclaim | true | 00:03:00
$$);
SELECT pg_temp.check_rows('the orders to save hold at once, with no promise, until the nodes are gone',
$$ SELECT pg_temp.key(job) AS job, cause, action, deadline - gpucredit.now() AS gone,
	starts_at - gpucredit.now() AS turn, saved_by FROM gpucredit.directive WHERE org = 'rec' ORDER BY 1 $$, $$
	job  | cause   | action     | gone     | turn     | saved_by
	spot | reclaim | checkpoint | 00:02:00 | 00:00:00 | -
	wide | reclaim | checkpoint | 00:03:00 | 00:00:00 | -
$$);
SELECT pg_temp.check_rows('the two nodes are shown as reclaimed, with the time that is left',
$$ SELECT * FROM pg_temp.nodes('rec') $$, $$
	node  | state     | gone
	rec-1 | reclaimed | 00:02:00
	rec-2 | reclaimed | 00:03:00
	rec-3 | ready     | -
	rec-4 | ready     | -
$$);
CALL pg_temp.submit('new', '8xSC-A');
SELECT pg_temp.check_none('no new work starts on a reclaimed node', $$ SELECT * FROM pg_temp.place() $$);
CALL pg_temp.act($$ SELECT gpucredit.resume('rec-2') $$);
SELECT pg_temp.check_rows('when one reclaim is withdrawn its order is gone, and the other order stands',
$$ SELECT pg_temp.key(job) AS job, deadline - gpucredit.now() AS gone FROM gpucredit.directive
	WHERE org = 'rec' ORDER BY 1 $$, $$
	job  | gone
	spot | 00:02:00
$$);
CALL pg_temp.act($$ SELECT gpucredit.reclaim('rec-2', '1 min') $$);
CALL pg_temp.act($$ SELECT gpucredit.resume('rec-2') $$);
SELECT pg_temp.check_rows('a node whose reclaim was announced again and withdrawn again is ready',
$$ SELECT node, state FROM gpucredit.nodes WHERE node = 'rec-2' $$, $$
	node  | state
	rec-2 | ready
$$);
CALL pg_temp.later('59 s');
SELECT pg_temp.check_rows('a minute before its deadline the reclaimed node still has its attempt',
$$ SELECT DISTINCT node FROM pg_temp.beat() ORDER BY node $$, $$
	node
	rec-1
	rec-2
	rec-3
$$);
CALL pg_temp.later('59 s');
SELECT pg_temp.check_rows('two seconds before its deadline the reclaimed node still has its attempt',
$$ SELECT DISTINCT node FROM pg_temp.beat() ORDER BY node $$, $$
	node
	rec-1
	rec-2
	rec-3
$$);
CALL pg_temp.later('1.999999 s');
SELECT pg_temp.check_rows('a microsecond before the deadline the sweep settles nothing',
$$ SELECT * FROM gpucredit.check_nodes() $$, $$
	task                 | affected
	settle_node_lost     | 0
	settle_device_failed | 0
	settle_reclaimed     | 0
	skipped              | 0
$$);
CALL pg_temp.later('1 us');
SELECT pg_temp.check_rows('at its deadline the node is gone',
$$ SELECT node, state FROM gpucredit.nodes WHERE node = 'rec-1' $$, $$
	node  | state
	rec-1 | gone
$$);
SELECT pg_temp.check_rows('the attempt on the gone node is to stop, and no other attempt is',
$$ SELECT node, job, attempt, action, reason FROM pg_temp.beat() WHERE action = 'stop' $$, $$
	node  | job  | attempt | action | reason
	rec-1 | spot | 1       | stop   | reclaim
$$);
SELECT pg_temp.check_rows('the sweep settles the attempt on the gone node',
$$ SELECT * FROM gpucredit.check_nodes() $$, $$
	task                 | affected
	settle_node_lost     | 0
	settle_device_failed | 0
	settle_reclaimed     | 1
	skipped              | 0
$$);
SELECT pg_temp.check_rows('the attempt ends as preempted and as last metered, and its job is queued again without a failure',
$$ SELECT * FROM pg_temp.attempts('spot') $$, $$
	job  | attempt | outcome   | elapsed  | billed   | job_state | failures | retry_in
	spot | 1       | preempted | 00:00:00 | 0.000000 | queued    | 0        | 00:00:00
$$);
SELECT pg_temp.check_value('audit has the reclaim as the reason of the settlement', pg_temp.why('spot'), 'reclaimed');
SELECT pg_temp.check_rows('the job starts again on the node that nobody takes back',
$$ SELECT * FROM pg_temp.place() $$, $$
	job  | attempt | node  | gpus
	spot | 2       | rec-4 | {0-3}
$$);
CALL pg_temp.act($$ SELECT gpucredit.register_node('rec', 'rec-1', 'SC-A', 4, 40960, spot => true) $$);
SELECT pg_temp.check_rows('a gone node that registers is a new one, and ready',
$$ SELECT node, state FROM gpucredit.nodes WHERE node = 'rec-1' $$, $$
	node  | state
	rec-1 | ready
$$);

\echo
\echo # Nodes are taken back at once, after they had been announced for later
CALL pg_temp.act($$ SELECT gpucredit.reclaim(node, '10 min') FROM pg_temp.nodes_of('wide') node $$);
SELECT pg_temp.check_rows('the gang is told to save and to leave within ten minutes',
$$ SELECT action, reason, time_left FROM gpucredit.meter('rec', pg_temp.job('wide'), 1, '12 min') $$, $$
	action     | reason  | time_left
	checkpoint | reclaim | 00:10:00
$$);
SELECT pg_temp.check_value('the gang runs on two nodes, which are now taken back without notice',
	count(gpucredit.reclaim(node, '0'::interval))::text, '2') FROM pg_temp.nodes_of('wide') node;
SELECT pg_temp.check_rows('the gang must stop now, although it had been told to leave later',
$$ SELECT action, reason, time_left FROM gpucredit.meter('rec', pg_temp.job('wide'), 1, '12 min 1 s') $$, $$
	action | reason  | time_left
	stop   | reclaim | 00:00:00
$$);
SELECT pg_temp.check_value('all four nodes can be resumed', count(gpucredit.resume(node))::text, '4')
FROM gpucredit.node WHERE pool = 'rec';
SELECT pg_temp.check_rows('the scenario leaves two running attempts and one waiting job',
$$ SELECT * FROM pg_temp.finish() $$, $$
	completed | cancelled
	2         | 1
$$);
SELECT pg_temp.check_rows('each job is charged for what was metered, and everything else returns to the account',
$$ SELECT * FROM pg_temp.money('new', 'spot', 'wide') $$, $$
	job  | charged  | refunded | returned  | held     | uncovered
	new  | 0.000000 | 0.000000 | 80.000000 | 0.000000 | -
	spot | 0.000000 | 0.000000 | 80.000000 | 0.000000 | 0.000000
	wide | 1.201667 | 0.000000 | 58.798333 | 0.000000 | 0.000000
$$);

\echo
\echo # Many nodes of two pools are taken back by one call
CALL pg_temp.open_pool('rec-t', 2);
SELECT pg_temp.check_none('nodes that run nothing have nothing to be told', $$ SELECT * FROM pg_temp.beat() $$);
CALL pg_temp.submit('set1', '4xSC-A', '{"checkpoint_bytes": 60000000000}');
CALL pg_temp.submit('set2', '8xSC-A', '{"checkpoint_bytes": 60000000000}');
CALL pg_temp.submit('set3', '2xSC-A', '{"checkpoint_bytes": 60000000000}', pool => 'rec-t');
SELECT pg_temp.check_rows('two jobs fill three nodes of one pool',
$$ SELECT * FROM pg_temp.place() $$, $$
	job  | attempt | node  | gpus
	set1 | 1       | rec-1 | {0-3}
	set2 | 1       | rec-2 | {0-3}
	set2 | 1       | rec-3 | {0-3}
$$);
SELECT pg_temp.check_rows('a third job starts in the other pool',
$$ SELECT * FROM pg_temp.place('rec-t') $$, $$
	job  | attempt | node    | gpus
	set3 | 1       | rec-t-1 | {0-1}
$$);
SELECT pg_temp.check_value('three attempts are metered', pg_temp.meter_all()::text, '3');
CALL pg_temp.later('10 min');
SELECT max(audit) AS before FROM gpucredit.audit \gset
SET gpucredit.checkpoint_bandwidth = 1000000000;
CALL pg_temp.act($$ SELECT gpucredit.reclaim(ARRAY['rec-t-1', 'rec-3', 'rec-1', 'rec-2', 'rec-t-1'], '2 min') $$);
SELECT pg_temp.check_rows('saves of a pool are planned together, one after the other; pools do not wait for each other',
$$ SELECT * FROM pg_temp.turns() $$, $$
	job  | turn     | saved    | gone
	set1 | 00:00:00 | 00:01:00 | 00:02:00
	set2 | 00:01:00 | 00:02:00 | 00:02:00
	set3 | 00:00:00 | 00:01:00 | 00:02:00
$$);
SELECT pg_temp.check_rows('exactly the named nodes have a deadline, those that are silent, too',
$$ SELECT * FROM pg_temp.nodes('rec', 'rec-t') $$, $$
	node    | state | gone
	rec-1   | lost  | 00:02:00
	rec-2   | lost  | 00:02:00
	rec-3   | lost  | 00:02:00
	rec-4   | lost  | -
	rec-t-1 | lost  | 00:02:00
	rec-t-2 | lost  | -
$$);
SELECT pg_temp.check_rows('audit has each node once, also the one that was named twice',
	format('SELECT operation, decision, reason, detail FROM gpucredit.audit WHERE audit > %s ORDER BY detail ->> ''node''', :before), $$
	operation | decision  | reason       | detail
	reclaim   | reclaimed | notice 120 s | {"node": "rec-1", "pool": "rec", "notice": "PT2M"}
	reclaim   | reclaimed | notice 120 s | {"node": "rec-2", "pool": "rec", "notice": "PT2M"}
	reclaim   | reclaimed | notice 120 s | {"node": "rec-3", "pool": "rec", "notice": "PT2M"}
	reclaim   | reclaimed | notice 120 s | {"node": "rec-t-1", "pool": "rec-t", "notice": "PT2M"}
$$);
CALL pg_temp.act($$ SELECT gpucredit.resume('rec-2'), gpucredit.reclaim('rec-2', '2 min') $$);
SELECT pg_temp.check_rows('a node that is withdrawn and taken back by a call of its own gets the same plan',
$$ SELECT * FROM pg_temp.turns() $$, $$
	job  | turn     | saved    | gone
	set1 | 00:00:00 | 00:01:00 | 00:02:00
	set2 | 00:01:00 | 00:02:00 | 00:02:00
	set3 | 00:00:00 | 00:01:00 | 00:02:00
$$);
RESET gpucredit.checkpoint_bandwidth;
CALL pg_temp.act($$ SELECT gpucredit.reclaim(ARRAY['rec-2'], '1 min') $$);
SELECT pg_temp.check_rows('a repeated call changes the deadline of its node and of no other',
$$ SELECT job, gone FROM pg_temp.turns() $$, $$
	job  | gone
	set1 | 00:02:00
	set2 | 00:01:00
	set3 | 00:02:00
$$);
CALL pg_temp.act($$ SELECT gpucredit.reclaim(ARRAY['rec-3'], '3 min') $$);
SELECT pg_temp.check_rows('a gang leaves by the earliest deadline of its nodes, also if another one is announced for later',
$$ SELECT job, gone FROM pg_temp.turns() $$, $$
	job  | gone
	set1 | 00:02:00
	set2 | 00:01:00
	set3 | 00:02:00
$$);
SELECT pg_temp.check_error('an unknown node is refused',
	$$ SELECT gpucredit.reclaim(ARRAY['rec-t-2', 'rec-nowhere'], '1 min') $$, 'UC401');
SELECT pg_temp.check_error('an empty name of a node is refused',
	$$ SELECT gpucredit.reclaim(ARRAY['rec-t-2', ''], '1 min') $$, 'UC401');
SELECT pg_temp.check_error('NULL as a node is refused',
	$$ SELECT gpucredit.reclaim(ARRAY['rec-t-2', NULL], '1 min') $$, '22023');
SELECT pg_temp.check_error('an array of arrays of nodes is refused',
	$$ SELECT gpucredit.reclaim(ARRAY[['rec-t-2'], ['rec-t-1']], '1 min') $$, '22023');
SELECT pg_temp.check_error('a negative notice is refused',
	$$ SELECT gpucredit.reclaim(ARRAY['rec-t-2'], '-1 min') $$, '22023');
SELECT pg_temp.check_error('NULL as the notice is refused',
	$$ SELECT gpucredit.reclaim(ARRAY['rec-t-2'], NULL) $$, '22023');
SELECT pg_temp.check_error('NULL as the list of nodes is refused',
	$$ SELECT gpucredit.reclaim(NULL::text[], '1 min') $$, '22023');
CALL pg_temp.act($$ SELECT gpucredit.reclaim(ARRAY[]::text[], '1 min') $$);
SELECT pg_temp.check_rows('the good node of the refused calls is not reclaimed, and an empty list reclaims nothing',
$$ SELECT * FROM pg_temp.nodes('rec', 'rec-t') $$, $$
	node    | state | gone
	rec-1   | lost  | 00:02:00
	rec-2   | lost  | 00:01:00
	rec-3   | lost  | 00:03:00
	rec-4   | lost  | -
	rec-t-1 | lost  | 00:02:00
	rec-t-2 | lost  | -
$$);
SELECT pg_temp.check_value('all six nodes can be resumed', count(gpucredit.resume(node))::text, '6')
FROM gpucredit.node WHERE pool IN ('rec', 'rec-t');
SELECT pg_temp.check_none('no order to leave is left', $$ SELECT * FROM gpucredit.directive WHERE org = 'rec' $$);
SELECT pg_temp.check_rows('the scenario leaves three running attempts and no waiting job',
$$ SELECT * FROM pg_temp.finish() $$, $$
	completed | cancelled
	3         | 0
$$);

\echo
\echo # A plan of saves gives way to an attempt that would lose more, unless its turn has come
SELECT pg_temp.check_none('nodes that run nothing have nothing to be told', $$ SELECT * FROM pg_temp.beat() $$);
CALL pg_temp.submit('g1', '4xSC-A', '{"checkpoint_bytes": 60000000000}');
CALL pg_temp.submit('g2', '4xSC-A');
CALL pg_temp.submit('g3', '4xSC-A', '{"checkpoint_bytes": 60000000000}');
CALL pg_temp.submit('g4', '4xSC-A', '{"checkpoint_bytes": 50000000000}');
SELECT pg_temp.check_rows('each of the four jobs fills a node',
$$ SELECT job, node FROM pg_temp.place() ORDER BY job $$, $$
	job | node
	g1  | rec-1
	g2  | rec-2
	g3  | rec-3
	g4  | rec-4
$$);
SELECT pg_temp.check_value('four attempts are metered', pg_temp.meter_all()::text, '4');
CALL pg_temp.later('10 min');
CALL pg_temp.act($$ SELECT gpucredit.checkpoint('rec', pg_temp.job('g1'), 1, 1, 'u', sha256('1'), 60000000000) $$);
CALL pg_temp.later('10 min');
SET gpucredit.checkpoint_bandwidth = 1000000000;
SELECT pg_temp.check_value('each of the four nodes has an attempt to report', count(*)::text, '4') FROM pg_temp.beat();
CALL pg_temp.act($$ SELECT gpucredit.reclaim(node, '100 s') FROM unnest('{rec-1,rec-2,rec-3}'::text[]) node $$);
SELECT pg_temp.check_rows('g3, which loses most, has the first turn and a promise, although g1 was named first; for g1 no time is left, and of g2 nobody knows how much it writes',
$$ SELECT * FROM pg_temp.turns() $$, $$
	job | turn     | saved    | gone
	g1  | 00:01:00 | -        | 00:01:40
	g2  | 00:01:00 | -        | 00:01:40
	g3  | 00:00:00 | 00:01:00 | 00:01:40
$$);
SELECT ctid AS was FROM gpucredit.directive WHERE org = 'rec' AND job = pg_temp.job('g3') \gset
CALL pg_temp.later('999 ms');
CALL pg_temp.act($$ SELECT gpucredit.resume('rec-4') $$);
SELECT pg_temp.check_value('a directive whose plan moves by less than a second is not written again', ctid::text, :'was')
FROM gpucredit.directive WHERE org = 'rec' AND job = pg_temp.job('g3');
SELECT pg_temp.check_rows('the attempt whose turn has come is told to save, and the one that must wait goes on',
$$ SELECT job, action, time_left FROM pg_temp.beat() WHERE job IN ('g1', 'g3') $$, $$
	job | action     | time_left
	g1  | continue   | 00:01:39.001
	g3  | checkpoint | 00:01:39.001
$$);
CALL pg_temp.act($$ SELECT gpucredit.reclaim('rec-4', '99 s') $$);
SELECT pg_temp.check_rows('g4 would lose as much in less time, but g3 keeps its turn, as it was told to begin',
$$ SELECT * FROM pg_temp.turns() $$, $$
	job | turn          | saved        | gone
	g1  | 00:00:59.001  | -            | 00:01:39.001
	g2  | 00:00:59.001  | -            | 00:01:39.001
	g3  | -00:00:00.999 | 00:00:59.001 | 00:01:39.001
	g4  | 00:00:59.001  | -            | 00:01:39
$$);
CALL pg_temp.later('57.001 s');
CALL pg_temp.act($$ SELECT gpucredit.resume('rec-3') $$);
SELECT pg_temp.check_rows('when the node of g3 is resumed g3 goes on, and the others are told to save without a promise',
$$ SELECT DISTINCT job, action FROM pg_temp.beat() ORDER BY job $$, $$
	job | action
	g1  | checkpoint
	g2  | checkpoint
	g3  | continue
	g4  | checkpoint
$$);
CALL pg_temp.act($$ SELECT gpucredit.reclaim('rec-3', '90 s') $$);
SELECT pg_temp.check_rows('when the node of g3 is taken back again all four are told to save',
$$ SELECT DISTINCT job, action FROM pg_temp.beat() ORDER BY job $$, $$
	job | action
	g1  | checkpoint
	g2  | checkpoint
	g3  | checkpoint
	g4  | checkpoint
$$);
SELECT pg_temp.check_rows('those that save without a promise keep their turns beside the promise to g3',
$$ SELECT * FROM pg_temp.turns() $$, $$
	job | turn     | saved    | gone
	g1  | 00:00:00 | -        | 00:00:42
	g2  | 00:00:00 | -        | 00:00:42
	g3  | 00:00:00 | 00:01:00 | 00:01:30
	g4  | 00:00:00 | -        | 00:00:41.999
$$);
RESET gpucredit.checkpoint_bandwidth;
SELECT pg_temp.check_value('all four nodes can be resumed', count(gpucredit.resume(node))::text, '4')
FROM gpucredit.node WHERE pool = 'rec';
SELECT pg_temp.check_rows('the scenario leaves four running attempts and no waiting job',
$$ SELECT * FROM pg_temp.finish() $$, $$
	completed | cancelled
	4         | 0
$$);

\echo
\echo # Many attempts save through a bandwidth of half a gigabyte a second
SET gpucredit.checkpoint_bandwidth = 500000000;
SELECT pg_temp.check_none('nodes that run nothing have nothing to be told', $$ SELECT * FROM pg_temp.beat() $$);
CALL pg_temp.submit('r1', '1xSC-A', '{"checkpoint_bytes": 10000000000}');		-- 20 s, 1 GPU
CALL pg_temp.submit('r2', '2xSC-A', '{"checkpoint_bytes": 10000000000}');		-- 20 s, 2 GPUs
CALL pg_temp.submit('r3', '1xSC-A', '{"checkpoint_bytes": 40000000000}');		-- 80 s, 1 GPU
CALL pg_temp.submit('r4', '4xSC-A', '{"checkpoint_bytes": 30000000000}');		-- 60 s, 4 GPUs
CALL pg_temp.submit('r5', '1xSC-A');											-- unknown
SELECT pg_temp.check_rows('the five jobs start on three nodes',
$$ SELECT job, node FROM pg_temp.place() ORDER BY job $$, $$
	job | node
	r1  | rec-1
	r2  | rec-1
	r3  | rec-1
	r4  | rec-2
	r5  | rec-3
$$);
SELECT pg_temp.check_value('five attempts are metered', pg_temp.meter_all()::text, '5');
CALL pg_temp.later('20 min');
SELECT pg_temp.check_value('the nodes have five attempts to report', count(*)::text, '5') FROM pg_temp.beat();
CALL pg_temp.act($$ SELECT gpucredit.reclaim(node, '100 s') FROM unnest('{rec-1,rec-2,rec-3,rec-4}'::text[]) node $$);
SELECT pg_temp.check_rows('promises go to those that lose most per second of writing, as long as each ends by the deadline',
$$ SELECT * FROM pg_temp.turns() $$, $$
	job | turn     | saved    | gone
	r1  | 00:00:00 | 00:00:20 | 00:01:40
	r2  | 00:00:20 | 00:00:40 | 00:01:40
	r3  | 00:01:40 | -        | 00:01:40
	r4  | 00:00:40 | 00:01:40 | 00:01:40
	r5  | 00:01:40 | -        | 00:01:40
$$);
SELECT pg_temp.check_rows('only the attempt that has the first turn is told to save; all are told when their node is gone',
$$ SELECT DISTINCT job, action, reason, time_left FROM pg_temp.beat() ORDER BY job $$, $$
	job | action     | reason  | time_left
	r1  | checkpoint | reclaim | 00:01:40
	r2  | continue   | reclaim | 00:01:40
	r3  | continue   | reclaim | 00:01:40
	r4  | continue   | reclaim | 00:01:40
	r5  | continue   | reclaim | 00:01:40
$$);
SELECT pg_temp.check_rows('explain tells each job its turn, the promise that it has, and else why it has none',
$$ SELECT k AS job, split_part(detail, '; ', 2) AS saves
	FROM unnest('{r1,r2,r3,r5}'::text[]) k, gpucredit.explain('rec', pg_temp.job(k))
	WHERE check_name = 'leaving' $$, $$
	job | saves
	r1  | its turn to save comes at 2027-04-01 01:02:58+00, and it is promised to be through by 2027-04-01 01:03:18+00
	r2  | its turn to save comes at 2027-04-01 01:03:18+00, and it will then be promised to be through by 2027-04-01 01:03:38+00
	r3  | its turn to save comes at 2027-04-01 01:04:38+00, without a promise to be through by then: no time or bandwidth is left for it
	r5  | its turn to save comes at 2027-04-01 01:04:38+00, without a promise to be through by then: neither an earlier checkpoint nor "checkpoint_bytes" in its spec tells how much it writes
$$);
BEGIN;
CALL pg_temp.act($$ SELECT gpucredit.checkpoint('rec', pg_temp.job('r1'), 1, 1, 'u', sha256('1'), 10000000000) $$);
SELECT pg_temp.check_rows('explain tells a job that has saved since it was told to when it did',
$$ SELECT split_part(detail, '; ', 2) AS saves FROM gpucredit.explain('rec', pg_temp.job('r1'))
	WHERE check_name = 'leaving' $$, $$
	saves
	it has saved at 2027-04-01 01:02:58+00, since it was told
$$);
ROLLBACK;

BEGIN;
\echo
\echo # An attempt that has saved early, or has left, gives its time to others
CALL pg_temp.later('10 s');
CALL pg_temp.act($$ SELECT gpucredit.checkpoint('rec', pg_temp.job('r1'), 1, 1, 'u', sha256('1'), 10000000000) $$);
SELECT pg_temp.check_none('a cycle starts no job', $$ SELECT * FROM pg_temp.place() $$);
SELECT pg_temp.check_rows('after the cycle the next attempt has its turn as soon as the first one has saved',
$$ SELECT * FROM pg_temp.turns() $$, $$
	job | turn      | saved    | gone
	r1  | -00:00:10 | 00:00:10 | 00:01:30
	r2  | 00:00:00  | 00:00:20 | 00:01:30
	r3  | 00:01:20  | -        | 00:01:30
	r4  | 00:00:20  | 00:01:20 | 00:01:30
	r5  | 00:01:20  | -        | 00:01:30
$$);
SELECT ctid AS was FROM gpucredit.directive WHERE org = 'rec' AND job = pg_temp.job('r3') \gset
SELECT pg_temp.check_none('another cycle starts no job', $$ SELECT * FROM pg_temp.place() $$);
SELECT pg_temp.check_value('a cycle in which the plan stays the same writes no directive',
	ctid::text, :'was')
FROM gpucredit.directive WHERE org = 'rec' AND job = pg_temp.job('r3');
SELECT pg_temp.check_rows('two attempts that had promises leave',
$$ SELECT k AS job, pg_temp.settle(k, 1, 'preempted') AS outcome FROM unnest('{r2,r4}'::text[]) k $$, $$
	job | outcome
	r2  | preempted
	r4  | preempted
$$);
SELECT pg_temp.check_none('the cycle after they left starts no job', $$ SELECT * FROM pg_temp.place() $$);
SELECT pg_temp.check_rows('the long save has its turn and a promise when those before it have left',
$$ SELECT * FROM pg_temp.turns() $$, $$
	job | turn      | saved    | gone
	r1  | -00:00:10 | 00:00:10 | 00:01:30
	r3  | 00:00:00  | 00:01:20 | 00:01:30
	r5  | 00:01:20  | -        | 00:01:30
$$);
ROLLBACK;

\echo
\echo # The bandwidth changes while attempts save
CALL pg_temp.later('10 s');
SET gpucredit.checkpoint_bandwidth = 400000000;
CALL pg_temp.act($$ SELECT gpucredit.reclaim('rec-4', '90 s') $$);
SELECT pg_temp.check_rows('a save that has begun keeps its promise under a lower bandwidth; of the others the last one loses it',
$$ SELECT * FROM pg_temp.turns() $$, $$
	job | turn      | saved    | gone
	r1  | -00:00:10 | 00:00:10 | 00:01:30
	r2  | 00:00:10  | 00:00:35 | 00:01:30
	r3  | 00:00:35  | -        | 00:01:30
	r4  | 00:00:35  | -        | 00:01:30
	r5  | 00:00:35  | -        | 00:01:30
$$);
RESET gpucredit.checkpoint_bandwidth;
CALL pg_temp.act($$ SELECT gpucredit.reclaim('rec-4', '90 s') $$);
SELECT pg_temp.check_rows('under the bandwidth that is the default all others save at the same time',
$$ SELECT * FROM pg_temp.turns() $$, $$
	job | turn      | saved    | gone
	r1  | -00:00:10 | 00:00:10 | 00:01:30
	r2  | 00:00:00  | 00:00:10 | 00:01:30
	r3  | 00:00:00  | 00:00:40 | 00:01:30
	r4  | 00:00:00  | 00:00:30 | 00:01:30
	r5  | 00:00:00  | -        | 00:01:30
$$);
CALL pg_temp.later('59 s');
SELECT pg_temp.check_value('shortly before the deadline all five attempts are still there', count(*)::text, '5')
FROM pg_temp.beat();
CALL pg_temp.later('31 s');
SELECT pg_temp.check_rows('at the deadline the sweep settles all five attempts on the gone nodes',
$$ SELECT * FROM gpucredit.check_nodes() $$, $$
	task                 | affected
	settle_node_lost     | 0
	settle_device_failed | 0
	settle_reclaimed     | 5
	skipped              | 0
$$);
SELECT pg_temp.check_rows('all five attempts end as preempted, and their jobs are queued again',
$$ SELECT job, outcome, job_state FROM pg_temp.attempts('r1', 'r2', 'r3', 'r4', 'r5') $$, $$
	job | outcome   | job_state
	r1  | preempted | queued
	r2  | preempted | queued
	r3  | preempted | queued
	r4  | preempted | queued
	r5  | preempted | queued
$$);
SELECT pg_temp.check_rows('the scenario leaves no running attempt and five waiting jobs',
$$ SELECT * FROM pg_temp.finish() $$, $$
	completed | cancelled
	0         | 5
$$);

\echo
\echo # Who may take a node back
SET ROLE gpucredit_app;
SELECT pg_temp.check_error('an application may not take a node back',
	$$ SELECT gpucredit.reclaim('rec-1', '1 min') $$, '42501');
RESET ROLE;

SELECT pg_temp.check_none('verify() finds nothing wrong', 'SELECT * FROM gpucredit.verify()');
