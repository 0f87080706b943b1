/*-------------------------------------------------------------------------
 *
 * sched.h
 *		One scheduling cycle of a pool: load, decide, apply.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SCHED_H
#define GPUCREDIT_SCHED_H

#include "decide/decide.h"
#include "inventory/inventory.h"

/* What of a queued job the decision does not need, but its start does. */
typedef struct Queued
{
	int64		hold;
	int32		attempt;		/* the last one */
	int64		wall_limit;		/* -1: none */
	int64		hold_window;	/* -1: none */
	int			noffers;
	const char **offer_types;	/* shared by the jobs of an ask */
	Credits    *offer_prices;
	Credits    *offer_spot_prices;
} Queued;

/* All that a cycle knows. */
typedef struct Cycle
{
	const char *pool;
	TimestampTz now;
	bool		read_only;		/* plan: change nothing */
	NodeSet    *set;
	DecideInput input;
	DecideResult result;
	DecideJob  *jobs;			/* input.jobs, writable */
	Queued	   *queued;			/* alongside */
} Cycle;

/* What a start is billed at. */
typedef struct StartPrice
{
	const char *gpu_type;		/* NULL of a job without GPUs */
	Credits		per_gpu_hour;
} StartPrice;

/* load.c */
extern void CycleLoad(Cycle *cycle);

/* apply.c */
extern bool CycleLock(Cycle *cycle);
extern void CycleApply(const Cycle *cycle);
extern StartPrice CyclePrice(const Cycle *cycle, const DecideStart *start);

/* surplus.c */
extern void SurplusReturn(const char *pool);

/* fund.c */
extern void FundWaiting(const char *pool);

#endif							/* GPUCREDIT_SCHED_H */
