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

/* Upper bounds in microseconds; slower calls have a bucket of their own. */
#define COUNT_BOUNDS \
	100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, \
	500000, 1000000, 10000000
#define COUNT_BUCKETS	15		/* one for each bound, and one beyond */

#define COUNT_REASONS \
	"insufficient_credits", "budget_exceeded", "quota_exceeded", \
	"account_suspended", "no_price", "impossible_request", \
	"tier_not_granted", "uncollected", "other"
#define COUNT_DENIALS	9

/* Why credit is uncollected: the run passed its wall limit, or not. */
#define COUNT_UNPAID	1

#define COUNT_ERRORS	256		/* separate places for kinds of error, by
								 * operation */

/* A running call. */
typedef struct Call
{
	struct Call *outer;
	ApiFunction entry;
	instr_time	begun;
	TimestampTz waited;			/* when this backend last waited for a lock,
								 * before */
	bool		replayed;
	uint32		denials[COUNT_DENIALS];
	uint64		uncollected[COUNT_UNPAID];
	uint64		spent;
	uint64		refunded;
} Call;

/* The counts of one operation. */
typedef struct CallCounts
{
	uint64		buckets[COUNT_BUCKETS]; /* calls that ended, by time */
	uint64		microseconds;
	uint64		replays;
	uint64		lock_waits;		/* calls that waited for a lock */
	uint64		denials[COUNT_DENIALS];
	uint64		uncollected[COUNT_UNPAID];	/* micro-credits */
	uint64		spent;			/* micro-credits */
	uint64		refunded;
} CallCounts;

typedef struct ErrorCount
{
	ApiFunction entry;
	int			sqlstate;		/* 0: the rest, if the table is full */
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
