/*
 * scope.c
 *	  The places within which a topology keeps a gang together.
 */
#include "decide/core.h"

/*
 * Does one scope hold both hosts?
 */
static bool
same_scope(const Host *a, const Host *b, DecideTopology topology)
{
	switch (topology)
	{
		case DECIDE_TOPOLOGY_NVLINK:
			return a->domain == b->domain;
		case DECIDE_TOPOLOGY_LEAF:
			return a->leaf == b->leaf;
		case DECIDE_TOPOLOGY_NODE:
			return false;
		case DECIDE_TOPOLOGY_ANY:
			break;
	}
	return true;
}

/*
 * Walk the scopes of a topology among the hosts of one type.  Starts with the
 * first when the scope given is all zeroes; false: there is none left.
 */
bool
DecideScopeNext(const Cycle *cycle, const TypeRange *range,
				DecideTopology topology, Scope *scope)
{
	const int32_t *order = (topology == DECIDE_TOPOLOGY_LEAF) ?
		cycle->by_leaf : cycle->by_domain;
	const int32_t *hosts = order + range->first;
	int32_t		i = scope->next;

	if (i >= range->n)
		return false;
	scope->hosts = hosts + i;
	for (i++; i < range->n; i++)
	{
		if (!same_scope(&cycle->hosts[hosts[i - 1]],
						&cycle->hosts[hosts[i]], topology))
			break;
	}
	scope->n = (int32_t) (hosts + i - scope->hosts);
	scope->next = i;
	return true;
}

/*
 * Walk the parts of a scope that are below one leaf each, where the scope
 * keeps each leaf's hosts in one stretch.
 */
bool
DecideScopeLeaf(const Cycle *cycle, const Scope *outer, Scope *inner)
{
	int32_t		i = inner->next;
	int32_t		leaf;

	if (i >= outer->n)
		return false;
	inner->hosts = outer->hosts + i;
	leaf = cycle->hosts[outer->hosts[i]].leaf;
	for (i++; i < outer->n; i++)
	{
		if (cycle->hosts[outer->hosts[i]].leaf != leaf)
			break;
	}
	inner->n = (int32_t) (outer->hosts + i - inner->hosts);
	inner->next = i;
	return true;
}
