/*
 * rescue.c
 *	  Tests random evacuations: independent code checks the plans.
 *
 * Small numbers make ties, exact fits and missed deadlines common.  Promises
 * are recomputed job by job on a plain table of lanes.  A later plan must keep
 * what jobs were told, and plan the others greedily.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decide/preempt/rescue.h"
#include "world.h"

#define MOST		8
#define GIGABYTE	INT64_C(1000000000)
#define SECOND		INT64_C(1000000)

static const int64_t bandwidths[] = {0, GIGABYTE / 2, GIGABYTE, GIGABYTE + 1,
2 * GIGABYTE, 3 * GIGABYTE};

/*
 * The number of jobs that can write at once.
 */
static int
lane_count(int64_t bandwidth, int n)
{
	int64_t		lanes = bandwidth == 0 ? n : bandwidth / GIGABYTE;

	return lanes < 1 ? 1 : lanes > n ? n : (int) lanes;
}

/*
 * The time that one job needs to write so much, rounded up; INT64_MAX if it
 * never ends.
 */
static int64_t
write_time(int64_t size, int64_t bandwidth)
{
	int64_t		rate = bandwidth > 0 && bandwidth < GIGABYTE ? bandwidth :
		GIGABYTE;
	__int128	time = ((__int128) size * SECOND + rate - 1) / rate;

	return time > INT64_MAX ? INT64_MAX : (int64_t) time;
}

/*----------
 * The order of checkpoints that must be written before a deadline:
 *
 * 1. deadline;
 * 2. number of the job.
 *----------
 */
static bool
before(const RescueJob *a, const RescueJob *b)
{
	if (a->deadline != b->deadline)
		return a->deadline < b->deadline;
	return a->id < b->id;
}

/*
 * Whether a job's promise is final, because it was told or has saved.
 */
static bool
stands(const RescueJob *job)
{
	return job->promised && (job->notified || job->saved);
}

/*
 * Whether these jobs can finish by their deadlines, in that order, beside
 * those that write already.
 */
static bool
feasible(const RescueJob *jobs, const bool *in, int n, int64_t now,
		 int64_t bandwidth)
{
	int64_t		lanes[MOST];
	bool		done[MOST] = {false};
	int			n_lanes = lane_count(bandwidth, n);

	for (int l = 0; l < n_lanes; l++)
		lanes[l] = now;
	for (int i = 0; i < n; i++)
	{
		int			lane = 0;

		for (int l = 1; l < n_lanes; l++)
		{
			if (lanes[l] < lanes[lane])
				lane = l;
		}
		if (stands(&jobs[i]) && !jobs[i].saved && jobs[i].ends > lanes[lane])
			lanes[lane] = jobs[i].ends;
	}
	for (;;)
	{
		int			next = -1;
		int			lane = 0;

		for (int i = 0; i < n; i++)
		{
			if (in[i] && !done[i] &&
				(next < 0 || before(&jobs[i], &jobs[next])))
				next = i;
		}
		if (next < 0)
			return true;
		for (int l = 1; l < n_lanes; l++)
		{
			if (lanes[l] < lanes[lane])
				lane = l;
		}
		lanes[lane] += write_time(jobs[next].size, bandwidth);
		if (lanes[lane] > jobs[next].deadline)
			return false;
		done[next] = true;
	}
}

/*
 * Whether the first of two jobs is tried before the second.
 */
static bool
worth_more(const RescueJob *a, const RescueJob *b, int64_t bandwidth)
{
	__int128	time_a = write_time(a->size, bandwidth);
	__int128	time_b = write_time(b->size, bandwidth);

	if (a->at_risk * time_b != b->at_risk * time_a)
		return a->at_risk * time_b > b->at_risk * time_a;
	if (a->at_risk != b->at_risk)
		return a->at_risk > b->at_risk;
	if (time_a != time_b)
		return time_a < time_b;
	return a->id < b->id;
}

/*
 * Finds the jobs that should get promises, beside final promises.
 */
static void
greedy(const RescueJob *jobs, bool *in, int n, int64_t now,
	   int64_t bandwidth)
{
	bool		tried[MOST] = {false};

	memset(in, 0, sizeof(bool) * n);
	for (;;)
	{
		int			next = -1;

		for (int i = 0; i < n; i++)
		{
			if (!tried[i] && jobs[i].size >= 0 && !stands(&jobs[i]) &&
				!jobs[i].saved &&
				(next < 0 ||
				 worth_more(&jobs[i], &jobs[next], bandwidth)))
				next = i;
		}
		if (next < 0)
			return;
		tried[next] = in[next] = true;
		in[next] = feasible(jobs, in, n, now, bandwidth);
	}
}

/*
 * Checks that a plan is consistent: promises are in time and of the right
 * length, never more at once than lanes, and the other jobs come after them.
 */
static const char *
judge(const RescueJob *jobs, const bool *expected, int n, int64_t now,
	  int64_t bandwidth)
{
	int64_t		last = now;

	for (int i = 0; i < n; i++)
	{
		int			at_once = 0;

		if (jobs[i].promised != expected[i])
			return "another is promised than greed would";
		if (!jobs[i].promised)
			continue;
		if (jobs[i].starts < now || jobs[i].ends > jobs[i].deadline ||
			jobs[i].ends - jobs[i].starts !=
			write_time(jobs[i].size, bandwidth))
			return "a promise is not in time";
		for (int k = 0; k < n; k++)
			at_once += jobs[k].promised && jobs[k].starts <= jobs[i].starts &&
				jobs[k].ends > jobs[i].starts;
		if (at_once > lane_count(bandwidth, n))
			return "more write at once than may";
		if (bandwidth > 0 && jobs[i].ends > last)
			last = jobs[i].ends;
	}
	for (int i = 0; i < n; i++)
	{
		if (!jobs[i].promised && jobs[i].starts !=
			(last < jobs[i].deadline ? last : jobs[i].deadline))
			return "one without a promise has not its turn last";
	}
	return NULL;
}

/*
 * Checks the plan of the same jobs in another order of the array.
 */
static const char *
judge_permuted(const RescueJob *given, const RescueJob *planned, int n,
			   int64_t now, int64_t bandwidth, uint64_t *seed,
			   const DecideArena *arena)
{
	RescueJob	jobs[MOST];
	int			turn = random_below(seed, n);

	for (int i = 0; i < n; i++)
		jobs[i] = given[(i + turn) % n];
	if (!RescuePlan(jobs, n, now, bandwidth, arena))
		return "out of memory";
	for (int i = 0; i < n; i++)
	{
		const RescueJob *same = &planned[(i + turn) % n];

		if (jobs[i].promised != same->promised ||
			jobs[i].starts != same->starts || jobs[i].ends != same->ends)
			return "the order of the array matters";
	}
	return NULL;
}

/*
 * Plans again later, with one more job.  Promises that were told must stay,
 * saved jobs need no lane, and a job that was told to save without a promise
 * keeps its turn.
 */
static const char *
judge_later(RescueJob *jobs, int n, int64_t now, int64_t bandwidth,
			uint64_t *seed, const DecideArena *arena)
{
	RescueJob	was[MOST];
	bool		expected[MOST];

	now += random_below(seed, 4) * SECOND;
	for (int i = 0; i < n - 1; i++)
	{
		jobs[i].notified = jobs[i].starts <= now && random_below(seed, 2) == 0;
		jobs[i].saved = jobs[i].promised && jobs[i].starts < now &&
			random_below(seed, 2) == 0;
	}
	memcpy(was, jobs, sizeof(RescueJob) * n);
	if (!RescuePlan(jobs, n, now, bandwidth, arena))
		return "out of memory";
	greedy(was, expected, n, now, bandwidth);
	for (int i = 0; i < n; i++)
	{
		if (stands(&was[i]))
		{
			if (!jobs[i].promised || jobs[i].starts != was[i].starts ||
				jobs[i].ends != was[i].ends)
				return "what was told was moved";
			continue;
		}
		if (jobs[i].promised != expected[i])
			return "another is promised later than greed would";
		if (jobs[i].promised && (jobs[i].ends > jobs[i].deadline ||
								 jobs[i].starts < now))
			return "a later promise is not in time";
		if (!jobs[i].promised && was[i].notified &&
			jobs[i].starts > was[i].starts)
			return "who was told to save is told to wait";
	}
	return NULL;
}

/*
 * Tests one evacuation: planned, in another order, and again later.
 */
static const char *
try_one(uint64_t *seed, const DecideArena *arena)
{
	RescueJob	given[MOST] = {{0}};
	RescueJob	jobs[MOST];
	bool		expected[MOST];
	int			n = 2 + random_below(seed, MOST - 1);
	int64_t		now = 1000 * SECOND;
	int64_t		bandwidth = bandwidths[random_below(seed, 6)];
	const char *problem;

	for (int i = 0; i < n; i++)
	{
		given[i].org = "o";
		given[i].id = i + 1;
		given[i].attempt = 1;
		given[i].deadline = now + (1 + random_below(seed, 8)) * SECOND;
		given[i].size = random_below(seed, 6) == 0 ? -1 :
			random_below(seed, 6) * GIGABYTE / 2;
		given[i].at_risk = random_below(seed, 5) * SECOND;
		given[i].starts = now;
		given[i].ends = INT64_MAX;
	}
	/* without the last job, which arrives later */
	memcpy(jobs, given, sizeof(jobs));
	if (!RescuePlan(jobs, n - 1, now, bandwidth, arena))
		return "out of memory";
	greedy(jobs, expected, n - 1, now, bandwidth);
	problem = judge(jobs, expected, n - 1, now, bandwidth);
	if (problem == NULL)
		problem = judge_permuted(given, jobs, n - 1, now, bandwidth, seed,
								 arena);
	if (problem == NULL)
		problem = judge_later(jobs, n, now, bandwidth, seed, arena);
	return problem;
}

/*
 * Tests that extreme numbers do not overflow.
 */
static const char *
try_limits(const DecideArena *arena)
{
	RescueJob	jobs[2] = {{.org = "o", .id = 1, .deadline = INT64_MAX,
	.size = INT64_MAX, .at_risk = INT64_MAX},
	{.org = "o", .id = 2, .deadline = INT64_MAX, .size = INT64_MAX,
	.at_risk = INT64_MAX}};

	if (!RescuePlan(jobs, 2, 1, 1, arena))
		return "out of memory";
	if (jobs[0].ends < jobs[0].starts || jobs[1].ends < jobs[1].starts)
		return "a time that does not fit is not cut";
	return NULL;
}

void
rescue_tests(Tap *tap, int instances)
{
	uint64_t	seed = 20270401;
	Pool		pool;
	DecideArena arena;
	const char *problem;
	char	   *why = NULL;

	pool_init(&pool);
	arena = pool_arena(&pool);
	problem = try_limits(&arena);
	for (int i = 0; i < instances && problem == NULL; i++)
	{
		uint64_t	from = seed;

		pool_free(&pool);
		pool_init(&pool);
		arena = pool_arena(&pool);
		problem = try_one(&seed, &arena);
		if (problem != NULL)
			why = format("instance %d, seed %" PRIu64 ": %s", i, from,
						 problem);
	}
	tap_ok(tap, problem == NULL, "evacuations of random pools",
		   why != NULL ? why : problem);
	free(why);
	pool_free(&pool);
}
