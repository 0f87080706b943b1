/*-------------------------------------------------------------------------
 *
 * agent.h
 *		State that all parts of the agent share.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_AGENT_H
#define GPUCREDIT_AGENT_AGENT_H

#include "attempt_dir.h"

extern int	run_dir;			/* <state>/run: one folder per attempt */
extern int	watches;			/* inotify instance that watches the folders
								 * of live attempts */
extern char boot_id[64];
extern int64_t incarnation;		/* number of this node's agent starts */
extern Lease *lease;
extern const char *containment; /* "cgroup", "cgroup_no_memory" or "none" */

extern void AgentOpen(void);
extern void AgentReadBootId(void);

#endif							/* GPUCREDIT_AGENT_AGENT_H */
