/*-------------------------------------------------------------------------
 *
 * outcome.c
 *		The words for how an attempt ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "job/settlement.h"

const char *const OutcomeNames[OUTCOMES] = {
	"completed", "failed", "out_of_memory", "timeout", "preempted",
	"cancelled", "node_lost", "resized", "not_started"
};
