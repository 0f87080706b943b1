/*
 * 20_request.sql: idempotency.
 *
 * A call that moves money or makes a job inserts its key here first, in the
 * transaction of its effect: a twin waits on the row, then reads the result.
 * The result is kept as the text of its columns, so that results may grow.
 */
CREATE TABLE gpucredit.request (
	org text COLLATE "C" NOT NULL,
	key text COLLATE "C" NOT NULL,
	operation text NOT NULL,
	fingerprint bytea NOT NULL,
	result text[],				/* NULL only inside the call itself */
	created_at timestamptz NOT NULL,
	CONSTRAINT request_pkey PRIMARY KEY (org, key)
) WITH (fillfactor = 70);
/* by which upkeep finds what is to be forgotten */
CREATE INDEX request_created ON gpucredit.request (created_at);
COMMENT ON TABLE gpucredit.request IS
'Idempotency keys of the last gpucredit.key_retention, with arguments'' fingerprint and result';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.request', '');
