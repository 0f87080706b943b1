/*-------------------------------------------------------------------------
 *
 * budget.h
 *		Budgets, which count every hold. Functions of the ledger call
 *		these.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_BUDGET_H
#define GPUCREDIT_BUDGET_H

#include "util/sql.h"
#include "account/account.h"
#include "account/hold.h"

/* The locked counter of one budget. */
typedef struct BudgetCount
{
	const char *account;
	const char *period;
	TimestampTz period_start;	/* DT_NOBEGIN if the budget's period is none */
	Credits		amount;
	bool		hard;
	int			nalerts;
	Credits    *alerts;			/* thresholds in credits */
	Datum	   *alert_shares;	/* numerics, as they were set */
	Credits		reserved;		/* includes what its slices have reserved */
	Credits		spent;
	int32		slices;			/* over how many slices it may be spread */
	int32		spread;			/* over how many slices it is spread */
	int32		slice;			/* the only slice that is locked, or 0 if the
								 * whole counter is */
	bool		locked;
} BudgetCount;

typedef struct BudgetSet
{
	const char *org;
	int			n;
	BudgetCount *counts;
} BudgetSet;

/*
 * The share of a hold that one budget counts in one period, whose counter is
 * locked.
 */
typedef struct HoldShare
{
	const char *account;
	const char *period;
	TimestampTz period_start;
	Credits		reserved;
	Credits		spent;
	Credits		unreserve;		/* amount to subtract from reserved */
	Credits		spend;			/* amount to add to spent, negative for a
								 * refund */
	int32		slice;			/* slice that counts the share, or 0 for the
								 * counter's row */
} HoldShare;

typedef struct HoldShares
{
	int			n;
	HoldShare  *shares;
} HoldShares;

/* Defined in budget.c. */
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

/* Defined in budget_read.c. */
extern bool BudgetRead(const AccountPath *path, TimestampTz at,
					   BudgetSet *set);
extern bool BudgetKnown(const AccountPath *path, TimestampTz at,
						BudgetSet *set);
extern void BudgetReadAlerts(Datum array, BudgetCount *count);

/* Defined in changed_budgets.c. */
extern bool BudgetOwn(const AccountPath *path, TimestampTz at,
					  BudgetSet *set);
extern int	BudgetCountEach(BudgetSet *set, Credits amount, TimestampTz at);

/* Defined in budget_reserve.c. */
extern bool BudgetReadUnlocked(const AccountPath *path, Credits amount,
							   BudgetSet *set);
extern bool BudgetTryCount(const AccountPath *path, BudgetSet *set,
						   Credits amount, TimestampTz at);
extern void BudgetDebit(const BudgetSet *set, Credits amount, TimestampTz at);
extern void BudgetShare(const BudgetSet *set, int64 hold, bool new,
						Credits amount);
extern void BudgetAlert(const BudgetSet *set, Credits amount, TimestampTz at);

/* Functions about periods, also defined in budget_read.c. */
extern const BudgetCount *BudgetTurned(const BudgetSet *set,
									   TimestampTz at);
extern void BudgetCheckPeriods(const BudgetSet *set, TimestampTz at);

/* Defined in budget_hold.c. */
extern bool BudgetLockHold(const Hold *hold, bool wait, HoldShares *shares);
extern void BudgetReturn(const Hold *hold, HoldShares *shares,
						 Credits captured, Credits given_back);
extern void BudgetLockLeased(const Hold *hold, BudgetSet *set);
extern void BudgetCountLeased(Hold *hold, const BudgetSet *known,
							  Credits captured, TimestampTz at);
extern void BudgetRefund(const Hold *hold, HoldShares *shares,
						 Credits amount);

/* The types of the parameters that identify the counters of a set. */
#define COUNTS_TYPES "text, text[], text[], timestamptz[]"

/*
 * The order in which all counters of an organisation are locked: leaf to root,
 * then by name.
 */
#define BUDGET_ORDER \
	" pg_catalog.length(c.account) DESC, c.account," \
	" c.period COLLATE pg_catalog.\"C\", c.period_start"

/* Defined in budget_alert.c. */
extern void AlertBudget(const char *org, const BudgetCount *count,
						Credits before, Credits after, TimestampTz at);

#endif							/* GPUCREDIT_BUDGET_H */
