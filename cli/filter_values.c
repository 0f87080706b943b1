/*-------------------------------------------------------------------------
 *
 * filter_values.c
 *		Checks the values of filters in options of Slurm's commands.
 *
 * A value that cannot match anything ends the command, because the result of a
 * filter with a typing error would look like an empty queue.
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"
#include "job_list.h"

/*
 * Slurm's states of jobs. A job of gpucredit is only ever in those that
 * SLURM_STATES contains.
 */
static const char *const states[] = {
	"BOOT_FAIL", "BF", "CANCELLED", "CA", "COMPLETED", "CD",
	"COMPLETING", "CG", "CONFIGURING", "CF", "DEADLINE", "DL", "FAILED", "F",
	"NODE_FAIL", "NF", "OUT_OF_MEMORY", "OOM", "PENDING", "PD", "PREEMPTED",
	"PR", "REQUEUED", "RQ", "REQUEUE_FED", "RF", "REQUEUE_HOLD", "RH",
	"RESIZING", "RS", "RESV_DEL_HOLD", "RD", "REVOKED", "RV", "RUNNING", "R",
	"SIGNALING", "SI", "SPECIAL_EXIT", "SE", "STAGE_OUT", "SO", "STOPPED",
	"ST", "SUSPENDED", "S", "TIMEOUT", "TO"
};

/*
 * Slurm's states of nodes. A node of gpucredit is only ever in those that
 * SLURM_NODE_ROWS contains.
 */
static const char *const node_states[] = {
	"ALLOC", "ALLOCATED", "BLOCKED", "CLOUD", "COMP", "COMPLETING", "DOWN",
	"DRAIN", "DRAINED", "DRAINING", "DRNG", "FAIL", "FAILING", "FUTR",
	"FUTURE", "IDLE", "MAINT", "MIX", "MIXED", "NO_RESPOND", "NPC",
	"PERFCTRS", "PLANNED", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP",
	"POWER_DOWN", "POWER_UP", "REBOOT", "REBOOT_ISSUED", "REBOOT_REQUESTED",
	"RESERVED", "RESUME", "RESV", "UNK", "UNKNOWN"
};

static void check_words(const char *text, const char *const *words, size_t n,
						const char *what, const char *ours);

/*
 * Returns the list if each of its words is a state of jobs. Otherwise ends the
 * command.
 */
const char *
StateListCheck(const char *text)
{
	check_words(text, states, sizeof(states) / sizeof(states[0]), "job",
				"PENDING, CONFIGURING, RUNNING, COMPLETING, COMPLETED,"
				" FAILED, TIMEOUT and CANCELLED");
	return text;
}

/*
 * Returns the list if each of its words is a state of nodes. Otherwise ends
 * the command.
 */
const char *
NodeStateListCheck(const char *text)
{
	check_words(text, node_states,
				sizeof(node_states) / sizeof(node_states[0]), "node",
				"IDLE, MIXED, ALLOCATED, DRAIN, DRAINING, DRAINED and DOWN");
	return text;
}

/*
 * Ends the command if a word of the list is not one of these, or if the list
 * is empty.
 */
static void
check_words(const char *text, const char *const *words, size_t n,
			const char *what, const char *ours)
{
	char	   *copy = Format("%s", text);
	char	   *save = NULL;
	char	   *word = strtok_r(copy, ",", &save);

	do
	{
		size_t		i = 0;

		while (i < n && (word == NULL || strcasecmp(word, words[i]) != 0))
			i++;
		if (i == n)
			Fail(CLI_USAGE, "Invalid %s state specified: %s; states are %s",
				 what, word == NULL ? text : word, ours);
		word = strtok_r(NULL, ",", &save);
	} while (word != NULL);
	free(copy);
}

/*
 * Returns the list if it consists of single node names. Otherwise ends the
 * command.
 */
const char *
NodeListCheck(const char *text)
{
	if (strpbrk(text, "[/") != NULL)
		Fail(CLI_USAGE, "\"%s\" is no list of nodes: write their names with"
			 " commas between them", text);
	return text;
}
