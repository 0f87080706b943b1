/*-------------------------------------------------------------------------
 *
 * reboot.c
 *		Ends attempts whose machine was restarted.
 *
 * A heartbeat with another boot_id means that all earlier processes on the
 * machine are gone. Attempts that had begun there end as node_lost at once, on
 * all their nodes, at the last metered time. Their devices on this node are
 * free. Attempts that had not begun are ordered to start. If a job's row is
 * locked, a directive stops the attempt, and the next heartbeat, or
 * reap_holds() after gpucredit.stop_grace, settles it.
 *
 * Locks: job and attempt, without waiting; then as settlement.c says, for at
 * most 10 ms each.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/sql.h"
#include "job/run/part.h"
#include "job/run/reboot.h"
#include "job/end/settlement.h"
#include "job/sweep.h"

SQL_STATEMENT(reboot_tell, SPI_OK_INSERT,
			  "text, bigint, int, text, timestamptz",
			  "INSERT INTO gpucredit.directive (org, job, attempt, cause,"
			  " action, reason, given_at)"
			  " VALUES ($1, $2, $3, 'boot/' || $4, 'stop', '"
			  NODE_REBOOTED "', $5)"
			  " ON CONFLICT (org, job, attempt, cause) DO NOTHING");

static SweepResult settle_lost(const char *org, int64 id, int32 number,
							   const void *context);

/*
 * Settles an attempt that ran on a node before the node was restarted. If its
 * rows are locked, a directive stops it on all its nodes instead.
 */
void
NodeRebooted(const Attempt *attempt, const char *node, TimestampTz now)
{
	if (SweepOnce(settle_lost, attempt->org, attempt->job, attempt->attempt,
				  node) != SWEEP_BUSY)
	{
		(void) PartGone(attempt->org, attempt->job, attempt->attempt, node,
						now);
		return;
	}
	(void) SqlRun(&reboot_tell,
				  VALUES(ATTEMPT_KEY(attempt), TextValue(node),
						 TimeValue(now)));
}

/*
 * Settles one attempt that ran on a restarted node; context is the node's
 * name.
 */
static SweepResult
settle_lost(const char *org, int64 id, int32 number, const void *context)
{
	Settlement	settlement = {.outcome = NODE_LOST, .elapsed = -1,
		.reason = NODE_REBOOTED};
	Attempt		attempt;
	Job			job;

	if (!JobLock(org, id, false, &job) ||
		!AttemptLockLive(org, id, number, &attempt))
		return SWEEP_BUSY;
	settlement.message = psprintf("node %s was restarted",
								  (const char *) context);
	AttemptSettle(&job, &attempt, &settlement);
	return SWEEP_DONE;
}
