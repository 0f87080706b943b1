/*-------------------------------------------------------------------------
 *
 * spot_watch.h
 *		Reclaims this node when its cloud says that it takes it back.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_SPOT_WATCH_H
#define GPUCREDIT_AGENT_SPOT_WATCH_H

#include <stdbool.h>
#include <sys/types.h>

extern void SpotStart(const char *configuration);
extern int	SpotFd(void);
extern void SpotCheck(void);
extern bool SpotReclaim(void);
extern bool SpotChildGone(pid_t pid);

#endif							/* GPUCREDIT_AGENT_SPOT_WATCH_H */
