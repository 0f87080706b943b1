/*-------------------------------------------------------------------------
 *
 * gpucredit.c
 *		The start of the library.
 *
 * Each module with settings or shared state has one XxxInit(), called from
 * here in the order of the layers.  Loading through shared_preload_libraries
 * is optional: a setting that needs it says so.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "util/async_commit.h"
#include "util/clock.h"
#include "util/compat.h"
#include "util/log.h"
#include "util/settings.h"
#include "util/sql.h"
#include "util/trace.h"
#include "worker/workers.h"
#include "api/api.h"
#include "job/run/open_session.h"
#include "request/key_space.h"
#include "shmem/token_bucket.h"
#include "shmem/notify.h"
#include "shmem/segment.h"
#include "shmem/wake.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

/*
 * Called when the library is loaded: by each backend at its first use, or once
 * by the postmaster if shared_preload_libraries names it.
 */
void
_PG_init(void)
{
	AsyncCommitInit();
	ClockInit();
	SettingsInit();
	TraceInit();
	LogInit();
	SqlInit();
	SegmentInit();
	TokenBucketInit();
	WakeInit();
	NotifyInit();
	ApiInit();
	KeySpaceInit();
	SessionsInit();
	WorkersInit();
	MarkGUCPrefixReserved("gpucredit");
}
