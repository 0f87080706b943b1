-- refill.sql: after :started of :jobs jobs have started, as many more.
SET synchronous_commit = off;
SELECT array_agg(1000 + c) AS memory FROM generate_series(1, :classes) c \gset
CALL bench.submit(:jobs + 1, :jobs + :started, '{1x*}',
	:'memory'::bigint[], '4 hours');
SELECT count(*) = :jobs AS filled FROM gpucredit.job WHERE state = 'queued'
\gset
\if :filled
\else
DO $$ BEGIN RAISE EXCEPTION 'the queue is not full'; END $$;
\endif
VACUUM ANALYZE;
