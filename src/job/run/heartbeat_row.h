/*-------------------------------------------------------------------------
 *
 * heartbeat_row.h
 *		Rows of heartbeat's result that are requests to the agent, and no
 *		orders about an attempt.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_HEARTBEAT_ROW_H
#define GPUCREDIT_HEARTBEAT_ROW_H

#include "nodes/execnodes.h"
#include "util/sql.h"

/* Columns of heartbeat's result, counted from 1. */
#define HEARTBEAT_SPEC	9
#define HEARTBEAT_LOG	16
#define HEARTBEAT_WIDTH	21

extern void HeartbeatRowPut(ReturnSetInfo *rsinfo, SqlResult requests,
							uint64 i, const char *action, int column);

#endif							/* GPUCREDIT_HEARTBEAT_ROW_H */
