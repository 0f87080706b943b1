-- queue_more.sql: nodes "n1" to "n:nodes" of 8 devices are there and full, and
-- :jobs one-GPU jobs of :classes classes wait.
SET synchronous_commit = off;
SELECT array_agg(1000 + c) AS memory FROM generate_series(1, :classes) c \gset
SELECT count(*) AS there FROM gpucredit.node \gset
SELECT count(*) AS submitted FROM gpucredit.job \gset
SELECT gpucredit.set_price('G', 1) WHERE :there = 0;
SELECT count(gpucredit.register_node('default', 'n' || n, 'G', 8, 16384, 96000,
	786432))
FROM generate_series(:there + 1, :nodes) n;
CALL bench.submit(:submitted + 1, :nodes * 8 + :jobs, '{1x*}',
	:'memory'::bigint[], '4 hours');
ANALYZE;
CALL bench.place_all((:nodes - :there) * 8);
SELECT count(*) = :jobs AS filled FROM gpucredit.job WHERE state = 'queued'
\gset
\if :filled
\else
DO $$ BEGIN RAISE EXCEPTION 'the queue is not as long as it should be'; END $$;
\endif
VACUUM ANALYZE;
