/*-------------------------------------------------------------------------
 *
 * observe.c
 *		Scores of production's requests, and where their stream stands.
 *
 * z is the exponentially weighted mean of a stream's scores.  Who finds the
 * stream unlocked takes all scores that wait into z, in the order of their
 * numbers, then its own.  Who does not leaves its score to wait, and answers
 * as if it were the next.  Where several waited, all of the next 100 ms do, so
 * a busy stream is folded ten times a second.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "number.h"
#include "statement.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#define MAX_REQUEST_BYTES	255
#define DECIMALS			12	/* of scores, z and limits */
#define STEADY				20	/* t lambda from which limits stay */
#define BUSY				2	/* so many scores waited */
#define FOLD_EVERY			100 /* milliseconds */

/* The arguments of observe(); stream_state() has the first two. */
enum
{
	ORG, STREAM, REQUEST, SCORE, AT
};

/* Columns of a stream as its statements return them, from 1. */
enum
{
	MU = 1, SIGMA, LAMBDA, WIDTH, T, Z, SIGNAL, FOLD_AFTER
};

typedef struct ScoreStream
{
	const NullableDatum *args;	/* organisation, name */
	Datum		mu;				/* numeric, as all that follow */
	Datum		lambda;
	Datum		rest;			/* 1 - lambda */
	Datum		spread;			/* width times sigma */
	int64		t;				/* scores so far */
	Datum		z;
	bool		signal;
	TimestampTz fold_after;
} ScoreStream;

PGDLLEXPORT PG_FUNCTION_INFO_V1(gpucredit_eval_observe);
PGDLLEXPORT PG_FUNCTION_INFO_V1(gpucredit_eval_stream_state);

#define FIND_STREAM \
	"SELECT s.mu, s.sigma, s.lambda, s.width, s.t, s.z, s.signal, s.fold_after" \
	" FROM gpucredit_eval.stream s" \
	" WHERE s.org = $1 AND s.stream = $2" \
	"  AND gpucredit_eval.acts_as(s.org, s.account)"

STATEMENT(lock_stream, FIND_STREAM " FOR NO KEY UPDATE", TEXTOID, TEXTOID);
STATEMENT(try_stream, FIND_STREAM " FOR NO KEY UPDATE SKIP LOCKED", TEXTOID,
		  TEXTOID);
STATEMENT(read_stream, FIND_STREAM, TEXTOID, TEXTOID);
STATEMENT(no_stream,
		  "SELECT gpucredit_eval.not_found(format('stream \"%s/%s\"', left($1, 64), left($2, 96)))",
		  TEXTOID, TEXTOID);

STATEMENT(waiting,
		  "SELECT o.request, o.score FROM gpucredit_eval.observation o"
		  " WHERE o.org = $1 AND o.stream = $2 AND o.t IS NULL"
		  " ORDER BY o.observation",
		  TEXTOID, TEXTOID);
STATEMENT(fold,
		  "UPDATE gpucredit_eval.observation o SET t = u.t, z = u.z"
		  " FROM unnest($3, $4, $5) u (request, t, z)"
		  " WHERE o.org = $1 AND o.stream = $2 AND o.request = u.request",
		  TEXTOID, TEXTOID, TEXTARRAYOID, INT8ARRAYOID, NUMERICARRAYOID);
STATEMENT(keep_stream,
		  "UPDATE gpucredit_eval.stream s"
		  " SET t = $3, z = $4, signal = $5, fold_after = $6"
		  " WHERE s.org = $1 AND s.stream = $2",
		  TEXTOID, TEXTOID, INT8OID, NUMERICOID, BOOLOID, TIMESTAMPTZOID);
STATEMENT(tell,
		  "SELECT gpucredit_eval.tell_drift($1, $2, $3, $4)",
		  TEXTOID, TEXTOID, INT8OID, NUMERICOID);

STATEMENT(insert,
		  "INSERT INTO gpucredit_eval.observation"
		  "  (org, stream, request, score, observed_at, t, z)"
		  " VALUES ($1, $2, $3, $4, coalesce($5, gpucredit.now()), $6, $7)"
		  " ON CONFLICT DO NOTHING",
		  TEXTOID, TEXTOID, TEXTOID, NUMERICOID, TIMESTAMPTZOID, INT8OID,
		  NUMERICOID);
STATEMENT(observed,
		  "SELECT o.t, o.z FROM gpucredit_eval.observation o"
		  " WHERE o.org = $1 AND o.stream = $2 AND o.request = $3"
		  "  AND o.t IS NOT NULL",
		  TEXTOID, TEXTOID, TEXTOID);

static void check_score(NullableDatum request, NullableDatum score);
static bool find_stream(Statement *statement, const NullableDatum *args,
						ScoreStream *stream);
static bool fold_is_due(const ScoreStream *stream);
static bool insert_score(const NullableDatum *args, bool locked,
						 const ScoreStream *next);
static void find_score(const NullableDatum *args, ScoreStream *stream);
static void add_score(ScoreStream *stream, Datum score);
static void fold_waiting(ScoreStream *stream);
static NullableDatum array_of(Datum *values, int n, Oid type);
static void keep(const ScoreStream *was, ScoreStream *stream);
static Datum half_width(const ScoreStream *stream);
static bool is_outside(const ScoreStream *stream, Datum half);
static void put_state(MemoryContext context, const ScoreStream *stream, Datum half,
					  NullableDatum *row);

/*
 * Takes the score of a request; a repeated request counts once.
 */
Datum
gpucredit_eval_observe(PG_FUNCTION_ARGS)
{
	NullableDatum *args = fcinfo->args;
	MemoryContext context = CurrentMemoryContext;
	NullableDatum row[4];
	ScoreStream was;
	ScoreStream stream;
	ScoreStream next;			/* after this score */
	bool		locked;

	check_score(args[REQUEST], args[SCORE]);
	SPI_connect();
	if (!find_stream(&read_stream, args, &was))
		StatementRun(&no_stream, args);
	locked = fold_is_due(&was) && find_stream(&try_stream, args, &was);
	stream = was;
	if (locked)
		fold_waiting(&stream);
	next = stream;
	add_score(&next, args[SCORE].value);
	if (!insert_score(args, locked, &next))
	{
		next = stream;
		find_score(args, &next);
	}
	else if (locked)
		stream = next;
	if (locked)
		keep(&was, &stream);
	put_state(context, &next, half_width(&next), row);
	SPI_finish();
	return RowOf(fcinfo, row);
}

/*
 * Where a stream stands, with all scores that are there.
 */
Datum
gpucredit_eval_stream_state(PG_FUNCTION_ARGS)
{
	MemoryContext context = CurrentMemoryContext;
	NullableDatum row[5];
	ScoreStream was;
	ScoreStream stream;

	SPI_connect();
	if (!find_stream(&lock_stream, fcinfo->args, &was))
		StatementRun(&no_stream, fcinfo->args);
	stream = was;
	fold_waiting(&stream);
	keep(&was, &stream);
	row[0] = ValueOf(Int64GetDatum(stream.t));
	put_state(context, &stream, half_width(&stream), row + 1);
	row[4] = ValueOf(BoolGetDatum(stream.signal));
	SPI_finish();
	return RowOf(fcinfo, row);
}

/*
 * Refuses what is no score of a request.
 */
static void
check_score(NullableDatum request, NullableDatum score)
{
	int			bytes = request.isnull ? 0 :
		VARSIZE_ANY_EXHDR(DatumGetTextPP(request.value));
	char	   *name;

	if (!score.isnull && NumberIsUpTo(score.value, 1) &&
		COMPARE(eq, score.value, TRUNCATE(score.value, DECIMALS)) &&
		bytes >= 1 && bytes <= MAX_REQUEST_BYTES)
		return;
	name = request.isnull ? "" : TextDatumGetCString(request.value);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("a score is 0 to 1 with at most %d decimals, a request has 1 to %d bytes",
					DECIMALS, MAX_REQUEST_BYTES),
			 errdetail("They are %s and \"%.*s\".", score.isnull ? "NULL" :
					   DatumGetCString(DirectFunctionCall1(numeric_out,
														   score.value)),
					   pg_mbcliplen(name, strlen(name), 64), name),
			 errhint("Correct the argument and call again.")));
}

/*
 * The stream, by one of the statements that do; false: none, or not free.
 */
static bool
find_stream(Statement *statement, const NullableDatum *args, ScoreStream *stream)
{
	if (StatementRun(statement, args) == 0)
		return false;
	stream->args = args;
	stream->mu = StatementValue(0, MU).value;
	stream->lambda = StatementValue(0, LAMBDA).value;
	stream->rest = CALCULATE(sub, NUMERIC(1), stream->lambda);
	stream->spread = CALCULATE(mul, StatementValue(0, WIDTH).value,
							   StatementValue(0, SIGMA).value);
	stream->t = DatumGetInt64(StatementValue(0, T).value);
	stream->z = StatementValue(0, Z).value;
	stream->signal = DatumGetBool(StatementValue(0, SIGNAL).value);
	stream->fold_after = DatumGetTimestampTz(StatementValue(0,
															FOLD_AFTER).value);
	return true;
}

/*
 * One score more.
 */
static void
add_score(ScoreStream *stream, Datum score)
{
	stream->t++;
	stream->z = ROUND(CALCULATE(add, CALCULATE(mul, stream->lambda, score),
								CALCULATE(mul, stream->rest, stream->z)),
					  DECIMALS);
}

/*
 * Was the stream not busy a moment ago?  The clock may have been set back.
 */
static bool
fold_is_due(const ScoreStream *stream)
{
	TimestampTz now = GetCurrentTimestamp();

	return now >= stream->fold_after ||
		now < TimestampTzPlusMilliseconds(stream->fold_after, -FOLD_EVERY);
}

/*
 * Inserts a score, with its place if the stream is locked; false: the request
 * was observed before.
 */
static bool
insert_score(const NullableDatum *args, bool locked, const ScoreStream *next)
{
	NullableDatum place = {Int64GetDatum(next->t), !locked};
	NullableDatum z = {next->z, !locked};

	return StatementRun(&insert, VALUES(args[ORG], args[STREAM], args[REQUEST],
										args[SCORE], args[AT],
										place, z)) > 0;
}

/*
 * Where the stream stood after a request that was observed before.  If it
 * still waits, the stream is as it was.
 */
static void
find_score(const NullableDatum *args, ScoreStream *stream)
{
	if (StatementRun(&observed, args) == 0)
		return;
	stream->t = DatumGetInt64(StatementValue(0, 1).value);
	stream->z = StatementValue(0, 2).value;
}

/*
 * Takes all scores that wait into a locked stream.
 */
static void
fold_waiting(ScoreStream *stream)
{
	const NullableDatum *args = stream->args;
	uint64		n = StatementRun(&waiting, args);
	Datum	   *requests = palloc(sizeof(Datum) * n);
	Datum	   *ts = palloc(sizeof(Datum) * n);
	Datum	   *zs = palloc(sizeof(Datum) * n);

	stream->fold_after = n < BUSY ? DT_NOBEGIN :
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(), FOLD_EVERY);
	if (n == 0)
		return;
	for (uint64 i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		add_score(stream, StatementValue(i, 2).value);
		requests[i] = StatementValue(i, 1).value;
		ts[i] = Int64GetDatum(stream->t);
		zs[i] = stream->z;
	}
	StatementRun(&fold, VALUES(args[ORG], args[STREAM],
							   array_of(requests, n, TEXTOID),
							   array_of(ts, n, INT8OID),
							   array_of(zs, n, NUMERICOID)));
}

static NullableDatum
array_of(Datum *values, int n, Oid type)
{
	int16		length;
	bool		by_value;
	char		align;

	get_typlenbyvalalign(type, &length, &by_value, &align);
	return ValueOf(PointerGetDatum(construct_array(values, n, type, length,
												   by_value, align)));
}

/*
 * Keeps where a locked stream stands now; a signal that begins is told.
 */
static void
keep(const ScoreStream *was, ScoreStream *stream)
{
	const NullableDatum *args = stream->args;
	NullableDatum fold_after;

	if (stream->t == was->t)
		return;
	stream->signal = is_outside(stream, half_width(stream));
	fold_after = ValueOf(TimestampTzGetDatum(stream->fold_after));
	StatementRun(&keep_stream, VALUES(args[ORG], args[STREAM],
									  ValueOf(Int64GetDatum(stream->t)),
									  ValueOf(stream->z),
									  ValueOf(BoolGetDatum(stream->signal)),
									  fold_after));
	if (stream->signal && !was->signal)
		StatementRun(&tell, VALUES(args[ORG], args[STREAM],
								   ValueOf(Int64GetDatum(stream->t)),
								   ValueOf(stream->z)));
}

/*
 * Half the width of the limits,
 *
 *		width sigma sqrt(lambda / (2 - lambda) (1 - (1 - lambda)^(2 t)))
 *
 * The last factor is soon 1.
 */
static Datum
half_width(const ScoreStream *stream)
{
	Datum		part = CALCULATE(div, stream->lambda,
								 CALCULATE(sub, NUMERIC(2), stream->lambda));
	Datum		past = NUMERIC(0);

	if (COMPARE(lt, CALCULATE(mul, NUMERIC(stream->t), stream->lambda),
				NUMERIC(STEADY)))
		past = CALCULATE(power, stream->rest, NUMERIC(2 * stream->t));
	part = CALCULATE(mul, part, CALCULATE(sub, NUMERIC(1), past));
	return ROUND(CALCULATE(mul, stream->spread,
						   DirectFunctionCall1(numeric_sqrt, part)),
				 DECIMALS);
}

static bool
is_outside(const ScoreStream *stream, Datum half)
{
	return COMPARE(gt, DirectFunctionCall1(numeric_abs,
										   CALCULATE(sub, stream->z,
													 stream->mu)), half);
}

/*
 * z, its limits, whether it is outside; in memory that outlives SPI.
 */
static void
put_state(MemoryContext context, const ScoreStream *stream, Datum half,
		  NullableDatum *row)
{
	MemoryContext old = MemoryContextSwitchTo(context);

	row[0] = ValueOf(datumCopy(stream->z, false, -1));
	row[1] = ValueOf(CALCULATE(sub, stream->mu, half));
	row[2] = ValueOf(CALCULATE(add, stream->mu, half));
	row[3] = ValueOf(BoolGetDatum(is_outside(stream, half)));
	MemoryContextSwitchTo(old);
}
