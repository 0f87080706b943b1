/*
 * gang_layout.c
 *	  The hosts of a type, leaf by leaf and domain by domain.
 *
 * Where no domain is below several leaves, one order has each domain and each
 * leaf in one stretch, and whatever a gang fills whole, hosts, domains or
 * leaves, is numbered in that order: all that is below a leaf or in a domain
 * is a stretch of numbers.  It is the same for all requests.
 */
#include <string.h>

#include "decide/gangs.h"

#define MOST_HOSTS	0xFFFF		/* of a piece, as a key tells them */

/*
 * Do two neighbours belong to one piece?
 */
static bool
same_unit(const Host *a, const Host *b, GangUnit unit)
{
	if (unit == GANG_HOST || a->leaf != b->leaf)
		return false;
	return unit == GANG_LEAF || a->domain == b->domain;
}

/*
 * What pieces of a kind are told apart by, that are as good as each other.
 */
static int64_t
turn_of(const Host *host, int32_t index, GangUnit unit)
{
	if (unit == GANG_LEAF)
		return host->leaf;
	return unit == GANG_DOMAIN ? host->domain :
		(int64_t) host->domain << 32 | index;
}

/*
 * Cut the hosts into pieces.  False: out of memory.
 */
static bool
cut(Cycle *cycle, GangLayout *layout, GangUnit unit)
{
	int32_t		n = layout->n;
	Stretch    *units = DecideAlloc(cycle->arena, n, sizeof(Stretch));
	int32_t    *unit_of = DecideAlloc(cycle->arena, n, sizeof(int32_t));
	int64_t    *turn = DecideAlloc(cycle->arena, n, sizeof(int64_t));
	int32_t		cuts = 0;
	int32_t		i;

	if (units == NULL || unit_of == NULL || turn == NULL)
		return false;
	for (i = 0; i < n; i++)
	{
		const Host *host = &cycle->hosts[layout->hosts[i]];

		if (i == 0 || !same_unit(&cycle->hosts[layout->hosts[i - 1]], host,
								 unit))
		{
			turn[cuts] = turn_of(host, layout->hosts[i], unit);
			units[cuts++] = (Stretch)
			{
				i, 0
			};
		}
		if (++units[cuts - 1].n > MOST_HOSTS)
			layout->crossed = true;
		unit_of[i] = cuts - 1;
	}
	layout->n_units[unit] = cuts;
	layout->units[unit] = units;
	layout->unit_of[unit] = unit_of;
	layout->turn[unit] = turn;
	return true;
}

/*
 * Is a domain below several leaves?
 */
static bool
is_crossed(const Cycle *cycle, const TypeRange *range)
{
	const int32_t *hosts = cycle->by_domain + range->first;
	int32_t		i;

	for (i = 1; i < range->n; i++)
	{
		const Host *a = &cycle->hosts[hosts[i - 1]];
		const Host *b = &cycle->hosts[hosts[i]];

		if (a->domain == b->domain && a->leaf != b->leaf)
			return true;
	}
	return false;
}

/*
 * The layout of a type's hosts, made once a cycle.  NULL: out of memory.
 */
GangLayout *
DecideGangLayoutOf(Cycle *cycle, const TypeRange *range)
{
	GangScratch *gang = cycle->gang;
	GangLayout *layout;
	GangUnit	unit;
	int32_t		i;

	if (gang->layouts == NULL)
	{
		gang->layouts = DecideAlloc(cycle->arena, cycle->n_types,
									sizeof(GangLayout));
		if (gang->layouts == NULL)
			return NULL;
		memset(gang->layouts, 0, (size_t) cycle->n_types * sizeof(GangLayout));
	}
	layout = &gang->layouts[cycle->hosts[cycle->by_type[range->first]].kind];
	if (layout->made)
		return layout;
	layout->crossed = is_crossed(cycle, range);
	layout->hosts = cycle->by_leaf + range->first;
	layout->n = range->n;
	layout->position = DecideAlloc(cycle->arena, range->n, sizeof(int32_t));
	if (layout->position == NULL)
		return NULL;
	for (i = 0; i < range->n; i++)
		layout->position[cycle->hosts[layout->hosts[i]].place] = i;
	for (unit = GANG_HOST; unit < GANG_UNITS && !layout->crossed; unit++)
	{
		if (!cut(cycle, layout, unit))
			return NULL;
	}
	layout->made = true;
	return layout;
}

/*
 * The pieces of a kind that some hosts are, which are whole ones of it.
 */
Stretch
DecideGangLayoutUnits(const GangLayout *layout, GangUnit unit, Stretch hosts)
{
	Stretch		units;

	units.first = layout->unit_of[unit][hosts.first];
	units.n = layout->unit_of[unit][hosts.first + hosts.n - 1] + 1 -
		units.first;
	return units;
}
