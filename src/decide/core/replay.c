/*
 * replay.c
 *	  Computes when jobs would start on a given number of devices.
 *
 * Arrivals are replayed with EASY backfill, which knows all run times: jobs
 * start in order, and a job passes the first one that does not fit if it ends
 * before that one can start, or leaves enough devices for it.  Only the number
 * of devices counts, as if all were in one node.
 */
#include <string.h>

#include "decide/core/core.h"

#define SCAN_DEPTH	500			/* how many waiting jobs behind the first may
								 * pass it */

/* The state of a replay. */
typedef struct ReplayState
{
	const DecideReplay *replay;
	int64_t		now;
	int64_t		left;			/* free thousandths of devices */
	int32_t		first_running;
	int32_t		n_running;		/* end of the range of running jobs, which are
								 * in order of their ends */
	int32_t		first_queued;
	int32_t		n_queued;
	DeviceTime	late;			/* device time of the jobs that waited too
								 * long */
} ReplayState;

/*
 * Starts a job now.
 */
static void
arrival_start(ReplayState *s, const DecideArrival *arrival)
{
	DecideArrival *running = s->replay->running;
	int64_t		end = DecideTimeAdd(s->now, arrival->run);
	int32_t		low = s->first_running;
	int32_t		high = s->n_running;

	while (low < high)
	{
		int32_t		middle = low + (high - low) / 2;

		if (running[middle].at <= end)
			low = middle + 1;
		else
			high = middle;
	}

	/*
	 * move the entries before or those behind the new one, whichever are
	 * fewer
	 */
	if (s->first_running > 0 &&
		low - s->first_running < s->n_running - low)
	{
		low--;
		s->first_running--;
		memmove(&running[s->first_running], &running[s->first_running + 1],
				(size_t) (low - s->first_running) * sizeof(DecideArrival));
	}
	else
	{
		memmove(&running[low + 1], &running[low],
				(size_t) (s->n_running - low) * sizeof(DecideArrival));
		s->n_running++;
	}
	running[low] = (DecideArrival){.at = end, .devices = arrival->devices};
	s->left -= arrival->devices;
	if (s->now - arrival->at > s->replay->wait)
		s->late += DecideDeviceTime(arrival->devices, arrival->run);
	if (s->replay->starts != NULL)
		s->replay->starts[arrival - s->replay->arrivals] = s->now;
}

/*
 * Starts the jobs that may pass the first waiting job, which does not fit.
 */
static void
backfill(ReplayState *s)
{
	const DecideReplay *replay = s->replay;
	const DecideArrival *first =
	&replay->arrivals[replay->queue[s->first_queued]];
	int64_t		left = s->left;
	int64_t		shadow = DECIDE_NEVER;
	int64_t		extra;
	int32_t		kept;
	int32_t		i;

	for (i = s->first_running; i < s->n_running && left < first->devices; i++)
	{
		left += replay->running[i].devices;
		shadow = replay->running[i].at;
	}
	extra = left - first->devices;
	kept = s->first_queued + 1;
	for (i = kept; i < s->n_queued; i++)
	{
		const DecideArrival *job = &replay->arrivals[replay->queue[i]];

		if (s->left == 0 || i - s->first_queued > SCAN_DEPTH)
			break;
		if (job->devices <= s->left &&
			(DecideTimeAdd(s->now, job->run) <= shadow ||
			 job->devices <= extra))
		{
			if (DecideTimeAdd(s->now, job->run) > shadow)
				extra -= job->devices;
			arrival_start(s, job);
		}
		else
			replay->queue[kept++] = replay->queue[i];
	}

	/*
	 * move the entries that were kept, which are fewer than those behind them
	 */
	memmove(&replay->queue[s->first_queued + i - kept],
			&replay->queue[s->first_queued],
			(size_t) (kept - s->first_queued) * sizeof(int32_t));
	s->first_queued += i - kept;
}

/*
 * Starts all jobs that can start now.
 */
static void
turn(ReplayState *s)
{
	const DecideReplay *replay = s->replay;

	while (s->first_queued < s->n_queued)
	{
		const DecideArrival *first =
		&replay->arrivals[replay->queue[s->first_queued]];

		if (first->devices > s->left)
			break;
		arrival_start(s, first);
		s->first_queued++;
	}
	if (s->left > 0 && s->n_queued - s->first_queued > 1)
		backfill(s);
}

/*
 * Replays the arrivals on so many thousandths of devices.  The first n_running
 * entries of the replay's running jobs have devices already.  Jobs that need
 * more than all devices never start.  Returns false as soon as the jobs that
 * waited too long have more device time than most_late.
 */
bool
DecideReplayRun(const DecideReplay *replay, int64_t devices, int32_t n_running,
				DeviceTime most_late)
{
	ReplayState s = {.replay = replay, .left = devices,
		.n_running = n_running};
	int32_t		next = 0;
	int32_t		turns = 0;
	int32_t		i;

	for (i = 0; i < n_running; i++)
		s.left -= replay->running[i].devices;
	while (next < replay->n || s.first_running < s.n_running)
	{
		int64_t		at = next < replay->n ? replay->arrivals[next].at :
			DECIDE_NEVER;

		if (turns++ % 1024 == 0)
			DecidePoll(replay->arena);
		if (s.first_running < s.n_running &&
			replay->running[s.first_running].at < at)
			at = replay->running[s.first_running].at;
		s.now = at;
		while (s.first_running < s.n_running &&
			   replay->running[s.first_running].at <= at)
			s.left += replay->running[s.first_running++].devices;
		for (; next < replay->n && replay->arrivals[next].at <= at; next++)
		{
			if (replay->arrivals[next].devices <= devices)
				replay->queue[s.n_queued++] = next;
		}
		turn(&s);
		if (s.late > most_late)
			return false;
	}
	return true;
}
