/*-------------------------------------------------------------------------
 *
 * credits.h
 *		The type credits: fixed point with six decimals in an int64.
 *
 * The functions here raise 22003 (numeric_value_out_of_range) when a result
 * does not fit; credits_math.h has variants that return false instead.
 *
 * A bill is rounded half up, once, from the exact product.  A hold for the
 * same time is rounded up, so it is never less than the bill.
 *
 * The ...Exact functions take the price of one whole GPU, the number of GPUs
 * and the share of each in thousandths, and keep the full precision of that
 * product. Callers make sure that prices, GPUs, shares and times are not
 * negative.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CREDITS_H
#define GPUCREDIT_CREDITS_H

#include "fmgr.h"
#include "types/credits_math.h"
#include "utils/numeric.h"

#ifndef USE_FLOAT8_BYVAL
#error "gpucredit needs a server that passes 8-byte values by value"
#endif

#define DatumGetCredits(d)		((Credits) DatumGetInt64(d))
#define CreditsGetDatum(c)		Int64GetDatum((int64) (c))
#define PG_GETARG_CREDITS(n)	DatumGetCredits(PG_GETARG_DATUM(n))
#define PG_RETURN_CREDITS(c)	return CreditsGetDatum(c)

extern Credits CreditsAdd(Credits a, Credits b);
extern Credits CreditsSub(Credits a, Credits b);
extern Credits CreditsNeg(Credits a);
extern Credits CreditsMul(Credits a, int64 factor);

/* Functions of the price of one whole GPU. */
extern Credits CreditsBillExact(Credits per_gpu_hour, int gpus,
								int share_milli, int64 elapsed_us);
extern Credits CreditsHoldExact(Credits per_gpu_hour, int gpus,
								int share_milli, int64 duration_us);
extern Credits CreditsBillWithin(Credits per_gpu_hour, int gpus,
								 int share_milli, int64 elapsed_us,
								 Credits most);
extern Credits CreditsHoldWithin(Credits per_gpu_hour, int gpus,
								 int share_milli, int64 duration_us,
								 Credits most);
extern int64 CreditsElapsedFor(Credits per_gpu_hour, int gpus,
							   int share_milli, Credits amount);

/*
 * argname is the name of the SQL argument in error messages, or NULL if the
 * number is no argument.
 */
extern Credits CreditsFromNumeric(Numeric n, const char *argname);
extern Numeric CreditsToNumeric(Credits amount);
extern char *CreditsToCString(Credits amount);

#endif							/* GPUCREDIT_CREDITS_H */
