/*-------------------------------------------------------------------------
 *
 * topology_read.h
 *		The process that reads where this node is in the cluster.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_TOPOLOGY_READ_H
#define GPUCREDIT_AGENT_TOPOLOGY_READ_H

#include <stdbool.h>

extern bool TopologyFileKnown(const char *setting);
extern void TopologyReadRun(void) __attribute__((noreturn));

#endif							/* GPUCREDIT_AGENT_TOPOLOGY_READ_H */
