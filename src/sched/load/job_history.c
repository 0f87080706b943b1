/*-------------------------------------------------------------------------
 *
 * job_history.c
 *		What a pool learns from its jobs: how long they run, what nodes hold,
 *		what is typical.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/errors.h"
#include "util/sql.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "types/gpureq.h"
#include "utils/hsearch.h"

/* days for which statistics of started jobs count */
#define LEARN_DAYS	"7"

/*
 * How long jobs are expected to run, from earlier ones.
 *
 * A job is expected to run for the 75th percentile of elapsed to wall limit
 * over the last 20 completed attempts of its account and tier.  With fewer
 * than 5, it is expected to use all of its limit.
 *
 * No table keeps this sample: an index over completed jobs by account and
 * tier gives it, so a settlement writes nothing that others wait for.  It is
 * read after a decision, for the jobs that this starts, reserves or claims
 * devices for: it decides nothing, but says when jobs are expected to start
 * and end.  A pool that orders by run time reads it for all jobs, before the
 * first decision.
 */

#define ALL_OF_IT	1000000		/* millionths of the wall limit */

SQL_STATEMENT(ratios_read, SPI_OK_SELECT, "text[], text[], text[]",
			  "SELECT u.n, (SELECT CASE WHEN pg_catalog.count(*) < 5"
			  "  THEN 1000000 ELSE (pg_catalog.array_agg(s.ratio"
			  "  ORDER BY s.ratio))[(pg_catalog.count(*) * 3 + 3) / 4] END"
			  " FROM (SELECT LEAST(1000000, pg_catalog.ceil("
			  "  EXTRACT(epoch FROM a.elapsed - a.overhead) * 1000000"
			  "  / EXTRACT(epoch FROM j.wall_limit)))::bigint AS ratio"
			  "  FROM (SELECT j.org, j.job, j.attempt, j.wall_limit"
			  "   FROM gpucredit.job j WHERE j.org = u.org"
			  "   AND j.account = u.account AND j.tier = u.tier"
			  "   AND j.state = 'completed' AND j.wall_limit IS NOT NULL"
			  "   ORDER BY j.ended_at DESC, j.job DESC LIMIT 20) j"
			  "  JOIN gpucredit.attempt a ON a.org = j.org"
			  "   AND a.job = j.job AND a.attempt = j.attempt) s)"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  "  WITH ORDINALITY AS u (org, account, tier, n)");

/*
 * The ratio of a job's account and tier; 0: not known yet.
 */
static int32 *
ratio_of(const SchedCycle *cycle, const DecideJob *job)
{
	return &cycle->ratios[(Size) job->account * cycle->input.n_tiers +
						  job->tier];
}

/*
 * Read the ratios of n accounts and tiers.
 */
static void
read_ratios(SchedCycle *cycle, const int32 *pairs, int n)
{
	const char **texts = palloc(sizeof(char *) * 3 * n);
	Values		args = {0};
	SqlResult	rows;

	for (int i = 0; i < n; i++)
	{
		const AccountName *name =
		&cycle->account_names[pairs[i] / cycle->input.n_tiers];

		texts[i] = name->org;
		texts[n + i] = name->path;
		texts[2 * n + i] =
			cycle->tier_names[pairs[i] % cycle->input.n_tiers];
	}
	for (int column = 0; column < 3; column++)
		ValuesAdd(&args, TextArrayValue(texts + column * n, n));
	rows = CycleRead(cycle, &ratios_read, &args);
	for (uint64 i = 0; i < rows.n; i++)
		cycle->ratios[pairs[SqlInt8(rows, i, 1) - 1]] =
			Max((int32) SqlInt8(rows, i, 2), 1);
	SqlFree(&rows);
	pfree(texts);
}

/*
 * Note a job's account and tier if their ratio is not known yet.
 */
static int
note_pair(const SchedCycle *cycle, int32 job, int32 *pairs, int n)
{
	int32	   *ratio = ratio_of(cycle, &cycle->jobs[job]);

	if (*ratio != 0)
		return n;
	*ratio = ALL_OF_IT;
	pairs[n] = (int32) (ratio - cycle->ratios);
	return n + 1;
}

/*
 * Allocate the ratios of all accounts and tiers, none known.
 */
static void
ratios_open(SchedCycle *cycle)
{
	if (cycle->ratios == NULL)
		cycle->ratios =
			MemoryContextAllocExtended(CurrentMemoryContext,
									   sizeof(int32) *
									   ((Size) cycle->input.n_accounts *
										cycle->input.n_tiers + 1),
									   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
}

/*
 * A part of a wall limit, at least a second; 0: all of it.
 */
static int64
likely_run(int64 wall_limit, int32 ratio)
{
	int64		run;

	if (ratio == 0 || ratio >= ALL_OF_IT || wall_limit == DECIDE_NEVER)
		return 0;
	run = wall_limit / ALL_OF_IT * ratio +
		(wall_limit % ALL_OF_IT * ratio + ALL_OF_IT - 1) / ALL_OF_IT;
	return Min(Max(run, USECS_PER_SEC), wall_limit);
}

/*
 * Set the likely runs of all jobs by known ratios.
 */
static void
estimate_all(SchedCycle *cycle)
{
	for (int32 j = 0; j < cycle->input.n_jobs; j++)
	{
		DecideJob  *job = &cycle->jobs[j];

		job->likely_run = likely_run(cycle->requests[job->request].wall_limit,
									 *ratio_of(cycle, job));
	}
}

/*
 * Estimate how long the jobs of a decision run.
 */
void
RuntimeEstimateLoad(SchedCycle *cycle)
{
	const DecideResult *result = &cycle->result;
	int32	   *pairs;
	int			n = 0;

	if (result->n_timed == 0)
		return;
	ratios_open(cycle);
	pairs = palloc(sizeof(int32) * result->n_timed);
	for (int i = 0; i < result->n_timed; i++)
		n = note_pair(cycle, result->timed[i], pairs, n);
	if (n > 0)
	{
		read_ratios(cycle, pairs, n);
		estimate_all(cycle);
	}
	pfree(pairs);
}

/*
 * Estimate how long all waiting jobs run, if that orders them.  Jobs without
 * a limit go last.
 */
void
RuntimeEstimateOrder(SchedCycle *cycle)
{
	int32	   *pairs;
	int			n = 0;

	if (cycle->input.policy.order != DECIDE_ORDER_SHORTEST ||
		cycle->input.n_jobs == 0)
		return;
	ratios_open(cycle);
	pairs = palloc(sizeof(int32) * cycle->input.n_jobs);
	for (int32 j = 0; j < cycle->input.n_jobs; j++)
		n = note_pair(cycle, j, pairs, n);
	if (n > 0)
		read_ratios(cycle, pairs, n);
	pfree(pairs);
	estimate_all(cycle);
	for (int32 j = 0; j < cycle->input.n_jobs; j++)
	{
		DecideJob  *job = &cycle->jobs[j];

		job->order_run = job->likely_run > 0 ? job->likely_run :
			cycle->requests[job->request].wall_limit;
	}
}

/*
 * Caches on nodes: the cache keys of jobs that ran there.
 *
 * A node holds the caches of its starts in the last LEARN_DAYS days, the
 * latest CACHES_OF_NODE of them.
 *
 * Only the pool's cycle writes the table, under the pool's lock.  Older rows
 * have no effect; cycles that start something delete them.
 *
 * Locks: none beyond the pool's.
 */

#define CACHES_OF_NODE	"32"
#define NAME_SIZE		256		/* of an organisation or a cache key */

typedef struct CacheKey
{
	char		org[NAME_SIZE];
	char		cache[NAME_SIZE];
} CacheKey;

typedef struct CacheEntry
{
	CacheKey	key;
	int32		id;
} CacheEntry;

SQL_STATEMENT(caches_read, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT c.org, c.cache, c.node FROM gpucredit.node_cache c"
			  " WHERE c.pool = $1 AND c.used_at > $2 - interval '" LEARN_DAYS
			  " days'");
SQL_STATEMENT(caches_note, SPI_OK_INSERT,
			  "text, timestamptz, text[], text[], text[]",
			  "INSERT INTO gpucredit.node_cache AS c (org, cache, node, pool,"
			  " used_at) SELECT DISTINCT u.org, u.cache, u.node, $1, $2"
			  " FROM ROWS FROM (pg_catalog.unnest($3),"
			  "  pg_catalog.unnest($4), pg_catalog.unnest($5))"
			  " AS u (org, cache, node)"
			  " ON CONFLICT (org, cache, node) DO UPDATE"
			  " SET pool = EXCLUDED.pool, used_at = EXCLUDED.used_at");
SQL_STATEMENT(caches_forget, SPI_OK_DELETE, "text, timestamptz, text[]",
			  "DELETE FROM gpucredit.node_cache c"
			  " WHERE (c.pool = $1"
			  "  AND c.used_at <= $2 - interval '" LEARN_DAYS " days')"
			  " OR (c.org, c.cache, c.node) IN (SELECT r.org, r.cache, r.node"
			  "  FROM (SELECT o.org, o.cache, o.node,"
			  "   pg_catalog.row_number() OVER (PARTITION BY o.node"
			  "    ORDER BY o.used_at DESC, o.org, o.cache) AS n"
			  "   FROM gpucredit.node_cache o"
			  "   WHERE o.pool = $1 AND o.node = ANY ($3)) r"
			  "  WHERE r.n > " CACHES_OF_NODE ")");

/*
 * The number of an organisation's cache key, from 1 on.
 */
int32
CacheIndex(SchedCycle *cycle, const char *org, const char *cache)
{
	CacheKey	key;
	CacheEntry *entry;
	bool		found;

	if (cycle->cache_ids == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(CacheKey),
			.entrysize = sizeof(CacheEntry), .hcxt = CurrentMemoryContext};

		cycle->cache_ids = hash_create("gpucredit caches", 64, &control,
									   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	memset(&key, 0, sizeof(key));
	Ensure(strlen(org) < NAME_SIZE && strlen(cache) < NAME_SIZE,
		   "A name is longer than allowed.");
	strcpy(key.org, org);
	strcpy(key.cache, cache);
	entry = hash_search(cycle->cache_ids, &key, HASH_ENTER, &found);
	if (!found)
		entry->id = (int32) hash_get_num_entries(cycle->cache_ids);
	return entry->id;
}

/*
 * Load which nodes hold the caches that waiting jobs want.
 */
void
CacheAffinityLoad(SchedCycle *cycle)
{
	SqlResult	rows;
	DecideCached *cached;

	if (cycle->cache_ids == NULL)
		return;
	rows = CycleRead(cycle, &caches_read,
					 VALUES(TextValue(cycle->pool), TimeValue(cycle->now)));
	cached = MemoryContextAllocHuge(CurrentMemoryContext,
									sizeof(DecideCached) * (rows.n + 1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		CacheKey	key;
		CacheEntry *entry;
		int32		node = NodeIndex(cycle->set, SqlText(rows, i, 3));

		CHECK_FOR_INTERRUPTS();
		memset(&key, 0, sizeof(key));
		strlcpy(key.org, SqlText(rows, i, 1), NAME_SIZE);
		strlcpy(key.cache, SqlText(rows, i, 2), NAME_SIZE);
		entry = hash_search(cycle->cache_ids, &key, HASH_FIND, NULL);
		if (entry != NULL && node >= 0)
			cached[cycle->input.n_cached++] = (DecideCached)
		{
			entry->id, node
		};
	}
	SqlFree(&rows);
	cycle->input.cached = cached;
}

/*
 * Note the caches that nodes will hold after this cycle's starts.
 */
void
CacheAffinityNote(const SchedCycle *cycle)
{
	int			most = cycle->result.n_parts;
	const char **texts = palloc(sizeof(char *) * 3 * (most + 1));
	int			n = 0;

	for (int i = 0; i < cycle->result.n_starts; i++)
	{
		const DecideStart *start = &cycle->result.starts[i];
		const Queued *queued = &cycle->queued[start->job];

		for (int p = 0; p < start->n_parts && queued->cache != NULL; p++)
		{
			const DecidePart *part =
			&cycle->result.parts[start->first_part + p];

			texts[n] = cycle->jobs[start->job].org;
			texts[most + n] = queued->cache;
			texts[2 * most + n++] = cycle->set->nodes[part->node].name;
		}
	}
	if (n == 0)
		return;
	(void) SqlRun(&caches_note,
				  VALUES(TextValue(cycle->pool), TimeValue(cycle->now),
						 TextArrayValue(texts, n),
						 TextArrayValue(texts + most, n),
						 TextArrayValue(texts + 2 * most, n)));
	(void) SqlRun(&caches_forget,
				  VALUES(TextValue(cycle->pool), TimeValue(cycle->now),
						 TextArrayValue(texts + 2 * most, n)));
}

/*
 * The pool's typical jobs, for the policy fgd.
 *
 * Jobs are counted by request, cpu and memory, each once, at its first start.
 * Typical are those of the last LEARN_DAYS days, and waiting jobs.
 *
 * Only the pool's cycle writes the table, under the pool's lock.  Older rows
 * have no effect; cycles that start something delete them.  REQUESTS_OF_DAY
 * kinds of requests a day are counted, and the REQUESTS_READ most frequent
 * are used.
 *
 * Locks: none beyond the pool's.
 */

#define REQUESTS_OF_DAY	"1000"
#define REQUESTS_READ	"256"

SQL_STATEMENT(workload_read, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT t.request, t.cpu_milli, t.memory_mib,"
			  " pg_catalog.sum(t.jobs)::bigint"
			  " FROM gpucredit.workload_mix t"
			  " WHERE t.pool = $1 AND t.day > $2 - interval '" LEARN_DAYS " days'"
			  " GROUP BY t.request, t.cpu_milli, t.memory_mib"
			  " ORDER BY 4 DESC, 1, 2, 3 LIMIT " REQUESTS_READ);
/* known kinds are always counted; the most frequent new kinds fill the rest */
SQL_STATEMENT(workload_count, SPI_OK_INSERT,
			  "text, timestamptz, text[], bigint[], bigint[]",
			  "INSERT INTO gpucredit.workload_mix AS t (pool, day, request,"
			  " cpu_milli, memory_mib, jobs)"
			  " SELECT $1, k.day, k.request, k.cpu, k.memory, k.jobs"
			  " FROM (SELECT c.*, o.pool IS NOT NULL AS known,"
			  "   pg_catalog.row_number() OVER (PARTITION BY o.pool"
			  "    ORDER BY c.jobs DESC, c.request, c.cpu, c.memory) AS nth"
			  "  FROM (SELECT d.day, u.request::gpucredit.gpureq, u.cpu,"
			  "    u.memory, pg_catalog.count(*) AS jobs"
			  "   FROM ROWS FROM (pg_catalog.unnest($3),"
			  "    pg_catalog.unnest($4), pg_catalog.unnest($5))"
			  "    AS u (request, cpu, memory),"
			  "    (SELECT pg_catalog.date_trunc('day', $2, 'UTC') AS day) d"
			  "   GROUP BY d.day, 2, u.cpu, u.memory) c"
			  "  LEFT JOIN gpucredit.workload_mix o ON o.pool = $1"
			  "   AND o.day = c.day"
			  "   AND o.request OPERATOR(gpucredit.=) c.request"
			  "   AND o.cpu_milli = c.cpu AND o.memory_mib = c.memory) k"
			  " WHERE k.known OR k.nth <= " REQUESTS_OF_DAY " -"
			  " (SELECT pg_catalog.count(*) FROM gpucredit.workload_mix o"
			  "  WHERE o.pool = $1 AND o.day = k.day)"
			  " ON CONFLICT (pool, day, request, cpu_milli, memory_mib)"
			  " DO UPDATE SET jobs = t.jobs + EXCLUDED.jobs");
SQL_STATEMENT(workload_forget, SPI_OK_DELETE, "text, timestamptz",
			  "DELETE FROM gpucredit.workload_mix t WHERE t.pool = $1"
			  " AND t.day <= $2 - interval '" LEARN_DAYS " days'");
static DecideRequestClass workload_ask(const SchedCycle *cycle,
									   const GpuReq *request);
static bool same_kind(const DecideRequestClass *a,
					  const DecideRequestClass *b);
static int	add_waiting(const SchedCycle *cycle, DecideWorkload *workloads,
						int n);

/*
 * Load the pool's typical jobs, if its policy needs them.
 */
void
WorkloadMixLoad(SchedCycle *cycle)
{
	SqlResult	rows;
	DecideWorkload *workloads;
	bool		isnull;
	int			n = 0;

	if (cycle->input.policy.packing != DECIDE_PACKING_FGD)
		return;
	rows = CycleRead(cycle, &workload_read,
					 VALUES(TextValue(cycle->pool), TimeValue(cycle->now)));
	workloads = palloc(sizeof(DecideWorkload) *
					   (rows.n + cycle->input.n_requests + 1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		DecideRequestClass class = workload_ask(cycle,
												(GpuReq *) PG_DETOAST_DATUM_COPY
												(SqlDatum(rows, i, 1, &isnull)));

		if (class.n_offers == 0)
			continue;
		class.cpu_milli = SqlInt8(rows, i, 2);
		class.memory_mib = SqlInt8(rows, i, 3);
		workloads[n].request = class;
		workloads[n++].jobs = SqlInt8(rows, i, 4);
	}
	SqlFree(&rows);
	cycle->input.workloads = workloads;
	cycle->input.n_workloads = add_waiting(cycle, workloads, n);
}

/*
 * The request class of a request: the accepted types of the pool; "*" accepts
 * all others.
 */
static DecideRequestClass
workload_ask(const SchedCycle *cycle, const GpuReq *request)
{
	const NameTable *types = &cycle->set->types;
	DecideOffer *offers = palloc(sizeof(DecideOffer) * (types->n + 1));
	DecideRequestClass class = {.min_gpus = request->min_gpus,
		.max_gpus = request->max_gpus, .share = request->share_milli,
		.offers = offers, .wall_limit = DECIDE_NEVER};
	bool	   *taken = palloc0(sizeof(bool) * (types->n + 1));

	for (int a = 0; a < request->nalternatives; a++)
	{
		const GpuReqAlternative *alternative = &request->alternatives[a];
		bool		any = GpuReqAlternativeIsAny(alternative);
		int32		named = any ? -1 : NameFind(types, alternative->name);

		for (int t = any ? 0 : Max(named, 0);
			 t < (any ? types->n : named + 1); t++)
		{
			if (taken[t])
				continue;
			taken[t] = true;
			offers[class.n_offers++] = (DecideOffer)
			{
				t, alternative->min_memory, false, 0
			};
		}
	}
	return class;
}

/*
 * Are two requests the same for fragmentation?
 */
static bool
same_kind(const DecideRequestClass *a, const DecideRequestClass *b)
{
	if (a->min_gpus != b->min_gpus || a->max_gpus != b->max_gpus ||
		a->share != b->share || a->cpu_milli != b->cpu_milli ||
		a->memory_mib != b->memory_mib || a->n_offers != b->n_offers)
		return false;
	for (int i = 0; i < a->n_offers; i++)
	{
		int			j = 0;

		while (j < b->n_offers && (a->offers[i].type != b->offers[j].type ||
								   a->offers[i].min_memory !=
								   b->offers[j].min_memory))
			j++;
		if (j == b->n_offers)
			return false;
	}
	return true;
}

/*
 * Add jobs that wait for their first start.
 */
static int
add_waiting(const SchedCycle *cycle, DecideWorkload *workloads, int n)
{
	int64	   *waiting = palloc0(sizeof(int64) * (cycle->input.n_requests +
												   1));

	for (int32 j = 0; j < cycle->input.n_jobs; j++)
		waiting[cycle->jobs[j].request] += cycle->queued[j].attempt == 0;
	for (int32 a = 0; a < cycle->input.n_requests; a++)
	{
		int			t = 0;

		CHECK_FOR_INTERRUPTS();
		if (waiting[a] == 0)
			continue;
		while (t < n && !same_kind(&workloads[t].request, &cycle->requests[a]))
			t++;
		if (t == n)
			workloads[n++] = (DecideWorkload)
		{
			cycle->requests[a], 0
		};
		workloads[t].jobs += waiting[a];
	}
	return n;
}

/*
 * Count the jobs that start for the first time.
 */
void
WorkloadMixCount(const SchedCycle *cycle)
{
	int			most = cycle->result.n_starts;
	const char **requests = palloc(sizeof(char *) * (most + 1));
	int64	   *amounts = palloc(sizeof(int64) * 2 * (most + 1));
	Values	   *args;
	int			n = 0;

	for (int i = 0; i < most; i++)
	{
		int32		job = cycle->result.starts[i].job;
		const DecideRequestClass *class = &cycle->requests[cycle->jobs[job].request];

		if (cycle->queued[job].attempt > 0 || class->max_gpus == 0)
			continue;
		requests[n] = cycle->queued[job].asked->request;
		amounts[n] = class->cpu_milli;
		amounts[most + n++] = class->memory_mib;
	}
	if (n == 0)
		return;
	args = VALUES(TextValue(cycle->pool), TimeValue(cycle->now));
	(void) SqlRun(&workload_forget, args);
	ValuesAdd(args, TextArrayValue(requests, n), Int8ArrayValue(amounts, n),
			  Int8ArrayValue(amounts + most, n));
	(void) SqlRun(&workload_count, args);
}
