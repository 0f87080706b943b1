-- size.sql: :nodes nodes of 8 devices, full with four jobs of two GPUs each of
-- all organisations in turn, and :waiting more jobs that wait.
SET synchronous_commit = off;
SELECT gpucredit.set_price(t, 2) FROM unnest('{A100,H100}'::text[]) t;
SELECT count(gpucredit.register_node('default', 'node-' || n,
	(ARRAY['A100', 'H100'])[1 + n % 2], 8, 81920, 64000, 524288,
	leaf => 'leaf-' || n / 32))
FROM generate_series(1, :nodes) n;
CALL bench.submit(1, :nodes * 4, '{2x*}', '{1000}', '20 hours');
CALL bench.place_all(:nodes * 4);
CALL bench.submit(:nodes * 4 + 1, :nodes * 4 + :waiting, '{2x*,4xH100,8xA100}',
	'{1000}', '4 hours');
SELECT count(*) FROM gpucredit.place();
