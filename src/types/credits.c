/*-------------------------------------------------------------------------
 *
 * credits.c
 *		The type credits: text and binary form, casts, and arithmetic.
 *
 * The functions raise 22003 where those of credits_math.c return false.
 *
 * A value is an int64, so the server's own functions for bigint compare, hash
 * and send it (see 10_types.sql).  The binary form is that int64 in network
 * order.
 *
 * SQL functions here: bill, bill_within.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "libpq/pqformat.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "types/entry.h"
#include "types/clip.h"
#include "types/credits.h"
#include "types/duration.h"

PG_FUNCTION_INFO_V1(gpucredit_credits_in);
PG_FUNCTION_INFO_V1(gpucredit_credits_out);
PG_FUNCTION_INFO_V1(gpucredit_credits_recv);
PG_FUNCTION_INFO_V1(gpucredit_credits_add);
PG_FUNCTION_INFO_V1(gpucredit_credits_sub);
PG_FUNCTION_INFO_V1(gpucredit_credits_neg);
PG_FUNCTION_INFO_V1(gpucredit_credits_mul);
PG_FUNCTION_INFO_V1(gpucredit_mul_credits);
PG_FUNCTION_INFO_V1(gpucredit_numeric_to_credits);
PG_FUNCTION_INFO_V1(gpucredit_credits_to_numeric);
PG_FUNCTION_INFO_V1(gpucredit_int8_to_credits);
PG_FUNCTION_INFO_V1(gpucredit_int4_to_credits);
PG_FUNCTION_INFO_V1(gpucredit_int2_to_credits);
PG_FUNCTION_INFO_V1(gpucredit_bill);
PG_FUNCTION_INFO_V1(gpucredit_bill_within);

static void report_unusable(CreditsParseError error, const char *subject,
							const char *object) pg_attribute_noreturn();
static int64 bill_arguments(FunctionCallInfo fcinfo);
static void report_overflow(void) pg_attribute_noreturn();
static void refuse_argument(const char *argname, const char *rule)
			pg_attribute_noreturn();

Datum
gpucredit_credits_in(PG_FUNCTION_ARGS)
{
	const char *text = PG_GETARG_CSTRING(0);
	Credits		result = 0;
	size_t		errpos;
	CreditsParseError error;

	error = CreditsParse(text, strlen(text), &result, &errpos);
	if (error == CREDITS_PARSE_SYNTAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid input syntax for type credits: \"%s\"",
						ClipForMessage(text)),
				 errhint("Write a plain decimal number, for example "
						 "\"12.5\".")));
	if (error != CREDITS_PARSE_OK)
		report_unusable(error, psprintf("value \"%s\"", ClipForMessage(text)),
						"the value");
	PG_RETURN_CREDITS(result);
}

/* Output function: the text always has six decimals. */
Datum
gpucredit_credits_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(CreditsToCString(PG_GETARG_CREDITS(0)));
}

/* Binary input function: accepts exactly eight bytes. */
Datum
gpucredit_credits_recv(PG_FUNCTION_ARGS)
{
	StringInfo	buf = (StringInfo) PG_GETARG_POINTER(0);
	int			len = buf->len - buf->cursor;

	if (len != sizeof(Credits))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("invalid binary value of type credits"),
				 errdetail("It has %d bytes, not %d.",
						   len, (int) sizeof(Credits))));
	PG_RETURN_CREDITS(pq_getmsgint64(buf));
}

Datum
gpucredit_credits_add(PG_FUNCTION_ARGS)
{
	PG_RETURN_CREDITS(CreditsAdd(PG_GETARG_CREDITS(0), PG_GETARG_CREDITS(1)));
}

Datum
gpucredit_credits_sub(PG_FUNCTION_ARGS)
{
	PG_RETURN_CREDITS(CreditsSub(PG_GETARG_CREDITS(0), PG_GETARG_CREDITS(1)));
}

Datum
gpucredit_credits_neg(PG_FUNCTION_ARGS)
{
	PG_RETURN_CREDITS(CreditsNeg(PG_GETARG_CREDITS(0)));
}

Datum
gpucredit_credits_mul(PG_FUNCTION_ARGS)
{
	PG_RETURN_CREDITS(CreditsMul(PG_GETARG_CREDITS(0), PG_GETARG_INT64(1)));
}

Datum
gpucredit_mul_credits(PG_FUNCTION_ARGS)
{
	PG_RETURN_CREDITS(CreditsMul(PG_GETARG_CREDITS(1), PG_GETARG_INT64(0)));
}

/*
 * Converts a numeric exactly; raises an error if it has more than six decimals
 * or does not fit.
 */
Datum
gpucredit_numeric_to_credits(PG_FUNCTION_ARGS)
{
	PG_RETURN_CREDITS(CreditsFromNumeric(PG_GETARG_NUMERIC(0), NULL));
}

/* Converts to a numeric with display scale 6. */
Datum
gpucredit_credits_to_numeric(PG_FUNCTION_ARGS)
{
	PG_RETURN_NUMERIC(CreditsToNumeric(PG_GETARG_CREDITS(0)));
}

/*
 * Converts a bigint, as a number of whole credits; raises an error if it does
 * not fit.
 */
Datum
gpucredit_int8_to_credits(PG_FUNCTION_ARGS)
{
	PG_RETURN_CREDITS(CreditsMul(CREDITS_ONE, PG_GETARG_INT64(0)));
}

/* Converts an int, as a number of whole credits.  It always fits. */
Datum
gpucredit_int4_to_credits(PG_FUNCTION_ARGS)
{
	PG_RETURN_CREDITS(CREDITS_ONE * PG_GETARG_INT32(0));
}

/* Converts a smallint, as a number of whole credits.  It always fits. */
Datum
gpucredit_int2_to_credits(PG_FUNCTION_ARGS)
{
	PG_RETURN_CREDITS(CREDITS_ONE * PG_GETARG_INT16(0));
}

/* bill(): the cost of a number of GPUs at a price for a time. */
Datum
gpucredit_bill(PG_FUNCTION_ARGS)
{
	int64		elapsed = bill_arguments(fcinfo);

	PG_RETURN_CREDITS(CreditsBillExact(PG_GETARG_CREDITS(0),
									   PG_GETARG_INT32(1),
									   PG_GETARG_INT32(2), elapsed));
}

/*
 * bill_within(): as bill(), but at most a given amount, so it never overflows.
 */
Datum
gpucredit_bill_within(PG_FUNCTION_ARGS)
{
	int64		elapsed = bill_arguments(fcinfo);

	PG_RETURN_CREDITS(CreditsBillWithin(PG_GETARG_CREDITS(0),
										PG_GETARG_INT32(1),
										PG_GETARG_INT32(2), elapsed,
										PG_GETARG_CREDITS(4)));
}

/*
 * Checks the arguments of bill() and bill_within(), and returns `elapsed` in
 * microseconds.
 */
static int64
bill_arguments(FunctionCallInfo fcinfo)
{
	Credits		per_gpu_hour = PG_GETARG_CREDITS(0);
	int32		gpus = PG_GETARG_INT32(1);
	int32		share = PG_GETARG_INT32(2);
	int64		elapsed;

	elapsed = DurationFromInterval(PG_GETARG_INTERVAL_P(3), "elapsed");
	if (per_gpu_hour < 0)
		refuse_argument("per_gpu_hour", "not be negative");
	if (gpus < 0)
		refuse_argument("gpus", "not be negative");
	if (share < 1 || share > SHARE_WHOLE)
		refuse_argument("share", "lie between 1 and 1000 thousandths");
	if (elapsed < 0)
		refuse_argument("elapsed", "not be negative");
	return elapsed;
}

Credits
CreditsAdd(Credits a, Credits b)
{
	Credits		result;

	if (!CreditsTryAdd(a, b, &result))
		report_overflow();
	return result;
}

Credits
CreditsSub(Credits a, Credits b)
{
	Credits		result;

	if (!CreditsTrySub(a, b, &result))
		report_overflow();
	return result;
}

Credits
CreditsNeg(Credits a)
{
	Credits		result;

	if (!CreditsTryNeg(a, &result))
		report_overflow();
	return result;
}

Credits
CreditsMul(Credits a, int64 factor)
{
	Credits		result;

	if (!CreditsTryMul(a, factor, &result))
		report_overflow();
	return result;
}

/* Returns the cost of these GPUs for elapsed_us, rounded half up once. */
Credits
CreditsBillExact(Credits per_gpu_hour, int gpus, int share_milli,
				 int64 elapsed_us)
{
	Credits		result;

	if (!CreditsTryBill(per_gpu_hour, gpus, share_milli, elapsed_us,
						CREDITS_ROUND_HALF_UP, &result))
		report_overflow();
	return result;
}

/*
 * As CreditsBillExact(), but returns `most` if the bill is more or does not
 * fit.
 */
Credits
CreditsBillWithin(Credits per_gpu_hour, int gpus, int share_milli,
				  int64 elapsed_us, Credits most)
{
	Credits		result;

	if (!CreditsTryBill(per_gpu_hour, gpus, share_milli, elapsed_us,
						CREDITS_ROUND_HALF_UP, &result))
		return most;
	return Min(result, most);
}

/*
 * As CreditsHoldExact(), but returns `most` if the amount is more or does not
 * fit.
 */
Credits
CreditsHoldWithin(Credits per_gpu_hour, int gpus, int share_milli,
				  int64 duration_us, Credits most)
{
	Credits		result;

	if (!CreditsTryBill(per_gpu_hour, gpus, share_milli, duration_us,
						CREDITS_ROUND_UP, &result))
		return most;
	return Min(result, most);
}

/*
 * Returns the amount to hold for these GPUs for duration_us: their cost,
 * rounded up.
 */
Credits
CreditsHoldExact(Credits per_gpu_hour, int gpus, int share_milli,
				 int64 duration_us)
{
	Credits		result;

	if (!CreditsTryBill(per_gpu_hour, gpus, share_milli, duration_us,
						CREDITS_ROUND_UP, &result))
		report_overflow();
	return result;
}

/* Returns the longest time in microseconds that the amount pays for. */
int64
CreditsElapsedFor(Credits per_gpu_hour, int gpus, int share_milli,
				  Credits amount)
{
	int64		result;

	if (!CreditsTryElapsedFor(per_gpu_hour, gpus, share_milli, amount,
							  &result))
		report_overflow();
	return result;
}

/*
 * Converts a numeric exactly.  argname is the name of the SQL argument for
 * error messages, or NULL.
 *
 * The conversion goes through the text of the number, because the text needs
 * no more memory than the numeric that the caller sent.
 */
Credits
CreditsFromNumeric(Numeric n, const char *argname)
{
	Credits		result = 0;
	size_t		errpos;
	CreditsParseError error;
	char	   *text = DatumGetCString(DirectFunctionCall1(numeric_out,
														   NumericGetDatum(n)));

	error = CreditsParse(text, strlen(text), &result, &errpos);
	if (error != CREDITS_PARSE_OK)
	{
		if (argname != NULL)
			report_unusable(error, psprintf("argument \"%s\"", argname),
							psprintf("\"%s\"", argname));
		report_unusable(error, psprintf("value \"%s\"", ClipForMessage(text)),
						"the value");
	}
	pfree(text);
	return result;
}

/* Returns a numeric with display scale 6. */
Numeric
CreditsToNumeric(Credits amount)
{
	return int64_div_fast_to_numeric(amount, CREDITS_DECIMALS);
}

char *
CreditsToCString(Credits amount)
{
	char	   *result = palloc(CREDITS_TEXT_SIZE);

	CreditsPrint(amount, result);
	return result;
}

/* Raises an error for a number that is no amount of credits. */
static void
report_unusable(CreditsParseError error, const char *subject,
				const char *object)
{
	int			code = ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE;

	switch (error)
	{
		case CREDITS_PARSE_RANGE:
			ereport(ERROR,
					(errcode(code),
					 errmsg("%s is out of range for type credits", subject),
					 errdetail("Credits lie between %s and %s.",
							   CreditsToCString(CREDITS_MIN),
							   CreditsToCString(CREDITS_MAX)),
					 errhint("Keep %s within these bounds.", object)));
			break;
		case CREDITS_PARSE_DECIMALS:
			ereport(ERROR,
					(errcode(code),
					 errmsg("%s has more than %d decimals",
							subject, CREDITS_DECIMALS),
					 errdetail("Credits are kept in millionths."),
					 errhint("Round %s to %d decimals first.",
							 object, CREDITS_DECIMALS)));
			break;
		case CREDITS_PARSE_NOT_FINITE:
		case CREDITS_PARSE_OK:
		case CREDITS_PARSE_SYNTAX:

			/*
			 * the text is numeric_out's, so it is a number or one of these
			 * words
			 */
			Assert(error == CREDITS_PARSE_NOT_FINITE);
			ereport(ERROR,
					(errcode(code),
					 errmsg("%s is not a finite number", subject),
					 errdetail("NaN and infinity are not amounts of "
							   "credits."),
					 errhint("Make %s a finite number.", object)));
			break;
	}
	pg_unreachable();
}

/* Raises an error for a result that does not fit. */
static void
report_overflow(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("credits out of range"),
			 errdetail("The result does not lie between %s and %s.",
					   CreditsToCString(CREDITS_MIN),
					   CreditsToCString(CREDITS_MAX)),
			 errhint("Use smaller amounts.")));
}

/*
 * Raises an error for an argument; the rule completes the phrase "must ...".
 */
static void
refuse_argument(const char *argname, const char *rule)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"%s\" must %s", argname, rule)));
}
