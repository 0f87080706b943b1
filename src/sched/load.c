/*-------------------------------------------------------------------------
 *
 * load.c
 *		What a scheduling cycle decides on: nodes, what is taken, the queue.
 *
 * Each is read by a statement of its own after the pool's lock, and joined
 * here.  Nothing is kept from one cycle to the next.
 *
 * Jobs that ask the same share an ask: what a job asks is compared as the
 * bytes of its columns, and only the first job of each ask is taken apart.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/args.h"
#include "common/clock.h"
#include "common/errors.h"
#include "common/hashfn.h"
#include "common/settings.h"
#include "common/sql.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

/* The asks so far, chained by hash. */
typedef struct AskEntry
{
	uint32		hash;			/* key */
	int32		first;			/* the newest ask of that hash */
} AskEntry;

typedef struct Asks
{
	int			n;
	int			size;
	DecideAsk  *asks;
	Queued	   *shared;			/* offers of each ask */
	uint64	   *rows;			/* the row of each ask's first job */
	int32	   *next;			/* chain */
	HTAB	   *by_hash;
} Asks;

SQL_STATEMENT(taken_read, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT g.node, g.gpus, g.share, g.cpu_milli, g.memory_mib,"
			  " g.ended_at IS NOT NULL AND GREATEST(g.ended_at, g.seen_at) <= $2"
			  " FROM gpucredit.attempt_gpu g"
			  " WHERE g.pool = $1 AND NOT g.free");
SQL_STATEMENT(fences_end, SPI_OK_UPDATE, "text, timestamptz",
			  "UPDATE gpucredit.attempt_gpu g SET free = true"
			  " FROM (SELECT f.ctid AS tid FROM gpucredit.attempt_gpu f"
			  "  WHERE f.pool = $1 AND NOT f.free AND "
			  "  GREATEST(f.ended_at, f.seen_at) <= $2"
			  "  FOR NO KEY UPDATE SKIP LOCKED) f"
			  " WHERE g.ctid = f.tid");
SQL_STATEMENT(queue_read, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT j.org, j.job, j.account, j.tier, j.priority,"
			  " j.submitted_at, j.hold, j.attempt, j.cache," ASK_COLUMNS
			  ", j.waits_from"
			  " FROM gpucredit.job j"
			  " WHERE j.pool = $1 AND j.state = 'queued'"
			  " AND (j.not_before IS NULL OR j.not_before <= $2)");

static void take_off(Cycle *cycle);
static void load_queue(Cycle *cycle);
static int32 find_ask(const Cycle *cycle, Asks *asks, SqlResult rows,
					  uint64 i);
static uint32 hash_ask(SqlResult rows, uint64 i);
static bool same_ask(SqlResult rows, uint64 i, uint64 j);
static void add_ask(const Cycle *cycle, Asks *asks, SqlResult rows, uint64 i);
static const char *share_text(const char *previous, char *text);

/*
 * Load all that a cycle decides on.
 */
void
CycleLoad(Cycle *cycle)
{
	cycle->input.now = cycle->now;
	cycle->set = NodesLoad(cycle->pool, cycle->read_only);
	SupposeNodes(cycle);
	take_off(cycle);
	ShareBegin(cycle);
	load_queue(cycle);
	SupposeJobs(cycle);
	TypicalLoad(cycle);
	CachesLoad(cycle);
	RunningLoad(cycle);
	ClaimsLoad(cycle);
	ElasticLoad(cycle);
	if (cycle->input.n_jobs > 0)
		UsageLoad(cycle);
	ShareLoad(cycle);
	CycleLearnOrder(cycle);
	cycle->input.nodes = cycle->set->nodes;
	cycle->input.n_nodes = cycle->set->n;
}

/*
 * Run a statement that reads, in a snapshot of its own where that is allowed.
 */
SqlResult
CycleRead(const Cycle *cycle, SqlStatement *statement, SqlArgs *args)
{
	return cycle->read_only ? SqlRead(statement, args) :
		SqlRun(statement, args);
}

/*
 * Take off the nodes what live attempts have, and what attempts had that are
 * over but not fenced yet.  Fences that have run out are taken down.
 */
static void
take_off(Cycle *cycle)
{
	SqlArgs		args = {0};
	SqlResult	rows;
	bool		run_out = false;

	SqlArgText(&args, cycle->pool);
	SqlArgTime(&args, ClockAdd(cycle->now, -SettingNodeLost()));
	rows = CycleRead(cycle, &taken_read, &args);
	for (uint64 i = 0; i < rows.n; i++)
	{
		bool		isnull;
		char	   *name = SqlText(rows, i, 1);
		int32		index = NodeIndex(cycle->set, name);
		GpuSet		gpus = DatumGetGpuSet(SqlDatum(rows, i, 2, &isnull));
		int32		share = SqlInt4(rows, i, 3);
		DecideNode *node;

		CHECK_FOR_INTERRUPTS();
		pfree(name);
		if (SqlBool(rows, i, 6))
			run_out = true;
		if (index < 0 || SqlBool(rows, i, 6))
			continue;
		node = &cycle->set->nodes[index];
		for (int d = 0; d < node->gpus; d++)
		{
			if (gpus & ((GpuSet) 1 << d))
				node->device_left[d] -= Min(node->device_left[d], share);
		}
		if (node->cpu_milli > 0)
			node->cpu_left -= SqlInt8(rows, i, 4);
		if (node->memory_mib > 0)
			node->memory_left -= SqlInt8(rows, i, 5);
	}
	SqlFree(&rows);
	if (run_out && !cycle->read_only)
		(void) SqlRun(&fences_end, &args);
}

/*
 * The jobs that may start now.
 */
static void
load_queue(Cycle *cycle)
{
	SqlArgs		args = {0};
	SqlResult	rows;
	Asks		asks = {.size = 64};
	HASHCTL		control = {.keysize = sizeof(uint32),
		.entrysize = sizeof(AskEntry), .hcxt = CurrentMemoryContext};
	const char *org = NULL;
	const char *account = NULL;

	SqlArgText(&args, cycle->pool);
	SqlArgTime(&args, cycle->now);
	rows = CycleRead(cycle, &queue_read, &args);
	asks.asks = palloc(sizeof(DecideAsk) * asks.size);
	asks.shared = palloc(sizeof(Queued) * asks.size);
	asks.rows = palloc(sizeof(uint64) * asks.size);
	asks.next = palloc(sizeof(int32) * asks.size);
	asks.by_hash = hash_create("gpucredit asks", 256, &control,
							   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	cycle->jobs = MemoryContextAllocHuge(CurrentMemoryContext,
										 sizeof(DecideJob) * (rows.n + 1));
	cycle->queued = MemoryContextAllocHuge(CurrentMemoryContext,
										   sizeof(Queued) * (rows.n + 1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		DecideJob  *job = &cycle->jobs[i];
		char	   *tier = SqlText(rows, i, 4);

		CHECK_FOR_INTERRUPTS();
		job->ask = find_ask(cycle, &asks, rows, i);
		job->org = org = share_text(org, SqlText(rows, i, 1));
		job->id = SqlInt8(rows, i, 2);
		account = share_text(account, SqlText(rows, i, 3));
		job->account = AccountIndex(cycle, org, account);
		job->tier = TierIndex(cycle, tier);
		job->priority = SqlInt4(rows, i, 5);
		job->submitted = SqlTime(rows, i, 6);
		job->aged_at = CycleAgedAt(cycle, job->tier,
								   SqlTime(rows, i, ASK_LAST + 1));
		job->order_run = 0;
		job->expected_run = 0;
		job->cache = 0;
		cycle->queued[i] = asks.shared[job->ask];
		cycle->queued[i].account = account;
		cycle->queued[i].hold = SqlInt8(rows, i, 7);
		cycle->queued[i].attempt = SqlInt4(rows, i, 8);
		cycle->queued[i].cache = SqlText(rows, i, 9);
		if (cycle->queued[i].cache != NULL)
			job->cache = CacheIndex(cycle, org, cycle->queued[i].cache);
		pfree(tier);
	}
	cycle->asks = asks.asks;
	cycle->max_asks = asks.size;
	cycle->input.asks = asks.asks;
	cycle->input.n_asks = asks.n;
	cycle->input.jobs = cycle->jobs;
	cycle->input.n_jobs = (int32) rows.n;
	SqlFree(&rows);
}

/*
 * When a job of a tier is aged that would have waited since then at one stretch.
 */
int64
CycleAgedAt(const Cycle *cycle, int32 tier, TimestampTz waits_from)
{
	int64		max_wait = cycle->tiers[tier].max_wait;

	if (max_wait > END_TIMESTAMP - waits_from)
		return DECIDE_NEVER;
	return waits_from + max_wait;
}

/*
 * Take jobs out of the cycle.
 */
void
CycleDrop(Cycle *cycle, const bool *drop)
{
	int32		kept = 0;

	for (int c = 0; c < cycle->input.n_claims; c++)
	{
		DecideClaim *claim = &cycle->claims[c];
		int32		before = 0;

		if (claim->job < 0)
			continue;
		for (int32 i = 0; i < claim->job; i++)
			before += drop[i];
		claim->job = drop[claim->job] ? -1 : claim->job - before;
	}
	for (int32 i = 0; i < cycle->input.n_jobs; i++)
	{
		if (drop[i])
			continue;
		cycle->jobs[kept] = cycle->jobs[i];
		cycle->queued[kept++] = cycle->queued[i];
	}
	cycle->input.n_jobs = kept;
}

/*
 * One copy of a text that repeats from row to row.
 */
static const char *
share_text(const char *previous, char *text)
{
	if (previous == NULL || strcmp(previous, text) != 0)
		return text;
	pfree(text);
	return previous;
}

/*
 * The ask of a row's job, a new one if none is equal.
 */
static int32
find_ask(const Cycle *cycle, Asks *asks, SqlResult rows, uint64 i)
{
	uint32		hash = hash_ask(rows, i);
	bool		found;
	AskEntry   *entry = hash_search(asks->by_hash, &hash, HASH_ENTER, &found);
	int32		ask;

	for (ask = found ? entry->first : -1; ask >= 0; ask = asks->next[ask])
	{
		if (same_ask(rows, i, asks->rows[ask]))
			return ask;
	}
	add_ask(cycle, asks, rows, i);
	ask = asks->n - 1;
	asks->next[ask] = found ? entry->first : -1;
	entry->first = ask;
	return ask;
}

/*
 * A column's bytes: of a value by reference, what it points to.
 */
static const char *
column_bytes(SqlResult rows, uint64 i, int column, Datum *value, Size *size)
{
	Form_pg_attribute attribute = TupleDescAttr(rows.table->tupdesc,
												column - 1);
	bool		isnull;

	*value = SqlDatum(rows, i, column, &isnull);
	if (isnull)
	{
		*size = 0;
		return "";
	}
	if (attribute->attbyval)
	{
		*size = sizeof(Datum);
		return (const char *) value;
	}
	if (attribute->attlen > 0)
	{
		*size = attribute->attlen;
		return DatumGetPointer(*value);
	}
	*value = PointerGetDatum(PG_DETOAST_DATUM_PACKED(*value));
	*size = VARSIZE_ANY_EXHDR(DatumGetPointer(*value));
	return VARDATA_ANY(DatumGetPointer(*value));
}

/*
 * A hash of what a row's job asks.
 */
static uint32
hash_ask(SqlResult rows, uint64 i)
{
	uint32		hash = 0;

	for (int c = ASK_COLUMN; c <= ASK_LAST; c++)
	{
		Datum		value;
		Size		size;
		const char *bytes = column_bytes(rows, i, c, &value, &size);

		hash = hash_combine(hash, hash_bytes((const unsigned char *) bytes,
											 (int) size));
	}
	return hash;
}

/*
 * Do two rows' jobs ask the same?
 */
static bool
same_ask(SqlResult rows, uint64 i, uint64 j)
{
	for (int c = ASK_COLUMN; c <= ASK_LAST; c++)
	{
		Datum		value_i;
		Datum		value_j;
		Size		size_i;
		Size		size_j;
		const char *bytes_i = column_bytes(rows, i, c, &value_i, &size_i);
		const char *bytes_j = column_bytes(rows, j, c, &value_j, &size_j);

		if (size_i != size_j || memcmp(bytes_i, bytes_j, size_i) != 0 ||
			SqlIsNull(rows, i, c) != SqlIsNull(rows, j, c))
			return false;
	}
	return true;
}

/*
 * Take apart what a row's job asks.
 */
void
AskRead(SqlResult rows, uint64 i, Job *job)
{
	bool		isnull;

	memset(job, 0, sizeof(Job));
	job->request = (GpuReq *)
		PG_DETOAST_DATUM_COPY(SqlDatum(rows, i, 10, &isnull));
	job->topology = (DecideTopology) ArgWord(SqlText(rows, i, 11), "topology",
											 TopologyNames,
											 lengthof(TopologyNames));
	if (!SqlIsNull(rows, i, 21))
		job->prefer = (DecideTopology) ArgWord(SqlText(rows, i, 21), "prefer",
											   TopologyNames,
											   lengthof(TopologyNames));
	job->preemptible = (Preemptible) ArgWord(SqlText(rows, i, 12),
											 "preemptible", PreemptibleNames,
											 lengthof(PreemptibleNames));
	job->cpu_milli = SqlInt8(rows, i, 13);
	job->memory_mib = SqlInt8(rows, i, 14);
	job->wall_limit = SqlIsNull(rows, i, 15) ? -1 : SqlDuration(rows, i, 15);
	JobReadOffers(rows, i, 17, 19, 18, 20, &job->offers);
}

/*
 * Add what a row's job asks.
 */
static void
add_ask(const Cycle *cycle, Asks *asks, SqlResult rows, uint64 i)
{
	Job			job;
	Queued	   *shared;

	if (asks->n == asks->size)
	{
		asks->size *= 2;
#define GROW(p) ((p) = repalloc((p), sizeof(*(p)) * asks->size))
		GROW(asks->asks);
		GROW(asks->shared);
		GROW(asks->rows);
		GROW(asks->next);
#undef GROW
	}
	AskRead(rows, i, &job);
	shared = &asks->shared[asks->n];
	memset(shared, 0, sizeof(Queued));
	shared->wall_limit = job.wall_limit;
	shared->hold_window = SqlIsNull(rows, i, 16) ? -1 :
		SqlDuration(rows, i, 16);
	shared->request = GpuReqToCString(job.request);
	shared->min_gpus = job.request->min_gpus;
	shared->max_gpus = job.request->max_gpus;
	shared->noffers = job.offers.n;
	shared->offer_types = job.offers.types;
	shared->offer_prices = job.offers.prices;
	shared->offer_spot_prices = job.offers.spot_prices;
	asks->asks[asks->n] = OffersAsk(&job, cycle->set);
	asks->rows[asks->n++] = i;
}

/*
 * Add an ask that comes from no row of the queue.  It may be one of those that
 * are there, and is copied before they move.
 */
int32
CycleAddAsk(Cycle *cycle, const DecideAsk *ask)
{
	DecideAsk	copy = *ask;

	if (cycle->input.n_asks == cycle->max_asks)
	{
		cycle->max_asks *= 2;
		cycle->asks = repalloc(cycle->asks,
							   sizeof(DecideAsk) * cycle->max_asks);
		cycle->input.asks = cycle->asks;
	}
	cycle->asks[cycle->input.n_asks] = copy;
	return cycle->input.n_asks++;
}
