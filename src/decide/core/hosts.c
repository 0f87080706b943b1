/*
 * hosts.c
 *	  The working copy of the nodes, and the orders in which placement
 *	  reads it.
 *
 * by_type is used for jobs on a single host.  by_domain and by_leaf are used
 * for gangs and made when the first gang needs them.  The list of changed
 * hosts contains each changed host once, the one changed last first.  Code
 * that keeps scores of hosts follows the list back to the last change that it
 * has already processed.
 */
#include <string.h>

#include "decide/core/fit.h"

/*
 * Compares two nodes by name.
 */
static int
compare_name(const void *context, int32_t a, int32_t b)
{
	const DecideNode *nodes = context;

	return strcmp(nodes[a].name, nodes[b].name);
}

/*----------
 * The order of hosts in a pool without topology:
 *
 * 1. GPU type;
 * 2. name, by which hosts are numbered.
 *----------
 */
static int
compare_type(const void *context, int32_t a, int32_t b)
{
	const Host *hosts = context;

	if (hosts[a].type != hosts[b].type)
		return hosts[a].type < hosts[b].type ? -1 : 1;
	return a < b ? -1 : 1;
}

/*----------
 * The order that puts the hosts of one NVLink domain side by side:
 *
 * 1. GPU type;
 * 2. domain;
 * 3. leaf;
 * 4. name, by which hosts are numbered.
 *----------
 */
static int
compare_domain(const void *context, int32_t a, int32_t b)
{
	const Host *hosts = context;

	if (hosts[a].type != hosts[b].type)
		return hosts[a].type < hosts[b].type ? -1 : 1;
	if (hosts[a].domain != hosts[b].domain)
		return hosts[a].domain < hosts[b].domain ? -1 : 1;
	if (hosts[a].leaf != hosts[b].leaf)
		return hosts[a].leaf < hosts[b].leaf ? -1 : 1;
	return a < b ? -1 : 1;
}

/*----------
 * The order that puts the hosts of one leaf side by side:
 *
 * 1. GPU type;
 * 2. leaf;
 * 3. domain;
 * 4. name, by which hosts are numbered.
 *----------
 */
static int
compare_leaf(const void *context, int32_t a, int32_t b)
{
	const Host *hosts = context;

	if (hosts[a].type != hosts[b].type)
		return hosts[a].type < hosts[b].type ? -1 : 1;
	if (hosts[a].leaf != hosts[b].leaf)
		return hosts[a].leaf < hosts[b].leaf ? -1 : 1;
	if (hosts[a].domain != hosts[b].domain)
		return hosts[a].domain < hosts[b].domain ? -1 : 1;
	return a < b ? -1 : 1;
}

/*----------
 * The order by which domains are numbered:
 *
 * 1. label of the domain;
 * 2. name of the host, by which hosts are numbered.
 *----------
 */
static int
compare_domain_label(const void *context, int32_t a, int32_t b)
{
	const Host *hosts = context;

	if (hosts[a].domain != hosts[b].domain)
		return hosts[a].domain < hosts[b].domain ? -1 : 1;
	return a < b ? -1 : 1;
}

/*----------
 * The order by which leaves are numbered:
 *
 * 1. label of the leaf;
 * 2. name of the host, by which hosts are numbered.
 *----------
 */
static int
compare_leaf_label(const void *context, int32_t a, int32_t b)
{
	const Host *hosts = context;

	if (hosts[a].leaf != hosts[b].leaf)
		return hosts[a].leaf < hosts[b].leaf ? -1 : 1;
	return a < b ? -1 : 1;
}

/*----------
 * The order by which spines are numbered:
 *
 * 1. label of the spine;
 * 2. name of the host, by which hosts are numbered.
 *----------
 */
static int
compare_spine_label(const void *context, int32_t a, int32_t b)
{
	const Host *hosts = context;

	if (hosts[a].spine != hosts[b].spine)
		return hosts[a].spine < hosts[b].spine ? -1 : 1;
	return a < b ? -1 : 1;
}

/*----------
 * The order that puts the hosts of one spine side by side:
 *
 * 1. GPU type;
 * 2. spine;
 * 3. domain, and what follows it there.
 *----------
 */
static int
compare_spine(const void *context, int32_t a, int32_t b)
{
	const Host *hosts = context;

	if (hosts[a].type != hosts[b].type)
		return hosts[a].type < hosts[b].type ? -1 : 1;
	if (hosts[a].spine != hosts[b].spine)
		return hosts[a].spine < hosts[b].spine ? -1 : 1;
	return compare_domain(context, a, b);
}

/*----------
 * The same, with the hosts of each leaf side by side:
 *
 * 1. GPU type;
 * 2. spine;
 * 3. leaf, and what follows it there.
 *----------
 */
static int
compare_spine_leaf(const void *context, int32_t a, int32_t b)
{
	const Host *hosts = context;

	if (hosts[a].type != hosts[b].type)
		return hosts[a].type < hosts[b].type ? -1 : 1;
	if (hosts[a].spine != hosts[b].spine)
		return hosts[a].spine < hosts[b].spine ? -1 : 1;
	return compare_leaf(context, a, b);
}

/*
 * Fills in a host from its node.
 */
static void
host_load(Host *host, const DecideNode *node, int32_t index)
{
	int			i;

	memset(host, 0, sizeof(*host));
	host->node = index;
	host->type = node->gpus > 0 ? node->type : DECIDE_NO_TYPE;
	host->gpus = node->gpus;
	host->domain = node->domain;
	host->leaf = node->leaf;
	host->spine = node->spine;
	memcpy(host->mbps, node->mbps, sizeof(host->mbps));
	host->gpu_memory_mib = node->gpu_memory_mib;
	host->cpu_milli = node->cpu_milli;
	host->memory_mib = node->memory_mib;
	DecideHostAddCapacity(host, node->cpu_left, node->memory_left);
	host->spot = node->spot;
	host->open = node->schedulable;
	host->usable = node->gpus == 0 ? 0 :
		node->usable & (UINT64_MAX >> (DECIDE_MAX_DEVICES - node->gpus));
	host->newer = host->older = -1;
	for (i = 0; i < node->gpus; i++)
	{
		if ((node->usable >> i) & 1)
			host->left[i] = node->device_left[i];
		host->gpu_memory_used[i] = node->gpu_memory_used[i];
	}
	DecideHostDerive(host);
}

/*
 * Finds the range of each type in by_type.  Returns false if memory runs out.
 */
static bool
find_types(Cycle *cycle)
{
	int32_t		capacity = 0;
	int32_t		i;

	cycle->types = NULL;
	cycle->n_types = 0;
	for (i = 0; i < cycle->n_hosts; i++)
	{
		Host	   *host = &cycle->hosts[cycle->by_type[i]];
		TypeRange  *range;

		if (cycle->n_types == 0 ||
			cycle->types[cycle->n_types - 1].type != host->type)
		{
			cycle->types = DecideGrow(cycle->arena, cycle->types,
									  cycle->n_types, &capacity,
									  sizeof(TypeRange));
			if (cycle->types == NULL)
				return false;
			range = &cycle->types[cycle->n_types++];
			range->type = host->type;
			range->first = i;
			range->n = 0;
		}
		range = &cycle->types[cycle->n_types - 1];
		host->kind = cycle->n_types - 1;
		range->n++;
	}
	return true;
}

/*
 * Makes the hosts from the input's nodes.  Returns NULL, or a message that
 * says what is wrong.
 */
const char *
DecideHostsLoad(Cycle *cycle)
{
	const DecideNode *nodes = cycle->input->nodes;
	int32_t		n = cycle->input->n_nodes;
	int32_t    *order = DecideAlloc(cycle->arena, n, sizeof(int32_t));
	int32_t		i;

	DecideAssert(cycle->hosts == NULL);
	DecideAssert(cycle->input != NULL && cycle->arena != NULL);
	cycle->hosts = DecideAlloc(cycle->arena, n, sizeof(Host));
	if (order == NULL || cycle->hosts == NULL)
		return "out of memory";
	for (i = 0; i < n; i++)
		order[i] = i;
	if (!DecideSort(cycle->arena, order, n, compare_name, nodes))
		return "out of memory";
	for (i = 0; i < n; i++)
	{
		if (i > 0 && compare_name(nodes, order[i - 1], order[i]) == 0)
			return "two nodes have the same name";
		host_load(&cycle->hosts[i], &nodes[order[i]], order[i]);
	}
	cycle->n_hosts = n;
	cycle->latest = -1;
	cycle->changes = 0;
	for (i = 0; i < n; i++)
		order[i] = i;
	cycle->by_type = order;
	if (!DecideSort(cycle->arena, order, n, compare_type, cycle->hosts) ||
		!find_types(cycle))
		return "out of memory";
	return NULL;
}

/*
 * Numbers the spines from 0 in the order of their lowest hosts, and makes the
 * orders by spine if there are several.  Returns false if memory runs out.
 */
static bool
group_spines(Cycle *cycle, const int32_t *by_domain, const int32_t *by_leaf)
{
	Host	   *hosts = cycle->hosts;
	int32_t		n = cycle->n_hosts;
	int32_t    *order = DecideAlloc(cycle->arena, n, sizeof(int32_t));
	int32_t    *other = DecideAlloc(cycle->arena, n, sizeof(int32_t));
	int32_t    *label = DecideAlloc(cycle->arena, n, sizeof(int32_t));
	int32_t		i;

	if (order == NULL || other == NULL || label == NULL)
		return false;
	for (i = 0; i < n; i++)
		order[i] = i;
	if (!DecideSort(cycle->arena, order, n, compare_spine_label, hosts))
		return false;
	for (i = 0; i < n; i++)
		label[order[i]] = i > 0 &&
			hosts[order[i]].spine == hosts[order[i - 1]].spine ?
			label[order[i - 1]] : order[i];
	for (i = 0; i < n; i++)
		hosts[i].spine = label[i] == i ? cycle->n_spines++ :
			hosts[label[i]].spine;
	if (cycle->n_spines < 2)
		return true;
	memcpy(order, by_domain, (size_t) n * sizeof(int32_t));
	memcpy(other, by_leaf, (size_t) n * sizeof(int32_t));
	if (!DecideSort(cycle->arena, order, n, compare_spine, hosts) ||
		!DecideSort(cycle->arena, other, n, compare_spine_leaf, hosts))
		return false;
	cycle->by_spine = order;
	cycle->by_spine_leaf = other;
	return true;
}

/*
 * Identifies each domain and leaf by its lowest host, and makes the orders
 * that gangs need.  A host without a domain or leaf is alone in its own.
 * Returns false if memory runs out.
 */
bool
DecideHostsGroup(Cycle *cycle)
{
	Host	   *hosts = cycle->hosts;
	int32_t		n = cycle->n_hosts;
	int32_t    *by_domain;
	int32_t    *by_leaf;
	int32_t    *lowest;
	int32_t		i;

	DecideAssert(cycle->hosts != NULL || cycle->n_hosts == 0);
	DecideAssert(cycle->near != NULL);
	if (cycle->by_leaf != NULL)
		return true;
	by_domain = DecideAlloc(cycle->arena, n, sizeof(int32_t));
	by_leaf = DecideAlloc(cycle->arena, n, sizeof(int32_t));
	lowest = DecideAlloc(cycle->arena, (int64_t) n * 2, sizeof(int32_t));
	if (by_domain == NULL || by_leaf == NULL || lowest == NULL)
		return false;
	for (i = 0; i < n; i++)
		by_domain[i] = by_leaf[i] = i;
	if (!DecideSort(cycle->arena, by_domain, n, compare_domain_label, hosts) ||
		!DecideSort(cycle->arena, by_leaf, n, compare_leaf_label, hosts))
		return false;
	for (i = 0; i < n; i++)
	{
		int32_t		d = by_domain[i];
		int32_t		l = by_leaf[i];

		lowest[d] = (i > 0 && hosts[d].domain != DECIDE_OWN_GROUP &&
					 hosts[d].domain == hosts[by_domain[i - 1]].domain) ?
			lowest[by_domain[i - 1]] : d;
		lowest[n + l] = (i > 0 && hosts[l].leaf != DECIDE_OWN_GROUP &&
						 hosts[l].leaf == hosts[by_leaf[i - 1]].leaf) ?
			lowest[n + by_leaf[i - 1]] : l;
	}
	for (i = 0; i < n; i++)
	{
		hosts[i].domain = lowest[i];
		hosts[i].leaf = lowest[n + i];
	}
	if (!DecideSort(cycle->arena, by_domain, n, compare_domain, hosts) ||
		!DecideSort(cycle->arena, by_leaf, n, compare_leaf, hosts) ||
		!group_spines(cycle, by_domain, by_leaf))
		return false;
	cycle->by_domain = by_domain;
	cycle->by_leaf = by_leaf;
	return true;
}

/*
 * The range of a type's hosts in by_type; its n is 0 if there are none.
 */
TypeRange
DecideHostsOfType(const Cycle *cycle, int32_t type)
{
	TypeRange	none = {type, 0, 0};
	int32_t		low = 0;
	int32_t		high = cycle->n_types;

	DecideAssert(cycle->types != NULL || cycle->n_types == 0);
	DecideAssert(type >= 0 || type == DECIDE_NO_TYPE);
	while (low < high)
	{
		int32_t		middle = low + (high - low) / 2;

		if (cycle->types[middle].type < type)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < cycle->n_types && cycle->types[low].type == type)
		return cycle->types[low];
	return none;
}
