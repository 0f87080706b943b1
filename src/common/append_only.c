/*-------------------------------------------------------------------------
 *
 * append_only.c
 *		The trigger on append-only tables.
 *
 * ENABLE ALWAYS, so that it fires for the owner and for superusers too,
 * whatever session_replication_role says.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "common/compat.h"
#include "common/errors.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(gpucredit_refuse_change);

Datum
gpucredit_refuse_change(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("refuse_change must be called as a trigger")));
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_APPEND_ONLY),
			 errmsg("table \"%s\" is append-only",
					RelationGetRelationName(trigger->tg_relation)),
			 errdetail("Its rows are what every balance and decision is "
					   "proven by."),
			 errhint("Correct a mistake by a new entry (refund, revoke, "
					 "issue).")));
}
