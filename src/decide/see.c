/*
 * see.c
 *	  What a job sees of a host: what is free there for as long as it may stay.
 *
 * A job sees a host as of an instant and until its wall limit has passed: the
 * least that the host has left at that instant and at the start of each hold
 * it would live to see.
 *
 * At the start of a hold, what the hold was made over counts as expected.
 * What came later counts by its limit: it was let in on the condition that the
 * hold is none the worse for it.
 *
 * Only hosts with holds look different to different jobs.  They are shown, in
 * cycle->hosts, as the job whose turn it is sees them; what is really free
 * there is kept apart.  So placement knows nothing of holds.
 */
#include "decide/core.h"

/*
 * Give back part of a host, or with a negative sign take it.
 */
static void
host_give(Host *host, uint64_t devices, int32_t share, int64_t cpu_milli,
		  int64_t memory_mib, int sign)
{
	uint64_t	rest;

	for (rest = devices; rest != 0; rest &= rest - 1)
	{
		int			i = __builtin_ctzll(rest);
		int32_t		left = host->left[i] + sign * share;

		host->left[i] = (uint16_t) (left < 0 ? 0 :
									left > DECIDE_WHOLE ? DECIDE_WHOLE : left);
	}
	if (host->cpu_milli > 0)
		host->cpu_left += sign * cpu_milli;
	if (host->memory_mib > 0)
		host->memory_left += sign * memory_mib;
}

/*
 * All that is free on a host now, as far below 0 as it was given to us.
 */
static void
host_start(const Cycle *cycle, int32_t index, Host *host)
{
	const Timeline *timeline = cycle->timeline;
	const DecideNode *node;

	*host = timeline->first_hold[index] >= 0 ? timeline->truth[index] :
		cycle->hosts[index];
	node = &cycle->input->nodes[host->node];
	if (host->cpu_milli > 0 && node->cpu_left < 0)
		host->cpu_left += node->cpu_left;
	if (host->memory_mib > 0 && node->memory_left < 0)
		host->memory_left += node->memory_left;
}

/*
 * What a host has left at an instant, as expected.
 */
static void
host_at(const Cycle *cycle, int32_t index, int64_t at, Host *host)
{
	const Timeline *timeline = cycle->timeline;
	int32_t		i;

	host_start(cycle, index, host);
	if (at == cycle->input->now)
		return;
	for (i = timeline->first_end[index]; i >= 0; i = timeline->ends[i].next)
	{
		const End  *end = &timeline->ends[i];

		if (end->at <= at)
			host_give(host, end->devices, end->share, end->cpu_milli,
					  end->memory_mib, 1);
	}
	for (i = timeline->first_hold[index]; i >= 0;
		 i = timeline->holds[i].next)
	{
		const Hold *hold = &timeline->holds[i];

		if (hold->from <= at && hold->until > at)
			host_give(host, hold->devices, hold->share, hold->cpu_milli,
					  hold->memory_mib, -1);
	}
}

/*
 * What a host has left when a hold starts, beside it.
 */
static void
host_beside(const Cycle *cycle, int32_t index, int32_t beside, Host *host)
{
	const Timeline *timeline = cycle->timeline;
	const Hold *mine = &timeline->holds[beside];
	int32_t		i;

	host_start(cycle, index, host);
	for (i = timeline->first_end[index]; i >= 0; i = timeline->ends[i].next)
	{
		const End  *end = &timeline->ends[i];

		if ((end->start >= mine->after ? end->limit : end->at) <= mine->from)
			host_give(host, end->devices, end->share, end->cpu_milli,
					  end->memory_mib, 1);
	}
	for (i = timeline->first_hold[index]; i >= 0;
		 i = timeline->holds[i].next)
	{
		const Hold *hold = &timeline->holds[i];

		if (i == beside ||
			(hold->from <= mine->from &&
			 (i > beside ? hold->limit : hold->until) > mine->from))
			host_give(host, hold->devices, hold->share, hold->cpu_milli,
					  hold->memory_mib, -1);
	}
}

/*
 * The lesser of two amounts.
 */
static int64_t
lesser(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/*
 * What a host has for a job that starts at an instant and may stay for so
 * long.
 */
void
DecideTimelineSee(const Cycle *cycle, int32_t index, int64_t at,
				  int64_t wall_limit, Host *seen)
{
	const Timeline *timeline = cycle->timeline;
	int64_t		last = DecideTimeAdd(at, wall_limit);
	int32_t		i;
	int			d;

	host_at(cycle, index, at, seen);
	for (i = timeline->first_hold[index]; i >= 0;
		 i = timeline->holds[i].next)
	{
		const Hold *hold = &timeline->holds[i];
		Host		then;

		if (hold->from <= at || hold->from >= last)
			continue;
		host_beside(cycle, index, i, &then);
		for (d = 0; d < seen->gpus; d++)
		{
			if (then.left[d] < seen->left[d])
				seen->left[d] = then.left[d];
		}
		seen->cpu_left = lesser(seen->cpu_left, then.cpu_left);
		seen->memory_left = lesser(seen->memory_left, then.memory_left);
	}
	if (seen->cpu_left < 0)
		seen->cpu_left = 0;
	if (seen->memory_left < 0)
		seen->memory_left = 0;
	DecideHostDerive(seen);
}

/*
 * The devices of a host that are reserved too early for the job whose turn it
 * is.
 */
uint64_t
DecideTimelineKept(const Cycle *cycle, int32_t host)
{
	const Timeline *timeline = cycle->timeline;
	uint64_t	kept = 0;
	int64_t		last;
	int32_t		i;

	if (timeline == NULL)
		return 0;
	last = DecideTimeAdd(cycle->input->now, timeline->shown);
	for (i = timeline->first_hold[host]; i >= 0; i = timeline->holds[i].next)
	{
		const Hold *hold = &timeline->holds[i];

		if (hold->from > cycle->input->now && hold->from < last)
			kept |= hold->devices;
	}
	return kept;
}

/*
 * Show a held host as the job whose turn it is sees it.
 */
void
DecideTimelineShowHost(Cycle *cycle, int32_t index)
{
	Host	   *host = &cycle->hosts[index];
	Host		seen;

	DecideTimelineSee(cycle, index, cycle->input->now,
					  cycle->timeline->shown, &seen);
	seen.changed = host->changed;
	seen.newer = host->newer;
	seen.older = host->older;
	*host = seen;
}

/*
 * Show the held hosts as a job with this wall limit sees them.
 */
void
DecideTimelineShow(Cycle *cycle, int64_t wall_limit)
{
	Timeline   *timeline = cycle->timeline;
	int32_t		i;

	if (timeline == NULL || timeline->shown == wall_limit)
		return;
	timeline->shown = wall_limit;
	for (i = 0; i < timeline->n_held; i++)
		DecideTimelineShowHost(cycle, timeline->held[i]);
}

/*
 * Promise part of a host.  False: out of memory.
 */
bool
DecideTimelineHold(Cycle *cycle, const Hold *hold)
{
	Timeline   *timeline = cycle->timeline;
	int32_t		host = hold->host;

	timeline->holds = DecideGrow(cycle->arena, timeline->holds,
								 timeline->n_holds, &timeline->holds_room,
								 sizeof(Hold));
	if (timeline->holds == NULL)
		return false;
	if (timeline->first_hold[host] < 0)
	{
		timeline->truth[host] = cycle->hosts[host];
		timeline->held[timeline->n_held++] = host;
	}
	timeline->holds[timeline->n_holds] = *hold;
	timeline->holds[timeline->n_holds].next = timeline->first_hold[host];
	timeline->first_hold[host] = timeline->n_holds++;
	DecideTimelineShowHost(cycle, host);
	DecideHostTouch(cycle, host);
	return true;
}
