/*-------------------------------------------------------------------------
 *
 * signal_job.h
 *		Signals to the processes of running jobs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SIGNAL_JOB_H
#define GPUCREDIT_SIGNAL_JOB_H

#include "datatype/timestamp.h"
#include "nodes/execnodes.h"
#include "utils/jsonb.h"

extern void SignalsPut(ReturnSetInfo *rsinfo, const char *node, Jsonb *about,
					   TimestampTz now);

#endif							/* GPUCREDIT_SIGNAL_JOB_H */
