/*-------------------------------------------------------------------------
 *
 * probe.h
 *		Tests a device before its first job, and after it has failed.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_PROBE_H
#define GPUCREDIT_AGENT_PROBE_H

#include <stdbool.h>
#include <sys/types.h>

extern void ProbeLoad(int number);
extern void ProbeAgain(int number, const char *why);
extern bool ProbeCheck(int number, bool may_start);
extern bool ProbePassed(int number);
extern const char *ProbeReason(int number);
extern bool ProbeChildGone(pid_t pid, int status);
extern bool ProbeForget(const char *file);

#endif							/* GPUCREDIT_AGENT_PROBE_H */
