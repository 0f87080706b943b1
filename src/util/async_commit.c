/*-------------------------------------------------------------------------
 *
 * async_commit.c
 *		Transactions whose commit need not wait for the disk.
 *
 * A heartbeat reports how long an attempt has run, and the attempt's next
 * heartbeat reports a longer time.  If a crash loses the last heartbeat, the
 * next one makes up for the loss, so its commit need not wait.  All other
 * writes must survive, so only a transaction without other writes commits
 * asynchronously.
 *
 * The position in the write-ahead log shows whether a transaction has made
 * other writes.  The writer of a heartbeat first checks that all earlier log
 * records of the transaction belong to heartbeats, and then notes the new end
 * of the log.  Any other record moves XactLastRecEnd past the noted position,
 * and then the commit waits.
 *
 * The commit also waits if the call is not a statement of its own: in a
 * transaction block, after another statement of a pipeline or of a query
 * string, or within a function, a DO block or a cursor.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "util/async_commit.h"
#include "util/settings.h"
#include "tcop/pquery.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/portal.h"

/*
 * End of the log after the transaction's last heartbeat was written, or
 * InvalidXLogRecPtr if the transaction has written no heartbeat.
 */
static XLogRecPtr harmless = InvalidXLogRecPtr;

static bool is_statement(FunctionCallInfo fcinfo);
static void at_transaction_end(XactEvent event, void *arg);

/*
 * The callback must run after those of other modules, so that it sees what
 * they write.  PostgreSQL calls the callbacks in reverse order of
 * registration, so _PG_init() calls this function first.
 */
void
AsyncCommitInit(void)
{
	RegisterXactCallback(at_transaction_end, NULL);
}

/*
 * Whether the transaction may commit asynchronously if its next write is a
 * heartbeat.
 */
bool
AsyncCommitMay(FunctionCallInfo fcinfo)
{
	return XactLastRecEnd == harmless && !SettingMeterDurable() &&
		is_statement(fcinfo);
}

/*
 * Called after a heartbeat has been written, with the result of
 * AsyncCommitMay() from before the write: records that the log up to here has
 * only heartbeats.
 */
void
AsyncCommitAllow(bool may)
{
	if (may)
		harmless = XactLastRecEnd;
}

/*
 * Whether the call is part of a client's statement, and this statement is the
 * first and only one of its transaction so far.  The portal of a client's
 * statement has no name unless it is a cursor, and the executor's memory lies
 * below that portal's.
 */
static bool
is_statement(FunctionCallInfo fcinfo)
{
	return !IsInTransactionBlock(true) &&
		ActivePortal != NULL && ActivePortal->name[0] == '\0' &&
		MemoryContextGetParent(fcinfo->flinfo->fn_mcxt) ==
		ActivePortal->portalContext;
}

/*
 * Does what SET LOCAL synchronous_commit = off does, if heartbeats are all
 * that the transaction has written.
 */
static void
at_transaction_end(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_COMMIT &&
		harmless != InvalidXLogRecPtr && XactLastRecEnd == harmless &&
		synchronous_commit > SYNCHRONOUS_COMMIT_OFF)
		(void) set_config_option("synchronous_commit", "off", PGC_USERSET,
								 PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0,
								 false);
	harmless = InvalidXLogRecPtr;
}
