/*-------------------------------------------------------------------------
 *
 * main.c
 *		gpucredit: the command line.
 *
 *	gpucredit [-d DATABASE] [-O ORG] [-A ACCOUNT] COMMAND [ARGUMENT...]
 *
 * Under the name sbatch, squeue or scancel it is that command (slurm.c).
 *
 * It speaks SQL to the database under the caller's login, and has that login's
 * rights only.
 *
 *-------------------------------------------------------------------------
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const struct
{
	const char *name;
	int			(*run) (int argc, char **argv);
	const char *use;
}			commands[] = {
	{"submit", CliSubmit, "submit [OPTION...] SCRIPT [ARGUMENT...]"},
	{"queue", CliQueue, "queue [JOB...]"},
	{"cancel", CliCancel, "cancel JOB..."},
	{"hold", CliHold, "hold JOB..."},
	{"release", CliRelease, "release JOB..."},
	{"logs", CliLogs, "logs [-f] [OPTION...] JOB"},
	{"explain", CliExplain, "explain JOB"},
	{"balance", CliBalance, "balance"},
	{"nodes", CliNodes, "nodes"},
	{"drain", CliDrain, "drain NODE REASON"},
	{"resume", CliResume, "resume NODE"},
	{"top", CliTop, "top [-1] [POOL]"},
	{"verify", CliVerify, "verify"},
	{"wait", CliWait, "wait JOB..."},
};

/* Other names of this program, each a command. */
static const struct
{
	const char *name;
	int			(*run) (int argc, char **argv);
}			others[] = {
	{"sbatch", CliSbatch}, {"scancel", CliScancel}, {"squeue", CliSqueue},
};

#define COMMANDS	(sizeof(commands) / sizeof(commands[0]))

static void usage(FILE *out);

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{"database", required_argument, NULL, 'd'},
		{"org", required_argument, NULL, 'O'},
		{"account", required_argument, NULL, 'A'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{NULL, 0, NULL, 0}
	};
	int			option;

	cli_database = getenv("GPUCREDIT_DATABASE");
	cli_org = getenv("GPUCREDIT_ORG");
	cli_account = getenv("GPUCREDIT_ACCOUNT");
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
	{
		const char *slash = strrchr(argv[0], '/');

		if (strcmp(slash == NULL ? argv[0] : slash + 1, others[i].name) == 0)
		{
			cli_program = others[i].name;
			return others[i].run(argc, argv);
		}
	}
	while ((option = getopt_long(argc, argv, "+d:O:A:h", options,
								 NULL)) != -1)
	{
		switch (option)
		{
			case 'd':
				cli_database = optarg;
				break;
			case 'O':
				cli_org = optarg;
				break;
			case 'A':
				cli_account = optarg;
				break;
			case 'h':
				usage(stdout);
				return CLI_DONE;
			case 'V':
				puts("gpucredit " CLI_VERSION);
				return CLI_DONE;
			default:
				usage(stderr);
				return CLI_USAGE;
		}
	}
	for (size_t i = 0; i < COMMANDS && optind < argc; i++)
	{
		if (strcmp(argv[optind], commands[i].name) == 0)
		{
			int			skipped = optind;

			optind = 0;
			return commands[i].run(argc - skipped, argv + skipped);
		}
	}
	usage(stderr);
	return CLI_USAGE;
}

static void
usage(FILE *out)
{
	fputs("usage: gpucredit [-d DATABASE] [-O ORG] [-A ACCOUNT] COMMAND\n"
		  "       gpucredit --version\n", out);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(out, "       gpucredit %s\n", commands[i].use);
	fputs("The environment may say GPUCREDIT_DATABASE, GPUCREDIT_ORG and"
		  " GPUCREDIT_ACCOUNT.\n", out);
}
