/*-------------------------------------------------------------------------
 *
 * explain_after.c
 *		Reports for explain() why a job may not start whatever devices are
 *		free: it is held, it waits for other jobs, its array runs as many
 *		jobs as it may, or its deadline is too near.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "job/dependency.h"
#include "sched/explain/explain.h"
#include "util/clock.h"
#include "util/errors.h"
#include "utils/timestamp.h"

/*
 * Reports who holds the job. Returns true, without a row, if nobody holds it.
 */
bool
ExplainHeld(ReturnSetInfo *rsinfo, const char *held_by)
{
	if (held_by == NULL)
		return true;
	ExplainPut(rsinfo, "hold", false, strcmp(held_by, "owner") == 0 ?
			   "its owner holds it, until release_job() ends that" :
			   "an operator holds it, until an operator ends that");
	return false;
}

/*
 * Reports what the job waits for, one row for each term. Returns false if the
 * dependency does not hold.
 */
bool
ExplainAfter(ReturnSetInfo *rsinfo, const Job *job, const char *after,
			 const char *name)
{
	SchedCycle	cycle = {.read_only = true, .now = ClockNow()};
	DependentJob one = {.org = job->org, .account = job->account,
		.name = name, .job = job->job, .after = after,
		.deadline = DT_NOEND};
	Dependency	dependency;

	if (after == NULL)
		return true;
	Ensure(DependencyParse(after, &dependency) == NULL,
		   "A job has a malformed dependency.");
	for (int t = 0; t < dependency.n; t++)
	{
		DependentJob term = one;

		term.after = DependencyTermText(&dependency.terms[t]);
		DependencyJudge(&cycle, &term, 1);
		ExplainPut(rsinfo, "dependency", term.state == DEPENDENCY_HOLDS,
				   psprintf("%s %s", term.after,
							term.state == DEPENDENCY_HOLDS ? "holds" :
							term.state == DEPENDENCY_WAITS ?
							"does not hold yet" : "can never hold"));
	}
	DependencyJudge(&cycle, &one, 1);
	if (one.state == DEPENDENCY_NEVER)
		ExplainPut(rsinfo, "dependency", false, "it will never start: cancel it, "
				   "or submit with \"kill_on_invalid_dep\" in options, which lets the next "
				   "cycle cancel it");
	else if (one.state == DEPENDENCY_WAITS)
		ExplainPut(rsinfo, "dependency", false, dependency.any ?
				   "it starts once one of these holds" :
				   "it starts once all of these hold");
	return one.state == DEPENDENCY_HOLDS;
}

/*
 * Reports why the next cycle sets the job aside. Returns false, without a row,
 * if it does not.
 */
bool
ExplainSetAside(ReturnSetInfo *rsinfo, const SchedCycle *cycle,
				const Job *job)
{
	const SetAside *aside = SetAsideFind(cycle, job->org, job->job);

	if (aside == NULL)
		return false;
	if (aside->reason == SET_ASIDE_PRICE)
		ExplainPut(rsinfo, "price", false, "the next cycle opens its hold anew, "
				   "at today's prices; then it may start");
	else if (aside->reason == SET_ASIDE_ARRAY)
		ExplainPut(rsinfo, "array", false, "as many jobs of its array run, or come "
				   "before it, as \"at_most\" in its options lets run at once");
	else
		ExplainPut(rsinfo, "deadline", false, "its limit reaches beyond its "
				   "deadline: the next cycle cancels it");
	return true;
}
