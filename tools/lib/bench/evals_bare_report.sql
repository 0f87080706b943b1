\set i :i + 1
\set n :i * :clients + :client_id
INSERT INTO bench.result VALUES ('0', 1, :n, 1, 'the answer to a question',
	'[{"type": "equals", "pass": true, "score": 1}]', '{"prompt_tokens": 20, "completion_tokens": 10}',
	sha256('the answer to a question'), true, NULL, 1, 0.00003, now());
