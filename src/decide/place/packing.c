/*
 * packing.c
 *	  How well a host suits a request, by the pool's packing policy.
 *
 * Policy pack compares the usable devices that a placement costs the pool
 * (fit.c), then prefers the fullest host.  A share is placed on the shared
 * device with the least left that has room.  If there is none, it uses a free
 * device: first on a host with partly used devices, then where the fewest free
 * devices remain.
 *
 * Policy spread prefers the host of which the smallest part is in use, in
 * thousandths of its capacity, so that large and small hosts fill alike.
 * Shares are placed on the device with the most left.  Of equally used hosts
 * the one with the most left wins, then the one whose use costs the pool
 * least.
 *
 * Policy fgd places a job where typical jobs lose least.  It follows "Beware
 * of Fragmentation" (Weng et al., USENIX ATC 2023).  If a host cannot run a
 * typical job (because of the type, device memory, cpu, memory, or too few
 * devices with enough left), that job can use nothing of what is left on the
 * host.  Otherwise it cannot use those devices that have less left than it
 * requests.  The weighted sum of what typical jobs cannot use is the
 * fragmentation of the host.  The cost of a placement is the growth of that
 * sum, plus the devices that it strands.  A typical share also needs its
 * memory on a shared device.
 *
 * Stranded devices are those for which the host has too little cpu or memory
 * left, by what typical jobs use for each device.
 *
 * The weight of a typical job is its part of all jobs, times (1 / size)^3,
 * where size is in devices and at least a quarter.  Small jobs are frequent
 * and use what other jobs leave, and what none of them can use is lost.  The
 * weight is also multiplied by (devices of the pool / devices that could ever
 * run it)^2, to keep scarce devices for jobs that need them.
 *
 * Costs are compared in steps of 60 thousandths of a device, because smaller
 * differences are noise that would scatter jobs.  Within a step the host with
 * the least left wins, then the device with the least left.  All pools use the
 * same constants; docs/scheduling.md describes how they were found, and how
 * little depends on them.
 */
#include "decide/place/place.h"

typedef __int128 Wide;

#define COVERED_PERCENT	95		/* per cent of the jobs that the typical
								 * requests cover, the most frequent requests
								 * first */
#define SMALLEST_SIZE	250		/* thousandths of a device; smaller requests
								 * weigh as much as one of this size */
#define WEIGHT_ONE		1000000 /* weight of a request for one whole device,
								 * if all jobs ask for that */
#define WEIGHT_MOST		INT64_C(1000000000)
#define STEP			((int64_t) 60 * WEIGHT_ONE)
#define STEPS_BIAS		(INT64_C(1) << 31)

/* A typical request. */
typedef struct MixClass
{
	const DecideRequestClass *request;
	int64_t		weight;
} MixClass;

struct Mix
{
	MixClass   *classes;
	int32_t		n;
	int64_t    *floors;			/* MiB that a device must have, by type of
								 * host and class; INT64_MAX if the class does
								 * not accept the type */
	int64_t		cpu_each;		/* cpu that typical jobs use for each whole
								 * device */
	int64_t		memory_each;
};

/* What is left on a host. */
typedef struct HostRemainder
{
	int64_t		cpu;
	int64_t		memory;
	int32_t		n_free;
	int32_t		n_partial;
	uint16_t	partial[DECIDE_MAX_DEVICES];
	/* thousandths of the memory of each shared device */
	uint16_t	memory_part[DECIDE_MAX_DEVICES];
	int64_t		gpu_memory[DECIDE_MAX_DEVICES]; /* MiB of memory left on each
												 * shared device */
} HostRemainder;

/*
 * Thousandths of devices that are left on a host.
 */
static int64_t
fit_free(const Host *host)
{
	int64_t		left = (int64_t) host->n_free * DECIDE_WHOLE;
	uint64_t	rest;

	for (rest = host->partial; rest != 0; rest &= rest - 1)
		left += host->left[__builtin_ctzll(rest)];
	return left;
}

/*
 * Thousandths of a device that a job of the request uses at least.
 */
static int64_t
request_size(const DecideRequestClass *request)
{
	return (int64_t) request->min_gpus * request->share;
}

/*
 * The smallest number of jobs that a request must have to be among the most
 * frequent ones, which together cover enough of all jobs.  Of requests with
 * the same number of jobs either all or none are among them.
 */
static int64_t
fewest_jobs(const Cycle *cycle, int32_t *order, int32_t n, int64_t all)
{
	const DecideWorkload *workloads = cycle->input->workloads;
	Wide		covered = 0;
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		covered += workloads[order[i]].jobs;
		if (covered * 100 >= (Wide) all * COVERED_PERCENT)
			return workloads[order[i]].jobs;
	}
	return 1;
}

/*
 * Compares two typical requests; the more frequent one comes first.
 */
static int
compare_jobs(const void *context, int32_t a, int32_t b)
{
	const DecideWorkload *workloads = context;

	if (workloads[a].jobs != workloads[b].jobs)
		return workloads[a].jobs > workloads[b].jobs ? -1 : 1;
	return 0;
}

/*
 * The memory in MiB that a request requires of a device of this type, the
 * least if several offers name the type; INT64_MAX if the type is not
 * accepted.
 */
static int64_t
floor_of(const DecideRequestClass *request, int32_t type)
{
	int64_t		least = INT64_MAX;
	int32_t		i;

	for (i = 0; i < request->n_offers; i++)
	{
		if (request->offers[i].type == type &&
			DecideFitFloor(&request->offers[i]) < least)
			least = DecideFitFloor(&request->offers[i]);
	}
	return least;
}

/*
 * The number of a job's devices that would be on one host: all of them, or,
 * for a gang that may use several hosts, at most as many as the host has.
 */
static int32_t
devices_here(const Host *host, const DecideRequestClass *request)
{
	if (request->min_gpus > host->gpus &&
		request->topology != DECIDE_TOPOLOGY_NODE)
		return host->gpus;
	return request->min_gpus;
}

/*
 * The number of devices in the pool that could ever run jobs of a class.
 */
static int64_t
supply_of(const Cycle *cycle, const Mix *mix, int32_t class)
{
	const DecideRequestClass *request = mix->classes[class].request;
	int64_t		supply = 0;
	int32_t		i;

	for (i = 0; i < cycle->n_hosts; i++)
	{
		const Host *host = &cycle->hosts[i];
		int32_t		gpus = devices_here(host, request);

		if (gpus > 0 && gpus <= host->gpus &&
			host->gpu_memory_mib >= mix->floors[(int64_t) host->kind *
												mix->n + class] &&
			(host->cpu_milli == 0 || host->cpu_milli >=
			 DecideFitSplit(request->cpu_milli, gpus, request->min_gpus)) &&
			(host->memory_mib == 0 || host->memory_mib >=
			 DecideFitSplit(request->memory_mib, gpus, request->min_gpus)))
			supply += host->gpus;
	}
	return supply;
}

/*
 * The weight of a class with this part of all jobs; 0 if no device could ever
 * run them.
 */
static int64_t
weight_of(const DecideRequestClass *request, int64_t jobs, int64_t all,
		  int64_t supply,
		  int64_t devices)
{
	int64_t		size = request_size(request);
	Wide		weight = (Wide) jobs * WEIGHT_ONE / all;

	if (supply == 0)
		return 0;
	if (size < SMALLEST_SIZE)
		size = SMALLEST_SIZE;
	weight = weight * DECIDE_WHOLE * DECIDE_WHOLE * DECIDE_WHOLE /
		((Wide) size * size * size);
	weight = weight * devices / supply * devices / supply;
	return weight < WEIGHT_MOST ? (int64_t) weight : WEIGHT_MOST;
}

/*
 * Finds the memory that each class requires of a device, for each type of
 * host.
 */
static void
floors_find(const Cycle *cycle, Mix *mix)
{
	int32_t		kind;
	int32_t		i;

	for (kind = 0; kind < cycle->n_types; kind++)
	{
		for (i = 0; i < mix->n; i++)
			mix->floors[(int64_t) kind * mix->n + i] =
				floor_of(mix->classes[i].request, cycle->types[kind].type);
	}
}

/*
 * Computes the weights of the classes, and how much cpu and memory typical
 * jobs use for each device.
 */
static void
mix_weigh(const Cycle *cycle, Mix *mix, const int64_t *jobs, int64_t all)
{
	Wide		size = 0;
	Wide		cpu = 0;
	Wide		memory = 0;
	int64_t		devices = 0;
	int32_t		i;

	for (i = 0; i < cycle->n_hosts; i++)
		devices += cycle->hosts[i].gpus;
	for (i = 0; i < mix->n; i++)
	{
		const DecideRequestClass *request = mix->classes[i].request;

		mix->classes[i].weight = weight_of(request, jobs[i], all,
										   supply_of(cycle, mix, i), devices);
		size += (Wide) request_size(request) * jobs[i];
		cpu += (Wide) request->cpu_milli * jobs[i];
		memory += (Wide) request->memory_mib * jobs[i];
	}
	mix->cpu_each = size == 0 ? 0 : (int64_t) (cpu * DECIDE_WHOLE / size);
	mix->memory_each = size == 0 ? 0 :
		(int64_t) (memory * DECIDE_WHOLE / size);
}

/*
 * Finds the typical requests, once a cycle.  Returns false if memory runs out.
 */
bool
DecideMixPrepare(Cycle *cycle)
{
	const DecideWorkload *workloads = cycle->input->workloads;
	int32_t		most = cycle->input->n_workloads;
	int32_t    *order = DecideAlloc(cycle->arena, most, sizeof(int32_t));
	int64_t    *jobs = DecideAlloc(cycle->arena, most, sizeof(int64_t));
	Mix		   *mix = DecideAlloc(cycle->arena, 1, sizeof(Mix));
	int64_t		all = 0;
	int64_t		covered = 0;
	int64_t		fewest;
	int32_t		n = 0;
	int32_t		i;

	DecideAssert(cycle->mix == NULL);
	DecideAssert(cycle->input->policy.packing == DECIDE_PACKING_FGD);
	if (order == NULL || jobs == NULL || mix == NULL)
		return false;
	for (i = 0; i < most; i++)
	{
		if (workloads[i].request.min_gpus == 0)
			continue;
		order[n++] = i;
		if (__builtin_add_overflow(all, workloads[i].jobs, &all))
			all = INT64_MAX;
	}
	if (!DecideSort(cycle->arena, order, n, compare_jobs, workloads))
		return false;
	fewest = fewest_jobs(cycle, order, n, all);
	mix->n = 0;
	mix->classes = DecideAlloc(cycle->arena, n, sizeof(MixClass));
	mix->floors = DecideAlloc(cycle->arena, (int64_t) n * cycle->n_types,
							  sizeof(int64_t));
	if (mix->classes == NULL || mix->floors == NULL)
		return false;
	for (i = 0; i < n && workloads[order[i]].jobs >= fewest; i++)
	{
		mix->classes[mix->n].request = &workloads[order[i]].request;
		jobs[mix->n++] = workloads[order[i]].jobs;
		if (__builtin_add_overflow(covered, workloads[order[i]].jobs,
								   &covered))
			covered = INT64_MAX;
	}
	floors_find(cycle, mix);
	mix_weigh(cycle, mix, jobs, covered);
	cycle->mix = mix;
	return true;
}

/*
 * Of sum thousandths of devices that are left on a host, how many jobs of a
 * class cannot use.
 */
static int64_t
unusable(const Mix *mix, int32_t class, const Host *host, const HostRemainder *rest,
		 int64_t sum)
{
	const DecideRequestClass *request = mix->classes[class].request;
	int32_t		gpus = devices_here(host, request);
	int64_t		floor = mix->floors[(int64_t) host->kind * mix->n + class];
	int32_t		fitting = rest->n_free;
	int64_t		splinters = 0;
	int32_t		i;

	if (host->gpu_memory_mib < floor ||
		(host->cpu_milli > 0 && rest->cpu <
		 DecideFitSplit(request->cpu_milli, gpus, request->min_gpus)) ||
		(host->memory_mib > 0 && rest->memory <
		 DecideFitSplit(request->memory_mib, gpus, request->min_gpus)))
		return sum;
	for (i = 0; i < rest->n_partial; i++)
	{
		if (rest->partial[i] >= request->share &&
			(floor > 0 ? rest->gpu_memory[i] >= floor :
			 rest->memory_part[i] >= request->share))
			fitting++;
		else
			splinters += rest->partial[i];
	}
	return fitting < gpus ? sum : splinters;
}

/*
 * Of sum thousandths of devices that are left on a host, how many are stranded
 * because left, of cpu or memory, is too little if each device uses each.
 */
static int64_t
stranded_by(int64_t sum, int64_t left, int64_t capacity, int64_t each)
{
	Wide		usable;

	if (capacity == 0 || each == 0)
		return 0;
	usable = left > 0 ? (Wide) left * DECIDE_WHOLE / each : 0;
	return usable < sum ? sum - (int64_t) usable : 0;
}

/*
 * The fragmentation of what is left on a host: the weighted sum, over typical
 * jobs, of the thousandths of devices that each cannot use, plus the stranded
 * thousandths, in millionths (WEIGHT_ONE).
 */
static int64_t
badness(const Mix *mix, const Host *host, const HostRemainder *rest)
{
	int64_t		sum = (int64_t) rest->n_free * DECIDE_WHOLE;
	int64_t		cpu;
	int64_t		memory;
	int64_t		bad = 0;
	int32_t		i;

	for (i = 0; i < rest->n_partial; i++)
		sum += rest->partial[i];
	if (sum == 0)
		return 0;
	for (i = 0; i < mix->n; i++)
		bad += mix->classes[i].weight * unusable(mix, i, host, rest, sum);
	cpu = stranded_by(sum, rest->cpu, host->cpu_milli, mix->cpu_each);
	memory = stranded_by(sum, rest->memory, host->memory_mib,
						 mix->memory_each);
	return bad + (cpu > memory ? cpu : memory) * WEIGHT_ONE;
}

/*
 * Sets what is left of a shared device.
 */
static void
set_remainder(const Host *host, HostRemainder *rest, int32_t at, int32_t left,
			  int64_t memory)
{
	rest->partial[at] = (uint16_t) left;
	rest->gpu_memory[at] = memory;
	rest->memory_part[at] = memory >= host->gpu_memory_mib ? DECIDE_WHOLE :
		memory <= 0 ? 0 : (uint16_t)
		((Wide) memory * DECIDE_WHOLE / host->gpu_memory_mib);
}

/*
 * Computes what is left on a host now.
 */
static void
read_remainder(const Host *host, HostRemainder *rest)
{
	uint64_t	bits;

	rest->cpu = host->cpu_left;
	rest->memory = host->memory_left;
	rest->n_free = host->n_free;
	rest->n_partial = 0;
	for (bits = host->partial; bits != 0; bits &= bits - 1)
	{
		int32_t		i = __builtin_ctzll(bits);

		set_remainder(host, rest, rest->n_partial++, host->left[i],
					  host->gpu_memory_mib - host->gpu_memory_used[i]);
	}
}

/*
 * The cost in steps of a placement, from what is left on the host before and
 * after it.
 */
static int64_t
steps_between(const Mix *mix, const Host *host, const HostRemainder *before,
			  const HostRemainder *after)
{
	int64_t		cost = badness(mix, host, after) - badness(mix, host, before);

	return cost >= 0 ? cost / STEP : -((-cost + STEP - 1) / STEP);
}

/*
 * The cost in steps of placing gpus whole devices of a request on a host that
 * has them.
 */
static int64_t
fgd_steps(const Cycle *cycle, const Host *host,
		  const DecideRequestClass *request,
		  int32_t gpus, int32_t count)
{
	HostRemainder before;
	HostRemainder after;

	read_remainder(host, &before);
	after = before;
	after.n_free -= gpus;
	after.cpu -= count > 0 ? DecideFitSplit(request->cpu_milli, gpus, count) :
		request->cpu_milli;
	after.memory -= count > 0 ? DecideFitSplit(request->memory_mib, gpus,
											   count) :
		request->memory_mib;
	return steps_between(cycle->mix, host, &before, &after);
}

/*
 * Makes a key of a cost in steps, and of what is left on the host and on the
 * device after the placement.
 */
static FitKey
key_of(int64_t steps, int64_t left, int64_t on_device)
{
	FitKey		key;

	key.high = (uint64_t) (steps + STEPS_BIAS) << 32 |
		(uint64_t) left << 12 | (uint64_t) on_device;
	key.low = 0;
	return key;
}

/*
 * How well a host suits a job of whole devices, or without devices, if it has
 * room for the job.
 */
static FitKey
fgd_key(const Cycle *cycle, const Host *host,
		const DecideRequestClass *request,
		int32_t count)
{
	return key_of(fgd_steps(cycle, host, request, count, count),
				  fit_free(host) - (int64_t) count * DECIDE_WHOLE, 0);
}

/*
 * How well a host suits a share, and on which device; FIT_NONE and -1 if no
 * device has enough left.  Of equal devices the lowest wins.
 */
static FitKey
fgd_share(const Cycle *cycle, const Host *host,
		  const DecideRequestClass *request,
		  int32_t *device)
{
	uint64_t	bits = host->partial | (host->free & -host->free);
	int64_t		left = fit_free(host) - request->share;
	int64_t		memory = DecideShareUse(host, request);
	FitKey		best = FIT_NONE;
	HostRemainder before;

	*device = -1;
	read_remainder(host, &before);
	for (; bits != 0; bits &= bits - 1)
	{
		int32_t		i = __builtin_ctzll(bits);
		uint16_t	rest = (uint16_t) (host->left[i] - request->share);
		HostRemainder after = before;
		FitKey		key;
		int32_t		at;

		if (!DecideShareFits(host, i, request->share, memory))
			continue;
		after.cpu -= request->cpu_milli;
		after.memory -= request->memory_mib;
		at = __builtin_popcountll(host->partial & ((UINT64_C(1) << i) - 1));
		if ((host->free >> i) & 1)
		{
			after.n_free--;
			at = after.n_partial++;
		}
		set_remainder(host, &after, at, rest, host->gpu_memory_mib -
					  host->gpu_memory_used[i] - memory);
		key = key_of(steps_between(cycle->mix, host, &before, &after), left,
					 rest);
		if (DecideFitLess(key, best))
		{
			best = key;
			*device = i;
		}
	}
	return best;
}

/*
 * The device with the most left that has room for a share, or -1.  Free
 * devices come first, and the lowest of equal devices wins.
 */
static int32_t
spread_device(const Host *host, const DecideRequestClass *request)
{
	int64_t		memory = DecideShareUse(host, request);
	uint64_t	rest;
	int32_t		found = -1;

	for (rest = host->free | host->partial; rest != 0; rest &= rest - 1)
	{
		int32_t		i = __builtin_ctzll(rest);

		if ((found < 0 || host->left[i] > host->left[found]) &&
			DecideShareFits(host, i, request->share, memory))
			found = i;
	}
	return found;
}

/*
 * How many thousandths of a capacity are in use.
 */
static uint64_t
used_of(int64_t capacity, int64_t left)
{
	return capacity == 0 ? 0 :
		1000 - (uint64_t) ((unsigned __int128) left * 1000 /
						   (unsigned __int128) capacity);
}

/*
 * How well a host suits count devices, a share, or a job without devices, by
 * the policy spread.  It compares the part of the host's devices (without
 * devices, of its cpu) that is in use afterwards, then prefers the most
 * devices left, then the least loss.
 */
static FitKey
spread_key(const Host *host, const DecideRequestClass *request,
		   int32_t count)
{
	int32_t		taken = count;
	int64_t		left = fit_free(host) - (int64_t) count * request->share;
	FitKey		key;

	if (request->share < DECIDE_WHOLE)
	{
		int32_t		device = spread_device(host, request);

		if (device < 0)
			return FIT_NONE;
		taken = (int32_t) ((host->free >> device) & 1);
	}
	key.high = count == 0 ?
		used_of(host->cpu_milli, host->cpu_left - request->cpu_milli) :
		used_of((int64_t) host->gpus * DECIDE_WHOLE, left);
	key.high = key.high << 32 |
		(uint64_t) (DECIDE_MAX_DEVICES * DECIDE_WHOLE - left);
	key.low = (uint64_t)
		(host->n_usable - DecideFitUsable(host, host->n_free - taken,
										  host->cpu_left - request->cpu_milli,
										  host->memory_left - request->memory_mib));
	return key;
}

/*
 * How well a host with enough cpu and memory suits a share, by the policy
 * pack.  It compares the loss, then what the device has left, then whether the
 * host has partly used devices, then how few free devices are left.
 */
static FitKey
pack_share(const Host *host, const DecideRequestClass *request)
{
	int32_t		device = DecideShareDevice(host, request);
	int32_t		breaks;
	FitKey		key;
	uint64_t	loss;

	if (device < 0)
		return FIT_NONE;
	breaks = (int32_t) ((host->free >> device) & 1);
	loss = (uint64_t) (host->n_usable -
					   DecideFitUsable(host, host->n_free - breaks,
									   host->cpu_left - request->cpu_milli,
									   host->memory_left - request->memory_mib));
	key.high = loss << 32 | (uint64_t) host->left[device] << 16 |
		(uint64_t) (host->partial == 0) << 8 |
		(uint64_t) (host->n_free - breaks);
	key.low = 0;
	return key;
}

/*
 * How well a host with enough cpu and memory suits a share, by the pool's
 * policy; FIT_NONE if no device has enough left.
 */
static FitKey
share_key(const Cycle *cycle, const Host *host,
		  const DecideRequestClass *request)
{
	int32_t		device;

	if (cycle->mix != NULL)
		return fgd_share(cycle, host, request, &device);
	if (cycle->input->policy.packing == DECIDE_PACKING_SPREAD)
		return spread_key(host, request, 1);
	return pack_share(host, request);
}

/*
 * The device on which the pool's policy places a share, or -1.
 */
int32_t
DecideShareChoose(const Cycle *cycle, const Host *host,
				  const DecideRequestClass *request)
{
	int32_t		device;

	DecideAssert(request->share > 0 && request->share < DECIDE_WHOLE);
	DecideAssert(host->open);
	if (cycle->mix != NULL)
	{
		(void) fgd_share(cycle, host, request, &device);
		return device;
	}
	if (cycle->input->policy.packing == DECIDE_PACKING_SPREAD)
		return spread_device(host, request);
	return DecideShareDevice(host, request);
}

/*
 * How well a host suits a part of a gang by the pool's policy, from -32768 to
 * 32767; a lower value is better.
 */
int64_t
DecideFitPart(const Cycle *cycle, const Host *host,
			  const DecideRequestClass *request,
			  int32_t gpus, int32_t count)
{
	int64_t		steps;

	DecideAssert(gpus > 0 && gpus <= count);
	DecideAssert(gpus <= host->n_free);
	if (cycle->mix != NULL)
	{
		steps = fgd_steps(cycle, host, request, gpus, count);
		return steps < INT16_MIN ? INT16_MIN :
			steps > INT16_MAX ? INT16_MAX : steps;
	}
	if (cycle->input->policy.packing == DECIDE_PACKING_SPREAD)
		return gpus - host->n_free;
	return (int64_t) DecideFitLoss(host, request, gpus, count) << 8 |
		(int64_t) (host->n_free - gpus);
}

/*
 * The key of a host for a request of whole devices, or of none, under the
 * policy "pack"; the host with the least key suits best.  It compares what
 * the packing would lose, then how many devices would be left free and, for a
 * request of no devices, how much cpu would be left, where a host without a
 * limit of cpu comes last.
 */
static FitKey
pack_key(const Host *host, const DecideRequestClass *request, int32_t count)
{
	uint64_t	loss = (uint64_t) DecideFitLoss(host, request, count, count);
	FitKey		key;

	key.high = loss << 8 | (uint64_t) (host->n_free - count);
	key.low = 0;
	if (count == 0)
		key.low = host->cpu_milli > 0 ?
			(uint64_t) (host->cpu_left - request->cpu_milli) : INT64_MAX;
	return key;
}

/*
 * How well a host suits a request with all of count devices, by the pool's
 * policy; FIT_NONE if it has no room for them.
 */
FitKey
DecideFitKey(const Cycle *cycle, const Host *host,
			 const DecideRequestClass *request,
			 const DecideOffer *offer, int32_t count)
{
	DecideAssert(count >= 0);
	DecideAssert(offer != NULL || request->min_gpus == 0);
	if (!DecideFitRequest(host, request, offer, count))
		return FIT_NONE;
	if (request->share < DECIDE_WHOLE)
		return share_key(cycle, host, request);
	if (cycle->mix != NULL)
		return fgd_key(cycle, host, request, count);
	if (cycle->input->policy.packing == DECIDE_PACKING_SPREAD)
		return spread_key(host, request, count);
	return pack_key(host, request, count);
}
