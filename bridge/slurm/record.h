/*-------------------------------------------------------------------------
 *
 * record.h
 *		Records of runs that began or ended, written by slurmctld's scripts.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_BRIDGE_SLURM_RECORD_H
#define GPUCREDIT_BRIDGE_SLURM_RECORD_H

#include "slurm_job.h"

/* True: the record is done with. */
typedef bool (*RecordHandler) (SlurmJob *job);

extern void RecordsPrepare(void);
extern void RecordsRead(RecordHandler handle);
extern long RecordDevices(const char *name);

#endif							/* GPUCREDIT_BRIDGE_SLURM_RECORD_H */
