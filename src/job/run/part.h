/*-------------------------------------------------------------------------
 *
 * part.h
 *		How the parts of an attempt ended, a node each.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_PART_H
#define GPUCREDIT_PART_H

#include "job/end/settlement.h"

extern bool PartGone(const char *org, int64 job, int32 attempt,
					 const char *node, TimestampTz now);

#endif							/* GPUCREDIT_PART_H */
