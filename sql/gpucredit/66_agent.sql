/*
 * 66_agent.sql: agents' reports of their nodes, and the proof of their node.
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
COMMENT ON COLUMN gpucredit.node_key.node IS 'The node''s name.';
COMMENT ON COLUMN gpucredit.node_key.sha256 IS 'Of the key, 32 bytes.';
COMMENT ON COLUMN gpucredit.node_key.set_at IS 'When it was set.';

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
COMMENT ON COLUMN gpucredit.attempt_part.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit.attempt_part.job IS 'The job''s number.';
COMMENT ON COLUMN gpucredit.attempt_part.attempt IS 'Which run of the job, from 1.';
COMMENT ON COLUMN gpucredit.attempt_part.node IS 'The node''s name.';
COMMENT ON COLUMN gpucredit.attempt_part.turn IS 'Which part told its end first, from 1.';
COMMENT ON COLUMN gpucredit.attempt_part.rank IS 'Of the node among the attempt''s, by name, from 0.';
COMMENT ON COLUMN gpucredit.attempt_part.outcome IS 'How the part ended.';
COMMENT ON COLUMN gpucredit.attempt_part.exit_code IS 'Of the job''s program; NULL: not told.';
COMMENT ON COLUMN gpucredit.attempt_part.message IS 'What was told of the end, as the last lines of the output; NULL: nothing.';
COMMENT ON COLUMN gpucredit.attempt_part.log_uri IS 'Where the agent keeps the log; NULL: not told.';
COMMENT ON COLUMN gpucredit.attempt_part.elapsed IS 'How long the attempt had run by the node''s clock; NULL: not told.';
COMMENT ON COLUMN gpucredit.attempt_part.gone IS 'An agent said so: none of its processes is left.';
COMMENT ON COLUMN gpucredit.attempt_part.at IS 'When it was told.';

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
COMMENT ON COLUMN gpucredit.node_strike.node IS 'The node''s name.';
COMMENT ON COLUMN gpucredit.node_strike.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit.node_strike.job IS 'The job''s number.';
COMMENT ON COLUMN gpucredit.node_strike.attempt IS 'Which run of the job, from 1.';
COMMENT ON COLUMN gpucredit.node_strike.at IS 'When the node could not start it.';

/*
 * Output on its way from a node to a caller.  It needs no log record: after a
 * crash the caller asks again.
 */
CREATE UNLOGGED TABLE gpucredit.log_wish (
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	attempt int NOT NULL,
	node text COLLATE "C" NOT NULL,
	stream text COLLATE "C" NOT NULL,
	from_byte bigint NOT NULL,
	waits boolean NOT NULL,
	asked_at timestamptz NOT NULL,
	answered_at timestamptz,	/* NULL: not yet; then so is what follows */
	first_byte bigint,
	body bytea,
	written bigint,
	dropped bigint,
	over boolean,
	message text,
	CONSTRAINT log_wish_pkey PRIMARY KEY (org, job, attempt, node, stream,
		from_byte)
);
CREATE INDEX log_wish_open ON gpucredit.log_wish (node)
	WHERE answered_at IS NULL;
COMMENT ON TABLE gpucredit.log_wish IS
'Pieces of jobs'' output that somebody asked for, and the agents'' answers, for a minute each; empty after a crash';
COMMENT ON COLUMN gpucredit.log_wish.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit.log_wish.job IS 'The job''s number.';
COMMENT ON COLUMN gpucredit.log_wish.attempt IS 'Which run of the job, from 1.';
COMMENT ON COLUMN gpucredit.log_wish.node IS 'The node whose part''s output it is.';
COMMENT ON COLUMN gpucredit.log_wish.stream IS 'stdout or stderr.';
COMMENT ON COLUMN gpucredit.log_wish.from_byte IS 'Where in the stream the piece begins, from 0.';
COMMENT ON COLUMN gpucredit.log_wish.waits IS 'The agent answers once there is something.';
COMMENT ON COLUMN gpucredit.log_wish.asked_at IS 'When it was last asked for.';
COMMENT ON COLUMN gpucredit.log_wish.answered_at IS 'When the agent answered; NULL: not yet.';
COMMENT ON COLUMN gpucredit.log_wish.first_byte IS 'Where what the node still has of it begins; NULL: not answered.';
COMMENT ON COLUMN gpucredit.log_wish.body IS 'The bytes; NULL: not answered.';
COMMENT ON COLUMN gpucredit.log_wish.written IS 'How many bytes the job has written so far; NULL: not answered.';
COMMENT ON COLUMN gpucredit.log_wish.dropped IS 'How many of them the node''s disk had no room for; NULL: not answered.';
COMMENT ON COLUMN gpucredit.log_wish.over IS 'Nothing comes after the body; NULL: not answered.';
COMMENT ON COLUMN gpucredit.log_wish.message IS 'What the agent says of it, as where else the output goes; NULL: nothing.';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.node_key', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.attempt_part', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.node_strike', '');

CREATE TRIGGER node_key_changed
AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON gpucredit.node_key
FOR EACH STATEMENT EXECUTE FUNCTION gpucredit_internal.announce_change();
ALTER TABLE gpucredit.node_key ENABLE ALWAYS TRIGGER node_key_changed;

/* Notify a node's agent at once. */
CREATE FUNCTION gpucredit_internal.notify_nodes() RETURNS trigger
LANGUAGE c VOLATILE
AS 'MODULE_PATHNAME', 'gpucredit_notify_nodes';
COMMENT ON FUNCTION gpucredit_internal.notify_nodes() IS
'Trigger: NOTIFY gpucredit_node, the node''s name, once this is committed; dropped where the queue has no room.';

CREATE TRIGGER attempt_gpu_told AFTER INSERT ON gpucredit.attempt_gpu
FOR EACH ROW WHEN (NEW.ended_at IS NULL)
EXECUTE FUNCTION gpucredit_internal.notify_nodes();
CREATE TRIGGER directive_told AFTER INSERT ON gpucredit.directive
FOR EACH ROW EXECUTE FUNCTION gpucredit_internal.notify_nodes();

CREATE FUNCTION gpucredit.set_node_key(node text, sha256 bytea) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_node_key';
COMMENT ON FUNCTION gpucredit.set_node_key(text, bytea) IS
'Nodes: gives a node a key. From then on a member of gpucredit_agent proves in the same transaction that it knows the key: set_config(''gpucredit.node_key'', key, true). It proves that for heartbeat of the node and part_ended of its part. It proves that for meter, meter_batch, settle, checkpoint and checkpoint_loaded of an attempt on it. An attempt on several nodes takes the key of any of them. Superusers, administrators and operators need no key.
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
'Agents: a node says how its part of an attempt ended: its processes there are gone. The last of the attempt''s nodes to say so settles it, as settle does; one alone settles it at once. A part that failed (failed, out_of_memory, node_lost, not_started, or any other but completed where nobody was told to leave) has the others told to stop at once, reason part_failed.
node: one that the attempt has devices on. outcome: as settle takes it; the attempt is completed where all parts completed, else what the first part ended as that did not. exit_code, message, log_uri: of that part. elapsed: how long the attempt has run, by the node''s clock; the longest told counts. not_started: the node could not start it, for a reason of its own: nothing is billed, no failure is counted, and a node that could not start three jobs within 10 minutes is drained, unless the message begins "image: ".
Result: over: the attempt is settled, and then how, what was billed, the job''s state and when it may start again; else waits_for: the nodes that have not said yet. What was said first stands: the same call again changes nothing (replayed), nor does one of an attempt that is over, but that the node''s devices are free.
Errors: UC301 no such job; UC302 no such attempt; UC202 rate limited; 22023, also a node that has no part of it; 42501 without the node''s key, where it has one, or elapsed by one who is neither agent nor administrator.';

CREATE TYPE gpucredit.log_result AS (state text, attempt int, node text,
	first_byte bigint, body bytea, written bigint, dropped bigint,
	over boolean, message text);
COMMENT ON TYPE gpucredit.log_result IS
'A piece of a job''s output, or why it is not there yet.';

CREATE FUNCTION gpucredit.log_wish(org text, job bigint,
	from_byte bigint DEFAULT 0, stream text DEFAULT 'stdout',
	attempt int DEFAULT NULL, node text DEFAULT NULL,
	waits boolean DEFAULT false)
RETURNS gpucredit.log_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_log_wish';
COMMENT ON FUNCTION gpucredit.log_wish(text, bigint, bigint, text, int, text,
	boolean) IS
'Jobs: asks the node that runs a job, or ran it lately, for a piece of its output, of at most 64 KiB. The node''s agent is told by its next heartbeat, at once where it hears NOTIFY gpucredit_node; its answer is read by log_get(), or by the same call again. A wish and its answer last for a minute. Of a job 16 are kept, unanswered ones before others, then the newest.
from_byte: where in the stream, from 0. stream: stdout or stderr. attempt: NULL for the newest. node: NULL for the first of the attempt''s nodes, by name. waits: the agent answers once something is there, or the job is over, as whoever follows it wants; false: at once, with nothing if need be.
Result: state answered: body begins at first_byte, which is past from_byte where the node has overwritten what was between (it keeps the first MiB and the last 64 MiB); written: how many bytes the job has written so far; dropped: how many of these the node''s disk had no room for; over: nothing comes after body; message: what the agent says, as where else the output goes. Else asked: the answer is on its way; silent: so it is, but the node has not been heard of for gpucredit.node_suspect; unserved: the node''s agent serves no output; not_started: the job has not run yet.
Errors: UC301 no such job; UC302 no such attempt; UC202 rate limited; 22023, also a node that has no part of it.';

CREATE FUNCTION gpucredit.log_get(org text, job bigint,
	from_byte bigint DEFAULT 0, stream text DEFAULT 'stdout',
	attempt int DEFAULT NULL, node text DEFAULT NULL)
RETURNS gpucredit.log_result
LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_log_get';
COMMENT ON FUNCTION gpucredit.log_get(text, bigint, bigint, text, int, text) IS
'Jobs: what became of log_wish() with the same arguments. Changes nothing.
Result: as log_wish''s; state unasked: nobody asked for it, or its minute is over.
Errors: UC301 no such job; UC302 no such attempt; 22023, also a node that has no part of it.';

CREATE FUNCTION gpucredit.log_put(org text, job bigint, attempt int,
	node text, stream text, from_byte bigint, first_byte bigint, body bytea,
	written bigint, dropped bigint DEFAULT 0, over boolean DEFAULT false,
	message text DEFAULT NULL)
RETURNS boolean
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_log_put';
COMMENT ON FUNCTION gpucredit.log_put(text, bigint, int, text, text, bigint,
	bigint, bytea, bigint, bigint, boolean, text) IS
'Agents: an agent answers a wish, as heartbeat() told it: action log, with "log": {"stream": "stdout", "from": n, "wait": boolean}. It is told only where its "about" says "logs": true.
org, job, attempt, node, stream, from_byte: the wish. first_byte: where body begins, from_byte unless what was there is overwritten. body: at most 64 KiB; empty: there is nothing yet, or nothing more. written: how many bytes the job has written so far. dropped: how many of them are lost, as the disk was full. over: nothing comes after body. message: for who asked, as where else the output goes.
Result: whether anybody waits for it; else nothing is kept.
Errors: 42501 without the node''s key, where it has one; 22023.';

CREATE TYPE gpucredit.poke_addresses_result AS (node text, address text);
COMMENT ON TYPE gpucredit.poke_addresses_result IS
'Where a node''s agent takes datagrams.';

CREATE FUNCTION gpucredit.poke_addresses()
RETURNS SETOF gpucredit.poke_addresses_result
LANGUAGE sql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT n.node, n.about ->> 'poke' FROM gpucredit.node n
	WHERE n.about ? 'poke' AND n.reclaim_at IS NULL;
END;
COMMENT ON FUNCTION gpucredit.poke_addresses() IS
'Agents: whom gpucredit-agent poke sends a datagram to when NOTIFY gpucredit_node names a node.
Result: each node whose agent takes datagrams, and where: HOST:PORT, as heartbeat was told in about.';
