/*-------------------------------------------------------------------------
 *
 * gpuset_parse.h
 *		A set of the devices of one node, and its text form, without a server.
 *
 * A set is a 64-bit mask: bit n is device n. Its text is "{}" or a list of
 * devices and ranges in braces, "{0-3,6}"; white space may stand around each
 * part, order and repetition do not matter. The canonical text is ascending,
 * and writes two or more neighbours as a range.
 *
 * Pure functions: no allocation, no server, no locale.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_GPUSET_PARSE_H
#define GPUCREDIT_GPUSET_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t GpuSet;

#define GPUSET_MAX_DEVICES	64

/*
 * Room for any canonical text: each of 64 devices needs at most two digits and
 * a comma.
 */
#define GPUSET_TEXT_SIZE	200

#define GPUSET_EMPTY				UINT64_C(0)
#define GpuSetSingle(n)				(UINT64_C(1) << (n))
#define GpuSetIsEmpty(s)			((s) == 0)
#define GpuSetUnion(a, b)			((a) | (b))
#define GpuSetIntersection(a, b)	((a) & (b))
#define GpuSetDifference(a, b)		((a) & ~(b))
#define GpuSetContains(a, b)		(((b) & ~(a)) == 0)
#define GpuSetOverlaps(a, b)		(((a) & (b)) != 0)
#define GpuSetHas(s, n)				((((s) >> (n)) & 1) != 0)
#define GpuSetCount(s)				((int) __builtin_popcountll(s))
/* The lowest device of a set that must not be empty. */
#define GpuSetFirst(s)				((int) __builtin_ctzll(s))
/* The set without its lowest device. */
#define GpuSetWithoutFirst(s)				((s) & ((s) - 1))
/* The set of devices 0 to n - 1; n is between 0 and 64. */
#define GpuSetFirstN(n) \
	((n) >= GPUSET_MAX_DEVICES ? ~GPUSET_EMPTY : GpuSetSingle(n) - 1)

typedef enum GpuSetParseError
{
	GPUSET_PARSE_OK = 0,
	GPUSET_PARSE_SYNTAX,		/* not a list in braces */
	GPUSET_PARSE_DEVICE,		/* device number above 63 */
	GPUSET_PARSE_RANGE			/* range that ends below its start */
} GpuSetParseError;

extern GpuSetParseError GpuSetParse(const char *text, size_t len,
									GpuSet *result, size_t *errpos);
extern size_t GpuSetPrint(GpuSet set, char *buf);

#endif							/* GPUCREDIT_GPUSET_PARSE_H */
