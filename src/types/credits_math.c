/*-------------------------------------------------------------------------
 *
 * credits_math.c
 *		Arithmetic of money and time, without a server.
 *
 * A quotient is computed on absolute values, rounded by its remainder, and
 * then given its sign.  Remainders are compared as r >= d - r, which cannot
 * overflow.
 *
 * A bill's product can be up to 2^63 x 2^31 x 2^31 x 2^63.  A product of more
 * than 128 bits would give a bill of far more than 64 bits, so it is refused
 * before it is computed.
 *
 *-------------------------------------------------------------------------
 */
#include "types/credits_math.h"

typedef unsigned __int128 Wide;

/*
 * What the product of price, GPUs, thousandths and microseconds is divided by.
 */
#define BILL_DIVISOR	((Wide) SHARE_WHOLE * MICROSECONDS_PER_HOUR)

static bool bill_factor(Credits per_gpu_hour, int32_t gpus,
						int32_t share_milli, Wide *factor);
static Wide divide(Wide num, Wide den, CreditsRounding rounding);
static bool with_sign(Wide magnitude, bool negative, int64_t *result);
static uint64_t magnitude_of(int64_t value);

bool
CreditsTryAdd(Credits a, Credits b, Credits *result)
{
	Credits		sum;

	if (__builtin_add_overflow(a, b, &sum))
		return false;
	*result = sum;
	return true;
}

bool
CreditsTrySub(Credits a, Credits b, Credits *result)
{
	Credits		difference;

	if (__builtin_sub_overflow(a, b, &difference))
		return false;
	*result = difference;
	return true;
}

/*
 * Returns false for the smallest amount, whose negative does not fit an int64.
 */
bool
CreditsTryNeg(Credits a, Credits *result)
{
	return CreditsTrySub(0, a, result);
}

bool
CreditsTryMul(Credits a, int64_t factor, Credits *result)
{
	Credits		product;

	if (__builtin_mul_overflow(a, factor, &product))
		return false;
	*result = product;
	return true;
}

bool
CreditsTryMulRatio(Credits amount, int64_t num, int64_t den,
				   CreditsRounding rounding, Credits *result)
{
	Wide		product;

	if (den <= 0)
		return false;
	product = (Wide) magnitude_of(amount) * magnitude_of(num);
	return with_sign(divide(product, (Wide) den, rounding),
					 (amount < 0) != (num < 0), result);
}

/*
 * Returns amount x num / den, or the nearest amount that fits an int64; den
 * must be positive.
 */
Credits
CreditsMulRatioSat(Credits amount, int64_t num, int64_t den,
				   CreditsRounding rounding)
{
	Credits		result;

	if (CreditsTryMulRatio(amount, num, den, rounding, &result))
		return result;
	return (amount < 0) != (num < 0) ? CREDITS_MIN : CREDITS_MAX;
}

/*
 * Computes the cost of `gpus` GPUs, share_milli thousandths of each, for
 * elapsed_us.  A bill, which is rounded half up, is at least one micro-credit
 * if the price, the GPUs and the time are all above 0.
 */
bool
CreditsTryBill(Credits per_gpu_hour, int32_t gpus, int32_t share_milli,
			   int64_t elapsed_us, CreditsRounding rounding, Credits *result)
{
	Wide		factor;
	Wide		cost;

	if (elapsed_us < 0 ||
		!bill_factor(per_gpu_hour, gpus, share_milli, &factor))
		return false;
	if (elapsed_us > 0 && factor > ~(Wide) 0 / (Wide) elapsed_us)
		return false;
	cost = divide(factor * (Wide) elapsed_us, BILL_DIVISOR, rounding);
	if (cost == 0 && rounding == CREDITS_ROUND_HALF_UP && factor > 0 &&
		elapsed_us > 0)
		cost = 1;
	return with_sign(cost, false, result);
}

/*
 * Computes the longest time whose cost before rounding is at most the amount.
 *
 * *result is INT64_MAX if no time ever costs more, and 0 if the amount is
 * negative.
 */
bool
CreditsTryElapsedFor(Credits per_gpu_hour, int32_t gpus, int32_t share_milli,
					 Credits amount, int64_t *result)
{
	Wide		factor;
	Wide		reach;

	if (!bill_factor(per_gpu_hour, gpus, share_milli, &factor))
		return false;
	if (amount < 0)
	{
		*result = 0;
		return true;
	}
	if (factor == 0)
	{
		*result = INT64_MAX;
		return true;
	}
	reach = (Wide) amount * BILL_DIVISOR / factor;
	*result = reach > (Wide) INT64_MAX ? INT64_MAX : (int64_t) reach;
	return true;
}

/*
 * Computes price x GPUs x thousandths.  Returns false if one of them is
 * negative.
 */
static bool
bill_factor(Credits per_gpu_hour, int32_t gpus, int32_t share_milli,
			Wide *factor)
{
	if (per_gpu_hour < 0 || gpus < 0 || share_milli < 0)
		return false;
	*factor = (Wide) per_gpu_hour * (Wide) gpus * (Wide) share_milli;
	return true;
}

/* Returns num / den with the given rounding. */
static Wide
divide(Wide num, Wide den, CreditsRounding rounding)
{
	Wide		quotient = num / den;
	Wide		rest = num % den;
	bool		up = false;

	switch (rounding)
	{
		case CREDITS_ROUND_DOWN:
			break;
		case CREDITS_ROUND_HALF_UP:
			up = rest >= den - rest;
			break;
		case CREDITS_ROUND_UP:
			up = rest > 0;
			break;
	}
	return up ? quotient + 1 : quotient;
}

/*
 * Stores the magnitude with a sign.  Returns false if it does not fit an
 * int64.
 */
static bool
with_sign(Wide magnitude, bool negative, int64_t *result)
{
	if (magnitude > (Wide) INT64_MAX + (negative ? 1 : 0))
		return false;
	*result = (int64_t) (negative ? -(uint64_t) magnitude :
						 (uint64_t) magnitude);
	return true;
}

/* Returns the absolute value.  This is defined for the smallest int64, too. */
static uint64_t
magnitude_of(int64_t value)
{
	return value < 0 ? -(uint64_t) value : (uint64_t) value;
}
