/*-------------------------------------------------------------------------
 *
 * notebook.c
 *		gpucredit notebook: starts a Jupyter notebook as a job, and brings it to
 *		this machine.
 *
 * It submits a script that runs jupyter-notebook in tier interactive, waits
 * until the job runs, prints the address to open, and forwards the port until
 * it is interrupted. The job goes on then; it ends when the user shuts the
 * notebook down or cancels the job, or at its limit.
 *
 * Every user of this machine can connect to the forwarded port, so the address
 * has a token, which is random for each job.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "session.h"

#define PORT_FIRST	20000		/* ports of notebooks, below those that the
								 * kernel assigns */
#define PORTS		12000
#define LOOK_US		500000		/* pause between two looks at the job */

/* $1 of the format is the port, $2 the token. */
static const char script[] =
"#!/bin/bash\n"
"#SBATCH --job-name=notebook\n"
"command -v jupyter-notebook >/dev/null || {\n"
"\techo 'jupyter-notebook is not on this node: the operator has to install"
" Debian'\\''s package jupyter-notebook' >&2\n"
"\texit 127\n"
"}\n"
"export JUPYTER_TOKEN=%2$s\n"
"exec jupyter-notebook --no-browser --ip=127.0.0.1 --port=%1$d\n";

static char *write_script(int port, const char *token);
static char *submit(int argc, char **argv, const char *path);
static char *job_in(const char *line);
static void wait_until_running(const char *job);

int
CliNotebook(int argc, char **argv)
{
	unsigned char bytes[20];
	char		token[33];
	int			port;
	int			local;
	int			listener;
	char	   *path;
	char	   *job;

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		Fail(CLI_REFUSED, "no random numbers: %s", strerror(errno));
	for (int i = 0; i < 16; i++)
		snprintf(token + 2 * i, 3, "%02x", bytes[i]);
	port = PORT_FIRST + (bytes[16] << 8 | bytes[17]) % PORTS;
	path = write_script(port, token);
	job = submit(argc, argv, path);
	(void) unlink(path);
	wait_until_running(job);
	local = port;
	listener = SessionListen(&local);
	if (listener < 0)
	{
		local = 0;
		listener = SessionListen(&local);
	}
	if (listener < 0)
		Fail(CLI_REFUSED, "could not listen on this machine: %s",
			 strerror(errno));
	printf("http://127.0.0.1:%d/?token=%s\n", local, token);
	fflush(stdout);
	fprintf(stderr, "gpucredit: the notebook answers once it has started."
			" Control-C ends this command; the job goes on until"
			" \"gpucredit cancel %s\", and \"gpucredit forward %s %d:%d\""
			" reaches it again.\n", job, job, local, port);
	return SessionForward(job, port, NULL, listener);
}

static char *
write_script(int port, const char *token)
{
	const char *folder = getenv("TMPDIR");
	char	   *path = Format("%s/gpucredit-notebook-XXXXXX",
							  folder == NULL ? "/tmp" : folder);
	int			fd = mkstemp(path);

	if (fd < 0 || dprintf(fd, script, port, token) < 0 || close(fd) != 0)
		Fail(CLI_REFUSED, "could not write %s: %s", path, strerror(errno));
	return path;
}

/*
 * Submits the script with the user's options after those of a notebook, so
 * that they prevail. Returns the job.
 */
static char *
submit(int argc, char **argv, const char *path)
{
	char	  **words = Alloc(sizeof(char *) * (argc + 12));
	int			n = 0;
	int			ends[2];
	pid_t		pid;
	int			status;
	char		line[256];
	char	   *job = NULL;
	FILE	   *out;

	words[n++] = Dup("gpucredit");
	if (cli_database != NULL)
		words[n++] = Format("--database=%s", cli_database);
	words[n++] = Format("--org=%s", CliOrg());
	if (cli_account != NULL)
		words[n++] = Format("--account=%s", cli_account);
	words[n++] = Dup("submit");
	words[n++] = Dup("--qos=interactive");
	for (int i = 1; i < argc; i++)
		words[n++] = argv[i];
	words[n++] = Dup(path);
	words[n] = NULL;
	if (pipe(ends) != 0 || (pid = fork()) < 0)
		Fail(CLI_REFUSED, "could not start a process: %s", strerror(errno));
	if (pid == 0)
	{
		(void) dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		execv("/proc/self/exe", words);
		_exit(127);
	}
	close(ends[1]);
	out = fdopen(ends[0], "r");
	while (out != NULL && fgets(line, sizeof(line), out) != NULL)
	{
		fputs(line, stderr);
		if (job == NULL)
			job = job_in(line);
	}
	if (out != NULL)
		fclose(out);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || job == NULL)
	{
		(void) unlink(path);
		exit(WIFEXITED(status) && WEXITSTATUS(status) != 0 ?
			 WEXITSTATUS(status) : CLI_REFUSED);
	}
	return job;
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
 * Waits until the job has run for two seconds: a notebook takes longer to
 * answer, and where the program is missing the job has ended by then. Ends the
 * command if the job ends before.
 */
static void
wait_until_running(const char *job)
{
	const char *values[2] = {CliOrg(), job};
	bool		told = false;

	for (;;)
	{
		PGresult   *row = CliCall("SELECT j.state = 'running' AND"
								  " j.started_at <="
								  " gpucredit.now() - interval '2 s',"
								  " j.ended_at IS NOT NULL"
								  " FROM gpucredit.jobs j"
								  " WHERE j.org = $1 AND j.job = $2::bigint",
								  2, values);
		bool		runs = PQntuples(row) == 1 &&
			strcmp(PQgetvalue(row, 0, 0), "t") == 0;
		bool		over = PQntuples(row) == 0 ||
			strcmp(PQgetvalue(row, 0, 1), "t") == 0;

		PQclear(row);
		if (over)
			Fail(CLI_REFUSED, "job %s ended before it could be reached:"
				 " \"gpucredit logs %s\" shows why", job, job);
		if (runs)
			return;
		if (!told)
			fprintf(stderr, "gpucredit: job %s waits to start:"
					" \"gpucredit explain %s\" says why\n", job, job);
		told = true;
		usleep(LOOK_US);
	}
}
