/*-------------------------------------------------------------------------
 *
 * plan.c
 *		The function plan(): returns what a cycle would do now. It changes
 *		nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/compat.h"
#include "util/sql.h"
#include "sched/sched.h"

PG_FUNCTION_INFO_V1(gpucredit_plan);

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
	SetAsidePut(rsinfo, &cycle);
	SqlFinish();
	return (Datum) 0;
}
