-- queue.sql: the nodes of the file :nodes, nothing running, and :jobs one-GPU
-- jobs waiting, of :classes classes; prices differ where :spread is not 0.
SET synchronous_commit = off;
SELECT array_agg(1000 + c) AS memory FROM generate_series(1, :classes) c \gset
CREATE TABLE bench.node (sn text, cpu_milli bigint, memory_mib bigint,
	gpu int, model text);
COPY bench.node FROM :'nodes' (FORMAT csv, HEADER);
SELECT count(gpucredit.set_price(model, 1 + :spread * rank))
FROM (SELECT model, rank() OVER (ORDER BY model)
	FROM (SELECT DISTINCT model FROM bench.node) m) m;
SELECT count(gpucredit.register_node('default', sn, model, gpu, 16384,
	cpu_milli, memory_mib))
FROM bench.node;
CALL bench.submit(1, :jobs, '{1x*}',
	:'memory'::bigint[], '4 hours');
VACUUM ANALYZE;
