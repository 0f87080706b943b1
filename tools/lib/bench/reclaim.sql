-- reclaim.sql: :nodes nodes of 8 devices in a pool that reclaims, full for
-- two hours with one-GPU jobs of organisation 0; a gang of organisation 1, on
-- :nodes / 10 times 8 devices, waits.
SET synchronous_commit = off;
SELECT now() - interval '2 hours' AS filled \gset
SET gpucredit.clock = :'filled';
SELECT gpucredit.create_pool('reclaim', '{"reclaim": true}'),
	gpucredit.set_price('G', 1);
SELECT count(gpucredit.register_node('reclaim', 'node-' || n, 'G', 8, 81920,
	64000, 524288))
FROM generate_series(1, :nodes) n;
SELECT count(r.job)
FROM generate_series(1, :nodes * 8) i,
	gpucredit.reserve('0', (i % 10)::text, 'job' || i, '1xG', '24 hours',
		'standard_training', 'reclaim', cpu_milli => 1000,
		memory_mib => 1000) r;
SELECT count(p.job) AS started FROM gpucredit.place('reclaim', :nodes * 8) p
\gset
SELECT :started = :nodes * 8 AS full \gset
\if :full
\else
DO $$ BEGIN RAISE EXCEPTION 'the nodes are not full'; END $$;
\endif
RESET gpucredit.clock;
SELECT r.status = 'granted' FROM gpucredit.reserve('1', '0', 'gang',
	:nodes / 10 * 8 || 'xG', '24 hours', 'standard_training', 'reclaim') r;
VACUUM ANALYZE;
