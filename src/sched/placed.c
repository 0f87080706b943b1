/*-------------------------------------------------------------------------
 *
 * placed.c
 *		The function placed(): another scheduler reports the devices that
 *		it has chosen for a job.
 *
 * The call is a cycle of the pool with one start, which the caller decided. So
 * the attempt, its price and excess, its quotas and its audit row are those of
 * any other start. Choices that place() would not make are refused only where
 * they would be wrong: a device that another attempt has, a type that was not
 * offered, and a start that costs more than is held. Whether a node is silent
 * or draining is left to the other scheduler.
 *
 * A refusal is an error, so that the same key may be tried again.
 *
 * Locks: request key, the pool's row, the job's row, then the quotas' turns,
 * which it tries to lock for two seconds.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/clock.h"
#include "util/compat.h"
#include "util/errors.h"
#include "util/not_found.h"
#include "util/sql.h"
#include "api/api.h"
#include "inventory/tier_grant.h"
#include "miscadmin.h"
#include "request/request.h"
#include "sched/load/sched_quota.h"
#include "types/clip.h"
#include "types/gpuset.h"
#include "utils/array.h"

API_FUNCTION(gpucredit_placed, placed);

#define QUOTA_TRIES		200
#define QUOTA_PAUSE		10000	/* microseconds */

/* The arguments of the call. */
typedef struct PlacedCall
{
	const char *org;
	int64		job;
	const char **nodes;
	Datum	   *gpus;
	int			n;
	const char *gpu_type;		/* NULL if the type is that of the nodes */
	int64		ran;			/* how long the job has been running; 0 if it
								 * starts now */
	Request		request;
} PlacedCall;

SQL_STATEMENT(job_pool, SPI_OK_SELECT, "text, bigint",
			  "SELECT j.pool, j.submitted_at FROM gpucredit.job j"
			  " WHERE j.org = $1 AND j.job = $2");
SQL_STATEMENT(waits_read, SPI_OK_SELECT, "text, bigint",
			  "SELECT j.held_by, j.after FROM gpucredit.job j"
			  " WHERE j.org = $1 AND j.job = $2");
SQL_STATEMENT(holder_read, SPI_OK_SELECT,
			  "text, text, gpucredit.gpuset",
			  "SELECT d.org, d.job, d.attempt FROM gpucredit.allocated_devices d"
			  " WHERE d.pool = ANY (ARRAY[$1, (SELECT n.pool"
			  "  FROM gpucredit.node n WHERE n.node = $2)])"
			  " AND d.node = $2 AND d.gpus OPERATOR(gpucredit.&&) $3"
			  " ORDER BY d.ended_at NULLS FIRST, d.org, d.job LIMIT 1");

static void parse_call(FunctionCallInfo fcinfo, PlacedCall *call);
static Datum *parse_sets(FunctionCallInfo fcinfo, int n);
static char *lock_job(const PlacedCall *call, TimestampTz *submitted_at);
static void refuse_state(const Job *job);
static int32 find_job(const SchedCycle *cycle, const PlacedCall *call);
static pg_attribute_noreturn() void refuse_waiting(const SchedCycle *cycle,
												   const PlacedCall *call);
static void decide(SchedCycle *cycle, const PlacedCall *call);
static void fill_part(const SchedCycle *cycle, const PlacedCall *call, int i);
static void check_device_free(const SchedCycle *cycle,
							  const PlacedCall *call, int i, int share);
static void check_offered(const SchedCycle *cycle, const PlacedCall *call);
static void lock_quotas(SchedCycle *cycle);
static void check_quotas(const SchedCycle *cycle);
static pg_attribute_noreturn() void refuse(const PlacedCall *call,
										   const char *why, const char *hint);

Datum
call_placed(PG_FUNCTION_ARGS)
{
	PlacedCall	call = {0};
	SchedCycle	cycle = {0};
	Datum		result;
	StartPrice	price;
	TimestampTz submitted_at;

	parse_call(fcinfo, &call);
	SqlConnect();
	if (RequestBegin(&call.request, &result))
		return SqlFinishRow(result);
	cycle.pool = lock_job(&call, &submitted_at);
	CycleBegin(&cycle, 0);
	if (!cycle.foreign)
		refuse(&call, "Its pool is placed by gpucredit.place().",
			   "Set the pool's policy to {\"placed_by\": \"foreign\"}.");
	decide(&cycle, &call);
	lock_quotas(&cycle);

	cycle.now = ClockAfter(cycle.now);
	/* The job cannot have run before it was submitted. */
	cycle.ran = Max(Min(call.ran, cycle.now - submitted_at), 0);
	SchedQuotasCount(&cycle);
	(void) DependentsRelease(&cycle);
	CycleApply(&cycle);
	HoldExcessReturn(cycle.pool);
	PoolCount(cycle.pool);

	price = CyclePrice(&cycle, &cycle.result.starts[0]);
	return SqlFinishRow(RequestFinish(&call.request,
									  VALUES(Int4Value(cycle.queued[cycle.result.starts[0].job].attempt + 1),
											 TextValue(price.gpu_type),
											 NumericValue(price.per_gpu_hour),
											 NumericValue(CycleHeldFor(&cycle,
																	   &cycle.result.starts[0], price.per_hour)),
											 BoolValue(false))));
}

/* Parses the arguments. */
static void
parse_call(FunctionCallInfo fcinfo, PlacedCall *call)
{
	call->org = ArgName(fcinfo, 0, "org");
	call->job = ArgInt8(fcinfo, 1, "job", PG_INT64_MIN, PG_INT64_MAX);
	RequestInit(&call->request, fcinfo, "placed", call->org,
				ArgKey(fcinfo, 2, "key"));
	RequestInt8(&call->request, call->job);
	call->nodes = ArgNames(fcinfo, 3, "nodes", &call->n);
	call->gpus = parse_sets(fcinfo, call->n);
	for (int i = 0; i < call->n; i++)
	{
		RequestText(&call->request, call->nodes[i]);
		RequestInt8(&call->request, (int64) DatumGetGpuSet(call->gpus[i]));
	}
	call->gpu_type = ArgNameOrNull(fcinfo, 5, "gpu_type");
	RequestText(&call->request, call->gpu_type);

	/*
	 * "ran" is no part of the request's fingerprint, because it grows from
	 * try to try.
	 */
	call->ran = ArgDurationOr(fcinfo, 6, "ran", true, 0);
}

/* Parses the argument "gpus": one set of devices for each node. */
static Datum *
parse_sets(FunctionCallInfo fcinfo, int n)
{
	ArrayType  *array;
	Datum	   *sets;
	bool	   *nulls;
	int			count;

	ArgNotNull(fcinfo, 4, "gpus");
	array = PG_GETARG_ARRAYTYPE_P(4);
	deconstruct_array(array, ARR_ELEMTYPE(array), sizeof(GpuSet), true,
					  TYPALIGN_DOUBLE, &sets, &nulls, &count);
	if (n == 0 || count != n || ARR_NDIM(array) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"nodes\" and \"gpus\" must go together"),
				 errdetail("They have %d and %d elements.", n, count),
				 errhint("Pass each node, and its devices alongside.")));
	for (int i = 0; i < count; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("\"gpus\" has a null element"),
					 errdetail("It is element %d.", i + 1),
					 errhint("Pass '{}' for no devices.")));
	}
	return sets;
}

/*
 * Locks the job's pool, then the job, which must be queued with its credit
 * held. Returns the pool, and when the job was submitted.
 */
static char *
lock_job(const PlacedCall *call, TimestampTz *submitted_at)
{
	SqlResult	row;
	char	   *pool;
	Job			job;
	AccountPath path;

	row = SqlRun(&job_pool,
				 VALUES(TextValue(call->org), Int8Value(call->job)));
	if (row.n == 0)
		NotFoundJob(call->job);
	pool = SqlText(row, 0, 1);
	*submitted_at = SqlTime(row, 0, 2);
	PoolLock(pool, false);
	if (!JobLock(call->org, call->job, true, &job))
		NotFoundJob(call->job);
	if (strcmp(job.state, "queued") != 0)
		refuse_state(&job);
	path = AccountParse(job.org, job.account);
	if (!TierAllowed(&path, job.tier))
		refuse(call, "Its account may no longer use its tier.",
			   "Grant it with gpucredit.grant_tier().");
	return pool;
}

/* Raises the error for a job that is not queued and so cannot be placed. */
static void
refuse_state(const Job *job)
{
	if (strcmp(job->state, "active") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_GPUCREDIT_BAD_STATE),
				 errmsg("job %lld runs already", (long long) job->job),
				 errdetail("Its attempt %d is not settled.", job->attempt),
				 errhint("Settle that attempt first.")));
	if (strcmp(job->state, "unfunded") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_GPUCREDIT_BAD_STATE),
				 errmsg("job %lld is unfunded", (long long) job->job),
				 errdetail("No credit is set aside for its next attempt."),
				 errhint("Wait until it is queued again, which happens once "
						 "there is credit.")));
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_BAD_STATE),
			 errmsg("job %lld is over", (long long) job->job),
			 errdetail("It is %s.", job->state),
			 errhint("Reserve another job under another key.")));
}

/* Returns the job's index in the cycle's queue. */
static int32
find_job(const SchedCycle *cycle, const PlacedCall *call)
{
	for (int32 i = 0; i < cycle->input.n_jobs; i++)
	{
		if (cycle->jobs[i].id == call->job &&
			strcmp(cycle->jobs[i].org, call->org) == 0)
			return i;
	}
	refuse_waiting(cycle, call);
}

/* Raises the error for a queued job that may not start, whoever places it. */
static void
refuse_waiting(const SchedCycle *cycle, const PlacedCall *call)
{
	const SetAside *aside = SetAsideFind(cycle, call->org, call->job);
	SqlResult	row;

	if (aside != NULL && aside->reason == SET_ASIDE_PRICE)
		refuse(call, "Its hold is older than the prices that it has to pay.",
			   "Repeat the call after the next gpucredit.place(), which opens "
			   "its hold anew.");
	if (aside != NULL)
		refuse(call, aside->reason == SET_ASIDE_ARRAY ?
			   "As many of its array run as may run at once." :
			   aside->reason == SET_ASIDE_DEADLINE ?
			   "Its limit reaches beyond its deadline." :
			   "What it waits for can never hold.",
			   "Look at gpucredit.explain().");
	row = SqlRun(&waits_read,
				 VALUES(TextValue(call->org), Int8Value(call->job)));
	if (!SqlIsNull(row, 0, 1))
		refuse(call, "It is held.",
			   "Release it with gpucredit.release_job().");
	if (!SqlIsNull(row, 0, 2))
		refuse(call, psprintf("It waits for other jobs: %s.",
							  SqlText(row, 0, 2)),
			   "Repeat the call once they are where they must be.");
	refuse(call, "It waits to be tried again, or an earlier attempt may "
		   "still run.", "Look at gpucredit.explain(), and repeat the call "
		   "when it may start.");
}

/*
 * Builds the scheduler's decision from the placement that the caller has
 * already made, so that the ordinary code can apply it.
 */
static void
decide(SchedCycle *cycle, const PlacedCall *call)
{
	DecideStart *start = palloc0(sizeof(DecideStart));
	const DecideRequestClass *request;

	start->job = find_job(cycle, call);
	request = &cycle->requests[cycle->jobs[start->job].request];
	start->share = request->share;
	start->n_parts = call->n;
	start->type = DECIDE_NO_TYPE;
	cycle->result.starts = start;
	cycle->result.n_starts = 1;
	cycle->result.parts = palloc0(sizeof(DecidePart) * call->n);
	cycle->result.n_parts = call->n;
	for (int i = 0; i < call->n; i++)
		fill_part(cycle, call, i);
	if (start->gpus < request->min_gpus || start->gpus > request->max_gpus)
		refuse(call, psprintf("It asks for %d to %d devices, and has %d "
							  "there.", request->min_gpus, request->max_gpus,
							  start->gpus),
			   "Credit is set aside for what it asks for; place it so.");
	if (start->gpus > 0)
		check_offered(cycle, call);
}

/*
 * Fills in the job's part on one node, after checking that its devices are
 * free.
 */
static void
fill_part(const SchedCycle *cycle, const PlacedCall *call, int i)
{
	DecideStart *start = cycle->result.starts;
	DecidePart *part = &cycle->result.parts[i];
	const DecideRequestClass *request =
	&cycle->requests[cycle->jobs[start->job].request];
	GpuSet		set = DatumGetGpuSet(call->gpus[i]);
	const DecideNode *node;

	check_device_free(cycle, call, i, request->share);
	part->node = NodeIndex(cycle->set, call->nodes[i]);
	if (part->node < 0)
		refuse(call, psprintf("Node \"%s\" is not registered in its pool.",
							  ClipForMessage(call->nodes[i])),
			   "Register it with gpucredit.register_node().");
	node = &cycle->set->nodes[part->node];
	for (int j = 0; j < i; j++)
	{
		if (cycle->result.parts[j].node == part->node)
			refuse(call, psprintf("Node \"%s\" is named twice.",
								  ClipForMessage(call->nodes[i])),
				   "Name each node once, with all its devices.");
	}
	part->devices = set;
	part->gpus = pg_popcount64(set);
	start->gpus += part->gpus;
	if (node->gpus < 64 && set >> node->gpus != 0)
		refuse(call, psprintf("Node \"%s\" has %d devices, and %s are named.",
							  ClipForMessage(call->nodes[i]), node->gpus,
							  GpuSetToCString(set)),
			   "Number a node's devices from 0.");
	if (part->gpus == 0)
		return;
	if (start->type == DECIDE_NO_TYPE)
		start->type = node->type;
	if (start->type != node->type)
		refuse(call, "Its nodes have devices of several types.",
			   "An attempt has one type, as its price is one.");
	if (!DecideFilterAllows(request, part->node))
		refuse(call, psprintf("The job's placement does not allow node "
							  "\"%s\".", ClipForMessage(call->nodes[i])),
			   "Place it on nodes that its \"placement\" in \"options\" "
			   "allows.");
	if (request->per_node > 0 && part->gpus != request->per_node)
		refuse(call, psprintf("The job wants %d devices on each of its nodes, "
							  "and %d of node \"%s\" are named.",
							  request->per_node, part->gpus,
							  ClipForMessage(call->nodes[i])),
			   "Place it as its \"placement\" in \"options\" says.");
	if (node->spot && !request->spot_ok)
		refuse(call, psprintf("Node \"%s\" is a spot node, and the job may "
							  "not be preempted.",
							  ClipForMessage(call->nodes[i])),
			   "Place it on nodes that stay, or reserve it as preemptible.");
}

/*
 * Raises an error for a device that an attempt of this or another pool has,
 * and names that attempt.
 */
static void
check_device_free(const SchedCycle *cycle, const PlacedCall *call, int i,
				  int share)
{
	GpuSet		set = DatumGetGpuSet(call->gpus[i]);
	int32		n = NodeIndex(cycle->set, call->nodes[i]);
	bool		fits = n >= 0;
	SqlResult	row;

	for (int d = 0; d < DECIDE_MAX_DEVICES && fits; d++)
		fits = (set >> d & 1) == 0 || d >= cycle->set->nodes[n].gpus ||
			cycle->set->nodes[n].device_left[d] >= share;
	if (fits)
		return;
	row = SqlRun(&holder_read,
				 VALUES(TextValue(cycle->pool), TextValue(call->nodes[i]),
						DatumValue(GpuSetGetDatum(set))));
	if (row.n == 0 && n < 0)
		return;
	if (row.n == 0)
		refuse(call, psprintf("Devices %s of node \"%s\" are promised to "
							  "another job.", GpuSetToCString(set),
							  ClipForMessage(call->nodes[i])),
			   "Repeat the call once the promise is over.");
	refuse(call, psprintf("Attempt %d of job %lld of \"%s\" has devices of %s "
						  "on node \"%s\".", SqlInt4(row, 0, 3),
						  (long long) SqlInt8(row, 0, 2),
						  ClipForMessage(SqlText(row, 0, 1)),
						  GpuSetToCString(set),
						  ClipForMessage(call->nodes[i])),
		   "Settle that attempt first; repeat the call once its node has "
		   "reported it gone.");
}

/*
 * Checks that the type is one that was offered to the job, as its prices and
 * its hold cover no other type.
 */
static void
check_offered(const SchedCycle *cycle, const PlacedCall *call)
{
	const DecideStart *start = cycle->result.starts;
	const Offers *offers = &cycle->queued[start->job].asked->offers;
	const char *type = cycle->set->types.names[start->type];
	int			o = 0;

	if (call->gpu_type != NULL && strcmp(call->gpu_type, type) != 0)
		refuse(call, psprintf("The nodes have devices of type \"%s\", not "
							  "\"%s\".", ClipForMessage(type),
							  ClipForMessage(call->gpu_type)),
			   "Pass the type that the nodes are registered with.");
	while (o < offers->n && strcmp(offers->types[o], type) != 0)
		o++;
	if (o == offers->n)
		refuse(call, psprintf("Its price is not fixed for type \"%s\".",
							  ClipForMessage(type)),
			   "Name in the request every type it may get.");
	for (int p = 0; p < start->n_parts; p++)
	{
		const DecidePart *part = &cycle->result.parts[p];

		if (part->gpus > 0 && (int128) offers->memory[o] >
			(int128) cycle->set->nodes[part->node].gpu_memory_mib << 20)
			refuse(call, psprintf("Devices of node \"%s\" have less memory "
								  "than it asks for.",
								  ClipForMessage(call->nodes[p])),
				   "Place it on devices with that memory.");
	}
}

/*
 * Locks the turns of the quotas that the start counts under. Retries while
 * another transaction has them locked.
 */
static void
lock_quotas(SchedCycle *cycle)
{
	bool		locked = false;

	(void) SchedQuotasCounted(cycle);
	for (int i = 0; i < QUOTA_TRIES && !locked; i++)
	{
		locked = SchedQuotasLock(cycle);
		if (locked)
			break;
		CHECK_FOR_INTERRUPTS();
		pg_usleep(QUOTA_PAUSE);
	}
	if (!locked)
		ereport(ERROR,
				(errcode(ERRCODE_GPUCREDIT_BAD_STATE),
				 errmsg("a quota of the job is locked elsewhere"),
				 errdetail("A cycle of another pool, or set_quota(), has it "
						   "for two seconds."),
				 errhint("Repeat the call.")));
	check_quotas(cycle);
}

/* Raises an error if the start would exceed a quota. */
static void
check_quotas(const SchedCycle *cycle)
{
	for (int l = 0; l < cycle->n_quotas; l++)
	{
		const SchedQuota *limit = &cycle->quotas[l];
		DecideUse	used = limit->used;
		int			over;

		DecideUseAdd(&used, &limit->elsewhere);
		over = DecideUseOver(&limit->most, &used, &limit->starting);
		if (over >= 0)
			ereport(ERROR,
					(errcode(ERRCODE_GPUCREDIT_BAD_STATE),
					 errmsg("a quota allows no more"),
					 errdetail("The quota of account \"%s\" on %s of type "
							   "\"%s\" is used up.",
							   ClipForMessage(limit->account),
							   SchedLimitedNames[over],
							   *limit->gpu_type == '\0' ? "*" :
							   ClipForMessage(limit->gpu_type)),
					 errhint("Have the job wait until another one that "
							 "counts in the quota is over.")));
	}
}

static void
refuse(const PlacedCall *call, const char *why, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_BAD_STATE),
			 errmsg("job %lld cannot be placed there", (long long) call->job),
			 errdetail_internal("%s", why),
			 errhint("%s", hint)));
}
