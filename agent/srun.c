/*-------------------------------------------------------------------------
 *
 * srun.c
 *		srun inside a script: parses its options.
 *
 *     srun [OPTION...] PROGRAM [ARGUMENT...]
 *
 * An unknown option that could change what runs ends the command. Options that
 * only repeat what the job's allocation has decided are accepted and have no
 * effect.
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "srun.h"

enum
{
	OPT_NTASKS_PER_NODE = 256, OPT_GPUS_PER_NODE, OPT_GPUS_PER_TASK, OPT_GRES,
	OPT_EXCLUSIVE, OPT_OVERLAP, OPT_EXPORT, OPT_NOTHING, OPT_REFUSED
};

/* An option that only repeats what the job's allocation has decided. */
#define NOTHING(name, argument) {name, argument, NULL, OPT_NOTHING}

static const struct option options[] = {
	{"ntasks", required_argument, NULL, 'n'},
	{"nodes", required_argument, NULL, 'N'},
	{"ntasks-per-node", required_argument, NULL, OPT_NTASKS_PER_NODE},
	{"cpus-per-task", required_argument, NULL, 'c'},
	{"gpus", required_argument, NULL, 'G'},
	{"gpus-per-node", required_argument, NULL, OPT_GPUS_PER_NODE},
	{"gpus-per-task", required_argument, NULL, OPT_GPUS_PER_TASK},
	{"gres", required_argument, NULL, OPT_GRES},
	{"exclusive", optional_argument, NULL, OPT_EXCLUSIVE},
	{"exact", no_argument, NULL, OPT_EXCLUSIVE},
	{"overlap", no_argument, NULL, OPT_OVERLAP},
	{"output", required_argument, NULL, 'o'},
	{"error", required_argument, NULL, 'e'},
	{"input", required_argument, NULL, 'i'},
	{"label", no_argument, NULL, 'l'},
	{"chdir", required_argument, NULL, 'D'},
	{"job-name", required_argument, NULL, 'J'},
	{"export", required_argument, NULL, OPT_EXPORT},
	{"kill-on-bad-exit", optional_argument, NULL, 'K'},
	{"nodelist", required_argument, NULL, 'w'},
	{"exclude", required_argument, NULL, 'x'},
	{"relative", required_argument, NULL, 'r'},
	{"distribution", required_argument, NULL, 'm'},
	{"quiet", no_argument, NULL, 'Q'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	NOTHING("unbuffered", no_argument), NOTHING("verbose", no_argument),
	NOTHING("wait", required_argument), NOTHING("time", required_argument),
	NOTHING("partition", required_argument), NOTHING("account", required_argument),
	NOTHING("mem", required_argument), NOTHING("mem-per-cpu", required_argument),
	NOTHING("mem-per-gpu", required_argument), NOTHING("mpi", required_argument),
	NOTHING("cpu-bind", required_argument), NOTHING("mem-bind", required_argument),
	NOTHING("gpu-bind", required_argument), NOTHING("hint", required_argument),
	NOTHING("cpu-freq", required_argument), NOTHING("open-mode", required_argument),
	NOTHING("resv-ports", optional_argument), NOTHING("no-kill", optional_argument),
	NOTHING("comment", required_argument), NOTHING("propagate", optional_argument),
	NOTHING("cpus-per-gpu", required_argument),
	{NULL, 0, NULL, 0}
};

static int	number(const char *text, const char *option, int least);
static int	first_number(const char *text, const char *option);
static int	device_count(const char *text, const char *option);
static void parse_option(Srun *srun, int option, const char *value);
static void parse_text_option(Srun *srun, int option, const char *value);
static void read_environment(Srun *srun);
static void refuse(const char *word)
			__attribute__((noreturn));
static void usage(void)
			__attribute__((noreturn));

int
SrunMain(int argc, char **argv)
{
	const char *steps = getenv("GPUCREDIT_STEPS");
	StepLayout *layout = Alloc(sizeof(StepLayout));
	Srun		srun = {.ask = {-1, -1, -1, -1, -1, -1, -1, 0, NULL, NULL,
		false, false, false}};
	int			option;

	opterr = 0;
	read_environment(&srun);
	while ((option = getopt_long(argc, argv, "+:n:N:c:G:o:e:i:lD:J:Kw:x:r:m:QhVu"
								 "vW:t:p:A:O", options, NULL)) != -1)
	{
		if (option == ':')
			StepFail("option \"%s\" takes a value", argv[optind - 1]);
		if (option == '?')
			refuse(argv[optind - 1]);
		parse_option(&srun, option, optarg);
	}
	if (optind >= argc)
		StepFail("No command given to execute.");
	if (steps == NULL)
		StepFail("there is no job here: srun starts steps inside a script; submit"
				 " one by sbatch or gpucredit submit");
	srun.argv = argv + optind;
	srun.argc = argc - optind;
	StepLayoutRead(layout, steps);
	if (layout->rank != 0)
		StepFail("steps start on the job's first node, %s",
				 layout->nodes[0].name);
	StepLayoutPlan(layout, &srun.ask, steps);
	return SrunRun(&srun, layout, steps);
}

/*
 * Reads the options of sbatch that apply to steps as well, from the
 * environment.
 */
static void
read_environment(Srun *srun)
{
	const char *gpus_per_task = getenv("SLURM_GPUS_PER_TASK");
	const char *tasks_per_node = getenv("SLURM_NTASKS_PER_NODE");
	const char *name = getenv("SLURM_JOB_NAME");

	if (gpus_per_task != NULL)
		srun->ask.gpus_per_task = device_count(gpus_per_task,
											   "SLURM_GPUS_PER_TASK");
	if (tasks_per_node != NULL)
		srun->ask.tasks_per_node = first_number(tasks_per_node,
												"SLURM_NTASKS_PER_NODE");
	if (getenv("SRUN_CPUS_PER_TASK") != NULL)
		srun->ask.cpus_per_task = number(getenv("SRUN_CPUS_PER_TASK"),
										 "SRUN_CPUS_PER_TASK", 1);
	srun->name = name;
}

/*
 * Handles options that define where tasks run, and how many.
 */
static void
parse_option(Srun *srun, int option, const char *value)
{
	StepAsk    *ask = &srun->ask;

	switch (option)
	{
		case 'n':
			ask->tasks = number(value, "--ntasks", 1);
			break;
		case 'N':
			ask->nodes = first_number(value, "--nodes");
			break;
		case OPT_NTASKS_PER_NODE:
			ask->tasks_per_node = number(value, "--ntasks-per-node", 1);
			break;
		case 'c':
			ask->cpus_per_task = number(value, "--cpus-per-task", 1);
			break;
		case 'G':
			ask->gpus = device_count(value, "--gpus");
			ask->gpus_per_task = ask->gpus_per_node = -1;
			break;
		case OPT_GRES:
			if (strcmp(value, "none") == 0)
				value = "0";
			else if (strncmp(value, "gpu", 3) == 0 &&
					 (value[3] == ':' || value[3] == '\0'))
				value = value[3] == '\0' ? "1" : value + 4;
			else
				StepFail("--gres has \"gpu\" alone, not \"%s\"", value);
			/* FALLTHROUGH */
		case OPT_GPUS_PER_NODE:
			ask->gpus_per_node = device_count(value, "--gpus-per-node");
			ask->gpus_per_task = ask->gpus = -1;
			break;
		case OPT_GPUS_PER_TASK:
			ask->gpus_per_task = device_count(value, "--gpus-per-task");
			ask->gpus = ask->gpus_per_node = -1;
			break;
		case OPT_EXCLUSIVE:
			ask->exclusive = true;
			break;
		case OPT_OVERLAP:
		case 'O':
			ask->overlap = true;
			break;
		case 'w':
			ask->node_list = value;
			break;
		case 'x':
			ask->excluded = value;
			break;
		case 'r':
			ask->first = number(value, "--relative", 0);
			break;
		case 'm':
			ask->cyclic = strncmp(value, "cyclic", 6) == 0;
			if (strncmp(value, "arbitrary", 9) == 0 ||
				strncmp(value, "plane", 5) == 0)
				StepFail("--distribution is block or cyclic, not \"%s\"", value);
			break;
		case 'K':
			srun->ends_all = value == NULL || strcmp(value, "0") != 0;
			break;
		case 'Q':
			srun->quiet = true;
			break;
		case 'h':
			usage();
		case 'V':
			puts("gpucredit-step " AGENT_VERSION);
			exit(0);
		default:
			parse_text_option(srun, option, value);
	}
}

/*
 * Handles options with a text. An option that is not here has no effect.
 */
static void
parse_text_option(Srun *srun, int option, const char *value)
{
	switch (option)
	{
		case 'o':
			srun->output = value;
			break;
		case 'e':
			srun->error = value;
			break;
		case 'i':
			srun->input = value;
			break;
		case 'l':
			srun->labels = true;
			break;
		case 'D':
			srun->folder = value;
			break;
		case 'J':
			srun->name = value;
			break;
		case OPT_EXPORT:
			srun->exported = strcmp(value, "NIL") == 0 ? "NONE" : value;
			break;
	}
}

/*
 * Refuses an option, with the reason if one is known.
 */
static void
refuse(const char *word)
{
	static const char *const reasons[][2] = {
		{"--pty", "a step has no terminal"},
		{"--multi-prog", "start a step for each program, with & and wait"},
		{"--jobid", "steps start inside the job's own script"},
		{"--het-group", "a job has nodes of one kind"},
		{"--ntasks-per-gpu", "say --ntasks and --gpus-per-task"},
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
	{
		if (strncmp(word, reasons[i][0], strlen(reasons[i][0])) == 0)
			StepFail("option \"%s\" is not supported: %s", word, reasons[i][1]);
	}
	StepFail("option \"%s\" is not supported", word);
}

static int
number(const char *text, const char *option, int least)
{
	char	   *end;
	long		n = strtol(text, &end, 10);

	if (end == text || *end != '\0' || n < least || n > 100000)
		StepFail("%s is a number from %d to 100000, not \"%s\"", option, least,
				 text);
	return (int) n;
}

/* Parses "2", or the lower bound of "2-4". */
static int
first_number(const char *text, const char *option)
{
	char	   *first = Format("%.*s", (int) strspn(text, "0123456789"), text);
	int			n = number(first, option, 1);

	free(first);
	return n;
}

/* Parses "2", or "a100:2". */
static int
device_count(const char *text, const char *option)
{
	const char *colon = strrchr(text, ':');

	if (colon == NULL && !isdigit((unsigned char) *text))
		return 1;
	return number(colon == NULL ? text : colon + 1, option, 0);
}

/*
 * Prints the supported options.
 */
static void
usage(void)
{
	puts("usage: srun [OPTION...] PROGRAM [ARGUMENT...]\n"
		 "Starts a step of the job in whose script it stands.\n"
		 "  -n, --ntasks=N  -N, --nodes=N  --ntasks-per-node=N\n"
		 "  -c, --cpus-per-task=N  -G, --gpus=N  --gpus-per-task=N\n"
		 "  --gpus-per-node=N  --gres=gpu[:N]\n"
		 "  --exclusive, --exact    its cpus are no other step's\n"
		 "  --overlap               it shares GPUs and cpus with other steps\n"
		 "  -w, --nodelist=LIST  -x, --exclude=LIST  -r, --relative=N\n"
		 "  -m, --distribution=block|cyclic\n"
		 "  -o, --output=PATTERN  -e, --error=PATTERN  -i, --input=FILE\n"
		 "  -l, --label  -D, --chdir=FOLDER  -J, --job-name=NAME\n"
		 "  --export=ALL|NONE|NAME[=VALUE],...\n"
		 "  -K, --kill-on-bad-exit[=0|1]  -Q, --quiet");
	exit(0);
}
