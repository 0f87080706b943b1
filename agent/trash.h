/*-------------------------------------------------------------------------
 *
 * trash.h
 *		Removes the folders of attempts in the background.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_TRASH_H
#define GPUCREDIT_AGENT_TRASH_H

#include <stdbool.h>
#include <sys/types.h>

extern void TrashOpen(int state);
extern void TrashPut(int folder, const char *name);
extern void TrashCollect(void);
extern bool TrashChildGone(pid_t pid);

#endif							/* GPUCREDIT_AGENT_TRASH_H */
