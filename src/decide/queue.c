/*
 * queue.c
 *	  The order in which jobs get their turn.
 *
 * Tier rank, then submit time, then job id, then organisation: a total order.
 * Priority works inside one account and tier only, so it must not move the
 * account against others: the account's jobs of one tier hold the turns that
 * their own submit times give them, and priority says which of them goes
 * first.  Written as two sorts of the same groups, once by turn and once by
 * priority, whose i-th entries belong together.
 */
#include <string.h>

#include "decide/core.h"

typedef struct Turns
{
	const DecideJob *jobs;
	const int32_t *order;		/* job of each turn before priorities */
} Turns;

/*
 * Compare two jobs by what gives them their turns.
 */
static int
compare_turn(const void *context, int32_t a, int32_t b)
{
	const DecideJob *x = (const DecideJob *) context + a;
	const DecideJob *y = (const DecideJob *) context + b;

	if (x->tier != y->tier)
		return x->tier < y->tier ? -1 : 1;
	if (x->submitted != y->submitted)
		return x->submitted < y->submitted ? -1 : 1;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return strcmp(x->org, y->org);
}

/*
 * Compare the groups that two jobs belong to: tier, organisation, account.
 */
static int
compare_group(const DecideJob *x, const DecideJob *y)
{
	int			order;

	if (x->tier != y->tier)
		return x->tier < y->tier ? -1 : 1;
	order = strcmp(x->org, y->org);
	if (order != 0)
		return order;
	return strcmp(x->account, y->account);
}

/*
 * Compare two turns by group, then by turn.
 */
static int
compare_slot(const void *context, int32_t a, int32_t b)
{
	const Turns *turns = context;
	int			order;

	order = compare_group(&turns->jobs[turns->order[a]],
						  &turns->jobs[turns->order[b]]);
	if (order != 0)
		return order;
	return a < b ? -1 : 1;
}

/*
 * Compare two turns by group, then by their jobs' priorities, then by turn.
 */
static int
compare_priority(const void *context, int32_t a, int32_t b)
{
	const Turns *turns = context;
	const DecideJob *x = &turns->jobs[turns->order[a]];
	const DecideJob *y = &turns->jobs[turns->order[b]];
	int			order;

	order = compare_group(x, y);
	if (order != 0)
		return order;
	if (x->priority != y->priority)
		return x->priority > y->priority ? -1 : 1;
	return a < b ? -1 : 1;
}

/*
 * Do priorities make a difference at all?
 */
static bool
priorities_differ(const DecideInput *input)
{
	int32_t		i;

	for (i = 1; i < input->n_jobs; i++)
	{
		if (input->jobs[i].priority != input->jobs[0].priority)
			return true;
	}
	return false;
}

/*
 * Let priorities exchange jobs within the turns of their own group.  False:
 * out of memory.
 */
static bool
exchange_by_priority(const DecideInput *input, const DecideArena *arena,
					 int32_t *order)
{
	Turns		turns;
	int32_t		n = input->n_jobs;
	int32_t    *before = DecideAlloc(arena, n, sizeof(int32_t));
	int32_t    *slots = DecideAlloc(arena, n, sizeof(int32_t));
	int32_t    *picks = DecideAlloc(arena, n, sizeof(int32_t));
	int32_t		i;

	if (before == NULL || slots == NULL || picks == NULL)
		return false;
	memcpy(before, order, (size_t) n * sizeof(int32_t));
	for (i = 0; i < n; i++)
		slots[i] = i;
	turns.jobs = input->jobs;
	turns.order = before;
	if (!DecideSort(arena, slots, n, compare_slot, &turns))
		return false;
	memcpy(picks, slots, (size_t) n * sizeof(int32_t));
	if (!DecideSort(arena, picks, n, compare_priority, &turns))
		return false;
	for (i = 0; i < n; i++)
		order[slots[i]] = before[picks[i]];
	return true;
}

/*
 * Put the jobs in order.  Returns NULL and sets *order, or says what is wrong.
 */
const char *
DecideQueueOrder(const DecideInput *input, const DecideArena *arena,
				 int32_t **order)
{
	int32_t    *jobs = DecideAlloc(arena, input->n_jobs, sizeof(int32_t));
	int32_t		i;

	if (jobs == NULL)
		return "out of memory";
	for (i = 0; i < input->n_jobs; i++)
		jobs[i] = i;
	if (!DecideSort(arena, jobs, input->n_jobs, compare_turn, input->jobs))
		return "out of memory";
	for (i = 1; i < input->n_jobs; i++)
	{
		if (compare_turn(input->jobs, jobs[i - 1], jobs[i]) == 0)
			return "a job is in the queue twice";
	}
	if (priorities_differ(input) && !exchange_by_priority(input, arena, jobs))
		return "out of memory";
	*order = jobs;
	return NULL;
}
