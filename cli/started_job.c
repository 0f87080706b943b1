/*-------------------------------------------------------------------------
 *
 * started_job.c
 *		Jobs that a command submits and then serves until they end.
 *
 * gpucredit notebook, salloc and srun submit a script of their own, wait until
 * it runs, and then connect the user to it. Each step is the command that the
 * user could give himself, run as a process of its own.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "started_job.h"

#define PAUSE_US	20000		/* between two looks at a process */

static char *write_script(const char *script);
static pid_t run_self(const char *command, const Words *words, int output);
static int	status_of(pid_t pid);
static char *job_in(const char *line);

void
WordsAdd(Words *words, const char *word)
{
	words->word = realloc(words->word, sizeof(char *) * (words->n + 2));
	if (words->word == NULL)
		Fail(CLI_REFUSED, "out of memory");
	words->word[words->n++] = Dup(word);
	words->word[words->n] = NULL;
}

/*
 * Submits a script, with these options of gpucredit submit and arguments of the
 * script, and returns the job. Ends the command if the submission is refused.
 */
char *
StartedJobSubmit(const Words *options, const char *script, char *const *args)
{
	Words		words = {NULL, 0};
	char	   *path = write_script(script);
	int			ends[2];
	char		line[256];
	char	   *job = NULL;
	FILE	   *out;
	pid_t		pid;
	int			status;

	for (int i = 0; i < options->n; i++)
		WordsAdd(&words, options->word[i]);
	WordsAdd(&words, path);
	for (; *args != NULL; args++)
		WordsAdd(&words, *args);
	if (pipe(ends) != 0)
		Fail(CLI_REFUSED, "could not start a process: %s", strerror(errno));
	pid = run_self("submit", &words, ends[1]);
	close(ends[1]);
	out = fdopen(ends[0], "r");
	while (out != NULL && fgets(line, sizeof(line), out) != NULL)
	{
		if (job == NULL)
			job = job_in(line);
	}
	if (out != NULL)
		fclose(out);
	status = status_of(pid);
	(void) unlink(path);
	if (status != 0 || job == NULL)
		exit(status != 0 ? status : CLI_REFUSED);
	return job;
}

static char *
write_script(const char *script)
{
	const char *folder = getenv("TMPDIR");
	char	   *path = Format("%s/gpucredit-job-XXXXXX",
							  folder == NULL ? "/tmp" : folder);
	int			fd = mkstemp(path);

	if (fd < 0 || dprintf(fd, "%s", script) < 0 || close(fd) != 0)
		Fail(CLI_REFUSED, "could not write %s: %s", path, strerror(errno));
	return path;
}

/*
 * Starts a command of this program for the same database and account. Its
 * standard output is the given descriptor.
 */
static pid_t
run_self(const char *command, const Words *words, int output)
{
	Words		all = {NULL, 0};
	pid_t		pid;

	WordsAdd(&all, "gpucredit");
	if (cli_database != NULL)
		WordsAdd(&all, Format("--database=%s", cli_database));
	WordsAdd(&all, Format("--org=%s", CliOrg()));
	if (cli_account != NULL)
		WordsAdd(&all, Format("--account=%s", cli_account));
	WordsAdd(&all, command);
	for (int i = 0; i < words->n; i++)
		WordsAdd(&all, words->word[i]);
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		Fail(CLI_REFUSED, "could not start a process: %s", strerror(errno));
	if (pid == 0)
	{
		(void) dup2(output, STDOUT_FILENO);
		execv("/proc/self/exe", all.word);
		_exit(127);
	}
	return pid;
}

/* Waits for a process. Returns its exit status, or 128 + its signal. */
static int
status_of(pid_t pid)
{
	int			status;

	while (waitpid(pid, &status, 0) < 0)
	{
		if (errno != EINTR)
			return CLI_REFUSED;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/*
 * Runs a command of this program, and returns its exit status. The command is
 * ended once *stop is a signal, because a signal that was sent to this process
 * alone did not reach it.
 */
int
RunSelf(const char *command, const Words *words,
		const volatile sig_atomic_t * stop)
{
	pid_t		pid = run_self(command, words, STDOUT_FILENO);
	siginfo_t	info = {0};

	while (waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		   info.si_pid == 0 && *stop == 0)
		usleep(PAUSE_US);
	if (*stop != 0)
		(void) kill(pid, SIGTERM);
	return status_of(pid);
}

/* Returns the job that a line of submit names, or NULL. */
static char *
job_in(const char *line)
{
	const char *at = strstr(line, "job ");
	size_t		digits = at == NULL ? 0 : strspn(at + 4, "0123456789");

	return digits == 0 ? NULL : Format("%.*s", (int) digits, at + 4);
}

/*
 * Says whether a job has run for the interval "after" already.
 */
JobProgress
StartedJobProgress(const char *job, const char *after)
{
	const char *values[3] = {CliOrg(), job, after};
	PGresult   *row = CliCall("SELECT j.state = 'running' AND j.started_at <="
							  "  gpucredit.now() - $3::interval,"
							  " j.ended_at IS NOT NULL"
							  " FROM gpucredit.jobs j"
							  " WHERE j.org = $1 AND j.job = $2::bigint",
							  3, values);
	JobProgress progress = PQntuples(row) == 0 ||
		strcmp(PQgetvalue(row, 0, 1), "t") == 0 ? JOB_IS_OVER :
		strcmp(PQgetvalue(row, 0, 0), "t") == 0 ? JOB_RUNS : JOB_WAITS;

	PQclear(row);
	return progress;
}
