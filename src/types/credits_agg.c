/*-------------------------------------------------------------------------
 *
 * credits_agg.c
 *		The aggregates sum, avg and sum_numeric over credits.
 *
 * They use the same state, a 128-bit sum and a count.  So intermediate sums
 * never overflow, whatever the order of the inputs, and only a final sum that
 * does not fit is an error.  The final sum of sum_numeric always fits.  Integer addition has an exact inverse, so the
 * state also serves moving windows; two states can be added, so it serves
 * parallel plans. If no amount was added, the result is NULL.
 *
 * SQL functions here: credits_accum, credits_accum_inv, credits_combine,
 * credits_serialize, credits_deserialize, credits_sum, credits_avg,
 * credits_sum_numeric.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "libpq/pqformat.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "types/entry.h"
#include "types/credits.h"

typedef struct CreditsAggState
{
	int128		sum;
	int64		count;
} CreditsAggState;

PG_FUNCTION_INFO_V1(gpucredit_credits_accum);
PG_FUNCTION_INFO_V1(gpucredit_credits_accum_inv);
PG_FUNCTION_INFO_V1(gpucredit_credits_combine);
PG_FUNCTION_INFO_V1(gpucredit_credits_serialize);
PG_FUNCTION_INFO_V1(gpucredit_credits_deserialize);
PG_FUNCTION_INFO_V1(gpucredit_credits_sum);
PG_FUNCTION_INFO_V1(gpucredit_credits_avg);
PG_FUNCTION_INFO_V1(gpucredit_credits_sum_numeric);

static CreditsAggState *state_of(FunctionCallInfo fcinfo);

Datum
gpucredit_credits_accum(PG_FUNCTION_ARGS)
{
	CreditsAggState *state = state_of(fcinfo);

	if (!PG_ARGISNULL(1))
	{
		state->sum += PG_GETARG_CREDITS(1);
		state->count++;
	}
	PG_RETURN_POINTER(state);
}

/* Subtracts an amount that leaves a moving window. */
Datum
gpucredit_credits_accum_inv(PG_FUNCTION_ARGS)
{
	CreditsAggState *state = state_of(fcinfo);

	if (!PG_ARGISNULL(1))
	{
		state->sum -= PG_GETARG_CREDITS(1);
		state->count--;
	}
	PG_RETURN_POINTER(state);
}

Datum
gpucredit_credits_combine(PG_FUNCTION_ARGS)
{
	CreditsAggState *state = state_of(fcinfo);

	if (!PG_ARGISNULL(1))
	{
		CreditsAggState *other = (CreditsAggState *) PG_GETARG_POINTER(1);

		state->sum += other->sum;
		state->count += other->count;
	}
	PG_RETURN_POINTER(state);
}

/* Returns the state as bytes, so that it can be sent to another process. */
Datum
gpucredit_credits_serialize(PG_FUNCTION_ARGS)
{
	CreditsAggState *state = (CreditsAggState *) PG_GETARG_POINTER(0);
	StringInfoData buf;

	pq_begintypsend(&buf);
	pq_sendint64(&buf, (uint64) (state->sum >> 64));
	pq_sendint64(&buf, (uint64) state->sum);
	pq_sendint64(&buf, (uint64) state->count);
	PG_RETURN_BYTEA_P(pq_endtypsend(&buf));
}

Datum
gpucredit_credits_deserialize(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(0);
	CreditsAggState *state = palloc(sizeof(CreditsAggState));
	StringInfoData buf;
	uint64		high;
	uint64		low;

	initStringInfo(&buf);
	appendBinaryStringInfo(&buf, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
	high = (uint64) pq_getmsgint64(&buf);
	low = (uint64) pq_getmsgint64(&buf);
	state->sum = (int128) ((uint128) high << 64 | low);
	state->count = pq_getmsgint64(&buf);
	pq_getmsgend(&buf);
	PG_RETURN_POINTER(state);
}

/* Final function of sum().  Raises an error only if the total does not fit. */
Datum
gpucredit_credits_sum(PG_FUNCTION_ARGS)
{
	CreditsAggState *state = (CreditsAggState *) PG_GETARG_POINTER(0);

	if (state->count == 0)
		PG_RETURN_NULL();
	if (state->sum < CREDITS_MIN || state->sum > CREDITS_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("sum of credits out of range"),
				 errdetail("The sum does not lie between %s and %s.",
						   CreditsToCString(CREDITS_MIN),
						   CreditsToCString(CREDITS_MAX)),
				 errhint("Sum the amounts as numeric.")));
	PG_RETURN_CREDITS((Credits) state->sum);
}

/* Final function of avg(): rounded to a millionth, halves away from zero. */
Datum
gpucredit_credits_avg(PG_FUNCTION_ARGS)
{
	CreditsAggState *state = (CreditsAggState *) PG_GETARG_POINTER(0);
	int128		average;
	int64		rest;

	if (state->count == 0)
		PG_RETURN_NULL();
	average = state->sum / state->count;
	rest = (int64) (state->sum % state->count);
	if (rest < 0)
		rest = -rest;
	if (rest >= state->count - rest)
		average += state->sum < 0 ? -1 : 1;
	PG_RETURN_CREDITS((Credits) average);
}

/*
 * Final function of sum_numeric(). An amount fits 64 bits. So does the sum of
 * fewer than 10^18 amounts, divided by 10^18.
 */
Datum
gpucredit_credits_sum_numeric(PG_FUNCTION_ARGS)
{
	CreditsAggState *state = (CreditsAggState *) PG_GETARG_POINTER(0);
	const int64 unit = INT64CONST(1000000000000000000);
	Datum		high;

	if (state->count == 0)
		PG_RETURN_NULL();
	high = DirectFunctionCall2(numeric_mul,
							   NumericGetDatum(int64_to_numeric((int64) (state->sum / unit))),
							   NumericGetDatum(int64_to_numeric(unit / CREDITS_ONE)));
	return DirectFunctionCall2(numeric_add, high,
							   NumericGetDatum(CreditsToNumeric((Credits) (state->sum % unit))));
}

/* Returns the state in argument 0, or a new one if it is NULL. */
static CreditsAggState *
state_of(FunctionCallInfo fcinfo)
{
	MemoryContext context;

	if (!AggCheckCallContext(fcinfo, &context))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("aggregate function called outside an aggregate"),
				 errhint("Call the aggregates sum and avg.")));
	if (PG_ARGISNULL(0))
		return MemoryContextAllocZero(context, sizeof(CreditsAggState));
	return (CreditsAggState *) PG_GETARG_POINTER(0);
}
