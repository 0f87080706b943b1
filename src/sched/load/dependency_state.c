/*-------------------------------------------------------------------------
 *
 * dependency_state.c
 *		Finds out whether the conditions hold that jobs wait for.
 *
 * The answer is derived from the states of the other jobs each time a cycle
 * asks, so no sweep and no trigger has to run. All jobs are judged together:
 *
 *  1. each job that is named is noted once, however many jobs wait for it;
 *  2. the states of named jobs that wait themselves are known from memory;
 *  3. one statement reads the remaining jobs, one the arrays, one the names.
 *
 * So ten thousand jobs that wait for one job, or each for the one before, cost
 * a cycle about as much as ten thousand jobs that are queued.
 *
 * Locks: none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "job/dependency.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "util/errors.h"
#include "util/clock.h"
#include "util/sql.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

/*
 * number of dependency terms of one organisation that a cycle judges at most
 */
#define TERMS_MOST		20000
#define ARRAY_TERMS		8		/* how many terms an array counts as, since
								 * reading an array costs more */

/* A job that other jobs name in their dependencies, alone or for its array. */
typedef struct NamedKey
{
	int64		job;
	int32		org;			/* index of the organisation in
								 * Judging.org_names */
	int32		array;			/* 1 if the term names the job's array, 0 if
								 * it names the job alone */
} NamedKey;

typedef struct Named
{
	NamedKey	key;
	bool		found;

	/*
	 * The state of the job itself: whether it has not ended, whether it was
	 * completed, and when it began.
	 */
	bool		open;
	bool		completed;
	TimestampTz begun_at;		/* DT_NOEND if the job has not begun */

	/*
	 * For an array, the lowest numbers of its jobs that have not begun, have
	 * not ended, and have ended without being completed; PG_INT64_MAX if
	 * there is no such job.
	 */
	int64		not_begun;
	int64		not_ended;
	int64		not_completed;	/* among the jobs that have ended */
} Named;

/*
 * A job with the condition "singleton": it waits for earlier jobs of its name.
 */
typedef struct SingletonJob
{
	const DependentJob *job;
	int32		org;
	int64		earliest;		/* number of the lowest open job of the name */
} SingletonJob;

typedef struct Judging
{
	const SchedCycle *cycle;
	DependentJob *jobs;
	int			n;
	int32	   *orgs;			/* index of each job's organisation in
								 * org_names */
	const char **org_names;
	int			n_orgs;
	HTAB	   *named;
	SingletonJob *singletons;
	int			n_singletons;
} Judging;

#define EACH_NAMED \
	" FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2))" \
	"  WITH ORDINALITY AS u (org, job, n)" \
	" JOIN gpucredit.job j ON j.org = u.org AND j.job = u.job"
/*
 * Finds the lowest number of an array's jobs in a state. The condition is
 * written so that one search of the index job_array finds it, as no other
 * index has this order. With "state =" the planner could choose an index by
 * which it reads all jobs of the array or of the account.
 */
#define LOWEST_IN(state, condition) \
	"(SELECT m.job FROM gpucredit.job m WHERE m.org = k.org" \
	" AND m.account = k.account AND m.array_key = k.array_key" \
	" AND m.state >= '" state "' AND m.state <= '" state "'" condition \
	" ORDER BY m.state, m.job LIMIT 1)"
#define LOWEST(states) \
	" LEAST(" states ", 9223372036854775807)"

SQL_STATEMENT(named_read, SPI_OK_SELECT, "text[], bigint[]",
			  "SELECT u.n, j.ended_at IS NULL, j.state = 'completed',"
			  " CASE WHEN j.attempt > 0 THEN (SELECT a.started_at"
			  "   FROM gpucredit.attempt a WHERE a.org = j.org"
			  "   AND a.job = j.job AND a.attempt = 1)"
			  "  ELSE j.ended_at END" EACH_NAMED
			  " WHERE " SEARCH_EACH("u.n"));
/*
 * Reads each array once, however many of its jobs are named. OFFSET 0 keeps
 * the planner from merging the subqueries; merged, they would search the index
 * once for each job.
 */
SQL_STATEMENT(arrays_read, SPI_OK_SELECT, "text[], bigint[]",
			  "SELECT pg_catalog.unnest(s.n), s.not_begun, s.not_ended,"
			  " s.not_completed FROM (SELECT k.n,"
			  LOWEST(LOWEST_IN("queued", " AND m.attempt = 0"))
			  " AS not_begun,"
			  LOWEST(LOWEST_IN("queued", "") "," LOWEST_IN("unfunded", "") ","
					 LOWEST_IN("active", "")) " AS not_ended,"
			  LOWEST(LOWEST_IN("failed", "") "," LOWEST_IN("timeout", "") ","
					 LOWEST_IN("cancelled", "")) " AS not_completed"
			  " FROM (SELECT j.org, j.account, j.array_key,"
			  "  pg_catalog.array_agg(u.n) AS n" EACH_NAMED
			  "  WHERE " SEARCH_EACH("u.n")
			  "  GROUP BY j.org, j.account, j.array_key OFFSET 0) k"
			  " OFFSET 0) s");
SQL_STATEMENT(names_read, SPI_OK_SELECT, "text[], text[], text[]",
			  "SELECT u.n, COALESCE((SELECT m.job FROM gpucredit.job m"
			  "  WHERE m.org = u.org AND m.account = u.account"
			  "  AND m.name = u.name AND m.ended_at IS NULL"
			  "  ORDER BY m.job LIMIT 1), 9223372036854775807)"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  "  WITH ORDINALITY AS u (org, account, name, n)");

static void note_named(Judging *judging);
static void note_org(Judging *judging, int first, int n);
static int	note_job(Judging *judging, int i);
static void note_waiting(Judging *judging);
static void note_one(Judging *judging, int32 org, int64 job);
static int32 find_org(const Judging *judging, const char *org);
static void read_named(Judging *judging, bool arrays);
static void read_names(Judging *judging);
static int	compare_singletons(const void *a, const void *b);
static DependencyState judge(const Judging *judging, int i);
static DependencyState judge_term(const Judging *judging, int i,
								  const DependencyTerm *term);
static DependencyState judge_job(const Judging *judging, const Named *named,
								 const DependencyTerm *term);
static DependencyState judge_array(const Named *named, int64 before,
								   DependencyKind kind);
static DependencyState judge_singleton(const Judging *judging, int i);
static void parse(const DependentJob *job, Dependency *dependency);

/*
 * Finds out for each job whether what it waits for holds, and sets its state.
 * The caller passes the jobs sorted by organisation.
 */
void
DependencyJudge(const SchedCycle *cycle, DependentJob *jobs, int n)
{
	HASHCTL		control = {.keysize = sizeof(NamedKey),
		.entrysize = sizeof(Named), .hcxt = CurrentMemoryContext};
	Judging		judging = {.cycle = cycle, .jobs = jobs, .n = n};

	if (n == 0)
		return;
	judging.orgs = palloc(sizeof(int32) * n);
	judging.org_names = palloc(sizeof(char *) * n);
	judging.singletons = palloc(sizeof(SingletonJob) * n);
	judging.named = hash_create("gpucredit dependencies", 256, &control,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	note_named(&judging);
	note_waiting(&judging);
	read_named(&judging, false);
	read_named(&judging, true);
	read_names(&judging);
	for (int i = 0; i < n; i++)
		jobs[i].state = jobs[i].left_out ? DEPENDENCY_WAITS :
			judge(&judging, i);
	hash_destroy(judging.named);
}

/*
 * Parses the dependency of a job, which reserve() has written. A job without
 * one gets no terms, so all of its terms hold.
 */
static void
parse(const DependentJob *job, Dependency *dependency)
{
	dependency->any = false;
	dependency->n = 0;
	Ensure(job->after == NULL ||
		   DependencyParse(job->after, dependency) == NULL,
		   "A job has a malformed dependency.");
}

/* Notes each job, array and name that jobs wait for, by organisation. */
static void
note_named(Judging *judging)
{
	int			first = 0;

	for (int i = 0; i < judging->n; i++)
	{
		if (i == 0 || strcmp(judging->jobs[i].org,
							 judging->jobs[i - 1].org) != 0)
			judging->org_names[judging->n_orgs++] = judging->jobs[i].org;
		judging->orgs[i] = judging->n_orgs - 1;
		if (i + 1 < judging->n && strcmp(judging->jobs[i].org,
										 judging->jobs[i + 1].org) == 0)
			continue;
		note_org(judging, first, i + 1 - first);
		first = i + 1;
	}
}

/*
 * Notes what jobs of one organisation wait for. If their dependencies have
 * more than TERMS_MOST terms, the jobs are judged in turns, so that no tenant
 * makes cycles long: each cycle begins at another job. The time is hashed
 * (Fibonacci hashing), so that cycles that follow each other begin far apart,
 * and no job waits long for its turn.
 */
static void
note_org(Judging *judging, int first, int n)
{
	uint64		second = (uint64) (judging->cycle->now / USECS_PER_SEC);
	int			turn = (int) ((second * UINT64CONST(0x9E3779B97F4A7C15) >> 32) %
							  n);
	int			terms = 0;

	for (int k = 0; k < n; k++)
	{
		int			i = first + (turn + k) % n;

		CHECK_FOR_INTERRUPTS();
		judging->jobs[i].left_out = terms >= TERMS_MOST;
		if (!judging->jobs[i].left_out)
			terms += note_job(judging, i);
	}
}

/*
 * Notes what one job waits for. Returns the number of its terms, where an
 * array that no term has named before counts as ARRAY_TERMS.
 */
static int
note_job(Judging *judging, int i)
{
	Dependency	dependency;
	bool		singleton = false;
	int			terms = 0;

	parse(&judging->jobs[i], &dependency);
	for (int t = 0; t < dependency.n; t++)
	{
		NamedKey	key = {.job = dependency.terms[t].job,
			.org = judging->orgs[i],
			.array = dependency.terms[t].scope == DEPENDENCY_ARRAY};
		bool		known;
		Named	   *named;

		terms++;
		singleton |= dependency.terms[t].kind == AFTER_SINGLETON;
		if (dependency.terms[t].kind == AFTER_SINGLETON)
			continue;
		named = hash_search(judging->named, &key, HASH_ENTER, &known);
		if (!known)
		{
			memset((char *) named + sizeof(NamedKey), 0,
				   sizeof(Named) - sizeof(NamedKey));
			if (key.array == 1)
				terms += ARRAY_TERMS - 1;
		}
	}
	if (singleton)
		judging->singletons[judging->n_singletons++] = (SingletonJob)
	{
		&judging->jobs[i], judging->orgs[i], PG_INT64_MAX
	};
	return terms;
}

/*
 * Fills in the states of named jobs that wait themselves and have not begun.
 * The cycle has loaded these jobs already, so their rows need not be read.
 */
static void
note_waiting(Judging *judging)
{
	const SchedCycle *cycle = judging->cycle;
	int32		org = -1;

	for (int i = 0; i < judging->n; i++)
		note_one(judging, judging->orgs[i], judging->jobs[i].job);
	for (int32 j = 0; j < cycle->input.n_jobs; j++)
	{
		if (j == 0 || cycle->jobs[j].org != cycle->jobs[j - 1].org)
			org = find_org(judging, cycle->jobs[j].org);
		if (org >= 0 && cycle->queued[j].attempt == 0)
			note_one(judging, org, cycle->jobs[j].id);
	}
}

static void
note_one(Judging *judging, int32 org, int64 job)
{
	NamedKey	key = {.job = job, .org = org};
	Named	   *named = hash_search(judging->named, &key, HASH_FIND, NULL);

	if (named == NULL)
		return;
	named->found = true;
	named->open = true;
	named->begun_at = DT_NOEND;
}

/*
 * Returns the index of an organisation in org_names, or -1 if none of its jobs
 * waits for another job.
 */
static int32
find_org(const Judging *judging, const char *org)
{
	int32		low = 0;
	int32		high = judging->n_orgs - 1;

	while (low <= high)
	{
		int32		middle = (low + high) / 2;
		int			order = strcmp(org, judging->org_names[middle]);

		if (order == 0)
			return middle;
		if (order < 0)
			high = middle - 1;
		else
			low = middle + 1;
	}
	return -1;
}

/*
 * Reads the named jobs whose state is not known yet, or, if arrays is true,
 * the named arrays.
 */
static void
read_named(Judging *judging, bool arrays)
{
	long		most = hash_get_num_entries(judging->named);
	Named	  **ask = palloc(sizeof(Named *) * (most + 1));
	const char **orgs = palloc(sizeof(char *) * (most + 1));
	int64	   *jobs = palloc(sizeof(int64) * (most + 1));
	HASH_SEQ_STATUS scan;
	SqlResult	rows;
	Named	   *named;
	int			n = 0;

	hash_seq_init(&scan, judging->named);
	while ((named = hash_seq_search(&scan)) != NULL)
	{
		if (named->found || (named->key.array == 1) != arrays)
			continue;
		ask[n] = named;
		orgs[n] = judging->org_names[named->key.org];
		jobs[n++] = named->key.job;
	}
	if (n == 0)
		return;
	rows = CycleRead(judging->cycle, arrays ? &arrays_read : &named_read,
					 VALUES(TextArrayValue(orgs, n), Int8ArrayValue(jobs, n)));
	for (uint64 i = 0; i < rows.n; i++)
	{
		named = ask[SqlInt8(rows, i, 1) - 1];
		named->found = true;
		if (arrays)
		{
			named->not_begun = SqlInt8(rows, i, 2);
			named->not_ended = SqlInt8(rows, i, 3);
			named->not_completed = SqlInt8(rows, i, 4);
			continue;
		}
		named->open = SqlBool(rows, i, 2);
		named->completed = SqlBool(rows, i, 3);
		named->begun_at = SqlTimeOr(rows, i, 4, DT_NOEND);
	}
	SqlFree(&rows);
}

/* Finds the lowest open job of each name that a singleton job has. */
static void
read_names(Judging *judging)
{
	int			n = judging->n_singletons;
	const char **orgs = palloc(sizeof(char *) * (n + 1));
	const char **accounts = palloc(sizeof(char *) * (n + 1));
	const char **names = palloc(sizeof(char *) * (n + 1));
	int		   *which = palloc(sizeof(int) * (n + 1));
	int64	   *earliest = palloc(sizeof(int64) * (n + 1));
	int			kinds = 0;
	SqlResult	rows;

	if (n == 0)
		return;
	qsort(judging->singletons, n, sizeof(SingletonJob), compare_singletons);
	for (int i = 0; i < n; i++)
	{
		const DependentJob *job = judging->singletons[i].job;

		if (i == 0 || compare_singletons(&judging->singletons[i - 1],
										 &judging->singletons[i]) != 0)
		{
			Ensure(job->name != NULL, "A job without a name is a singleton.");
			orgs[kinds] = job->org;
			accounts[kinds] = job->account;
			names[kinds++] = job->name;
		}
		which[i] = kinds - 1;
	}
	rows = CycleRead(judging->cycle, &names_read,
					 VALUES(TextArrayValue(orgs, kinds),
							TextArrayValue(accounts, kinds),
							TextArrayValue(names, kinds)));
	for (uint64 i = 0; i < rows.n; i++)
		earliest[SqlInt8(rows, i, 1) - 1] = SqlInt8(rows, i, 2);
	for (int i = 0; i < n; i++)
		judging->singletons[i].earliest = earliest[which[i]];
	SqlFree(&rows);
}

static int
compare_singletons(const void *a, const void *b)
{
	const SingletonJob *x = a;
	const SingletonJob *y = b;
	int			order = x->org < y->org ? -1 : x->org > y->org;

	if (order == 0)
		order = strcmp(x->job->account, y->job->account);
	return order != 0 ? order : strcmp(x->job->name, y->job->name);
}

/*
 * Judges all terms of a job's dependency: all of them must hold, or one of
 * them suffices if the dependency says so.
 */
static DependencyState
judge(const Judging *judging, int i)
{
	Dependency	dependency;
	int			hold = 0;
	int			never = 0;

	parse(&judging->jobs[i], &dependency);
	for (int t = 0; t < dependency.n; t++)
	{
		DependencyState state = judge_term(judging, i, &dependency.terms[t]);

		hold += state == DEPENDENCY_HOLDS;
		never += state == DEPENDENCY_NEVER;
	}
	if (hold >= (dependency.any ? 1 : dependency.n))
		return DEPENDENCY_HOLDS;
	return never >= (dependency.any ? dependency.n : 1) ? DEPENDENCY_NEVER :
		DEPENDENCY_WAITS;
}

/* Judges one term of a job's dependency. */
static DependencyState
judge_term(const Judging *judging, int i, const DependencyTerm *term)
{
	NamedKey	key = {.job = term->job, .org = judging->orgs[i],
		.array = term->scope == DEPENDENCY_ARRAY};
	const Named *named;

	if (term->kind == AFTER_SINGLETON)
		return judge_singleton(judging, i);
	named = hash_search(judging->named, &key, HASH_FIND, NULL);
	/* Nothing deletes jobs, so somebody has changed tables by hand. */
	if (named == NULL || !named->found)
		return DEPENDENCY_NEVER;
	if (term->scope == DEPENDENCY_ARRAY)
		return judge_array(named, judging->jobs[i].job, term->kind);
	return judge_job(judging, named, term);
}

/* Judges a term about one job. */
static DependencyState
judge_job(const Judging *judging, const Named *named,
		  const DependencyTerm *term)
{
	if (term->kind == AFTER_BEGUN)
		return named->begun_at != DT_NOEND &&
			ClockAdd(named->begun_at, term->minutes * USECS_PER_MINUTE) <=
			judging->cycle->now ? DEPENDENCY_HOLDS : DEPENDENCY_WAITS;
	if (named->open)
		return DEPENDENCY_WAITS;
	if (term->kind == AFTER_ANY)
		return DEPENDENCY_HOLDS;
	return (term->kind == AFTER_OK) == named->completed ? DEPENDENCY_HOLDS :
		DEPENDENCY_NEVER;
}

/*
 * Judges a term about an array. Only jobs of the array with a lower number
 * than the waiting job count.
 */
static DependencyState
judge_array(const Named *named, int64 before, DependencyKind kind)
{
	bool		failed = named->not_completed < before;

	if (kind == AFTER_BEGUN)
		return named->not_begun < before ? DEPENDENCY_WAITS :
			DEPENDENCY_HOLDS;
	if (kind == AFTER_OK && failed)
		return DEPENDENCY_NEVER;
	if (named->not_ended < before)
		return DEPENDENCY_WAITS;
	return kind == AFTER_NOT_OK && !failed ? DEPENDENCY_NEVER :
		DEPENDENCY_HOLDS;
}

static DependencyState
judge_singleton(const Judging *judging, int i)
{
	SingletonJob key = {&judging->jobs[i], judging->orgs[i], 0};
	const SingletonJob *found = bsearch(&key, judging->singletons,
										judging->n_singletons,
										sizeof(SingletonJob),
										compare_singletons);

	Ensure(found != NULL, "A singleton is missing.");
	return found->earliest < judging->jobs[i].job ? DEPENDENCY_WAITS :
		DEPENDENCY_HOLDS;
}
