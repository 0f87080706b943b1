/*-------------------------------------------------------------------------
 *
 * run_podman.h
 *		Runs jobs in an image.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_RUN_PODMAN_H
#define GPUCREDIT_AGENT_RUN_PODMAN_H

#include "launch.h"
#include "start_file.h"

extern void PodmanPut(Writer *writer, const Launch *launch);
extern void PodmanEnvironmentBegin(Writer *writer);
extern void PodmanEnvironmentEnd(Writer *writer, const Launch *launch);

#endif							/* GPUCREDIT_AGENT_RUN_PODMAN_H */
