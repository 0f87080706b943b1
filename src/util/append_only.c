/*-------------------------------------------------------------------------
 *
 * append_only.c
 *		The trigger on append-only tables.
 *
 * The trigger is ENABLE ALWAYS, so it also fires for the tables' owner and for
 * superusers, and under any session_replication_role.  The only statement it
 * allows is the DELETE that AppendOnlyDelete() runs: archiving removes old
 * rows of one table with it, after their totals have been recorded elsewhere.
 * No setting and no SQL function can allow anything more.
 *
 * SQL functions here: refuse_change.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "util/append_only.h"
#include "util/compat.h"
#include "util/errors.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(gpucredit_refuse_change);

/* The table from which AppendOnlyDelete() is deleting now, or NULL. */
static const char *leaving = NULL;

static bool is_leaving(const TriggerData *trigger);

Datum
gpucredit_refuse_change(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("refuse_change must be called as a trigger")));
	if (is_leaving(trigger))
		return PointerGetDatum(NULL);
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_APPEND_ONLY),
			 errmsg("table \"%s\" is append-only",
					RelationGetRelationName(trigger->tg_relation)),
			 errdetail("Its rows prove every balance and decision."),
			 errhint("Correct a mistake by a new entry (refund, revoke, "
					 "issue).")));
}

static bool
is_leaving(const TriggerData *trigger)
{
	return leaving != NULL && TRIGGER_FIRED_BY_DELETE(trigger->tg_event) &&
		strcmp(leaving, RelationGetRelationName(trigger->tg_relation)) == 0;
}

/*
 * Runs a DELETE of old rows of the append-only table, which the trigger allows
 * for the time of this call, and returns the number of deleted rows.
 */
uint64
AppendOnlyDelete(const char *table, SqlStatement *statement, Values *args)
{
	volatile uint64 n = 0;

	Assert(statement->expected == SPI_OK_DELETE && leaving == NULL);
	leaving = table;
	PG_TRY();
	{
		n = SqlRun(statement, args).n;
	}
	PG_FINALLY();
	{
		leaving = NULL;
	}
	PG_END_TRY();
	return n;
}
