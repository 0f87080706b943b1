/*-------------------------------------------------------------------------
 *
 * open_session.h
 *		Terminals and forwarded ports in running jobs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_OPEN_SESSION_H
#define GPUCREDIT_OPEN_SESSION_H

#include "datatype/timestamp.h"
#include "nodes/execnodes.h"
#include "utils/jsonb.h"

extern void SessionsInit(void);
extern void SessionsPut(ReturnSetInfo *rsinfo, const char *node, Jsonb *about,
						TimestampTz now);

#endif							/* GPUCREDIT_OPEN_SESSION_H */
