/*-------------------------------------------------------------------------
 *
 * topology.h
 *		A node's place in its cluster, and the files that name it.
 *
 * The parsers allocate nothing that outlives a call, call neither NVML nor the
 * database, and have no state, so that they can be fuzzed.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_TOPOLOGY_H
#define GPUCREDIT_AGENT_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

#define TOPOLOGY_NAME	256		/* size of a name, with its end */
#define MOST_HCAS		64

/*
 * A node's place. A name is empty, and a bandwidth 0, if it is not known.
 * Bandwidths are in Mb/s and one direction: of one GPU to its NVLink domain,
 * of the node to its leaf, and of the node's part of its leaf's uplinks.
 */
typedef struct Topology
{
	char		nvlink_domain[TOPOLOGY_NAME];
	char		leaf[TOPOLOGY_NAME];
	char		spine[TOPOLOGY_NAME];
	int64_t		nvlink_mbps;
	int64_t		leaf_mbps;
	int64_t		spine_mbps;
} Topology;

/*
 * How files name this node: by the GUIDs of its InfiniBand adapters, or by its
 * name, if it has none.
 */
typedef struct TopologySelf
{
	const char *node;
	uint64_t	guids[MOST_HCAS];
	int			nguids;
} TopologySelf;

/*
 * Each parses a whole file and finds this node in it. They return NULL, or a
 * text that says why the file is refused. If the file does not name the node,
 * they leave the names empty and return NULL.
 */
typedef const char *(*TopologyParser) (const char *text, size_t size,
									   const TopologySelf *self,
									   Topology *found);

extern const char *TopologyConfParse(const char *text, size_t size,
									 const TopologySelf *self,
									 Topology *found);
extern const char *TopologyYamlParse(const char *text, size_t size,
									 const TopologySelf *self,
									 Topology *found);
extern const char *FabricParse(const char *text, size_t size,
							   const TopologySelf *self, Topology *found);

#endif							/* GPUCREDIT_AGENT_TOPOLOGY_H */
