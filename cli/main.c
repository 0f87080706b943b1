/*-------------------------------------------------------------------------
 *
 * main.c
 *		gpucredit: the command line.
 *
 *     gpucredit [-d DATABASE] [-O ORG] [-A ACCOUNT] COMMAND [ARGUMENT...]
 *
 * If it is called by the name of one of Slurm's commands, it acts as that
 * command. It connects to the database with the caller's login, and has only
 * the rights of that login.
 *-------------------------------------------------------------------------
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "log.h"

/* A command, its usage line, and its description. */
typedef struct Command
{
	const char *name;
	int			(*run) (int argc, char **argv);
	const char *use;
	const char *does;
} Command;

static const Command commands[] = {
	/* The help of this command lists its options (sbatch.c). */
	{"submit", CliSubmit, "submit [OPTION...] SCRIPT [ARGUMENT...]", NULL},
	{"job", CliJob, "job [--json] [--history] JOB...",
		"Prints what is known of a job: its request, nodes and devices, exit code,"
		" cost,\nuse of its devices, why it waits or how it ended, and with"
	" --history all that\nhappened to it."},
	{"queue", CliQueue, "queue [--json] [JOB...]",
	"Lists the jobs that are not over, or those named in any state."},
	{"cancel", CliCancel, "cancel [--json] JOB...",
	"Cancels jobs; a running one ends by the ordinary stop."},
	{"requeue", CliRequeue, "requeue [--json] JOB...",
		"Has running jobs run again, in the same job: they are told to stop, and"
	" return to the\nqueue whatever their exit code."},
	{"hold", CliHold, "hold [--json] JOB...",
	"Keeps waiting jobs from starting. Their credit stays set aside."},
	{"release", CliRelease, "release [--json] JOB...",
	"Lets held jobs start again, at the prices then in force."},
	{"wait", CliWait, "wait [--json] JOB...",
		"Waits until the jobs are over. The exit status is their highest exit"
	" code."},
	{"logs", CliLogs, "logs [-f] [OPTION...] JOB...",
		"Prints a job's output, also after its node is gone. -f follows it;"
		" --all prints all\ntasks of an array and all nodes of a gang, each line"
		" with its job; --stdout, --stderr,\n--from BYTE, --tail BYTES,"
	" --attempt N and --node NODE choose what is printed."},
	{"attach", CliAttach, "attach [--node NODE] JOB [COMMAND [ARGUMENT...]]",
		"Runs a command, or a shell, in a terminal within a running job. At the"
		" beginning of\na line \"~.\" closes it. The exit status is the"
	" command's."},
	{"shell", CliAttach, "shell [--node NODE] JOB",
	"Opens a shell in a terminal within a running job."},
	{"forward", CliForward, "forward [--node NODE] JOB [LOCAL:]PORT",
		"Brings a port of a running job to this machine's loopback address,"
	" until it is\ninterrupted or the job ends."},
	{"notebook", CliNotebook, "notebook [OPTION...]",
		"Runs Debian's jupyter-notebook as a job in tier interactive, with"
		" submit's options, and\nprints the address to open here, until it is"
	" interrupted. The job goes on then."},
	{"explain", CliExplain, "explain [--json] JOB",
	"Says why a job waits, or how it ended and what to do about that."},
	{"balance", CliBalance, "balance [--json]",
	"Prints the credit of the account."},
	{"nodes", CliNodes, "nodes [--json]",
	"Lists the nodes; for operators."},
	{"drain", CliDrain, "drain [--json] NODE REASON",
	"Starts nothing new on a node; for operators."},
	{"resume", CliResume, "resume [--json] NODE",
	"Ends a drain; for operators."},
	{"top", CliTop, "top [-1 | --json] [POOL]",
	"Shows the pool's map and queue each second; -1 and --json: once."},
	{"import", CliImport, "import [--apply] [--json] slurm FILE",
		"Reads accounts, users, shares and limits from a file of sacctmgr dump,"
		" and says what it\nwould set in the organisation; with --apply it sets"
	" that. For administrators."},
	{"login", CliLogin, "login [-s SCOPE] [-t TTL] URL ISSUER CLIENT",
		"Signs in at gpucreditd's address by an identity provider, without a"
		" login of the\ndatabase: prints an address where you confirm a code,"
		" and then keeps a token in\n~/.config/gpucredit/token for the HTTP"
	" interface."},
	{"verify", CliVerify, "verify [--json]",
	"Checks the books. No output means that all is well."},
};

/* Other names of this program, each of which is a command. */
static const struct
{
	const char *name;
	int			(*run) (int argc, char **argv);
}			others[] = {
	{"sacct", CliSacct}, {"salloc", CliSalloc}, {"sbatch", CliSbatch}, {"scancel", CliScancel},
	{"scontrol", CliScontrol}, {"seff", CliSeff}, {"sinfo", CliSinfo},
	{"sprio", CliSprio}, {"squeue", CliSqueue}, {"srun", CliSrun},
	{"sshare", CliSshare},
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
	LogProgram(cli_program);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
	{
		const char *slash = strrchr(argv[0], '/');

		if (strcmp(slash == NULL ? argv[0] : slash + 1, others[i].name) == 0)
		{
			cli_program = others[i].name;
			LogProgram(cli_program);
			if (argc > 1 && (strcmp(argv[1], "--version") == 0 ||
							 strcmp(argv[1], "-V") == 0))
			{
				/* programs search this line for "slurm" and digits */
				puts("gpucredit " CLI_VERSION " (for users of slurm 22.05)");
				return CLI_DONE;
			}
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

			if (commands[i].does != NULL && skipped + 1 < argc &&
				strcmp(argv[skipped + 1], "--help") == 0)
			{
				printf("usage: gpucredit %s\n%s\n", commands[i].use,
					   commands[i].does);
				return CLI_DONE;
			}
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
