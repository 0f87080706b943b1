/*
 * quota.h
 *	  What quotas leave a job of what it asks.
 */
#ifndef DECIDE_QUOTA_H
#define DECIDE_QUOTA_H

#include "decide/class.h"

/*
 * What is left of a class under some quotas: fewer offers, or not as many
 * devices.  It is a class of its own.
 */
typedef struct Narrow
{
	DecideAsk	ask;			/* of the job whose turn it is */
	int32_t    *most;			/* devices by each of its offers */
	AskClass	class;
	AskClass   *whole;			/* what it is a part of */
	int32_t    *key;			/* the most by each offer of the whole */
	struct Narrow *next;		/* of the same class */
} Narrow;

/* The quotas an account has of its own are chained, -1 ends that. */
typedef struct QuotaChains
{
	int32_t    *first;			/* by account */
	int32_t    *next;			/* by quota */
} QuotaChains;

typedef struct Quotas
{
	QuotaChains chains;
	bool	   *any;			/* by account: it stands under some */
	int64_t    *milli;			/* by quota: in use, promised, and started */
	int64_t    *running;
	int64_t    *reserved_milli; /* and reserved */
	int64_t    *reserved_running;
	int32_t    *most;			/* scratch: by each offer of an ask */
	Narrow	  **narrows;		/* by class; NULL: not yet */
	DecideWait *waits;			/* by ask: why what was left could not start */
	bool		binds;			/* a job was held back at its turn */
} Quotas;

/* quota.c */
extern bool DecideQuotaChain(const DecideInput *input,
							 const DecideArena *arena, QuotaChains *chains);
extern bool DecideQuotaCounts(const DecideQuota *quota, int32_t type);
extern bool DecideQuotasBegin(Cycle *cycle);
extern bool DecideQuotaKept(const Cycle *cycle, int32_t account,
							int32_t type);
extern int32_t DecideQuotaMore(const Cycle *cycle,
							   const DecideRunning *running);
extern void DecideQuotaTake(Cycle *cycle, int32_t account, int32_t type,
							int64_t milli, int32_t jobs, bool reserved);
extern int32_t DecideQuotaMost(const Cycle *cycle, const DecideJob *job,
							   const DecideAsk *ask, int32_t type,
							   bool reserving);

/* narrow.c */
extern bool DecideNarrow(Cycle *cycle, int32_t job, bool reserving,
						 bool *held);
extern const DecideAsk *DecideJobAsk(const Cycle *cycle, int32_t job);
extern int32_t DecideNarrowMost(const Cycle *cycle, const DecideAsk *ask,
								const DecideOffer *offer);
extern bool DecideNarrowExplain(Cycle *cycle, int32_t job);
extern void DecideNarrowEnd(Cycle *cycle);

#endif							/* DECIDE_QUOTA_H */
