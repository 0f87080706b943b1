/*-------------------------------------------------------------------------
 *
 * credits_math.h
 *		Arithmetic of money and time, without a server.
 *
 * Every function returns false and leaves *result unchanged when the result
 * does not fit an int64.  The ratio functions also return false when the
 * divisor is not positive, and the bill functions when an argument is
 * negative.  Products are 128 bits wide, so nothing is lost before the one
 * rounding at the end.
 *
 * A bill is per_gpu_hour x gpus x share_milli / 1000 x elapsed / 1 h, computed
 * from the exact product and rounded once.  A charge is this product rounded
 * half up.  A hold is the same product rounded up, so it covers the charge.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CREDITS_MATH_H
#define GPUCREDIT_CREDITS_MATH_H

#include "types/credits_parse.h"

#define MICROSECONDS_PER_HOUR	INT64_C(3600000000)
#define SHARE_WHOLE				1000	/* thousandths in one GPU */

typedef enum CreditsRounding
{
	CREDITS_ROUND_DOWN,			/* toward zero */
	CREDITS_ROUND_HALF_UP,		/* to nearest, halves away from zero */
	CREDITS_ROUND_UP			/* away from zero */
} CreditsRounding;

extern bool CreditsTryAdd(Credits a, Credits b, Credits *result);
extern bool CreditsTrySub(Credits a, Credits b, Credits *result);
extern bool CreditsTryNeg(Credits a, Credits *result);
extern bool CreditsTryMul(Credits a, int64_t factor, Credits *result);
extern bool CreditsTryMulRatio(Credits amount, int64_t num, int64_t den,
							   CreditsRounding rounding, Credits *result);
extern bool CreditsTryBill(Credits per_gpu_hour, int32_t gpus,
						   int32_t share_milli, int64_t elapsed_us,
						   CreditsRounding rounding, Credits *result);
extern bool CreditsTryElapsedFor(Credits per_gpu_hour, int32_t gpus,
								 int32_t share_milli, Credits amount,
								 int64_t *result);
extern Credits CreditsMulRatioSat(Credits amount, int64_t num, int64_t den,
								  CreditsRounding rounding);

#endif							/* GPUCREDIT_CREDITS_MATH_H */
