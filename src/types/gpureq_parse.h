/*-------------------------------------------------------------------------
 *
 * gpureq_parse.h
 *		Text form of a GPU request, without a server.
 *
 *		request      = "0" | count "x" alternative { "|" alternative }
 *		count        = gpus | gpus "-" gpus | share
 *		gpus         = 1 .. 100000
 *		share        = 0.001 .. 0.999, in thousandths
 *		alternative  = ( type | "*" ) [ "@" number unit ]
 *		unit         = B KB MB GB TB (powers of 1000)
 *					 | KiB MiB GiB TiB (powers of 1024)
 *
 * A type is 1 to 63 bytes of printable text without "|", "@", "*" or white
 * space; outside ASCII it must be UTF-8. White space may stand around the
 * whole, not inside. The floor after "@" belongs to the alternative it
 * follows. Naming a type twice is an error.
 *
 * The canonical text writes a range of equal ends as one number, shares
 * without trailing zeros, and floors in the largest unit that is exact. So
 * equal requests have equal texts.
 *
 * Pure functions: no allocation, no server, no locale.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_GPUREQ_PARSE_H
#define GPUCREDIT_GPUREQ_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPUREQ_MAX_GPUS			100000
#define GPUREQ_MAX_ALTERNATIVES	64
#define GPUREQ_NAME_SIZE		64	/* including the terminating zero byte */
#define GPUREQ_WHOLE			1000	/* share_milli of a request for whole
										 * GPUs */
#define GPUREQ_MAX_INPUT		8192	/* most bytes of a text that is
										 * accepted */
#define GPUREQ_TEXT_SIZE		6144	/* room for any canonical text */

/* One acceptable type. The name is padded with zero bytes to its full size. */
typedef struct GpuReqAlternative
{
	int64_t		min_memory;		/* in bytes per GPU; 0 means no floor */
	char		name[GPUREQ_NAME_SIZE]; /* "*" means any type */
} GpuReqAlternative;

/*
 * A parsed request.  A request for no GPU has no alternatives, and share_milli
 * is 1000.  share_milli is below 1000 only if min_gpus = max_gpus = 1.
 */
typedef struct GpuReqFields
{
	int32_t		min_gpus;
	int32_t		max_gpus;		/* equals min_gpus unless the request is
								 * elastic */
	int32_t		share_milli;	/* of each GPU, in thousandths */
	int32_t		nalternatives;
	GpuReqAlternative alternatives[GPUREQ_MAX_ALTERNATIVES];
} GpuReqFields;

typedef enum GpuReqParseError
{
	GPUREQ_PARSE_OK = 0,
	GPUREQ_PARSE_TOO_LONG,		/* more than GPUREQ_MAX_INPUT bytes */
	GPUREQ_PARSE_COUNT,			/* no number of GPUs where one must stand */
	GPUREQ_PARSE_GPUS,			/* number of GPUs out of range */
	GPUREQ_PARSE_ZERO,			/* zero GPUs of some type */
	GPUREQ_PARSE_RANGE,			/* range that ends below its start */
	GPUREQ_PARSE_SHARE,			/* share not in 0.001 .. 0.999 */
	GPUREQ_PARSE_SHARE_STEP,	/* share finer than thousandths */
	GPUREQ_PARSE_X,				/* "x" missing after the number */
	GPUREQ_PARSE_TYPE,			/* type missing */
	GPUREQ_PARSE_TYPE_CHAR,		/* character a type cannot have */
	GPUREQ_PARSE_TYPE_LONG,		/* type too long */
	GPUREQ_PARSE_DUPLICATE,		/* type named twice */
	GPUREQ_PARSE_ALTERNATIVES,	/* too many alternatives */
	GPUREQ_PARSE_MEMORY,		/* memory floor malformed */
	GPUREQ_PARSE_MEMORY_RANGE,	/* memory floor zero or too large */
	GPUREQ_PARSE_TRAILING		/* something after the end */
} GpuReqParseError;

extern GpuReqParseError GpuReqParseText(const char *text, size_t len,
										GpuReqFields *result,
										size_t *errpos);
extern size_t GpuReqPrint(int32_t min_gpus, int32_t max_gpus,
						  int32_t share_milli, int32_t nalternatives,
						  const GpuReqAlternative *alternatives, char *buf);

/*
 * Whether a request could name this type.  Code that stores names of types
 * checks them with this function, so that no type exists that nobody can
 * request.
 */
extern bool GpuTypeNameValid(const char *name, size_t len);

/* Whether a GPU of this type and memory satisfies the alternative. */
extern bool GpuReqAlternativeAccepts(const GpuReqAlternative *alternative,
									 const char *type, int64_t memory_bytes);

#endif							/* GPUCREDIT_GPUREQ_PARSE_H */
