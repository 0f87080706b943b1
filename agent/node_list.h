/*-------------------------------------------------------------------------
 *
 * node_list.h
 *		Slurm's lists of hosts, such as "gpu[01-16,20],login1".
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_NODE_LIST_H
#define GPUCREDIT_AGENT_NODE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern bool NodeListCount(const char *list, size_t size, uint64_t *count);
extern bool NodeListHas(const char *list, size_t size, const char *name);

#endif							/* GPUCREDIT_AGENT_NODE_LIST_H */
