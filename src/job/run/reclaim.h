/*-------------------------------------------------------------------------
 *
 * reclaim.h
 *		Which attempts of a pool must leave reclaimed nodes, and when each
 *		saves.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_RECLAIM_H
#define GPUCREDIT_RECLAIM_H

#include "datatype/timestamp.h"

extern void ReclaimPlanAnew(const char *pool, TimestampTz now);

#endif							/* GPUCREDIT_RECLAIM_H */
