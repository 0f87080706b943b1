/*-------------------------------------------------------------------------
 *
 * reclaim.h
 *		Decides which attempts of a pool must leave reclaimed nodes, and
 *		when each of them saves.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_RECLAIM_H
#define GPUCREDIT_RECLAIM_H

#include "datatype/timestamp.h"

extern void ReclaimReplan(const char *pool, TimestampTz now);

#endif							/* GPUCREDIT_RECLAIM_H */
