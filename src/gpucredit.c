/*-------------------------------------------------------------------------
 *
 * gpucredit.c
 *		What happens when the library is loaded.
 *
 * Each module that has settings or shared state of its own has one
 * XxxInit(), called from here in the order of the layers.  Loading through
 * shared_preload_libraries is optional: what needs it says so where it is
 * configured.
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
#include "shmem/token_bucket.h"
#include "shmem/notify.h"
#include "shmem/segment.h"
#include "shmem/wake.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

/*
 * Called once per backend, or once in the postmaster when preloaded.
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
	WorkersInit();
	MarkGUCPrefixReserved("gpucredit");
}
