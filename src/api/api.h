/*-------------------------------------------------------------------------
 *
 * api.h
 *		The checks and counts around every call.
 *
 * The file of a public function writes API_FUNCTION(gpucredit_issue, issue)
 * where other files write PG_FUNCTION_INFO_V1(gpucredit_issue), and names the
 * function itself call_issue().  SQL calls gpucredit_issue(), which the macro
 * defines.  It runs call_issue() within ApiCall(), which adds the checks of
 * tenants, the rate limits, the counters and the waking of the scheduler.
 * Each entry point stands once in the list below.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_API_H
#define GPUCREDIT_API_H

#include "util/compat.h"
#include "fmgr.h"

/*
 * Each line has a function's name, its subject, and what its success means for
 * the scheduler.
 *
 * Argument 0 of a function is the organisation, unless the subject is NOBODY.
 * Argument 1 is the ACCOUNT itself, or the id of the JOB, HOLD or BUCKET whose
 * account is meant.
 *
 * WAKES: after the commit waiting jobs may be able to start, so the scheduler
 * is woken.  QUIET: they are not, or the function itself calls WakePool().
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
	X(set_idle_limit, NOBODY, QUIET) \
	X(issue, ACCOUNT, WAKES) \
	X(revoke, BUCKET, QUIET) \
	X(transfer, ACCOUNT, WAKES) \
	X(allocate, ACCOUNT, WAKES) \
	X(allocate_quota, ACCOUNT, WAKES) \
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
	X(store_file, ACCOUNT, QUIET) \
	X(meter, JOB, QUIET) \
	X(meter_batch, NOBODY, QUIET) \
	X(settle, JOB, QUIET) \
	X(part_ended, JOB, QUIET) \
	X(cancel, JOB, WAKES) \
	X(requeue_job, JOB, QUIET) \
	X(hold_job, JOB, QUIET) \
	X(release_job, JOB, WAKES) \
	X(update_job, JOB, QUIET) \
	X(checkpoint, JOB, QUIET) \
	X(checkpoint_loaded, JOB, QUIET) \
	X(log_wish, JOB, QUIET) \
	X(open_session, JOB, QUIET) \
	X(signal_job, JOB, QUIET) \
	X(log_put, NOBODY, QUIET) \
	X(log_keep, NOBODY, QUIET) \
	X(reap_holds, NOBODY, QUIET) \
	X(check_nodes, NOBODY, QUIET) \
	X(register_node, NOBODY, WAKES) \
	X(set_node_key, NOBODY, QUIET) \
	X(heartbeat, NOBODY, QUIET) \
	X(report_topology, NOBODY, WAKES) \
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

/*
 * Calls of agents about a node or an attempt.  If the node has a key, the
 * agent must prove that it knows it.
 */
#define API_PROVEN(entry) \
	((entry) == API_meter || (entry) == API_meter_batch || \
	 (entry) == API_heartbeat || (entry) == API_settle || \
	 (entry) == API_part_ended || (entry) == API_checkpoint || \
	 (entry) == API_checkpoint_loaded || (entry) == API_log_put || \
	 (entry) == API_log_keep || (entry) == API_placed || \
	 (entry) == API_reclaim || (entry) == API_reclaim_nodes || \
	 (entry) == API_report_topology)

/*
 * Calls of tenants and applications, which rate limits apply to.  A call that
 * only agents, operators or administrators may make is never limited.
 * Otherwise a tenant that has used up its limit could keep its use from being
 * measured, or its account from being suspended.
 */
#define API_LIMITED(entry) \
	((entry) == API_hold || (entry) == API_extend_hold || \
	 (entry) == API_capture || (entry) == API_release || \
	 (entry) == API_reserve || (entry) == API_quote || \
	 (entry) == API_store_file || \
	 (entry) == API_settle || (entry) == API_cancel || \
	 (entry) == API_requeue_job || (entry) == API_hold_job || (entry) == API_release_job || \
	 (entry) == API_update_job || (entry) == API_log_wish || (entry) == API_open_session || \
	 (entry) == API_signal_job)

typedef enum ApiSubject
{
	API_SUBJECT_NOBODY,
	API_SUBJECT_ACCOUNT,
	API_SUBJECT_JOB,
	API_SUBJECT_HOLD,
	API_SUBJECT_BUCKET
} ApiSubject;

/* Defines the function that SQL calls; the header of this file explains it. */
#define API_FUNCTION(entry, name) \
extern Datum call_##name(PG_FUNCTION_ARGS); \
PG_FUNCTION_INFO_V1(entry); \
Datum \
entry(PG_FUNCTION_ARGS) \
{ \
	return ApiCall(API_##name, call_##name, fcinfo); \
} \
extern int	no_such_variable

/* defined in api.c */
extern void ApiInit(void);
extern Datum ApiCall(ApiFunction entry, PGFunction call,
					 FunctionCallInfo fcinfo);

/* defined in api_function.c */
extern const char *ApiName(ApiFunction entry);
extern bool ApiIsLimited(ApiFunction entry);
extern ApiSubject ApiSubjectOf(ApiFunction entry);
extern bool ApiWakes(ApiFunction entry);

/* defined in subject.c */
extern char *ApiAccountOf(ApiSubject kind, const char *org, int64 id);

#endif							/* GPUCREDIT_API_H */
