/*-------------------------------------------------------------------------
 *
 * rate.h
 *		Rate limits: may this call run now?
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_RATE_H
#define GPUCREDIT_RATE_H

#include "api/api.h"

/* How to find the account of a call. */
typedef struct RateSubject
{
	ApiSubject	kind;			/* ACCOUNT, JOB, HOLD or BUCKET */
	const char *account;		/* of ACCOUNT */
	int64		id;				/* of the others */
	FunctionCallInfo call;		/* NULL: the owner's rights are in force */
} RateSubject;

/* A refusal: which limit, and how long to wait. */
typedef struct RateRefusal
{
	const char *account;
	const char *operation;		/* as in the limit: a name or "*" */
	double		per_second;
	int32		burst;
	double		wait;			/* seconds */
} RateRefusal;

extern void RateInit(void);
extern bool RateAdmits(ApiFunction entry, const char *org,
					   const RateSubject *subject, RateRefusal *refusal);
extern int	RateOperation(const char *name);

#endif							/* GPUCREDIT_RATE_H */
