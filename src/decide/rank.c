/*
 * rank.c
 *	  All accounts by the fair tree: whose own jobs would go first.
 */
#include "decide/core.h"

#define MOST_STEPS	80			/* levels, and the step to an account's own
								 * jobs */

/*
 * The way from the organisation to an account's own jobs.
 */
static int
way_to(const FairUse *use, int32_t account, FairShare *way)
{
	int			n = 0;
	int			i;

	if (use->inner[account])
		way[n++] = DecideFairOwn(use, account);
	for (; account >= 0; account = use->input->accounts[account].parent)
		way[n++] = DecideFairOf(use, account);
	for (i = 0; i < n / 2; i++)
	{
		FairShare	swap = way[i];

		way[i] = way[n - 1 - i];
		way[n - 1 - i] = swap;
	}
	return n;
}

/*
 * Compare two accounts' ways, step by step.  One that ends while all was
 * equal is as good as one that goes on through accounts that used nothing.
 */
static int
compare_ways(const void *context, int32_t a, int32_t b)
{
	static const FairShare ended = {DECIDE_WEIGHT_ONE, 0};
	const FairUse *use = context;
	FairShare	way_a[MOST_STEPS];
	FairShare	way_b[MOST_STEPS];
	int			n_a = way_to(use, a, way_a);
	int			n_b = way_to(use, b, way_b);
	int			i;

	for (i = 0; i < n_a || i < n_b; i++)
	{
		int			order = DecideFairCompare(i < n_a ? way_a[i] : ended,
											  i < n_b ? way_b[i] : ended);

		if (order != 0)
			return order;
	}
	return 0;
}

/*
 * Rank all accounts, from 1; equals share a rank.
 */
const char *
DecideFairRank(const DecideInput *input, const DecideArena *arena,
			   int32_t **ranks)
{
	FairUse		use;
	const char *error = DecideInputError(input);
	int32_t		n = input->n_accounts;
	int32_t    *order;
	int32_t		i;

	if (error == NULL)
		error = DecideFairBegin(input, arena, &use);
	if (error != NULL)
		return error;
	order = DecideAlloc(arena, n, sizeof(int32_t));
	*ranks = DecideAlloc(arena, n, sizeof(int32_t));
	if (order == NULL || *ranks == NULL)
		return "out of memory";
	for (i = 0; i < n; i++)
		order[i] = i;
	if (!DecideSort(arena, order, n, compare_ways, &use))
		return "out of memory";
	for (i = 0; i < n; i++)
		(*ranks)[order[i]] = i > 0 &&
			compare_ways(&use, order[i - 1], order[i]) == 0 ?
			(*ranks)[order[i - 1]] : i + 1;
	return NULL;
}
