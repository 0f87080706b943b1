/*-------------------------------------------------------------------------
 *
 * refused_option.c
 *		Refuses options of sbatch that are not supported.
 *
 * Each of these options changes what a job gets or where it runs, so a job
 * must not run as if the option were not there.
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "submission.h"

/* An unsupported option of sbatch, and what to use instead. */
typedef struct RefusedOption
{
	const char *name;
	char		letter;			/* '\0' if it has no short form */
	const char *advice;
} RefusedOption;

#define CORES_ARE_COUNTED \
	"cpus are counted without regard to sockets; use --cpus-per-task"

static const RefusedOption refused_options[] = {
	{"batch", '\0', "the scheduler chooses the first node; use --constraint"
	" for all nodes"},
	{"bb", '\0', "there are no burst buffers; copy files in the script"},
	{"bbf", '\0', "there are no burst buffers; copy files in the script"},
	{"cluster-constraint", '\0', "there is one cluster; remove it"},
	{"clusters", 'M', "there is one cluster; remove it"},
	{"container", '\0', "use --image"},
	{"container-image", '\0', "use --image"},
	{"core-spec", 'S', "the node's agent keeps what the system needs; remove it"},
	{"cores-per-socket", '\0', CORES_ARE_COUNTED},
	{"export-file", '\0', "read the file in the script, or use --export"},
	{"extra-node-info", 'B', CORES_ARE_COUNTED},
	{"gid", '\0', "the job runs as the account's user; remove it"},
	{"gpus-per-socket", '\0', "use --gpus-per-node"},
	{"licenses", 'L', "there are no licences; use --array=...%N to limit how"
	" many run at once"},
	{"mcs-label", '\0', "accounts separate jobs; remove it"},
	{"mincpus", '\0', "use --cpus-per-task"},
	{"network", '\0', "remove it"},
	{"overcommit", 'O', "use --cpus-per-task=1, and start more processes in"
	" the script"},
	{"prefer", '\0', "features are needed, or not; use --constraint"},
	{"priority", '\0', "choose a tier with --qos"},
	{"reboot", '\0', "remove it"},
	{"reservation", '\0', "choose a pool with --partition"},
	{"sockets-per-node", '\0', CORES_ARE_COUNTED},
	{"thread-spec", '\0', "the node's agent keeps what the system needs;"
	" remove it"},
	{"threads-per-core", '\0', CORES_ARE_COUNTED},
	{"tmp", '\0', "the job's TMPDIR has no size of its own; remove it"},
	{"uid", '\0', "the job runs as the account's user; remove it"},
	{"usage", '\0', "use --help"}
};

/*
 * Ends the command because of an unknown option. "letter" is a short option
 * that getopt_long() did not know, or 0.
 */
void
OptionRefused(const char *word, int letter, const char *where)
{
	bool		is_long = letter == 0 || letter >= 256;
	size_t		length = strcspn(word, "=");

	for (size_t i = 0; i < sizeof(refused_options) / sizeof(refused_options[0]); i++)
	{
		const RefusedOption *option = &refused_options[i];

		if (is_long ? strncmp(option->name, word + 2, length - 2) == 0 &&
			option->name[length - 2] == '\0' :
			option->letter != '\0' && option->letter == letter)
			Fail(CLI_USAGE, "%s: option \"%s%s\" is not supported: %s", where,
				 is_long ? "" : "-", is_long ?
				 Format("%.*s", (int) length, word) :
				 Format("%c", letter), option->advice);
	}
	if (is_long)
		Fail(CLI_USAGE, "%s: option \"%.*s\" is not supported; --help lists"
			 " those that are", where, (int) length, word);
	Fail(CLI_USAGE, "%s: option \"-%c\" is not supported; --help lists those"
		 " that are", where, letter);
}
