/*-------------------------------------------------------------------------
 *
 * settlement.h
 *		The end of an attempt.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SETTLEMENT_H
#define GPUCREDIT_SETTLEMENT_H

#include "fmgr.h"
#include "job/attempt.h"
#include "job/job.h"

typedef enum Outcome
{
	COMPLETED, FAILED, OUT_OF_MEMORY, TIMEOUT, PREEMPTED, CANCELLED,
	NODE_LOST, RESIZED, NOT_STARTED
} Outcome;

#define OUTCOMES	9
#define PART_FAILED		"part_failed"	/* the reason of the other parts */
#define SCRIPT_ENDED	"script_ended"	/* the same, of a script on the first
										 * node */
#define NOT_HEARD_FROM	"not_heard_from"
#define NODE_RECLAIMED	"reclaimed"

/* Who ended an attempt, as in attempt.ended_by. */
#define ENDED_BY_AGENT	"agent"
#define ENDED_BY_ADMIN	"admin"
#define ENDED_BY_APP	"app"	/* the job's owner */
#define ENDED_BY_SERVER	"server"
#define SettledByApp(s) \
	((s)->ended_by != NULL && strcmp((s)->ended_by, ENDED_BY_APP) == 0)

extern const char *const OutcomeNames[OUTCOMES];

/* A settlement's input, and its result. */
typedef struct Settlement
{
	Outcome		outcome;
	int64		elapsed;		/* -1: not reported */
	TimestampTz begun;			/* when the agent's report came; 0: none */
	TimestampTz seen_until;		/* its owner saw it run; 0: until now */
	int64		fence;			/* how long its devices stay fenced */
	int64		waited;			/* for how long the report waited, as billed */
	bool		by_agent;		/* its agent ended it: no process is left */
	const char *ended_by;		/* who ended it; NULL: the server */
	bool		has_exit_code;
	int32		exit_code;
	const char *message;
	const char *log_uri;
	const char *reason;			/* reason in the audit log; NULL: none */
	const char *node;			/* the node whose part is the cause; NULL:
								 * none */
	int32		rank;			/* of that node */
	/* what it comes to */
	Credits		cost;			/* of what it ran */
	const char *unpaid;			/* why not all of the cost is billed */
	/* what comes of it */
	Credits		billed;
	Credits		uncollected;	/* cost that is not billed */
	Returned	returned;
	Credits		refunded;
	const char *job_state;
	bool		requeue;
	int32		failures;
	const char *rule;			/* that said so; NULL: none */
	const char *advice;
	TimestampTz retry_at;		/* DT_NOBEGIN: it does not start again */
	TimestampTz at;
	TimestampTz closed_at;		/* the instant at which its hold closed */
} Settlement;

extern void SettlementTake(FunctionCallInfo fcinfo, int outcome, int elapsed,
						   int exit_code, int log_uri,
						   Settlement *settlement);
extern void AttemptSettle(Job *job, Attempt *attempt,
						  Settlement *settlement);
extern int64 ReportWaited(TimestampTz begun);
extern void AttemptSettled(const Attempt *attempt, Settlement *settlement);
extern Credits CollectMissing(const Job *job, Hold *hold,
							  const LockedBuckets *locked,
							  const Cause *cause, Credits missing,
							  Settlement *settlement);
extern void ReportShortfall(const Job *job, const Attempt *attempt,
							const Settlement *settlement, Credits uncollected);
extern bool PartsOutcome(const Attempt *attempt, bool all,
						 Settlement *settlement);

/* set_lost_work.c */
extern bool LostWorkIsBilled(const char *tier, Outcome outcome);

#endif							/* GPUCREDIT_SETTLEMENT_H */
