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
	NODE_LOST, RESIZED, NOT_STARTED, REQUEUED
} Outcome;

#define OUTCOMES	10
#define PART_FAILED		"part_failed"	/* reason of the parts that stop
										 * because another failed */
#define SCRIPT_ENDED	"script_ended"	/* reason of the parts that stop
										 * because the script on the first
										 * node ended */
#define REQUEUE_CAUSE	"requeue"	/* cause of the directive by which its
									 * owner has a job run again */
#define REQUEUE_REASON	"requeued"	/* the reason in that directive */
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
	int64		elapsed;		/* -1 if not reported */
	TimestampTz begun;			/* when the agent's report arrived; 0 without
								 * a report */
	TimestampTz seen_until;		/* until when its owner saw it run; 0 for
								 * until now */
	int64		fence;			/* how long its devices stay fenced */
	int64		waited;			/* how long the report waited for locks, as
								 * far as that is billed */
	bool		by_agent;		/* whether its agent reported the end, so that
								 * no process is left */
	const char *ended_by;		/* who ended it, or NULL for the server */
	bool		has_exit_code;
	int32		exit_code;
	const char *message;
	const char *log_uri;
	int64		energy;			/* joules that agents reported of it so far; 0
								 * if none */
	const char *reason;			/* reason in the audit log, or NULL */
	const char *node;			/* node whose part is the cause, or NULL */
	int32		rank;			/* rank of that node */
	/* Computed from the input: */
	Credits		cost;			/* cost of the elapsed time */
	const char *unpaid;			/* why not all of the cost is billed, or NULL */
	/* Result: */
	Credits		billed;
	Credits		uncollected;	/* cost that is not billed */
	Returned	returned;
	Credits		refunded;
	const char *job_state;
	bool		requeue;
	int32		failures;
	const char *rule;			/* retry rule that matched, or NULL */
	const char *advice;
	TimestampTz retry_at;		/* DT_NOBEGIN if the job does not start again */
	TimestampTz at;
	TimestampTz closed_at;		/* when its hold was closed */
} Settlement;

extern void ParseSettlement(FunctionCallInfo fcinfo, int outcome, int elapsed,
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
