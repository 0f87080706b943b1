/*
 * 66_agent.sql: what agents tell of their nodes, and how they prove that they
 * may.
 */
CREATE TABLE gpucredit.node_key (
	node text COLLATE "C" NOT NULL,
	sha256 bytea NOT NULL,		/* of the key */
	set_at timestamptz NOT NULL,
	CONSTRAINT node_key_pkey PRIMARY KEY (node),
	CONSTRAINT node_key_sha256 CHECK (octet_length(sha256) = 32)
);
COMMENT ON TABLE gpucredit.node_key IS
'Nodes that only who knows their key may speak for; kept when the node is removed';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.node_key', '');

CREATE TRIGGER node_key_changed
AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON gpucredit.node_key
FOR EACH STATEMENT EXECUTE FUNCTION gpucredit.announce_change();
ALTER TABLE gpucredit.node_key ENABLE ALWAYS TRIGGER node_key_changed;

CREATE FUNCTION gpucredit.set_node_key(node text, sha256 bytea) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_node_key';
COMMENT ON FUNCTION gpucredit.set_node_key(text, bytea) IS
'Gives a node a key. From then on a member of gpucredit_agent that calls heartbeat for the node, or meter, meter_batch, settle, checkpoint or resumed for an attempt on it, proves in the same transaction that it knows the key: set_config(''gpucredit.node_key'', key, true). An attempt on several nodes takes the key of any of them. Superusers, administrators and operators need no key.
sha256: of the key as UTF-8, 32 bytes; NULL takes the key away. It replaces the one before, stays when the node is removed, and counts in every transaction that begins once this call has committed. A key of 32 random bytes cannot be guessed from its digest.
Errors: UC401 no such node; 22023.';
