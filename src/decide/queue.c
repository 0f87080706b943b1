/*
 * queue.c
 *	  The order in which jobs get their turn.
 *
 * Tier rank, then submit time, then job id, then organisation: a total order.
 * Priority works inside one account and tier only, so it must not move the
 * account against others: the account's jobs of one tier hold the turns that
 * their own submit times give them, and priority says which of them goes
 * first.
 */
#include <string.h>

#include "decide/core.h"

typedef struct Turns
{
	const DecideInput *input;
	const DecideJob *jobs;
	const int32_t *order;		/* job of each turn before priorities */
	int32_t		n;
	int32_t    *group;			/* of each turn */
	int32_t		n_groups;
} Turns;

/*
 * Compare two jobs by what gives them their turns.
 */
static int
compare_turn(const void *context, int32_t a, int32_t b)
{
	const DecideInput *input = context;
	const DecideJob *x = &input->jobs[a];
	const DecideJob *y = &input->jobs[b];
	int32_t		rank_x = input->tiers[x->tier].rank;
	int32_t		rank_y = input->tiers[y->tier].rank;

	if (rank_x != rank_y)
		return rank_x < rank_y ? -1 : 1;
	if (x->submitted != y->submitted)
		return x->submitted < y->submitted ? -1 : 1;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return strcmp(x->org, y->org);
}

/*
 * Do two jobs belong to one group: rank, account?
 */
static bool
same_group(const DecideInput *input, const DecideJob *x, const DecideJob *y)
{
	return x->account == y->account &&
		input->tiers[x->tier].rank == input->tiers[y->tier].rank;
}

/*
 * A number that is the same for jobs of one group.
 */
static uint64_t
group_hash(const DecideInput *input, const DecideJob *job)
{
	uint64_t	hash = (uint64_t) (uint32_t) job->account << 32 |
		(uint32_t) input->tiers[job->tier].rank;

	hash *= UINT64_C(0x9E3779B97F4A7C15);
	return hash ^ (hash >> 32);
}

/*
 * Number the groups in order of their first turns.  False: out of memory.
 */
static bool
groups_number(const DecideArena *arena, Turns *turns)
{
	uint64_t	size = 16;
	int32_t    *table;
	int32_t		i;

	while (size < (uint64_t) turns->n * 2)
		size *= 2;
	table = DecideAlloc(arena, (int64_t) size, sizeof(int32_t));
	turns->group = DecideAlloc(arena, turns->n, sizeof(int32_t));
	if (table == NULL || turns->group == NULL)
		return false;
	memset(table, 0xFF, size * sizeof(int32_t));
	turns->n_groups = 0;
	for (i = 0; i < turns->n; i++)
	{
		const DecideJob *job = &turns->jobs[turns->order[i]];
		uint64_t	at = group_hash(turns->input, job) & (size - 1);

		while (table[at] >= 0 &&
			   !same_group(turns->input, job,
						   &turns->jobs[turns->order[table[at]]]))
			at = (at + 1) & (size - 1);
		if (table[at] < 0)
		{
			table[at] = i;
			turns->group[i] = turns->n_groups++;
		}
		else
			turns->group[i] = turns->group[table[at]];
	}
	return true;
}

/*
 * Compare two turns of one group by their jobs' priorities, then by turn.
 */
static int
compare_priority(const void *context, int32_t a, int32_t b)
{
	const Turns *turns = context;
	const DecideJob *x = &turns->jobs[turns->order[a]];
	const DecideJob *y = &turns->jobs[turns->order[b]];

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
 * List the turns group by group, each group's in order; first[g] is where
 * group g starts.  False: out of memory.
 */
static bool
groups_list(const DecideArena *arena, const Turns *turns, int32_t **first,
			int32_t **list)
{
	int32_t    *next;
	int32_t		i;

	*first = DecideAlloc(arena, (int64_t) turns->n_groups + 1,
						 sizeof(int32_t));
	next = DecideAlloc(arena, turns->n_groups, sizeof(int32_t));
	*list = DecideAlloc(arena, turns->n, sizeof(int32_t));
	if (*first == NULL || next == NULL || *list == NULL)
		return false;
	memset(*first, 0, ((size_t) turns->n_groups + 1) * sizeof(int32_t));
	for (i = 0; i < turns->n; i++)
		(*first)[turns->group[i] + 1]++;
	for (i = 0; i < turns->n_groups; i++)
	{
		(*first)[i + 1] += (*first)[i];
		next[i] = (*first)[i];
	}
	for (i = 0; i < turns->n; i++)
		(*list)[next[turns->group[i]]++] = i;
	return true;
}

/*
 * Let priorities exchange jobs within the turns of their own group.  False:
 * out of memory.
 */
static bool
exchange_by_priority(const DecideInput *input, const DecideArena *arena,
					 int32_t *order)
{
	int32_t		n = input->n_jobs;
	int32_t    *before = DecideAlloc(arena, n, sizeof(int32_t));
	int32_t    *picks = DecideAlloc(arena, n, sizeof(int32_t));
	Turns		turns = {input, input->jobs, before, n, NULL, 0};
	int32_t    *first;
	int32_t    *slots;
	int32_t		i;

	if (before == NULL || picks == NULL)
		return false;
	memcpy(before, order, (size_t) n * sizeof(int32_t));
	if (!groups_number(arena, &turns) ||
		!groups_list(arena, &turns, &first, &slots))
		return false;
	memcpy(picks, slots, (size_t) n * sizeof(int32_t));
	for (i = 0; i < turns.n_groups; i++)
	{
		if (!DecideSort(arena, picks + first[i], first[i + 1] - first[i],
						compare_priority, &turns))
			return false;
	}
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
	if (!DecideSort(arena, jobs, input->n_jobs, compare_turn, input))
		return "out of memory";
	for (i = 1; i < input->n_jobs; i++)
	{
		if (compare_turn(input, jobs[i - 1], jobs[i]) == 0)
			return "a job is in the queue twice";
	}
	if (priorities_differ(input) && !exchange_by_priority(input, arena, jobs))
		return "out of memory";
	*order = jobs;
	return NULL;
}
