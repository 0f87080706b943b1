/*-------------------------------------------------------------------------
 *
 * main.c
 *		gpucredit-bridge: an external scheduler places jobs, and gpucredit
 *		charges for them.
 *
 * The program has one command for each scheduler.
 *-------------------------------------------------------------------------
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "bridge.h"
#include "log.h"

static const struct
{
	const char *name;
	int			(*run) (int argc, char **argv);
}			commands[] = {
	{"kubernetes", KubernetesMain},
	{"slurm", SlurmMain},
};

#define COMMANDS	((int) (sizeof(commands) / sizeof(commands[0])))

int
main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--version") == 0)
	{
		puts("gpucredit-bridge " BRIDGE_VERSION);
		return 0;
	}
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; argc > 1 && i < COMMANDS; i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 2, argv + 2);
	Die("usage: gpucredit-bridge kubernetes|slurm CONFIG");
}
