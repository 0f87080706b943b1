/*
 * timeline.c
 *	  What will be given back, what is promised, and what a job sees of it.
 *
 * Ends are what runs, and what the cycle started: parts of hosts, when they are
 * expected to be free again, and at the latest.  Holds are the parts of
 * reservations.  A job sees a host as of an instant and for as long as its wall
 * limit lets it stay: the least that the host has left at that instant and
 * at the start of each hold it would live to see.
 *
 * At the start of a hold, what the hold was made over counts as expected.
 * What came later counts by its limit: it was let in on the condition that the
 * hold is none the worse for it.
 *
 * Only hosts with holds look different to different jobs.  They are shown, in
 * cycle->hosts, as the job whose turn it is sees them; what is really free
 * there is kept apart.  So placement knows nothing of holds.
 */
#include <string.h>

#include "decide/core.h"

/*
 * The end of a run, which may be never.
 */
int64_t
DecideTimeAdd(int64_t at, int64_t run)
{
	if (at == DECIDE_NEVER || (at > 0 && run > DECIDE_NEVER - at))
		return DECIDE_NEVER;
	return at + run;
}

/*
 * How long a job is expected to run.
 */
int64_t
DecideJobRun(const DecideInput *input, int32_t job)
{
	int64_t		limit = input->asks[input->jobs[job].ask].wall_limit;
	int64_t		run = input->jobs[job].expected_run;

	return run > 0 && run < limit ? run : limit;
}

/*
 * Compare two ends by time.
 */
static int
compare_end(const void *context, int32_t a, int32_t b)
{
	const End  *ends = context;

	if (ends[a].at != ends[b].at)
		return ends[a].at < ends[b].at ? -1 : 1;
	return 0;
}

/*
 * Note the end of a part.  False: out of memory.
 */
static bool
end_add(Cycle *cycle, const DecidePart *part, int32_t share, int32_t start,
		int64_t at, int64_t limit)
{
	Timeline   *timeline = cycle->timeline;
	End		   *end;

	timeline->ends = DecideGrow(cycle->arena, timeline->ends,
								timeline->n_ends, &timeline->ends_room,
								sizeof(End));
	if (timeline->ends == NULL)
		return false;
	end = &timeline->ends[timeline->n_ends];
	end->at = at;
	end->limit = limit;
	end->start = start;
	end->host = timeline->node_host[part->node];
	end->share = share;
	end->devices = part->devices & cycle->input->nodes[part->node].usable;
	end->cpu_milli = part->cpu_milli;
	end->memory_mib = part->memory_mib;
	end->next = timeline->first_end[end->host];
	timeline->first_end[end->host] = timeline->n_ends++;
	return true;
}

/*
 * Put the latest end in its place in order of time.  False: out of memory.
 */
static bool
end_order(Cycle *cycle)
{
	Timeline   *timeline = cycle->timeline;
	int32_t		index = timeline->n_ends - 1;
	int32_t		low = 0;
	int32_t		high = timeline->n_by_time;

	if (timeline->ends[index].at == DECIDE_NEVER)
		return true;
	timeline->by_time = DecideGrow(cycle->arena, timeline->by_time,
								   timeline->n_by_time,
								   &timeline->by_time_room, sizeof(int32_t));
	if (timeline->by_time == NULL)
		return false;
	while (low < high)
	{
		int32_t		middle = low + (high - low) / 2;

		if (compare_end(timeline->ends, timeline->by_time[middle], index) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	memmove(timeline->by_time + low + 1, timeline->by_time + low,
			(size_t) (timeline->n_by_time - low) * sizeof(int32_t));
	timeline->by_time[low] = index;
	timeline->n_by_time++;
	return true;
}

/*
 * Note the end of a part of a start of this cycle.  False: out of memory.
 */
static bool
start_end_add(Cycle *cycle, int32_t index, const DecidePart *part)
{
	const DecideInput *input = cycle->input;
	const DecideStart *start = &cycle->result->starts[index];
	int64_t		limit = input->asks[input->jobs[start->job].ask].wall_limit;

	return end_add(cycle, part, start->share, index,
				   DecideTimeAdd(input->now, DecideJobRun(input, start->job)),
				   DecideTimeAdd(input->now, limit));
}

/*
 * Note a part of a start about to be taken.  False: out of memory.
 */
bool
DecideTimelineStart(Cycle *cycle, int32_t start, const DecidePart *part)
{
	return cycle->timeline == NULL ||
		(start_end_add(cycle, start, part) && end_order(cycle));
}

/*
 * Note all ends there are so far.  False: out of memory.
 */
static bool
ends_load(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	const DecideResult *result = cycle->result;
	Timeline   *timeline = cycle->timeline;
	int32_t		i;
	int32_t		p;

	for (i = 0; i < input->n_running; i++)
	{
		const DecideRunning *running = &input->running[i];
		int64_t		at = running->expected_end;

		/* what should be over by now is not: at any moment, then */
		if (at <= input->now)
			at = DecideTimeAdd(input->now, 1);
		for (p = 0; p < running->n_parts; p++)
		{
			if (!end_add(cycle,
						 &input->running_parts[running->first_part + p],
						 running->share, -1, at,
						 running->limit_end > at ? running->limit_end : at))
				return false;
		}
	}
	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *start = &result->starts[i];

		for (p = 0; p < start->n_parts; p++)
		{
			if (!start_end_add(cycle, i,
							   &result->parts[start->first_part + p]))
				return false;
		}
	}
	timeline->by_time = DecideAlloc(cycle->arena, timeline->n_ends,
									sizeof(int32_t));
	timeline->by_time_room = timeline->n_ends;
	if (timeline->by_time == NULL)
		return false;
	for (i = 0; i < timeline->n_ends; i++)
	{
		if (timeline->ends[i].at != DECIDE_NEVER)
			timeline->by_time[timeline->n_by_time++] = i;
	}
	return DecideSort(cycle->arena, timeline->by_time, timeline->n_by_time,
					  compare_end, timeline->ends);
}

/*
 * Note what a claim keeps from all others: what is free of it now is taken
 * already, the rest is when its devices are given back.  False: out of memory.
 */
static bool
claim_add(Cycle *cycle, int32_t job, int32_t share, const DecidePart *parts,
		  int32_t n)
{
	const DecideInput *input = cycle->input;
	int64_t		limit = DECIDE_NEVER;
	int64_t		until = DECIDE_NEVER;
	int32_t		i;

	if (job >= 0)
	{
		limit = DecideTimeAdd(input->now,
							  input->asks[input->jobs[job].ask].wall_limit);
		until = DecideTimeAdd(input->now, DecideJobRun(input, job));
	}
	for (i = 0; i < n; i++)
	{
		Hold		hold = {
			.from = input->now,
			.until = until,
			.limit = limit,
			.limit_until = limit,
			.after = cycle->result->n_starts,
			.host = cycle->timeline->node_host[parts[i].node],
			.share = share,
			.devices = parts[i].devices,
			.cpu_milli = parts[i].cpu_milli,
			.memory_mib = parts[i].memory_mib
		};

		if (!DecideTimelineHold(cycle, &hold))
			return false;
	}
	return true;
}

/*
 * Note the claims of earlier cycles whose jobs have not started.  False: out
 * of memory.
 */
static bool
claims_load(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	int32_t		i;

	for (i = 0; i < input->n_claims; i++)
	{
		const DecideClaim *claim = &input->claims[i];

		if (DecideClaimStarted(cycle, claim->job))
			continue;
		if (!claim_add(cycle, claim->job, claim->share,
					   &input->claim_parts[claim->first_part],
					   claim->n_parts))
			return false;
	}
	return true;
}

/*
 * Get ready for reservations, once a cycle.  False: out of memory.
 */
bool
DecideTimelineOpen(Cycle *cycle, int64_t wall_limit)
{
	const DecideArena *arena = cycle->arena;
	int32_t		n = cycle->n_hosts;
	Timeline   *timeline;
	int32_t		i;

	if (cycle->timeline != NULL)
		return true;
	timeline = DecideAlloc(arena, 1, sizeof(Timeline));
	if (timeline == NULL)
		return false;
	memset(timeline, 0, sizeof(*timeline));
	timeline->first_end = DecideAlloc(arena, n, sizeof(int32_t));
	timeline->first_hold = DecideAlloc(arena, n, sizeof(int32_t));
	timeline->held = DecideAlloc(arena, n, sizeof(int32_t));
	timeline->node_host = DecideAlloc(arena, n, sizeof(int32_t));
	timeline->truth = DecideAlloc(arena, n, sizeof(Host));
	timeline->future = DecideAlloc(arena, n, sizeof(Host));
	timeline->floor = DecideAlloc(arena, cycle->input->n_asks,
								  sizeof(int64_t));
	if (timeline->first_end == NULL || timeline->first_hold == NULL ||
		timeline->held == NULL || timeline->node_host == NULL ||
		timeline->truth == NULL || timeline->future == NULL ||
		timeline->floor == NULL)
		return false;
	for (i = 0; i < n; i++)
	{
		timeline->first_end[i] = timeline->first_hold[i] = -1;
		timeline->node_host[cycle->hosts[i].node] = i;
	}
	for (i = 0; i < cycle->input->n_asks; i++)
		timeline->floor[i] = cycle->input->now;
	timeline->shown = wall_limit;
	cycle->timeline = timeline;
	return ends_load(cycle) && claims_load(cycle);
}

/*
 * Note the claims made since the last call.  False: out of memory.
 */
bool
DecideTimelineClaims(Cycle *cycle)
{
	const DecideResult *result = cycle->result;
	Timeline   *timeline = cycle->timeline;

	for (; timeline->n_promises < result->n_promises; timeline->n_promises++)
	{
		const DecidePromise *promise =
		&result->promises[timeline->n_promises];

		if (!claim_add(cycle, promise->job, promise->share,
					   &result->promise_parts[promise->first_part],
					   promise->n_parts))
			return false;
	}
	return true;
}

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
