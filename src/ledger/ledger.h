/*-------------------------------------------------------------------------
 *
 * ledger.h
 *		The one place that changes money.
 *
 * Above this layer there are only holds: open, extend, shrink, settle. A
 * function locks the hold, then buckets in burn order. With wait = false it
 * never waits for a row: it returns LEDGER_BUSY, and has written nothing.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_LEDGER_H
#define GPUCREDIT_LEDGER_H

#include "account/account.h"
#include "account/hold.h"

/* What credit is drawn for; buckets' policies look at it. */
typedef struct Purpose
{
	int64		job;			/* 0: a caller's own hold, no types either */
	int			ntypes;
	const char *const *gpu_types;	/* every type the request accepts */
	const char *tier;
	const char *pool;
	const struct LockedBuckets *locked; /* draw from these alone; NULL: any */
	bool		any;			/* whatever the policies say: a transfer */
	bool		first;			/* its transaction has not locked money yet */
	Trace		trace;			/* the job's */
} Purpose;

/*
 * Buckets locked together, in burn order, for a release and a draw after it. A
 * bucket that got credit since is left out, as it may come earlier in burn
 * order.
 */
typedef struct LockedBuckets
{
	int			n;				/* -1: nothing was locked */
	int64	   *ids;
	struct BudgetSet *budgets;	/* the path's, locked as well */
} LockedBuckets;

/* What giving back came to. */
typedef struct Returned
{
	Credits		released;		/* to buckets */
	Credits		lapsed;			/* their bucket had expired or was revoked */
} Returned;

/* What would become of a new hold, as an unlocked look says. */
typedef struct HoldSimulation
{
	LedgerStatus status;
	Credits		payable;		/* the most that its account's buckets would
								 * pay for it */
	Credits		room;			/* what hard budgets leave; PG_INT64_MAX:
								 * there is none */
	int			n;				/* its parts, in the order drawn; none if it
								 * is refused */
	int64	   *buckets;
	Credits    *amounts;
} HoldSimulation;

/* Who acts, for the entries. */
typedef struct Cause
{
	const char *operation;
	int64		job;
	int32		attempt;
} Cause;

/*
 * One of many holds to shrink: hold.org and hold.hold name it. The fields
 * after the amount are results.
 */
typedef struct Shrinking
{
	Cause		cause;
	Credits		amount;
	bool		done;			/* or a row of it is locked */
	TimestampTz at;
	Returned	returned;
	Hold		hold;
} Shrinking;

/* hold.c */
extern const char *LedgerReason(LedgerStatus status);

/*
 * hold_open.c.  HoldOpen() is all for a caller that writes nothing with the
 * hold.  Another caller asks HoldMayBeAtOnce(); if so, it calls HoldWrite(),
 * writes its rows, and calls HoldDebit(), all in a subtransaction.  Where that
 * is refused, it calls HoldLocked() and writes its rows after that.
 */
typedef struct HoldOpening HoldOpening;

/* The budgets and buckets that a hold's settlement changes, locked. */
typedef struct HoldCredit HoldCredit;

extern HoldOpening *HoldAsk(const AccountPath *path, const Purpose *purpose,
							const Cause *cause, Credits amount, int64 ttl,
							bool wait, Hold *hold);
extern LedgerStatus HoldOpen(HoldOpening *opening, TimestampTz *at);
extern bool HoldMayBeAtOnce(HoldOpening *opening, TimestampTz *at);
extern void HoldWrite(HoldOpening *opening);
extern bool HoldDebit(HoldOpening *opening);
extern LedgerStatus HoldLocked(HoldOpening *opening, TimestampTz *at);
extern LedgerStatus HoldExtend(Hold *hold, const AccountPath *path,
							   const Purpose *purpose, const Cause *cause,
							   Credits amount, bool wait, TimestampTz *at);
extern Credits HoldExtendMost(Hold *hold, const AccountPath *path,
							  const Purpose *purpose, const Cause *cause,
							  Credits amount, LedgerStatus *status);

/* hold.c */
extern LedgerStatus HoldShrink(Hold *hold, const Cause *cause, Credits amount,
							   bool wait, Returned *returned,
							   TimestampTz *at);
extern Returned HoldSettle(Hold *hold, const Cause *cause, Credits captured,
						   bool final, TimestampTz *at);
extern HoldCredit *HoldLockCredit(const Hold *hold);
extern Returned HoldSettleLocked(Hold *hold, HoldCredit *credit,
								 const Cause *cause, Credits captured,
								 bool final, TimestampTz *at);
extern LedgerStatus HoldTryRelease(Hold *hold, const Cause *cause,
								   Returned *returned, TimestampTz *at);
extern bool HoldLock(const char *org, int64 id, bool wait, Hold *hold);

/* shrink_holds.c */
extern void HoldsShrink(Shrinking *all, int n);

/* dead_holds.c */
extern bool HoldReap(const char *org, int64 id, bool wait);
extern LockedBuckets HoldsLockForNext(const Hold *holds, int n,
									  const Purpose *purpose,
									  Credits amount);
extern Credits LedgerAvailable(const AccountPath *path,
							   const Purpose *purpose, TimestampTz at);
extern Credits LedgerHeldByDead(const AccountPath *path,
								const Purpose *purpose, TimestampTz at);
extern int	LedgerDeadFor(const AccountPath *path, const Purpose *purpose,
						  Credits amount, bool all, TimestampTz at,
						  const int64 **ids);

/* hold_simulate.c */
extern void HoldSimulate(const AccountPath *path, const Purpose *purpose,
						 Credits amount, TimestampTz at,
						 HoldSimulation *simulation);

#endif							/* GPUCREDIT_LEDGER_H */
