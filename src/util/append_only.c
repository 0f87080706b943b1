/*-------------------------------------------------------------------------
 *
 * append_only.c
 *		The trigger on append-only tables.
 *
 * ENABLE ALWAYS: it also fires for the owner and for superusers, under any
 * session_replication_role.  It allows one statement only: the DELETE of
 * AppendOnlyDelete(), of one table, for old rows whose totals are written
 * down.  No setting and no SQL function can do this.
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

/* The table that AppendOnlyDelete() deletes from; NULL: none. */
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
 * Run a DELETE of old rows of an append-only table; return their number.
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
