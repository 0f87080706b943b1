\set i :i + 1
\set request :i * :clients + :client_id
INSERT INTO bench.observation VALUES ('0', 'stream', 'request ' || :request::bigint, :request, 0.5,
	now(), NULL, NULL);
