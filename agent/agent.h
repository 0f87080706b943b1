/*-------------------------------------------------------------------------
 *
 * agent.h
 *		What the parts of the agent share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_AGENT_H
#define GPUCREDIT_AGENT_AGENT_H

#include "attempt_dir.h"

extern int	run_dir;			/* <state>/run: a folder an attempt */
extern int	watches;			/* inotify: folders of attempts that run */
extern char boot_id[64];
extern int64_t incarnation;		/* counts the starts of this node's agent */
extern Lease *lease;

extern void BeatSoon(void);

#endif							/* GPUCREDIT_AGENT_AGENT_H */
