/*-------------------------------------------------------------------------
 *
 * device.c
 *		Ends an attempt when one of its devices fails.
 *
 * The attempt ends on all its nodes, because a gang that has lost a part would
 * only wait for it. The server settles the attempt at the last metered time as
 * node_lost, which does not count as a failure of the job, and requeues the
 * job at once. Devices stay fenced until agents report them free. The failed
 * device stays out of service until a heartbeat reports it healthy.
 *
 * The heartbeat that reports the failure settles the attempt at once if the
 * job's row is not locked. Otherwise it writes a directive that stops the
 * attempt, and the next heartbeat or check_nodes() settles it.
 *
 * Locks: job and attempt, without waiting; then as settlement.c says, for at
 * most 10 ms each.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/sql.h"
#include "job/end/device.h"
#include "job/end/settlement.h"

#define BROKEN \
	" FROM gpucredit.attempt_gpu g" \
	" JOIN gpucredit.node n ON n.pool = g.pool AND n.node = g.node" \
	" WHERE NOT g.free AND g.ended_at IS NULL" \
	" AND NOT n.healthy OPERATOR(gpucredit.@>) g.gpus"
SQL_STATEMENT(broken_attempts, SPI_OK_SELECT, "",
			  "SELECT l.org, l.job, l.attempt FROM"
			  " (SELECT DISTINCT g.org, g.job, g.attempt" BROKEN ") l"
			  SWEEP_IN_TURN("l.org", "l.job"));
SQL_STATEMENT(broken_devices, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT g.node,"
			  " (g.gpus OPERATOR(gpucredit.-) n.healthy)::text" BROKEN
			  " AND g.org = $1 AND g.job = $2 AND g.attempt = $3"
			  " ORDER BY g.node LIMIT 1");
SQL_STATEMENT(broken_tell, SPI_OK_INSERT,
			  "text, bigint, int, text, timestamptz",
			  "INSERT INTO gpucredit.directive (org, job, attempt, cause,"
			  " action, reason, given_at)"
			  " SELECT $1, $2, $3, $4, 'stop', 'device_failed', $5"
			  " WHERE NOT EXISTS (SELECT FROM gpucredit.directive d"
			  "  WHERE d.org = $1 AND d.job = $2 AND d.attempt = $3"
			  "  AND d.cause = $4)"
			  " ON CONFLICT (org, job, attempt, cause) DO NOTHING");

/* Returns the live attempts that have a device that is not healthy. */
SqlResult
DevicesBroken(void)
{
	return SqlRun(&broken_attempts, NULL);
}

/* Settles one attempt if it has a failed device. */
SweepResult
DeviceSettle(const char *org, int64 id, int32 number, const void *context)
{
	Settlement	settlement = {.outcome = NODE_LOST, .elapsed = -1,
		.reason = "device_failed"};
	SqlResult	row;
	Attempt		attempt;
	Job			job;

	if (!JobLock(org, id, false, &job))
		return SWEEP_BUSY;
	if (!AttemptLockLive(org, id, number, &attempt))
		return SWEEP_BUSY;
	row = SqlRun(&broken_devices,
				 VALUES(TextValue(org), Int8Value(id), Int4Value(number)));
	if (row.n == 0)
		return SWEEP_IDLE;
	settlement.message = psprintf("device %s of node %s is not healthy",
								  SqlText(row, 0, 2), SqlText(row, 0, 1));
	AttemptSettle(&job, &attempt, &settlement);
	return SWEEP_DONE;
}

/*
 * Settles an attempt after a heartbeat has reported a failed device. If the
 * attempt's rows are locked, a directive stops it on all its nodes instead.
 */
void
DeviceFailed(const Attempt *attempt, const char *node, TimestampTz now)
{
	if (SweepOnce(DeviceSettle, attempt->org, attempt->job, attempt->attempt,
				  NULL) != SWEEP_BUSY)
		return;
	(void) SqlRun(&broken_tell,
				  VALUES(ATTEMPT_KEY(attempt),
						 TextValue(psprintf("device/%s", node)),
						 TimeValue(now)));
}
