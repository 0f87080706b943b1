/*
 * use.c
 *	  How much jobs use of the resources that quotas limit.
 */
#include <string.h>

#include "decide/core/core.h"

/*
 * What a job of this request uses with a number of devices of a type.
 */
DecideUse
DecideJobUse(const DecideRequestClass *request, int32_t type, int32_t gpus)
{
	DecideUse	use = {{0}};

	DecideAssert(gpus >= 0);
	DecideAssert(type >= 0 || type == DECIDE_NO_TYPE);
	use.of[DECIDE_LIMITED_JOBS] = 1;
	use.of[DECIDE_LIMITED_DEVICES] = (int64_t) gpus *
		DecideCounted(request, type);
	if (request->stays)
		use.of[DECIDE_LIMITED_STAYING] = use.of[DECIDE_LIMITED_DEVICES];
	use.of[DECIDE_LIMITED_CPU] = request->cpu_milli;
	use.of[DECIDE_LIMITED_MEMORY] = request->memory_mib;
	return use;
}

/*
 * What a running job uses in addition when it grows by a number of devices:
 * devices only.
 */
DecideUse
DecideGrowthUse(int64_t gpus, int32_t counted, bool stays)
{
	DecideUse	use = {{0}};

	DecideAssert(gpus >= 0);
	DecideAssert(counted >= 0 && counted <= DECIDE_WHOLE);
	use.of[DECIDE_LIMITED_DEVICES] = gpus * counted;
	if (stays)
		use.of[DECIDE_LIMITED_STAYING] = gpus * counted;
	return use;
}

/*
 * What a claim adds to use: for a waiting job all that it will use, for a
 * running job, which has some devices already, the devices beyond them.
 */
DecideUse
DecideClaimUse(const DecidePart *parts, const DecideClaim *claim, int32_t has)
{
	int32_t		more = claim->gpus > has ? claim->gpus - has : 0;
	DecideUse	use = DecideGrowthUse(more, DecideClaimCounted(claim),
									  claim->stays);
	int32_t		p;

	DecideAssert(has >= 0);
	DecideAssert(claim->running || has == 0);
	if (claim->running)
		return use;
	use.of[DECIDE_LIMITED_JOBS] = 1;
	for (p = claim->first_part; p < claim->first_part + claim->n_parts; p++)
	{
		DecideUse	part = {{0}};

		part.of[DECIDE_LIMITED_CPU] = parts[p].cpu_milli;
		part.of[DECIDE_LIMITED_MEMORY] = parts[p].memory_mib;
		DecideUseAdd(&use, &part);
	}
	return use;
}

/*
 * What a running job uses.
 */
DecideUse
DecideRunningUse(const DecideRunning *running, const DecidePart *parts)
{
	DecideUse	use = DecideGrowthUse(running->gpus,
									  DecideRunningCounted(running),
									  running->stays);
	int32_t		p;

	DecideAssert(running->n_parts > 0);
	use.of[DECIDE_LIMITED_JOBS] = 1;
	for (p = running->first_part; p < running->first_part + running->n_parts;
		 p++)
	{
		DecideUse	part = {{0}};

		part.of[DECIDE_LIMITED_CPU] = parts[p].cpu_milli;
		part.of[DECIDE_LIMITED_MEMORY] = parts[p].memory_mib;
		DecideUseAdd(&use, &part);
	}
	return use;
}

/*
 * Whether a running job was told to leave for a claim, and does not continue
 * elsewhere.
 */
bool
DecideLeavesFor(const DecideInput *input, const DecideRunning *running,
				const DecideClaim *claim)
{
	int32_t		i;

	if (!running->leaving || running->over || running->for_org == NULL ||
		running->for_job != claim->id ||
		strcmp(running->for_org, claim->org) != 0)
		return false;
	for (i = 0; i < input->n_claims; i++)
	{
		if (input->claims[i].running && input->claims[i].id == running->id &&
			strcmp(input->claims[i].org, running->org) == 0)
			return false;
	}
	return true;
}

/*
 * What remains of a use after something else has been returned, at least
 * nothing.
 */
DecideUse
DecideUseBeyond(const DecideUse *use, const DecideUse *returned)
{
	DecideUse	rest;
	int			i;

	for (i = 0; i < DECIDE_LIMITED; i++)
	{
		DecideAssert(use->of[i] >= 0 && returned->of[i] >= 0);
		rest.of[i] = use->of[i] > returned->of[i] ?
			use->of[i] - returned->of[i] : 0;
	}
	return rest;
}

/*
 * Adds one use to another.  A sum that would overflow becomes the largest
 * number, which no quota allows.
 */
void
DecideUseAdd(DecideUse *sum, const DecideUse *more)
{
	int			i;

	DecideAssert(sum != more);
	for (i = 0; i < DECIDE_LIMITED; i++)
	{
		DecideAssert(more->of[i] >= 0);
		if (__builtin_add_overflow(sum->of[i], more->of[i], &sum->of[i]))
			sum->of[i] = INT64_MAX;
	}
}

/*
 * Returns the first resource of which more would exceed the limit most beside
 * what is used, or -1 if no limit is exceeded.  A limit on a resource that
 * more does not use is never exceeded.
 */
int
DecideUseOver(const DecideUse *most, const DecideUse *used,
			  const DecideUse *more)
{
	int			i;

	for (i = 0; i < DECIDE_LIMITED; i++)
	{
		DecideAssert(used->of[i] >= 0);
		DecideAssert(more->of[i] >= 0);
		if (most->of[i] >= 0 && more->of[i] > 0 &&
			more->of[i] > most->of[i] - used->of[i])
			return i;
	}
	return -1;
}
