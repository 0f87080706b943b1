/*-------------------------------------------------------------------------
 *
 * open_session.c
 *		SQL function open_session: opens a terminal in a running job, or
 *		forwards a port of it.
 *
 * Nodes open no port for this.  The caller gets a random secret, of which the
 * row keeps only the digest, and the address of a relay.  The node's agent
 * receives the digest with its next heartbeat and connects to the relay as
 * well, where the two meet (lib/relay.c).  A session that its agent has not
 * reported within a minute is void.
 *
 * The agent reports the sessions that are open in the node report.  A session
 * is accepted when a report first names it, and has ended when a later report
 * does not.  So a session that was accepted is never sent to an agent again.
 *
 * The agent also receives a session whose attempt has ended meanwhile, and tells
 * the caller so.
 *
 * An organisation has at most SESSIONS_MOST sessions, or a few more if callers
 * open some at the same instant.
 *
 * Locks: the new row; then rows of the organisation that are over, SKIP LOCKED.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/not_found.h"
#include "util/sql.h"
#include "api/api.h"
#include "job/attempt.h"
#include "job/job.h"
#include "job/run/heartbeat_row.h"
#include "job/run/open_session.h"
#include "shmem/notify.h"
#include "types/clip.h"
#include "utils/guc.h"

API_FUNCTION(gpucredit_open_session, open_session);

#define SESSIONS_MOST	64
#define SESSION_WAITS	USECS_PER_MINUTE	/* how long a session waits for
											 * its agent */
#define SECRET_BYTES	32

/* The session that a call opens. */
typedef struct Session
{
	char	   *org;
	char	   *account;
	int64		job;
	int32		attempt;
	char	   *node;
	const char *kind;
	int32		port;			/* 0 for a terminal */
	char		secret[SECRET_BYTES * 2 + 1];
	TimestampTz now;
} Session;

SQL_STATEMENT(session_place, SPI_OK_SELECT, "text, bigint, text",
			  "SELECT j.account, a.attempt, a.live, j.spec ? 'foreign',"
			  " g.node, g.served, g.silent"
			  " FROM gpucredit.job j LEFT JOIN LATERAL"
			  "  (SELECT t.attempt, t.ended_at IS NULL"
			  "    AND t.running_at IS NOT NULL AS live"
			  "   FROM gpucredit.attempt t"
			  "   WHERE t.org = j.org AND t.job = j.job"
			  "   ORDER BY t.attempt DESC LIMIT 1) a ON true"
			  " LEFT JOIN LATERAL (SELECT p.node,"
			  "   COALESCE(n.about ? 'sessions', false) AS served,"
			  "   COALESCE(v.state IN ('suspect', 'lost', 'gone'), true)"
			  "    AS silent"
			  "  FROM gpucredit.attempt_gpu p"
			  "  LEFT JOIN gpucredit.node n ON n.node = p.node"
			  "  LEFT JOIN gpucredit.nodes v ON v.node = p.node"
			  "  WHERE p.org = j.org AND p.job = j.job"
			  "  AND p.attempt = a.attempt AND ($3 IS NULL OR p.node = $3)"
			  "  ORDER BY p.node LIMIT 1) g ON true"
			  " WHERE j.org = $1 AND j.job = $2");
SQL_STATEMENT(sessions_count, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT pg_catalog.count(*) FROM gpucredit.job_session s"
			  " JOIN gpucredit.attempt a ON a.org = s.org AND a.job = s.job"
			  "  AND a.attempt = s.attempt"
			  " WHERE s.org = $1 AND s.ended_at IS NULL"
			  " AND a.ended_at IS NULL"
			  " AND (s.accepted_at IS NOT NULL OR s.opened_at > $2)");
SQL_STATEMENT(session_add, SPI_OK_INSERT, "text, bigint, int, text, text, text,"
			  " int, text, timestamptz",
			  "INSERT INTO gpucredit.job_session (digest, org, job, attempt,"
			  " node, kind, port, relay, opened_at)"
			  " VALUES (pg_catalog.sha256(pg_catalog.convert_to($4, 'UTF8')),"
			  " $1, $2, $3, $5, $6, $7, $8, $9)");
SQL_STATEMENT(sessions_forget, SPI_OK_DELETE, "text, timestamptz",
			  "DELETE FROM gpucredit.job_session s WHERE s.ctid = ANY (ARRAY("
			  "SELECT o.ctid FROM gpucredit.job_session o WHERE o.org = $1"
			  " AND (o.ended_at IS NOT NULL"
			  "  OR o.accepted_at IS NULL AND o.opened_at <= $2"
			  "  OR o.accepted_at IS NOT NULL"
			  "   AND NOT EXISTS (SELECT FROM gpucredit.attempt a"
			  "    WHERE a.org = o.org AND a.job = o.job"
			  "    AND a.attempt = o.attempt AND a.ended_at IS NULL))"
			  " LIMIT 100 FOR UPDATE SKIP LOCKED))");

/*
 * Notes which sessions an agent's report names for the first time, and which
 * it no longer names.
 */
SQL_STATEMENT(sessions_note, SPI_OK_UPDATE, "text, jsonb, timestamptz",
			  "UPDATE gpucredit.job_session s SET"
			  " accepted_at = COALESCE(s.accepted_at, $3),"
			  " ended_at = CASE WHEN s.accepted_at IS NOT NULL THEN $3 END"
			  " FROM (SELECT o.digest, $2 -> 'sessions'"
			  "   ? pg_catalog.encode(o.digest, 'hex') AS named"
			  "  FROM gpucredit.job_session o"
			  "  WHERE o.node = $1 AND o.ended_at IS NULL"
			  "  FOR NO KEY UPDATE OF o SKIP LOCKED) r"
			  " WHERE s.digest = r.digest"
			  " AND r.named = (s.accepted_at IS NULL)");
SQL_STATEMENT(sessions_open, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT s.org, s.job, s.attempt, pg_catalog.jsonb_build_object("
			  "  'digest', pg_catalog.encode(s.digest, 'hex'),"
			  "  'kind', s.kind, 'port', COALESCE(s.port, 0),"
			  "  'relay', s.relay)"
			  " FROM gpucredit.job_session s WHERE s.node = $1"
			  " AND s.ended_at IS NULL AND s.accepted_at IS NULL"
			  " AND s.opened_at > $2 ORDER BY s.opened_at LIMIT 64");

static char *relay;				/* the setting gpucredit.relay */

static void parse(FunctionCallInfo fcinfo, Session *session);
static void find_place(Session *session);
static void refuse(int64 job, const char *detail, const char *hint)
			pg_attribute_noreturn();
static void check_count(const Session *session);
static void make_secret(Session *session);
static void audit_session(const Session *session);

/* Defines the setting that names the relay. */
void
SessionsInit(void)
{
	DefineCustomStringVariable("gpucredit.relay",
							   "The relay at which terminals and forwarded "
							   "ports of jobs meet their agents.",
							   "HOST:PORT, then a space and the SHA-256 digest "
							   "of its certificate in hexadecimal, unless an "
							   "authority that all machines trust signed that. "
							   "Empty: there is none.",
							   &relay, "", PGC_SUSET, 0, NULL, NULL, NULL);
}

Datum
call_open_session(PG_FUNCTION_ARGS)
{
	Session		session = {.now = ClockNow()};

	parse(fcinfo, &session);
	SqlConnect();
	session.node = ArgNameOrNull(fcinfo, 4, "node");
	find_place(&session);
	if (*relay == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this database has no relay for terminals"),
				 errdetail("The setting \"gpucredit.relay\" is empty."),
				 errhint("Ask the operator to run gpucredit-agent relay, and to "
						 "set \"gpucredit.relay\" to its address.")));
	(void) SqlRun(&sessions_forget,
				  VALUES(TextValue(session.org),
						 TimeValue(session.now - SESSION_WAITS)));
	check_count(&session);
	make_secret(&session);
	(void) SqlRun(&session_add,
				  VALUES(ATTEMPT_KEY(&session), TextValue(session.secret),
						 TextValue(session.node), TextValue(session.kind),
						 session.port == 0 ? NullValue() :
						 Int4Value(session.port), TextValue(relay),
						 TimeValue(session.now)));
	NotifyAtCommit(NODE_CHANNEL, session.node);
	audit_session(&session);
	return SqlFinishRow(RowReturn(fcinfo,
								  VALUES(TextValue(relay),
										 TextValue(session.secret),
										 Int4Value(session.attempt),
										 TextValue(session.node))));
}

/* Parses all arguments but node. */
static void
parse(FunctionCallInfo fcinfo, Session *session)
{
	static const char *const kinds[] = {"terminal", "forward"};
	bool		forward;

	session->org = ArgName(fcinfo, 0, "org");
	session->job = ArgInt8(fcinfo, 1, "job", PG_INT64_MIN, PG_INT64_MAX);
	session->kind = ArgName(fcinfo, 2, "kind");
	forward = ArgWord(session->kind, "kind", kinds, lengthof(kinds)) == 1;
	if (forward == PG_ARGISNULL(3))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 forward ? errmsg("\"port\" must not be null") :
				 errmsg("a terminal has no \"port\""),
				 errdetail("A session of kind \"forward\" brings one port of "
						   "the job to the caller."),
				 errhint("Pass the port with kind \"forward\", and only "
						 "then.")));
	if (forward)
		session->port = ArgInt4(fcinfo, 3, "port", 1, 65535);
}

/*
 * Finds the node of the running attempt: the named one, or its first.
 */
static void
find_place(Session *session)
{
	SqlResult	row = SqlRun(&session_place,
							 VALUES(TextValue(session->org),
									Int8Value(session->job),
									TextValue(session->node)));
	const char *named = session->node;

	if (row.n == 0)
		NotFoundJob(session->job);
	session->account = SqlText(row, 0, 1);
	if (SqlIsNull(row, 0, 2))
		refuse(session->job, "It has not started.", "Wait until it runs.");
	session->attempt = SqlInt4(row, 0, 2);
	session->node = SqlText(row, 0, 5);
	if (session->node == NULL && named != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("node \"%s\" has no part of attempt %d of job %lld",
						ClipForMessage(named), session->attempt,
						(long long) session->job),
				 errdetail("The attempt runs on other nodes."),
				 errhint("Pass one of its nodes, or NULL for the first.")));
	if (session->node == NULL || !SqlBool(row, 0, 3))
		refuse(session->job, "Its last attempt has ended, or has not begun to "
			   "run yet.", "Call explain() to see its state.");
	if (SqlBool(row, 0, 4))
		refuse(session->job, "Another scheduler runs it.",
			   "Open the terminal with the tools of that scheduler.");
	if (SqlBool(row, 0, 7))
		refuse(session->job, "Its node is silent.",
			   "Try again once the node is heard.");
	if (!SqlBool(row, 0, 6))
		refuse(session->job, "The agent of its node serves no terminals.",
			   "Ask the operator for a newer agent.");
}

static void
refuse(int64 job, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_BAD_STATE),
			 errmsg("nothing can be attached to job %lld", (long long) job),
			 errdetail("%s", detail),
			 errhint("%s", hint)));
}

/* Refuses a session if the organisation has enough of them. */
static void
check_count(const Session *session)
{
	SqlResult	row = SqlRun(&sessions_count,
							 VALUES(TextValue(session->org),
									TimeValue(session->now - SESSION_WAITS)));

	if (SqlInt8(row, 0, 1) >= SESSIONS_MOST)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("too many terminals and forwarded ports are open"),
				 errdetail("The organisation has %d.", SESSIONS_MOST),
				 errhint("Close one of them.")));
}

/* Generates the secret. */
static void
make_secret(Session *session)
{
	static const char digits[] = "0123456789abcdef";
	uint8		bytes[SECRET_BYTES];

	if (!pg_strong_random(bytes, SECRET_BYTES))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a secret"),
				 errdetail("The machine has no random numbers."),
				 errhint("Try again.")));
	for (int i = 0; i < SECRET_BYTES; i++)
	{
		session->secret[2 * i] = digits[bytes[i] >> 4];
		session->secret[2 * i + 1] = digits[bytes[i] & 15];
	}
	session->secret[2 * SECRET_BYTES] = '\0';
}

/* Audits who opened what.  The audit row itself names the login. */
static void
audit_session(const Session *session)
{
	AuditRow	audit = {.org = session->org, .account = session->account,
		.operation = "open_session", .decision = "opened",
		.job = session->job, .attempt = session->attempt,
		.at = session->now};

	AuditText(&audit, "kind", session->kind);
	AuditText(&audit, "node", session->node);
	if (session->port != 0)
		AuditInt8(&audit, "port", session->port);
	AuditWrite(&audit);
}

/*
 * Notes the sessions that an agent's report names, and adds to heartbeat's
 * result a row for each session on the node that waits for its agent.
 */
void
SessionsPut(ReturnSetInfo *rsinfo, const char *node, Jsonb *about,
			TimestampTz now)
{
	SqlResult	rows;

	if (about != NULL)
		(void) SqlRun(&sessions_note,
					  VALUES(TextValue(node), JsonValue(about),
							 TimeValue(now)));
	rows = SqlRun(&sessions_open,
				  VALUES(TextValue(node), TimeValue(now - SESSION_WAITS)));
	for (uint64 i = 0; i < rows.n; i++)
		HeartbeatRowPut(rsinfo, rows, i, "session", HEARTBEAT_SPEC);
}
