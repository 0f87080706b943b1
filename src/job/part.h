/*-------------------------------------------------------------------------
 *
 * part.h
 *		How the parts of an attempt ended, a node each.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_PART_H
#define GPUCREDIT_PART_H

#include "job/settlement.h"

/* Why the other parts must stop after one has failed. */
#define PART_FAILED		"part_failed"

extern bool PartGone(const char *org, int64 job, int32 attempt,
					 const char *node, TimestampTz now);
extern bool PartsTell(const Attempt *attempt, bool all,
					  Settlement *settlement);

#endif							/* GPUCREDIT_PART_H */
