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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cli.h"
#include "session.h"
#include "started_job.h"

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

static void wait_until_running(const char *job);

int
CliNotebook(int argc, char **argv)
{
	unsigned char bytes[20];
	char		token[33];
	int			port;
	int			local;
	int			listener;
	Words		options = {NULL, 0};
	char	   *none = NULL;
	char	   *job;

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		Fail(CLI_REFUSED, "no random numbers: %s", strerror(errno));
	for (int i = 0; i < 16; i++)
		snprintf(token + 2 * i, 3, "%02x", bytes[i]);
	port = PORT_FIRST + (bytes[16] << 8 | bytes[17]) % PORTS;
	/* The user's options come last, so that they prevail. */
	WordsAdd(&options, "--qos=interactive");
	for (int i = 1; i < argc; i++)
		WordsAdd(&options, argv[i]);
	job = StartedJobSubmit(&options, Format(script, port, token), &none);
	fprintf(stderr, "gpucredit: job %s is submitted\n", job);
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

/*
 * Waits until the job has run for two seconds: a notebook takes longer to
 * answer, and where the program is missing the job has ended by then. Ends the
 * command if the job ends before.
 */
static void
wait_until_running(const char *job)
{
	bool		told = false;
	JobProgress progress;

	while ((progress = StartedJobProgress(job, "2 s")) == JOB_WAITS)
	{
		if (!told)
			fprintf(stderr, "gpucredit: job %s waits to start:"
					" \"gpucredit explain %s\" says why\n", job, job);
		told = true;
		usleep(LOOK_US);
	}
	if (progress == JOB_IS_OVER)
		Fail(CLI_REFUSED, "job %s ended before it could be reached:"
			 " \"gpucredit logs %s\" shows why", job, job);
}
