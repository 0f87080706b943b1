-- hot.sql: each hot call once, with a label before it on standard error.
-- Those of what running.sql and busy.sql made: jobs 1 to 9000 are settled,
-- 9001 to 9500 told to stop, 9501 to 10000 running, of the others those of
-- one organisation wait.
\o /dev/null
SET client_min_messages = notice;
\warn ## reserve
SELECT * FROM gpucredit.reserve('7', '3', 'hot reserve', '1xH100', '4 hours');
\warn ## reserve_replayed
SELECT * FROM gpucredit.reserve('7', '3', 'hot reserve', '1xH100', '4 hours');
\warn ## plan
SELECT * FROM gpucredit.plan();
\warn ## place
SELECT * FROM gpucredit.place('default', 50);
\warn ## heartbeat
SELECT * FROM gpucredit.heartbeat('node149', NULL, '{7/9507/1}');
\warn ## meter
SELECT * FROM gpucredit.meter('7', 9507, 1, '1 hour');
\warn ## meter_late
SELECT * FROM gpucredit.meter('7', 9507, 1, '1 minute');
\warn ## meter_directed
SELECT * FROM gpucredit.meter('7', 9007, 1, '1 hour');
\warn ## meter_batch
SELECT * FROM gpucredit.meter_batch(array_fill('7'::text, '{20}'),
	ARRAY(SELECT 9507 + 20 * n FROM generate_series(1, 20) n),
	array_fill(1, '{20}'), array_fill('1 hour'::interval, '{20}'));
\warn ## settle
SELECT * FROM gpucredit.settle('7', 9507, 1, 'completed', '2 hours');
\warn ## settle_again
SELECT * FROM gpucredit.settle('7', 9507, 1, 'completed', '2 hours');
\warn ## settle_requeued
SELECT * FROM gpucredit.settle('7', 9527, 1, 'failed', '2 hours');
\warn ## settle_directed
SELECT * FROM gpucredit.settle('7', 9007, 1, 'cancelled', '2 hours');
\warn ## cancel
SELECT * FROM gpucredit.cancel('7', 11507, 'hot cancel');
\warn ## hold
SELECT hold FROM gpucredit.hold('7', '3', 'hot hold', 1, '1 day') \gset
\warn ## capture
SELECT * FROM gpucredit.capture('7', :hold, 'hot capture', 0.5, false);
\warn ## release
SELECT * FROM gpucredit.release('7', :hold, 'hot release');
\warn ## balance
SELECT * FROM gpucredit.balance('7', '3');
\warn ## buckets
SELECT * FROM gpucredit.buckets('7', '3');
