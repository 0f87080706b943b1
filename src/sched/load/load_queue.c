/*-------------------------------------------------------------------------
 *
 * load_queue.c
 *		Loads the jobs that may start now.
 *
 * Of each waiting job only what distinguishes it is read, from a covering
 * index, by account and submission. A digest stands for its request
 * (job/submit/request_digest.c), and only the first job of each digest is read
 * whole. So a cycle reads an index entry for each job, and a row for each kind
 * of request.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"
#include "util/errors.h"
#include "util/sql.h"
#include "miscadmin.h"
#include "sched/sched.h"

#define DIGEST_BYTES	16
#define MOST_JOBS		(PG_INT32_MAX / 2)

typedef struct RequestEntry
{
	char		digest[DIGEST_BYTES];	/* key of the hash table */
	int32		request;
} RequestEntry;

/* The first job of a request class, whose row is read for the class. */
typedef struct RequestJob
{
	const char *org;
	int64		job;
	Datum		digest;
} RequestJob;

/* State while rows are read. */
typedef struct QueueLoading
{
	SchedCycle *cycle;
	int32		size;			/* number of jobs for which memory is
								 * allocated */
	int32		n_requests;
	int32		max_requests;
	RequestJob *firsts;			/* by request class, its first job */
	HTAB	   *requests;
	int32		account;		/* number of the previous row's account, -1
								 * before the first row */
	int32		tier;
} QueueLoading;

#define QUEUE_COLUMNS \
	"SELECT j.org, j.account, j.submitted_at, j.job, j.request_class," \
	" j.tier, j.priority, j.waits_from, j.hold, j.attempt, j.cache," \
	" j.array_key, j.at_most, j.deadline FROM "
SQL_STATEMENT(queue_read, SPI_OK_SELECT, "text, timestamptz",
			  QUEUE_COLUMNS "gpucredit.job j"
			  " WHERE j.pool = $1 AND j.state = 'queued'"
			  " AND (j.not_before IS NULL OR j.not_before <= $2)"
			  " AND j.eligible");
SQL_STATEMENT(released_read, SPI_OK_SELECT, "text[], bigint[]",
			  QUEUE_COLUMNS "ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2)) WITH ORDINALITY AS u (org, job, n)"
			  " JOIN gpucredit.job j ON j.org = u.org AND j.job = u.job"
			  " WHERE j.state = 'queued' AND j.held_by IS NULL"
			  " AND " SEARCH_EACH("u.n"));
SQL_STATEMENT(requests_read, SPI_OK_SELECT, "text[], bigint[], bytea[]",
			  "SELECT u.n, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"
			  REQUEST_COLUMNS
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  "  WITH ORDINALITY AS u (org, job, request_class, n)"
			  " JOIN gpucredit.job j ON j.org = u.org AND j.job = u.job"
			  " WHERE j.request_class = u.request_class");

/*
 * A grant of a tier that is not open to everybody, to an account and all below
 * it.
 */
typedef struct TierGrant
{
	const char *org;
	const char *account;
	const char *tier;
} TierGrant;

SQL_STATEMENT(grants_read, SPI_OK_SELECT, "text[]",
			  "SELECT g.org, g.account, g.tier FROM gpucredit.tier_grant g"
			  " WHERE g.org = ANY ($1)");

static void read_queue(QueueLoading *loading);
static void read_released(QueueLoading *loading);
static bool add_job(void *context, const Datum *values, const bool *nulls);
static void make_room(QueueLoading *loading);
static int32 find_requests(QueueLoading *loading, Datum digest, int32 job);
static void load_requests(QueueLoading *loading);
static void drop_unknown(SchedCycle *cycle, const bool *known);
static void drop_not_granted(SchedCycle *cycle);
static int	compare_grants(const void *a, const void *b);
static bool is_granted(const TierGrant *grants, int n, const AccountName *name,
					   const char *tier);

/* Loads the queue. */
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
	loading.requests = hash_create("gpucredit requests", 256, &control,
								   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	read_queue(&loading);
	read_released(&loading);
	cycle->input.jobs = cycle->jobs;
	load_requests(&loading);
	hash_destroy(loading.requests);
	drop_not_granted(cycle);
}

/*
 * Reads the queue by its index. If most jobs wait, or few pages are known to
 * be all-visible (after a restore, or after fast growth since the last
 * VACUUM), the planner would prefer the table itself, which takes longer and
 * returns no order.
 */
static void
read_queue(QueueLoading *loading)
{
	static const char *const off[] = {
		"enable_seqscan", "enable_bitmapscan"
	};
	int			level = NewGUCNestLevel();
	Values	   *args = VALUES(TextValue(loading->cycle->pool),
							  TimeValue(loading->cycle->now));

	for (int i = 0; i < (int) lengthof(off); i++)
		(void) set_config_option(off[i], "off", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	SqlEach(&queue_read, args, loading->cycle->read_only, add_job, loading);
	AtEOXact_GUC(true, level);
}

/*
 * Adds the jobs that have become eligible: what they waited for has come true, or
 * nobody holds them any longer. Time in which a job could not start does not
 * count towards ageing.
 */
static void
read_released(QueueLoading *loading)
{
	SchedCycle *cycle = loading->cycle;
	int32		first = cycle->input.n_jobs;
	const char **orgs;
	int64	   *jobs;
	int			n = 0;

	DependentsLoad(cycle);
	orgs = palloc(sizeof(char *) * (cycle->n_dependents + 1));
	jobs = palloc(sizeof(int64) * (cycle->n_dependents + 1));
	for (int i = 0; i < cycle->n_dependents; i++)
	{
		if (cycle->dependents[i].state != DEPENDENCY_HOLDS)
			continue;
		orgs[n] = cycle->dependents[i].org;
		jobs[n++] = cycle->dependents[i].job;
	}
	if (n == 0)
		return;
	SqlEach(&released_read, VALUES(TextArrayValue(orgs, n),
								   Int8ArrayValue(jobs, n)),
			cycle->read_only, add_job, loading);
	for (int32 j = first; j < cycle->input.n_jobs; j++)
	{
		cycle->queued[j].released = true;
		cycle->queued[j].waits_from = cycle->now;
		cycle->jobs[j].waits_from = cycle->now;
		cycle->jobs[j].aged_at = CycleAgedAt(cycle, cycle->jobs[j].tier,
											 cycle->now);
	}
}

/* Adds the job of one row to the queue. Called by SqlEach() for each row. */
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
	Ensure(!nulls[7], "A waiting job has no waits_from.");
	job->aged_at = CycleAgedAt(cycle, job->tier,
							   DatumGetTimestampTz(values[7]));
	job->waits_from = DatumGetTimestampTz(values[7]);
	job->request = find_requests(loading, values[4], n);
	queued = &cycle->queued[n];
	*queued = (Queued)
	{
		.account = name->path,
			.hold = DatumGetInt64(values[8]),
			.attempt = DatumGetInt32(values[9]),
			.waits_from = DatumGetTimestampTz(values[7]),
			.cache = nulls[10] ? NULL : TextDatumGetCString(values[10]),
			.array = nulls[12] ? NULL : TextDatumGetCString(values[11]),
			.at_most = nulls[12] ? 0 : DatumGetInt32(values[12]),
			.deadline = nulls[13] ? DT_NOEND : DatumGetTimestampTz(values[13])
	};
	if (queued->cache != NULL)
		job->cache = CacheIndex(cycle, job->org, queued->cache);
	cycle->input.n_jobs++;
	return true;
}

/* Doubles the memory allocated for jobs. */
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
 * Returns the number of a digest's request class. A new digest gets a new
 * number, and this job becomes the first of its class.
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
 * Reads the request of each digest's first job. If another transaction has
 * changed that job since the queue was read, all jobs of this request class
 * wait for the next cycle.
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
	rows = CycleRead(cycle, &requests_read,
					 VALUES(TextArrayValue(orgs, n), Int8ArrayValue(jobs, n),
							ArrayValue(digests, NULL, n, BYTEAOID)));
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
 * Removes the jobs whose request could not be read, and fills their request
 * class with some valid content, as the decision core checks all classes.
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

/*
 * Removes jobs whose account may not use their tier any more. They keep their
 * holds and their places in the queue, and start once the tier is granted
 * again. The grants are read only if a job of a closed tier waits.
 */
static void
drop_not_granted(SchedCycle *cycle)
{
	int32		n_jobs = cycle->input.n_jobs;
	bool	   *drop = palloc0(sizeof(bool) * (n_jobs + 1));
	const char **orgs = palloc(sizeof(char *) * (n_jobs + 1));
	int			n = 0;
	SqlResult	rows;
	TierGrant  *grants;

	for (int32 j = 0; j < n_jobs; j++)
	{
		if (cycle->tier_closed[cycle->jobs[j].tier] &&
			(n == 0 || strcmp(orgs[n - 1], cycle->jobs[j].org) != 0))
			orgs[n++] = cycle->jobs[j].org;
	}
	if (n == 0)
		return;
	rows = CycleRead(cycle, &grants_read, VALUES(TextArrayValue(orgs, n)));
	grants = palloc_extended(sizeof(TierGrant) * (rows.n + 1), MCXT_ALLOC_HUGE);
	for (uint64 i = 0; i < rows.n; i++)
		grants[i] = (TierGrant)
	{
		SqlText(rows, i, 1), SqlText(rows, i, 2), SqlText(rows, i, 3)
	};
	qsort(grants, rows.n, sizeof(TierGrant), compare_grants);
	for (int32 j = 0; j < n_jobs; j++)
	{
		const DecideJob *job = &cycle->jobs[j];

		CHECK_FOR_INTERRUPTS();
		/* Jobs are sorted by account, so most are like the job before. */
		if (j > 0 && job->account == cycle->jobs[j - 1].account &&
			job->tier == cycle->jobs[j - 1].tier)
			drop[j] = drop[j - 1];
		else
			drop[j] = cycle->tier_closed[job->tier] &&
				!is_granted(grants, (int) rows.n,
							&cycle->account_names[job->account],
							cycle->tier_names[job->tier]);
	}
	CycleDrop(cycle, drop);
	pfree(drop);
	SqlFree(&rows);
}

/*----------
 * The order for the binary search of grants of tiers:
 *
 * 1. organisation;
 * 2. account;
 * 3. tier.
 *----------
 */
static int
compare_grants(const void *a, const void *b)
{
	const TierGrant *x = a;
	const TierGrant *y = b;
	int			order = strcmp(x->org, y->org);

	if (order == 0)
		order = strcmp(x->account, y->account);
	return order != 0 ? order : strcmp(x->tier, y->tier);
}

/* Whether a tier is granted to an account, or to an account above it. */
static bool
is_granted(const TierGrant *grants, int n, const AccountName *name,
		   const char *tier)
{
	char	   *path = pstrdup(name->path);
	TierGrant	key = {name->org, path, tier};
	bool		found = false;

	for (;;)
	{
		char	   *slash = strrchr(path, '/');

		found = bsearch(&key, grants, n, sizeof(TierGrant),
						compare_grants) != NULL;
		if (found || *path == '\0')
			break;
		*(slash != NULL ? slash : path) = '\0';
	}
	pfree(path);
	return found;
}
