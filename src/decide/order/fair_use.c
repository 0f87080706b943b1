/*
 * fair_use.c
 *	  How much accounts have used, and which of two siblings goes first.
 *
 * An account's use is its decayed past use plus what it runs now, counted for
 * the policy's horizon; each start of the cycle adds to it immediately.  The
 * use of an account's own jobs is one sum, that of the account and all
 * accounts below it another.  Siblings are compared exactly by weight over
 * use: an account without use goes before any other, whatever the weights.
 *
 * Past use decays by half in each half-life.  This is computed in closed form
 * and with integers, so that each machine gets the same result however often
 * it is computed.
 */
#include <string.h>

#include "decide/order/order.h"

#define BITS	48				/* precision of a fraction of a half-life */
#define MOST_RATE (INT64_C(1) << 40)
#define INVERSE_LN2 1549082005	/* 2^30 / ln 2 */

/* 2^-(1/2), 2^-(1/4), ... in units of 2^-64 */
static const uint64_t half_roots[BITS] = {
	UINT64_C(0xB504F333F9DE6484), UINT64_C(0xD744FCCAD69D6AF4),
	UINT64_C(0xEAC0C6E7DD24392F), UINT64_C(0xF5257D152486CC2C),
	UINT64_C(0xFA83B2DB722A033A), UINT64_C(0xFD3E0C0CF486C175),
	UINT64_C(0xFE9E115C7B8F884C), UINT64_C(0xFF4ECB59511EC8A5),
	UINT64_C(0xFFA756521C8DAED2), UINT64_C(0xFFD3A751C0F7E10C),
	UINT64_C(0xFFE9D2B2F7DB2756), UINT64_C(0xFFF4E91BFF1B8C3E),
	UINT64_C(0xFFFA747EA0040664), UINT64_C(0xFFFD3A3B7814EB54),
	UINT64_C(0xFFFE9D1CC60DDAB1), UINT64_C(0xFFFF4E8E25879BFA),
	UINT64_C(0xFFFFA7470363F451), UINT64_C(0xFFFFD3A37DDA0313),
	UINT64_C(0xFFFFE9D1BDF703AF), UINT64_C(0xFFFFF4E8DEBE025E),
	UINT64_C(0xFFFFFA746F4FA150), UINT64_C(0xFFFFFD3A37A3F8B0),
	UINT64_C(0xFFFFFE9D1BD1065A), UINT64_C(0xFFFFFF4E8DE845AE),
	UINT64_C(0xFFFFFFA746F41377), UINT64_C(0xFFFFFFD3A37A05E4),
	UINT64_C(0xFFFFFFE9D1BD01FC), UINT64_C(0xFFFFFFF4E8DE80C0),
	UINT64_C(0xFFFFFFFA746F4051), UINT64_C(0xFFFFFFFD3A37A025),
	UINT64_C(0xFFFFFFFE9D1BD011), UINT64_C(0xFFFFFFFF4E8DE808),
	UINT64_C(0xFFFFFFFFA746F404), UINT64_C(0xFFFFFFFFD3A37A02),
	UINT64_C(0xFFFFFFFFE9D1BD01), UINT64_C(0xFFFFFFFFF4E8DE81),
	UINT64_C(0xFFFFFFFFFA746F40), UINT64_C(0xFFFFFFFFFD3A37A0),
	UINT64_C(0xFFFFFFFFFE9D1BD0), UINT64_C(0xFFFFFFFFFF4E8DE8),
	UINT64_C(0xFFFFFFFFFFA746F4), UINT64_C(0xFFFFFFFFFFD3A37A),
	UINT64_C(0xFFFFFFFFFFE9D1BD), UINT64_C(0xFFFFFFFFFFF4E8DF),
	UINT64_C(0xFFFFFFFFFFFA746F), UINT64_C(0xFFFFFFFFFFFD3A38),
	UINT64_C(0xFFFFFFFFFFFE9D1C), UINT64_C(0xFFFFFFFFFFFF4E8E),
};

/*
 * Returns 2^-(time / halflife) in units of 2^-64; the largest number below 1
 * if time is 0.
 */
static uint64_t
decay_factor(int64_t time, int64_t halflife)
{
	int64_t		halves = time / halflife;
	uint64_t	fraction;
	uint64_t	left = UINT64_MAX;
	int			i;

	if (halves >= 64)
		return 0;
	fraction = (uint64_t) (((__int128) (time % halflife) << BITS) / halflife);
	for (i = 0; i < BITS; i++)
	{
		if ((fraction >> (BITS - 1 - i)) & 1)
			left = (uint64_t) (((unsigned __int128) left * half_roots[i]) >> 64);
	}
	return left >> halves;
}

/*
 * Returns what remains of a use after some time.  time and halflife are in
 * microseconds.
 */
int64_t
DecideDecayed(int64_t usage, int64_t time, int64_t halflife)
{
	if (time <= 0)
		return usage;
	return (int64_t) (((unsigned __int128) usage *
					   decay_factor(time, halflife)) >> 64);
}

/*
 * Returns what remains of a constant use that began and ended this many
 * microseconds ago: its integral, rate x halflife / ln 2 x (what remains after
 * the end - what remains after the beginning).
 */
int64_t
DecidePastUsage(int64_t rate, int64_t began, int64_t ended, int64_t halflife)
{
	unsigned	__int128 time;
	unsigned	__int128 usage;

	if (ended < 0)
		ended = 0;
	if (began <= ended || rate <= 0)
		return 0;
	if (rate > MOST_RATE)
		rate = MOST_RATE;
	/* effective microseconds, in units of 2^-32 */
	time = (unsigned __int128) (decay_factor(ended, halflife) -
								decay_factor(began, halflife)) *
		(uint64_t) halflife >> 32;
	time = time * INVERSE_LN2 >> 30;
	usage = (time * (uint64_t) rate >> 32) / 1000000;
	return usage > INT64_MAX ? INT64_MAX : (int64_t) usage;
}

/*
 * The sum of two numbers, or INT64_MAX if it would overflow.
 */
static int64_t
sum(int64_t a, int64_t b)
{
	return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/*
 * How much device-thousandths that run now, already weighted, count as use.
 */
static int64_t
for_horizon(const DecideInput *input, __int128 live)
{
	__int128	amount = live * input->policy.fair_horizon;

	return amount > INT64_MAX ? INT64_MAX : (int64_t) amount;
}

/*
 * Adds an amount to the use of an account and of all accounts above it.
 */
static void
fair_add(FairUse *use, int32_t account, int64_t amount)
{
	use->own[account] = sum(use->own[account], amount);
	for (; account >= 0; account = use->input->accounts[account].parent)
		use->total[account] = sum(use->total[account], amount);
}

/*
 * Charges an account for thousandths of devices of a type that have just
 * started.
 */
void
DecideFairCharge(FairUse *use, int32_t account, int32_t type, int64_t milli)
{
	const DecideInput *input = use->input;
	int64_t		weight = type >= 0 && type < input->n_types ?
		input->types[type].weight : 1000;

	DecideAssert(account >= 0 && account < input->n_accounts);
	DecideAssert(milli >= 0 && type != DECIDE_ANY_TYPE);
	if (type != DECIDE_NO_TYPE)
		fair_add(use, account, for_horizon(input, (__int128) milli * weight / 1000));
}

/*
 * Compares two organisations by name.
 */
static int
compare_name(const void *context, int32_t a, int32_t b)
{
	const DecideAccount *accounts = context;

	return strcmp(accounts[a].name, accounts[b].name);
}

/*
 * Numbers the organisations of the accounts by the order of their names.
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
 * Adds up the use of all accounts before the cycle.  Returns NULL, or a
 * message that says what is wrong.
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
		fair_add(use, i, sum(account->usage,
							 for_horizon(input, account->live)));
	}
	return number_organisations(use, arena);
}

#define MOST_STEPS	80			/* most levels of accounts, plus one for an
								 * account's own jobs */

/*
 * Fills in the path from the organisation to an account's own jobs.  Returns
 * its length.
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
 * Compares the paths of two accounts, level by level.  A path that ends while
 * all levels were equal counts as if it continued through accounts without
 * use.
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
 * Ranks all accounts, from 1; equal accounts share a rank.
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
