-- moves.sql: a pool of 100 nodes of 8 devices with one movable job of four GPUs
-- each.  A job of eight GPUs needs one of them moved.
SET synchronous_commit = off;
SELECT gpucredit.create_pool('moves', '{"packing": "spread"}');
SELECT count(gpucredit.register_node('moves', 'moves-' || n, 'H100', 8, 81920,
	64000, 524288))
FROM generate_series(1, 100) n;
SELECT count(*) FROM generate_series(1, 100) n, gpucredit.reserve('1', '1',
	'moved' || n, '4xH100', '20 hours', 'standard_training', 'moves') r
WHERE r.status = 'granted';
SELECT count(DISTINCT p.node) = 100 AS spread FROM gpucredit.place('moves') p \gset
\if :spread
\else
\warn the jobs are not spread
SELECT 1 / 0;
\endif
-- jobs may be moved at once
SELECT gpucredit.set_tier('standard_training', 2, 'capacity', false, min_run => '0');
SELECT gpucredit.create_pool('moves', '{"consolidate": true}');
