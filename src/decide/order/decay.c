/*
 * decay.c
 *	  Use that counts less the longer it is ago: half after each half-life.
 *
 * In closed form and in integers, so that it is the same on every machine and
 * however often it is asked.
 */
#include "decide/order/order.h"

#define BITS	48				/* of a fraction of a half-life */
#define MOST_RATE (INT64_C(1) << 40)
#define INVERSE_LN2 1549082005	/* 2^30 / ln 2 */

/* 2^-(1/2), 2^-(1/4), ... in 2^-64. */
static const uint64_t roots[BITS] = {
	UINT64_C(0xB504F333F9DE6484), UINT64_C(0xD744FCCAD69D6AF4),
	UINT64_C(0xEAC0C6E7DD24392F), UINT64_C(0xF5257D152486CC2C),
	UINT64_C(0xFA83B2DB722A033A), UINT64_C(0xFD3E0C0CF486C175),
	UINT64_C(0xFE9E115C7B8F884C), UINT64_C(0xFF4ECB59511EC8A5),
	UINT64_C(0xFFA756521C8DAED2), UINT64_C(0xFFD3A751C0F7E10C),
	UINT64_C(0xFFE9D2B2F7DB2756), UINT64_C(0xFFF4E91BFF1B8C3E),
	UINT64_C(0xFFFA747EA0040664), UINT64_C(0xFFFD3A3B7814EB54),
	UINT64_C(0xFFFE9D1CC60DDAB1), UINT64_C(0xFFFF4E8E25879BFA),
	UINT64_C(0xFFFFA7470363F451), UINT64_C(0xFFFFD3A37DDA0313),
	UINT64_C(0xFFFFE9D1BDF703AF), UINT64_C(0xFFFFF4E8DEBE025E),
	UINT64_C(0xFFFFFA746F4FA150), UINT64_C(0xFFFFFD3A37A3F8B0),
	UINT64_C(0xFFFFFE9D1BD1065A), UINT64_C(0xFFFFFF4E8DE845AE),
	UINT64_C(0xFFFFFFA746F41377), UINT64_C(0xFFFFFFD3A37A05E4),
	UINT64_C(0xFFFFFFE9D1BD01FC), UINT64_C(0xFFFFFFF4E8DE80C0),
	UINT64_C(0xFFFFFFFA746F4051), UINT64_C(0xFFFFFFFD3A37A025),
	UINT64_C(0xFFFFFFFE9D1BD011), UINT64_C(0xFFFFFFFF4E8DE808),
	UINT64_C(0xFFFFFFFFA746F404), UINT64_C(0xFFFFFFFFD3A37A02),
	UINT64_C(0xFFFFFFFFE9D1BD01), UINT64_C(0xFFFFFFFFF4E8DE81),
	UINT64_C(0xFFFFFFFFFA746F40), UINT64_C(0xFFFFFFFFFD3A37A0),
	UINT64_C(0xFFFFFFFFFE9D1BD0), UINT64_C(0xFFFFFFFFFF4E8DE8),
	UINT64_C(0xFFFFFFFFFFA746F4), UINT64_C(0xFFFFFFFFFFD3A37A),
	UINT64_C(0xFFFFFFFFFFE9D1BD), UINT64_C(0xFFFFFFFFFFF4E8DF),
	UINT64_C(0xFFFFFFFFFFFA746F), UINT64_C(0xFFFFFFFFFFFD3A38),
	UINT64_C(0xFFFFFFFFFFFE9D1C), UINT64_C(0xFFFFFFFFFFFF4E8E),
};

/*
 * 2^-(time / halflife), in 2^-64; of no time at all, as near to 1 as goes.
 */
static uint64_t
left_after(int64_t time, int64_t halflife)
{
	int64_t		halves = time / halflife;
	uint64_t	fraction;
	uint64_t	left = UINT64_MAX;
	int			i;

	if (halves >= 64)
		return 0;
	fraction = (uint64_t) (((__int128) (time % halflife) << BITS) / halflife);
	for (i = 0; i < BITS; i++)
	{
		if ((fraction >> (BITS - 1 - i)) & 1)
			left = (uint64_t) (((unsigned __int128) left * roots[i]) >> 64);
	}
	return left >> halves;
}

/*
 * What is left of a use after some time; both in microseconds.
 */
int64_t
DecideDecayed(int64_t usage, int64_t time, int64_t halflife)
{
	if (time <= 0)
		return usage;
	return (int64_t) (((unsigned __int128) usage *
					   left_after(time, halflife)) >> 64);
}

/*
 * What is left of a use of so much a second that began and ended so many
 * microseconds ago: its integral, rate x halflife / ln 2 x (what is left after
 * the end - what is left after the beginning).
 */
int64_t
DecidePastUsage(int64_t rate, int64_t began, int64_t ended, int64_t halflife)
{
	unsigned	__int128 time;
	unsigned	__int128 usage;

	if (ended < 0)
		ended = 0;
	if (began <= ended || rate <= 0)
		return 0;
	if (rate > MOST_RATE)
		rate = MOST_RATE;
	/* effective microseconds, in 2^-32 */
	time = (unsigned __int128) (left_after(ended, halflife) -
								left_after(began, halflife)) *
		(uint64_t) halflife >> 32;
	time = time * INVERSE_LN2 >> 30;
	usage = (time * (uint64_t) rate >> 32) / 1000000;
	return usage > INT64_MAX ? INT64_MAX : (int64_t) usage;
}
