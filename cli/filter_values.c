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

/*
 * The list, if each of its words is a state.
 */
const char *
StateListCheck(const char *text)
{
	char	   *copy = CliFormat("%s", text);
	char	   *save = NULL;

	for (char *word = strtok_r(copy, ",", &save); word != NULL;
		 word = strtok_r(NULL, ",", &save))
	{
		size_t		i = 0;

		while (i < sizeof(states) / sizeof(states[0]) &&
			   strcasecmp(word, states[i]) != 0)
			i++;
		if (i == sizeof(states) / sizeof(states[0]))
			Fail(CLI_USAGE, "Invalid job state specified: %s; states are"
				 " PENDING, CONFIGURING, RUNNING, COMPLETING, COMPLETED,"
				 " FAILED, TIMEOUT and CANCELLED", word);
	}
	free(copy);
	return text;
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
