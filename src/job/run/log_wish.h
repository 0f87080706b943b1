/*-------------------------------------------------------------------------
 *
 * log_wish.h
 *		Pieces of jobs' output that readers have requested.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_LOG_WISH_H
#define GPUCREDIT_LOG_WISH_H

#include "datatype/timestamp.h"
#include "nodes/execnodes.h"

#define LOG_WISH_LASTS	USECS_PER_MINUTE	/* how long a request and its
											 * answer are kept */
#define LOG_WISH_BYTES	(64 * 1024)
#define LOG_WISH_MOST	16		/* largest number of requested pieces of one
								 * job */

extern void LogWishesPut(ReturnSetInfo *rsinfo, const char *node,
						 TimestampTz now);

#endif							/* GPUCREDIT_LOG_WISH_H */
