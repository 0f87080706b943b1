/*-------------------------------------------------------------------------
 *
 * seccomp.h
 *		Which system calls a job may not make.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_SECCOMP_H
#define GPUCREDIT_AGENT_SECCOMP_H

#include <stdbool.h>

/* the keeper puts the program here for bubblewrap */
#define SECCOMP_FD	4

extern bool SeccompLoad(void);
extern bool SeccompPass(void);
extern bool CapabilitiesBound(void);
extern bool CapabilitiesClear(void);

#endif							/* GPUCREDIT_AGENT_SECCOMP_H */
