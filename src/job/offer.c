/*-------------------------------------------------------------------------
 *
 * offer.c
 *		Derives the offers of a job from its request: GPU types in the
 *		order of preference, with their prices.
 *
 * A type is offered if the request names it (or contains "*"), the pool has a
 * node of the type, and the type has a price.  "*" stands for all types that
 * the request does not name, ordered by price and then by name.  The hold is
 * computed from the dearest offer.
 *
 * A price is the list price times the factor of the job's tier.  A share of a
 * device pays for its thousandths of the device, or for the part of the
 * device's memory that its memory floor keeps from other jobs, whichever is
 * larger.  The cpu and memory of the node have a price if the operator sets
 * one.  The sum is one price per hour, rounded up, and the bill is that price
 * times the time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/compat.h"
#include "util/errors.h"
#include "util/settings.h"
#include "util/sql.h"
#include "job/job.h"
#include "types/clip.h"
#include "utils/array.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(gpucredit_offer_types);

static const char *make(const Job *job, const NodeSet *set,
						const Price *prices, int n, bool submitted,
						Offers *offers);
static void add_any(const Job *job, const GpuReqAlternative *alternative,
					const NodeSet *set, const Price *prices, int n,
					Offers *offers);
static void add(const Job *job, const NodeSet *set, const Price *price,
				int64 memory, Offers *offers);
static int32 dearest_share(const Job *job, const NodeSet *set, int32 type,
						   int64 memory);
static void price_resources(Job *job, const Price *prices, int n);
static Credits times_factor(const Job *job, Credits price);
static int64 held_for(const Job *job);
static const Price *find_price(const Price *prices, int n, const char *type);
static bool named(const GpuReq *request, const char *type);
static int	compare_prices(const void *a, const void *b);
static pg_attribute_noreturn() void refuse_type(const char *type);

/*
 * Makes a submission's offers at the prices of an instant.  Returns NULL, or
 * the reason why there is no offer. Raises UC402 for a GPU type that is
 * unknown.
 */
const char *
OffersMake(Job *job, const NodeSet *set, TimestampTz at)
{
	Price	   *prices;
	int			n = PricesRead(job->pool, at, false, &prices);

	price_resources(job, prices, n);
	return make(job, set, prices, n, true, &job->offers);
}

/*
 * Makes a job's offers again for its next hold. If none of its types has a
 * price or a node any more, the job keeps its old offers. An unknown type
 * raises no error here, because the type was known at submission.
 */
void
OffersRenew(Job *job, const NodeSet *set, TimestampTz at)
{
	Price	   *prices;
	int			n = PricesRead(job->pool, at, false, &prices);

	OffersRenewAt(job, set, prices, n);
}

/* Does the same as OffersRenew(), at prices that the caller has read. */
void
OffersRenewAt(Job *job, const NodeSet *set, const Price *prices, int n)
{
	Offers		offers;

	price_resources(job, prices, n);
	if (make(job, set, prices, n, false, &offers) == NULL)
		job->offers = offers;
}

/* Computes the price of an hour of the job's cpu and memory, rounded up. */
static void
price_resources(Job *job, const Price *prices, int n)
{
	const Price *core = find_price(prices, n, PRICE_CPU_CORE);
	const Price *gib = find_price(prices, n, PRICE_MEMORY_GIB);
	Credits		cpu = core == NULL ? 0 :
		CreditsMulRatioSat(core->per_gpu_hour, job->cpu_milli, 1000,
						   CREDITS_ROUND_UP);
	Credits		memory = gib == NULL ? 0 :
		CreditsMulRatioSat(gib->per_gpu_hour, job->memory_mib, 1024,
						   CREDITS_ROUND_UP);
	Credits		both;

	if (!CreditsTryAdd(cpu, memory, &both))
		both = CREDITS_MAX;
	job->resources = times_factor(job, both);
}

/* Multiplies a price by the factor of the job's tier and rounds up. */
static Credits
times_factor(const Job *job, Credits price)
{
	return job->price_factor == FACTOR_ONE ? price :
		CreditsMulRatioSat(price, job->price_factor, FACTOR_ONE,
						   CREDITS_ROUND_UP);
}

/*
 * Appends the offers in the order of the request. If submitted is true, an
 * unknown type raises an error, because it is probably misspelled. Returns
 * NULL, or the reason why there is no offer.
 */
static const char *
make(const Job *job, const NodeSet *set, const Price *prices, int n,
	 bool submitted, Offers *offers)
{
	const GpuReq *request = job->request;
	int			most = set->types.n + request->nalternatives;
	bool		present = false;

	offers->n = 0;
	offers->types = palloc(sizeof(char *) * (most + 1));
	offers->memory = palloc(sizeof(int64) * (most + 1));
	offers->prices = palloc(sizeof(Credits) * (most + 1));
	offers->spot_prices = palloc(sizeof(Credits) * (most + 1));
	offers->shares = palloc(sizeof(int32) * (most + 1));
	if (GpuReqIsCpuOnly(request))
		return NULL;

	for (int i = 0; i < request->nalternatives; i++)
	{
		const GpuReqAlternative *alternative = &request->alternatives[i];
		const Price *price;

		if (GpuReqAlternativeIsAny(alternative))
		{
			present |= set->types.n > 0;
			add_any(job, alternative, set, prices, n, offers);
			continue;
		}
		price = find_price(prices, n, alternative->name);
		if (NameFind(&set->types, alternative->name) < 0)
		{
			if (submitted && price == NULL &&
				!PriceTypeKnown(alternative->name))
				refuse_type(alternative->name);
			continue;
		}
		present = true;
		if (price != NULL)
			add(job, set, price, alternative->min_memory, offers);
	}
	if (offers->n > 0)
		return NULL;
	return present ? "no_price" : "impossible_request";
}

/*
 * Appends an offer for every priced type of the pool, cheapest first. Types
 * that the request names are left out, because they have their own place and
 * memory floor.
 */
static void
add_any(const Job *job, const GpuReqAlternative *alternative,
		const NodeSet *set, const Price *prices, int n, Offers *offers)
{
	Price	   *sorted = palloc(sizeof(Price) * (n + 1));

	if (n > 0)
		memcpy(sorted, prices, sizeof(Price) * n);
	qsort(sorted, n, sizeof(Price), compare_prices);
	for (int i = 0; i < n; i++)
	{
		if (NameFind(&set->types, sorted[i].gpu_type) >= 0 &&
			!named(job->request, sorted[i].gpu_type))
			add(job, set, &sorted[i], alternative->min_memory, offers);
	}
	pfree(sorted);
}

static void
add(const Job *job, const NodeSet *set, const Price *price, int64 memory,
	Offers *offers)
{
	offers->types[offers->n] = price->gpu_type;
	offers->memory[offers->n] = memory;
	offers->prices[offers->n] = times_factor(job, price->per_gpu_hour);
	offers->spot_prices[offers->n] = times_factor(job, price->spot);
	offers->shares[offers->n++] =
		dearest_share(job, set, NameFind(&set->types, price->gpu_type),
					  memory);
}

/*
 * Returns for how many thousandths of a device a request pays on those nodes
 * of the type where its memory floor keeps the largest part of the device.
 * These are the nodes with the least memory that suffices.
 */
static int32
dearest_share(const Job *job, const NodeSet *set, int32 type, int64 memory)
{
	DecideOffer offer = {.type = type, .min_memory = memory};
	DecideRequestClass request = {.share = job->request->share_milli,
		.n_offers = 1, .offers = &offer};
	int64		floor = DecideShareFloor(&request, type);
	int32		most = request.share;

	for (int i = 0; i < set->n && most < SHARE_WHOLE && floor > 0; i++)
	{
		const DecideNode *node = &set->nodes[i];

		if (node->type == type && node->gpu_memory_mib >= floor)
			most = Max(most, OffersShare(request.share, floor,
										 node->gpu_memory_mib));
	}
	return most;
}

/*
 * Returns for how many thousandths of a device with this memory a share pays:
 * its own thousandths, or those of the memory that its floor keeps from other
 * jobs, whichever is larger. The result is rounded up.
 */
int32
OffersShare(int32 share, int64 floor_mib, int64 gpu_memory_mib)
{
	int64		kept;

	if (share >= SHARE_WHOLE || floor_mib <= 0)
		return share;
	if (gpu_memory_mib <= floor_mib)
		return SHARE_WHOLE;
	kept = (int64) (((int128) floor_mib * SHARE_WHOLE + gpu_memory_mib - 1) /
					gpu_memory_mib);
	return Max(share, (int32) kept);
}

static const Price *
find_price(const Price *prices, int n, const char *type)
{
	for (int i = 0; i < n; i++)
	{
		if (strcmp(prices[i].gpu_type, type) == 0)
			return &prices[i];
	}
	return NULL;
}

/*----------
 * The order in which GPU types are offered:
 *
 * 1. price of a device hour, the lowest first;
 * 2. name of the type.
 *----------
 */
static int
compare_prices(const void *a, const void *b)
{
	const Price *pa = a;
	const Price *pb = b;

	if (pa->per_gpu_hour != pb->per_gpu_hour)
		return pa->per_gpu_hour < pb->per_gpu_hour ? -1 : 1;
	return strcmp(pa->gpu_type, pb->gpu_type);
}

static void
refuse_type(const char *type)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_NO_TYPE),
			 errmsg("unknown GPU type \"%s\"", ClipForMessage(type)),
			 errdetail("The type has no price, and no node has it."),
			 errhint("Check the spelling; names are case-sensitive.")));
}

/*
 * Whether a request names this type, so that the type does not belong to "*".
 */
static bool
named(const GpuReq *request, const char *type)
{
	for (int i = 0; i < request->nalternatives; i++)
	{
		if (strcmp(request->alternatives[i].name, type) == 0)
			return true;
	}
	return false;
}

/*
 * Converts the request to the form that the decision core reads. Types that
 * the pool no longer has are left out.
 */
DecideRequestClass
OffersRequest(const Job *job, const NodeSet *set)
{
	DecideOffer *offers = palloc(sizeof(DecideOffer) * (job->offers.n + 1));
	DecideRequestClass request = {
		.min_gpus = job->request->min_gpus,
		.max_gpus = job->request->max_gpus,
		.share = job->request->share_milli,
		.n_offers = 0,
		.offers = offers,
		.topology = job->topology,
		.prefer = job->prefer,
		.cpu_milli = job->cpu_milli,
		.memory_mib = job->memory_mib,
		.spot_ok = job->preemptible != PREEMPTIBLE_NEVER,
		.stays = job->preemptible != PREEMPTIBLE_CAPACITY,
		.wall_limit = job->wall_limit < 0 ? DECIDE_NEVER : job->wall_limit
	};
	Credits		amount;

	request.filter = PlacementFilter(job->placement, set, &request);
	if (job->placement != NULL)
		request.per_node = job->placement->gpus_per_node;
	request.unpaid = OffersHoldToday(job, &amount) && amount == 0;

	for (int i = 0; i < job->offers.n; i++)
	{
		int32		type = NameFind(&set->types, job->offers.types[i]);
		bool		tied = request.n_offers > 0 && i > 0 &&
			job->offers.prices[i] == job->offers.prices[i - 1] &&
			job->offers.spot_prices[i] == job->offers.spot_prices[i - 1] &&
			!named(job->request, job->offers.types[i]) &&
			!named(job->request, job->offers.types[i - 1]);

		if (type < 0)
			continue;
		offers[request.n_offers++] = (DecideOffer)
		{
			type, job->offers.memory[i], tied,
				dearest_share(job, set, type, job->offers.memory[i])
		};
	}
	return request;
}

/*
 * Computes the amount of the first hold: the dearest offer, for the hold
 * window or the whole wall limit, whichever is less.
 */
Credits
OffersHold(const Job *job)
{
	return CreditsHoldExact(OffersDearest(job), 1, SHARE_WHOLE, held_for(job));
}

/*
 * Computes the next hold of a job that was submitted earlier, at today's
 * prices. Returns false if the amount is larger than credits can be, so that
 * nobody can pay it.
 */
bool
OffersHoldToday(const Job *job, Credits *amount)
{
	*amount = CreditsHoldWithin(OffersDearest(job), 1, SHARE_WHOLE,
								held_for(job), PG_INT64_MAX);
	return *amount < PG_INT64_MAX;
}

/* Returns the price per hour of the job's dearest offer. */
Credits
OffersDearest(const Job *job)
{
	const Offers *offers = &job->offers;
	Credits		most = job->resources;

	for (int i = 0; i < offers->n; i++)
	{
		Credits		price = offers->prices[i];
		int32		share = offers->shares != NULL ? offers->shares[i] :
			offers->memory[i] > 0 ? SHARE_WHOLE : job->request->share_milli;

		if (job->preemptible != PREEMPTIBLE_NEVER)
			price = Max(price, offers->spot_prices[i]);
		most = Max(most, OffersPerHour(price, job->request->max_gpus, share,
									   job->resources));
	}
	return most;
}

/*
 * Computes the price of an hour of these GPUs and of the cpu and memory beside
 * them, rounded up. Returns the greatest amount if the price does not fit.
 */
Credits
OffersPerHour(Credits per_gpu_hour, int32 gpus, int32 share,
			  Credits resources)
{
	Credits		sum;

	if (!CreditsTryAdd(CreditsHoldWithin(per_gpu_hour, gpus, share,
										 USECS_PER_HOUR, PG_INT64_MAX),
					   resources, &sum))
		return PG_INT64_MAX;
	return sum;
}

/* Returns the time that a job's hold covers. */
static int64
held_for(const Job *job)
{
	return OffersHeldFor(job->wall_limit, job->hold_window);
}

/*
 * Returns the time that a hold covers: the hold window or the wall limit (-1
 * if there is none), whichever is less, but at least gpucredit.hold_least.
 */
int64
OffersHeldFor(int64 wall_limit, int64 hold_window)
{
	int64		duration = wall_limit;

	if (hold_window >= 0 && (duration < 0 || hold_window < duration))
		duration = hold_window;
	return Max(duration, SettingHoldLeast());
}

/*
 * SQL function for the reading functions: the types that a request would be
 * offered now.
 */
Datum
gpucredit_offer_types(PG_FUNCTION_ARGS)
{
	char	   *text = ArgTextOrNull(fcinfo, 0, "request");
	char	   *tier = ArgName(fcinfo, 1, "tier");
	char	   *pool = ArgName(fcinfo, 2, "pool");
	MemoryContext caller = CurrentMemoryContext;
	Tier		found;
	Job			job = {.price_factor = FACTOR_ONE};
	Datum	   *types;
	ArrayType  *array;

	if (text == NULL)
		PG_RETURN_NULL();
	job.request = GpuReqParse(text);
	job.pool = pool;
	SqlConnect();
	TierRead(tier, &found);
	(void) OffersMake(&job, NodesCached(pool), ClockNow());
	MemoryContextSwitchTo(caller);
	types = palloc(sizeof(Datum) * (job.offers.n + 1));
	for (int i = 0; i < job.offers.n; i++)
		types[i] = CStringGetTextDatum(job.offers.types[i]);
	array = construct_array(types, job.offers.n, TEXTOID, -1, false,
							TYPALIGN_INT);
	SqlFinish();
	PG_RETURN_ARRAYTYPE_P(array);
}
