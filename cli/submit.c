/*-------------------------------------------------------------------------
 *
 * submit.c
 *		gpucredit submit: submits a script as a job, exactly once.
 *
 * The submission's idempotency key is on disk before the call. If no answer
 * arrived, or the process died, an equal submission finds the key there and
 * repeats the call. The database then returns the existing job, or creates it.
 * A live process keeps its submission's file locked, so an equal submission at
 * the same time becomes a different job.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "quote.h"
#include "submission.h"
#include "wait.h"

#define TRY_SECONDS	60
#define KEY_LENGTH	36

/* The parameters of the call. */
enum
{
	VALUE_ORG, VALUE_ACCOUNT, VALUE_KEY, VALUE_REQUEST, VALUE_WALL_LIMIT,
	VALUE_TIER, VALUE_POOL, VALUE_TOPOLOGY, VALUE_RETRIES, VALUE_SIZES,
	VALUE_HOLD_WINDOW, VALUE_SPEC, VALUE_OPTIONS, VALUE_INDEXES, VALUES
};

/* A submission that is under way. */
typedef struct PendingSubmission
{
	char	   *path;
	int			fd;
	char		key[64];
	time_t		at;				/* time of its first attempt */
	bool		again;			/* the answer to an earlier attempt was lost */
} PendingSubmission;

/* Calls reserve() with this key, spec and options. */
#define RESERVE(key, spec, options) \
	"gpucredit.reserve($1, $2, " key ", $4, $5::interval, $6, $7, $8," \
	" max_retries => $9::int, cpu_milli => ($10::bigint[])[1]," \
	" memory_mib => ($10::bigint[])[2], hold_window => $11::interval," \
	" spec => " spec ", options => " options ")"

/*
 * For a task of an array: its key, its position in the array, and its
 * variables.
 */
#define TASK_KEY	"$3 || '-' || t.i"
#define TASK_SPEC	"jsonb_set($12::jsonb, '{env,SLURM_ARRAY_TASK_ID}'," \
	" to_jsonb(t.i::text))"
#define TASK_OPTIONS "$13::jsonb || jsonb_build_object('array'," \
	" encode(sha224(convert_to($3, 'UTF8')), 'hex'), 'task', t.i)"

static void read_submission(StoredSubmission *s, int argc, char **argv);
static void refuse_value_apart(const char *where, const char *before,
							   const char *script);
static void refuse_corresponding(const StoredSubmission *s);
static bool could_run(const StoredSubmission *s);
static void call_parameters(const StoredSubmission *s, const char *key,
							const char **values);
static void name_arrays(StoredSubmission *s);
static int	quote_submission(StoredSubmission *s,
							 const char *const *values);
static PGresult * submit(const char *const *values);
static int	print(const StoredSubmission *s, const PGresult * result);
static int	wait_for_jobs(const PGresult * result);
static void begin(PendingSubmission *pending, const char *const *values,
				  int n);
static char *state_folder(void);
static bool lock_key_file(PendingSubmission *pending);

/* Print the text of sbatch for a submitted job. */
static bool as_sbatch;

/*
 * sbatch: like submit, but the script may come from standard input, and for an
 * array only its number is printed, which is that of its first job.
 */
int
CliSbatch(int argc, char **argv)
{
	as_sbatch = true;
	return CliSubmit(argc, argv);
}

int
CliSubmit(int argc, char **argv)
{
	StoredSubmission submission;
	PendingSubmission pending = {.fd = -1};
	const char *values[VALUES];
	PGresult   *result;
	int			status;

	SubmissionInit(&submission);
	read_submission(&submission, argc, argv);
	call_parameters(&submission, NULL, values);
	if (submission.dry_run)
	{
		values[VALUE_SPEC] = LargeSpecQuoted(values[VALUE_SPEC]);
		return quote_submission(&submission, values);
	}
	if (submission.key != NULL)
	{
		values[VALUE_KEY] = submission.key;
		pending.at = time(NULL);
	}
	else
	{
		begin(&pending, values, VALUES);
		values[VALUE_KEY] = pending.key;
	}
	name_arrays(&submission);
	values[VALUE_OPTIONS] = SubmissionReserveOptions(&submission, pending.at);
	values[VALUE_SPEC] = LargeSpecStored(values[VALUE_SPEC],
										 values[VALUE_ORG],
										 values[VALUE_ACCOUNT]);
	if (pending.again)
		fprintf(stderr, "gpucredit: the answer to this submission was lost;"
				" it is made again under its key\n");
	result = submit(values);
	/* After any answer, an equal submission is a new job. */
	if (pending.fd >= 0 && !CliRetries(result))
		unlink(pending.path);
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		CliRefused(result);
	status = print(&submission, result);
	if (submission.waits)
	{
		int			code = wait_for_jobs(result);

		status = code > status ? code : status;
	}
	return status;
}

/*
 * Parses the command line, then the script that it names.
 */
static void
read_submission(StoredSubmission *s, int argc, char **argv)
{
	const char *where = as_sbatch ? "sbatch" : "submit";
	int			at = SubmissionOptions(s, argc, argv, where);
	bool		wrapped = s->wrap != NULL;

	/*
	 * The script's options are parsed first, so that those of the command
	 * line override them.
	 */
	SubmissionInit(s);
	s->warns = true;
	if (as_sbatch && at >= argc && !wrapped)
		SubmissionScript(s, "-");
	else if (wrapped)
	{
		if (at < argc)
			Fail(CLI_USAGE, "--wrap goes with no script");
	}
	else
	{
		if (at >= argc)
			Fail(CLI_USAGE, "usage: gpucredit submit [OPTION...] SCRIPT"
				 " [ARGUMENT...]");
		refuse_value_apart(where, argv[at - 1], argv[at]);
		SubmissionScript(s, argv[at]);
	}
	s->of_command = true;
	(void) SubmissionOptions(s, argc, argv, where);
	if (wrapped)
		s->script = Format("#!/bin/sh\n%s\n", s->wrap);
	else if (at < argc)
	{
		if (s->name == NULL && strcmp(argv[at], "-") != 0)
		{
			const char *slash = strrchr(argv[at], '/');

			s->name = Format("%s", slash == NULL ? argv[at] : slash + 1);
		}
		s->nargs = argc - at - 1;
		s->args = argv + at + 1;
	}
	if (s->name == NULL)
		s->name = Format("%s", wrapped ? "wrap" : "sbatch");
	PlacementCount(s);
	if (s->constraint != NULL)
		ConstraintApply(s);
	if (s->exclusive_place != NULL)
		ExclusiveApply(s, could_run);
	if (s->array.indexes == NULL && s->after != NULL)
		refuse_corresponding(s);
	/* An image contains its own interpreters. */
	if (!wrapped && s->image == NULL)
		InterpreterWarn(as_sbatch && at >= argc ? "-" : argv[at], s->script);
}

/*
 * Refuses a missing script that is the value of the option before it, as in
 * "--nice 100 train.sh". An option that may stand without a value has it after
 * "=" only.
 */
static void
refuse_value_apart(const char *where, const char *before, const char *script)
{
	const char *letters;
	const struct option *option = SubmissionOptionTable(&letters);

	if (strncmp(before, "--", 2) != 0 || access(script, F_OK) == 0)
		return;
	for (; option->name != NULL; option++)
	{
		if (option->has_arg == optional_argument &&
			strcmp(option->name, before + 2) == 0)
			Fail(CLI_USAGE, "%s: \"%s\" is taken for the script, because a"
				 " value of %s follows \"=\"; use %s=%s", where, script, before,
				 before, script);
	}
}

/*
 * Refuses aftercorr for a single job, as it pairs the tasks of two arrays.
 */
static void
refuse_corresponding(const StoredSubmission *s)
{
	for (int i = 0; i < s->after->n; i++)
	{
		if (s->after->terms[i].kind == AFTER_CORRESPONDING)
			Fail(CLI_USAGE, "the dependency aftercorr is for arrays alone; use"
				 " afterok");
	}
}

/*
 * Asks the database whether the pool could run a submission. Anything else for
 * which it would be denied is left to the submission itself.
 */
static bool
could_run(const StoredSubmission *s)
{
	const char *values[VALUES];
	PGresult   *quote;
	bool		could;

	call_parameters(s, NULL, values);
	values[VALUE_OPTIONS] = SubmissionReserveOptions(s, time(NULL));
	/* The key, the program and the tasks do not matter. */
	values[VALUE_KEY] = values[VALUE_SPEC] = values[VALUE_INDEXES] = NULL;
	quote = CliRepeat("SELECT q.reason FROM gpucredit.quote($1, $2, $4,"
					  " $5::interval, $6, $7, $8, max_retries => $9::int,"
					  " cpu_milli => ($10::bigint[])[1],"
					  " memory_mib => ($10::bigint[])[2],"
					  " hold_window => $11::interval, options => $13::jsonb,"
					  " plan => false) q WHERE $3::text IS NULL"
					  " AND $12::text IS NULL AND $14::text IS NULL", VALUES,
					  values, TRY_SECONDS);
	could = PQresultStatus(quote) != PGRES_TUPLES_OK ||
		PQntuples(quote) != 1 ||
		strcmp(PQgetvalue(quote, 0, 0), "impossible_request") != 0;
	PQclear(quote);
	return could;
}

/*
 * Sets the arguments of reserve(). NULL means the default.
 */
static void
call_parameters(const StoredSubmission *s, const char *key,
				const char **values)
{
	JobCounts	counts = SubmissionCounts(s);

	values[VALUE_ORG] = CliOrg();
	values[VALUE_ACCOUNT] = s->account != NULL ? s->account :
		cli_account != NULL ? cli_account : "";
	values[VALUE_KEY] = key;
	values[VALUE_REQUEST] = SubmissionRequest(s);
	values[VALUE_WALL_LIMIT] = s->seconds == 0 ? NULL :
		Format("%lld seconds", (long long) s->seconds);
	values[VALUE_TIER] = s->tier != NULL ? s->tier : "standard_training";
	values[VALUE_POOL] = s->pool != NULL ? s->pool : "default";
	values[VALUE_TOPOLOGY] = s->topology != NULL ? s->topology :
		counts.one_node ? "node" : "any";
	values[VALUE_RETRIES] = Format("%lld", (long long) (s->retries < 0 ?
														0 : s->retries));
	values[VALUE_SIZES] = Format("{%lld,%lld}",
								 (long long) (counts.counts_cpus ?
											  counts.cpus * 1000 : 0),
								 (long long) counts.memory_mib);
	values[VALUE_HOLD_WINDOW] = s->hold_window;
	values[VALUE_SPEC] = SubmissionSpec(s);
	values[VALUE_OPTIONS] = SubmissionReserveOptions(s, 0);
	values[VALUE_INDEXES] = s->array.indexes;
}

/*
 * Replaces conditions on an array's first job by conditions on the whole
 * array, as in Slurm, where the number of an array is that of its first job.
 * 12_0 means the first job alone.
 */
static void
name_arrays(StoredSubmission *s)
{
	Dependency *after = s->after;
	char	   *jobs = Format("{");
	const char *values[2] = {CliOrg(), NULL};
	PGresult   *arrays;

	for (int i = 0; after != NULL && i < after->n; i++)
	{
		if (after->terms[i].scope == DEPENDENCY_JOB &&
			after->terms[i].minutes == 0 && after->terms[i].job > 0 &&
			after->terms[i].kind != AFTER_CORRESPONDING)
			jobs = Format("%s%s%lld", jobs, jobs[1] == '\0' ? "" : ",",
						  (long long) after->terms[i].job);
	}
	if (jobs[1] == '\0')
		return;
	values[1] = Format("%s}", jobs);
	arrays = CliRepeat("SELECT j.job FROM gpucredit.jobs j WHERE j.org = $1"
					   " AND j.job = ANY ($2::bigint[]) AND j.array_key IS NOT NULL"
					   " AND NOT EXISTS (SELECT FROM gpucredit.jobs k"
					   "  WHERE k.org = $1 AND k.account = j.account"
					   "  AND k.array_key = j.array_key AND k.job < j.job)", 2,
					   values, TRY_SECONDS);
	if (PQresultStatus(arrays) != PGRES_TUPLES_OK)
		CliRefused(arrays);
	for (int row = 0; row < PQntuples(arrays); row++)
	{
		int64_t		job = strtoll(PQgetvalue(arrays, row, 0), NULL, 10);

		for (int i = 0; i < after->n; i++)
		{
			if (after->terms[i].job == job &&
				after->terms[i].scope == DEPENDENCY_JOB &&
				after->terms[i].minutes == 0 &&
				after->terms[i].kind != AFTER_CORRESPONDING)
				after->terms[i].scope = DEPENDENCY_ARRAY;
		}
	}
	PQclear(arrays);
}

/*
 * Prints what the submission would cost, and when the job would start.
 */
static int
quote_submission(StoredSubmission *s, const char *const *values)
{
	const char *asked[QUOTE_VALUES] = {
		[QUOTE_ORG] = values[VALUE_ORG],
		[QUOTE_ACCOUNT] = values[VALUE_ACCOUNT],
		[QUOTE_REQUEST] = values[VALUE_REQUEST],
		[QUOTE_WALL_LIMIT] = values[VALUE_WALL_LIMIT],
		[QUOTE_TIER] = values[VALUE_TIER],
		[QUOTE_POOL] = values[VALUE_POOL],
		[QUOTE_TOPOLOGY] = values[VALUE_TOPOLOGY],
		[QUOTE_RETRIES] = values[VALUE_RETRIES],
		[QUOTE_SIZES] = values[VALUE_SIZES],
		[QUOTE_HOLD_WINDOW] = values[VALUE_HOLD_WINDOW],
		[QUOTE_SPEC] = values[VALUE_SPEC],
		[QUOTE_TASKS] = "1",
		[QUOTE_ASKS] = SubmissionAsksText(s)
	};

	name_arrays(s);
	asked[QUOTE_OPTIONS] = SubmissionReserveOptions(s, time(NULL));
	if (s->array.indexes != NULL)
	{
		asked[QUOTE_TASK] = Format("%lld", (long long) s->array.lowest);
		asked[QUOTE_TASKS] = Format("%lld", (long long) s->array.n);
	}
	return as_sbatch && !s->json ?
		QuoteStart(asked, SubmissionCounts(s).cpus) :
		QuoteShow(asked, s->json ? SubmissionAsks(s) : NULL);
}

/*
 * Submits one job, or an array. An array is submitted by one statement: its
 * first job comes before the others, because its number becomes that of the
 * array, and no job is submitted without it.
 */
static PGresult *
submit(const char *const *values)
{
	if (values[VALUE_INDEXES] == NULL)
		return CliRepeat("SELECT NULL::bigint AS task, r.job, r.status, r.reason,"
						 " r.held, r.replayed FROM "
						 RESERVE("$3", "$12::jsonb", "$13::jsonb") " r"
						 " WHERE $14::text IS NULL", VALUES, values, TRY_SECONDS);
	return CliRepeat("WITH t AS MATERIALIZED (SELECT u.i, u.n"
					 "  FROM unnest($14::bigint[]) WITH ORDINALITY AS u (i, n)),"
					 " first AS MATERIALIZED (SELECT t.i, r.job, r.status,"
					 "  r.reason, r.held, r.replayed FROM (SELECT t.i FROM t"
					 "   WHERE t.n = 1) AS t CROSS JOIN LATERAL "
					 RESERVE(TASK_KEY, TASK_SPEC, TASK_OPTIONS) " r),"
					 " rest AS MATERIALIZED (SELECT t.i, r.job, r.status, r.reason,"
					 "  r.held, r.replayed FROM (SELECT t.i, f.job FROM first f"
					 "   CROSS JOIN t WHERE t.n > 1 AND f.job IS NOT NULL"
					 "   ORDER BY t.n OFFSET 0) AS t CROSS JOIN LATERAL "
					 RESERVE(TASK_KEY,
							 "jsonb_set(" TASK_SPEC ", '{env,SLURM_ARRAY_JOB_ID}',"
							 " to_jsonb(t.job::text))", TASK_OPTIONS) " r)"
					 " SELECT i AS task, job, status, reason, held, replayed"
					 " FROM (SELECT * FROM first UNION ALL SELECT * FROM rest) a"
					 " ORDER BY 1", VALUES, values, TRY_SECONDS);
}

/*
 * Prints the result of each job. A denied job sets the exit status. For an
 * array, sbatch prints the number of its first job, which is that of the
 * array. With JSON, each job is an object.
 */
static int
print(const StoredSubmission *s, const PGresult * result)
{
	int			status = CLI_DONE;

	for (int i = 0; i < PQntuples(result); i++)
	{
		const char *task = PQgetisnull(result, i, 0) ? "" :
			Format("task %s: ", PQgetvalue(result, i, 0));

		if (strcmp(PQgetvalue(result, i, 2), "denied") == 0)
		{
			if (!s->json)
				fprintf(stderr, "gpucredit: %sdenied: %s%s\n", task,
						PQgetvalue(result, i, 3),
						strcmp(PQgetvalue(result, i, 3),
							   "impossible_request") == 0 &&
						(s->nodelist != NULL || s->excluded != NULL ||
						 s->features != NULL) ?
						": the nodes that --nodelist, --exclude and"
						" --constraint allow could never run it" :
						strcmp(PQgetvalue(result, i, 3),
							   "impossible_request") == 0 &&
						s->whole.nodes > 0 ?
						": the pool has too few whole nodes of one size" : "");
			status = CLI_REFUSED;
		}
		else if (s->json || (as_sbatch && i > 0))
			continue;
		else if (s->parsable)
			puts(PQgetvalue(result, i, 1));
		else if (as_sbatch)
			printf("Submitted batch job %s\n", PQgetvalue(result, i, 1));
		else
			printf("%sjob %s, %s held\n", task, PQgetvalue(result, i, 1),
				   PQgetvalue(result, i, 4));
	}
	if (s->json)
		CliPrintJson(CliJsonRows(result));
	fflush(stdout);
	return status;
}

/*
 * Waits until the jobs have ended. Returns the highest exit code.
 */
static int
wait_for_jobs(const PGresult * result)
{
	int64_t    *jobs = Alloc(sizeof(int64_t) * (PQntuples(result) + 1));
	int			n = 0;

	for (int i = 0; i < PQntuples(result); i++)
	{
		if (!PQgetisnull(result, i, 1))
			jobs[n++] = strtoll(PQgetvalue(result, i, 1), NULL, 10);
	}
	return WaitForJobs(jobs, n, WAIT_SILENT);
}

/*
 * Finds the file of an equal submission that has no live process, or creates
 * one.
 */
static void
begin(PendingSubmission *pending, const char *const *values, int n)
{
	uint64_t	hash = UINT64_C(14695981039346656037);
	char	   *folder = state_folder();

	for (int i = 0; i < n; i++)
	{
		for (const char *at = values[i] == NULL ? "" : values[i];
			 *at != '\0'; at++)
			hash = (hash ^ (unsigned char) *at) * UINT64_C(1099511628211);
		hash = (hash ^ 0xff) * UINT64_C(1099511628211);
	}
	for (int i = 0; i < 10000; i++)
	{
		pending->path = Format("%s/%016llx-%d", folder,
							   (unsigned long long) hash, i);
		if (lock_key_file(pending))
		{
			free(folder);
			return;
		}
		free(pending->path);
	}
	Fail(CLI_REFUSED, "too many submissions like this one are under way");
}

/*
 * Locks the file. If it returns true, the key is on disk.
 */
static bool
lock_key_file(PendingSubmission *pending)
{
	struct stat st;
	char		line[96];
	ssize_t		n;

	pending->fd = open(pending->path, O_RDWR | O_CREAT | O_CLOEXEC |
					   O_NOFOLLOW, 0600);
	if (pending->fd < 0)
		Fail(CLI_REFUSED, "could not write %s: %s", pending->path,
			 strerror(errno));
	if (flock(pending->fd, LOCK_EX | LOCK_NB) != 0 ||
		fstat(pending->fd, &st) != 0 || st.st_nlink == 0)
	{
		close(pending->fd);
		return false;
	}
	n = pread(pending->fd, line, sizeof(line) - 1, 0);
	line[n < 0 ? 0 : n] = '\0';
	pending->again = n > KEY_LENGTH && line[KEY_LENGTH] == ' ' &&
		line[n - 1] == '\n';
	if (pending->again)
	{
		memcpy(pending->key, line, KEY_LENGTH);
		pending->at = (time_t) strtoll(line + KEY_LENGTH, NULL, 10);
	}
	else
	{
		memcpy(pending->key, CliKey(), KEY_LENGTH + 1);
		pending->at = time(NULL);
		n = snprintf(line, sizeof(line), "%s %lld\n", pending->key,
					 (long long) pending->at);
		if (ftruncate(pending->fd, 0) != 0 ||
			pwrite(pending->fd, line, n, 0) != n ||
			fsync(pending->fd) != 0)
			Fail(CLI_REFUSED, "could not write %s: %s", pending->path,
				 strerror(errno));
	}
	pending->key[KEY_LENGTH] = '\0';
	return true;
}

/*
 * Returns the folder for submissions under way, in the user's own state.
 */
static char *
state_folder(void)
{
	const char *state = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");
	char	   *folder;

	if (state == NULL || *state == '\0')
		folder = Format("%s/.local/state/gpucredit/pending",
						home == NULL ? "" : home);
	else
		folder = Format("%s/gpucredit/pending", state);
	for (char *at = folder + 1; *at != '\0'; at++)
	{
		if (*at != '/')
			continue;
		*at = '\0';
		mkdir(folder, 0700);
		*at = '/';
	}
	if (mkdir(folder, 0700) != 0 && errno != EEXIST)
		Fail(CLI_REFUSED, "could not make %s: %s", folder, strerror(errno));
	return folder;
}
