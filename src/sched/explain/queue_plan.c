/*-------------------------------------------------------------------------
 *
 * queue_plan.c
 *		The function queue_plan(): why each job of a pool waits, in a few
 *		words, as a cycle would find now.
 *
 * One table holds the words of each reason, for all callers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/compat.h"
#include "util/sql.h"
#include "miscadmin.h"
#include "sched/sched.h"

PG_FUNCTION_INFO_V1(gpucredit_queue_plan);

static const char *const words[] = {
	[DECIDE_NOT_WAITING] = "behind others",
	[DECIDE_NO_SUCH_TYPE] = "no such device in the pool",
	[DECIDE_NO_SUCH_MEMORY] = "no device with such memory",
	[DECIDE_FILTERED] = "its placement allows no node that would do",
	[DECIDE_SPOT_ONLY] = "only spot nodes would do",
	[DECIDE_POOL_TOO_SMALL] = "pool too small for it",
	[DECIDE_NODES_UNAVAILABLE] = "no node takes new work",
	[DECIDE_NOT_ENOUGH_SHARE] = "too few free devices",
	[DECIDE_GPU_MEMORY_SHORT] = "too little device memory free",
	[DECIDE_NOT_ENOUGH_GPUS] = "too few free devices",
	[DECIDE_NOT_TOGETHER] = "too few free together",
	[DECIDE_CPU_SHORT] = "too little cpu",
	[DECIDE_MEMORY_SHORT] = "too little host memory",
	[DECIDE_CPU_AND_MEMORY_SHORT] = "cpu and host memory not together",
	[DECIDE_PROMISED] = "devices promised, others leave them",
	[DECIDE_RESERVED] = "devices reserved for jobs ahead",
	[DECIDE_ENOUGH_STARTED] = "a later cycle's turn"
};

static const char *const set_aside_words[] = {
	[SET_ASIDE_ARRAY] = "as many of its array run as may",
	[SET_ASIDE_DEADLINE] = "cannot end by its deadline",
	[SET_ASIDE_NEVER] = "what it waits for can never hold",
	[SET_ASIDE_PRICE] = "its hold is opened anew at today's prices"
};

static const char **words_of_jobs(const SchedCycle *cycle);
static void put_others(ReturnSetInfo *rsinfo, const SchedCycle *cycle);

/* Returns one row for each job of a planned cycle. */
Datum
gpucredit_queue_plan(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SchedCycle	cycle = {.pool = ArgName(fcinfo, 0, "pool")};
	const char **reasons;
	int64	   *at;

	InitMaterializedSRF(fcinfo, 0);
	SqlConnect();
	CyclePlan(&cycle);
	reasons = words_of_jobs(&cycle);
	at = CycleExpectQueue(&cycle);
	for (int32 i = 0; i < cycle.input.n_jobs; i++)
	{
		CHECK_FOR_INTERRUPTS();
		RowPut(rsinfo,
			   VALUES(TextValue(cycle.jobs[i].org),
					  Int8Value(cycle.jobs[i].id), TextValue(reasons[i]),
					  at[i] == DECIDE_NEVER ? NullValue() :
					  TimeValueOrNull(at[i])));
	}
	put_others(rsinfo, &cycle);
	SqlFinish();
	return (Datum) 0;
}

/*
 * Returns rows for the jobs that take no part in the cycle, whatever devices
 * are free.
 */
static void
put_others(ReturnSetInfo *rsinfo, const SchedCycle *cycle)
{
	for (int i = 0; i < cycle->n_set_aside; i++)
	{
		const SetAside *aside = &cycle->set_aside[i];

		RowPut(rsinfo,
			   VALUES(TextValue(aside->org), Int8Value(aside->job),
					  TextValue(set_aside_words[aside->reason]),
					  NullValue()));
	}
	for (int i = 0; i < cycle->n_dependents; i++)
	{
		const DependentJob *job = &cycle->dependents[i];

		if (job->state == DEPENDENCY_WAITS && job->deadline > cycle->now)
			RowPut(rsinfo, VALUES(TextValue(job->org), Int8Value(job->job),
								  TextValue("waits for other jobs"),
								  NullValue()));
	}
}

/* Returns, by job, what the cycle does with it, or why it waits. */
static const char **
words_of_jobs(const SchedCycle *cycle)
{
	const DecideInput *input = &cycle->input;
	const DecideResult *result = &cycle->result;
	const char **reasons =
	MemoryContextAllocHuge(CurrentMemoryContext, sizeof(char *) *
						   (input->n_jobs + 1));

	for (int32 i = 0; i < input->n_jobs; i++)
		reasons[i] = result->held != NULL &&
			result->held[i] != DECIDE_NOT_HELD ? "quota" :
			words[result->waits[cycle->jobs[i].request].reason];
	for (int32 i = 0; i < input->n_claims; i++)
	{
		if (input->claims[i].job >= 0)
			reasons[input->claims[i].job] = words[DECIDE_PROMISED];
	}
	for (int32 i = 0; i < result->n_promises; i++)
	{
		if (result->promises[i].job >= 0)
			reasons[result->promises[i].job] = words[DECIDE_PROMISED];
	}
	for (int32 i = 0; i < result->n_starts; i++)
		reasons[result->starts[i].job] = "starts with the next cycle";
	return reasons;
}
