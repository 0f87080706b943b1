-- running.sql: :jobs one-GPU jobs that have been running for 20 days, on
-- machines of 64 GPUs.  Twenty days, so that elapsed may grow by as much as a
-- run needs without being cut to what the server saw pass.
SET synchronous_commit = off;
SET gpucredit.node_suspect = 0;
SELECT set_config('gpucredit.clock', (now() - interval '20 days')::text,
	false);
SELECT gpucredit.set_price('H100', 2.5);
SELECT count(gpucredit.register_node('default', 'node' || n, 'H100', 64,
	81920, leaf => 'leaf' || n / 16))
FROM generate_series(1, (:jobs + 63) / 64) n;
CALL bench.submit(1, :jobs, '{1xH100}', '{0}', '100 days');
CALL bench.place_all(:jobs);
RESET gpucredit.clock;

-- What a heartbeat is compared with: the same rows under a primary key,
-- without the indexes and checks that gpucredit adds.
CREATE TABLE bench.plain WITH (fillfactor = 50)
AS SELECT * FROM gpucredit.attempt;
ALTER TABLE bench.plain ADD PRIMARY KEY (org, job, attempt);
VACUUM ANALYZE;
CHECKPOINT;
