/*-------------------------------------------------------------------------
 *
 * bill_fuzz.c
 *		Fuzz target: the arithmetic of bills against schoolbook arithmetic.
 *
 * The oracle multiplies and divides numbers of 256 bits, limb by limb and bit
 * by bit, where nothing can overflow. Results must agree with it. A hold
 * must cover its bill, and bills must not fall with time. The time an amount
 * lasts must be the longest whose bill stays within it.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "types/credits_math.h"

#define LIMBS	8

/* A number of 256 bits, lowest limb first. */
typedef struct Big
{
	uint32_t	limb[LIMBS];
} Big;

static void check_ratio(int64_t amount, int64_t num, int64_t den);
static void check_bill(Credits price, int32_t gpus, int32_t share,
					   int64_t elapsed);
static bool less_than_one(const Big *product);
static void check_elapsed_for(Credits price, int32_t gpus, int32_t share,
							  Credits amount);
static void check_result(bool ok, int64_t result, bool negative,
						 const Big *product, uint64_t den,
						 CreditsRounding rounding);
static void big_multiply(Big *big, uint64_t factor);
static bool big_divide(const Big *num, uint64_t den, CreditsRounding rounding,
					   uint64_t *quotient);
static uint64_t magnitude(int64_t value);
static int64_t next_value(const uint8_t **data, size_t *size, int bytes);

/*
 * One input: a selector of widths, then the numbers.
 */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int			widths = (int) next_value(&data, &size, 1);
	int64_t		a = next_value(&data, &size, widths & 1 ? 8 : 4);
	int64_t		b = next_value(&data, &size, widths & 2 ? 8 : 5);
	int64_t		c = next_value(&data, &size, widths & 4 ? 8 : 3);
	int32_t		gpus = (int32_t) next_value(&data, &size, widths & 8 ? 4 : 1);
	int32_t		share = (int32_t) next_value(&data, &size, widths & 16 ? 4 : 2);

	check_ratio(a, b, c);
	check_ratio(a, b, MICROSECONDS_PER_HOUR);
	check_bill(a, gpus, share, b);
	check_bill(a, gpus, SHARE_WHOLE, b);
	check_elapsed_for(a, gpus, share, c);
	check_elapsed_for(a, gpus, SHARE_WHOLE, b);
	return 0;
}

/* check_ratio: amount x num / den. */
static void
check_ratio(int64_t amount, int64_t num, int64_t den)
{
	bool		negative = (amount < 0) != (num < 0);
	Big			product = {{1}};

	big_multiply(&product, magnitude(amount));
	big_multiply(&product, magnitude(num));
	for (CreditsRounding r = CREDITS_ROUND_DOWN; r <= CREDITS_ROUND_UP; r++)
	{
		Credits		result = 0;
		bool		ok = CreditsTryMulRatio(amount, num, den, r, &result);

		if (den <= 0)
		{
			CHECK(!ok);
			continue;
		}
		check_result(ok, result, negative, &product, (uint64_t) den, r);
		CHECK(CreditsMulRatioSat(amount, num, den, r) ==
			  (ok ? result : negative ? CREDITS_MIN : CREDITS_MAX));
	}
}

/*
 * check_bill: price x gpus x share x elapsed. A bill is rounded half up, and is
 * at least 1 for what has a price and was used.
 */
static void
check_bill(Credits price, int32_t gpus, int32_t share, int64_t elapsed)
{
	bool		sane = price >= 0 && gpus >= 0 && share >= 0 && elapsed >= 0;
	bool		ok[3];
	Credits		result[3] = {0};
	Big			product = {{1}};

	big_multiply(&product, magnitude(price));
	big_multiply(&product, magnitude(gpus));
	big_multiply(&product, magnitude(share));
	big_multiply(&product, magnitude(elapsed));
	for (int r = CREDITS_ROUND_DOWN; r <= CREDITS_ROUND_UP; r++)
	{
		ok[r] = CreditsTryBill(price, gpus, share, elapsed,
							   (CreditsRounding) r, &result[r]);
		if (!sane)
			CHECK(!ok[r]);
		else
			check_result(ok[r], result[r], false, &product,
						 (uint64_t) SHARE_WHOLE * MICROSECONDS_PER_HOUR,
						 (CreditsRounding)
						 (r == CREDITS_ROUND_HALF_UP && less_than_one(&product) ?
						  CREDITS_ROUND_UP : r));
	}
	if (ok[CREDITS_ROUND_UP])
	{
		CHECK(ok[CREDITS_ROUND_HALF_UP] && ok[CREDITS_ROUND_DOWN]);
		CHECK(result[CREDITS_ROUND_HALF_UP] <= result[CREDITS_ROUND_UP]);
		CHECK(result[CREDITS_ROUND_UP] - result[CREDITS_ROUND_DOWN] <= 1);
	}
}

/* less_than_one: is a bill with this product, rounded down, nothing? */
static bool
less_than_one(const Big *product)
{
	uint64_t	quotient = 1;

	return big_divide(product, (uint64_t) SHARE_WHOLE * MICROSECONDS_PER_HOUR,
					  CREDITS_ROUND_DOWN, &quotient) && quotient == 0;
}

/* check_elapsed_for: the longest time that costs no more than amount. */
static void
check_elapsed_for(Credits price, int32_t gpus, int32_t share, Credits amount)
{
	int64_t		elapsed = -1;
	Credits		bill = 0;

	if (!CreditsTryElapsedFor(price, gpus, share, amount, &elapsed))
	{
		CHECK(price < 0 || gpus < 0 || share < 0);
		return;
	}
	CHECK(elapsed >= 0);
	if (amount < 0)
	{
		CHECK(elapsed == 0);
		return;
	}
	CHECK(CreditsTryBill(price, gpus, share, elapsed, CREDITS_ROUND_UP,
						 &bill));
	CHECK(bill <= amount);
	if (elapsed < INT64_MAX)
		CHECK(!CreditsTryBill(price, gpus, share, elapsed + 1,
							  CREDITS_ROUND_UP, &bill) || bill > amount);
}

/* check_result: is it what the oracle says, or refused where it must be? */
static void
check_result(bool ok, int64_t result, bool negative, const Big *product,
			 uint64_t den, CreditsRounding rounding)
{
	uint64_t	expected = 0;
	uint64_t	limit = (uint64_t) INT64_MAX + (negative ? 1 : 0);
	bool		fits = big_divide(product, den, rounding, &expected);

	CHECK(ok == (fits && expected <= limit));
	if (ok)
	{
		CHECK(magnitude(result) == expected);
		CHECK(result == 0 || (result < 0) == negative);
	}
}

/* big_multiply: schoolbook, by 64 bits; the targets need 222 of 256 bits. */
static void
big_multiply(Big *big, uint64_t factor)
{
	uint32_t	half[2] = {(uint32_t) factor, (uint32_t) (factor >> 32)};
	Big			product = {{0}};

	for (int h = 0; h < 2; h++)
	{
		uint64_t	carry = 0;

		for (int i = 0; i + h < LIMBS; i++)
		{
			carry += (uint64_t) big->limb[i] * half[h] + product.limb[i + h];
			product.limb[i + h] = (uint32_t) carry;
			carry >>= 32;
		}
		CHECK(carry == 0);
	}
	*big = product;
}

/* big_divide: bit by bit; false if the quotient has more than 64 bits. */
static bool
big_divide(const Big *num, uint64_t den, CreditsRounding rounding,
		   uint64_t *quotient)
{
	uint64_t	rest = 0;
	uint64_t	q = 0;
	bool		up;

	for (int bit = LIMBS * 32 - 1; bit >= 0; bit--)
	{
		if (q >> 63)
			return false;
		q <<= 1;
		/* den is below 2^63, so the rest below it can be doubled. */
		rest = rest << 1 | (num->limb[bit / 32] >> bit % 32 & 1);
		if (rest >= den)
		{
			rest -= den;
			q |= 1;
		}
	}
	up = rounding == CREDITS_ROUND_UP ? rest > 0 :
		rounding == CREDITS_ROUND_HALF_UP ? 2 * rest >= den : false;
	if (up && q == UINT64_MAX)
		return false;
	*quotient = up ? q + 1 : q;
	return true;
}

/* magnitude: the absolute value, of the smallest int64 too. */
static uint64_t
magnitude(int64_t value)
{
	return value < 0 ? -(uint64_t) value : (uint64_t) value;
}

/* The next bytes as a number, lowest first; zeros past the end. */
static int64_t
next_value(const uint8_t **data, size_t *size, int bytes)
{
	uint64_t	value = 0;

	for (int i = 0; i < bytes && *size > 0; i++, (*data)++, (*size)--)
		value |= (uint64_t) **data << (8 * i);
	return (int64_t) value;
}
