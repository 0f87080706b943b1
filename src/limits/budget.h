/*-------------------------------------------------------------------------
 *
 * budget.h
 *		Budgets: inside the ledger, where every hold is counted.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_BUDGET_H
#define GPUCREDIT_BUDGET_H

#include "util/sql.h"
#include "account/account.h"
#include "account/hold.h"

/* One budget's counter, locked. */
typedef struct BudgetCount
{
	const char *account;
	const char *period;
	TimestampTz period_start;	/* DT_NOBEGIN of period none */
	Credits		amount;
	bool		hard;
	int			nalerts;
	Credits    *alerts;			/* thresholds in credits */
	Datum	   *alert_shares;	/* numerics, as they were set */
	Credits		reserved;		/* with what its slices have */
	Credits		spent;
	int32		slices;			/* how many it may be spread over */
	int32		spread;			/* and is */
	int32		slice;			/* only this slice is locked; 0: all of it */
	bool		locked;
} BudgetCount;

typedef struct BudgetSet
{
	const char *org;
	int			n;
	BudgetCount *counts;
} BudgetSet;

/* What a hold has in one budget and period, its counter locked. */
typedef struct HoldShare
{
	const char *account;
	const char *period;
	TimestampTz period_start;
	Credits		reserved;
	Credits		spent;
	Credits		unreserve;		/* to take off reserved */
	Credits		spend;			/* to add to spent; < 0: a refund */
	int32		slice;			/* its slice; 0: the counter's row */
} HoldShare;

typedef struct HoldShares
{
	int			n;
	HoldShare  *shares;
} HoldShares;

/* budget.c */
extern LedgerStatus BudgetLock(const AccountPath *path, Credits amount,
							   bool wait, const BudgetSet *known,
							   BudgetSet *set);
extern bool BudgetPlanSlice(const AccountPath *path, int64 hold,
							BudgetSet *set);
extern bool BudgetLockPlanned(BudgetSet *set, Credits amount, bool wait);
extern bool BudgetMakeCounts(const AccountPath *path, bool wait,
							 BudgetSet *set);
extern bool BudgetOver(const BudgetSet *set, Credits amount);
extern Credits BudgetRoom(const BudgetSet *set);
extern Values BudgetKeys(const BudgetSet *set);
extern bool BudgetShort(const AccountPath *path, Credits amount,
						TimestampTz at);
extern void BudgetLockUnion(const AccountPath *path, const int64 *holds,
							int n, TimestampTz at, BudgetSet *set);

/* budget_read.c */
extern bool BudgetRead(const AccountPath *path, TimestampTz at,
					   BudgetSet *set);
extern bool BudgetKnown(const AccountPath *path, TimestampTz at,
						BudgetSet *set);
extern void BudgetReadAlerts(Datum array, BudgetCount *count);

/* changed_budgets.c */
extern bool BudgetOwn(const AccountPath *path, TimestampTz at,
					  BudgetSet *set);
extern int	BudgetCountEach(BudgetSet *set, Credits amount, TimestampTz at);

/* budget_take.c */
extern bool BudgetReadUnlocked(const AccountPath *path, Credits amount,
							   BudgetSet *set);
extern bool BudgetTryCount(const AccountPath *path, BudgetSet *set,
						   Credits amount, TimestampTz at);
extern void BudgetDebit(const BudgetSet *set, Credits amount, TimestampTz at);
extern void BudgetShare(const BudgetSet *set, int64 hold, bool new,
						Credits amount);
extern void BudgetAlert(const BudgetSet *set, Credits amount, TimestampTz at);

/* periods, also budget_read.c */
extern const BudgetCount *BudgetTurned(const BudgetSet *set,
									   TimestampTz at);
extern void BudgetCheckPeriods(const BudgetSet *set, TimestampTz at);

/* budget_hold.c */
extern bool BudgetLockHold(const Hold *hold, bool wait, HoldShares *shares);
extern void BudgetReturn(const Hold *hold, HoldShares *shares,
						 Credits captured, Credits given_back);
extern void BudgetLockLeased(const Hold *hold, BudgetSet *set);
extern void BudgetCountLeased(Hold *hold, const BudgetSet *known,
							  Credits captured, TimestampTz at);
extern void BudgetRefund(const Hold *hold, HoldShares *shares,
						 Credits amount);

/* The parameters that name a set's counters. */
#define COUNTS_TYPES "text, text[], text[], timestamptz[]"

/* Leaf to root, then by name: one order for all counters of an org. */
#define BUDGET_ORDER \
	" pg_catalog.length(c.account) DESC, c.account," \
	" c.period COLLATE pg_catalog.\"C\", c.period_start"

/* budget_alert.c */
extern void AlertBudget(const char *org, const BudgetCount *count,
						Credits before, Credits after, TimestampTz at);

#endif							/* GPUCREDIT_BUDGET_H */
