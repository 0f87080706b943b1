/*-------------------------------------------------------------------------
 *
 * kept_log.c
 *		SQL function log_keep: keeps the beginning and the end of a job's
 *		output, so that they outlive the job's node.
 *
 * Once no process of an attempt is left on a node, the node's agent sends the
 * output, piece by piece.  Each answer names the byte at which the next piece
 * begins. Therefore only the server must know how much of the output a site
 * keeps, and an agent that was restarted begins anew and writes nothing twice.
 *
 * Readers call log_wish() and log_get(), which search the kept output first.
 *
 * Locks: the row of kept_log that the call writes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/not_found.h"
#include "util/settings.h"
#include "util/sql.h"
#include "api/api.h"
#include "job/attempt.h"
#include "job/job.h"
#include "job/run/kept_log.h"
#include "job/run/log_wish.h"
#include "types/clip.h"

API_FUNCTION(gpucredit_log_keep, log_keep);

#define STREAM_TYPES	"text, bigint, int, text, text"
#define OF_STREAM \
	"k.org = $1 AND k.job = $2 AND k.attempt = $3 AND k.node = $4" \
	" AND k.stream = $5"

/*
 * Returns no row if the job does not exist. Otherwise returns whether the
 * attempt exists, whether it has a part on the node, and how many pieces are
 * kept.
 */
SQL_STATEMENT(part_find, SPI_OK_SELECT, STREAM_TYPES,
			  "SELECT a.attempt IS NOT NULL, EXISTS (SELECT"
			  "   FROM gpucredit.attempt_gpu p WHERE p.org = j.org"
			  "   AND p.job = j.job AND p.attempt = $3 AND p.node = $4),"
			  "  (SELECT pg_catalog.count(*) FROM gpucredit.kept_log k"
			  "   WHERE " OF_STREAM ")"
			  " FROM gpucredit.job j LEFT JOIN gpucredit.attempt a"
			  "  ON a.org = j.org AND a.job = j.job AND a.attempt = $3"
			  " WHERE j.org = $1 AND j.job = $2");
SQL_STATEMENT(piece_keep, SPI_OK_INSERT, STREAM_TYPES
			  ", bigint, bytea, int, bigint, bigint, text, text, timestamptz",
			  "INSERT INTO gpucredit.kept_log (org, job, attempt, node,"
			  " stream, first_byte, body, bytes, written, dropped, message,"
			  " uri, kept_at)"
			  " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,"
			  "  $13) ON CONFLICT DO NOTHING");

/*
 * Reads the piece that contains a byte, from that byte on, or else the next
 * piece behind the byte, or else the last piece.  The inner query selects the
 * piece without reading bodies.
 */
SQL_STATEMENT(kept_read, SPI_OK_SELECT, STREAM_TYPES ", bigint",
			  "SELECT GREATEST(k.first_byte, LEAST($6, k.written)),"
			  " CASE WHEN k.first_byte + k.bytes <= $6 THEN ''::pg_catalog.bytea"
			  "  ELSE pg_catalog.substring(k.body,"
			  "   GREATEST($6 - k.first_byte, 0)::pg_catalog.int4 + 1) END,"
			  " k.written, k.dropped,"
			  " k.first_byte + k.bytes >= k.written OR k.first_byte + k.bytes"
			  "  <= $6, k.message, k.uri,"
			  " k.message IS NULL AND k.uri IS NULL AND (k.first_byte <= $6"
			  "  AND k.first_byte + k.bytes > $6 OR k.written <= $6)"
			  " FROM gpucredit.kept_log k WHERE " OF_STREAM
			  " AND k.first_byte = (SELECT k.first_byte"
			  "  FROM gpucredit.kept_log k WHERE " OF_STREAM
			  "  ORDER BY k.first_byte + k.bytes > $6 DESC,"
			  "   CASE WHEN k.first_byte + k.bytes > $6 THEN k.first_byte"
			  "   ELSE - k.first_byte END LIMIT 1)");

/* a piece of output that an agent sends */
typedef struct HandedPiece
{
	KeptLogPlace place;			/* its field `from` is the position of the
								 * first byte of the body */
	int32		bytes;
	int64		written;
	int64		dropped;
	char	   *message;
	char	   *uri;
} HandedPiece;

static void parse_handed_piece(FunctionCallInfo fcinfo, HandedPiece *piece);
static int64 pieces_kept(const KeptLogPlace *place);
static bool is_kept(const HandedPiece *piece);
static int64 next_byte(const HandedPiece *piece);
static void add_stream(Values *args, const KeptLogPlace *place);

Datum
call_log_keep(PG_FUNCTION_ARGS)
{
	HandedPiece piece = {0};
	int64		most = (SettingLogHead() + SettingLogTail()) /
		LOG_WISH_BYTES + 4;
	int64		next;

	parse_handed_piece(fcinfo, &piece);
	SqlConnect();
	if (SettingLogHead() + SettingLogTail() == 0 ||
		pieces_kept(&piece.place) >= most)
		next = -1;
	else
	{
		if (is_kept(&piece))
		{
			Values		args = {0};

			add_stream(&args, &piece.place);
			ValuesAdd(&args, Int8Value(piece.place.from),
					  DatumValue(PG_GETARG_DATUM(6)), Int4Value(piece.bytes),
					  Int8Value(piece.written), Int8Value(piece.dropped),
					  TextValue(piece.message), TextValue(piece.uri),
					  TimeValue(ClockNow()));
			(void) SqlRun(&piece_keep, &args);
		}
		next = next_byte(&piece);
	}
	SqlFinish();
	if (next < 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(next);
}

/*
 * Parses and checks the arguments of log_keep().
 */
static void
parse_handed_piece(FunctionCallInfo fcinfo, HandedPiece *piece)
{
	static const char *const streams[] = {"stdout", "stderr"};

	piece->place.org = ArgName(fcinfo, 0, "org");
	piece->place.job = ArgInt8(fcinfo, 1, "job", PG_INT64_MIN, PG_INT64_MAX);
	piece->place.attempt = ArgInt4(fcinfo, 2, "attempt", PG_INT32_MIN,
								   PG_INT32_MAX);
	piece->place.node = ArgName(fcinfo, 3, "node");
	piece->place.stream = ArgName(fcinfo, 4, "stream");
	(void) ArgWord(piece->place.stream, "stream", streams,
				   lengthof(streams));
	piece->place.from = ArgInt8(fcinfo, 5, "first_byte", 0, PG_INT64_MAX);
	ArgNotNull(fcinfo, 6, "body");
	piece->bytes = toast_raw_datum_size(PG_GETARG_DATUM(6)) - VARHDRSZ;
	piece->written = ArgInt8(fcinfo, 7, "written", 0, PG_INT64_MAX);
	piece->dropped = ArgInt8(fcinfo, 8, "dropped", 0, PG_INT64_MAX);
	piece->message = ArgTextOrNull(fcinfo, 9, "message");
	piece->uri = ArgTextOrNull(fcinfo, 10, "uri");
	if (piece->bytes > LOG_WISH_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"body\" is too long"),
				 errdetail("It has %d bytes.", piece->bytes),
				 errhint("Pass %d bytes at most.", LOG_WISH_BYTES)));
	if (piece->bytes > piece->written ||
		piece->place.from > piece->written - piece->bytes)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"body\" ends behind the stream"),
				 errdetail("It begins at byte %lld and has %d bytes, and the stream has %lld.",
						   (long long) piece->place.from, piece->bytes,
						   (long long) piece->written),
				 errhint("Pass in \"written\" how many bytes the stream has in all.")));
	if (piece->bytes > 0 && (piece->message != NULL || piece->uri != NULL))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a stream that is elsewhere has no \"body\""),
				 errdetail("\"message\" and \"uri\" say where it is."),
				 errhint("Pass an empty body, or neither of them.")));
}

/*
 * Returns how many pieces of the stream are kept already.  Refuses a node that
 * has no part of the attempt.
 */
static int64
pieces_kept(const KeptLogPlace *place)
{
	Values		args = {0};
	SqlResult	row;

	add_stream(&args, place);
	row = SqlRun(&part_find, &args);
	if (row.n == 0)
		NotFoundJob(place->job);
	if (!SqlBool(row, 0, 1))
		AttemptRefuseUnknown(place->job, place->attempt);
	if (!SqlBool(row, 0, 2))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("node \"%s\" has no part of attempt %d of job %lld",
						ClipForMessage(place->node), place->attempt,
						(long long) place->job),
				 errdetail("A node hands over the output of what it ran."),
				 errhint("Pass one of the attempt's nodes.")));
	return SqlInt8(row, 0, 3);
}

/*
 * Whether a piece has to be kept: it belongs to the beginning or the end of
 * the stream, names the place of the stream, or reports that the stream is
 * empty.
 */
static bool
is_kept(const HandedPiece *piece)
{
	return piece->message != NULL || piece->uri != NULL ||
		piece->written == 0 ||
		(piece->bytes > 0 &&
		 (piece->place.from < SettingLogHead() ||
		  piece->place.from + piece->bytes >
		  piece->written - SettingLogTail()));
}

/*
 * Returns where the next piece begins, or -1 if the agent should send no more.
 */
static int64
next_byte(const HandedPiece *piece)
{
	int64		end = piece->place.from + piece->bytes;
	int64		tail = Max(piece->written - SettingLogTail(), 0) /
		LOG_WISH_BYTES * LOG_WISH_BYTES;

	if (piece->message != NULL || piece->uri != NULL)
		return -1;
	if (end < SettingLogHead() || end >= tail)
		/* By an empty piece the agent reports that it has no more output. */
		return end < piece->written && piece->bytes > 0 ? end : -1;
	return tail < piece->written ? tail : -1;
}

static void
add_stream(Values *args, const KeptLogPlace *place)
{
	ValuesAdd(args, TextValue(place->org), Int8Value(place->job),
			  Int4Value(place->attempt), TextValue(place->node),
			  TextValue(place->stream));
}

/*
 * Reads what is kept of a stream from a byte on. The result is one row with
 * the columns of KeptLogColumn, or none.
 */
SqlResult
KeptLogRead(const KeptLogPlace *place, bool read_only)
{
	Values		args = {0};

	add_stream(&args, place);
	ValuesAdd(&args, Int8Value(place->from));
	return read_only ? SqlRead(&kept_read, &args) : SqlRun(&kept_read, &args);
}
