-- quote: what reserve would answer, at which prices, and when the job would
-- start; it changes nothing.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2027-09-01 00:00+00';
SET gpucredit.node_suspect = 0;
SET gpucredit.node_lost = 0;
\pset null '-'

DO $$
BEGIN
	PERFORM gpucredit.create_pool('qu'), gpucredit.create_pool('qu-other');
	PERFORM gpucredit.set_price('QU-A', 2.5), gpucredit.set_price('QU-A', 1.5, spot => true),
		gpucredit.set_price('QU-B', 1, 'qu'), gpucredit.set_price('QU-B', 4),
		gpucredit.set_resource_price('cpu', 0.01, 'qu'), gpucredit.set_resource_price('memory', 0.001, 'qu');
	PERFORM gpucredit.set_tier('qu-half', 5, 'capacity', true, price_factor => 0.5),
		gpucredit.set_tier('qu-closed', 1, 'never', true, open => false),
		gpucredit.set_tier('qu-urgent', 0, 'never', true, max_wall => '400 days');
	PERFORM gpucredit.register_node('qu', 'qu-1', 'QU-A', 8, 40960, 64000, 524288),
		gpucredit.register_node('qu', 'qu-2', 'QU-B', 8, 81920, spot => true),
		gpucredit.register_node('qu', 'qu-3', 'QU-N', 1, 40960);
	PERFORM gpucredit.create_account('qu', a) FROM unnest('{"",a,a/b,a/c,off,poor,sliced}'::text[]) a;
	PERFORM gpucredit.create_account('qu-two');
	PERFORM gpucredit.suspend_account('qu', 'off', true);
	PERFORM gpucredit.grant_tier('qu', 'a/b', 'qu-closed');
	PERFORM gpucredit.set_quota('qu', 'a/c', max_gpus => 4, max_queued => 2),
		gpucredit.set_quota('qu', 'a', 'QU-A', max_gpus => 6),
		gpucredit.set_quota('qu', '', max_queued => 10000);
	PERFORM gpucredit.set_budget('qu', 'a/b', 60), gpucredit.set_budget('qu', 'a', 70, 'day'),
		gpucredit.set_budget('qu', '', 10, 'year', hard => false);
	PERFORM gpucredit.issue('qu', '', 'paid', 300),
		gpucredit.issue('qu', '', 'ends', 3, 'promo', expires_at => '2027-09-01 00:30+00', priority => 5),
		gpucredit.issue('qu', '', 'later', 500, effective_at => '2027-09-02 00:00+00', priority => 1),
		gpucredit.issue('qu', 'a', 'half', 20, 'promo', policy => '{"gpu_types": ["QU-A"], "max_share": 0.5}'),
		gpucredit.issue('qu', 'a', 'some', 15, 'grant', policy => '{"max_per_job": 5, "tiers": ["standard_training", "qu-half"]}'),
		gpucredit.issue('qu', 'a/b', 'own', 30, priority => 10),
		gpucredit.issue('qu', 'sliced', 'own sliced', 200, priority => 10),
		gpucredit.issue('qu-two', '', 'paid', 1000);
	PERFORM gpucredit.set_slices('qu', 'sliced', 4);
END $$;
-- what a quote must leave as it is
CREATE VIEW pg_temp.state AS SELECT (SELECT count(*) FROM gpucredit.job) AS jobs,
	(SELECT count(*) FROM gpucredit.hold) AS holds, (SELECT count(*) FROM gpucredit.entry) AS entries,
	(SELECT count(*) FROM gpucredit.audit) AS audit, (SELECT count(*) FROM gpucredit.denial) AS denials,
	(SELECT count(*) FROM gpucredit.request) AS requests, (SELECT count(*) FROM gpucredit.alert) AS alerts,
	(SELECT sum(q.cycle + q.spare) FROM gpucredit.quota q) AS quotas, (SELECT last_value FROM gpucredit.job_job_seq) AS job_numbers,
	(SELECT last_value FROM gpucredit.hold_hold_seq) AS hold_numbers;

\echo === Prices
\x
SELECT decision, reason, held, cost, per_hour, resources, price_factor, discount, wall_limit, held_for, offers,
	(SELECT jsonb_agg(b - 'bucket' ORDER BY n) FROM jsonb_array_elements(buckets) WITH ORDINALITY AS e (b, n)) AS buckets, payable, budget_left,
	starts, waits_for, expected_at, latest_at
FROM gpucredit.quote('qu', '', '2xQU-A', '2 hours', 'qu-half', 'qu', cpu_milli => 4000, memory_mib => 16384);
-- types in the order in which they are tried; the hold is for the dearest, and
-- a share pays for the memory that its floor keeps from others
SELECT decision, held, cost, per_hour, discount, held_for, offers FROM gpucredit.quote('qu', '', '0.25x*@20GiB', '90 min', pool => 'qu', hold_window => '10 min', plan => false);
SELECT decision, held, cost, per_hour, wall_limit, held_for, offers FROM gpucredit.quote('qu', '', '2-4xQU-A', tier => 'qu-urgent', pool => 'qu', plan => false);
SELECT decision, held, per_hour, resources, offers FROM gpucredit.quote('qu', '', '0', '1 h', pool => 'qu', cpu_milli => 8000, plan => false);
-- each pool has its prices
SELECT decision, reason, per_hour FROM gpucredit.quote('qu', '', '1xQU-A', '1 h', pool => 'qu-other');
\x

\echo === Who pays
SELECT q.decision, q.held, q.payable, q.budget_left, b.b ->> 'kind' AS kind, b.b ->> 'account' AS account, b.b ->> 'amount' AS amount
FROM gpucredit.quote('qu', 'a/b', '4xQU-A', '5 h', pool => 'qu', plan => false) q,
	jsonb_array_elements(q.buckets) WITH ORDINALITY AS b (b, n) ORDER BY b.n;
-- and why it would be denied
SELECT account, request, tier, q.decision, q.reason, q.held, q.payable, q.budget_left, q.starts
FROM (VALUES ('a/b', '4xQU-A', 'standard_training'), ('a/b', '6xQU-A', 'standard_training'), ('a/c', '5xQU-B', 'standard_training'),
	('off', '1xQU-A', 'standard_training'), ('', '1xQU-N', 'standard_training'), ('', '16xQU-A', 'standard_training'),
	('a', '1xQU-A', 'qu-closed'), ('', '8xQU-A|QU-B', 'standard_training')) c (account, request, tier),
	LATERAL gpucredit.quote('qu', c.account, c.request, '8 h', c.tier, 'qu') q;

\echo === It agrees with reserve
CREATE FUNCTION pg_temp.pick(n int, what text, VARIADIC choices text[]) RETURNS text
LANGUAGE sql AS $$
	SELECT choices[1 + ('x' || substr(md5(n || what), 1, 7))::bit(28)::int % cardinality(choices)] $$;
-- A submission of many, chosen by its number: as quote sees it, and as reserve
-- and place then do, whose effects are rolled back.
CREATE FUNCTION pg_temp.compare(n int, OUT quoted text, OUT reserved text, OUT kind text) LANGUAGE plpgsql AS $$
DECLARE
	account text := pg_temp.pick(n, 'account', '', '', 'a', 'a/b', 'a/b', 'a/c', 'sliced', 'sliced', '', 'off', 'none');
	request text := pg_temp.pick(n, 'request', '1xQU-A', '2xQU-A|QU-B', '0.5xQU-B', '0.5xQU-A@20GiB', '4xQU-B@60GB', '8x*', '2-6xQU-A', '2-6xQU-B',
		'0', '1xQU-N', '1xQU-NONE', '3xQU-A@100GB', '12xQU-A');
	wall interval := pg_temp.pick(n, 'wall', '20 min', '2 h', '2 h', '7 h', '11 h', '11 h', '24 h', NULL, '48 h');
	tier text := pg_temp.pick(n, 'tier', 'standard_training', 'standard_training', 'qu-half', 'qu-closed', 'qu-urgent', 'interactive');
	topology text := pg_temp.pick(n, 'topology', 'any', 'any', 'node', 'nvlink');
	preemptible text := pg_temp.pick(n, 'preemptible', NULL, NULL, NULL, NULL, NULL, NULL, 'capacity', 'never');
	cpu bigint := pg_temp.pick(n, 'cpu', '0', '0', '0', '4000', '4000', '200000')::bigint;
	memory bigint := pg_temp.pick(n, 'memory', '0', '16384')::bigint;
	hold_window interval := pg_temp.pick(n, 'window', NULL, NULL, NULL, NULL, NULL, '10 min', '10 min', '1 us');
	options jsonb := pg_temp.pick(n, 'options', '{}', '{}', '{"priority": 5}', '{"begin": "2027-09-03 00:00+00"}', '{"hold": true}', '{"prefer": "leaf"}');
	q gpucredit.quote_result;
	r gpucredit.reserve_result;
	buckets text;
	starts boolean;
BEGIN
	BEGIN
		SELECT * INTO q FROM gpucredit.quote('qu', account, request, wall, tier, 'qu', topology, preemptible, 3, cpu, memory, hold_window, '{}', options);
		SELECT string_agg(b ->> 'bucket' || ':' || (b ->> 'amount'), ' ' ORDER BY o) INTO buckets
		FROM jsonb_array_elements(q.buckets) WITH ORDINALITY AS e (b, o);
		kind := concat_ws(' ', q.decision, q.reason);
		quoted := concat_ws(' ', kind, CASE WHEN q.decision = 'granted' THEN q.held END, buckets, (q.starts = 'now')::text);
	EXCEPTION WHEN OTHERS THEN
		kind := SQLSTATE;
		quoted := concat_ws(' ', SQLSTATE, SQLERRM);
	END;
	BEGIN
		SELECT * INTO r FROM gpucredit.reserve('qu', account, 'compare ' || n, request, wall, tier, 'qu', topology, preemptible, 3, cpu, memory, hold_window, '{}', options);
		SELECT string_agg(p.bucket || ':' || p.held::numeric, ' ' ORDER BY p.part) INTO buckets
		FROM gpucredit.job j JOIN gpucredit.hold_part p ON p.org = 'qu' AND p.hold = j.hold
		WHERE j.org = 'qu' AND j.job = r.job;
		IF r.status = 'granted' THEN
			starts := EXISTS (SELECT FROM gpucredit.place('qu') p WHERE p.action = 'start' AND p.job = r.job);
		END IF;
		reserved := concat_ws(' ', r.status, r.reason, CASE WHEN r.status = 'granted' THEN r.held END, buckets, starts::text);
		RAISE EXCEPTION USING ERRCODE = 'QU000';
	EXCEPTION WHEN SQLSTATE 'QU000' THEN
		NULL;
	WHEN OTHERS THEN
		reserved := concat_ws(' ', SQLSTATE, SQLERRM);
	END;
END $$;
CREATE FUNCTION pg_temp.differences(first int, last int) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format('%s: quote: %s, reserve: %s', n, c.quoted, c.reserved)
	FROM generate_series(first, last) n, LATERAL pg_temp.compare(n) c
	WHERE c.quoted IS DISTINCT FROM c.reserved $$;
-- in an idle pool
SELECT pg_temp.differences(1, 120);
-- with credit in holds that are dead and not released, and in one that is not;
-- which bucket pays depends on which of them are released first
SELECT count(gpucredit.hold('qu', h.account, 'dead ' || h.n, h.amount, h.ttl))
FROM (VALUES (1, 'a/b', 30, '1 min'::interval), (2, '', 250, '2 min'), (3, 'sliced', 150, '3 min'), (4, '', 60, '1 day'), (5, 'a', 1, '4 min'))
	h (n, account, amount, ttl);
SELECT set_config('gpucredit.clock', '2027-09-01 00:10+00', false);
SELECT pg_temp.differences(121, 220);
-- beside jobs that run and wait, and at the limit of a quota
SELECT key, r.status, r.reason FROM (VALUES (1, '', 'fill', '6xQU-A', '4 h', '{}'::jsonb), (2, '', 'fill 2', '8xQU-B', '3 h', '{}'),
	(3, 'a/c', 'wait', '4xQU-B', '1 h', '{"hold": true}'), (4, 'a/c', 'wait 2', '4xQU-B', '1 h', '{"hold": true}')) c (n, account, key, request, wall, options),
	LATERAL gpucredit.reserve('qu', c.account, c.key, c.request, c.wall::interval, pool => 'qu', options => c.options) r ORDER BY n;
SELECT count(*) FROM gpucredit.place('qu');
SELECT pg_temp.differences(221, 320);
-- all kinds of answers were among them
SELECT c.kind, count(*) FROM generate_series(1, 320) n, LATERAL pg_temp.compare(n) c GROUP BY 1 ORDER BY 1;

\echo === When it would start
SELECT request, tier, options, q.decision, q.starts, q.waits_for, q.expected_at, q.latest_at
FROM (VALUES (1, '2xQU-A', 'standard_training', '{}'::jsonb), (2, '8xQU-A', 'standard_training', '{}'), (3, '8xQU-A', 'qu-urgent', '{}'),
	(4, '1xQU-A', 'standard_training', '{"hold": true}'), (5, '1xQU-A', 'standard_training', '{"begin": "2027-09-01 12:00+00"}'),
	(6, '1xQU-A', 'standard_training', '{"deadline": "2027-09-01 00:30+00"}')) c (n, request, tier, options),
	LATERAL gpucredit.quote('qu', '', c.request, '1 h', c.tier, 'qu', options => c.options) q ORDER BY n;
SELECT job AS fill FROM gpucredit.jobs WHERE org = 'qu' AND request = '6xQU-A' \gset
SELECT q.starts, q.waits_for FROM gpucredit.quote('qu', '', '1xQU-A', '1 h', pool => 'qu', options => jsonb_build_object('after', 'afterok:' || :fill)) q;
-- only if it is asked for, and only of a job that would be granted
SELECT q.decision, q.starts FROM gpucredit.quote('qu', '', '2xQU-A', '1 h', pool => 'qu', plan => false) q;
SELECT q.decision, q.starts FROM gpucredit.quote('qu', 'off', '2xQU-A', '1 h', pool => 'qu') q;
-- where another scheduler places
SELECT gpucredit.create_pool('qu-foreign', '{"placed_by": "foreign"}'), gpucredit.register_node('qu-foreign', 'qu-f', 'QU-A', 8, 40960);
SELECT q.decision, q.starts, q.expected_at FROM gpucredit.quote('qu', '', '2xQU-A', '1 h', pool => 'qu-foreign') q;

\echo === It changes nothing
CREATE TEMP TABLE before AS SELECT * FROM pg_temp.state;
BEGIN READ ONLY;
SELECT count(q.decision) FROM (VALUES (''), ('a/b'), ('a/c'), ('off'), ('sliced')) a (account),
	LATERAL gpucredit.quote('qu', a.account, '4xQU-A', '20 h', pool => 'qu') q;
SELECT pg_current_xact_id_if_assigned() IS NULL AS no_transaction_number,
	NOT EXISTS (SELECT FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype IN ('tuple', 'advisory')
		OR l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.mode <> 'AccessShareLock') AS no_locks;
COMMIT;
TABLE before EXCEPT TABLE pg_temp.state;

\echo === A tenant
CREATE ROLE qu_tenant IN ROLE gpucredit_tenant;
CREATE ROLE qu_nobody IN ROLE gpucredit_tenant;
CREATE ROLE qu_agent IN ROLE gpucredit_agent;
SELECT gpucredit.bind_tenant('qu_tenant', 'qu', 'a');
SELECT job AS foreign_job FROM gpucredit.jobs WHERE org = 'qu' AND account = '' ORDER BY 1 LIMIT 1 \gset
-- an instant between full minutes
SELECT set_config('gpucredit.clock', '2027-09-01 00:20:07.123+00', false);
-- jobs that have run for their tier's min_run leave for a more important one
SELECT q.starts, q.waits_for, q.latest_at FROM gpucredit.quote('qu', '', '8xQU-A', '1 h', 'qu-urgent', 'qu') q;
SELECT r.status FROM gpucredit.reserve('qu-two', '', 'short', '2xQU-A', '50 min 3 s', pool => 'qu') r;
SELECT count(*) FROM gpucredit.place('qu') WHERE action = 'start';
SELECT q.starts, q.expected_at, q.latest_at FROM gpucredit.quote('qu', 'a', '2xQU-A', '1 h', pool => 'qu') q;
SET ROLE qu_tenant;
-- for its own accounts, and later instants only roughly
SELECT q.decision, q.held, q.starts, q.expected_at, q.latest_at FROM gpucredit.quote('qu', 'a', '2xQU-A', '1 h', pool => 'qu') q;
SELECT q.decision, q.reason FROM gpucredit.quote('qu', 'a/c', '4xQU-A', '1 h', pool => 'qu') q;
\set VERBOSITY sqlstate
-- nothing of others, in the words for what does not exist
SELECT gpucredit.quote('qu', '', '1xQU-A', '1 h', pool => 'qu');
SELECT gpucredit.quote('qu', 'a/none', '1xQU-A', '1 h', pool => 'qu');
SELECT gpucredit.quote('qu-two', '', '1xQU-A', '1 h', pool => 'qu');
SELECT gpucredit.quote('none', '', '1xQU-A', '1 h', pool => 'qu');
SELECT gpucredit.quote('qu', 'a', '1xQU-A', '1 h', pool => 'qu', options => jsonb_build_object('after', 'afterany:' || :foreign_job));
SELECT gpucredit.quote('qu', 'a', '1xQU-A', '1 h', pool => 'qu', options => jsonb_build_object('after', 'afterany:999999999'));
SET ROLE qu_nobody;
SELECT gpucredit.quote('qu', 'a', '1xQU-A', '1 h', pool => 'qu');
SET ROLE qu_agent;
SELECT gpucredit.quote('qu', 'a', '1xQU-A', '1 h', pool => 'qu');
RESET ROLE;
\set VERBOSITY default
SELECT gpucredit.quote('qu', 'a', '1xQU-A', '1 h', pool => 'qu', plan => NULL);

-- the test removes what it made
SELECT gpucredit.unbind_tenant('qu_tenant', 'qu', 'a');
DROP ROLE qu_tenant, qu_nobody, qu_agent;
SELECT count(gpucredit.cancel(j.org, j.job, 'end ' || j.job)) > 0 AS cancelled
FROM gpucredit.jobs j WHERE j.org LIKE 'qu%' AND j.state IN ('queued', 'starting', 'running');
SELECT count(gpucredit.settle(a.org, a.job, a.attempt, 'cancelled')) > 0 AS settled
FROM gpucredit.attempt a WHERE a.org LIKE 'qu%' AND a.ended_at IS NULL;
-- other tests list the tiers that are not open to all
SELECT gpucredit.set_tier('qu-closed', 1, 'never', true, open => true);
SELECT * FROM gpucredit.verify();
