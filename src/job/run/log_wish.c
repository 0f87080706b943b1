/*-------------------------------------------------------------------------
 *
 * log_wish.c
 *		SQL functions log_wish, log_put and log_get: readers get a job's
 *		output from its node.
 *
 * Nodes open no port for this.  A reader writes a row with a request. The
 * node's agent receives the request with its heartbeat and writes the answer
 * into the row, where the reader reads it.  Output that has been written never
 * changes, so an answer that has bytes serves all readers for a minute.  An
 * empty answer means that there was no output yet, and readers request the
 * piece again.
 *
 * An agent can only answer requests, so it cannot fill the table more than
 * readers do. For one job the table has LOG_WISH_MOST pieces of LOG_WISH_BYTES
 * each, or a few more if sessions write at the same instant. If there are
 * more, unanswered requests and then the newest answers stay, so that no
 * reader blocks others.
 *
 * The table is unlogged: after a crash readers repeat their requests.
 *
 * Output of ended attempts that the database keeps (kept_log.c) needs no
 * request.  A request is written only for output that is not kept. While the
 * node is silent, or has nothing left of the output, readers get the next
 * piece that is kept.
 *
 * Locks: the row of log_wish that the call writes; then rows that are deleted,
 * SKIP LOCKED.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/sql.h"
#include "util/not_found.h"
#include "api/api.h"
#include "api/tenant.h"
#include "job/attempt.h"
#include "job/job.h"
#include "job/run/kept_log.h"
#include "job/run/heartbeat_row.h"
#include "job/run/log_wish.h"
#include "shmem/notify.h"
#include "types/clip.h"

API_FUNCTION(gpucredit_log_wish, log_wish);
API_FUNCTION(gpucredit_log_put, log_put);
PG_FUNCTION_INFO_V1(gpucredit_log_get);

/* A requested piece of output, and what is known of the node that has it. */
typedef struct Piece
{
	char	   *org;
	int64		job;
	int32		attempt;		/* 0 if the job has not run yet */
	char	   *node;
	char	   *stream;
	int64		from;
	bool		served;			/* whether the node's agent serves output */
	bool		silent;			/* whether the node is silent */
	bool		written;		/* whether this call may have written to
								 * log_wish */
	TimestampTz now;
} Piece;

#define OF_PIECE(alias) \
	alias ".org = $1 AND " alias ".job = $2 AND " alias ".attempt = $3" \
	" AND " alias ".node = $4 AND " alias ".stream = $5" \
	" AND " alias ".from_byte = $6"
#define PIECE_TYPES		"text, bigint, int, text, text, bigint, timestamptz"

SQL_STATEMENT(piece_place, SPI_OK_SELECT, "text, bigint, int, text",
			  "SELECT a.attempt, g.node, g.served, g.silent"
			  " FROM gpucredit.job j LEFT JOIN LATERAL"
			  "  (SELECT t.attempt FROM gpucredit.attempt t"
			  "   WHERE t.org = j.org AND t.job = j.job"
			  "   AND ($3 IS NULL OR t.attempt = $3)"
			  "   ORDER BY t.attempt DESC LIMIT 1) a ON true"
			  " LEFT JOIN LATERAL (SELECT p.node,"
			  "   COALESCE(n.about ->> 'logs' = 'true', false) AS served,"
			  "   COALESCE(v.state IN ('suspect', 'lost', 'gone'), true)"
			  "    AS silent"
			  "  FROM gpucredit.attempt_gpu p"
			  "  LEFT JOIN gpucredit.node n ON n.node = p.node"
			  "  LEFT JOIN gpucredit.nodes v ON v.node = p.node"
			  "  WHERE p.org = j.org AND p.job = j.job"
			  "  AND p.attempt = a.attempt AND ($4 IS NULL OR p.node = $4)"
			  "  ORDER BY p.node LIMIT 1) g ON true"
			  " WHERE j.org = $1 AND j.job = $2");
/*
 * Writes or repeats a request. Returns no row if the request has been answered
 * or was sent a moment ago.
 */
SQL_STATEMENT(wish_write, SPI_OK_INSERT, PIECE_TYPES
			  ", timestamptz, timestamptz, boolean",
			  "INSERT INTO gpucredit.log_wish AS w (org, job, attempt, node,"
			  " stream, from_byte, asked_at, waits)"
			  " VALUES ($1, $2, $3, $4, $5, $6, $7, $10)"
			  " ON CONFLICT (org, job, attempt, node, stream, from_byte)"
			  " DO UPDATE SET asked_at = EXCLUDED.asked_at,"
			  "  waits = EXCLUDED.waits AND (w.waits"
			  "   OR w.answered_at IS NOT NULL OR w.asked_at <= $8),"
			  "  answered_at = NULL, first_byte = NULL, body = NULL,"
			  "  written = NULL, dropped = NULL, over = NULL, message = NULL"
			  " WHERE CASE WHEN w.answered_at IS NULL"
			  "  THEN w.asked_at <= $9 OR w.waits AND NOT EXCLUDED.waits"
			  "  ELSE w.answered_at <= $8 OR NOT w.over"
			  "   AND pg_catalog.octet_length(w.body) = 0 END");
SQL_STATEMENT(wishes_leave, SPI_OK_DELETE, "text, bigint, timestamptz, int",
			  "DELETE FROM gpucredit.log_wish w WHERE w.ctid = ANY (ARRAY("
			  "SELECT l.ctid FROM gpucredit.log_wish l"
			  " WHERE l.ctid = ANY (ARRAY(SELECT o.ctid"
			  "  FROM gpucredit.log_wish o WHERE o.org = $1 AND o.job = $2"
			  "  ORDER BY o.answered_at DESC NULLS FIRST, o.asked_at DESC,"
			  "   o.from_byte DESC OFFSET $4))"
			  " OR GREATEST(l.asked_at, l.answered_at) <= $3"
			  " LIMIT 100 FOR UPDATE SKIP LOCKED))");
SQL_STATEMENT(wish_read, SPI_OK_SELECT, PIECE_TYPES,
			  "SELECT w.answered_at IS NOT NULL, w.first_byte, w.body,"
			  " w.written, w.dropped, w.over, w.message"
			  " FROM gpucredit.log_wish w WHERE " OF_PIECE("w")
			  " AND COALESCE(w.answered_at, w.asked_at) > $7");
/* Reads the recent requests to a node that have no answer. */
SQL_STATEMENT(logs_wished, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT w.org, w.job, w.attempt, pg_catalog.jsonb_build_object("
			  "  'stream', w.stream, 'from', w.from_byte, 'wait', w.waits)"
			  " FROM gpucredit.log_wish w WHERE w.node = $1"
			  " AND w.answered_at IS NULL AND w.asked_at > $2"
			  " ORDER BY w.asked_at LIMIT 256");
SQL_STATEMENT(wish_answer, SPI_OK_UPDATE, PIECE_TYPES
			  ", timestamptz, bigint, bytea, bigint, bigint, boolean, text",
			  "UPDATE gpucredit.log_wish w SET answered_at = $7,"
			  " first_byte = $9, body = $10, written = $11, dropped = $12,"
			  " over = $13, message = $14"
			  " WHERE " OF_PIECE("w") " AND w.answered_at IS NULL"
			  " AND w.asked_at > $8");

#define ASKED_AGAIN		(5 * USECS_PER_SEC) /* after this time an agent
											 * receives an unanswered request
											 * again */

static void parse_piece(FunctionCallInfo fcinfo, Piece *piece);
static void find_place(FunctionCallInfo fcinfo, Piece *piece);
static void parse_stream(FunctionCallInfo fcinfo, int n, Piece *piece);
static SqlResult read_kept(const Piece *piece, bool read_only);
static bool covers(SqlResult kept);
static void write_wish(const Piece *piece, bool waits);
static Values key_of(const Piece *piece);
static Datum put_piece(FunctionCallInfo fcinfo, const Piece *piece);
static void check_answer(FunctionCallInfo fcinfo, int64 from);

Datum
call_log_wish(PG_FUNCTION_ARGS)
{
	Piece		piece = {0};
	bool		waits = ArgBool(fcinfo, 6, "waits");

	parse_piece(fcinfo, &piece);
	SqlConnect();
	find_place(fcinfo, &piece);
	piece.written = piece.attempt > 0 && piece.served &&
		!covers(read_kept(&piece, false));
	if (piece.written)
		write_wish(&piece, waits);
	return put_piece(fcinfo, &piece);
}

Datum
gpucredit_log_get(PG_FUNCTION_ARGS)
{
	Piece		piece = {0};

	parse_piece(fcinfo, &piece);
	TenantCheckJob(piece.org, piece.job);
	SqlConnect();
	find_place(fcinfo, &piece);
	return put_piece(fcinfo, &piece);
}

Datum
call_log_put(PG_FUNCTION_ARGS)
{
	Piece		piece = {.now = ClockNow()};
	Values		args;
	uint64		n;

	piece.org = ArgName(fcinfo, 0, "org");
	piece.job = ArgInt8(fcinfo, 1, "job", PG_INT64_MIN, PG_INT64_MAX);
	piece.attempt = ArgInt4(fcinfo, 2, "attempt", PG_INT32_MIN, PG_INT32_MAX);
	piece.node = ArgName(fcinfo, 3, "node");
	parse_stream(fcinfo, 4, &piece);
	piece.from = ArgInt8(fcinfo, 5, "from_byte", 0, PG_INT64_MAX);
	check_answer(fcinfo, piece.from);
	args = key_of(&piece);
	ValuesAdd(&args, TimeValue(piece.now),
			  TimeValue(piece.now - LOG_WISH_LASTS));
	for (int i = 6; i < 11; i++)
		ValuesAdd(&args, DatumValue(PG_GETARG_DATUM(i)));
	ValuesAdd(&args, TextValue(ArgTextOrNull(fcinfo, 11, "message")));
	SqlConnect();
	n = SqlRun(&wish_answer, &args).n;
	SqlFinish();
	PG_RETURN_BOOL(n > 0);
}

/*
 * Parses the arguments that log_wish and log_get share, except attempt and
 * node.
 */
static void
parse_piece(FunctionCallInfo fcinfo, Piece *piece)
{
	piece->org = ArgName(fcinfo, 0, "org");
	piece->job = ArgInt8(fcinfo, 1, "job", PG_INT64_MIN, PG_INT64_MAX);
	piece->from = ArgInt8(fcinfo, 2, "from_byte", 0, PG_INT64_MAX);
	parse_stream(fcinfo, 3, piece);
	piece->now = ClockNow();
}

static void
parse_stream(FunctionCallInfo fcinfo, int n, Piece *piece)
{
	static const char *const words[] = {"stdout", "stderr"};

	piece->stream = ArgName(fcinfo, n, "stream");
	(void) ArgWord(piece->stream, "stream", words, lengthof(words));
}

/*
 * Finds the node that has the output: the named one, or the attempt's first.
 */
static void
find_place(FunctionCallInfo fcinfo, Piece *piece)
{
	int32		attempt = PG_ARGISNULL(4) ? 0 :
		ArgInt4(fcinfo, 4, "attempt", PG_INT32_MIN, PG_INT32_MAX);
	char	   *node = ArgNameOrNull(fcinfo, 5, "node");
	SqlResult	row;

	row = SqlRead(&piece_place,
				  VALUES(TextValue(piece->org), Int8Value(piece->job),
						 PG_ARGISNULL(4) ? NullValue() : Int4Value(attempt),
						 TextValue(node)));
	if (row.n == 0)
		NotFoundJob(piece->job);
	if (SqlIsNull(row, 0, 1))
	{
		if (!PG_ARGISNULL(4))
			AttemptRefuseUnknown(piece->job, attempt);
		return;
	}
	piece->attempt = SqlInt4(row, 0, 1);
	piece->node = SqlText(row, 0, 2);
	if (piece->node == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 node == NULL ?
				 errmsg("attempt %d of job %lld has no node", piece->attempt,
						(long long) piece->job) :
				 errmsg("node \"%s\" has no part of attempt %d of job %lld",
						ClipForMessage(node), piece->attempt,
						(long long) piece->job),
				 errdetail("The attempt has no part there."),
				 errhint("Pass one of its nodes, or NULL for the first.")));
	piece->served = SqlBool(row, 0, 3);
	piece->silent = SqlBool(row, 0, 4);
}

/*
 * Requests a piece, unless it has been answered or requested already. Then
 * deletes old and surplus rows.
 */
static void
write_wish(const Piece *piece, bool waits)
{
	Values		args = key_of(piece);

	ValuesAdd(&args, TimeValue(piece->now),
			  TimeValue(piece->now - LOG_WISH_LASTS),
			  TimeValue(piece->now - ASKED_AGAIN), BoolValue(waits));
	if (SqlRun(&wish_write, &args).n == 0)
		return;
	NotifyAtCommit(NODE_CHANNEL, piece->node);
	(void) SqlRun(&wishes_leave,
				  VALUES(TextValue(piece->org), Int8Value(piece->job),
						 TimeValue(piece->now - LOG_WISH_LASTS),
						 Int4Value(LOG_WISH_MOST)));
}

static Values
key_of(const Piece *piece)
{
	return *VALUES(ATTEMPT_KEY(piece), TextValue(piece->node),
				   TextValue(piece->stream), Int8Value(piece->from));
}

/*
 * Reads what the database keeps of the stream from the piece's first byte on.
 * The result has no row if nothing is kept.
 */
static SqlResult
read_kept(const Piece *piece, bool read_only)
{
	KeptLogPlace place = {
		.org = piece->org, .job = piece->job, .attempt = piece->attempt,
		.node = piece->node, .stream = piece->stream, .from = piece->from
	};

	return KeptLogRead(&place, read_only);
}

/* Whether the node has nothing to add to the output that is kept. */
static bool
covers(SqlResult kept)
{
	return kept.n > 0 && SqlBool(kept, 0, KEPT_COVERS);
}

/* Returns the piece in its present state, as a row of log_result. */
static Datum
put_piece(FunctionCallInfo fcinfo, const Piece *piece)
{
	static const int kept_columns[] = {
		KEPT_FIRST, KEPT_BODY, KEPT_WRITTEN, KEPT_DROPPED, KEPT_OVER,
		KEPT_MESSAGE, KEPT_URI
	};
	Values	   *row;
	SqlResult	found = {0};
	SqlResult	kept = {0};
	bool		answered;
	bool		from_kept;

	if (piece->attempt > 0)
	{
		Values		args = key_of(piece);

		ValuesAdd(&args, TimeValue(piece->now - LOG_WISH_LASTS));
		found = piece->written ? SqlRun(&wish_read, &args) :
			SqlRead(&wish_read, &args);
		kept = read_kept(piece, !piece->written);
	}
	answered = found.n > 0 && SqlBool(found, 0, 1);
	from_kept = covers(kept) ||
		(kept.n > 0 && (answered ? !SqlIsNull(found, 0, 7) :
						!piece->served || piece->silent));
	answered |= from_kept;
	row = VALUES(TextValue(piece->attempt == 0 ? "not_started" : answered ?
						   "answered" : !piece->served ? "unserved" :
						   found.n == 0 ? "unasked" : piece->silent ?
						   "silent" : "asked"),
				 piece->attempt == 0 ? NullValue() : Int4Value(piece->attempt),
				 TextValue(piece->node));
	for (size_t c = 0; c < lengthof(kept_columns); c++)
	{
		bool		isnull = true;
		Datum		value = 0;

		/*
		 * The row of log_wish has the same columns, except the last one, but
		 * they begin one column later.
		 */
		if (from_kept)
			value = SqlDatum(kept, 0, kept_columns[c], &isnull);
		else if (answered && kept_columns[c] != KEPT_URI)
			value = SqlDatum(found, 0, c + 2, &isnull);
		ValuesAdd(row, isnull ? NullValue() : DatumValue(value));
	}
	return SqlFinishRow(RowReturn(fcinfo, row));
}

/*
 * Checks the arguments of an agent's answer: first_byte, body, written,
 * dropped and over.
 */
static void
check_answer(FunctionCallInfo fcinfo, int64 from)
{
	Size		size;

	(void) ArgInt8(fcinfo, 6, "first_byte", from, PG_INT64_MAX);
	ArgNotNull(fcinfo, 7, "body");
	size = toast_raw_datum_size(PG_GETARG_DATUM(7)) - VARHDRSZ;
	if (size > LOG_WISH_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"body\" is too long"),
				 errdetail("It has %llu bytes.", (unsigned long long) size),
				 errhint("Pass %d bytes at most.", LOG_WISH_BYTES)));
	(void) ArgInt8(fcinfo, 8, "written", 0, PG_INT64_MAX);
	(void) ArgInt8(fcinfo, 9, "dropped", 0, PG_INT64_MAX);
	(void) ArgBool(fcinfo, 10, "over");
}

/*
 * Adds to heartbeat's result a row for each request for output of present or
 * past attempts on the node.
 */
void
LogWishesPut(ReturnSetInfo *rsinfo, const char *node, TimestampTz now)
{
	SqlResult	rows = SqlRun(&logs_wished,
							  VALUES(TextValue(node),
									 TimeValue(now - LOG_WISH_LASTS)));

	for (uint64 i = 0; i < rows.n; i++)
		HeartbeatRowPut(rsinfo, rows, i, "log", HEARTBEAT_LOG);
}
