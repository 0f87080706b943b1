/*
 * 20_request.sql: idempotency.
 *
 * A call that moves money or makes a job inserts its key here first, in the
 * transaction of its effect. A twin waits for that row, then reads the result.
 * The result is stored as the text of its columns, so that a release may add
 * columns.
 *
 * A key belongs to the space of its caller (src/request/key_space.c). Keys of
 * calls that only hold credit or act on a job are deleted after
 * gpucredit.key_retention. All other keys stay for ever, so that a payment that
 * its provider repeats after a year has no second effect: a row is small, and
 * payments are few beside jobs.
 */
CREATE TABLE gpucredit.request (
	org text COLLATE "C" NOT NULL,
	space text COLLATE "C" NOT NULL,
	key text COLLATE "C" NOT NULL,
	operation text NOT NULL,
	fingerprint bytea NOT NULL,
	result text[],				/* NULL only until the call itself has finished */
	created_at timestamptz NOT NULL,
	lasting boolean NOT NULL GENERATED ALWAYS AS (operation NOT IN ('hold',
		'extend_hold', 'capture', 'release', 'reserve', 'cancel', 'placed')) STORED,
	digest bigint,				/* of all other columns, once there is a result */
	CONSTRAINT request_pkey PRIMARY KEY (org, space, key)
) WITH (fillfactor = 60);
/* Upkeep finds expired keys with this index. */
CREATE INDEX request_created ON gpucredit.request (created_at) WHERE NOT lasting;
COMMENT ON TABLE gpucredit.request IS
'Idempotency keys, each with the fingerprint of its arguments and its result; those of payments are kept for ever, others for gpucredit.key_retention';
COMMENT ON COLUMN gpucredit.request.space IS 'Whose key it is: tenant/NAME of the tenant''s role, admin, operator, agent, app, role/NAME of another role, or the name of a companion extension.';
COMMENT ON COLUMN gpucredit.request.key IS 'The caller''s idempotency key.';
COMMENT ON COLUMN gpucredit.request.operation IS 'The function.';
COMMENT ON COLUMN gpucredit.request.fingerprint IS 'A digest of the arguments.';
COMMENT ON COLUMN gpucredit.request.result IS 'What the call answered.';
COMMENT ON COLUMN gpucredit.request.lasting IS 'Whether the key never expires, as a payment''s does.';
COMMENT ON COLUMN gpucredit.request.digest IS 'What verify() compares the other columns with.';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.request', '');

CREATE FUNCTION gpucredit.key_space() RETURNS text
LANGUAGE c STABLE STRICT PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'gpucredit_key_space';
COMMENT ON FUNCTION gpucredit.key_space() IS
'Setup: whose idempotency keys the caller uses. Callers of different spaces may use the same key, and never learn of each other''s. Logins of one space share its keys, so that a retry over another connection or login finds its answer. The space follows from the login, or from the role that it took by SET ROLE.
Result: tenant/NAME for a member of gpucredit_tenant, whatever else it is a member of. Otherwise the first that applies of admin (superusers and members of gpucredit_admin), operator, agent, app and role/NAME.';
