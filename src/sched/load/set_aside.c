/*-------------------------------------------------------------------------
 *
 * set_aside.c
 *		Finds eligible jobs that take no part in a cycle, and cancels
 *		waiting jobs that can never start.
 *
 * An array with "at_most" takes part with as many jobs as may run beside those
 * that already run, chosen by priority, submission and number. Its other jobs
 * neither start nor have a reservation. An array's limit counts in one pool,
 * whose lock the cycle has, so two cycles never start one too many. Where
 * another scheduler places, that scheduler chooses which jobs of an array
 * start, up to "at_most".
 *
 * A job whose wall limit would reach beyond its deadline is cancelled. So is a
 * job whose dependency can never hold, if it was submitted with that wish.
 *
 * Locks, all without waiting: job, hold, buckets.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "utils/timestamp.h"

#define END_MOST	1000		/* number of jobs that one cycle cancels at
								 * most */

SQL_STATEMENT(active_count, SPI_OK_SELECT, "text[], text[], text[], text",
			  "SELECT u.n, (SELECT pg_catalog.count(*)"
			  "  FROM gpucredit.job m WHERE m.org = u.org"
			  "  AND m.account = u.account AND m.array_key = u.array_key"
			  "  AND m.state = 'active' AND m.pool = $4)"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  "  WITH ORDINALITY AS u (org, account, array_key, n)");

/*
 * The conditions are repeated because the job may have changed since it was
 * loaded.
 */
SQL_STATEMENT(ending_lock, SPI_OK_SELECT,
			  "text, bigint, timestamptz, boolean",
			  "SELECT 1 FROM gpucredit.job j WHERE j.org = $1 AND j.job = $2"
			  " AND j.held_by IS NULL AND CASE WHEN $4 THEN"
			  "  j.deadline <= $3 + COALESCE(j.wall_limit, '0')"
			  "  ELSE j.after IS NOT NULL END"
			  " FOR NO KEY UPDATE SKIP LOCKED");

static void limit_arrays(SchedCycle *cycle, bool *drop);
static int	compare_arrays(const void *a, const void *b, void *arg);
static int	compare_members(const void *a, const void *b, void *arg);
static int64 *count_active(const SchedCycle *cycle, const int32 *members,
						   int n);
static void check_deadlines(SchedCycle *cycle, bool *drop);
static bool end_one(const SchedCycle *cycle, const SetAside *aside);

/* Notes that a job takes no part in the cycle. */
void
SetAsideAdd(SchedCycle *cycle, const char *org, int64 job,
			SetAsideReason reason, bool ends)
{
	if (cycle->n_set_aside == cycle->max_set_aside)
	{
		cycle->max_set_aside = Max(64, cycle->max_set_aside * 2);
		cycle->set_aside = cycle->set_aside == NULL ?
			palloc(sizeof(SetAside) * cycle->max_set_aside) :
			repalloc_huge(cycle->set_aside,
						  sizeof(SetAside) * cycle->max_set_aside);
	}
	cycle->set_aside[cycle->n_set_aside++] = (SetAside)
	{
		org, job, reason, ends
	};
}

/* Returns why a job takes no part, or NULL if it is not set aside. */
const SetAside *
SetAsideFind(const SchedCycle *cycle, const char *org, int64 job)
{
	for (int i = 0; i < cycle->n_set_aside; i++)
	{
		if (cycle->set_aside[i].job == job &&
			strcmp(cycle->set_aside[i].org, org) == 0)
			return &cycle->set_aside[i];
	}
	return NULL;
}

/*
 * Returns the entry that was added last if it belongs to this job, else NULL.
 */
const SetAside *
SetAsideLast(const SchedCycle *cycle, int64 job)
{
	const SetAside *last = cycle->n_set_aside > 0 ?
		&cycle->set_aside[cycle->n_set_aside - 1] : NULL;

	return last != NULL && last->job == job ? last : NULL;
}

/*
 * Removes from the cycle the jobs that may not start, whatever devices are
 * free.
 */
void
SetAsideLoad(SchedCycle *cycle)
{
	int			before = cycle->n_set_aside;
	bool	   *drop;

	if (cycle->input.n_jobs == 0)
		return;
	drop = MemoryContextAllocExtended(CurrentMemoryContext, sizeof(bool) *
									  cycle->input.n_jobs,
									  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	check_deadlines(cycle, drop);
	limit_arrays(cycle, drop);
	ReholdFind(cycle, drop);
	if (cycle->n_set_aside > before)
		CycleDrop(cycle, drop);
	pfree(drop);
}

/*
 * Removes the jobs that could not end by their deadline, and marks them to be
 * cancelled.
 */
static void
check_deadlines(SchedCycle *cycle, bool *drop)
{
	for (int32 j = 0; j < cycle->input.n_jobs; j++)
	{
		const Queued *queued = &cycle->queued[j];

		if (queued->deadline == DT_NOEND ||
			ClockAdd(cycle->now, Max(queued->asked->wall_limit, 0)) <=
			queued->deadline)
			continue;
		drop[j] = true;
		SetAsideAdd(cycle, cycle->jobs[j].org, cycle->jobs[j].id,
					SET_ASIDE_DEADLINE, true);
	}
}

/*
 * Removes the jobs of each array that exceed what its "at_most" still allows.
 */
static void
limit_arrays(SchedCycle *cycle, bool *drop)
{
	int32	   *members = MemoryContextAllocHuge(CurrentMemoryContext,
												 sizeof(int32) *
												 cycle->input.n_jobs);
	int64	   *active;
	int64		running = 0;
	int			n = 0;
	int			array = -1;

	for (int32 j = 0; j < cycle->input.n_jobs; j++)
	{
		if (cycle->queued[j].array != NULL && !drop[j])
			members[n++] = j;
	}
	if (n == 0)
		return;
	qsort_arg(members, n, sizeof(int32), compare_members, cycle);
	active = count_active(cycle, members, n);
	for (int i = 0; i < n; i++)
	{
		const Queued *queued = &cycle->queued[members[i]];

		if (i == 0 || compare_arrays(&members[i - 1], &members[i],
									 cycle) != 0)
			running = active[++array];
		if ((cycle->foreign ? running : running++) < queued->at_most)
			continue;
		drop[members[i]] = true;
		SetAsideAdd(cycle, cycle->jobs[members[i]].org,
					cycle->jobs[members[i]].id, SET_ASIDE_ARRAY, false);
	}
}

/*
 * Counts how many jobs of each array run in the pool. The result is ordered as
 * the arrays are in members.
 */
static int64 *
count_active(const SchedCycle *cycle, const int32 *members, int n)
{
	const char **orgs = palloc(sizeof(char *) * n);
	const char **accounts = palloc(sizeof(char *) * n);
	const char **arrays = palloc(sizeof(char *) * n);
	int64	   *active = palloc0(sizeof(int64) * n);
	SqlResult	rows;
	int			kinds = 0;

	for (int i = 0; i < n; i++)
	{
		if (i > 0 && compare_arrays(&members[i - 1], &members[i],
									(void *) cycle) == 0)
			continue;
		orgs[kinds] = cycle->jobs[members[i]].org;
		accounts[kinds] = cycle->queued[members[i]].account;
		arrays[kinds++] = cycle->queued[members[i]].array;
	}
	rows = CycleRead(cycle, &active_count,
					 VALUES(TextArrayValue(orgs, kinds),
							TextArrayValue(accounts, kinds),
							TextArrayValue(arrays, kinds),
							TextValue(cycle->pool)));
	for (uint64 i = 0; i < rows.n; i++)
		active[SqlInt8(rows, i, 1) - 1] = SqlInt8(rows, i, 2);
	SqlFree(&rows);
	return active;
}

static int
compare_arrays(const void *a, const void *b, void *arg)
{
	const SchedCycle *cycle = arg;
	int32		x = *(const int32 *) a;
	int32		y = *(const int32 *) b;
	int			order = strcmp(cycle->jobs[x].org, cycle->jobs[y].org);

	if (order == 0)
		order = strcmp(cycle->queued[x].account, cycle->queued[y].account);
	return order != 0 ? order : strcmp(cycle->queued[x].array,
									   cycle->queued[y].array);
}

/*
 * Orders jobs by (1) array, (2) higher priority, (3) earlier submission, (4)
 * number.
 */
static int
compare_members(const void *a, const void *b, void *arg)
{
	const SchedCycle *cycle = arg;
	const DecideJob *x = &cycle->jobs[*(const int32 *) a];
	const DecideJob *y = &cycle->jobs[*(const int32 *) b];
	int			order = compare_arrays(a, b, arg);

	if (order != 0)
		return order;
	if (x->priority != y->priority)
		return x->priority > y->priority ? -1 : 1;
	if (x->submitted != y->submitted)
		return x->submitted < y->submitted ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/*
 * Cancels the jobs that were marked to be cancelled, and returns how many
 * were.
 */
uint64
SetAsideEnd(const SchedCycle *cycle)
{
	uint64		ended = 0;
	int			tried = 0;

	for (int i = 0; i < cycle->n_set_aside; i++)
	{
		SetAside   *aside = &cycle->set_aside[i];

		if (!aside->ends)
			continue;
		CHECK_FOR_INTERRUPTS();
		aside->ends = tried++ < END_MOST && end_one(cycle, aside);
		ended += aside->ends;
	}
	return ended;
}

/*
 * Cancels one job as cancel() does. If a row that this needs is locked, a
 * later cycle cancels the job. Returns whether the job was cancelled.
 */
static bool
end_one(const SchedCycle *cycle, const SetAside *aside)
{
	Job			job;
	Hold		hold;
	Returned	returned;
	Cause		cause = {"cancel", aside->job, 0};
	AuditRow	audit = {.org = aside->org, .operation = "cancel",
		.decision = "cancelled", .job = aside->job,
		.reason = aside->reason == SET_ASIDE_DEADLINE ? "deadline" :
		"dependency"};

	if (SqlRun(&ending_lock,
			   VALUES(TextValue(aside->org), Int8Value(aside->job),
					  TimeValue(cycle->now),
					  BoolValue(aside->reason == SET_ASIDE_DEADLINE))).n == 0 ||
		!JobLock(aside->org, aside->job, false, &job) ||
		strcmp(job.state, "queued") != 0 ||
		!HoldLock(job.org, job.hold, false, &hold) || !HoldIsOpen(&hold) ||
		HoldTryRelease(&hold, &cause, &returned, &audit.at) != LEDGER_DONE)
		return false;
	audit.account = job.account;
	audit.trace = job.trace;
	audit.hold = job.hold;
	AuditCredits(&audit, "released", returned.released);
	AuditCredits(&audit, "lapsed", returned.lapsed);
	JobSetState(&job, "cancelled", job.hold, job.failures, DT_NOBEGIN,
				audit.at);
	JobDropClaim(&job);
	AuditWrite(&audit);
	return true;
}

/* Returns one row for each job that the cycle cancels. */
void
SetAsidePut(ReturnSetInfo *rsinfo, const SchedCycle *cycle)
{
	for (int i = 0; i < cycle->n_set_aside; i++)
	{
		const SetAside *aside = &cycle->set_aside[i];
		Values	   *row;

		if (!aside->ends)
			continue;
		row = VALUES(TextValue("cancel"), TextValue(aside->org),
					 Int8Value(aside->job));
		for (int c = 3; c < 9; c++)
			ValuesAdd(row, NullValue());
		ValuesAdd(row, TextValue(aside->reason == SET_ASIDE_DEADLINE ?
								 "deadline" : "dependency"));
		if (cycle->hypothetical != NULL)
			ValuesAdd(row, NullValue());
		RowPut(rsinfo, row);
	}
}

/*
 * Returns the name of a reason to set a job aside, as plan_with() and quote()
 * report it.
 */
const char *
SetAsideName(SetAsideReason reason)
{
	static const char *const names[] = {
		[SET_ASIDE_ARRAY] = "array",
		[SET_ASIDE_DEADLINE] = "deadline",
		[SET_ASIDE_NEVER] = "dependency that can never hold",
		[SET_ASIDE_PRICE] = "price",
		[SET_ASIDE_DEPENDENCY] = "dependency",
		[SET_ASIDE_BEGIN] = "begin",
		[SET_ASIDE_HELD] = "hold"
	};

	return names[reason];
}
