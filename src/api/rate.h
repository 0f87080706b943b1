/*-------------------------------------------------------------------------
 *
 * rate.h
 *		Rate limits on calls.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_RATE_H
#define GPUCREDIT_RATE_H

#include "api/api.h"

/* What the account of a call is found by. */
typedef struct RateSubject
{
	ApiSubject	kind;			/* ACCOUNT, JOB, HOLD or BUCKET */
	const char *account;		/* the account, if kind is ACCOUNT */
	int64		id;				/* number of the job, hold or bucket otherwise */
	FunctionCallInfo call;		/* the call whose function's owner reads the
								 * tables, or NULL if the owner's rights are
								 * already in force */
} RateSubject;

/*
 * A refusal: the limit that had no token left, and how long to wait for one.
 */
typedef struct RateRefusal
{
	const char *account;
	const char *operation;		/* a function's name or "*", as in the limit's
								 * row */
	double		per_second;
	int32		burst;
	double		wait;			/* in seconds */
} RateRefusal;

extern void RateInit(void);
extern bool RateAdmits(ApiFunction entry, const char *org,
					   const RateSubject *subject, RateRefusal *refusal);
extern int	RateOperation(const char *name);

#endif							/* GPUCREDIT_RATE_H */
