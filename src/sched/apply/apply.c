/*-------------------------------------------------------------------------
 *
 * apply.c
 *		Applies a decision, one statement for each kind of row.
 *
 * The jobs to start are locked first. Jobs that another transaction has locked
 * are skipped, so a tenant's open transaction delays its own job by a cycle,
 * and nothing else. A start changes no budget and no bucket. The hold covers
 * the most expensive type that the job accepts; the excess is returned
 * separately (HoldExcessReturn()).
 *
 * Locks: job rows, without waiting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/errors.h"
#include "util/settings.h"
#include "util/sql.h"
#include "audit/audit.h"
#include "miscadmin.h"
#include "sched/sched.h"

SQL_STATEMENT(jobs_lock, SPI_OK_SELECT, "text[], bigint[], bigint[]",
			  "SELECT u.n FROM ROWS FROM (pg_catalog.unnest($1),"
			  " pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  " WITH ORDINALITY AS u (org, job, hold, n)"
			  " JOIN gpucredit.job j ON j.org = u.org AND j.job = u.job"
			  " WHERE j.state = 'queued' AND j.hold = u.hold"
			  " AND j.held_by IS NULL"
			  " FOR NO KEY UPDATE OF j SKIP LOCKED");
SQL_STATEMENT(jobs_start, SPI_OK_UPDATE, "text[], bigint[], timestamptz",
			  "UPDATE gpucredit.job j SET state = 'active',"
			  " attempt = j.attempt + 1, not_before = NULL, eligible = true,"
			  " waited = GREATEST($3 - j.waits_from, j.waited),"
			  " waits_from = NULL"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2)) AS u (org, job)"
			  " WHERE j.org = u.org AND j.job = u.job");
/*
 * Inserts attempts. Those with GPUs on one node copy the idle limit of their
 * tier: nobody reports the use of all nodes of a gang, and another scheduler
 * has its own rules for what it placed.
 */
SQL_STATEMENT(attempts_insert, SPI_OK_INSERT,
			  "text[], bigint[], int[], bigint[], text[], int[], int[],"
			  " gpucredit.credits[], gpucredit.credits[], timestamptz,"
			  " interval, timestamptz[], timestamptz, int[],"
			  " gpucredit.credits[], boolean, int[]",
			  "WITH watch AS ("
			  "  INSERT INTO gpucredit.attempt_watch (org, job, attempt,"
			  "   check_at)"
			  "  SELECT u.org, u.job, u.attempt, $10"
			  "  FROM ROWS FROM (pg_catalog.unnest($1),"
			  "   pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  "   AS u (org, job, attempt))"
			  " INSERT INTO gpucredit.attempt (org, job, attempt, account,"
			  " pool, tier, hold, gpu_type, gpus, share, per_gpu_hour, wall_limit,"
			  " hold_window, save_every, save_asked, started_at, heard_at,"
			  " ends_by, billed_share, per_hour, held, surplus, needs_cycle,"
			  " is_foreign, trace, idle_limit, idle_warning)"
			  " SELECT u.org, u.job, u.attempt, j.account, j.pool, j.tier, u.hold,"
			  " u.gpu_type, u.gpus, u.share, u.price, j.wall_limit,"
			  " j.hold_window, NULLIF(COALESCE(j.save_every,"
			  "  CASE WHEN j.preemptible <> 'never' THEN $11 END), '0'),"
			  " j.save_every > '0' IS TRUE, $10, NULLIF($13, $10),"
			  " NULLIF(u.ends_by, 'infinity'), u.billed_share, u.per_hour,"
			  " LEAST(u.held, h.held),"
			  " h.held OPERATOR(gpucredit.-) LEAST(u.held, h.held),"
			  " h.held OPERATOR(gpucredit.>) u.held, $16,"
			  " CASE WHEN j.traceparent ~ '^..-[0-9a-f]{32}-' THEN"
			  "  pg_catalog.substr(j.traceparent, 4, 32)::pg_catalog.uuid END,"
			  " i.idle_limit, i.idle_warning"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2), pg_catalog.unnest($3),"
			  "  pg_catalog.unnest($4), pg_catalog.unnest($5),"
			  "  pg_catalog.unnest($6), pg_catalog.unnest($7),"
			  "  pg_catalog.unnest($8), pg_catalog.unnest($9),"
			  "  pg_catalog.unnest($12), pg_catalog.unnest($14),"
			  "  pg_catalog.unnest($15), pg_catalog.unnest($17))"
			  " AS u (org, job, attempt, hold, gpu_type, gpus, share, price,"
			  "  held, ends_by, billed_share, per_hour, nodes)"
			  " JOIN gpucredit.job j ON j.org = u.org AND j.job = u.job"
			  " LEFT JOIN gpucredit.idle_limit i ON i.tier = j.tier"
			  "  AND u.gpus > 0 AND u.nodes = 1 AND NOT $16"
			  " CROSS JOIN LATERAL (SELECT d.held FROM gpucredit.hold d"
			  "  WHERE d.org = u.org AND d.hold = u.hold OFFSET 0) h");
SQL_STATEMENT(devices_insert, SPI_OK_INSERT,
			  "text, text[], bigint[], int[], text[], gpucredit.gpuset[],"
			  " int[], bigint[], bigint[], int[], int[], timestamptz,"
			  " timestamptz[], timestamptz[], bigint[], int[]",
			  "INSERT INTO gpucredit.attempt_gpu (org, job, attempt, node,"
			  " pool, gpus, share, cpu_milli, memory_mib, account, tier,"
			  " preemptible, min_gpus, max_gpus, started_at, saved_at,"
			  " expected_end, limit_end, gpu_memory_mib, aged, evictions,"
			  " redone)"
			  " SELECT u.org, u.job, u.attempt, u.node, $1, u.gpus, u.share,"
			  " u.cpu_milli, u.memory_mib, j.account, j.tier,"
			  " j.preemptible, u.min_gpus, u.max_gpus, $12, $12,"
			  " u.expected_end, u.limit_end, u.gpu_memory_mib, u.aged > 0,"
			  " e.evictions, e.redone"
			  " FROM ROWS FROM (pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3), pg_catalog.unnest($4),"
			  "  pg_catalog.unnest($5), pg_catalog.unnest($6),"
			  "  pg_catalog.unnest($7), pg_catalog.unnest($8),"
			  "  pg_catalog.unnest($9), pg_catalog.unnest($10),"
			  "  pg_catalog.unnest($11), pg_catalog.unnest($13),"
			  "  pg_catalog.unnest($14), pg_catalog.unnest($15),"
			  "  pg_catalog.unnest($16))"
			  " AS u (org, job, attempt, node, gpus, share, cpu_milli,"
			  "  memory_mib, min_gpus, max_gpus, expected_end, limit_end,"
			  "  gpu_memory_mib, aged)"
			  " JOIN gpucredit.job j ON j.org = u.org AND j.job = u.job"
			  " CROSS JOIN LATERAL (SELECT"
			  "  pg_catalog.count(*)::int AS evictions,"
			  "  COALESCE(pg_catalog.sum(GREATEST('0', a.ended_at"
			  "   - COALESCE(a.saved_at, a.started_at))), '0') AS redone"
			  "  FROM gpucredit.attempt a WHERE u.attempt > 1"
			  "  AND a.org = u.org AND a.job = u.job"
			  "  AND a.outcome = 'preempted' AND a.ended_by <> 'app') e");

static void start_jobs(const SchedCycle *cycle);
static void insert_attempts(const SchedCycle *cycle);
static TimestampTz end_after(const SchedCycle *cycle, const DecideStart *start,
							 int64 run);
static void insert_devices(const SchedCycle *cycle);
static void audit_starts(const SchedCycle *cycle);
static void audit_score(AuditRow *row, const SchedCycle *cycle, int i);
static int32_t domain_of(const DecideNode *node);
static int32_t leaf_of(const DecideNode *node);
static int32_t spine_of(const DecideNode *node);
static int	count_groups(const SchedCycle *cycle, const DecideStart *start,
						 int32_t (*group_of) (const DecideNode *));

/* The queue entries of the job that the i-th start of the decision starts. */
#define START_JOB(cycle, i) (&(cycle)->jobs[(cycle)->result.starts[i].job])
#define START_QUEUED(cycle, i) \
	(&(cycle)->queued[(cycle)->result.starts[i].job])

/*
 * Locks the jobs that are to start. Returns false if the cycle must decide
 * again.
 */
bool
CycleLock(SchedCycle *cycle)
{
	int			n = cycle->result.n_starts;
	int32	   *which = palloc(sizeof(int32) * (n + 1));

	for (int i = 0; i < n; i++)
		which[i] = cycle->result.starts[i].job;
	return CycleLockJobs(cycle, which, n);
}

/*
 * Locks some jobs of the queue. Returns false if some of them have left the
 * queue or are locked elsewhere. These jobs are removed from the cycle, which
 * must then decide again.
 */
bool
CycleLockJobs(SchedCycle *cycle, const int32 *which, int n)
{
	const char **orgs = palloc(sizeof(char *) * (n + 1));
	int64	   *jobs = palloc(sizeof(int64) * (n + 1));
	int64	   *holds = palloc(sizeof(int64) * (n + 1));
	bool	   *drop;
	SqlResult	rows;

	if (n == 0)
		return true;
	drop = palloc0(sizeof(bool) * cycle->input.n_jobs);
	for (int i = 0; i < n; i++)
	{
		orgs[i] = cycle->jobs[which[i]].org;
		jobs[i] = cycle->jobs[which[i]].id;
		holds[i] = cycle->queued[which[i]].hold;
		drop[which[i]] = true;
	}
	rows = SqlRun(&jobs_lock,
				  VALUES(TextArrayValue(orgs, n), Int8ArrayValue(jobs, n),
						 Int8ArrayValue(holds, n)));
	for (uint64 i = 0; i < rows.n; i++)
		drop[which[SqlInt8(rows, i, 1) - 1]] = false;
	if (rows.n == (uint64) n)
		return true;
	SqlFree(&rows);
	CycleDrop(cycle, drop);
	return false;
}

/* Starts the locked jobs. */
void
CycleApply(const SchedCycle *cycle)
{
	if (cycle->result.n_starts == 0)
		return;
	start_jobs(cycle);
	insert_attempts(cycle);
	insert_devices(cycle);
	WorkloadMixCount(cycle);
	CacheAffinityNote(cycle);
	audit_starts(cycle);
}

/*
 * Computes the price of a start: the price of its type, or the spot price if
 * all its nodes are spot nodes. If it has nodes of both kinds, the higher
 * price applies. A share pays for the larger of its thousandths and the part
 * of the device that its memory floor occupies.
 */
StartPrice
CyclePrice(const SchedCycle *cycle, const DecideStart *start)
{
	const Offers *offers = &cycle->queued[start->job].asked->offers;
	const DecideRequestClass *request =
	&cycle->requests[cycle->jobs[start->job].request];
	Credits		resources = cycle->queued[start->job].asked->resources;
	StartPrice	price = {NULL, 0, start->share, resources};
	int			offer = 0;

	if (start->type == DECIDE_NO_TYPE)
		return price;
	price.gpu_type = cycle->set->types.names[start->type];
	while (offer < offers->n &&
		   strcmp(offers->types[offer], price.gpu_type) != 0)
		offer++;
	Ensure(offer < offers->n, "A job got a type it was not offered.");
	for (int p = 0; p < start->n_parts; p++)
	{
		const DecidePart *part =
		&cycle->result.parts[start->first_part + p];

		price.per_gpu_hour = Max(price.per_gpu_hour,
								 cycle->set->nodes[part->node].spot ?
								 offers->spot_prices[offer] :
								 offers->prices[offer]);
		price.share = Max(price.share,
						  OffersShare(start->share,
									  DecideShareFloor(request, start->type),
									  cycle->set->nodes[part->node].gpu_memory_mib));
	}
	price.per_hour = OffersPerHour(price.per_gpu_hour, start->gpus,
								   price.share, resources);
	return price;
}

/* Changes the jobs from queued to active. */
static void
start_jobs(const SchedCycle *cycle)
{
	int			n = cycle->result.n_starts;
	const char **orgs = palloc(sizeof(char *) * n);
	int64	   *jobs = palloc(sizeof(int64) * n);

	for (int i = 0; i < n; i++)
	{
		orgs[i] = START_JOB(cycle, i)->org;
		jobs[i] = START_JOB(cycle, i)->id;
	}
	Ensure(SqlRun(&jobs_start,
				  VALUES(TextArrayValue(orgs, n), Int8ArrayValue(jobs, n),
						 TimeValue(cycle->now))).n == (uint64) n,
		   "A job to start is missing.");
}

/*
 * Inserts an attempt for each start, with its price and the part of the hold
 * that it needs.
 */
static void
insert_attempts(const SchedCycle *cycle)
{
	int			n = cycle->result.n_starts;
	const char **texts = palloc(sizeof(char *) * 2 * n);
	int64	   *ids = palloc(sizeof(int64) * 2 * n);
	int32	   *numbers = palloc(sizeof(int32) * 5 * n);
	Credits    *amounts = palloc(sizeof(Credits) * 3 * n);
	TimestampTz *ends = palloc(sizeof(TimestampTz) * n);

	for (int i = 0; i < n; i++)
	{
		const DecideStart *start = &cycle->result.starts[i];
		StartPrice	price = CyclePrice(cycle, start);

		ends[i] = !start->let_in ? DT_NOEND :
			end_after(cycle, start,
					  cycle->requests[START_JOB(cycle,
												i)->request].wall_limit);
		texts[i] = START_JOB(cycle, i)->org;
		texts[n + i] = price.gpu_type;
		ids[i] = START_JOB(cycle, i)->id;
		ids[n + i] = START_QUEUED(cycle, i)->hold;
		numbers[i] = START_QUEUED(cycle, i)->attempt + 1;
		numbers[n + i] = start->gpus;
		numbers[2 * n + i] = start->share;
		numbers[3 * n + i] = price.share;
		numbers[4 * n + i] = start->n_parts;
		amounts[i] = price.per_gpu_hour;
		amounts[n + i] = CycleHeldFor(cycle, start, price.per_hour);
		amounts[2 * n + i] = price.per_hour;
	}

	/*
	 * If placed() reports a job that has been running, its attempt starts in
	 * the past, and the instant of the report counts as its first sign of
	 * life.
	 */
	Ensure(SqlRun(&attempts_insert,
				  VALUES(TextArrayValue(texts, n), Int8ArrayValue(ids, n),
						 Int4ArrayValue(numbers, n),
						 Int8ArrayValue(ids + n, n),
						 TextArrayValue(texts + n, n),
						 Int4ArrayValue(numbers + n, n),
						 Int4ArrayValue(numbers + 2 * n, n),
						 CreditsArrayValue(amounts, n),
						 CreditsArrayValue(amounts + n, n),
						 TimeValue(ClockAdd(cycle->now, -cycle->ran)),
						 DurationValue(SettingCheckpointEvery()),
						 TimeArrayValue(ends, n),
						 TimeValue(cycle->now),
						 Int4ArrayValue(numbers + 3 * n, n),
						 CreditsArrayValue(amounts + 2 * n, n),
						 BoolValue(cycle->foreign),
						 Int4ArrayValue(numbers + 4 * n, n))).n == (uint64) n,
		   "A job to start has no hold.");
}

/* Returns the part of its job's hold that an attempt needs at this price. */
Credits
CycleHeldFor(const SchedCycle *cycle, const DecideStart *start,
			 Credits per_hour)
{
	const QueuedRequest *asked = cycle->queued[start->job].asked;

	return CreditsHoldWithin(per_hour, 1, SHARE_WHOLE,
							 OffersHeldFor(asked->wall_limit,
										   asked->hold_window),
							 PG_INT64_MAX);
}

/*
 * Returns when a start that runs this long ends, or DT_NOEND if it has no
 * limit. A start that was let in before a reservation of its devices must end
 * before that reservation begins, so its end is counted from the instant of
 * the load.
 */
static TimestampTz
end_after(const SchedCycle *cycle, const DecideStart *start, int64 run)
{
	TimestampTz from = ClockAdd(start->let_in ? cycle->input.now : cycle->now,
								-cycle->ran);

	return run >= DECIDE_NEVER - from ? DT_NOEND : from + run;
}

/* Inserts one row for each node of each start. */
static void
insert_devices(const SchedCycle *cycle)
{
	int			n = cycle->result.n_parts;
	const char **texts = palloc(sizeof(char *) * 2 * n);
	int64	   *numbers = palloc(sizeof(int64) * 4 * n);
	int32	   *small = palloc(sizeof(int32) * 5 * n);
	TimestampTz *times = palloc(sizeof(TimestampTz) * 2 * n);
	Datum	   *sets = palloc(sizeof(Datum) * n);

	for (int i = 0; i < cycle->result.n_starts; i++)
	{
		const DecideStart *start = &cycle->result.starts[i];
		const DecideJob *job = START_JOB(cycle, i);
		const DecideRequestClass *request = &cycle->requests[job->request];
		int64		wall_limit = request->wall_limit;

		for (int p = start->first_part; p < start->first_part + start->n_parts;
			 p++)
		{
			const DecidePart *part = &cycle->result.parts[p];

			texts[p] = job->org;
			texts[n + p] = cycle->set->nodes[part->node].name;
			numbers[p] = job->id;
			numbers[n + p] = part->cpu_milli;
			numbers[2 * n + p] = part->memory_mib;
			numbers[3 * n + p] = DecideShareFloor(request, start->type);
			small[p] = START_QUEUED(cycle, i)->attempt + 1;
			small[n + p] = start->share;
			small[2 * n + p] = START_QUEUED(cycle, i)->asked->min_gpus;
			small[3 * n + p] = START_QUEUED(cycle, i)->asked->max_gpus;
			small[4 * n + p] = cycle->now > job->aged_at;
			times[p] = end_after(cycle, start, job->likely_run > 0 ?
								 job->likely_run : wall_limit);
			times[n + p] = end_after(cycle, start, wall_limit);
			sets[p] = GpuSetGetDatum(part->devices);
		}
	}
	(void) SqlRun(&devices_insert,
				  VALUES(TextValue(cycle->pool), TextArrayValue(texts, n),
						 Int8ArrayValue(numbers, n), Int4ArrayValue(small, n),
						 TextArrayValue(texts + n, n),
						 ArrayValue(sets, NULL, n,
									SqlTypeOid("gpucredit.gpuset")),
						 Int4ArrayValue(small + n, n),
						 Int8ArrayValue(numbers + n, n),
						 Int8ArrayValue(numbers + 2 * n, n),
						 Int4ArrayValue(small + 2 * n, n),
						 Int4ArrayValue(small + 3 * n, n),
						 TimeValue(ClockAdd(cycle->now, -cycle->ran)),
						 TimeArrayValue(times, n),
						 TimeArrayValue(times + n, n),
						 Int8ArrayValue(numbers + 3 * n, n),
						 Int4ArrayValue(small + 4 * n, n)));
}

/* Writes one row of the audit log for each start. */
static void
audit_starts(const SchedCycle *cycle)
{
	int			n = cycle->result.n_starts;
	AuditRow   *rows = palloc0(sizeof(AuditRow) * n);

	for (int i = 0; i < n; i++)
	{
		const DecideStart *start = &cycle->result.starts[i];
		StartPrice	price = CyclePrice(cycle, start);
		AuditRow   *row = &rows[i];

		CHECK_FOR_INTERRUPTS();
		row->org = START_JOB(cycle, i)->org;
		row->account = START_QUEUED(cycle, i)->account;
		row->operation = "place";
		row->decision = "start";
		row->hold = START_QUEUED(cycle, i)->hold;
		row->job = START_JOB(cycle, i)->id;
		row->attempt = START_QUEUED(cycle, i)->attempt + 1;
		row->at = cycle->now;
		AuditText(row, "nodes",
				  CycleNodes(cycle, &cycle->result.parts[start->first_part],
							 start->n_parts));
		AuditText(row, "gpu_type", price.gpu_type);
		AuditInt8(row, "gpus", start->gpus);
		AuditInt8(row, "share", start->share);
		AuditCredits(row, "per_gpu_hour", price.per_gpu_hour);
		if (price.share != start->share)
			AuditInt8(row, "billed_share", price.share);
		if (START_QUEUED(cycle, i)->asked->resources > 0)
			AuditCredits(row, "per_hour", price.per_hour);
		AuditInt8(row, "turn", i + 1);
		audit_score(row, cycle, i);
	}
	JobTraces(rows, n);
	AuditWriteMany(rows, n);
}

/*
 * Adds to the audit row why a job started then and there: its time in the
 * queue, whether it was aged, and the criteria of placement, in their order.
 */
static void
audit_score(AuditRow *row, const SchedCycle *cycle, int i)
{
	const DecideStart *start = &cycle->result.starts[i];
	const DecideJob *job = START_JOB(cycle, i);

	AuditInt8(row, "waited_us",
			  Max(cycle->now - START_QUEUED(cycle, i)->waits_from, 0));
	if (job->aged_at < cycle->input.now)
		AuditNumber(row, "aged", "true");
	if (start->type == DECIDE_NO_TYPE)
		return;
	AuditNumber(row, "score",
				psprintf("{\"domains\":%d,\"leaves\":%d,%s\"nodes\":%d,"
						 "\"fit\":%lld}", count_groups(cycle, start, domain_of),
						 count_groups(cycle, start, leaf_of),
						 cycle->set->spines.n == 0 ? "" :
						 psprintf("\"spines\":%d,",
								  count_groups(cycle, start, spine_of)),
						 start->n_parts, (long long) start->fit));
}

static int32_t
domain_of(const DecideNode *node)
{
	return node->domain;
}

static int32_t
leaf_of(const DecideNode *node)
{
	return node->leaf;
}

/* Nodes whose spine is not known count as below one spine. */
static int32_t
spine_of(const DecideNode *node)
{
	return node->spine == DECIDE_NO_SPINE ? PG_INT32_MAX : node->spine;
}

/*
 * Returns the number of different NVLink domains, leaf switches or spines that
 * a start uses.
 */
static int
count_groups(const SchedCycle *cycle, const DecideStart *start,
			 int32_t (*group_of) (const DecideNode *))
{
	const DecidePart *parts = &cycle->result.parts[start->first_part];
	const DecideNode *nodes = cycle->set->nodes;
	int			n = 0;

	for (int p = 0; p < start->n_parts; p++)
	{
		int32_t		group = group_of(&nodes[parts[p].node]);
		int			q = 0;

		CHECK_FOR_INTERRUPTS();
		while (group != DECIDE_OWN_GROUP && q < p &&
			   group != group_of(&nodes[parts[q].node]))
			q++;
		n += group == DECIDE_OWN_GROUP || q == p;
	}
	return n;
}

/* Formats the nodes and devices of parts, for example "n1{0-7} n2{0-3}". */
char *
CycleNodes(const SchedCycle *cycle, const DecidePart *parts, int n)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int p = 0; p < n; p++)
		appendStringInfo(&text, "%s%s%s", text.len > 0 ? " " : "",
						 cycle->set->nodes[parts[p].node].name,
						 GpuSetToCString(parts[p].devices));
	return text.data;
}
