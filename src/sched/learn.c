/*-------------------------------------------------------------------------
 *
 * learn.c
 *		What a pool learns from what it starts: what its jobs are like, and
 *		what its nodes hold.
 *
 * What jobs are like is counted by request, cpu and memory, each job once, at
 * its first start; those of the last 7 days that way, and those that wait,
 * are what the policy fgd calls typical.  What a node holds is the cache keys
 * of what it started in that time, the latest CACHES_OF_NODE of them.
 *
 * Both tables belong to the pool: only its cycle writes them, under its lock,
 * and what is too old means nothing and is deleted by the cycles that start
 * something.  Both are bounded: REQUESTS_OF_DAY kinds of requests a day, of
 * which the REQUESTS_READ most frequent count.
 *
 * Locks: none beyond the pool's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/clock.h"
#include "common/errors.h"
#include "common/sql.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "types/gpureq.h"
#include "utils/hsearch.h"

#define DAYS			"7"
#define CACHES_OF_NODE	"32"
#define REQUESTS_OF_DAY	"1000"
#define REQUESTS_READ	"256"
#define NAME_SIZE		256		/* of an organisation, a cache key */

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

SQL_STATEMENT(typical_read, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT t.request, t.cpu_milli, t.memory_mib,"
			  " pg_catalog.sum(t.jobs)::bigint"
			  " FROM gpucredit.typical t"
			  " WHERE t.pool = $1 AND t.day > $2 - interval '" DAYS " days'"
			  " GROUP BY t.request, t.cpu_milli, t.memory_mib"
			  " ORDER BY 4 DESC, 1, 2, 3 LIMIT " REQUESTS_READ);
SQL_STATEMENT(typical_count, SPI_OK_INSERT,
			  "text, timestamptz, text[], bigint[], bigint[]",
			  "INSERT INTO gpucredit.typical AS t (pool, day, request,"
			  " cpu_milli, memory_mib, jobs)"
			  " SELECT $1, d.day, u.request::gpucredit.gpureq, u.cpu,"
			  " u.memory, pg_catalog.count(*)"
			  " FROM ROWS FROM (pg_catalog.unnest($3),"
			  "  pg_catalog.unnest($4), pg_catalog.unnest($5))"
			  " AS u (request, cpu, memory),"
			  " (SELECT pg_catalog.date_trunc('day', $2, 'UTC') AS day) d"
			  " WHERE (SELECT pg_catalog.count(*) FROM gpucredit.typical o"
			  "  WHERE o.pool = $1 AND o.day = d.day) < " REQUESTS_OF_DAY
			  " OR EXISTS (SELECT FROM gpucredit.typical o"
			  "  WHERE o.pool = $1 AND o.day = d.day"
			  "  AND o.request OPERATOR(gpucredit.=)"
			  "   u.request::gpucredit.gpureq"
			  "  AND o.cpu_milli = u.cpu AND o.memory_mib = u.memory)"
			  " GROUP BY d.day, 3, u.cpu, u.memory"
			  " ON CONFLICT (pool, day, request, cpu_milli, memory_mib)"
			  " DO UPDATE SET jobs = t.jobs + EXCLUDED.jobs");
SQL_STATEMENT(typical_forget, SPI_OK_DELETE, "text, timestamptz",
			  "DELETE FROM gpucredit.typical t WHERE t.pool = $1"
			  " AND t.day <= $2 - interval '" DAYS " days'");
SQL_STATEMENT(caches_read, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT c.org, c.cache, c.node FROM gpucredit.node_cache c"
			  " WHERE c.pool = $1 AND c.used_at > $2 - interval '" DAYS
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
			  "  AND c.used_at <= $2 - interval '" DAYS " days')"
			  " OR (c.org, c.cache, c.node) IN (SELECT r.org, r.cache, r.node"
			  "  FROM (SELECT o.org, o.cache, o.node,"
			  "   pg_catalog.row_number() OVER (PARTITION BY o.node"
			  "    ORDER BY o.used_at DESC, o.org, o.cache) AS n"
			  "   FROM gpucredit.node_cache o"
			  "   WHERE o.pool = $1 AND o.node = ANY ($3)) r"
			  "  WHERE r.n > " CACHES_OF_NODE ")");

static DecideAsk typical_ask(const Cycle *cycle, const GpuReq *request);
static bool same_kind(const DecideAsk *a, const DecideAsk *b);
static int	add_waiting(const Cycle *cycle, DecideTypical *typical, int n);
static void count_typical(const Cycle *cycle);
static void note_caches(const Cycle *cycle);

/*
 * What the pool's jobs are like, where its policy asks for it.
 */
void
TypicalLoad(Cycle *cycle)
{
	SqlArgs		args = {0};
	SqlResult	rows;
	DecideTypical *typical;
	bool		isnull;
	int			n = 0;

	if (cycle->input.policy.packing != DECIDE_PACKING_FGD)
		return;
	SqlArgText(&args, cycle->pool);
	SqlArgTime(&args, cycle->now);
	rows = CycleRead(cycle, &typical_read, &args);
	typical = palloc(sizeof(DecideTypical) *
					 (rows.n + cycle->input.n_asks + 1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		DecideAsk	ask = typical_ask(cycle, (GpuReq *) PG_DETOAST_DATUM_COPY
									  (SqlDatum(rows, i, 1, &isnull)));

		if (ask.n_offers == 0)
			continue;
		ask.cpu_milli = SqlInt8(rows, i, 2);
		ask.memory_mib = SqlInt8(rows, i, 3);
		typical[n].ask = ask;
		typical[n++].jobs = SqlInt8(rows, i, 4);
	}
	SqlFree(&rows);
	cycle->input.typical = typical;
	cycle->input.n_typical = add_waiting(cycle, typical, n);
}

/*
 * A request as an ask: the types of the pool it accepts, "*" all others.
 */
static DecideAsk
typical_ask(const Cycle *cycle, const GpuReq *request)
{
	const NameTable *types = &cycle->set->types;
	DecideOffer *offers = palloc(sizeof(DecideOffer) * (types->n + 1));
	DecideAsk	ask = {.min_gpus = request->min_gpus,
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
			offers[ask.n_offers++] = (DecideOffer)
			{
				t, alternative->min_memory, false
			};
		}
	}
	return ask;
}

/*
 * Does this make no difference to fragmentation?
 */
static bool
same_kind(const DecideAsk *a, const DecideAsk *b)
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
 * Add the jobs that wait for their first start.
 */
static int
add_waiting(const Cycle *cycle, DecideTypical *typical, int n)
{
	int64	   *waiting = palloc0(sizeof(int64) * (cycle->input.n_asks + 1));

	for (int32 j = 0; j < cycle->input.n_jobs; j++)
		waiting[cycle->jobs[j].ask] += cycle->queued[j].attempt == 0;
	for (int32 a = 0; a < cycle->input.n_asks; a++)
	{
		int			t = 0;

		CHECK_FOR_INTERRUPTS();
		if (waiting[a] == 0)
			continue;
		while (t < n && !same_kind(&typical[t].ask, &cycle->asks[a]))
			t++;
		if (t == n)
			typical[n++] = (DecideTypical)
		{
			cycle->asks[a], 0
		};
		typical[t].jobs += waiting[a];
	}
	return n;
}

/*
 * The number of an organisation's cache key, from 1 on.
 */
int32
CacheIndex(Cycle *cycle, const char *org, const char *cache)
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
 * Which nodes hold what jobs that wait want to find.
 */
void
CachesLoad(Cycle *cycle)
{
	SqlArgs		args = {0};
	SqlResult	rows;
	DecideCached *cached;

	if (cycle->cache_ids == NULL)
		return;
	SqlArgText(&args, cycle->pool);
	SqlArgTime(&args, cycle->now);
	rows = CycleRead(cycle, &caches_read, &args);
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
 * Learn from what the cycle starts.
 */
void
LearnStarts(const Cycle *cycle)
{
	count_typical(cycle);
	note_caches(cycle);
}

/*
 * Count the jobs that start for the first time.
 */
static void
count_typical(const Cycle *cycle)
{
	int			most = cycle->result.n_starts;
	const char **requests = palloc(sizeof(char *) * (most + 1));
	int64	   *amounts = palloc(sizeof(int64) * 2 * (most + 1));
	SqlArgs		args = {0};
	int			n = 0;

	for (int i = 0; i < most; i++)
	{
		int32		job = cycle->result.starts[i].job;
		const DecideAsk *ask = &cycle->asks[cycle->jobs[job].ask];

		if (cycle->queued[job].attempt > 0 || ask->max_gpus == 0)
			continue;
		requests[n] = cycle->queued[job].asked->request;
		amounts[n] = ask->cpu_milli;
		amounts[most + n++] = ask->memory_mib;
	}
	if (n == 0)
		return;
	SqlArgText(&args, cycle->pool);
	SqlArgTime(&args, cycle->now);
	(void) SqlRun(&typical_forget, &args);
	SqlArgTextArray(&args, requests, n);
	SqlArgInt8Array(&args, amounts, n);
	SqlArgInt8Array(&args, amounts + most, n);
	(void) SqlRun(&typical_count, &args);
}

/*
 * Note what the nodes will hold that jobs start on.
 */
static void
note_caches(const Cycle *cycle)
{
	int			most = cycle->result.n_parts;
	const char **texts = palloc(sizeof(char *) * 3 * (most + 1));
	SqlArgs		args = {0};
	SqlArgs		forget = {0};
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
	SqlArgText(&args, cycle->pool);
	SqlArgTime(&args, cycle->now);
	SqlArgTextArray(&args, texts, n);
	SqlArgTextArray(&args, texts + most, n);
	SqlArgTextArray(&args, texts + 2 * most, n);
	(void) SqlRun(&caches_note, &args);
	SqlArgText(&forget, cycle->pool);
	SqlArgTime(&forget, cycle->now);
	SqlArgTextArray(&forget, texts + 2 * most, n);
	(void) SqlRun(&caches_forget, &forget);
}
