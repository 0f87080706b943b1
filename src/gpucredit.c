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

#include "common/clock.h"
#include "common/compat.h"
#include "common/log.h"
#include "common/settings.h"
#include "common/sql.h"
#include "common/trace.h"
#include "driver/driver.h"
#include "entry/entry.h"
#include "shmem/level.h"
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
	ClockInit();
	SettingsInit();
	TraceInit();
	LogInit();
	SqlInit();
	SegmentInit();
	LevelInit();
	WakeInit();
	NotifyInit();
	EntryInit();
	DriverInit();
	MarkGUCPrefixReserved("gpucredit");
}
