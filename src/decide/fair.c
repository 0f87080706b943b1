/*
 * fair.c
 *	  What accounts have used, and who of two siblings is behind.
 *
 * An account's use is its decayed past and what it runs now, counted for the
 * policy's horizon; starts of the cycle add to it at once.  Its own jobs are
 * one thing, all at or below it another.  Siblings compare by weight over use,
 * exactly: nothing used is ahead of anything, whatever the weights.
 */
#include <string.h>

#include "decide/core.h"

/*
 * A sum that stays at the top of its range.
 */
static int64_t
sum(int64_t a, int64_t b)
{
	return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/*
 * What so many device-thousandths, weighted, count in use.
 */
static int64_t
for_horizon(const DecideInput *input, __int128 live)
{
	__int128	amount = live * input->policy.fair_horizon;

	return amount > INT64_MAX ? INT64_MAX : (int64_t) amount;
}

/*
 * What so many thousandths of devices of a type, just started, count in use.
 */
int64_t
DecideFairAmount(const DecideInput *input, int32_t type, int64_t milli)
{
	int64_t		weight = 1000;

	if (type == DECIDE_NO_TYPE)
		return 0;
	if (type < input->n_types)
		weight = input->types[type].weight;
	return for_horizon(input, (__int128) milli * weight / 1000);
}

/*
 * Which of two siblings has less for its weight: below 0, the first.
 */
int
DecideFairCompare(FairShare a, FairShare b)
{
	__int128	left = (__int128) a.weight * b.usage;
	__int128	right = (__int128) b.weight * a.usage;

	return left > right ? -1 : left < right;
}

/*
 * Add to an account's use.
 */
void
DecideFairAdd(FairUse *use, int32_t account, int64_t amount)
{
	use->own[account] = sum(use->own[account], amount);
	for (; account >= 0; account = use->input->accounts[account].parent)
		use->total[account] = sum(use->total[account], amount);
}

/*
 * Compare two organisations by name.
 */
static int
compare_name(const void *context, int32_t a, int32_t b)
{
	const DecideAccount *accounts = context;

	return strcmp(accounts[a].name, accounts[b].name);
}

/*
 * Number each account's organisation by the order of their names.
 */
static const char *
number_organisations(FairUse *use, const DecideArena *arena)
{
	const DecideAccount *accounts = use->input->accounts;
	int32_t		n = use->input->n_accounts;
	int32_t    *roots = DecideAlloc(arena, n, sizeof(int32_t));
	int32_t		n_roots = 0;
	int32_t		i;

	if (roots == NULL)
		return "out of memory";
	for (i = 0; i < n; i++)
	{
		if (accounts[i].parent < 0)
			roots[n_roots++] = i;
	}
	if (!DecideSort(arena, roots, n_roots, compare_name, accounts))
		return "out of memory";
	for (i = 0; i < n_roots; i++)
	{
		if (i > 0 && compare_name(accounts, roots[i - 1], roots[i]) == 0)
			return "an organisation is there twice";
		use->org[roots[i]] = i;
	}
	for (i = 0; i < n; i++)
	{
		int32_t		root = i;

		while (accounts[root].parent >= 0)
			root = accounts[root].parent;
		use->root[i] = root;
		use->org[i] = use->org[root];
	}
	return NULL;
}

/*
 * What all accounts have used before the cycle.  Returns NULL, or what is
 * wrong.
 */
const char *
DecideFairBegin(const DecideInput *input, const DecideArena *arena,
				FairUse *use)
{
	int32_t		n = input->n_accounts;
	int32_t		i;

	use->input = input;
	use->own = DecideAlloc(arena, n, sizeof(int64_t));
	use->total = DecideAlloc(arena, n, sizeof(int64_t));
	use->inner = DecideAlloc(arena, n, sizeof(bool));
	use->org = DecideAlloc(arena, n, sizeof(int32_t));
	use->root = DecideAlloc(arena, n, sizeof(int32_t));
	if (use->own == NULL || use->total == NULL || use->inner == NULL ||
		use->org == NULL || use->root == NULL)
		return "out of memory";
	memset(use->own, 0, (size_t) n * sizeof(int64_t));
	memset(use->total, 0, (size_t) n * sizeof(int64_t));
	memset(use->inner, 0, (size_t) n * sizeof(bool));
	for (i = 0; i < n; i++)
	{
		const DecideAccount *account = &input->accounts[i];

		if (account->parent >= 0)
			use->inner[account->parent] = true;
		DecideFairAdd(use, i, sum(account->usage,
								  for_horizon(input, account->live)));
	}
	return number_organisations(use, arena);
}

/*
 * An account's place among its siblings.
 */
FairShare
DecideFairOf(const FairUse *use, int32_t account)
{
	FairShare	share = {use->input->accounts[account].weight,
		use->total[account]};

	return share;
}

/*
 * The place of an inner account's own jobs among its children.
 */
FairShare
DecideFairOwn(const FairUse *use, int32_t account)
{
	FairShare	share = {DECIDE_WEIGHT_ONE, use->own[account]};

	return share;
}
