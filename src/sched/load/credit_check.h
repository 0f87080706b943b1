/*-------------------------------------------------------------------------
 *
 * credit_check.h
 *		Checks whether the next holds of several jobs could all be paid
 *		together.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CREDIT_CHECK_H
#define GPUCREDIT_CREDIT_CHECK_H

#include "sched/sched.h"
#include "utils/hsearch.h"

/*
 * A source of payment: a bucket, or a hard budget that must allow the payment.
 */
typedef struct Payer
{
	const char *name;			/* unique within the organisation */
	Credits		left;
	Credits		most;			/* the most that a bucket's policy allows for
								 * one hold */
} Payer;

typedef struct Payers
{
	int			n;
	Payer	   *all;
} Payers;

/* A job's next hold, and the buckets and budgets that could pay for it. */
typedef struct NextHold
{
	const Job  *job;
	Credits		amount;
	Payers		budgets;		/* budgets of the account and of the accounts
								 * above it */
	Payers		buckets;		/* in burn order */
} NextHold;

extern HTAB *CreditCheckBegin(void);
extern void CreditCheckLoad(const SchedCycle *cycle, NextHold *holds, int n);
extern bool CreditCheckHold(const NextHold *hold, HTAB *counted);

#endif							/* GPUCREDIT_CREDIT_CHECK_H */
