/*
 * rescue.c
 *	  Random evacuations: plans judged by code of their own.
 *
 * Small numbers, so that ties, exact fits and deadlines just missed are
 * common.  What is promised is recomputed by trying each job in turn on a
 * plain table of lanes; the plan made again later must keep what was told of it,
 * and for the rest be the one that greed would make.
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
 * How many can write at once.
 */
static int
lane_count(int64_t bandwidth, int n)
{
	int64_t		lanes = bandwidth == 0 ? n : bandwidth / GIGABYTE;

	return lanes < 1 ? 1 : lanes > n ? n : (int) lanes;
}

static bool
before(const RescueJob *a, const RescueJob *b)
{
	if (a->deadline != b->deadline)
		return a->deadline < b->deadline;
	return a->id < b->id;
}

/*
 * Was it promised, and told?
 */
static bool
stands(const RescueJob *job)
{
	return job->promised && (job->told || job->saved);
}

/*
 * Can these be through, each by its deadline, going in that order, beside those
 * who write already?
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
		lanes[lane] += RescueTime(jobs[next].size, bandwidth);
		if (lanes[lane] > jobs[next].deadline)
			return false;
		done[next] = true;
	}
}

/*
 * Which of two is tried first?
 */
static bool
worth_more(const RescueJob *a, const RescueJob *b, int64_t bandwidth)
{
	__int128	time_a = RescueTime(a->size, bandwidth);
	__int128	time_b = RescueTime(b->size, bandwidth);

	if (a->at_risk * time_b != b->at_risk * time_a)
		return a->at_risk * time_b > b->at_risk * time_a;
	if (a->at_risk != b->at_risk)
		return a->at_risk > b->at_risk;
	if (time_a != time_b)
		return time_a < time_b;
	return a->id < b->id;
}

/*
 * Who should be promised beside those whose promise stands.
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
 * A plan's own sense: promises in time, of the right length, never more at
 * once than there are lanes, and the others after them.
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
			RescueTime(jobs[i].size, bandwidth))
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
 * The same, in another order of the array.
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
 * Planned again later, with one more: what was promised and told stands as it
 * was, and what is saved already is nobody's lane; who was told to save
 * without a promise goes on with that.
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
		jobs[i].told = jobs[i].starts <= now && random_below(seed, 2) == 0;
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
		if (!jobs[i].promised && was[i].told &&
			jobs[i].starts > was[i].starts)
			return "who was told to save is told to wait";
	}
	return NULL;
}

/*
 * One evacuation: planned, in another order, and again later.
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
	/* all but the last now, that one later */
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
 * Numbers at their limits overflow nothing.
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
	if (RescueTime(INT64_MAX, 1) != INT64_MAX)
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
