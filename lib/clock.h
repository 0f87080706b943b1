/*-------------------------------------------------------------------------
 *
 * clock.h
 *		Clocks that do not change when the system's date is set.
 *-------------------------------------------------------------------------
 */
#ifndef LIB_CLOCK_H
#define LIB_CLOCK_H

#include <stdint.h>

#define NS_PER_S	INT64_C(1000000000)
#define NS_PER_MS	INT64_C(1000000)

extern int64_t MonotonicNs(void);
extern int64_t BoottimeNs(void);

#endif							/* LIB_CLOCK_H */
