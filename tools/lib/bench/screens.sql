-- screens.sql: a busy pool of 1,213 nodes, and 10,000 jobs that wait.
SET client_min_messages = warning;
SET synchronous_commit = off;
SELECT count(gpucredit.set_price(t, 2)) FROM unnest('{A100,H100,L4,T4}'::text[]) t;
SELECT count(gpucredit.register_node('default', t || '-' || n, t,
	CASE WHEN t IN ('A100', 'H100') THEN 8 ELSE 4 END, 81920))
FROM unnest('{A100,H100,L4,T4}'::text[]) t, generate_series(1, 303) n;
SELECT gpucredit.register_node('default', 'L4-304', 'L4', 4, 81920);
CALL bench.submit(1, 4000, '{8xA100,4xH100,2xA100,0.5xT4,8xH100,1xL4}', '{0}', '4 h');
DO $$
BEGIN
	LOOP
		EXIT WHEN NOT EXISTS (SELECT FROM gpucredit.place() p
			WHERE p.action = 'start');
		COMMIT;
	END LOOP;
END
$$;
SELECT count(*) AS waiting FROM gpucredit.job WHERE state = 'queued' \gset
CALL bench.submit(4001, 4000 + 10000 - :waiting,
	'{8xA100,4xH100,2xA100,8xH100}', '{0}', '4 h');
SELECT count(*) FROM gpucredit.place();
VACUUM ANALYZE;
