/*-------------------------------------------------------------------------
 *
 * load_queue.c
 *		The jobs that may start now.
 *
 * Of each that waits only what tells it from others is read, from an index
 * that has all of it; it comes account by account, in the order of submission.
 * What jobs request stands behind a digest (job/request_digest.c), and of each digest the
 * first job is read whole and taken apart.  So a cycle over very many jobs
 * costs an index entry for each, and a row for each kind of job.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "util/errors.h"
#include "util/sql.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define DIGEST_BYTES	16
#define MOST_JOBS		(PG_INT32_MAX / 2)

typedef struct RequestEntry
{
	char		digest[DIGEST_BYTES];	/* key */
	int32		request;
} RequestEntry;

/* The first job of a request. */
typedef struct RequestJob
{
	const char *org;
	int64		job;
	Datum		digest;
} RequestJob;

/* The state while rows come. */
typedef struct QueueLoading
{
	SchedCycle *cycle;
	int32		size;			/* room for so many jobs */
	int32		n_requests;
	int32		max_requests;
	RequestJob *firsts;			/* by request */
	HTAB	   *requests;
	int32		account;		/* of the row before, -1 at first */
	int32		tier;
} QueueLoading;

SQL_STATEMENT(queue_read, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT j.org, j.account, j.submitted_at, j.job, j.ask,"
			  " j.tier, j.priority, j.waits_from, j.hold, j.attempt, j.cache"
			  " FROM gpucredit.job j"
			  " WHERE j.pool = $1 AND j.state = 'queued'"
			  " AND (j.not_before IS NULL OR j.not_before <= $2)");
SQL_STATEMENT(requests_read, SPI_OK_SELECT, "text[], bigint[], bytea[]",
			  "SELECT u.n, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"
			  REQUEST_COLUMNS
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  "  WITH ORDINALITY AS u (org, job, ask, n)"
			  " JOIN gpucredit.job j ON j.org = u.org AND j.job = u.job"
			  " WHERE j.ask = u.ask");

static void read_queue(QueueLoading *loading);
static bool add_job(void *context, const Datum *values, const bool *nulls);
static void make_room(QueueLoading *loading);
static int32 find_requests(QueueLoading *loading, Datum digest, int32 job);
static void load_requests(QueueLoading *loading);
static void drop_unknown(SchedCycle *cycle, const bool *known);

/*
 * Load the queue.
 */
void
QueueLoad(SchedCycle *cycle)
{
	HASHCTL		control = {.keysize = DIGEST_BYTES,
		.entrysize = sizeof(RequestEntry), .hcxt = CurrentMemoryContext};
	QueueLoading loading = {.cycle = cycle, .size = 256, .max_requests = 64,
		.account = -1, .tier = -1};

	cycle->jobs = palloc(sizeof(DecideJob) * loading.size);
	cycle->queued = palloc(sizeof(Queued) * loading.size);
	loading.firsts = palloc(sizeof(RequestJob) * loading.max_requests);
	loading.requests = hash_create("gpucredit asks", 256, &control,
								   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	read_queue(&loading);
	cycle->input.jobs = cycle->jobs;
	load_requests(&loading);
	hash_destroy(loading.requests);
}

/*
 * Read the queue by its index.  Where most jobs wait, or few pages are known to
 * be visible to all (a table that was restored, or has grown by much since it
 * was vacuumed), the planner would rather read the table itself; it takes
 * longer, and comes in no order.
 */
static void
read_queue(QueueLoading *loading)
{
	static const char *const off[] = {
		"enable_seqscan", "enable_bitmapscan"
	};
	int			level = NewGUCNestLevel();
	SqlArgs		args = {0};

	SqlArgText(&args, loading->cycle->pool);
	SqlArgTime(&args, loading->cycle->now);
	for (int i = 0; i < (int) lengthof(off); i++)
		(void) set_config_option(off[i], "off", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	SqlEach(&queue_read, &args, loading->cycle->read_only, add_job, loading);
	AtEOXact_GUC(true, level);
}

/*
 * One row.
 */
static bool
add_job(void *context, const Datum *values, const bool *nulls)
{
	QueueLoading *loading = context;
	SchedCycle *cycle = loading->cycle;
	int32		n = cycle->input.n_jobs;
	const AccountName *name;
	DecideJob  *job;
	Queued	   *queued;

	if (n == loading->size)
		make_room(loading);
	loading->account = AccountOfRow(cycle, loading->account, values[0],
									values[1]);
	loading->tier = TierOfRow(cycle, loading->tier, values[5]);
	name = &cycle->account_names[loading->account];
	job = &cycle->jobs[n];
	*job = (DecideJob)
	{
		.tier = loading->tier,
			.account = loading->account,
			.priority = DatumGetInt32(values[6]),
			.submitted = DatumGetTimestampTz(values[2]),
			.id = DatumGetInt64(values[3]),
			.org = name->org
	};
	Ensure(!nulls[7], "A job waits, and not since any time.");
	job->aged_at = CycleAgedAt(cycle, job->tier,
							   DatumGetTimestampTz(values[7]));
	job->request = find_requests(loading, values[4], n);
	queued = &cycle->queued[n];
	*queued = (Queued)
	{
		.account = name->path,
			.hold = DatumGetInt64(values[8]),
			.attempt = DatumGetInt32(values[9]),
			.waits_from = DatumGetTimestampTz(values[7]),
			.cache = nulls[10] ? NULL : TextDatumGetCString(values[10])
	};
	if (queued->cache != NULL)
		job->cache = CacheIndex(cycle, job->org, queued->cache);
	cycle->input.n_jobs++;
	return true;
}

/*
 * Room for twice as many jobs.
 */
static void
make_room(QueueLoading *loading)
{
	SchedCycle *cycle = loading->cycle;

	if (loading->size > MOST_JOBS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many jobs wait in pool \"%s\"", cycle->pool),
				 errdetail("A cycle decides on %d at most.", MOST_JOBS),
				 errhint("Submit to several pools.")));
	loading->size *= 2;
	cycle->jobs = repalloc_huge(cycle->jobs,
								sizeof(DecideJob) * loading->size);
	cycle->queued = repalloc_huge(cycle->queued,
								  sizeof(Queued) * loading->size);
}

/*
 * The request of a digest, a new one if there is none.
 */
static int32
find_requests(QueueLoading *loading, Datum digest, int32 job)
{
	bytea	   *bytes = DatumGetByteaPP(digest);
	RequestEntry *entry;
	bool		found;

	Ensure(VARSIZE_ANY_EXHDR(bytes) == DIGEST_BYTES,
		   "The digest of a job is of the wrong length.");
	entry = hash_search(loading->requests, VARDATA_ANY(bytes), HASH_ENTER,
						&found);
	if (found)
		return entry->request;
	if (loading->n_requests == loading->max_requests)
	{
		loading->max_requests *= 2;
		loading->firsts = repalloc_huge(loading->firsts, sizeof(RequestJob) *
										loading->max_requests);
	}
	entry->request = loading->n_requests++;
	loading->firsts[entry->request] = (RequestJob)
	{
		.org = loading->cycle->jobs[job].org,
			.job = loading->cycle->jobs[job].id,
			.digest = PointerGetDatum(DatumGetByteaPCopy(digest))
	};
	return entry->request;
}

/*
 * Take apart what the first job of each request requests.  One that another
 * transaction changed since waits for the next cycle, with all that request the
 * same.
 */
static void
load_requests(QueueLoading *loading)
{
	SchedCycle *cycle = loading->cycle;
	int			n = loading->n_requests;
	const char **orgs = palloc(sizeof(char *) * (n + 1));
	int64	   *jobs = palloc(sizeof(int64) * (n + 1));
	Datum	   *digests = palloc(sizeof(Datum) * (n + 1));
	QueuedRequest *asked = palloc(sizeof(QueuedRequest) * (n + 1));
	bool	   *known = palloc0(sizeof(bool) * (n + 1));
	SqlArgs		args = {0};
	SqlResult	rows;

	cycle->max_requests = Max(n, 16);
	cycle->requests = palloc(sizeof(DecideRequestClass) * cycle->max_requests);
	cycle->input.requests = cycle->requests;
	cycle->input.n_requests = n;
	if (n == 0)
		return;
	for (int a = 0; a < n; a++)
	{
		orgs[a] = loading->firsts[a].org;
		jobs[a] = loading->firsts[a].job;
		digests[a] = loading->firsts[a].digest;
	}
	SqlArgTextArray(&args, orgs, n);
	SqlArgInt8Array(&args, jobs, n);
	SqlArg(&args, PointerGetDatum(construct_array(digests, n, BYTEAOID, -1,
												  false, TYPALIGN_INT)));
	rows = CycleRead(cycle, &requests_read, &args);
	for (uint64 i = 0; i < rows.n; i++)
	{
		int64		a = SqlInt8(rows, i, 1) - 1;
		Job			job;

		CHECK_FOR_INTERRUPTS();
		RequestRead(rows, i, &job);
		QueuedRequestOf(&asked[a], &job);
		cycle->requests[a] = OffersRequest(&job, cycle->set);
		known[a] = true;
	}
	for (int32 j = 0; j < cycle->input.n_jobs; j++)
		cycle->queued[j].asked = &asked[cycle->jobs[j].request];
	if (rows.n < (uint64) n)
		drop_unknown(cycle, known);
	SqlFree(&rows);
}

/*
 * Leave out jobs whose request is unknown, and fill that request with some
 * content: no job uses it.
 */
static void
drop_unknown(SchedCycle *cycle, const bool *known)
{
	bool	   *drop = palloc(sizeof(bool) * (cycle->input.n_jobs + 1));

	for (int32 j = 0; j < cycle->input.n_jobs; j++)
		drop[j] = !known[cycle->jobs[j].request];
	for (int32 a = 0; a < cycle->input.n_requests; a++)
	{
		if (!known[a])
			cycle->requests[a] = (DecideRequestClass)
		{
			.share = DECIDE_WHOLE, .wall_limit = DECIDE_NEVER
		};
	}
	CycleDrop(cycle, drop);
	pfree(drop);
}
