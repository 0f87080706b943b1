\set i :i + 1
\set n (:i % 100000 - 1 + 5000 * (:i / 100000)) * :clients + :client_id
SELECT gpucredit_eval.report('0', 1, (SELECT "case" FROM bench.todo WHERE n = :n % 50000), 1, 'the answer to a question',
	'[{"type": "equals", "pass": true, "score": 1}]', '{"prompt_tokens": 20, "completion_tokens": 10}');
