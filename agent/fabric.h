/*-------------------------------------------------------------------------
 *
 * fabric.h
 *		An InfiniBand fabric: its switches, hosts' adapters, and cables.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_FABRIC_H
#define GPUCREDIT_AGENT_FABRIC_H

#include <stdbool.h>

#include "topology.h"

/* What something in a fabric is. Its number is the letter before its GUID. */
typedef enum FabricKind
{
	FABRIC_SWITCH = 'S', FABRIC_ADAPTER = 'H', FABRIC_ROUTER = 'R'
} FabricKind;

/* A switch, an adapter or a router. */
typedef struct FabricDevice
{
	FabricKind	kind;
	uint64_t	guid;
	bool		described;		/* it has its own part of the file */
	bool		counts;			/* an adapter of a host, and not one inside of
								 * a switch */
	const char *host;			/* an adapter: its host's name in the file */
	size_t		host_size;
	bool		ours;			/* an adapter of this node */
	bool		leaf;			/* a switch with hosts */
	int			hosts;			/* a leaf: number of different hosts */
	int			group;			/* a leaf: another one that the same hosts
								 * have, or itself */
	int			island;			/* a switch: another one that is reached
								 * without the switches above the spines, or
								 * itself */
} FabricDevice;

/* A cable, as one of its switches names it. */
typedef struct FabricLink
{
	int			from;			/* number of a switch */
	int			to;				/* number of any device */
	int64_t		mbps;
} FabricLink;

/* A fabric. All that is in it ends with FabricFree(). */
typedef struct Fabric
{
	FabricDevice *devices;
	int			ndevices;
	int			devices_size;
	int		   *slots;			/* hash table: number of a device, or -1 */
	int			nslots;
	FabricLink *links;
	int			nlinks;
	int			links_size;
	bool		out_of_memory;
} Fabric;

extern int	FabricDeviceNumber(Fabric *fabric, FabricKind kind, uint64_t guid);
extern bool FabricLinkAdd(Fabric *fabric, FabricLink link);
extern void FabricFree(Fabric *fabric);
extern const char *FabricRead(Fabric *fabric, const char *text, size_t size);
extern const char *FabricPlace(Fabric *fabric, const TopologySelf *self,
							   Topology *found);

#endif							/* GPUCREDIT_AGENT_FABRIC_H */
