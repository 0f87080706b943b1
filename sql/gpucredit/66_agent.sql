/* 66_agent.sql: agents' reports on parts and output, and nodes' keys. */
CREATE TABLE gpucredit.node_key (
	node text COLLATE "C" NOT NULL,
	sha256 bytea NOT NULL,		/* SHA-256 of the key */
	set_at timestamptz NOT NULL,
	CONSTRAINT node_key_pkey PRIMARY KEY (node),
	CONSTRAINT node_key_sha256 CHECK (octet_length(sha256) = 32)
);
COMMENT ON TABLE gpucredit.node_key IS
'Keys of nodes, which agents must prove; a key stays when its node is removed';
COMMENT ON COLUMN gpucredit.node_key.sha256 IS 'The SHA-256 digest of the key, 32 bytes.';
COMMENT ON COLUMN gpucredit.node_key.set_at IS 'When it was set.';

CREATE TABLE gpucredit.attempt_part (
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	attempt int NOT NULL,
	node text COLLATE "C" NOT NULL,
	turn int NOT NULL,			/* order of the reports, from 1 */
	rank int NOT NULL,			/* the node's position by name, from 0 */
	outcome text NOT NULL,
	exit_code int,
	message text,
	log_uri text,
	elapsed interval,
	gone boolean NOT NULL,		/* whether an agent reported the part gone */
	at timestamptz NOT NULL,
	CONSTRAINT attempt_part_pkey PRIMARY KEY (org, job, attempt, node)
);
COMMENT ON TABLE gpucredit.attempt_part IS
'How each node''s part of an attempt ended, as part_ended reported it';
COMMENT ON COLUMN gpucredit.attempt_part.turn IS 'The order in which parts reported their end, from 1.';
COMMENT ON COLUMN gpucredit.attempt_part.rank IS 'The node''s place among the attempt''s nodes, by name, from 0.';
COMMENT ON COLUMN gpucredit.attempt_part.outcome IS 'How the part ended.';
COMMENT ON COLUMN gpucredit.attempt_part.elapsed IS 'How long the attempt had run by the node''s clock; NULL: not reported.';
COMMENT ON COLUMN gpucredit.attempt_part.gone IS 'True: an agent reported that none of its processes is left.';
COMMENT ON COLUMN gpucredit.attempt_part.at IS 'When it was reported.';

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
COMMENT ON COLUMN gpucredit.node_strike.at IS 'When the node could not start it.';

/*
 * The secret from which the keys of job steps are derived (heartbeat).  Each
 * installation generates its own, so a dump does not contain it.
 */
CREATE TABLE gpucredit.step_secret (
	one boolean NOT NULL DEFAULT true,
	secret bytea NOT NULL,
	CONSTRAINT step_secret_pkey PRIMARY KEY (one),
	CONSTRAINT step_secret_one CHECK (one)
);
INSERT INTO gpucredit.step_secret (secret)
SELECT pg_catalog.sha256(pg_catalog.convert_to(
	pg_catalog.gen_random_uuid()::text || pg_catalog.gen_random_uuid()::text,
	'UTF8'));
COMMENT ON TABLE gpucredit.step_secret IS
'What the keys are derived from by which the nodes of a job know each other''s steps';
COMMENT ON COLUMN gpucredit.step_secret.one IS 'Always true: there is one row.';
COMMENT ON COLUMN gpucredit.step_secret.secret IS 'Random bytes, made when the extension was created.';

/*
 * Requests for a job's output, and the output on its way from the node to the
 * caller.  The table is unlogged, because a caller can ask again after a
 * crash.
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
	answered_at timestamptz,	/* NULL until answered, as all columns below */
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
'Requests for pieces of jobs'' output, and the agents'' answers, kept for a minute; empty after a crash';
COMMENT ON COLUMN gpucredit.log_wish.node IS 'The node whose output is asked for.';
COMMENT ON COLUMN gpucredit.log_wish.stream IS 'stdout or stderr.';
COMMENT ON COLUMN gpucredit.log_wish.from_byte IS 'Where in the stream the piece begins, from 0.';
COMMENT ON COLUMN gpucredit.log_wish.waits IS 'True: the agent answers once there is output.';
COMMENT ON COLUMN gpucredit.log_wish.asked_at IS 'When it was last asked for.';
COMMENT ON COLUMN gpucredit.log_wish.answered_at IS 'When the agent answered; NULL: not yet.';
COMMENT ON COLUMN gpucredit.log_wish.first_byte IS 'Where in the stream body begins; NULL: not answered.';
COMMENT ON COLUMN gpucredit.log_wish.body IS 'The bytes; NULL: not answered.';
COMMENT ON COLUMN gpucredit.log_wish.written IS 'How many bytes the job has written so far; NULL: not answered.';
COMMENT ON COLUMN gpucredit.log_wish.dropped IS 'How many of those bytes the node''s disk had no room for; NULL: not answered.';
COMMENT ON COLUMN gpucredit.log_wish.over IS 'True: nothing follows the body; NULL: not answered.';
COMMENT ON COLUMN gpucredit.log_wish.message IS 'The agent''s message, such as where else the output goes; NULL: none.';

/*
 * The beginning and the end of what ended attempts wrote, which is kept when
 * the node is gone.  A stream has a row for each piece.  It has one row
 * without bytes if it is empty, or if its output was written elsewhere.
 */
CREATE TABLE gpucredit.kept_log (
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	attempt int NOT NULL,
	node text COLLATE "C" NOT NULL,
	stream text COLLATE "C" NOT NULL,
	first_byte bigint NOT NULL,
	body bytea NOT NULL,
	bytes int NOT NULL,
	written bigint NOT NULL,
	dropped bigint NOT NULL,
	message text,
	uri text,
	kept_at timestamptz NOT NULL,
	CONSTRAINT kept_log_pkey PRIMARY KEY (org, job, attempt, node, stream,
		first_byte),
	CONSTRAINT kept_log_bytes CHECK (bytes = octet_length(body)
		AND first_byte >= 0 AND first_byte + bytes <= written),
	CONSTRAINT kept_log_elsewhere CHECK (bytes = 0
		OR message IS NULL AND uri IS NULL)
);
/*
 * Upkeep adds up the bytes of each organisation, and removes the oldest
 * pieces.
 */
CREATE INDEX kept_log_age ON gpucredit.kept_log (org, kept_at) INCLUDE (bytes);
CREATE INDEX kept_log_kept_at ON gpucredit.kept_log (kept_at);
COMMENT ON TABLE gpucredit.kept_log IS
'The head and the tail of ended attempts'' output, for gpucredit.log_retention';
COMMENT ON COLUMN gpucredit.kept_log.node IS 'The node that ran the attempt or its part.';
COMMENT ON COLUMN gpucredit.kept_log.stream IS 'stdout or stderr.';
COMMENT ON COLUMN gpucredit.kept_log.first_byte IS 'Where in the stream the piece begins, from 0.';
COMMENT ON COLUMN gpucredit.kept_log.body IS 'The bytes.';
COMMENT ON COLUMN gpucredit.kept_log.bytes IS 'How many they are.';
COMMENT ON COLUMN gpucredit.kept_log.written IS 'How many bytes the stream had in all.';
COMMENT ON COLUMN gpucredit.kept_log.dropped IS 'How many of those the node''s disk had no room for.';
COMMENT ON COLUMN gpucredit.kept_log.message IS 'The agent''s message, such as the file to which the stream went; NULL: none.';
COMMENT ON COLUMN gpucredit.kept_log.uri IS 'The file of the site''s folder that has the head and the tail; NULL: this table has them.';
COMMENT ON COLUMN gpucredit.kept_log.kept_at IS 'When it came here.';

/*
 * Scripts and environments that are too large for a job's spec.  An account
 * has each text once, however many of its jobs run it.  job_file records which
 * unfinished jobs need which text; upkeep removes the rows of jobs that are
 * over, and texts that no job needs.  An account reaches only its own texts,
 * so a digest tells nothing about the texts of others.
 */
CREATE TABLE gpucredit.stored_file (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	sha256 bytea NOT NULL,
	body text NOT NULL,
	bytes int NOT NULL,
	stored_at timestamptz NOT NULL,
	CONSTRAINT stored_file_pkey PRIMARY KEY (org, account, sha256),
	CONSTRAINT stored_file_bytes CHECK (bytes = octet_length(body)
		AND octet_length(sha256) = 32)
);
/* store_file() adds up the bytes of an organisation. */
CREATE INDEX stored_file_room ON gpucredit.stored_file (org) INCLUDE (bytes);
CREATE INDEX stored_file_age ON gpucredit.stored_file (stored_at);
COMMENT ON TABLE gpucredit.stored_file IS
'Scripts and environments of jobs that are too large for their specs, once for each account';
COMMENT ON COLUMN gpucredit.stored_file.sha256 IS 'The digest of body as UTF-8, by which a spec names it.';
COMMENT ON COLUMN gpucredit.stored_file.body IS 'The text.';
COMMENT ON COLUMN gpucredit.stored_file.bytes IS 'How many bytes it has.';
COMMENT ON COLUMN gpucredit.stored_file.stored_at IS 'When it was last stored; an hour later upkeep may remove it, if no job needs it.';

CREATE TABLE gpucredit.job_file (
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	word text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	sha256 bytea NOT NULL,
	CONSTRAINT job_file_pkey PRIMARY KEY (org, job, word),
	CONSTRAINT job_file_word CHECK (word IN ('script', 'env')
		AND octet_length(sha256) = 32)
);
CREATE INDEX job_file_of ON gpucredit.job_file (org, account, sha256);
COMMENT ON TABLE gpucredit.job_file IS
'Which unfinished jobs need which stored texts';
COMMENT ON COLUMN gpucredit.job_file.word IS 'script or env: the member of the spec for which the text stands.';
COMMENT ON COLUMN gpucredit.job_file.sha256 IS 'The digest of the text.';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.stored_file', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.job_file', '');

/*
 * Terminals and forwarded ports that people open in their running jobs.  The
 * table is unlogged, because after a crash a caller can open another one; who
 * opened which is in the audit log.
 */
CREATE UNLOGGED TABLE gpucredit.job_session (
	digest bytea NOT NULL,		/* SHA-256 of the secret */
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	attempt int NOT NULL,
	node text COLLATE "C" NOT NULL,
	kind text COLLATE "C" NOT NULL,
	port int,
	relay text NOT NULL,
	opened_at timestamptz NOT NULL,
	accepted_at timestamptz,	/* NULL until the agent reports it */
	ended_at timestamptz,		/* NULL until the agent reports it no more */
	CONSTRAINT job_session_pkey PRIMARY KEY (digest),
	CONSTRAINT job_session_digest CHECK (octet_length(digest) = 32),
	CONSTRAINT job_session_kind CHECK (kind IN ('terminal', 'forward')
		AND (kind = 'forward') = (port IS NOT NULL))
);
CREATE INDEX job_session_org ON gpucredit.job_session (org);
CREATE INDEX job_session_node ON gpucredit.job_session (node)
	WHERE ended_at IS NULL;
COMMENT ON TABLE gpucredit.job_session IS
'Terminals and forwarded ports in running jobs, as open_session() opened them; empty after a crash';
COMMENT ON COLUMN gpucredit.job_session.digest IS 'The SHA-256 digest of the secret that the caller has, 32 bytes.';
COMMENT ON COLUMN gpucredit.job_session.node IS 'The node of the attempt on which it is.';
COMMENT ON COLUMN gpucredit.job_session.kind IS 'terminal or forward.';
COMMENT ON COLUMN gpucredit.job_session.port IS 'The job''s port that is forwarded; NULL: it is a terminal.';
COMMENT ON COLUMN gpucredit.job_session.relay IS 'The relay at which caller and agent meet: gpucredit.relay when it was opened.';
COMMENT ON COLUMN gpucredit.job_session.opened_at IS 'When it was opened.';
COMMENT ON COLUMN gpucredit.job_session.accepted_at IS 'When the agent first reported it; NULL: not yet.';
COMMENT ON COLUMN gpucredit.job_session.ended_at IS 'When the agent no longer reported it; NULL: not yet.';

/*
 * Signals on their way to running jobs.  A row leaves once the node's agent
 * has reported that it delivered the signal.  The table is unlogged, because a
 * signal is worth something only at once; who sent which is in the audit log.
 */
CREATE UNLOGGED TABLE gpucredit.job_signal (
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	attempt int NOT NULL,
	node text COLLATE "C" NOT NULL,
	signal text COLLATE "C" NOT NULL,
	target text COLLATE "C" NOT NULL,
	id uuid NOT NULL,
	sent_at timestamptz NOT NULL,
	CONSTRAINT job_signal_pkey PRIMARY KEY (org, job, attempt, node, signal,
		target),
	CONSTRAINT job_signal_target CHECK (target IN ('steps', 'script', 'all'))
);
CREATE INDEX job_signal_node ON gpucredit.job_signal (node);
COMMENT ON TABLE gpucredit.job_signal IS
'Signals to running jobs that no agent has delivered yet; empty after a crash';
COMMENT ON COLUMN gpucredit.job_signal.node IS 'The node of the attempt that delivers it.';
COMMENT ON COLUMN gpucredit.job_signal.signal IS 'The signal without SIG, as USR1.';
COMMENT ON COLUMN gpucredit.job_signal.target IS 'Who gets it: steps, script or all.';
COMMENT ON COLUMN gpucredit.job_signal.id IS 'The name by which the agent reports that it has delivered it; another one each time it is sent.';
COMMENT ON COLUMN gpucredit.job_signal.sent_at IS 'When it was last sent; a minute later it is void.';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.node_key', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.kept_log', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.step_secret', 'WHERE false');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.attempt_part', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.node_strike', '');

CREATE TRIGGER node_key_changed
AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON gpucredit.node_key
FOR EACH STATEMENT EXECUTE FUNCTION gpucredit_internal.cache_invalidate();
ALTER TABLE gpucredit.node_key ENABLE ALWAYS TRIGGER node_key_changed;

/* Notifies a node's agent at once that it has new work. */
CREATE FUNCTION gpucredit_internal.notify_nodes() RETURNS trigger
LANGUAGE c VOLATILE
AS 'MODULE_PATHNAME', 'gpucredit_notify_nodes';
COMMENT ON FUNCTION gpucredit_internal.notify_nodes() IS
'Trigger: sends NOTIFY gpucredit_node with the node''s name at commit; drops it if the queue is full.';

CREATE TRIGGER attempt_gpu_told AFTER INSERT ON gpucredit.attempt_gpu
FOR EACH ROW WHEN (NEW.ended_at IS NULL)
EXECUTE FUNCTION gpucredit_internal.notify_nodes();
CREATE TRIGGER directive_told AFTER INSERT ON gpucredit.directive
FOR EACH ROW EXECUTE FUNCTION gpucredit_internal.notify_nodes();

CREATE FUNCTION gpucredit.set_node_key(node text, sha256 bytea) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_node_key';
COMMENT ON FUNCTION gpucredit.set_node_key(text, bytea) IS
'Nodes: gives a node a key. From then on a member of gpucredit_agent must prove in the same transaction that it knows the key: set_config(''gpucredit.node_key'', key, true). It needs the key for heartbeat of the node, part_ended of its part and placed on it, and for meter, meter_batch, settle, checkpoint and checkpoint_loaded of an attempt on it. An attempt on several nodes takes the key of any of them; placed needs that of each. Superusers, administrators and operators need no key.
sha256: the digest of the key as UTF-8, 32 bytes; NULL removes the key. It replaces an earlier key, stays when the node is removed, and applies to transactions that begin after this commits. A key of 32 random bytes cannot be guessed from its digest.
Errors: UC401 no such node; 22023.';

CREATE FUNCTION gpucredit.store_file(org text, account text, body text)
RETURNS text
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_store_file';
COMMENT ON FUNCTION gpucredit.store_file(text, text, text) IS
'Jobs: stores a script or an environment that is too large for a spec, once for the account. Pass its digest to reserve for the same account, in the spec as script_sha256 or, for an environment, env_sha256; the body of an environment is a JSON object of texts, to which the members of env in the spec are added. Agents get the texts as script and env.
body: at most 1 MB. An unfinished job keeps what it needs. A text that no job needs is removed by upkeep after an hour. An organisation stores at most gpucredit.file_org_max, and each text counts as at least 8 kB; if sessions store at the same time, a little more may pass.
Result: the SHA-256 of body as UTF-8, in hexadecimal digits. A repeated call stores nothing.
Errors: UC001 no such account; UC202 rate limited; UC203 the organisation has stored gpucredit.file_org_max; 22023.';

CREATE TYPE gpucredit.part_ended_result AS (over boolean, outcome text,
	billed numeric, job_state text, retry_at timestamptz, waits_for text[],
	replayed boolean);
COMMENT ON TYPE gpucredit.part_ended_result IS
'The state of an attempt after one of its parts ended.';

CREATE FUNCTION gpucredit.part_ended(org text, job bigint, attempt int,
	node text, outcome text, exit_code int DEFAULT NULL,
	message text DEFAULT NULL, elapsed interval DEFAULT NULL,
	log_uri text DEFAULT NULL, energy_j bigint DEFAULT NULL)
RETURNS gpucredit.part_ended_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_part_ended';
COMMENT ON FUNCTION gpucredit.part_ended(text, bigint, int, text, text, int,
	text, interval, text, bigint) IS
'Agents: reports that a node''s part of an attempt ended and its processes there are gone. The report of the attempt''s last node settles the attempt, as settle does. If a part failed, the other parts are told to stop at once, with reason part_failed. A part failed if it is failed, out_of_memory, node_lost or not_started, or anything but completed when nobody was told to leave.
node: one of the attempt''s nodes. outcome: as settle takes it; the attempt is completed if all parts are, else it ends as the first part that did not complete. exit_code, message, log_uri: of that part. elapsed: how long the attempt has run by the node''s clock; the longest report counts. energy_j: the joules that its devices on the node used, with a late report as well; the first report that has them stands. They are what the agent says and never change a bill: more than 2,000 W per device, times the share, since the start is not believed, and logged. not_started: the node could not start it for a reason of its own, so nothing is billed and no failure is counted; where the message begins "image: ", the time until then is billed. A node that could not start three jobs within 10 minutes is drained, unless the message begins "image: ".
Result: over: the attempt is settled, with its outcome, bill, the job''s state and when it may start again; else waits_for: the nodes that have not reported. The first report stands: a repeated call changes nothing (replayed). After the attempt''s end, a report frees the node''s devices. If no agent had ended the attempt, the last node''s report counts as a late settlement: it bills the time after the end for which each node kept its devices.
Errors: UC301 no such job; UC302 no such attempt; 22023, also for a node that has no part of it; 42501 the node has a key and the caller did not prove it, or elapsed or energy_j passed by neither an agent nor an administrator.';

CREATE TYPE gpucredit.log_result AS (state text, attempt int, node text,
	first_byte bigint, body bytea, written bigint, dropped bigint,
	over boolean, message text, uri text);
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
'Jobs: asks the node that runs a job, or lately ran it, for a piece of its output of at most 64 KiB. The node''s agent learns of it with its next heartbeat, or at once if it listens to NOTIFY gpucredit_node. Read its answer with log_get(), or with the same call again. A request and its answer last for a minute. A job keeps 16 of them, unanswered ones first, then the newest.
from_byte: where in the stream, from 0. stream: stdout or stderr. attempt: NULL for the newest. node: NULL for the first of the attempt''s nodes, by name. waits: true, the agent answers once there is output or the job is over; false, it answers at once, with nothing if need be.
Once the job is over, the database keeps the head and the tail of its output (see log_keep()): it answers at once with what it has, and the node is asked for the rest for as long as it has it.
Result, by state. answered: body begins at first_byte. That is past from_byte if what was between is gone: a node keeps the first MiB and the last 64 MiB, the database gpucredit.log_head and gpucredit.log_tail. written: how many bytes the job has written; dropped: how many of them the node''s disk had no room for; over: nothing follows body; message: the agent''s, such as where else the output goes; uri: the file of the site''s folder that has the head and the tail, if that is where they are kept. asked: the answer is on its way. silent: the same, but the node is silent for gpucredit.node_suspect. unserved: the node''s agent serves no output. not_started: the job has not run yet.
Errors: UC301 no such job; UC302 no such attempt; UC202 rate limited; 22023, also for a node that has no part of it.';

CREATE FUNCTION gpucredit.log_get(org text, job bigint,
	from_byte bigint DEFAULT 0, stream text DEFAULT 'stdout',
	attempt int DEFAULT NULL, node text DEFAULT NULL)
RETURNS gpucredit.log_result
LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_log_get';
COMMENT ON FUNCTION gpucredit.log_get(text, bigint, bigint, text, int, text) IS
'Jobs: reads the answer to log_wish() with the same arguments. It changes nothing.
Result: as log_wish; state unasked: nobody asked for it, or its minute is over.
Errors: UC301 no such job; UC302 no such attempt; 22023, also for a node that has no part of it.';

CREATE FUNCTION gpucredit.log_put(org text, job bigint, attempt int,
	node text, stream text, from_byte bigint, first_byte bigint, body bytea,
	written bigint, dropped bigint DEFAULT 0, over boolean DEFAULT false,
	message text DEFAULT NULL)
RETURNS boolean
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_log_put';
COMMENT ON FUNCTION gpucredit.log_put(text, bigint, int, text, text, bigint,
	bigint, bytea, bigint, bigint, boolean, text) IS
'Agents: answers a request for output, which heartbeat() passed as action log, with "log": {"stream": "stdout", "from": n, "wait": boolean}. Only agents whose "about" says "logs": true get such requests.
org, job, attempt, node, stream, from_byte: the request. first_byte: where body begins; from_byte unless that part is overwritten. body: at most 64 KiB; empty: there is nothing yet, or nothing more. written: how many bytes the job has written. dropped: how many of them are lost because the disk was full. over: nothing follows body. message: for the person who asked, such as where else the output goes.
Result: whether anybody waits for it; if not, nothing is kept.
Errors: 42501 the node has a key and the caller did not prove it; 22023.';

CREATE FUNCTION gpucredit.log_keep(org text, job bigint, attempt int,
	node text, stream text, first_byte bigint, body bytea, written bigint,
	dropped bigint DEFAULT 0, message text DEFAULT NULL,
	uri text DEFAULT NULL)
RETURNS bigint
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_log_keep';
COMMENT ON FUNCTION gpucredit.log_keep(text, bigint, int, text, text, bigint,
	bytea, bigint, bigint, text, text) IS
'Agents: hands over the output of an attempt, or of a node''s part of it, once no process of it is left there, so that log_wish() answers when the node is gone. Begin at byte 0, and go on at the byte that each answer names. What is kept is the first gpucredit.log_head and the last gpucredit.log_tail of each stream, for gpucredit.log_retention, and of an organisation the newest gpucredit.log_org_max.
org, job, attempt, node, stream: whose output it is. first_byte: where body begins; past the byte that was named if the node has overwritten that. body: at most 64 KiB. written: how many bytes the stream has in all. dropped: how many of them are lost because the disk was full. message: for whoever reads it, with an empty body, where the stream went elsewhere. uri: the file of the site''s folder to which the agent has written the head and the tail, with an empty body.
Result: the byte at which the next piece shall begin; NULL: nothing more is kept. A piece that is there already stays as it is.
Errors: UC301 no such job; UC302 no such attempt; 42501 the node has a key and the caller did not prove it; 22023, also for a node that has no part of it.';

CREATE TYPE gpucredit.open_session_result AS (relay text, secret text,
	attempt int, node text);
COMMENT ON TYPE gpucredit.open_session_result IS
'Where a session of a job is reached, and the secret that proves whose it is.';

CREATE FUNCTION gpucredit.open_session(org text, job bigint,
	kind text DEFAULT 'terminal', port int DEFAULT NULL,
	node text DEFAULT NULL)
RETURNS gpucredit.open_session_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_open_session';
COMMENT ON FUNCTION gpucredit.open_session(text, bigint, text, int, text) IS
'Jobs: opens a terminal in a running job, or forwards a port of it. The node''s agent learns of it with its next heartbeat, or at once if it listens to NOTIFY gpucredit_node, and connects to the relay, where it meets the caller. What runs in a session runs as the job''s user within the job''s limits, and ends with the attempt. The audit log has who opened which.
kind: terminal or forward. port: for forward, the port in the job, 1 to 65535. node: one of the attempt''s nodes; NULL for the first by name.
Result: relay: what gpucredit.relay says. secret: 64 hexadecimal digits, which the caller sends to the relay; it is valid for one connection within a minute, and the database keeps only its SHA-256 digest. attempt, node: where the session is.
Errors: UC301 no such job; UC303 the job does not run, another scheduler runs it, or its node is silent or serves no sessions; 55000 gpucredit.relay is not set; 53400 the organisation has 64 sessions; UC202 rate limited; 22023, also for a node that has no part of it.';

CREATE TYPE gpucredit.signal_job_result AS (attempt int, nodes int,
	replayed boolean);
COMMENT ON TYPE gpucredit.signal_job_result IS
'Which attempt gets a signal, and from the agents of how many nodes.';

CREATE FUNCTION gpucredit.signal_job(org text, job bigint, key text,
	signal text, target text DEFAULT 'steps', reason text DEFAULT NULL)
RETURNS gpucredit.signal_job_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_signal_job';
COMMENT ON FUNCTION gpucredit.signal_job(text, bigint, text, text, text, text) IS
'Jobs: sends a signal to the processes of a running job, as Slurm''s scancel --signal does. The agents of its nodes learn of it with their next heartbeat, or at once if they listen to NOTIFY gpucredit_node. A signal that an agent has not delivered within a minute is void. Nothing else is changed: what a program does at the signal is its own affair, and so is how it ends.
key: a repeated call under the key sends nothing. signal: HUP, INT, QUIT, USR1, USR2, TERM or CONT. target: steps: the tasks of all srun that the script runs, on all nodes; script: the script alone, of a job that runs one program on each node these programs; all: both, and all processes that the script has started. Where the spec has no "launch": "once", steps means all. USR1 and USR2 to all reach only processes that handle them.
Result: the attempt, and how many nodes deliver the signal.
Errors: UC301 no such job; UC303 the job does not run, another scheduler runs it, or one of the nodes is silent or delivers no signals; UC201 key used with other arguments; UC202 rate limited; 22023.';

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
'Agents: the addresses to which gpucredit-agent poke sends a datagram when NOTIFY gpucredit_node names a node.
Result: each node whose agent takes datagrams, and its HOST:PORT, from the node report.';
