/*-------------------------------------------------------------------------
 *
 * step_main.c
 *		gpucredit-step: the commands of a job's script that start steps.
 *
 *     srun ...                     (srun.c)
 *     scontrol show hostnames      (hostnames.c)
 *     scontrol requeue JOB         (requeue.c)
 *     sbcast SOURCE DESTINATION    (sbcast.c)
 *     gpucredit-step serve ADDRESS (step_server.c)
 *
 * The name by which the program is called selects the command. The program
 * links only the C library, and has no connection to the database.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "srun.h"
#include "step_serve.h"

static int	scontrol(int argc, char **argv);

int
main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	const char *name = slash == NULL ? argv[0] : slash + 1;

	if (strcmp(name, "srun") == 0)
		return SrunMain(argc, argv);
	if (strcmp(name, "sbcast") == 0)
		return SbcastMain(argc, argv);
	if (strcmp(name, "scontrol") == 0)
		return scontrol(argc, argv);
	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		StepServer(argv[2]);
	if (argc == 2 && strcmp(argv[1], "--version") == 0)
	{
		puts("gpucredit-step " AGENT_VERSION);
		return 0;
	}
	Die("usage: gpucredit-step serve ADDRESS, or --version; it is srun,"
		" sbcast and scontrol by those names");
}

/*
 * All other commands of scontrol are those of the command line, which needs
 * the database.
 */
static int
scontrol(int argc, char **argv)
{
	if ((argc == 3 || argc == 4) && strncmp(argv[1], "show", 4) == 0 &&
		strncmp(argv[2], "hostname", 8) == 0)
		return SrunHostnames(argc == 4 ? argv[3] : NULL);
	if (argc == 3 && strcmp(argv[1], "requeue") == 0)
		return SrunRequeue(argv[2]);
	fputs("scontrol: inside a job there are \"scontrol show hostnames"
		  " [LIST]\" and \"scontrol requeue JOB\"\n", stderr);
	return 1;
}
