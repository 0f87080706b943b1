/*-------------------------------------------------------------------------
 *
 * record.h
 *		Reads the records that slurmctld's scripts write when a run begins or
 *		ends.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_BRIDGE_SLURM_RECORD_H
#define GPUCREDIT_BRIDGE_SLURM_RECORD_H

#include "slurm_job.h"

/* Handles one record. Returns true if the record can be removed. */
typedef bool (*RecordHandler) (SlurmJob *job);

extern void RecordsPrepare(void);
extern void RecordsRead(RecordHandler handle);
extern long RecordDevices(const char *name);

#endif							/* GPUCREDIT_BRIDGE_SLURM_RECORD_H */
