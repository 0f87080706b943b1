/*-------------------------------------------------------------------------
 *
 * slurm_environment.h
 *		The variables that Slurm sets for a batch script.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_SLURM_ENVIRONMENT_H
#define GPUCREDIT_AGENT_SLURM_ENVIRONMENT_H

#include "launch.h"
#include "start_file.h"

extern void SlurmPutEnvironment(Writer *writer, const Launch *launch,
								const char *nodes);
extern void SlurmPutStepFiles(Writer *writer, const Launch *launch);

#endif							/* GPUCREDIT_AGENT_SLURM_ENVIRONMENT_H */
