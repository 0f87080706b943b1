/*-------------------------------------------------------------------------
 *
 * ledger.h
 *		The interface of the ledger, the only module that changes money.
 *
 * Modules above this one know only holds, which they open, extend, shrink and
 * settle. A function locks the hold, then buckets in burn order. With wait =
 * false it never waits for a row: if one is locked, it returns LEDGER_BUSY and
 * has written nothing.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_LEDGER_H
#define GPUCREDIT_LEDGER_H

#include "account/account.h"
#include "account/hold.h"

/*
 * The purpose for which credit is drawn. The policies of buckets depend on it.
 */
typedef struct Purpose
{
	int64		job;			/* 0 for a caller's own hold, which has no GPU
								 * types either */
	int			ntypes;
	const char *const *gpu_types;	/* all types that the request accepts */
	const char *tier;
	const char *pool;
	const struct LockedBuckets *locked; /* the only buckets to draw from, or
										 * NULL for any */
	bool		any;			/* whether to ignore the policies, as a
								 * transfer does */
	bool		first;			/* whether its transaction has not locked
								 * money yet */
	Trace		trace;			/* trace of the job */
} Purpose;

/*
 * Buckets that were locked together, in burn order, for a release and a draw
 * after it. Buckets that received credit since then are left out, because they
 * may come earlier in burn order.
 */
typedef struct LockedBuckets
{
	int			n;				/* -1 if nothing was locked */
	int64	   *ids;
	struct BudgetSet *budgets;	/* budgets of the path, which are locked as
								 * well */
} LockedBuckets;

/* The amounts that were returned from a hold. */
typedef struct Returned
{
	Credits		released;		/* returned to the buckets */
	Credits		lapsed;			/* lost, because the bucket had expired or was
								 * revoked */
} Returned;

/* What would happen to a new hold, computed without locks. */
typedef struct HoldSimulation
{
	LedgerStatus status;
	Credits		payable;		/* the most that the buckets of its account
								 * would pay for it */
	Credits		room;			/* what hard budgets leave, or PG_INT64_MAX if
								 * there is no hard budget */
	int			n;				/* number of its parts, in the order drawn; 0
								 * if the hold is refused */
	int64	   *buckets;
	Credits    *amounts;
} HoldSimulation;

/* The operation that changes credit, as it is written to the entries. */
typedef struct Cause
{
	const char *operation;
	int64		job;
	int32		attempt;
} Cause;

/*
 * One of many holds to shrink, which hold.org and hold.hold identify. The
 * fields after the amount are results.
 */
typedef struct Shrinking
{
	Cause		cause;
	Credits		amount;
	bool		done;			/* false if a row of the hold is locked */
	TimestampTz at;
	Returned	returned;
	Hold		hold;
} Shrinking;

/* Defined in hold.c. */
extern const char *LedgerReason(LedgerStatus status);

/*
 * Defined in hold_open.c.  A caller that writes nothing with the hold calls
 * only HoldOpen().  Another caller calls HoldMayBeAtOnce(). If that returns
 * true, the caller calls HoldWrite(), writes its own rows, and calls
 * HoldDebit(), all in a subtransaction.  If one of these functions refuses,
 * the caller calls HoldLocked() and writes its rows after that.
 */
typedef struct HoldOpening HoldOpening;

/* The locked budgets and buckets that the settlement of a hold changes. */
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

/* Defined in hold.c. */
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

/* Defined in shrink_holds.c. */
extern void HoldsShrink(Shrinking *all, int n);

/* Defined in dead_holds.c. */
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

/* Defined in hold_simulate.c. */
extern void HoldSimulate(const AccountPath *path, const Purpose *purpose,
						 Credits amount, TimestampTz at,
						 HoldSimulation *simulation);

#endif							/* GPUCREDIT_LEDGER_H */
