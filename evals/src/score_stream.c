/*-------------------------------------------------------------------------
 *
 * score_stream.c
 *		The stream of production scores that observe() watches for drift.
 *
 * z is the exponentially weighted moving average of a stream's scores. The
 * stream signals drift while z is outside of its limits.
 *
 * A score is a row of table observation. Once it is folded into the stream, it
 * has its number t and the z after it; while it waits, both are null. A
 * session that holds the lock of the stream's row folds all waiting scores, in
 * the order in which they were inserted.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "number.h"
#include "score_stream.h"
#include "utils/timestamp.h"

#define STEADY				20	/* value of t lambda from which the limits are
								 * constant */
#define BUSY				2	/* number of waiting scores that makes a
								 * stream busy */
#define FOLD_EVERY			100 /* interval in milliseconds at which a busy
								 * stream is folded */

/* Columns of a stream as its statements return them, counted from 1. */
enum
{
	MU = 1, SIGMA, LAMBDA, WIDTH, T, Z, SIGNAL, FOLD_AFTER, IS_RATE
};

#define FIND_STREAM \
	"SELECT s.mu, s.sigma, s.lambda, s.width, s.t, s.z, s.signal, s.fold_after," \
	"  s.kind <> 'score'" \
	" FROM gpucredit_eval.stream s" \
	" WHERE s.org = $1 AND s.stream = $2" \
	"  AND gpucredit_eval.acts_as(s.org, s.account)"

SQL_STATEMENT(lock_stream, SPI_OK_SELECT, "text, text",
			  FIND_STREAM " FOR NO KEY UPDATE");
SQL_STATEMENT(try_stream, SPI_OK_SELECT, "text, text",
			  FIND_STREAM " FOR NO KEY UPDATE SKIP LOCKED");
SQL_STATEMENT(read_stream, SPI_OK_SELECT, "text, text", FIND_STREAM);
SQL_STATEMENT(refuse_unknown, SPI_OK_SELECT, "text, text",
			  "SELECT gpucredit_eval.not_found(format('stream \"%s/%s\"', left($1, 64), left($2, 96)))");

SQL_STATEMENT(read_waiting, SPI_OK_SELECT, "text, text",
			  "SELECT o.request, o.score FROM gpucredit_eval.observation o"
			  " WHERE o.org = $1 AND o.stream = $2 AND o.t IS NULL"
			  " ORDER BY o.observation");
SQL_STATEMENT(fold_waiting, SPI_OK_UPDATE,
			  "text, text, text[], bigint[], numeric[]",
			  "UPDATE gpucredit_eval.observation o SET t = u.t, z = u.z"
			  " FROM unnest($3, $4, $5) u (request, t, z)"
			  " WHERE o.org = $1 AND o.stream = $2 AND o.request = u.request");
SQL_STATEMENT(update_stream, SPI_OK_UPDATE,
			  "text, text, bigint, numeric, boolean, timestamptz",
			  "UPDATE gpucredit_eval.stream s"
			  " SET t = $3, z = $4, signal = $5, fold_after = $6"
			  " WHERE s.org = $1 AND s.stream = $2");
SQL_STATEMENT(report_drift, SPI_OK_SELECT, "text, text, bigint, numeric, boolean",
			  "SELECT gpucredit_eval.report_drift($1, $2, $3, $4, $5)");

/*
 * Reads a stream that the session may use. Returns false if there is none, or
 * if its row is locked and the caller does not want to wait.
 */
bool
ScoreStreamFind(NullableDatum org, NullableDatum name, ScoreStreamLock lock,
				ScoreStream *stream)
{
	SqlStatement *statement = lock == STREAM_LOCKED ? &lock_stream :
		lock == STREAM_TRY_LOCK ? &try_stream : &read_stream;
	SqlResult	row = SqlRun(statement, VALUES(org, name));

	if (row.n == 0)
		return false;
	stream->org = org;
	stream->name = name;
	stream->mu = SqlNotNull(row, 0, MU);
	stream->lambda = SqlNotNull(row, 0, LAMBDA);
	stream->one_minus_lambda = CALCULATE(sub, NUMERIC(1), stream->lambda);
	stream->spread = CALCULATE(mul, SqlNotNull(row, 0, WIDTH),
							   SqlNotNull(row, 0, SIGMA));
	stream->t = SqlInt8(row, 0, T);
	stream->z = SqlNotNull(row, 0, Z);
	stream->signal = SqlBool(row, 0, SIGNAL);
	stream->fold_after = SqlTime(row, 0, FOLD_AFTER);
	stream->is_rate = SqlBool(row, 0, IS_RATE);
	return true;
}

/*
 * Raises the error for a stream that does not exist or that the session may
 * not use. The error is the same, so that the session does not find out which.
 */
void
ScoreStreamRefuseUnknown(NullableDatum org, NullableDatum name)
{
	SqlRun(&refuse_unknown, VALUES(org, name));
}

/*
 * Whether a new score may be folded at once. A stream on which several scores
 * waited is folded only every 100 ms. The last condition handles a clock that
 * was set back.
 */
bool
ScoreStreamFoldIsDue(const ScoreStream *stream)
{
	TimestampTz now = GetCurrentTimestamp();

	return now >= stream->fold_after ||
		now < TimestampTzPlusMilliseconds(stream->fold_after, -FOLD_EVERY);
}

/*
 * Folds one score into the stream, in memory.
 */
void
ScoreStreamAdd(ScoreStream *stream, Datum score)
{
	stream->t++;
	stream->z = ROUND(CALCULATE(add, CALCULATE(mul, stream->lambda, score),
								CALCULATE(mul, stream->one_minus_lambda,
										  stream->z)),
					  SCORE_DECIMALS);
}

/*
 * Folds all waiting scores into a stream whose row is locked.
 */
void
ScoreStreamFoldWaiting(ScoreStream *stream)
{
	SqlResult	waiting = SqlRun(&read_waiting,
								 VALUES(stream->org, stream->name));
	Datum	   *requests = palloc(sizeof(Datum) * waiting.n);
	Datum	   *ts = palloc(sizeof(Datum) * waiting.n);
	Datum	   *zs = palloc(sizeof(Datum) * waiting.n);

	stream->fold_after = waiting.n < BUSY ? DT_NOBEGIN :
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(), FOLD_EVERY);
	if (waiting.n == 0)
		return;
	for (uint64 i = 0; i < waiting.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		ScoreStreamAdd(stream, SqlNotNull(waiting, i, 2));
		requests[i] = SqlNotNull(waiting, i, 1);
		ts[i] = Int64GetDatum(stream->t);
		zs[i] = stream->z;
	}
	SqlRun(&fold_waiting,
		   VALUES(stream->org, stream->name,
				  ArrayValue(requests, NULL, waiting.n, TEXTOID),
				  ArrayValue(ts, NULL, waiting.n, INT8OID),
				  ArrayValue(zs, NULL, waiting.n, NUMERICOID)));
}

/*
 * Stores a locked stream in its row if scores were added to it. If the signal
 * begins or ends now, that is reported.
 */
void
ScoreStreamStore(const ScoreStream *before, ScoreStream *stream)
{
	if (stream->t == before->t)
		return;
	stream->signal = ScoreStreamIsOutside(stream,
										  ScoreStreamHalfWidth(stream));
	SqlRun(&update_stream,
		   VALUES(stream->org, stream->name, Int8Value(stream->t),
				  DatumValue(stream->z), BoolValue(stream->signal),
				  TimeValue(stream->fold_after)));
	if (stream->signal != before->signal)
		SqlRun(&report_drift,
			   VALUES(stream->org, stream->name, Int8Value(stream->t),
					  DatumValue(stream->z), BoolValue(stream->signal)));
}

/*
 * Computes half the width of the limits around mu,
 *   width sigma sqrt(lambda / (2 - lambda) (1 - (1 - lambda)^(2 t)))
 * The last factor is soon so close to 1 that its power is not computed any
 * more. For a rate it is 1 from the start.
 */
Datum
ScoreStreamHalfWidth(const ScoreStream *stream)
{
	Datum		variance = CALCULATE(div, stream->lambda,
									 CALCULATE(sub, NUMERIC(2), stream->lambda));
	Datum		start = NUMERIC(0);

	if (!stream->is_rate &&
		COMPARE(lt, CALCULATE(mul, NUMERIC(stream->t), stream->lambda),
				NUMERIC(STEADY)))
		start = CALCULATE(power, stream->one_minus_lambda,
						  NUMERIC(2 * stream->t));
	variance = CALCULATE(mul, variance, CALCULATE(sub, NUMERIC(1), start));
	return ROUND(CALCULATE(mul, stream->spread,
						   DirectFunctionCall1(numeric_sqrt, variance)),
				 SCORE_DECIMALS);
}

/*
 * Whether z is outside of its limits around mu.
 */
bool
ScoreStreamIsOutside(const ScoreStream *stream, Datum half_width)
{
	return COMPARE(gt, DirectFunctionCall1(numeric_abs,
										   CALCULATE(sub, stream->z,
													 stream->mu)), half_width);
}
