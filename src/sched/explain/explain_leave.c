/*-------------------------------------------------------------------------
 *
 * explain_leave.c
 *		Reports for explain() why a running job must leave, why possible
 *		victims do not leave yet, and which devices are not known to be
 *		free.
 *
 * explain() does not name the job for which another job leaves, because it may
 * be another tenant's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "util/sql.h"
#include "api/tenant.h"
#include "miscadmin.h"
#include "sched/explain/explain.h"

/* The cause of a directive has the node's name after a slash. */
SQL_STATEMENT(previous_read, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT pg_catalog.split_part(d.cause, '/', 1),"
			  " pg_catalog.substr(d.cause,"
			  "  pg_catalog.strpos(d.cause, '/') + 1),"
			  " d.given_at, d.action = 'stop', d.deadline, e.why,"
			  " d.told_at IS NOT NULL, d.starts_at, d.saved_by,"
			  " CASE WHEN a.saved_at >= COALESCE("
			  "  LEAST(d.told_at, d.starts_at), d.given_at)"
			  "  THEN a.saved_at END,"
			  " j.spec ->> 'checkpoint_bytes' IS NOT NULL"
			  "  OR EXISTS (SELECT FROM gpucredit.checkpoint c"
			  "   WHERE c.org = d.org AND c.job = d.job"
			  "   AND c.bad_at IS NULL)"
			  " FROM gpucredit.directive d JOIN gpucredit.job j"
			  "  ON j.org = d.org AND j.job = d.job"
			  " JOIN gpucredit.attempt a ON a.org = d.org"
			  "  AND a.job = d.job AND a.attempt = d.attempt"
			  " LEFT JOIN gpucredit.eviction e"
			  "  ON e.org = d.org AND e.job = d.job"
			  "  AND e.attempt = d.attempt AND d.cause = 'claim'"
			  " WHERE d.org = $1 AND d.job = $2 AND d.attempt = $3"
			  " ORDER BY d.deadline, d.cause");

/*
 * The running attempts on the job's possible nodes that could be evicted for
 * it.
 */
typedef struct Victims
{
	int			ready;			/* number of attempts that could leave now */
	bool	   *is_ready;		/* by running job, whether it could leave now */
	bool		entitled;		/* whether some of them could be evicted by
								 * entitlement */
	int			young;			/* number of attempts still protected by their
								 * tier's min_run */
	TimestampTz first;			/* when the first and the last of the
								 * protected attempts lose that protection */
	TimestampTz last;
	int			leaving;		/* number of attempts that leave already */
} Victims;

static const char *cause_text(SqlResult rows, uint64 i);
static const char *claim_text(const char *why, bool notified);
static const char *turn_text(SqlResult rows, uint64 i);
static bool accepts(const DecideRequestClass *request, int32 type);
static bool serves(const SchedCycle *cycle, const DecideRequestClass *request,
				   const DecideRunning *running);
static const char *ready_text(const SchedCycle *cycle, int32 index,
							  const Victims *victims);
static const char *how_many(int n);
static bool has_right(const SchedCycle *cycle, const DecideJob *job,
					  const DecideRunning *running);
static int32 kept_devices(const SchedCycle *cycle,
						  const DecideRunning *running);
static Victims count_victims(const SchedCycle *cycle, const DecideJob *job);

/* Reports the directives of a live attempt, one row each. */
void
ExplainLeaving(ReturnSetInfo *rsinfo, const char *org, int64 job,
			   int32 attempt)
{
	SqlResult	rows = SqlRead(&previous_read,
							   VALUES(TextValue(org), Int8Value(job),
									  Int4Value(attempt)));

	for (uint64 i = 0; i < rows.n; i++)
	{
		bool		stop = SqlBool(rows, i, 4) || SqlIsNull(rows, i, 5);

		ExplainPut(rsinfo, "leaving", false,
				   psprintf("told at %s to %s: %s",
							ExplainTime(SqlTime(rows, i, 3)),
							stop ? "stop" :
							psprintf("save and be gone by %s",
									 ExplainTime(SqlTime(rows, i, 5))),
							cause_text(rows, i)));
	}
}

/* Returns the cause of a directive in words. */
static const char *
cause_text(SqlResult rows, uint64 i)
{
	const char *cause = SqlText(rows, i, 1);
	const char *node = SqlText(rows, i, 2);

	if (strcmp(cause, "drain") == 0)
		return psprintf("node %s is drained", node);
	if (strcmp(cause, "device") == 0)
		return psprintf("a device of node %s failed", node);
	if (strcmp(cause, "reclaim") == 0)
		return psprintf("a node it runs on is reclaimed by its provider; %s",
						turn_text(rows, i));
	if (strcmp(cause, "cancel") == 0)
		return "it was cancelled";
	return claim_text(SqlText(rows, i, 6), SqlBool(rows, i, 7));
}

/* Returns in words the claim for which the attempt leaves. */
static const char *
claim_text(const char *why, bool notified)
{
	static const char *const whys[][2] = {
		{"tier", "its devices are promised to a job of a more important tier"},
		{"entitlement",
		"its devices are promised to an account that has less than it is entitled to"},
		{"move", "it goes on elsewhere, where devices are promised to it"},
		{"shrink",
		"it goes on with fewer devices, the others are promised to a job ahead of it"},
		{"grow", "it goes on with more devices"}
	};
	const char *text = "the claim it was for is over";

	for (int w = 0; why != NULL && w < (int) lengthof(whys); w++)
	{
		if (strcmp(why, whys[w][0]) == 0)
			text = whys[w][1];
	}
	return psprintf("%s%s", text, notified ? "" :
					"; its agent does not know yet");
}

/*
 * Returns in words whether the attempt's work will be saved before its
 * provider takes the node back.
 */
static const char *
turn_text(SqlResult rows, uint64 i)
{
	const char *turn = SqlIsNull(rows, i, 8) ? "now" :
		psprintf("at %s", ExplainTime(SqlTime(rows, i, 8)));
	bool		notified = SqlBool(rows, i, 7);

	if (!SqlIsNull(rows, i, 10))
		return psprintf("it has saved at %s, since it was told",
						ExplainTime(SqlTime(rows, i, 10)));
	if (!SqlIsNull(rows, i, 9))
		return psprintf("its turn to save comes %s, and it %s to be through "
						"by %s", turn, notified ? "is promised" :
						"will then be promised",
						ExplainTime(SqlTime(rows, i, 9)));
	return psprintf("its turn to save comes %s, without a promise to be "
					"through by then: %s", turn, SqlBool(rows, i, 11) ?
					"no time or bandwidth is left for it" :
					"neither an earlier checkpoint nor \"checkpoint_bytes\" "
					"in its spec tells how much it writes");
}

/*
 * Reports why a job without a claim does not make other jobs leave, though it
 * may preempt. Jobs that may not preempt get no row.
 */
void
ExplainPreemption(ReturnSetInfo *rsinfo, const SchedCycle *cycle, int32 index)
{
	const DecideJob *job = &cycle->jobs[index];
	const DecideTier *tier = &cycle->tiers[job->tier];
	Victims		victims;
	StringInfoData detail;

	if (!tier->can_preempt && !cycle->input.policy.reclaim)
		return;
	victims = count_victims(cycle, job);
	initStringInfo(&detail);
	if (victims.ready + victims.young + victims.leaving == 0)
		appendStringInfoString(&detail, "nothing that runs on what it accepts "
							   "may be made to leave for it");
	if (victims.ready > 0)
		appendStringInfo(&detail, "%s might be made to leave now: %s",
						 how_many(victims.ready),
						 ready_text(cycle, index, &victims));
	if (victims.young > 0)
		appendStringInfo(&detail, "%s%s might be made to leave, "
						 "but not before their tier's min_run is over: from "
						 "%s on, all of them from %s on",
						 detail.len > 0 ? "; " : "", how_many(victims.young),
						 ExplainTime(victims.first),
						 ExplainTime(victims.last));
	if (victims.leaving > 0)
		appendStringInfo(&detail, "%s%s are leaving already",
						 detail.len > 0 ? "; " : "",
						 how_many(victims.leaving));
	ExplainPut(rsinfo, "preemption", false, detail.data);
}

/*
 * Returns "running jobs", with their number unless a tenant calls: a tenant
 * may not know how many jobs of others run.
 */
static const char *
how_many(int n)
{
	return TenantCalls() ? "running jobs" : psprintf("%d running jobs", n);
}

/* Returns in words why possible victims do not leave now. */
static const char *
ready_text(const SchedCycle *cycle, int32 index, const Victims *victims)
{
	const DecideResult *result = &cycle->result;
	bool	   *jobs = MemoryContextAllocExtended(CurrentMemoryContext,
												  sizeof(bool) *
												  (cycle->input.n_jobs + 1),
												  MCXT_ALLOC_HUGE |
												  MCXT_ALLOC_ZERO);
	bool		others = false;
	WouldBe		would;

	if (!ExplainCounterfactual(cycle, index,
							   &(Counterfactual){.running = victims->is_ready,
												   .others = true, .claims = true,
												   .quotas = true}).starts)
		return "not enough for it even if all of them did";
	for (int i = 0; i < result->n_reservations; i++)
	{
		if (result->reservations[i].job != index)
			others = jobs[result->reservations[i].job] = true;
	}
	if (others)
	{
		would = ExplainCounterfactual(cycle, index,
									  &(Counterfactual){.jobs = jobs});
		if (would.starts || would.promised)
			return "what is reserved for other jobs is in the way";
	}
	would = ExplainCounterfactual(cycle, index,
								  &(Counterfactual){.claims = true,
													  .others = true});
	if (would.starts || would.promised)
		return "what is promised to other jobs, or given to those ahead of "
			"it, is in the way";
	return victims->entitled ?
		"its account would have more than it is entitled to, or theirs "
		"have no more than that" :
		"no set of them was found that makes room for it";
}

/*
 * Reports acceptable devices on which no attempt is known to run, but which no
 * heartbeat has reported as free.
 */
void
ExplainKept(ReturnSetInfo *rsinfo, const SchedCycle *cycle, int32 index)
{
	const DecideRequestClass *request = &cycle->requests[cycle->jobs[index].request];
	int64		devices = 0;
	TimestampTz last = DT_NOBEGIN;

	for (int32 i = 0; i < cycle->input.n_running; i++)
	{
		const DecideRunning *running = &cycle->running[i];
		int32		kept;

		CHECK_FOR_INTERRUPTS();
		if (!running->over || !accepts(request, running->type))
			continue;
		kept = kept_devices(cycle, running);
		devices += kept;
		if (kept > 0)
			last = Max(last, running->expected_end);
	}
	if (devices > 0)
		ExplainPut(rsinfo, "kept", false,
				   psprintf("%lld devices are kept from all: what ran there is "
							"over, but its node has not told that it is gone; "
							"they are given out when it does, or from %s on",
							(long long) devices, ExplainTime(last)));
}

/*
 * Counts the devices that an ended attempt still keeps from others. Devices on
 * nodes that accept no new work, and devices out of service, are not counted,
 * because the attempt is not the reason why they cannot be used.
 */
static int32
kept_devices(const SchedCycle *cycle, const DecideRunning *running)
{
	int32		kept = 0;

	for (int32 p = 0; p < running->n_parts; p++)
	{
		const DecidePart *part =
		&cycle->running_parts[running->first_part + p];
		const DecideNode *node = &cycle->set->nodes[part->node];

		if (node->schedulable)
			kept += pg_popcount64(part->devices & node->usable);
	}
	return kept;
}

/* Finds which attempts could be evicted for a job, and when. */
static Victims
count_victims(const SchedCycle *cycle, const DecideJob *job)
{
	const DecideRequestClass *request = &cycle->requests[job->request];
	Victims		victims = {.first = DT_NOEND, .last = DT_NOBEGIN};

	victims.is_ready = MemoryContextAllocExtended(CurrentMemoryContext,
												  sizeof(bool) *
												  (cycle->input.n_running + 1),
												  MCXT_ALLOC_HUGE |
												  MCXT_ALLOC_ZERO);
	for (int32 i = 0; i < cycle->input.n_running; i++)
	{
		const DecideRunning *running = &cycle->running[i];
		TimestampTz from = ClockAdd(running->started,
									cycle->tiers[running->tier].min_run);

		CHECK_FOR_INTERRUPTS();
		if (running->over || !serves(cycle, request, running) ||
			!has_right(cycle, job, running))
			continue;
		if (running->leaving)
			victims.leaving++;
		else if (from <= cycle->now && running->started < cycle->now)
		{
			victims.ready++;
			victims.is_ready[i] = true;
			victims.entitled |= !cycle->tiers[job->tier].can_preempt ||
				cycle->tiers[job->tier].rank >=
				cycle->tiers[running->tier].rank;
		}
		else
		{
			victims.young++;
			victims.first = Min(victims.first, from);
			victims.last = Max(victims.last, from);
		}
	}
	return victims;
}

/* Whether a running job has devices or resources that a request could use. */
static bool
serves(const SchedCycle *cycle, const DecideRequestClass *request,
	   const DecideRunning *running)
{
	int64		floor = 0;
	bool		any = false;

	if (!accepts(request, running->type))
		return false;
	for (int32 o = 0; o < request->n_offers && request->max_gpus > 0; o++)
	{
		if (request->offers[o].type == running->type)
			floor = request->offers[o].min_memory;
	}
	for (int32 p = 0; p < running->n_parts && !any; p++)
	{
		const DecidePart *part =
		&cycle->running_parts[running->first_part + p];
		const DecideNode *node = &cycle->set->nodes[part->node];

		any = node->schedulable && (request->spot_ok || !node->spot) &&
			DecideFilterAllows(request, part->node) &&
			(floor == 0 || node->gpu_memory_mib >= (floor - 1) / (1 << 20) +
			 1);
	}
	return any;
}

/*
 * Whether a request accepts a type. A request without GPUs accepts all nodes.
 */
static bool
accepts(const DecideRequestClass *request, int32 type)
{
	if (request->max_gpus == 0)
		return true;
	for (int32 o = 0; o < request->n_offers; o++)
	{
		if (request->offers[o].type == type)
			return true;
	}
	return false;
}

/*
 * Whether a job may evict a running job: by its tier, or by entitlement if the
 * running job's tier is not more important.
 */
static bool
has_right(const SchedCycle *cycle, const DecideJob *job,
		  const DecideRunning *running)
{
	const DecideTier *tier = &cycle->tiers[job->tier];

	return running->preemptible == DECIDE_PREEMPT_CAPACITY &&
		((tier->can_preempt &&
		  tier->rank < cycle->tiers[running->tier].rank) ||
		 (cycle->input.policy.reclaim &&
		  tier->rank <= cycle->tiers[running->tier].rank &&
		  job->account != running->account));
}
