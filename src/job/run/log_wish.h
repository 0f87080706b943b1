/*-------------------------------------------------------------------------
 *
 * log_wish.h
 *		Requested pieces of jobs' output.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_LOG_WISH_H
#define GPUCREDIT_LOG_WISH_H

#include "datatype/timestamp.h"
#include "nodes/execnodes.h"

#define LOG_WISH_LASTS	USECS_PER_MINUTE	/* and so does its answer */
#define LOG_WISH_BYTES	(64 * 1024)
#define LOG_WISH_MOST	16		/* of a job */

extern void LogWishesPut(ReturnSetInfo *rsinfo, const char *node,
						 TimestampTz now);

#endif							/* GPUCREDIT_LOG_WISH_H */
