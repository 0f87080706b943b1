/*-------------------------------------------------------------------------
 *
 * credit_check.h
 *		Whether jobs' next holds could be paid, one beside the other.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CREDIT_CHECK_H
#define GPUCREDIT_CREDIT_CHECK_H

#include "sched/sched.h"
#include "utils/hsearch.h"

/* A source of payment: a bucket, or a hard budget that must allow it. */
typedef struct Payer
{
	const char *name;			/* within its organisation */
	Credits		left;
	Credits		most;			/* that a bucket's policy lets it give */
} Payer;

typedef struct Payers
{
	int			n;
	Payer	   *all;
} Payers;

/* A job's next hold, and what could pay for it. */
typedef struct NextHold
{
	const Job  *job;
	Credits		amount;
	Payers		budgets;		/* of the account's path */
	Payers		buckets;		/* in burn order */
} NextHold;

extern HTAB *CreditCheckBegin(void);
extern void CreditCheckLoad(const SchedCycle *cycle, NextHold *holds, int n);
extern bool CreditCheckHold(const NextHold *hold, HTAB *counted);

#endif							/* GPUCREDIT_CREDIT_CHECK_H */
