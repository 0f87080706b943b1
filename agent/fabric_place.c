/*-------------------------------------------------------------------------
 *
 * fabric_place.c
 *		Finds a node's leaf and spine in an InfiniBand fabric.
 *
 * A leaf is a switch with hosts. A switch that has cables to other switches
 * and, in comparison, hardly any to hosts is none: a host that manages the
 * fabric stands at a spine. Where each adapter of a host has another leaf, as in
 * a fabric by rails, the leaves that the same hosts share are one leaf here: two
 * leaves are joined if they share at least half of the hosts of each. So one
 * host that has cables to two groups of leaves does not join them.
 *
 * Leaves belong to one spine if they reach each other over one switch above
 * them, or over leaves and such switches. Switches further above, which connect
 * these islands, join nothing. A leaf or spine has the name of its switch with
 * the lowest GUID; a name that an administrator gave a switch may occur twice.
 *-------------------------------------------------------------------------
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric.h"

#define HOST_PARTS		8		/* a leaf has at least one cable to a host for
								 * so many to switches */
#define MOST_LEAVES		64		/* a host with more does not join any */
#define EIGHTHS			8		/* a leaf's uplinks are told in so many parts
								 * of its cables to hosts, or each host that
								 * restarts would change what all report */

/* A host's cable to a leaf. */
typedef struct Attachment
{
	const char *host;
	size_t		size;
	uint64_t	guid;			/* of the adapter if it names no host, else 0 */
	int			leaf;
} Attachment;

/* Two leaves that share a host. */
typedef struct LeafPair
{
	int			a;
	int			b;
} LeafPair;

static void mark_ours(Fabric *fabric, const TopologySelf *self);
static bool too_many_ours(const Fabric *fabric);
static bool is_ours(const FabricDevice *device, const TopologySelf *self,
					size_t short_size);
static bool find_leaves(Fabric *fabric);
static bool join_leaves(Fabric *fabric);
static bool join_shared(Fabric *fabric, const Attachment *all, int n);
static void join_pairs(Fabric *fabric, LeafPair *pairs, int n);
static void join_islands(Fabric *fabric);
static int	find_group(Fabric *fabric, int device);
static int	find_island(Fabric *fabric, int device);
static void place(Fabric *fabric, Topology *found);
static int	own_group(Fabric *fabric, int64_t *mbps);
static void name_spine(Fabric *fabric, int group, Topology *found);
static int64_t uplink_part(Fabric *fabric, int group, int64_t mbps);
static int	compare_attachments(const void *a, const void *b);
static int	compare_pairs(const void *a, const void *b);

/* Finds this node. Returns NULL, or why the fabric is refused. */
const char *
FabricPlace(Fabric *fabric, const TopologySelf *self, Topology *found)
{
	mark_ours(fabric, self);
	if (too_many_ours(fabric))
		return "more adapters have this node's name than a node has";
	if (!find_leaves(fabric) || !join_leaves(fabric))
		return "the fabric is too large";
	join_islands(fabric);
	place(fabric, found);
	return NULL;
}

/*
 * Marks this node's adapters. A description is what its host wrote there, so
 * it may be another's name: GUIDs go first, where the node knows its own.
 */
static void
mark_ours(Fabric *fabric, const TopologySelf *self)
{
	size_t		short_size = strcspn(self->node, ".");

	for (int i = 0; i < fabric->ndevices; i++)
	{
		FabricDevice *device = &fabric->devices[i];

		device->ours = device->kind == FABRIC_ADAPTER &&
			is_ours(device, self, short_size);
		device->counts |= device->ours;
	}
}

/* Whether an adapter is this node's. */
static bool
is_ours(const FabricDevice *device, const TopologySelf *self,
		size_t short_size)
{
	for (int i = 0; i < self->nguids; i++)
	{
		if (device->guid == self->guids[i])
			return true;
	}
	return self->nguids == 0 && device->host != NULL &&
		(device->host_size == strlen(self->node) ||
		 device->host_size == short_size) &&
		memcmp(device->host, self->node, device->host_size) == 0;
}

/*
 * Whether this node has more cables than a node can have. own_group() compares
 * each with all others.
 */
static bool
too_many_ours(const Fabric *fabric)
{
	int			n = 0;

	for (int i = 0; i < fabric->nlinks; i++)
		n += fabric->devices[fabric->links[i].to].ours;
	return n > MOST_HCAS;
}

/*
 * Finds the switches that are leaves. This node's own switch is always one.
 * Returns false if memory runs out.
 */
static bool
find_leaves(Fabric *fabric)
{
	int		   *hosts = calloc((size_t) fabric->ndevices + 1, sizeof(int));
	int		   *switches = calloc((size_t) fabric->ndevices + 1, sizeof(int));
	bool		enough = hosts != NULL && switches != NULL;

	for (int i = 0; i < fabric->nlinks && enough; i++)
	{
		const FabricLink *link = &fabric->links[i];
		const FabricDevice *to = &fabric->devices[link->to];

		if (to->kind == FABRIC_SWITCH)
			switches[link->from]++;
		else if (to->counts)
			hosts[link->from] += to->ours ? HOST_PARTS * MOST_LEAVES : 1;
	}
	for (int i = 0; i < fabric->ndevices && enough; i++)
	{
		fabric->devices[i].leaf = hosts[i] > 0 &&
			(int64_t) hosts[i] * HOST_PARTS >= switches[i];
		fabric->devices[i].group = fabric->devices[i].island = i;
	}
	free(hosts);
	free(switches);
	return enough;
}

/*
 * Joins leaves that share hosts. Returns false if memory runs out.
 */
static bool
join_leaves(Fabric *fabric)
{
	Attachment *all = malloc(((size_t) fabric->nlinks + 1) * sizeof(Attachment));
	int			n = 0;
	int			kept = 0;
	bool		enough = all != NULL;

	for (int i = 0; i < fabric->nlinks && enough; i++)
	{
		const FabricLink *link = &fabric->links[i];
		const FabricDevice *to = &fabric->devices[link->to];

		if (to->counts && fabric->devices[link->from].leaf)
			all[n++] = (Attachment)
		{
			to->host, to->host_size, to->host == NULL ? to->guid : 0,
				link->from
		};
	}
	if (enough && n > 1)
		qsort(all, (size_t) n, sizeof(Attachment), compare_attachments);
	for (int i = 0; i < n; i++)
	{
		if (kept > 0 && compare_attachments(&all[kept - 1], &all[i]) == 0)
			continue;
		all[kept++] = all[i];
		fabric->devices[all[i].leaf].hosts++;
	}
	enough = enough && join_shared(fabric, all, kept);
	free(all);
	return enough;
}

/* Whether two attachments are of one host. */
static bool
same_host(const Attachment *a, const Attachment *b)
{
	return a->guid == b->guid && a->size == b->size &&
		(a->size == 0 || memcmp(a->host, b->host, a->size) == 0);
}

/*
 * Lists the pairs of leaves of each host, and joins those that share enough of
 * them. Returns false if memory runs out.
 */
static bool
join_shared(Fabric *fabric, const Attachment *all, int n)
{
	LeafPair   *pairs = NULL;
	size_t		room = 0;
	int			npairs = 0;

	for (int pass = 0; pass < 2; pass++)
	{
		if (pass == 1 &&
			(pairs = malloc((room + 1) * sizeof(LeafPair))) == NULL)
			return false;
		for (int i = 0, next; i < n; i = next)
		{
			for (next = i + 1; next < n && same_host(&all[i], &all[next]);)
				next++;
			if (next - i > MOST_LEAVES)
				continue;
			room += (size_t) (next - i) * (size_t) (next - i - 1) / 2;
			for (int a = i; pass == 1 && a < next; a++)
			{
				for (int b = a + 1; b < next; b++)
					pairs[npairs++] = (LeafPair)
				{
					all[a].leaf, all[b].leaf
				};
			}
		}
		if (pass == 0 && room > INT32_MAX)
			return false;
	}
	join_pairs(fabric, pairs, npairs);
	free(pairs);
	return true;
}

/* Joins two leaves that share at least half of the hosts of each. */
static void
join_pairs(Fabric *fabric, LeafPair *pairs, int n)
{
	if (n > 1)
		qsort(pairs, (size_t) n, sizeof(LeafPair), compare_pairs);
	for (int i = 0, next; i < n; i = next)
	{
		int			a = pairs[i].a;
		int			b = pairs[i].b;

		for (next = i + 1; next < n &&
			 compare_pairs(&pairs[i], &pairs[next]) == 0;)
			next++;
		if ((next - i) * 2 >= fabric->devices[a].hosts &&
			(next - i) * 2 >= fabric->devices[b].hosts)
			fabric->devices[find_group(fabric, a)].group =
				find_group(fabric, b);
	}
}

/*
 * Joins leaves to the switches next to them, and to the leaves of their group.
 */
static void
join_islands(Fabric *fabric)
{
	for (int i = 0; i < fabric->nlinks; i++)
	{
		const FabricLink *link = &fabric->links[i];

		if (fabric->devices[link->to].kind == FABRIC_SWITCH &&
			(fabric->devices[link->from].leaf ||
			 fabric->devices[link->to].leaf))
			fabric->devices[find_island(fabric, link->from)].island =
				find_island(fabric, link->to);
	}
	for (int i = 0; i < fabric->ndevices; i++)
	{
		if (fabric->devices[i].leaf)
			fabric->devices[find_island(fabric, i)].island =
				find_island(fabric, find_group(fabric, i));
	}
}

/* Returns the leaf that stands for those joined to a leaf. */
static int
find_group(Fabric *fabric, int device)
{
	FabricDevice *all = fabric->devices;

	while (all[device].group != device)
	{
		all[device].group = all[all[device].group].group;
		device = all[device].group;
	}
	return device;
}

/* Returns the switch that stands for those joined to a switch. */
static int
find_island(Fabric *fabric, int device)
{
	FabricDevice *all = fabric->devices;

	while (all[device].island != device)
	{
		all[device].island = all[all[device].island].island;
		device = all[device].island;
	}
	return device;
}

/* Writes where this node is, if the fabric has it. */
static void
place(Fabric *fabric, Topology *found)
{
	int64_t		mbps;
	int			group = own_group(fabric, &mbps);
	uint64_t	lowest = UINT64_MAX;

	if (group < 0)
		return;
	for (int i = 0; i < fabric->ndevices; i++)
	{
		if (fabric->devices[i].leaf && find_group(fabric, i) == group &&
			fabric->devices[i].guid <= lowest)
			lowest = fabric->devices[i].guid;
	}
	snprintf(found->leaf, sizeof(found->leaf), "S-%016" PRIx64, lowest);
	found->leaf_mbps = mbps;
	found->spine_mbps = uplink_part(fabric, group, mbps);
	name_spine(fabric, group, found);
}

/*
 * Returns the group of leaves to which this node has most cables, and of
 * several the one with the leaf of the lowest GUID; -1 if it has none. *mbps is the
 * bandwidth of these cables.
 */
static int
own_group(Fabric *fabric, int64_t *mbps)
{
	int			best = -1;
	int			most = 0;
	uint64_t	best_lowest = UINT64_MAX;

	*mbps = 0;
	for (int i = 0; i < fabric->nlinks; i++)
	{
		int			group;
		int			n = 0;
		int64_t		sum = 0;
		uint64_t	lowest = UINT64_MAX;

		if (!fabric->devices[fabric->links[i].to].ours)
			continue;
		group = find_group(fabric, fabric->links[i].from);
		for (int k = 0; k < fabric->nlinks; k++)
		{
			if (!fabric->devices[fabric->links[k].to].ours ||
				find_group(fabric, fabric->links[k].from) != group)
				continue;
			n++;
			sum += fabric->links[k].mbps;
			if (fabric->devices[fabric->links[k].from].guid < lowest)
				lowest = fabric->devices[fabric->links[k].from].guid;
		}
		if (n > most || (n == most && lowest < best_lowest))
		{
			best = group;
			most = n;
			best_lowest = lowest;
			*mbps = sum;
		}
	}
	return best;
}

/*
 * Names the spine of a group of leaves after the lowest of its switches that
 * are no leaves, or of its leaves if these have cables to each other alone. A
 * leaf by itself has none.
 */
static void
name_spine(Fabric *fabric, int group, Topology *found)
{
	int			island = find_island(fabric, group);
	uint64_t	lowest[2] = {UINT64_MAX, UINT64_MAX};	/* spines, leaves */
	int			n[2] = {0, 0};

	for (int i = 0; i < fabric->ndevices; i++)
	{
		const FabricDevice *device = &fabric->devices[i];

		if (device->kind != FABRIC_SWITCH || find_island(fabric, i) != island)
			continue;
		n[device->leaf]++;
		if (device->guid < lowest[device->leaf])
			lowest[device->leaf] = device->guid;
	}
	if (n[0] > 0 || n[1] > 1)
		snprintf(found->spine, sizeof(found->spine), "S-%016" PRIx64,
				 lowest[n[0] == 0]);
}

/*
 * Returns this node's part of its leaves' uplinks, rounded down to an eighth of
 * its bandwidth to the leaf.
 */
static int64_t
uplink_part(Fabric *fabric, int group, int64_t mbps)
{
	int64_t		up = 0;
	int64_t		down = 0;
	int64_t		parts;

	for (int i = 0; i < fabric->nlinks; i++)
	{
		const FabricLink *link = &fabric->links[i];
		const FabricDevice *to = &fabric->devices[link->to];

		if (!fabric->devices[link->from].leaf ||
			find_group(fabric, link->from) != group)
			continue;
		if (to->kind == FABRIC_SWITCH &&
			!(to->leaf && find_group(fabric, link->to) == group))
			up += link->mbps;
		else if (to->counts)
			down += link->mbps;
	}
	parts = down == 0 ? 0 : up * EIGHTHS / down;
	return mbps * (parts > EIGHTHS ? EIGHTHS : parts) / EIGHTHS;
}

/*----------
 * The order in which the attachments of one host stand side by side:
 *
 * 1. GUID of an adapter that names no host;
 * 2. size of the host's name, then the name;
 * 3. leaf.
 *----------
 */
static int
compare_attachments(const void *a, const void *b)
{
	const Attachment *x = a;
	const Attachment *y = b;
	int			order;

	if (x->guid != y->guid)
		return x->guid < y->guid ? -1 : 1;
	if (x->size != y->size)
		return x->size < y->size ? -1 : 1;
	order = x->size == 0 ? 0 : memcmp(x->host, y->host, x->size);
	if (order != 0)
		return order;
	return (x->leaf > y->leaf) - (x->leaf < y->leaf);
}

static int
compare_pairs(const void *a, const void *b)
{
	const LeafPair *x = a;
	const LeafPair *y = b;

	if (x->a != y->a)
		return x->a < y->a ? -1 : 1;
	return (x->b > y->b) - (x->b < y->b);
}
