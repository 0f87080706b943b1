/*-------------------------------------------------------------------------
 *
 * api.h
 *		The checks and counts around every call.
 *
 * The file of a public function writes API_FUNCTION(gpucredit_issue, issue)
 * where others write PG_FUNCTION_INFO_V1(gpucredit_issue), and calls the
 * function itself call_issue(). SQL calls gpucredit_issue(), which the macro
 * defines: ApiCall() around call_issue(), for tenants, rate limits, counters and
 * waking the scheduler. Each entry point stands once in the list below.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_API_H
#define GPUCREDIT_API_H

#include "util/compat.h"
#include "fmgr.h"

/*
 * Name, whose call it is, and the effect of a success on the scheduler.
 *
 * Argument 0 is the organisation, unless the subject is NOBODY.  Argument 1 is
 * the ACCOUNT, or the JOB, HOLD or BUCKET that belongs to one.
 *
 * API_PROVEN: a call about a node or attempt must prove the node's key, if it
 * has one.
 *
 * WAKES: after the commit, waiting jobs may start.  QUIET: they cannot, or the
 * function itself calls WakePool().
 */
#define API_FUNCTIONS(X) \
	X(create_account, ACCOUNT, QUIET) \
	X(suspend_account, ACCOUNT, WAKES) \
	X(set_price, NOBODY, WAKES) \
	X(set_resource_price, NOBODY, WAKES) \
	X(set_budget, ACCOUNT, WAKES) \
	X(set_quota, ACCOUNT, WAKES) \
	X(set_slices, ACCOUNT, QUIET) \
	X(set_alert, ACCOUNT, QUIET) \
	X(set_rate_limit, NOBODY, QUIET) \
	X(create_pool, NOBODY, WAKES) \
	X(set_tier, NOBODY, WAKES) \
	X(grant_tier, ACCOUNT, WAKES) \
	X(revoke_tier, ACCOUNT, QUIET) \
	X(set_retry_rule, NOBODY, QUIET) \
	X(set_lost_work, NOBODY, QUIET) \
	X(issue, ACCOUNT, WAKES) \
	X(revoke, BUCKET, QUIET) \
	X(transfer, ACCOUNT, WAKES) \
	X(write_off, ACCOUNT, WAKES) \
	X(refund, JOB, WAKES) \
	X(refund_hold, HOLD, WAKES) \
	X(expire_credits, NOBODY, QUIET) \
	X(hold, ACCOUNT, QUIET) \
	X(extend_hold, HOLD, QUIET) \
	X(capture, HOLD, WAKES) \
	X(release, HOLD, WAKES) \
	X(reserve, ACCOUNT, QUIET) \
	X(quote, ACCOUNT, QUIET) \
	X(meter, JOB, QUIET) \
	X(meter_batch, NOBODY, QUIET) \
	X(settle, JOB, QUIET) \
	X(part_ended, JOB, QUIET) \
	X(cancel, JOB, WAKES) \
	X(hold_job, JOB, QUIET) \
	X(release_job, JOB, WAKES) \
	X(checkpoint, JOB, QUIET) \
	X(checkpoint_loaded, JOB, QUIET) \
	X(log_wish, JOB, QUIET) \
	X(log_put, NOBODY, QUIET) \
	X(reap_holds, NOBODY, QUIET) \
	X(check_nodes, NOBODY, QUIET) \
	X(register_node, NOBODY, WAKES) \
	X(set_node_key, NOBODY, QUIET) \
	X(heartbeat, NOBODY, QUIET) \
	X(drain, NOBODY, WAKES) \
	X(resume, NOBODY, WAKES) \
	X(reclaim, NOBODY, QUIET) \
	X(reclaim_nodes, NOBODY, QUIET) \
	X(remove_node, NOBODY, WAKES) \
	X(seal_audit, NOBODY, QUIET) \
	X(place, NOBODY, QUIET) \
	X(placed, JOB, QUIET)

typedef enum ApiFunction
{
#define API_ENUM(name, subject, wakes) API_##name,
	API_FUNCTIONS(API_ENUM)
#undef API_ENUM
	API_COUNT
} ApiFunction;

/* Agents' calls. */
#define API_PROVEN(entry) \
	((entry) == API_meter || (entry) == API_meter_batch || \
	 (entry) == API_heartbeat || (entry) == API_settle || \
	 (entry) == API_part_ended || (entry) == API_checkpoint || \
	 (entry) == API_checkpoint_loaded || (entry) == API_log_put || \
	 (entry) == API_placed)

/*
 * The calls of tenants and applications, which rate limits apply to.  A call
 * that only agents, operators or administrators may make is never limited: a
 * tenant that uses up a limit would otherwise keep its use from being measured,
 * or its account from being suspended.
 */
#define API_LIMITED(entry) \
	((entry) == API_hold || (entry) == API_extend_hold || \
	 (entry) == API_capture || (entry) == API_release || \
	 (entry) == API_reserve || (entry) == API_quote || \
	 (entry) == API_settle || (entry) == API_cancel || \
	 (entry) == API_hold_job || (entry) == API_release_job || \
	 (entry) == API_log_wish)

typedef enum ApiSubject
{
	API_SUBJECT_NOBODY,
	API_SUBJECT_ACCOUNT,
	API_SUBJECT_JOB,
	API_SUBJECT_HOLD,
	API_SUBJECT_BUCKET
} ApiSubject;

/* Where SQL enters C; see above. */
#define API_FUNCTION(entry, name) \
extern Datum call_##name(PG_FUNCTION_ARGS); \
PG_FUNCTION_INFO_V1(entry); \
Datum \
entry(PG_FUNCTION_ARGS) \
{ \
	return ApiCall(API_##name, call_##name, fcinfo); \
} \
extern int	no_such_variable

/* api.c */
extern void ApiInit(void);
extern Datum ApiCall(ApiFunction entry, PGFunction call,
					 FunctionCallInfo fcinfo);

/* api_function.c */
extern const char *ApiName(ApiFunction entry);
extern bool ApiIsLimited(ApiFunction entry);
extern ApiSubject ApiSubjectOf(ApiFunction entry);
extern bool ApiWakes(ApiFunction entry);

/* subject.c */
extern char *ApiAccountOf(ApiSubject kind, const char *org, int64 id);

#endif							/* GPUCREDIT_API_H */
