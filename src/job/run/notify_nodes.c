/*-------------------------------------------------------------------------
 *
 * notify_nodes.c
 *		The trigger that notifies a node's agent of new work.
 *
 * A start (a new row of attempt_gpu) and a directive send a notification on
 * the channel gpucredit_node, with the node's name, when they are committed.
 * The notification only makes the agent send a heartbeat at once, whose answer
 * has the content. So a lost notification delays the agent by one interval,
 * and a forged one has no effect.
 *
 * Locks: none before the commit (shmem/notify.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "util/compat.h"
#include "util/sql.h"
#include "executor/spi.h"
#include "shmem/notify.h"

SQL_STATEMENT(attempt_nodes, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT g.node FROM gpucredit.attempt_gpu g"
			  " WHERE g.org = $1 AND g.job = $2 AND g.attempt = $3"
			  " AND NOT g.free ORDER BY g.node");

static void arg_column(Values *args, const TriggerData *trigger,
					   const char *name);

PG_FUNCTION_INFO_V1(gpucredit_notify_nodes);

Datum
gpucredit_notify_nodes(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	TupleDesc	type;
	int			node;

	if (!CALLED_AS_TRIGGER(fcinfo) ||
		!TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("notify_nodes must be called as a row trigger")));
	type = RelationGetDescr(trigger->tg_relation);
	node = SPI_fnumber(type, "node");
	if (node > 0)
		NotifyAtCommit(NODE_CHANNEL,
					   SPI_getvalue(trigger->tg_trigtuple, type, node));
	else
	{
		Values		args = {0};
		SqlResult	rows;

		SqlConnect();
		arg_column(&args, trigger, "org");
		arg_column(&args, trigger, "job");
		arg_column(&args, trigger, "attempt");
		rows = SqlRun(&attempt_nodes, &args);
		for (uint64 i = 0; i < rows.n; i++)
			NotifyAtCommit(NODE_CHANNEL, SqlText(rows, i, 1));
		SqlFinish();
	}
	return PointerGetDatum(NULL);
}

static void
arg_column(Values *args, const TriggerData *trigger, const char *name)
{
	TupleDesc	type = RelationGetDescr(trigger->tg_relation);
	bool		null;

	ValuesAdd(args,
			  DatumValue(SPI_getbinval(trigger->tg_trigtuple, type,
									   SPI_fnumber(type, name), &null)));
}
