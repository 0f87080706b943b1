/*-------------------------------------------------------------------------
 *
 * rate.h
 *		Rate limits: may this call be made now?
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
	const char *account;		/* of ACCOUNT */
	int64		id;				/* of the others */
	FunctionCallInfo call;		/* NULL: its owner's rights are in force */
} RateSubject;

/* A refusal: which limit, and how long to wait. */
typedef struct RateRefusal
{
	const char *account;
	const char *operation;		/* as the limit says: a name or "*" */
	double		per_second;
	int32		burst;
	double		wait;			/* seconds */
} RateRefusal;

extern void RateInit(void);
extern bool RateAdmits(ApiFunction entry, const char *org,
					   const RateSubject *subject, RateRefusal *refusal);
extern int	RateOperation(const char *name);

#endif							/* GPUCREDIT_RATE_H */
