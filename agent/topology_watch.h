/*-------------------------------------------------------------------------
 *
 * topology_watch.h
 *		Reports where this node is in the cluster.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_TOPOLOGY_WATCH_H
#define GPUCREDIT_AGENT_TOPOLOGY_WATCH_H

#include <stdbool.h>
#include <sys/types.h>

extern void TopologyStart(const char *configuration);
extern int	TopologyFd(void);
extern void TopologyCheck(void);
extern bool TopologyReport(void);
extern bool TopologyChildGone(pid_t pid);

#endif							/* GPUCREDIT_AGENT_TOPOLOGY_WATCH_H */
