-- evals.sql: sets of 50,000 and 5,000 cases; run 1 has all cases of the first
-- leased, run 2 of the second is finished, run 3 is all but one case
SET client_min_messages = warning;
SELECT gpucredit.issue('0', '', 'evals', 1000000);
SELECT gpucredit_eval.set_endpoint('0', 'model', 'http://127.0.0.1:1', 1, 1, NULL);
SELECT gpucredit_eval.create_set('0', s, 'locked', s) FROM unnest('{large,small}'::text[]) s;
SELECT gpucredit_eval.add_cases('0', s.name, (SELECT jsonb_agg(jsonb_build_object('name', s.name || i,
	'task', 'task ' || i % 20, 'input', 'question ' || i, 'checks', '[{"type": "equals"}]'::jsonb))
	FROM generate_series(1, s.n) i), s.name || ' cases')
FROM (VALUES ('large', 50000), ('small', 5000)) s (name, n);
SELECT gpucredit_eval.freeze_set('0', s, s || ' frozen') FROM unnest('{large,small}'::text[]) s;
SELECT gpucredit_eval.set_config('0', s, jsonb_build_object('sets', jsonb_build_array(s)), s || ' config')
FROM unnest('{large,small}'::text[]) s;
VACUUM ANALYZE gpucredit_eval.golden_case;
SELECT gpucredit_eval.start_run('0', '', 'run ' || r.n, r.config, 'model', 'development', 1000)
FROM (VALUES (1, 'large'), (2, 'small'), (3, 'small')) r (n, config) ORDER BY r.n;

CREATE TABLE bench.todo AS
SELECT row_number() OVER () - 1 AS n, l."case"
FROM generate_series(1, 50) i,
	LATERAL gpucredit_eval.lease_cases('0', 1, 'w' || i, 1000, '1 day') l;
ALTER TABLE bench.todo ADD PRIMARY KEY (n);
-- as workers do, each report in a transaction of its own
SELECT format($$SELECT gpucredit_eval.report('0', %s, %s, 1, 'x', '[{"type": "equals", "pass": true}]', NULL);$$, r.run, l."case")
FROM (VALUES (2), (3)) r (run), generate_series(1, 5) i,
	LATERAL gpucredit_eval.lease_cases('0', r.run, 'w' || i, 1000 - (r.run = 3 AND i = 5)::integer, '1 day') l \gexec
SELECT * FROM gpucredit_eval.lease_cases('0', 2, 'w', 1, '1 day');
SELECT gpucredit_eval.set_stream('0', 'stream', 'small', 1, 0.5, 0.5);
VACUUM ANALYZE;

CREATE TABLE bench.result (LIKE gpucredit_eval.result, PRIMARY KEY (org, run, "case"));
CREATE TABLE bench.observation (LIKE gpucredit_eval.observation,
	PRIMARY KEY (org, stream, request));
