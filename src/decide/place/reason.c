/*
 * reason.c
 *	  Why a job could not start, with numbers.
 *
 * For each offer the reason that prevents a start is found, and that of the
 * offer which came nearest to starting is reported (of equally near ones, the
 * preferred offer).  The conditions are checked in the order of DecideReason,
 * and the first one that is not met is the reason.  Hosts count with all that
 * is free on them, even if it is reserved: reservations are a reason of their
 * own (DecideFreeButReserved).
 */
#include "decide/place/place.h"

/* Numbers of the hosts that one offer can use. */
typedef struct Supply
{
	int32_t		of_type;		/* number of hosts of the type */
	int32_t		of_memory;		/* number of these that have enough memory */
	int32_t		of_filter;		/* number of those with enough memory that the
								 * request's filter allows */
	int32_t		of_spot;		/* number of those that the filter allows and
								 * the rule for spot nodes, too */
	int32_t		open;			/* number of the allowed ones that accept new
								 * work */
	int64_t		most_memory;	/* largest memory in MiB of a device of the
								 * type */
} Supply;

/* Numbers of devices in the best scope that the topology allows. */
typedef struct Capacity
{
	int64_t		devices;		/* all devices, free or not */
	int64_t		free;
	int64_t		cpu;			/* free devices with enough cpu */
	int64_t		memory;
} Capacity;

static void
set_reason(DecideWait *wait, DecideReason reason, int64_t wanted, int64_t available)
{
	wait->reason = reason;
	wait->wanted = wanted;
	wait->available = available;
}

static int64_t
larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/*
 * Whether the hosts themselves are the reason, not what is in use on them.  If
 * so, fills in wait.
 */
static bool
explain_type(const Cycle *cycle, const DecideRequestClass *request,
			 const DecideOffer *offer,
			 const int32_t *hosts, int32_t n, DecideWait *wait)
{
	Supply		supply = {0};
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		const Host *host = DecideAvailabilityNow(cycle, hosts ? hosts[i] : i);

		supply.of_type++;
		supply.most_memory = larger(supply.most_memory,
									host->gpu_memory_mib);
		if (offer != NULL && !DecideFitMemory(host, offer))
			continue;
		supply.of_memory++;
		if (!DecideFilterAllows(request, host->node))
			continue;
		supply.of_filter++;
		if (host->spot && !request->spot_ok)
			continue;
		supply.of_spot++;
		if (host->open)
			supply.open++;
	}
	if (supply.of_type == 0)
		set_reason(wait, DECIDE_NO_SUCH_TYPE, 0, 0);
	else if (supply.of_memory == 0)
		set_reason(wait, DECIDE_NO_SUCH_MEMORY, offer->min_memory / (1 << 20) +
				   (offer->min_memory % (1 << 20) != 0), supply.most_memory);
	else if (supply.of_filter == 0)
		set_reason(wait, DECIDE_FILTERED, 0, supply.of_memory);
	else if (supply.of_spot == 0)
		set_reason(wait, DECIDE_SPOT_ONLY, 0, 0);
	else
		return supply.open == 0;
	return true;
}

/*
 * Finds the reason for CPU-only jobs and for shares, which run on one host.
 */
static void
explain_node(const Cycle *cycle, const DecideRequestClass *request,
			 const DecideOffer *offer,
			 const int32_t *hosts, int32_t n, DecideWait *wait)
{
	int64_t		share = -1;
	int64_t		taken = 0;
	int64_t		device_memory = -1;
	bool		fits = false;
	int64_t		cpu = -1;
	int64_t		memory = -1;
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		const Host *host = DecideAvailabilityNow(cycle, hosts ? hosts[i] : i);
		int			d;

		if (!DecideFitAllowed(host, request, offer))
			continue;
		for (d = 0; d < host->gpus && offer != NULL; d++)
		{
			int64_t		has = host->gpu_memory_mib - host->gpu_memory_used[d];

			if ((((host->free | host->partial) >> d) & 1) == 0)
				continue;
			share = larger(share, host->left[d]);
			if (host->left[d] < request->share || has <= device_memory)
				continue;
			device_memory = has;
			taken = DecideShareUse(host, request);
		}
		if (offer != NULL && DecideShareDevice(host, request) < 0)
			continue;
		fits = true;
		cpu = larger(cpu, host->cpu_milli > 0 ? host->cpu_left : INT64_MAX);
		memory = larger(memory, host->memory_mib > 0 ? host->memory_left :
						INT64_MAX);
	}
	if (offer != NULL && share < request->share)
		set_reason(wait, DECIDE_NOT_ENOUGH_SHARE, request->share, larger(share, 0));
	else if (offer != NULL && !fits)
		set_reason(wait, DECIDE_GPU_MEMORY_SHORT, taken, larger(device_memory, 0));
	else if (cpu < request->cpu_milli)
		set_reason(wait, DECIDE_CPU_SHORT, request->cpu_milli, cpu);
	else if (memory < request->memory_mib)
		set_reason(wait, DECIDE_MEMORY_SHORT, request->memory_mib, memory);
	else
		set_reason(wait, DECIDE_CPU_AND_MEMORY_SHORT, 0, 0);
}

/*
 * Raises each number of best to that of a scope, if the scope has more.
 */
static void
scope_capacity(const Cycle *cycle, const DecideRequestClass *request,
			   const DecideOffer *offer,
			   const Scope *scope, Capacity *best)
{
	int32_t		count = request->min_gpus;
	Capacity	capacity = {0};
	int32_t		i;

	for (i = 0; i < scope->n; i++)
	{
		const Host *host = DecideAvailabilityNow(cycle, scope->hosts[i]);

		if ((host->spot && !request->spot_ok) ||
			!DecideFilterAllows(request, host->node) ||
			!DecideFitMemory(host, offer))
			continue;
		capacity.devices += DecideFitPerNode(request, host->gpus);
		if (!host->open)
			continue;
		capacity.free += DecideFitPerNode(request, host->n_free);
		capacity.cpu += DecideFitPerNode(request, DecideFitCapacity
										 (host, request->cpu_milli, 0, count));
		capacity.memory += DecideFitPerNode(request, DecideFitCapacity
											(host, 0, request->memory_mib,
											 count));
	}
	best->devices = larger(best->devices, capacity.devices);
	best->free = larger(best->free, capacity.free);
	best->cpu = larger(best->cpu, capacity.cpu);
	best->memory = larger(best->memory, capacity.memory);
}

/*
 * Finds the reason for jobs of whole devices.
 */
static void
explain_capacity(const Cycle *cycle, const DecideRequestClass *request,
				 const DecideOffer *offer,
				 const TypeRange *range, bool closed, DecideWait *wait)
{
	int32_t		wanted = request->min_gpus;
	Capacity	capacity = {0};
	Capacity	all = {0};
	Scope		scope = {0};

	while (DecideScopeNext(cycle, range, request->topology, &scope))
		scope_capacity(cycle, request, offer, &scope, &capacity);
	scope.next = 0;
	if (DecideScopeNext(cycle, range, DECIDE_TOPOLOGY_ANY, &scope))
		scope_capacity(cycle, request, offer, &scope, &all);
	if (capacity.devices < wanted)
		set_reason(wait, DECIDE_POOL_TOO_SMALL, wanted, capacity.devices);
	else if (closed)
		set_reason(wait, DECIDE_NODES_UNAVAILABLE, 0, 0);
	else if (all.free < wanted)
		set_reason(wait, DECIDE_NOT_ENOUGH_GPUS, wanted, all.free);
	else if (capacity.free < wanted)
		set_reason(wait, DECIDE_NOT_TOGETHER, wanted, capacity.free);
	else if (capacity.cpu < wanted)
		set_reason(wait, DECIDE_CPU_SHORT, wanted, capacity.cpu);
	else if (capacity.memory < wanted)
		set_reason(wait, DECIDE_MEMORY_SHORT, wanted, capacity.memory);
	else
		set_reason(wait, DECIDE_CPU_AND_MEMORY_SHORT, 0, 0);
}

/*
 * Finds the reason why no job of a request can start now.
 */
void
DecideReasonFind(Cycle *cycle, const DecideRequestClass *request,
				 DecideWait *wait)
{
	bool		cpu_only = request->max_gpus == 0;
	int32_t		n_offers = cpu_only ? 1 : request->n_offers;
	int32_t		i;

	DecideAssert(wait != NULL);
	DecideAssert(cycle->by_domain != NULL);
	set_reason(wait, DECIDE_NO_SUCH_TYPE, 0, 0);
	for (i = 0; i < n_offers; i++)
	{
		const DecideOffer *offer = cpu_only ? NULL : &request->offers[i];
		TypeRange	range = {DECIDE_NO_TYPE, 0, cycle->n_hosts};
		const int32_t *hosts = NULL;
		DecideWait	found = *wait;

		if (offer != NULL)
		{
			range = DecideHostsOfType(cycle, offer->type);
			hosts = cycle->by_type + range.first;
			found.type = offer->type;
		}
		found.reason = DECIDE_NODES_UNAVAILABLE;
		found.wanted = found.available = 0;
		if (explain_type(cycle, request, offer, hosts, range.n, &found))
		{
			if (found.reason == DECIDE_NODES_UNAVAILABLE && !cpu_only &&
				request->share == DECIDE_WHOLE)
				explain_capacity(cycle, request, offer, &range, true, &found);
		}
		else if (cpu_only || request->share < DECIDE_WHOLE)
			explain_node(cycle, request, offer, hosts, range.n, &found);
		else
			explain_capacity(cycle, request, offer, &range, false, &found);
		if (i == 0 || found.reason > wait->reason)
			*wait = found;
	}
}

/*
 * The name of a reason, as it appears in SQL.
 */
const char *
DecideReasonName(DecideReason reason)
{
	switch (reason)
	{
		case DECIDE_NOT_WAITING:
			return "not_waiting";
		case DECIDE_NO_SUCH_TYPE:
			return "no_such_type";
		case DECIDE_NO_SUCH_MEMORY:
			return "no_such_memory";
		case DECIDE_FILTERED:
			return "filtered";
		case DECIDE_SPOT_ONLY:
			return "spot_only";
		case DECIDE_POOL_TOO_SMALL:
			return "pool_too_small";
		case DECIDE_NODES_UNAVAILABLE:
			return "nodes_unavailable";
		case DECIDE_NOT_ENOUGH_SHARE:
			return "not_enough_share";
		case DECIDE_GPU_MEMORY_SHORT:
			return "gpu_memory_short";
		case DECIDE_NOT_ENOUGH_GPUS:
			return "not_enough_gpus";
		case DECIDE_NOT_TOGETHER:
			return "not_together";
		case DECIDE_CPU_SHORT:
			return "cpu_short";
		case DECIDE_MEMORY_SHORT:
			return "memory_short";
		case DECIDE_CPU_AND_MEMORY_SHORT:
			return "cpu_and_memory_short";
		case DECIDE_PROMISED:
			return "promised";
		case DECIDE_RESERVED:
			return "reserved";
		case DECIDE_ENOUGH_STARTED:
			return "enough_started";
	}
	return "unknown";
}

/*
 * The name of the cause of an eviction or a promise, as it appears in SQL.
 */
const char *
DecideWhyName(DecideWhy why)
{
	switch (why)
	{
		case DECIDE_WHY_TIER:
			return "tier";
		case DECIDE_WHY_ENTITLEMENT:
			return "entitlement";
		case DECIDE_WHY_MOVE:
			return "move";
		case DECIDE_WHY_SHRINK:
			return "shrink";
		case DECIDE_WHY_GROW:
			return "grow";
	}
	return "unknown";
}
