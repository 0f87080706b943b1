/*-------------------------------------------------------------------------
 *
 * filter_values.c
 *		Values of filters, as options of Slurm's commands have them.
 *
 * One that can find nothing ends the command: a filter with a slip in it looks like
 * a queue that is empty.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"
#include "job_list.h"

/* Slurm's states of jobs; no job is here in one that SLURM_STATES lacks */
static const char *const states[] = {
	"BOOT_FAIL", "BF", "CANCELLED", "CA", "COMPLETED", "CD",
	"COMPLETING", "CG", "CONFIGURING", "CF", "DEADLINE", "DL", "FAILED", "F",
	"NODE_FAIL", "NF", "OUT_OF_MEMORY", "OOM", "PENDING", "PD", "PREEMPTED",
	"PR", "REQUEUED", "RQ", "REQUEUE_FED", "RF", "REQUEUE_HOLD", "RH",
	"RESIZING", "RS", "RESV_DEL_HOLD", "RD", "REVOKED", "RV", "RUNNING", "R",
	"SIGNALING", "SI", "SPECIAL_EXIT", "SE", "STAGE_OUT", "SO", "STOPPED",
	"ST", "SUSPENDED", "S", "TIMEOUT", "TO"
};

/* Slurm's states of nodes; no node is here in one that SLURM_NODE_ROWS lacks */
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
 * The list, if each of its words is a state of jobs.
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
 * The list, if each of its words is a state of nodes.
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
 * End the command at a word that is none of these, and at a list without words.
 */
static void
check_words(const char *text, const char *const *words, size_t n,
			const char *what, const char *ours)
{
	char	   *copy = CliFormat("%s", text);
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
 * The list of nodes, if it names each of them.
 */
const char *
NodeListCheck(const char *text)
{
	if (strpbrk(text, "[/") != NULL)
		Fail(CLI_USAGE, "\"%s\" is no list of nodes: write their names with"
			 " commas between them", text);
	return text;
}
