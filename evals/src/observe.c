/*-------------------------------------------------------------------------
 *
 * observe.c
 *		observe() and stream_state(): add the scores of production requests to
 *		a stream, and return its state.
 *
 * A call that finds the stream's row unlocked locks it, and folds all waiting
 * scores and then its own into the stream. A call that finds it locked only
 * inserts its score, which waits for the next call, and answers as if it were
 * the next to be folded. After several scores had to wait, all scores of the
 * following 100 ms wait, too, so that the row of a busy stream is written ten
 * times a second, not once for each request.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "number.h"
#include "score_stream.h"
#include "types/entry.h"
#include "util/args.h"
#include "utils/builtins.h"

#define MAX_REQUEST_BYTES	255

/* The arguments of observe(); stream_state() has the first two. */
enum
{
	ORG, STREAM, REQUEST, SCORE, AT
};

PG_FUNCTION_INFO_V1(gpucredit_eval_observe);
PG_FUNCTION_INFO_V1(gpucredit_eval_stream_state);

SQL_STATEMENT(insert_observation, SPI_OK_INSERT,
			  "text, text, text, numeric, timestamptz, bigint, numeric",
			  "INSERT INTO gpucredit_eval.observation"
			  "  (org, stream, request, score, observed_at, t, z)"
			  " VALUES ($1, $2, $3, $4, coalesce($5, gpucredit.now()), $6, $7)"
			  " ON CONFLICT DO NOTHING");
SQL_STATEMENT(read_observation, SPI_OK_SELECT, "text, text, text",
			  "SELECT o.t, o.z FROM gpucredit_eval.observation o"
			  " WHERE o.org = $1 AND o.stream = $2 AND o.request = $3"
			  "  AND o.t IS NOT NULL");

static void check_score(NullableDatum request, NullableDatum score);
static bool insert_score(const NullableDatum *args, bool locked,
						 const ScoreStream *next);
static void read_earlier(const NullableDatum *args, ScoreStream *stream);

/*
 * Adds the score of a request to its stream. A repeated request counts once.
 */
Datum
gpucredit_eval_observe(PG_FUNCTION_ARGS)
{
	NullableDatum *args = fcinfo->args;
	ScoreStream before;			/* as it is stored */
	ScoreStream stream;			/* with the waiting scores added */
	ScoreStream next;			/* with this score added as well */
	Datum		half;
	bool		locked;

	check_score(args[REQUEST], args[SCORE]);
	SqlConnect();
	if (!ScoreStreamFind(args[ORG], args[STREAM], STREAM_UNLOCKED, &before))
		ScoreStreamRefuseUnknown(args[ORG], args[STREAM]);
	locked = ScoreStreamFoldIsDue(&before) &&
		ScoreStreamFind(args[ORG], args[STREAM], STREAM_TRY_LOCK, &before);
	stream = before;
	if (locked)
		ScoreStreamFoldWaiting(&stream);
	next = stream;
	ScoreStreamAdd(&next, args[SCORE].value);
	if (!insert_score(args, locked, &next))
	{
		next = stream;
		read_earlier(args, &next);
	}
	else if (locked)
		stream = next;
	if (locked)
		ScoreStreamStore(&before, &stream);
	half = ScoreStreamHalfWidth(&next);
	PG_RETURN_DATUM(SqlFinishRow(
								 RowReturnRecord(fcinfo,
												 VALUES(DatumValue(next.z),
														DatumValue(CALCULATE(sub, next.mu, half)),
														DatumValue(CALCULATE(add, next.mu, half)),
														BoolValue(ScoreStreamIsOutside(&next, half))))));
}

/*
 * Returns the state of a stream as if all waiting scores were folded into it.
 */
Datum
gpucredit_eval_stream_state(PG_FUNCTION_ARGS)
{
	NullableDatum *args = fcinfo->args;
	ScoreStream before;
	ScoreStream stream;
	Datum		half;

	SqlConnect();
	if (!ScoreStreamFind(args[ORG], args[STREAM], STREAM_LOCKED, &before))
		ScoreStreamRefuseUnknown(args[ORG], args[STREAM]);
	stream = before;
	ScoreStreamFoldWaiting(&stream);
	ScoreStreamStore(&before, &stream);
	half = ScoreStreamHalfWidth(&stream);
	PG_RETURN_DATUM(SqlFinishRow(
								 RowReturnRecord(fcinfo,
												 VALUES(Int8Value(stream.t),
														DatumValue(stream.z),
														DatumValue(CALCULATE(sub, stream.mu, half)),
														DatumValue(CALCULATE(add, stream.mu, half)),
														BoolValue(stream.signal)))));
}

/*
 * Refuses a score that is outside of 0 to 1 or has too many decimals, and a
 * request's name that is empty or too long.
 */
static void
check_score(NullableDatum request, NullableDatum score)
{
	int			bytes = request.isnull ? 0 :
		VARSIZE_ANY_EXHDR(DatumGetTextPP(request.value));
	char	   *name;

	if (!score.isnull && NumberIsUpTo(score.value, 1) &&
		COMPARE(eq, score.value, TRUNCATE(score.value, SCORE_DECIMALS)) &&
		bytes >= 1 && bytes <= MAX_REQUEST_BYTES)
		return;
	name = request.isnull ? "" : TextDatumGetCString(request.value);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("a score is 0 to 1 with at most %d decimals, a request has 1 to %d bytes",
					SCORE_DECIMALS, MAX_REQUEST_BYTES),
			 errdetail("They are %s and \"%.*s\".", score.isnull ? "NULL" :
					   DatumGetCString(DirectFunctionCall1(numeric_out,
														   score.value)),
					   pg_mbcliplen(name, strlen(name), 64), name),
			 errhint("Correct the argument and call again.")));
}

/*
 * Inserts a score. If the caller has locked the stream, the score counts as
 * folded, with its number and z; otherwise it waits. Returns false if the
 * request was observed before.
 */
static bool
insert_score(const NullableDatum *args, bool locked, const ScoreStream *next)
{
	NullableDatum t = {Int64GetDatum(next->t), !locked};
	NullableDatum z = {next->z, !locked};

	return SqlRun(&insert_observation,
				  VALUES(args[ORG], args[STREAM], args[REQUEST], args[SCORE],
						 args[AT], t, z)).n > 0;
}

/*
 * Reads the state of the stream after a request that was observed before.
 * While the score of that request waits, it is the present state.
 */
static void
read_earlier(const NullableDatum *args, ScoreStream *stream)
{
	SqlResult	row = SqlRun(&read_observation,
							 VALUES(args[ORG], args[STREAM], args[REQUEST]));

	if (row.n == 0)
		return;
	stream->t = SqlInt8(row, 0, 1);
	stream->z = SqlNotNull(row, 0, 2);
}
