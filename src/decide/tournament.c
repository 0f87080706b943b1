/*
 * tournament.c
 *	  A tournament over things, whose rounds also tell the best of a stretch.
 *
 * The leaf of a thing is at n + its number, every inner entry is the better of
 * the two below it, [1] is the best of all.  What is better is for the caller
 * to say, and it must never find two equal.  A thing that changed costs one
 * walk to the root.
 */
#include "decide/gangs.h"

/*
 * The better of two.
 */
static int32_t
winner(const Tournament *tree, int32_t a, int32_t b)
{
	return tree->before(tree->context, b, a) ? b : a;
}

/*
 * Get a tree over n things, to be filled.  False: out of memory.
 */
bool
TournamentAlloc(const DecideArena *arena, Tournament *tree, int32_t n,
				DecideBeforeFn before, const void *context)
{
	tree->n = n;
	tree->before = before;
	tree->context = context;
	tree->winners = DecideAlloc(arena, (int64_t) n * 2, sizeof(int32_t));
	return tree->winners != NULL;
}

/*
 * Let all play.
 */
void
TournamentFill(Tournament *tree)
{
	int32_t		i;

	for (i = 0; i < tree->n; i++)
		tree->winners[tree->n + i] = i;
	for (i = tree->n - 1; i >= 1; i--)
		tree->winners[i] = winner(tree, tree->winners[2 * i],
								  tree->winners[2 * i + 1]);
}

/*
 * Let one play its way up after it changed.
 */
void
TournamentReplay(Tournament *tree, int32_t item)
{
	int32_t		i;

	for (i = (tree->n + item) / 2; i >= 1; i /= 2)
		tree->winners[i] = winner(tree, tree->winners[2 * i],
								  tree->winners[2 * i + 1]);
}

/*
 * The best of those from first on and before end; there are some.
 */
int32_t
TournamentBest(const Tournament *tree, int32_t first, int32_t end)
{
	int32_t		low = first + tree->n;
	int32_t		high = end + tree->n;
	int32_t		best = first;

	if (first == 0 && end == tree->n)
		return tree->winners[1];
	for (; low < high; low /= 2, high /= 2)
	{
		if (low % 2 == 1)
			best = winner(tree, best, tree->winners[low++]);
		if (high % 2 == 1)
			best = winner(tree, best, tree->winners[--high]);
	}
	return best;
}
