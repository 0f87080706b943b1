/*-------------------------------------------------------------------------
 *
 * podman.h
 *		The agent's own calls of podman.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_PODMAN_H
#define GPUCREDIT_AGENT_PODMAN_H

#include "attempts.h"

extern void PodmanRun(const char *script, const char *name, int out)
			__attribute__((noreturn));
extern char *PodmanContainer(const LocalAttempt *attempt);
extern void PodmanRemove(const LocalAttempt *attempt);

#endif							/* GPUCREDIT_AGENT_PODMAN_H */
