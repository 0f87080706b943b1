/*-------------------------------------------------------------------------
 *
 * reservations.c
 *		The function reservations(): returns what the next cycle would
 *		reserve for waiting jobs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/compat.h"
#include "util/sql.h"
#include "sched/sched.h"
#include "types/gpuset.h"

PG_FUNCTION_INFO_V1(gpucredit_reservations);

static void put_reserved(ReturnSetInfo *rsinfo, const SchedCycle *cycle);

Datum
gpucredit_reservations(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SchedCycle	cycle = {.pool = ArgName(fcinfo, 0, "pool")};

	InitMaterializedSRF(fcinfo, 0);
	SqlConnect();
	CyclePlan(&cycle);
	put_reserved(rsinfo, &cycle);
	SqlFinish();
	return (Datum) 0;
}

/* Returns one row for each node of each reservation. */
static void
put_reserved(ReturnSetInfo *rsinfo, const SchedCycle *cycle)
{
	for (int i = 0; i < cycle->result.n_reservations; i++)
	{
		const DecideReservation *r = &cycle->result.reservations[i];
		const DecideJob *job = &cycle->jobs[r->job];

		for (int p = r->first_part; p < r->first_part + r->n_parts; p++)
		{
			const DecidePart *part = &cycle->result.reserved_parts[p];

			RowPut(rsinfo,
				   VALUES(TextValue(job->org), Int8Value(job->id),
						  Int4Value(cycle->queued[r->job].attempt + 1),
						  TextValue(cycle->set->nodes[part->node].name),
						  DatumValue(GpuSetGetDatum(part->devices)),
						  Int4Value(cycle->requests[job->request].share),
						  TextValue(r->type == DECIDE_NO_TYPE ? NULL :
									cycle->set->types.names[r->type]),
						  TimeValueOrNull(cycle->expected_at[i]),
						  r->latest == 0 ? NullValue() :
						  TimeValueOrNull(r->latest),
						  TimeValueOrNull(r->limit_at)));
		}
	}
}
