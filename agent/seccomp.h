/*-------------------------------------------------------------------------
 *
 * seccomp.h
 *		Restricts which system calls a job may make.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_SECCOMP_H
#define GPUCREDIT_AGENT_SECCOMP_H

#include <stdbool.h>

/* The keeper passes the program to bubblewrap at this descriptor. */
#define SECCOMP_FD	4

extern bool SeccompLoad(void);
extern bool SeccompPass(void);
extern bool CapabilitiesBound(void);
extern bool CapabilitiesClear(void);

#endif							/* GPUCREDIT_AGENT_SECCOMP_H */
