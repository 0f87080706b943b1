/*-------------------------------------------------------------------------
 *
 * count.h
 *		Counters of calls in shared memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_COUNT_H
#define GPUCREDIT_COUNT_H

#include "datatype/timestamp.h"
#include "api/api.h"
#include "portability/instr_time.h"

/*
 * Upper bounds of the buckets in microseconds; a further bucket counts the
 * slower calls.
 */
#define COUNT_BOUNDS \
	100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, \
	500000, 1000000, 10000000
#define COUNT_BUCKETS	15		/* one for each bound, and one for slower
								 * calls */

#define COUNT_REASONS \
	"insufficient_credits", "budget_exceeded", "quota_exceeded", \
	"account_suspended", "no_price", "impossible_request", \
	"tier_not_granted", "uncollected", "other"
#define COUNT_DENIALS	9

/* Number of counters of uncollected credit: one counts it for all reasons. */
#define COUNT_UNPAID	1

#define COUNT_ERRORS	256		/* most pairs of function and SQLSTATE that
								 * are counted separately */

/* What a running call has counted so far. */
typedef struct Call
{
	struct Call *outer;
	ApiFunction entry;
	instr_time	begun;
	TimestampTz waited;			/* when this backend had last waited for a
								 * lock before the call */
	bool		replayed;
	uint32		denials[COUNT_DENIALS];
	uint64		uncollected[COUNT_UNPAID];
	uint64		spent;
	uint64		refunded;
} Call;

/* The counts of one function. */
typedef struct CallCounts
{
	uint64		buckets[COUNT_BUCKETS]; /* number of calls by duration */
	uint64		microseconds;
	uint64		replays;
	uint64		lock_waits;		/* number of calls that waited for a lock */
	uint64		denials[COUNT_DENIALS];
	uint64		uncollected[COUNT_UNPAID];	/* in micro-credits */
	uint64		spent;			/* in micro-credits */
	uint64		refunded;
} CallCounts;

typedef struct ErrorCount
{
	ApiFunction entry;
	int			sqlstate;		/* 0 for all errors that found the table full */
	uint64		n;
} ErrorCount;

extern const int CountBounds[COUNT_BUCKETS - 1];
extern const char *const CountReasons[COUNT_DENIALS];
extern const char *const CountUnpaid[COUNT_UNPAID];

extern void CountInit(void);
extern void CountBegin(Call *call, ApiFunction entry);
extern void CountEnd(Call *call, int sqlstate);
extern void CountReplay(void);
extern void CountDenial(const char *reason);
extern void CountUncollected(int64 amount);
extern void CountSpend(int64 amount);

extern void CountRead(ApiFunction entry, CallCounts *counts);
extern int	CountReadErrors(ErrorCount *errors);

#endif							/* GPUCREDIT_COUNT_H */
