/*-------------------------------------------------------------------------
 *
 * reclaim.h
 *		Who of a pool must leave since nodes are taken back, and when each
 *		saves.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_RECLAIM_H
#define GPUCREDIT_RECLAIM_H

#include "datatype/timestamp.h"

extern void ReclaimPlanAnew(const char *pool, TimestampTz now);

#endif							/* GPUCREDIT_RECLAIM_H */
