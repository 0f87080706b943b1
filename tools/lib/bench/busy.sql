-- busy.sql: on top of running.sql, all that a busy database has: settled
-- jobs, waiting ones, cancellations under way, holds, checkpoints, grants,
-- folded spend.
SET synchronous_commit = off;
CREATE PROCEDURE bench.settle(first int, last int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN first .. last LOOP
		PERFORM gpucredit.settle((i % 20)::text, i, 1, 'completed', '2 hours');
		COMMIT;
	END LOOP;
END
$$;
CREATE PROCEDURE bench.tenants() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 9001 .. 9500 LOOP
		PERFORM gpucredit.cancel((i % 20)::text, i, 'cancel' || i);
		COMMIT;
	END LOOP;
	FOR i IN 1 .. 1000 LOOP
		PERFORM gpucredit.hold((i % 20)::text, '', 'hold' || i, 1, '1 day');
		COMMIT;
	END LOOP;
	FOR i IN 9501 .. 10000 LOOP
		PERFORM gpucredit.checkpoint((i % 20)::text, i, 1, 1, 's3://b/' || i,
			decode(repeat('00', 32), 'hex'), 1);
		COMMIT;
	END LOOP;
	FOR i IN 1 .. 4000 LOOP
		PERFORM gpucredit.issue((i % 20)::text, (i % 10)::text,
			'grant' || i, 10, 'grant', valid_for => '90 days');
		COMMIT;
	END LOOP;
END
$$;
CALL bench.settle(1, 4500);
SELECT count(*) FROM gpucredit.maintain();
CALL bench.settle(4501, 9000);
CALL bench.tenants();
CALL bench.submit(10001, 12000, '{1xH100}', '{0}', '100 days');
-- those of one organisation go on waiting
CREATE PROCEDURE bench.thin() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 10001 .. 12000 LOOP
		CONTINUE WHEN i % 20 = 7;
		PERFORM gpucredit.cancel((i % 20)::text, i, 'thin' || i);
		COMMIT;
	END LOOP;
END
$$;
CALL bench.thin();
VACUUM ANALYZE;
