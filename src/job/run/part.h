/*-------------------------------------------------------------------------
 *
 * part.h
 *		How the parts of an attempt ended. An attempt has one part on each
 *		of its nodes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_PART_H
#define GPUCREDIT_PART_H

#include "job/end/settlement.h"

extern bool PartGone(const char *org, int64 job, int32 attempt,
					 const char *node, TimestampTz now);

#endif							/* GPUCREDIT_PART_H */
