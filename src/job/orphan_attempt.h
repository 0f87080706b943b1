/*-------------------------------------------------------------------------
 *
 * orphan_attempt.h
 *		Attempts that run though they are over and nobody keeps their devices.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_STRAY_H
#define GPUCREDIT_STRAY_H

#include "datatype/timestamp.h"

extern void OrphanFence(const char *pool, const char *node, const char *org,
						int64 job, int32 attempt, TimestampTz now);

#endif							/* GPUCREDIT_STRAY_H */
