/*
 * check_order.c
 *	  Checks that no job starts before an equal one ahead of it.
 *
 * Among jobs of one account, tier and request, the first can have whatever the
 * others can have.  So no waiting job of this kind may be ahead of one that
 * starts.  Aged jobs are ahead, by time of submission; then the order is
 * priority, run time (if the policy says so), time of submission, number.
 * Jobs with claims start on these only and are not checked here, nor are jobs
 * with a guaranteed latest start.
 *
 * Each job is examined once, and only if any job starts.
 */
#include <string.h>

#include "decide/check/check.h"

/* Starts, sorted by account, tier and request. */
typedef struct Starts
{
	const DecideInput *input;
	const DecideResult *result;
	int32_t    *order;
	int32_t		n;
} Starts;

/*----------
 * The order that puts jobs side by side of which only their own order
 * decides:
 *
 * 1. account;
 * 2. tier;
 * 3. request.
 *----------
 */
static int
compare_kind(const DecideJob *x, const DecideJob *y)
{
	if (x->account != y->account)
		return x->account < y->account ? -1 : 1;
	if (x->tier != y->tier)
		return x->tier < y->tier ? -1 : 1;
	return x->request < y->request ? -1 : x->request > y->request;
}

/*----------
 * Whether a job must be started before another of its kind.  What decides is:
 *
 * 1. aged jobs come first;
 * 2. priority of jobs that are not aged, the highest first;
 * 3. with policy "shortest", expected run time of jobs that are not aged;
 * 4. time of submission;
 * 5. number of the job.
 *----------
 */
static bool
goes_before(const DecideInput *input, const DecideJob *x, const DecideJob *y)
{
	bool		x_aged = x->aged_at < input->now;
	bool		y_aged = y->aged_at < input->now;

	if (x_aged != y_aged)
		return x_aged;
	if (!x_aged && x->priority != y->priority)
		return x->priority > y->priority;
	if (!x_aged && input->policy.order == DECIDE_ORDER_SHORTEST &&
		x->order_run != y->order_run)
		return x->order_run < y->order_run;
	if (x->submitted != y->submitted)
		return x->submitted < y->submitted;
	return x->id < y->id;
}

/*----------
 * The order in which starts are checked:
 *
 * 1. kind (compare_kind());
 * 2. place in the queue (goes_before()), the last first;
 * 3. place in the result.
 *----------
 */
static int
compare_starts(const void *context, int32_t a, int32_t b)
{
	const Starts *starts = context;
	const DecideJob *x =
	&starts->input->jobs[starts->result->starts[a].job];
	const DecideJob *y =
	&starts->input->jobs[starts->result->starts[b].job];
	int			order = compare_kind(x, y);

	if (order != 0)
		return order;
	if (goes_before(starts->input, y, x))
		return -1;
	return goes_before(starts->input, x, y) ? 1 : a < b ? -1 : a > b;
}

/*
 * Returns the last start of a job's kind, or -1 if there is none.
 */
static int32_t
last_start(const Starts *starts, const DecideJob *job)
{
	int32_t		low = 0;
	int32_t		high = starts->n;

	while (low < high)
	{
		int32_t		middle = low + (high - low) / 2;
		const DecideStart *start =
		&starts->result->starts[starts->order[middle]];

		if (compare_kind(&starts->input->jobs[start->job], job) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == starts->n ||
		compare_kind(&starts->input->jobs
					 [starts->result->starts[starts->order[low]].job],
					 job) != 0)
		return -1;
	return starts->order[low];
}

/*
 * Verifies that no job starts before an equal one ahead of it.  *where is set
 * to the wrong start.
 */
const char *
DecideCheckOrder(const DecideInput *input, const DecideResult *result,
				 const DecideArena *arena, int32_t *where)
{
	Starts		starts = {input, result, NULL, 0};
	bool	   *apart = DecideAlloc(arena, input->n_jobs, sizeof(bool));
	bool	   *asked = DecideAlloc(arena, input->n_requests, sizeof(bool));
	int32_t		i;

	if (result->n_starts == 0)
		return NULL;
	starts.order = DecideAlloc(arena, result->n_starts, sizeof(int32_t));
	if (apart == NULL || asked == NULL || starts.order == NULL)
		return "out of memory";
	memset(apart, 0, (size_t) input->n_jobs * sizeof(bool));
	memset(asked, 0, (size_t) input->n_requests * sizeof(bool));
	for (i = 0; i < input->n_claims; i++)
	{
		if (input->claims[i].job >= 0)
			apart[input->claims[i].job] = true;
	}
	for (i = 0; i < result->n_promises; i++)
	{
		if (result->promises[i].job >= 0)
			apart[result->promises[i].job] = true;
	}
	for (i = 0; i < input->n_previous; i++)
		apart[input->previous[i].job] |= input->previous[i].latest > 0;
	for (i = 0; i < result->n_starts; i++)
	{
		int32_t		job = result->starts[i].job;

		if (!apart[job])
			starts.order[starts.n++] = i;
		apart[job] = true;
		asked[input->jobs[job].request] = true;
	}
	if (!DecideSort(arena, starts.order, starts.n, compare_starts, &starts))
		return "out of memory";
	for (i = 0; i < input->n_jobs; i++)
	{
		const DecideJob *job = &input->jobs[i];
		int32_t		start;

		if (apart[i] || !asked[job->request])
			continue;
		start = last_start(&starts, job);
		if (start < 0 ||
			!goes_before(input, job, &input->jobs[result->starts[start].job]))
			continue;
		*where = start;
		return "a job starts, and one like it that is ahead of it waits";
	}
	return NULL;
}
