/*-------------------------------------------------------------------------
 *
 * plan.c
 *		plan: what a cycle would do now. It changes nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/compat.h"
#include "util/sql.h"
#include "sched/sched.h"

PG_FUNCTION_INFO_V1(gpucredit_plan);

static void put_set_aside(ReturnSetInfo *rsinfo, const SchedCycle *cycle);

Datum
gpucredit_plan(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SchedCycle	cycle = {.pool = ArgName(fcinfo, 0, "pool")};

	InitMaterializedSRF(fcinfo, 0);
	SqlConnect();
	CyclePlan(&cycle);
	CyclePutStarts(rsinfo, &cycle);
	ClaimsPut(&cycle, rsinfo);
	put_set_aside(rsinfo, &cycle);
	SqlFinish();
	return (Datum) 0;
}

/*
 * A row for each job that the cycle cancels, or that waits for what can never
 * hold.
 */
static void
put_set_aside(ReturnSetInfo *rsinfo, const SchedCycle *cycle)
{
	for (int i = 0; i < cycle->n_set_aside; i++)
	{
		const SetAside *aside = &cycle->set_aside[i];
		Values	   *row;

		if (aside->reason == SET_ASIDE_ARRAY)
			continue;
		row = VALUES(TextValue(aside->ends ? "cancel" : "never"),
					 TextValue(aside->org), Int8Value(aside->job));
		for (int c = 0; c < 6; c++)
			ValuesAdd(row, NullValue());
		ValuesAdd(row, TextValue(aside->reason == SET_ASIDE_DEADLINE ?
								 "deadline" : "dependency"));
		RowPut(rsinfo, row);
	}
}
