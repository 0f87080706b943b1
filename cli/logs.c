/*-------------------------------------------------------------------------
 *
 * logs.c
 *		gpucredit logs: prints the output of jobs.
 *
 * The output of one job on one node is printed byte by byte as it was written.
 * With several jobs, or with --all, which prints all tasks of an array and all
 * nodes of a gang, each line begins with the job that wrote it.
 *
 *-------------------------------------------------------------------------
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "job_list.h"
#include "log_part.h"

#define PAUSE_LEAST	20000		/* microseconds */
#define PAUSE_MOST	200000

static const char usage[] =
"usage: gpucredit logs [-f] [--all] [--from BYTE | --tail BYTES] [--stdout]\n"
"                      [--stderr] [--attempt N] [--node NODE] JOB...";

static LogPart *parse_options(int argc, char **argv);
static LogPart **add_jobs(LogPart **last, const LogPart *like,
						  const char *word);

int
CliLogs(int argc, char **argv)
{
	LogPart    *parts = parse_options(argc, argv);
	useconds_t	pause = PAUSE_LEAST;
	bool		more = true;

	while (more)
	{
		bool		any = false;

		more = false;
		for (LogPart *part = parts; part != NULL; part = part->next)
		{
			any |= !part->over && LogPartStep(part);
			more |= !part->over;
		}
		pause = any ? PAUSE_LEAST : pause < PAUSE_MOST ? pause * 2 : pause;
		if (more && !any)
			usleep(pause);
	}
	return log_status;
}

/*
 * Parses the command line.  An unknown option ends the command.
 */
static LogPart *
parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{"all", no_argument, NULL, 'A'},
		{"attempt", required_argument, NULL, 'a'},
		{"follow", no_argument, NULL, 'f'},
		{"from", required_argument, NULL, 'b'},
		{"node", required_argument, NULL, 'n'},
		{"stderr", no_argument, NULL, 'e'},
		{"stdout", no_argument, NULL, 'o'},
		{"tail", required_argument, NULL, 'c'},
		{NULL, 0, NULL, 0}
	};
	LogPart		like = {
		.tail = -1,
		.streams = {
			{.name = "stdout",.lines.out = stdout},
			{.name = "stderr",.lines.out = stderr}
		}
	};
	LogPart    *parts = NULL;
	LogPart   **last = &parts;
	int			option;

	while ((option = getopt_long(argc, argv, "f", options, NULL)) != -1)
	{
		switch (option)
		{
			case 'A':
				like.all_nodes = true;
				break;
			case 'a':
				like.attempt = optarg;
				(void) CliNumber(optarg, 1, INT32_MAX, "an attempt");
				break;
			case 'b':
				like.from = CliNumber(optarg, 0, INT64_MAX, "--from");
				break;
			case 'c':
				like.tail = CliNumber(optarg, 0, INT64_MAX, "--tail");
				break;
			case 'e':
				like.streams[1].wanted = true;
				break;
			case 'f':
				like.follow = true;
				break;
			case 'n':
				like.node = optarg;
				break;
			case 'o':
				like.streams[0].wanted = true;
				break;
			default:
				Fail(CLI_USAGE, "%s", usage);
		}
	}
	if (optind >= argc || (like.all_nodes &&
						   (like.node != NULL || like.attempt != NULL)))
		Fail(CLI_USAGE, "%s", usage);
	like.any_attempt = like.attempt == NULL;
	if (!like.streams[0].wanted && !like.streams[1].wanted)
		like.streams[0].wanted = like.streams[1].wanted = true;
	while (optind < argc)
		last = add_jobs(last, &like, argv[optind++]);
	for (LogPart *part = parts; part != NULL; part = part->next)
		part->prefixed = like.all_nodes || parts->next != NULL;
	return parts;
}

/*
 * Adds the jobs that a word names.  A number is that job or, with --all, its
 * whole array; 12_3 and 12_[0-3] are tasks of an array.  Returns where the next
 * job is to be linked.
 */
static LogPart **
add_jobs(LogPart **last, const LogPart *like, const char *word)
{
	bool		plain = word[strspn(word, "0123456789")] == '\0' &&
		!like->all_nodes;
	char	   *list = plain ? Format("{%s}", word) : JobListParse(word);

	if (plain)
		(void) CliNumber(word, 1, INT64_MAX, "a job");
	for (char *job = strtok(list, "{,}"); job != NULL;
		 job = strtok(NULL, "{,}"))
	{
		LogPart    *part = Alloc(sizeof(LogPart));

		*part = *like;
		part->job = job;
		LogPartBegin(part);
		*last = part;
		last = &part->next;
	}
	return last;
}
