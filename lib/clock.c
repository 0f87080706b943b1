/*-------------------------------------------------------------------------
 *
 * clock.c
 *		Clocks that do not change when the system's date is set.
 *-------------------------------------------------------------------------
 */
#include <time.h>

#include "clock.h"

static int64_t
clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

int64_t
MonotonicNs(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/*
 * Returns the time since boot in nanoseconds. Unlike MonotonicNs(), it
 * includes the time that the machine is suspended, which a fence has to count.
 */
int64_t
BoottimeNs(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}
