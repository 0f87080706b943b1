/*
 * quota.h
 *	  What quotas leave a job of what it requests.
 */
#ifndef DECIDE_QUOTA_H
#define DECIDE_QUOTA_H

#include "decide/equivalence.h"

/*
 * What is left of a class under some quotas: fewer offers, or not as many
 * devices.  It is a class of its own.
 */
typedef struct QuotaFilter
{
	DecideRequestClass request; /* of the job whose turn it is */
	int32_t    *most;			/* devices by each of its offers */
	EquivalenceClass class;
	EquivalenceClass *whole;	/* what it is a part of */
	int32_t    *key;			/* the most by each offer of the whole */
	struct QuotaFilter *next;	/* of the same class */
} QuotaFilter;

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
	int32_t    *most;			/* scratch: by each offer of a request */
	QuotaFilter **filters;		/* by class; NULL: not yet */
	DecideWait *waits;			/* by request: why what was left could not
								 * start */
	bool		binds;			/* a job was held back at its turn */
} Quotas;

/* quota.c */
extern bool DecideQuotaChain(const DecideInput *input,
							 const DecideArena *arena, QuotaChains *chains);
extern bool DecideQuotaCounts(const DecideQuota *quota, int32_t type);
extern bool DecideQuotasBegin(Cycle *cycle);
extern bool DecideQuotaKept(const Cycle *cycle, int32_t account,
							int32_t type);
extern int32_t DecideQuotaEver(const Cycle *cycle, int32_t account,
							   int32_t type, int32_t least, int32_t most);
extern int32_t DecideQuotaMore(const Cycle *cycle,
							   const DecideRunning *running);
extern void DecideQuotaTake(Cycle *cycle, int32_t account, int32_t type,
							int64_t milli, int32_t jobs, bool reserved);
extern int32_t DecideQuotaMost(const Cycle *cycle, const DecideJob *job,
							   const DecideRequestClass *request, int32_t type,
							   bool reserving);

/* quota_filter.c */
extern bool DecideQuotaFilter(Cycle *cycle, int32_t job, bool reserving,
							  bool *held);
extern const DecideRequestClass *DecideJobRequest(const Cycle *cycle,
												  int32_t job);
extern int32_t DecideQuotaFilterMost(const Cycle *cycle,
									 const DecideRequestClass *request,
									 const DecideOffer *offer);
extern bool DecideQuotaFilterExplain(Cycle *cycle, int32_t job);
extern void DecideQuotaFilterEnd(Cycle *cycle);

#endif							/* DECIDE_QUOTA_H */
