/*-------------------------------------------------------------------------
 *
 * submit.c
 *		gpucredit submit: submit a script as a job, exactly once.
 *
 * The submission's key is on disk before the call.  If no answer came, or this
 * process died, the same submission finds its key there and repeats the call.
 * The database then returns the existing job, or creates it.  A live process
 * keeps its submission's file locked, so an equal submission at the same time
 * is a different job.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "submission.h"

#define TRY_SECONDS	60

/* A submission in progress. */
typedef struct PendingSubmission
{
	char	   *path;
	int			fd;
	char		key[64];
	bool		again;			/* an earlier try lost its answer */
} PendingSubmission;

static void read_submission(StoredSubmission *s, int argc, char **argv);
static void call_parameters(const StoredSubmission *s, const char *key,
							const char **values);
static PGresult * send(const char *const *values);
static int	print(const StoredSubmission *s, PGresult * result);
static void begin(PendingSubmission *pending, const char *const *values,
				  int n);
static char *state_folder(void);
static bool lock_key_file(PendingSubmission *pending);
static void new_key(char *key, size_t size);

/* the text for a job, without --parsable */
static bool as_sbatch;

/*
 * sbatch: the same, but the script may come from standard input.  An array is
 * several jobs here, so it has no single number to print.
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
	enum
	{
	VALUES = 13};
	StoredSubmission submission;
	PendingSubmission pending = {.fd = -1};
	const char *values[VALUES];
	PGresult   *result;

	SubmissionInit(&submission);
	read_submission(&submission, argc, argv);
	call_parameters(&submission, NULL, values);
	if (submission.key != NULL)
		values[2] = submission.key;
	else
	{
		begin(&pending, values, VALUES);
		values[2] = pending.key;
	}
	if (pending.again)
		fprintf(stderr, "gpucredit: the answer to this submission was lost;"
				" it is made again under its key\n");
	result = send(values);
	/* after any answer, an equal submission is a new job */
	if (pending.fd >= 0 && !CliRetries(result))
		unlink(pending.path);
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		CliRefused(result);
	return print(&submission, result);
}

/*
 * Read the command line, then the script it names.
 */
static void
read_submission(StoredSubmission *s, int argc, char **argv)
{
	const char *where = as_sbatch ? "sbatch" : "submit";
	int			at = SubmissionOptions(s, argc, argv, where);
	bool		wrapped = s->wrap != NULL;

	/* a script's options come before those of the command line */
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
		SubmissionScript(s, argv[at]);
	}
	(void) SubmissionOptions(s, argc, argv, where);
	if (wrapped)
		s->script = CliFormat("#!/bin/sh\n%s\n", s->wrap);
	else if (at < argc)
	{
		if (s->name == NULL && strcmp(argv[at], "-") != 0)
		{
			const char *slash = strrchr(argv[at], '/');

			s->name = CliFormat("%s", slash == NULL ? argv[at] : slash + 1);
		}
		s->nargs = argc - at - 1;
		s->args = argv + at + 1;
	}
	if (as_sbatch && s->array != NULL)
		Fail(CLI_USAGE, "an array is several jobs, which sbatch cannot tell;"
			 " use: gpucredit submit");
}

/*
 * The arguments of reserve(); NULL for a default.
 */
static void
call_parameters(const StoredSubmission *s, const char *key,
				const char **values)
{
	values[0] = CliOrg();
	values[1] = s->account != NULL ? s->account :
		cli_account != NULL ? cli_account : "";
	values[2] = key;
	values[3] = SubmissionRequest(s);
	values[4] = s->seconds == 0 ? NULL :
		CliFormat("%lld seconds", (long long) s->seconds);
	values[5] = s->tier != NULL ? s->tier : "standard_training";
	values[6] = s->pool != NULL ? s->pool : "default";
	values[7] = s->topology != NULL ? s->topology :
		SubmissionOnOneNode(s) ? "node" : "any";
	values[8] = CliFormat("%lld", (long long) (s->retries < 0 ? 0 :
											   s->retries));
	values[9] = CliFormat("{%lld,%lld}", (long long) SubmissionCpuMilli(s),
						  (long long) SubmissionMemoryMib(s));
	values[10] = s->hold_window;
	values[11] = SubmissionSpec(s);
	values[12] = s->array;
}

/*
 * Repeat the call until an answer comes.  An array is one statement: all of
 * its jobs or none.
 */
static PGresult *
send(const char *const *values)
{
	time_t		until = time(NULL) + TRY_SECONDS;
	PGresult   *result;

	for (;;)
	{
		result = CliTry("SELECT i.i AS index, r.job, r.status, r.reason,"
						" r.held, r.replayed"
						" FROM unnest(coalesce($13::bigint[], '{NULL}'))"
						"  AS i (i) CROSS JOIN LATERAL gpucredit.reserve("
						"$1, $2, $3 || coalesce('-' || i.i, ''), $4,"
						" $5::interval, $6, $7, $8, max_retries => $9::int,"
						" cpu_milli => ($10::bigint[])[1],"
						" memory_mib => ($10::bigint[])[2],"
						" hold_window => $11::interval,"
						" spec => CASE WHEN i.i IS NULL THEN $12::jsonb"
						"  ELSE jsonb_set($12::jsonb,"
						"   '{env,SLURM_ARRAY_TASK_ID}', to_jsonb(i.i::text))"
						" END) r", 13, values);
		if (!CliRetries(result) || time(NULL) >= until)
			return result;
		PQclear(result);
		usleep(300000);
	}
}

/*
 * Print the result of each job; a denied one sets the exit status.
 */
static int
print(const StoredSubmission *s, PGresult * result)
{
	int			status = CLI_DONE;

	for (int i = 0; i < PQntuples(result); i++)
	{
		if (strcmp(PQgetvalue(result, i, 2), "denied") == 0)
		{
			fprintf(stderr, "gpucredit: denied: %s\n",
					PQgetvalue(result, i, 3));
			status = CLI_REFUSED;
		}
		else if (s->parsable)
			puts(PQgetvalue(result, i, 1));
		else if (as_sbatch)
			printf("Submitted batch job %s\n", PQgetvalue(result, i, 1));
		else
			printf("job %s, %s held\n", PQgetvalue(result, i, 1),
				   PQgetvalue(result, i, 4));
	}
	PQclear(result);
	return status;
}

/*
 * Find the file of an equal submission without a live process, or make one.
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
		pending->path = CliFormat("%s/%016llx-%d", folder,
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
 * Lock the file; if this returns true, the key is on disk.
 */
static bool
lock_key_file(PendingSubmission *pending)
{
	struct stat st;
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
	n = read(pending->fd, pending->key, sizeof(pending->key) - 1);
	pending->again = n == 36;
	if (!pending->again)
	{
		new_key(pending->key, sizeof(pending->key));
		if (ftruncate(pending->fd, 0) != 0 ||
			pwrite(pending->fd, pending->key, 36, 0) != 36 ||
			fsync(pending->fd) != 0)
			Fail(CLI_REFUSED, "could not write %s: %s", pending->path,
				 strerror(errno));
	}
	pending->key[36] = '\0';
	return true;
}

/*
 * The folder of submissions in progress, in the user's own state.
 */
static char *
state_folder(void)
{
	const char *state = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");
	char	   *folder;

	if (state == NULL || *state == '\0')
		folder = CliFormat("%s/.local/state/gpucredit/pending",
						   home == NULL ? "" : home);
	else
		folder = CliFormat("%s/gpucredit/pending", state);
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

/* a random UUID */
static void
new_key(char *key, size_t size)
{
	unsigned char b[16];

	if (getrandom(b, sizeof(b), 0) != (ssize_t) sizeof(b))
		Fail(CLI_REFUSED, "no random numbers: %s", strerror(errno));
	b[6] = (b[6] & 0x0f) | 0x40;
	b[8] = (b[8] & 0x3f) | 0x80;
	snprintf(key, size, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
			 "%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3], b[4], b[5],
			 b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
			 b[15]);
}
