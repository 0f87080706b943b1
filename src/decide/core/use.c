/*
 * use.c
 *	  What jobs use of that which quotas limit.
 */
#include "decide/core/core.h"

/*
 * What a job of this request uses with so many devices of a type.
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
	use.of[DECIDE_LIMITED_CPU] = request->cpu_milli;
	use.of[DECIDE_LIMITED_MEMORY] = request->memory_mib;
	return use;
}

/*
 * What a running job that grows by so many devices adds: only these.
 */
DecideUse
DecideGrowthUse(int64_t gpus, int32_t counted)
{
	DecideUse	use = {{0}};

	DecideAssert(gpus >= 0);
	DecideAssert(counted >= 0 && counted <= DECIDE_WHOLE);
	use.of[DECIDE_LIMITED_DEVICES] = gpus * counted;
	return use;
}

/*
 * What a claim adds: of a waiting job all that it will use; of a running one,
 * which has some devices, those beyond them.
 */
DecideUse
DecideClaimUse(const DecidePart *parts, const DecideClaim *claim, int32_t has)
{
	int32_t		more = claim->gpus > has ? claim->gpus - has : 0;
	DecideUse	use = DecideGrowthUse(more, DecideClaimCounted(claim));
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
 * Add up what is used.  A sum that is too large stays the largest number,
 * which no quota allows.
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
 * The first of the limits that does not allow more beside what is used; -1:
 * they all do.  Nobody is kept from anything by a limit on what he does not
 * use.
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
