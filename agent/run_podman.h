/*-------------------------------------------------------------------------
 *
 * run_podman.h
 *		Jobs that run in an image.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_RUN_PODMAN_H
#define GPUCREDIT_AGENT_RUN_PODMAN_H

#include "launch.h"

extern const char *PodmanImage(const json_t * intent);
extern bool PodmanPull(LocalAttempt *attempt, const char *image);
extern bool PodmanChildGone(pid_t pid, int status);
extern void PodmanPut(Writer *writer, const Launch *launch);
extern void PodmanEnvironmentBegin(Writer *writer);
extern void PodmanEnvironmentEnd(Writer *writer, const Launch *launch);
extern void PodmanRemove(const LocalAttempt *attempt);

#endif							/* GPUCREDIT_AGENT_RUN_PODMAN_H */
