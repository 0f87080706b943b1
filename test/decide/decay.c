/*
 * decay.c
 *	  Compares decayed use with floating point.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "world.h"

#define DAY	(INT64_C(86400) * 1000000)

/*
 * Whether a number is correct to a millionth and to the last digit.
 */
static bool
near(int64_t found, double expected)
{
	return fabs((double) found - expected) <= 1.5 + expected * 1e-6;
}

/*
 * Checks one random use.  Returns NULL, or what is wrong.
 */
static char *
decay_error(uint64_t *seed)
{
	int64_t		halflife = 60000000 + (int64_t) (random_next(seed) %
												 (uint64_t) (30 * DAY));
	int64_t		began = (int64_t) (random_next(seed) % (uint64_t) (40 * DAY));
	int64_t		ended = began - (int64_t) (random_next(seed) %
										   (uint64_t) (began + 1));
	int64_t		rate = 1 + (int64_t) (random_next(seed) % 100000000);
	int64_t		usage = (int64_t) (random_next(seed) >> 3);
	int64_t		left = DecideDecayed(usage, began, halflife);
	int64_t		past = DecidePastUsage(rate, began, ended, halflife);
	double		h = (double) halflife;

	if (!near(left, (double) usage * exp2(-(double) began / h)))
		return format("%" PRId64 " of %" PRId64 " left", left, usage);
	if (!near(past, (double) rate * h / 1e6 / M_LN2 *
			  (exp2(-(double) ended / h) - exp2(-(double) began / h))))
		return format("%" PRId64 " a second from %" PRId64 " to %" PRId64
					  " ago: %" PRId64, rate, began, ended, past);
	/* two steps give the same, except for the last digit */
	if (llabs(DecideDecayed(DecideDecayed(usage, ended, halflife),
							began - ended, halflife) - left) >
		2 + usage / 1000000000000)
		return format("another in two steps");
	return NULL;
}

void
decay_tests(Tap *tap)
{
	uint64_t	seed = 7;
	char	   *why = NULL;
	int			i;

	tap_ok(tap, llabs(DecideDecayed(1000000, 7 * DAY, 7 * DAY) - 500000) <= 1,
		   "decay: half is left after a half-life", NULL);
	tap_ok(tap, DecideDecayed(INT64_MAX, 64 * 7 * DAY, 7 * DAY) == 0 &&
		   DecideDecayed(INT64_MAX, 0, 1) == INT64_MAX &&
		   DecideDecayed(5, -1, 1) == 5,
		   "decay: nothing is left of anything after long, all at once", NULL);
	tap_ok(tap, near(DecidePastUsage(1000, 1000000, 0, 7 * DAY), 1000),
		   "decay: a second just past is a second", NULL);
	tap_ok(tap, DecidePastUsage(INT64_MAX, INT64_MAX, 0, 30 * DAY) ==
		   DecidePastUsage(INT64_C(1) << 40, INT64_MAX, -1, 30 * DAY) &&
		   DecidePastUsage(5, 10, 10, 60000000) == 0 &&
		   DecidePastUsage(0, 10, 0, 60000000) == 0,
		   "decay: the bounds of a use", NULL);
	for (i = 0; i < 20000 && why == NULL; i++)
		why = decay_error(&seed);
	tap_ok(tap, why == NULL, "decay: as in floating point", why);
	free(why);
}
