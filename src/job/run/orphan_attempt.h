/*-------------------------------------------------------------------------
 *
 * orphan_attempt.h
 *		Orphan attempts, which run although they have ended and their
 *		devices are free.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ORPHAN_ATTEMPT_H
#define GPUCREDIT_ORPHAN_ATTEMPT_H

#include "datatype/timestamp.h"

extern void OrphanFence(const char *pool, const char *node, const char *org,
						int64 job, int32 attempt, TimestampTz now);

#endif							/* GPUCREDIT_ORPHAN_ATTEMPT_H */
