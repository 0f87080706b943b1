-- busy.sql: on top of running.sql, all that a busy database has: settled
-- jobs, waiting ones, cancellations under way, holds, folded spend.
SET synchronous_commit = off;
CREATE PROCEDURE bench.busy() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 3000 LOOP
		PERFORM gpucredit.settle((i % 20)::text, i, 1, 'completed', '2 hours');
		COMMIT;
	END LOOP;
	FOR i IN 3001 .. 5000 LOOP
		PERFORM gpucredit.cancel((i % 20)::text, i, 'cancel' || i);
		COMMIT;
	END LOOP;
	FOR i IN 1 .. 1000 LOOP
		PERFORM gpucredit.hold((i % 20)::text, '', 'hold' || i, 1, '1 day');
		COMMIT;
	END LOOP;
END
$$;
CALL bench.busy();
SELECT count(*) FROM gpucredit.maintain();
CALL bench.submit(10001, 12000, '{1xH100}', '{0}', '100 days');
VACUUM ANALYZE;
