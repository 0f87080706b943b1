/*-------------------------------------------------------------------------
 *
 * nvml_watch.h
 *		The agent's side of the process that calls NVML.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_NVML_WATCH_H
#define GPUCREDIT_AGENT_NVML_WATCH_H

#include <stdbool.h>
#include <sys/types.h>

extern void NvmlStart(const char *configuration);
extern void NvmlRead(void);
extern int	NvmlFd(void);
extern int	NvmlAsk(void);
extern int	NvmlAnswered(void);
extern void NvmlAgain(void);
extern bool NvmlChildGone(pid_t pid);

#endif							/* GPUCREDIT_AGENT_NVML_WATCH_H */
