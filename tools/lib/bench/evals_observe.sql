\set i :i + 1
\set request :i * :clients + :client_id
SELECT gpucredit_eval.observe('0', 'stream', 'request ' || :request::bigint, 0.5);
