/*-------------------------------------------------------------------------
 *
 * kept_log.h
 *		Output of ended attempts that the database keeps, so that it
 *		outlives the nodes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KEPT_LOG_H
#define GPUCREDIT_KEPT_LOG_H

#include "util/sql.h"

/* A position in a stream of an attempt's output on a node. */
typedef struct KeptLogPlace
{
	const char *org;
	int64		job;
	int32		attempt;
	const char *node;
	const char *stream;
	int64		from;
} KeptLogPlace;

/* The columns of the result of KeptLogRead(), from 1. */
enum KeptLogColumn
{
	KEPT_FIRST = 1,				/* position of the first byte of the body; at
								 * least the requested one */
	KEPT_BODY,
	KEPT_WRITTEN,
	KEPT_DROPPED,
	KEPT_OVER,					/* whether nothing follows the body */
	KEPT_MESSAGE,
	KEPT_URI,
	KEPT_COVERS					/* whether the node has nothing to add to the
								 * body */
};

extern SqlResult KeptLogRead(const KeptLogPlace *place, bool read_only);

#endif							/* GPUCREDIT_KEPT_LOG_H */
