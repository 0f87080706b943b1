/*
 * 20_request.sql: idempotency.
 *
 * A call that moves money or makes a job inserts its key here first, in the
 * transaction of its effect. A twin waits for that row, then reads the result.
 * The result is stored as the text of its columns, so that a release may add
 * columns.
 */
CREATE TABLE gpucredit.request (
	org text COLLATE "C" NOT NULL,
	key text COLLATE "C" NOT NULL,
	operation text NOT NULL,
	fingerprint bytea NOT NULL,
	result text[],				/* NULL only inside the call itself */
	created_at timestamptz NOT NULL,
	digest bigint,				/* of all the others, once there is a result */
	CONSTRAINT request_pkey PRIMARY KEY (org, key)
) WITH (fillfactor = 60);
/* upkeep finds old keys with this */
CREATE INDEX request_created ON gpucredit.request (created_at);
COMMENT ON TABLE gpucredit.request IS
'Idempotency keys, each with the fingerprint of its arguments and its result; kept for gpucredit.key_retention';
COMMENT ON COLUMN gpucredit.request.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit.request.key IS 'The caller''s idempotency key.';
COMMENT ON COLUMN gpucredit.request.operation IS 'The function.';
COMMENT ON COLUMN gpucredit.request.fingerprint IS 'A digest of the arguments.';
COMMENT ON COLUMN gpucredit.request.result IS 'What the call answered.';
COMMENT ON COLUMN gpucredit.request.created_at IS 'When it was made.';
COMMENT ON COLUMN gpucredit.request.digest IS 'What verify() compares the other columns with.';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.request', '');
