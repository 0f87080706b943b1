/*-------------------------------------------------------------------------
 *
 * idle.h
 *		Attempts that leave their GPUs idle.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_IDLE_H
#define GPUCREDIT_IDLE_H

#include "job/attempt.h"

#define IDLE_REASON	"idle"		/* why an attempt must stop */

/*
 * The longest time between two reports that counts as idle. If more time has
 * passed, nobody knows whether the GPUs were used.
 */
#define IDLE_GAP	"'5 min'::pg_catalog.interval"
#define IDLE_GAP_US	(5 * USECS_PER_MINUTE)

extern bool IdleRemaining(const Attempt *attempt, TimestampTz now, int64 *left);
extern bool IdleIsOver(const Attempt *attempt, int64 ago);
extern bool IdleWarns(const Attempt *attempt, TimestampTz now);
extern void IdleNoteWarned(Attempt *attempt, TimestampTz now);
extern void IdleNoteTyped(const char *node, Jsonb *about, TimestampTz now);

#endif							/* GPUCREDIT_IDLE_H */
