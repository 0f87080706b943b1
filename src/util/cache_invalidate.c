/*-------------------------------------------------------------------------
 *
 * cache_invalidate.c
 *		The trigger on tables whose rows backends keep a copy of.
 *
 * Every change sends an invalidation of the table's relcache entry.
 * PostgreSQL delivers it to all backends and standbys when the change commits,
 * and to nobody at a rollback.  The changing transaction applies it at its
 * next command.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "util/compat.h"
#include "utils/inval.h"

PG_FUNCTION_INFO_V1(gpucredit_cache_invalidate);

Datum
gpucredit_cache_invalidate(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("cache_invalidate must be called as a trigger")));
	CacheInvalidateRelcache(trigger->tg_relation);
	return PointerGetDatum(NULL);
}
