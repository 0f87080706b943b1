-- requeue_job: a running job runs again, its owner pays for what ran, and
-- nobody else pays, waits or is evicted for it.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2027-04-01 00:00+00';
SET gpucredit.retry_backoff = '30 s';
\pset tuples_only
\pset format unaligned

-- 1 credit an hour. Lost work of the tier is refunded where the platform is the cause.
DO $$
BEGIN
	PERFORM gpucredit.create_pool('rq');
	PERFORM gpucredit.create_pool('rq-f', '{"placed_by": "foreign"}');
	PERFORM gpucredit.set_price('RQ-A', 1);
	PERFORM gpucredit.register_node('rq', 'rq-1', 'RQ-A', 8, 40960);
	PERFORM gpucredit.register_node('rq-f', 'rq-f1', 'RQ-A', 8, 40960);
	PERFORM gpucredit.set_tier('rq-free', 40, 'capacity', false, bill_lost_work => false);
	PERFORM gpucredit.create_account('rq');
	PERFORM gpucredit.create_account('rq-other');
	PERFORM gpucredit.issue('rq', '', 'i', 1000);
END $$;

CREATE FUNCTION pg_temp.later(by interval) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('gpucredit.clock', (gpucredit.now() + by)::text, false)
$$;
-- The node reports what it runs.
CREATE FUNCTION pg_temp.beat() RETURNS void LANGUAGE sql AS $$
	SELECT FROM gpucredit.heartbeat('rq-1', running => ARRAY(SELECT concat_ws('/', a.org, a.job, a.attempt)
		FROM gpucredit.attempt_gpu a WHERE a.node = 'rq-1' AND a.ended_at IS NULL))
$$;
-- A job that has run for an hour
CREATE FUNCTION pg_temp.running(name text, tier text DEFAULT 'standard_training') RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	id bigint;
BEGIN
	SELECT r.job INTO id FROM gpucredit.reserve('rq', '', name, '1xRQ-A', '10 h', pool => 'rq', tier => running.tier, max_retries => 0) r;
	PERFORM pg_temp.beat();
	PERFORM gpucredit.place('rq');
	PERFORM gpucredit.meter('rq', id, 1, '0');
	PERFORM pg_temp.later('1 h');
	PERFORM pg_temp.beat();
	PERFORM gpucredit.meter('rq', id, 1, '1 h');
	RETURN id;
END $$;
-- What is claimed, and whether it is so
CREATE FUNCTION pg_temp.holds(what text, got text, expected text) RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN got IS NOT DISTINCT FROM expected THEN 'ok - ' || what
		ELSE format('not ok - %s: got %s, expected %s', what, got, expected) END
$$;
-- The last attempt's outcome, its bill, the job's state, failures, and evictions that count
CREATE FUNCTION pg_temp.became(id bigint) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', a.attempt, a.outcome, a.billed, j.state, j.failures, a.retry_at - a.ended_at)
	FROM gpucredit.job j JOIN gpucredit.attempt a USING (org, job) WHERE j.org = 'rq' AND j.job = id
	ORDER BY a.attempt DESC LIMIT 1
$$;
-- The error of a call
CREATE FUNCTION pg_temp.error_of(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	EXECUTE call;
	RETURN 'none';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ' ' || detail;
END $$;

-- Settles a run of an hour and says what became of it
CREATE FUNCTION pg_temp.ends(id bigint, as_reported text, code int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM gpucredit.settle('rq', id, 1, as_reported, '1 h', code);
	RETURN pg_temp.became(id);
END $$;
-- Ends what is left
CREATE FUNCTION pg_temp.clear() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM gpucredit.cancel(org, job, 'clear ' || job) FROM gpucredit.job WHERE org = 'rq' AND ended_at IS NULL;
	PERFORM gpucredit.settle(org, job, attempt, 'cancelled') FROM gpucredit.attempt WHERE org = 'rq' AND ended_at IS NULL;
	RETURN '';
END $$;

--
-- A program that ends with 0 after the order has not completed: it runs again
--
SELECT pg_temp.running('saves') AS job \gset
SELECT pg_temp.holds('a running job is told to stop', job_state || ' ' || replayed, 'stopping false')
FROM gpucredit.requeue_job('rq', :job, 'q1', 'again');
SELECT pg_temp.holds('the same call again has the same answer', job_state || ' ' || replayed, 'stopping true')
FROM gpucredit.requeue_job('rq', :job, 'q1', 'again');
SELECT pg_temp.holds('another call has no further effect', job_state || ' ' || replayed, 'stopping false')
FROM gpucredit.requeue_job('rq', :job, 'q2');
SELECT pg_temp.holds('the key with other arguments is refused',
	left(pg_temp.error_of(format('SELECT gpucredit.requeue_job(%L, %s, %L, %L)', 'rq', :job, 'q1', 'else')), 5), 'UC201');
SELECT pg_temp.holds('its agent reads why', action || ' ' || reason, 'stop requeued')
FROM gpucredit.heartbeat('rq-1', running => ARRAY['rq/' || :job || '/1']);
SELECT pg_temp.holds('exit code 0 returns it to the queue, billed, as no failure, for a backoff',
	pg_temp.ends(:job, 'completed', 0), '1 requeued 1.000000 queued 0 00:00:30');
SELECT pg_temp.holds('its audit names the owner''s wish', reason, 'requeued')
FROM gpucredit.audit WHERE org = 'rq' AND job = :job AND operation = 'settle';
SELECT pg_temp.holds('it does not start before its backoff is over', count(*)::text, '0') FROM gpucredit.place('rq');
SELECT FROM pg_temp.later('31 s');
SELECT FROM pg_temp.beat();
SELECT pg_temp.holds('it starts under its number', job || ' ' || attempt, :job || ' 2') FROM gpucredit.place('rq') WHERE action = 'start';
SELECT pg_temp.holds('with credit for its whole wall limit', h.held::text, '10.000000')
FROM gpucredit.job j JOIN gpucredit.hold h USING (org, hold) WHERE j.org = 'rq' AND j.job = :job;
SELECT pg_temp.holds('a requeue is no eviction, which would protect it from the next one', evictions::text, '0')
FROM gpucredit.attempt_gpu WHERE org = 'rq' AND job = :job AND attempt = 2;
SELECT pg_temp.holds('the order was to the first run alone', action, 'continue') FROM gpucredit.meter('rq', :job, 2, '0');
SELECT pg_temp.holds('a run without an order completes', outcome, 'completed') FROM gpucredit.settle('rq', :job, 2, 'completed', '1 min', 0);
SELECT pg_temp.holds('a job that is over is submitted again', pg_temp.error_of(format('SELECT gpucredit.requeue_job(%L, %s, %L)', 'rq', :job, 'q3')), 'UC303 It is over.');

--
-- However its program ends, and whoever says how
--
SELECT pg_temp.running('fails') AS job \gset
SELECT FROM gpucredit.requeue_job('rq', :job, 'f');
SELECT pg_temp.holds('an error is no failure then', pg_temp.ends(:job, 'failed', 1), '1 requeued 1.000000 queued 0 00:00:30');
SELECT pg_temp.running('is killed') AS job \gset
SELECT FROM gpucredit.requeue_job('rq', :job, 'k');
SELECT pg_temp.holds('nor is the signal that stopped it', pg_temp.ends(:job, 'failed', 143), '1 requeued 1.000000 queued 0 00:00:30');
SELECT pg_temp.running('is full') AS job \gset
SELECT FROM gpucredit.requeue_job('rq', :job, 'm');
SELECT pg_temp.holds('nor an end for want of memory', pg_temp.ends(:job, 'out_of_memory', 137), '1 requeued 1.000000 queued 0 00:00:30');
SELECT pg_temp.running('is late') AS job \gset
SELECT FROM gpucredit.requeue_job('rq', :job, 't');
SELECT pg_temp.holds('nor its limit', pg_temp.ends(:job, 'timeout', 143), '1 requeued 1.000000 queued 0 00:00:30');
SELECT pg_temp.running('asks inside') AS job \gset
SELECT pg_temp.holds('a program may ask its agent instead, without a call', pg_temp.ends(:job, 'requeued', 0), '1 requeued 1.000000 queued 0 00:00:30');
SELECT pg_temp.running('is lost') AS job \gset
SELECT FROM gpucredit.requeue_job('rq', :job, 'l');
SELECT pg_temp.holds('a lost node stays the platform''s loss', pg_temp.ends(:job, 'node_lost', NULL), '1 node_lost 1.000000 queued 0 00:00:00');
SELECT pg_temp.clear();

--
-- Nobody else pays for it
--
SELECT pg_temp.running('free', 'rq-free') AS job \gset
SELECT FROM gpucredit.requeue_job('rq', :job, 'fr');
SELECT pg_temp.holds('work since the last checkpoint is not refunded, where the platform''s preemption would be', s.billed || ' ' || s.refunded, '1.000000 0.000000')
FROM gpucredit.settle('rq', :job, 1, 'preempted', '1 h', 143) s;
SELECT pg_temp.running('stays', 'rq-free') AS job \gset
SELECT FROM gpucredit.requeue_job('rq', :job, 's');
SELECT FROM pg_temp.later('2 min');
SELECT FROM pg_temp.beat();
SELECT FROM gpucredit.reap_holds();
SELECT pg_temp.holds('a run that its agent does not end is ended by the server, billed as metered', pg_temp.became(:job), '1 requeued 1.000000 queued 0 00:00:30');
SELECT pg_temp.holds('and nothing of it is refunded', refunded::text, '0.000000') FROM gpucredit.attempt WHERE org = 'rq' AND job = :job;
SELECT pg_temp.clear();

-- A job that waited long, and so goes before others, does so once.
SELECT job FROM gpucredit.reserve('rq', '', 'waited', '1xRQ-A', '10 h', pool => 'rq') \gset
SELECT FROM pg_temp.later('30 h');
SELECT FROM pg_temp.beat();
SELECT FROM gpucredit.place('rq');
SELECT FROM gpucredit.meter('rq', :job, 1, '0');
SELECT pg_temp.holds('it waited', waited::text, '1 day 06:00:00') FROM gpucredit.job WHERE org = 'rq' AND job = :job;
SELECT FROM gpucredit.requeue_job('rq', :job, 'wa');
SELECT FROM gpucredit.settle('rq', :job, 1, 'completed', '0', 0);
SELECT pg_temp.holds('a job that its owner has run again waits anew', waited || ' ' || (waits_from - gpucredit.now()), '00:00:00 00:00:30')
FROM gpucredit.job WHERE org = 'rq' AND job = :job;
SELECT pg_temp.clear();

-- Nor by failing, until its retries are used up.
SELECT job FROM gpucredit.reserve('rq', '', 'fails often', '1xRQ-A', '10 h', pool => 'rq', max_retries => 2) \gset
SELECT FROM pg_temp.later('30 h');
SELECT FROM pg_temp.beat();
SELECT FROM gpucredit.place('rq');
SELECT FROM gpucredit.meter('rq', :job, 1, '0');
SELECT job_state FROM gpucredit.settle('rq', :job, 1, 'failed', '0', 1);
SELECT pg_temp.holds('a job whose program failed waits anew', waited || ' ' || (waits_from - gpucredit.now()), '00:00:00 00:00:30')
FROM gpucredit.job WHERE org = 'rq' AND job = :job;
SELECT pg_temp.clear();
-- What is no fault of its program leaves a job its age.
SELECT job FROM gpucredit.reserve('rq', '', 'loses its node', '1xRQ-A', '10 h', pool => 'rq') \gset
SELECT FROM pg_temp.later('30 h');
SELECT FROM pg_temp.beat();
SELECT FROM gpucredit.place('rq');
SELECT FROM gpucredit.meter('rq', :job, 1, '0');
SELECT job_state FROM gpucredit.settle('rq', :job, 1, 'node_lost', '0');
SELECT pg_temp.holds('a job that lost its node keeps its age', (waited = '30 h')::text, 'true')
FROM gpucredit.job WHERE org = 'rq' AND job = :job;
SELECT pg_temp.clear();

--
-- Cancelled, waiting, somebody else's, another scheduler's
--
SELECT pg_temp.running('stops') AS job \gset
SELECT FROM gpucredit.requeue_job('rq', :job, 'c');
SELECT pg_temp.holds('a cancel after a requeue counts', job_state, 'stopping') FROM gpucredit.cancel('rq', :job, 'cc');
SELECT pg_temp.holds('a requeue after a cancel is refused', pg_temp.error_of(format('SELECT gpucredit.requeue_job(%L, %s, %L)', 'rq', :job, 'c2')), 'UC303 It was cancelled, and is stopping.');
SELECT pg_temp.holds('the job ends as cancelled', pg_temp.ends(:job, 'failed', 143), '1 cancelled 1.000000 cancelled 0');
SELECT job FROM gpucredit.reserve('rq', '', 'waits', '8xRQ-A', '10 h', pool => 'rq', options => '{"hold": true}') \gset
SELECT pg_temp.holds('a job that waits stays as it is', job_state, 'queued') FROM gpucredit.requeue_job('rq', :job, 'w');
SELECT pg_temp.holds('another organisation''s job is unknown', left(pg_temp.error_of(format('SELECT gpucredit.requeue_job(%L, %s, %L)', 'rq-other', :job, 'w')), 5), 'UC301');
SELECT job FROM gpucredit.reserve('rq', '', 'foreign', '1xRQ-A', '1 h', pool => 'rq-f') \gset
SELECT FROM gpucredit.placed('rq', :job, 'pl', '{rq-f1}', '{"{0}"}', 'RQ-A');
SELECT pg_temp.holds('a run of another scheduler is requeued there', pg_temp.error_of(format('SELECT gpucredit.requeue_job(%L, %s, %L)', 'rq', :job, 'fo')), 'UC303 Another scheduler runs it.');
SELECT pg_temp.clear();
SELECT * FROM gpucredit.verify();
