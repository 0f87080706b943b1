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

CREATE TABLE gpucredit.attempt_part (
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	attempt int NOT NULL,
	node text COLLATE "C" NOT NULL,
	turn int NOT NULL,			/* the first to be told is 1 */
	rank int NOT NULL,			/* of the node, by name, from 0 */
	outcome text NOT NULL,
	exit_code int,
	message text,
	log_uri text,
	elapsed interval,
	gone boolean NOT NULL,		/* an agent said so */
	at timestamptz NOT NULL,
	CONSTRAINT attempt_part_pkey PRIMARY KEY (org, job, attempt, node)
);
COMMENT ON TABLE gpucredit.attempt_part IS
'How the parts of attempts ended, as part_ended was told, a node each';

CREATE TABLE gpucredit.node_strike (
	node text COLLATE "C" NOT NULL,
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	attempt int NOT NULL,
	at timestamptz NOT NULL,
	CONSTRAINT node_strike_pkey PRIMARY KEY (node, org, job, attempt)
);
CREATE INDEX node_strike_job ON gpucredit.node_strike (org, job);
COMMENT ON TABLE gpucredit.node_strike IS
'Attempts that nodes lately could not start; three jobs within 10 minutes drain a node';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.node_key', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.attempt_part', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.node_strike', '');

CREATE TRIGGER node_key_changed
AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON gpucredit.node_key
FOR EACH STATEMENT EXECUTE FUNCTION gpucredit.announce_change();
ALTER TABLE gpucredit.node_key ENABLE ALWAYS TRIGGER node_key_changed;

CREATE FUNCTION gpucredit.set_node_key(node text, sha256 bytea) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_node_key';
COMMENT ON FUNCTION gpucredit.set_node_key(text, bytea) IS
'Gives a node a key. From then on a member of gpucredit_agent that calls heartbeat for the node, part_ended for its part of an attempt, or meter, meter_batch, settle, checkpoint or resumed for an attempt on it, proves in the same transaction that it knows the key: set_config(''gpucredit.node_key'', key, true). An attempt on several nodes takes the key of any of them. Superusers, administrators and operators need no key.
sha256: of the key as UTF-8, 32 bytes; NULL takes the key away. It replaces the one before, stays when the node is removed, and counts in every transaction that begins once this call has committed. A key of 32 random bytes cannot be guessed from its digest.
Errors: UC401 no such node; 22023.';

CREATE TYPE gpucredit.part_ended_result AS (over boolean, outcome text,
	billed numeric, job_state text, retry_at timestamptz, waits_for text[],
	replayed boolean);
COMMENT ON TYPE gpucredit.part_ended_result IS
'How an attempt stands after one of its parts ended.';

CREATE FUNCTION gpucredit.part_ended(org text, job bigint, attempt int,
	node text, outcome text, exit_code int DEFAULT NULL,
	message text DEFAULT NULL, elapsed interval DEFAULT NULL,
	log_uri text DEFAULT NULL)
RETURNS gpucredit.part_ended_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_part_ended';
COMMENT ON FUNCTION gpucredit.part_ended(text, bigint, int, text, text, int,
	text, interval, text) IS
'A node says how its part of an attempt ended: its processes there are gone. The last of the attempt''s nodes to say so settles it, as settle does; one alone settles it at once. A part that failed (failed, out_of_memory, node_lost, not_started, or any other but completed where nobody was told to leave) has the others told to stop at once, reason part_failed.
node: one that the attempt has devices on. outcome: as settle takes it; the attempt is completed where all parts completed, else what the first part ended as that did not. exit_code, message, log_uri: of that part. elapsed: how long the attempt has run, by the node''s clock; the longest told counts. not_started: the node could not start it, for a reason of its own: nothing is billed, no failure is counted, and a node that could not start three jobs within 10 minutes is drained.
Result: over: the attempt is settled, and then how, what was billed, the job''s state and when it may start again; else waits_for: the nodes that have not said yet. What was said first stands: the same call again changes nothing (replayed), nor does one of an attempt that is over, but that the node''s devices are free.
Errors: UC301 no such job; UC302 no such attempt; UC202 rate limited; 22023, also a node that has no part of it; 42501 without the node''s key, where it has one, or elapsed by one who is neither agent nor administrator.';
