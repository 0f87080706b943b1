/*-------------------------------------------------------------------------
 *
 * alarm.c
 *		A time limit for a step of a statement.
 *
 * Since PostgreSQL 16, dblink_connect() waits without limit for a server that
 * accepts the connection and never answers; connect_timeout does not cover
 * that case. An alarm cancels the statement (57014) when its time has passed.
 * The PL/pgSQL function that sets the alarm catches the error and clears the
 * alarm.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/timeout.h"
#include "util/compat.h"

PG_FUNCTION_INFO_V1(gpucredit_cells_set_alarm);

static void ring(void);

/*
 * The server's id of this timeout, or MAX_TIMEOUTS if it is not registered
 * yet.
 */
static TimeoutId alarm_id = MAX_TIMEOUTS;

/*
 * set_alarm(ms): starts the time limit now; null clears it.
 */
Datum
gpucredit_cells_set_alarm(PG_FUNCTION_ARGS)
{
	if (alarm_id == MAX_TIMEOUTS)
		alarm_id = RegisterTimeout(USER_TIMEOUT, ring);
	disable_timeout(alarm_id, false);
	if (!PG_ARGISNULL(0))
		enable_timeout_after(alarm_id, PG_GETARG_INT32(0));
	PG_RETURN_VOID();
}

/*
 * Cancels the statement. It runs in a signal handler.
 */
static void
ring(void)
{
	InterruptPending = true;
	QueryCancelPending = true;
	SetLatch(MyLatch);
}
