/*-------------------------------------------------------------------------
 *
 * offer.c
 *		From a job's request to its offers: types, in order, priced.
 *
 * A type is offered if the request names it (or says "*"), the pool has it,
 * and it has a price.  "*" stands for all others, cheapest first, then by
 * name.  The hold is for the dearest of them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/compat.h"
#include "util/errors.h"
#include "util/sql.h"
#include "job/job.h"
#include "types/clip.h"
#include "utils/array.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(gpucredit_offer_types);

static const char *make(const GpuReq *request, const NodeSet *set,
						const Price *prices, int n, bool submitted,
						Offers *offers);
static void add_any(const GpuReq *request,
					const GpuReqAlternative *alternative, const NodeSet *set,
					const Price *prices, int n, Offers *offers);
static void add(Offers *offers, const Price *price, int64 memory);
static Credits dearest(const Job *job, int64 *duration);
static const Price *find_price(const Price *prices, int n, const char *type);
static bool named(const GpuReq *request, const char *type);
static int	compare_prices(const void *a, const void *b);
static pg_attribute_noreturn() void refuse_type(const char *type);

/*
 * Make a request's offers at an instant.  Returns NULL, or why there is none;
 * UC402 for a type nobody knows.
 */
const char *
OffersMake(const GpuReq *request, const char *pool, const NodeSet *set,
		   TimestampTz at, Offers *offers)
{
	Price	   *prices;
	int			n = PricesRead(pool, at, false, &prices);

	return make(request, set, prices, n, true, offers);
}

/*
 * Make a job's offers again, for its next hold. If none of its types has a
 * price or a node any more, it keeps the old ones. An unknown type is no error
 * here, as it was known at submission.
 */
void
OffersRenew(Job *job, const NodeSet *set, TimestampTz at)
{
	Price	   *prices;
	int			n = PricesRead(job->pool, at, false, &prices);

	OffersRenewAt(job, set, prices, n);
}

/*
 * The same at prices that are known.
 */
void
OffersRenewAt(Job *job, const NodeSet *set, const Price *prices, int n)
{
	Offers		offers;

	if (make(job->request, set, prices, n, false, &offers) == NULL)
		job->offers = offers;
}

/*
 * Add the offers in the request's order. submitted: at submission, where an
 * unknown type is a misspelling.
 */
static const char *
make(const GpuReq *request, const NodeSet *set, const Price *prices, int n,
	 bool submitted, Offers *offers)
{
	int			most = set->types.n + request->nalternatives;
	bool		present = false;

	offers->n = 0;
	offers->types = palloc(sizeof(char *) * (most + 1));
	offers->memory = palloc(sizeof(int64) * (most + 1));
	offers->prices = palloc(sizeof(Credits) * (most + 1));
	offers->spot_prices = palloc(sizeof(Credits) * (most + 1));
	if (GpuReqIsCpuOnly(request))
		return NULL;

	for (int i = 0; i < request->nalternatives; i++)
	{
		const GpuReqAlternative *alternative = &request->alternatives[i];
		const Price *price;

		if (GpuReqAlternativeIsAny(alternative))
		{
			present |= set->types.n > 0;
			add_any(request, alternative, set, prices, n, offers);
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
			add(offers, price, alternative->min_memory);
	}
	if (offers->n > 0)
		return NULL;
	return present ? "no_price" : "impossible_request";
}

/*
 * Add every priced type of the pool, cheapest first, except those the request
 * names, which have their own place and memory floor.
 */
static void
add_any(const GpuReq *request, const GpuReqAlternative *alternative,
		const NodeSet *set, const Price *prices, int n, Offers *offers)
{
	Price	   *sorted = palloc(sizeof(Price) * (n + 1));

	if (n > 0)
		memcpy(sorted, prices, sizeof(Price) * n);
	qsort(sorted, n, sizeof(Price), compare_prices);
	for (int i = 0; i < n; i++)
	{
		if (NameFind(&set->types, sorted[i].gpu_type) >= 0 &&
			!named(request, sorted[i].gpu_type))
			add(offers, &sorted[i], alternative->min_memory);
	}
	pfree(sorted);
}

static void
add(Offers *offers, const Price *price, int64 memory)
{
	offers->types[offers->n] = price->gpu_type;
	offers->memory[offers->n] = memory;
	offers->prices[offers->n] = price->per_gpu_hour;
	offers->spot_prices[offers->n++] = price->spot;
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
 * Does a request name this type, rather than take it for "*"?
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
 * The request as the decision core takes it. Types the pool no longer has are
 * left out.
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
		.wall_limit = job->wall_limit < 0 ? DECIDE_NEVER : job->wall_limit
	};

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
			type, job->offers.memory[i], tied
		};
	}
	return request;
}

/*
 * The first hold's amount: the dearest offer, for the hold window or the whole
 * wall limit, whichever is less.
 */
Credits
OffersHold(const Job *job)
{
	int64		duration;
	Credits		price = dearest(job, &duration);

	return CreditsHoldExact(price, job->request->max_gpus,
							job->request->share_milli, duration);
}

/*
 * The same at today's prices, for a job submitted earlier. False: the amount
 * is larger than credits can be, so nobody can pay it.
 */
bool
OffersHoldAnew(const Job *job, Credits *amount)
{
	int64		duration;
	Credits		price = dearest(job, &duration);

	*amount = CreditsHoldWithin(price, job->request->max_gpus,
								job->request->share_milli, duration,
								PG_INT64_MAX);
	return *amount < PG_INT64_MAX;
}

/*
 * The dearest price a job may have, and how long it holds for.
 */
static Credits
dearest(const Job *job, int64 *duration)
{
	Credits		price = 0;

	for (int i = 0; i < job->offers.n; i++)
	{
		price = Max(price, job->offers.prices[i]);
		if (job->preemptible != PREEMPTIBLE_NEVER)
			price = Max(price, job->offers.spot_prices[i]);
	}
	*duration = job->wall_limit;
	if (job->hold_window >= 0 &&
		(*duration < 0 || job->hold_window < *duration))
		*duration = job->hold_window;
	return price;
}

/*
 * For reading functions: the types a request would be offered now.
 */
Datum
gpucredit_offer_types(PG_FUNCTION_ARGS)
{
	char	   *text = ArgTextOrNull(fcinfo, 0, "request");
	char	   *tier = ArgName(fcinfo, 1, "tier");
	char	   *pool = ArgName(fcinfo, 2, "pool");
	GpuReq	   *request;
	MemoryContext caller = CurrentMemoryContext;
	Tier		found;
	Offers		offers;
	Datum	   *types;
	ArrayType  *array;

	if (text == NULL)
		PG_RETURN_NULL();
	request = GpuReqParse(text);
	SqlConnect();
	TierRead(tier, &found);
	(void) OffersMake(request, pool, NodesCached(pool), ClockNow(), &offers);
	MemoryContextSwitchTo(caller);
	types = palloc(sizeof(Datum) * (offers.n + 1));
	for (int i = 0; i < offers.n; i++)
		types[i] = CStringGetTextDatum(offers.types[i]);
	array = construct_array(types, offers.n, TEXTOID, -1, false,
							TYPALIGN_INT);
	SqlFinish();
	PG_RETURN_ARRAYTYPE_P(array);
}
