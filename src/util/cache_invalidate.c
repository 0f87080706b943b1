/*-------------------------------------------------------------------------
 *
 * cache_invalidate.c
 *		The trigger on tables whose rows backends keep a copy of.
 *
 * Every change, whoever makes it, is announced as an invalidation of the
 * table's relcache entry: PostgreSQL sends that to all backends at the commit
 * of the change and to nobody at its rollback, sends it to standbys, and
 * applies it to the changing transaction itself at its next command.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "util/compat.h"
#include "utils/inval.h"

PG_FUNCTION_INFO_V1(gpucredit_announce_change);

Datum
gpucredit_announce_change(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("announce_change must be called as a trigger")));
	CacheInvalidateRelcache(trigger->tg_relation);
	return PointerGetDatum(NULL);
}
