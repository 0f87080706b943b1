/*-------------------------------------------------------------------------
 *
 * sbcast.c
 *		sbcast inside a job: copies a file to each of the job's nodes.
 *
 *     sbcast [-f] [-p] SOURCE DESTINATION
 *
 * It is an srun with one task on each node, all of which get the file as their
 * standard input. A task writes to a file of another name beside the
 * destination, and renames it once the file is there whole, so that no program
 * finds a part of it.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory.h"
#include "srun.h"

typedef struct Sbcast
{
	bool		force;			/* replace a file that is there */
	bool		preserve;		/* keep mode and time of the last change */
} Sbcast;

/*
 * Runs on each node: destination, name, size, mode, time or nothing, and "f" or
 * nothing for a file that may be replaced.
 */
static const char script[] =
"to=$1 name=$2 size=$3 mode=$4 time=$5 force=$6\n"
"fail() { echo \"sbcast: error: ${SLURMD_NODENAME:-node}: $1\" >&2; exit 1; }\n"
"case $to in */) to=$to$name ;; *) [ ! -d \"$to\" ] || to=$to/$name ;; esac\n"
"new=$(mktemp \"$to.XXXXXXXX\") || exit\n"
"trap 'rm -f \"$new\"' EXIT\n"
"cat > \"$new\" && [ \"$(stat -c %s \"$new\")\" = \"$size\" ] ||\n"
"\tfail \"$to was not written whole\"\n"
"chmod \"$mode\" \"$new\" || exit\n"
"[ -z \"$time\" ] || touch -d \"@$time\" \"$new\" || exit\n"
"if [ -n \"$force\" ]; then mv -fT \"$new\" \"$to\"\n"
"else ln -T \"$new\" \"$to\" 2>/dev/null || fail \"$to exists; -f replaces it\"\n"
"fi\n";

static void parse(Sbcast *sbcast, int argc, char **argv);
static void run(const Sbcast *sbcast, const char *program, const char *source,
				const char *destination) __attribute__((noreturn));

int
SbcastMain(int argc, char **argv)
{
	Sbcast		sbcast = {false, false};

	parse(&sbcast, argc, argv);
	if (optind + 2 != argc)
		StepFail("usage: sbcast [-f] [-p] SOURCE DESTINATION");
	run(&sbcast, argv[0], argv[optind], argv[optind + 1]);
}

/*
 * Parses the options. Those that only say how the bytes travel are accepted
 * and have no effect.
 */
static void
parse(Sbcast *sbcast, int argc, char **argv)
{
	static const struct option options[] = {
		{"compress", optional_argument, NULL, 'C'},
		{"fanout", required_argument, NULL, 'F'},
		{"force", no_argument, NULL, 'f'},
		{"jobid", required_argument, NULL, 'j'},
		{"preserve", no_argument, NULL, 'p'},
		{"size", required_argument, NULL, 's'},
		{"timeout", required_argument, NULL, 't'},
		{"verbose", no_argument, NULL, 'v'},
		{"version", no_argument, NULL, 'V'},
		{NULL, 0, NULL, 0}
	};
	const char *job = getenv("SLURM_JOB_ID");
	int			option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "C::F:fj:ps:t:vV", options,
								 NULL)) != -1)
	{
		if (option == '?')
			StepFail("option \"%s\" is not supported", argv[optind - 1]);
		if (option == 'V')
		{
			puts("gpucredit-step " AGENT_VERSION);
			exit(0);
		}
		if (option == 'j' && (job == NULL || strcmp(optarg, job) != 0))
			StepFail("--jobid=%s is another job; sbcast copies to the nodes of"
					 " its own", optarg);
		sbcast->force |= option == 'f';
		sbcast->preserve |= option == 'p';
	}
}

/* Becomes the srun that copies. */
static void
run(const Sbcast *sbcast, const char *program, const char *source,
	const char *destination)
{
	const char *nodes = getenv("SLURM_JOB_NUM_NODES");
	char	   *srun = Format("%s/srun", dirname(Dup(program)));
	int			fd = open(source, O_RDONLY);
	struct stat st;

	if (nodes == NULL)
		StepFail("there is no job here: sbcast copies to the nodes of its job");
	if (fd < 0 || fstat(fd, &st) != 0)
		StepFail("could not read %s: %s", source, strerror(errno));
	if (!S_ISREG(st.st_mode))
		StepFail("%s is no file", source);
	(void) dup2(fd, STDIN_FILENO);
	execlp(strchr(program, '/') == NULL ? "srun" : srun, "srun", "-Q",
		   "--overlap", "-N", nodes, "-n", nodes, "--ntasks-per-node=1",
		   "bash", "-c", script, "sbcast", destination,
		   basename(Dup(source)), Format("%lld", (long long) st.st_size),
		   Format("%o", sbcast->preserve ? st.st_mode & 0777 :
				  (st.st_mode & 0111) | 0600),
		   sbcast->preserve ? Format("%lld", (long long) st.st_mtime) : "",
		   sbcast->force ? "f" : "", (char *) NULL);
	StepFail("could not start srun: %s", strerror(errno));
}
