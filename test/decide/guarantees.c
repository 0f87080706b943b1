/*
 * guarantees.c
 *	  Guaranteed latest starts: in scenarios, and in random streams.
 *
 * In a stream, jobs of three tenants arrive at a small cluster that is too
 * full for them.  One tenant has used so much that the others' jobs go before
 * its own for as long as they arrive, so that its jobs would wait without end.
 * The guarantees of one cycle are loaded by the next.  Every cycle must
 * satisfy the following:
 *
 * - DecideCheck finds that each guarantee is kept, or what broke it is named.
 * - If no node is lost, and no tier goes before another, none is broken.
 * - If nodes are lost, a guarantee is broken only by that, or by a more
 *   important tier and only for jobs of the less important one, or by a quota
 *   that changes and only for jobs of the tenant that has it.
 * - No job starts later than it was guaranteed, unless that was named.
 * - DecideCheck reports a result whose guarantees are damaged.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define HOUR	INT64_C(3600000000)
#define JOBS	90
#define NODES	4

typedef enum Stage
{
	STAGE_COMES,
	STAGE_WAITS,
	STAGE_RUNS,
	STAGE_OVER
} Stage;

typedef struct Guest
{
	Stage		stage;
	int			tenant;
	int			tier;
	int			gpus;
	int64_t		comes;
	int64_t		wall;
	int64_t		runs;			/* <= wall */
	int64_t		started;
	bool		reserved;		/* the last cycle reserved devices for it */
	int64_t		limit_at;
	int64_t		latest;			/* latest start that is guaranteed now, or 0 */
	int			n_parts;		/* number of parts of its run or its
								 * reservation */
	DecidePart	parts[NODES];
} Guest;

typedef struct House
{
	int			n_nodes;
	int			gpus[NODES];
	int			lost[NODES];	/* 1 if the node accepts no work, 2 if it no
								 * longer exists */
	int			depth;
	bool		tiers;
	bool		losses;
	int			quota;			/* devices that tenant 1 may have, or 0
								 * without a quota */
	int64_t		now;
	Guest		guests[JOBS];
	long		kept;			/* guarantees that a cycle carried on */
	long		saved;			/* guarantees that the order of the queue
								 * alone would have missed */
	long		broken;
} House;

/*
 * Parses the line: previous ORG/ID TYPE|0 [NODE{devices}...] [limit=TIME]
 * [latest=TIME].  Without nodes, one of them no longer exists.
 */
char *
previous_line(World *world, char *line)
{
	char	   *name = strtok(line, " ");
	char	   *type = strtok(NULL, " ");
	int			job = name != NULL ? job_find(world, name) : -1;
	DecidePart	parts[16] = {{0}};
	int64_t		limit = 0;
	int64_t		latest = 0;
	DecidePreviousReservation *previous;
	int			n = 0;
	char	   *word;

	if (job < 0 || type == NULL)
		return format("a previous reservation needs a job and a type");
	while ((word = strtok(NULL, " ")) != NULL)
	{
		char	   *brace = strchr(word, '{');
		const char *end;
		int			i;

		if (strncmp(word, "limit=", 6) == 0 && time_parse(word + 6, &limit))
			continue;
		if (strncmp(word, "latest=", 7) == 0 && time_parse(word + 7, &latest))
			continue;
		if (brace == NULL || n == 16 ||
			!set_parse(brace, &end, &parts[n].devices))
			return format("bad word \"%s\" of a previous reservation", word);
		*brace = '\0';
		for (i = 0; i < world->n_nodes; i++)
		{
			if (strcmp(world->nodes[i].name, word) == 0)
				parts[n].node = i;
		}
		parts[n].gpus = __builtin_popcountll(parts[n].devices);
		n++;
	}
	previous = world_previous(world, job, strcmp(type, "0") == 0 ?
							  DECIDE_NO_TYPE : world_type(world, type),
							  parts, n);
	previous->limit_at = limit;
	previous->latest = latest;
	return NULL;
}

/*
 * Checks "broken JOB REASON [NODE]", or "broken 0": no guarantee is broken.
 */
char *
expect_broken(const World *world, const DecideResult *result, char *rest)
{
	char	   *name = strtok(rest, " ");
	char	   *reason = strtok(NULL, " ");
	char	   *node = strtok(NULL, " ");
	int			job = name != NULL ? job_find(world, name) : -1;
	int			i;

	if (name != NULL && strcmp(name, "0") == 0)
		return result->n_broken == 0 ? NULL :
			format("%d guarantees are broken, one by %s", result->n_broken,
				   DecideBreakerName(result->broken[0].by));
	if (job < 0 || reason == NULL)
		return format("no job, or no reason");
	for (i = 0; i < result->n_broken; i++)
	{
		const DecideBroken *broken = &result->broken[i];

		if (broken->job != job)
			continue;
		if (strcmp(DecideBreakerName(broken->by), reason) != 0)
			return format("%s is broken by %s", name,
						  DecideBreakerName(broken->by));
		if (node != NULL && (broken->node < 0 ||
							 strcmp(world->nodes[broken->node].name, node) != 0))
			return format("%s is broken on another node", name);
		return NULL;
	}
	return format("what %s was guaranteed is not broken", name);
}

/*
 * Makes a random cluster, and the jobs that arrive at it.
 */
static void
house_random(House *house, uint64_t *seed)
{
	int			total = 0;
	int			i;

	memset(house, 0, sizeof(*house));
	house->n_nodes = 1 + random_below(seed, NODES);
	house->depth = 1 + random_below(seed, 8);
	house->tiers = random_below(seed, 3) == 0;
	house->losses = random_below(seed, 3) == 0;
	for (i = 0; i < house->n_nodes; i++)
	{
		house->gpus[i] = 1 + random_below(seed, 6);
		total += house->gpus[i];
	}
	for (i = 0; i < JOBS; i++)
	{
		Guest	   *guest = &house->guests[i];
		bool		gang = random_below(seed, 5) == 0;

		guest->tenant = random_below(seed, 5) % 3;
		guest->tier = house->tiers ? random_below(seed, 2) : 0;
		guest->gpus = 1 + random_below(seed, gang ? total : 2);
		guest->gpus = guest->gpus < total ? guest->gpus : total;
		guest->comes = random_below(seed, 250) * HOUR;
		guest->wall = (1 + random_below(seed, 30)) * HOUR;
		guest->runs = random_below(seed, 2) == 0 ? guest->wall :
			(1 + random_below(seed, (int) (guest->wall / HOUR))) * HOUR;
	}

	/*
	 * With tiers, a more important job may break a guarantee in one round and
	 * be held back by its quota in the next.
	 */
	if (random_below(seed, 3) == 0 && !house->tiers)
		house->quota = 1 + random_below(seed, total);
}

/*
 * Adds a running job to the world.
 */
static void
guest_runs(const House *house, World *world, int i)
{
	const Guest *guest = &house->guests[i];
	char	   *org = format("t%d", guest->tenant);
	DecideRunning *running = world_running(world, org, i);
	int			p;

	running->account = world_account(world, org);
	running->tier = world_rank(world, guest->tier);
	running->type = 0;
	running->gpus = running->min_gpus = running->max_gpus = guest->gpus;
	running->started = running->saved_at = guest->started;
	running->expected_end = running->likely_end = running->limit_end =
		guest->started + guest->wall;
	for (p = 0; p < guest->n_parts; p++)
	{
		*world_part(world, running) = guest->parts[p];
		devices_allocate(&world->nodes[guest->parts[p].node], &guest->parts[p],
						 DECIDE_WHOLE, 1);
	}
	world->accounts[running->account].live +=
		(int64_t) guest->gpus * DECIDE_WHOLE;
	free(org);
}

/*
 * Adds a waiting job, and what the last cycle reserved for it.
 */
static void
guest_waits(const House *house, World *world, int i)
{
	const Guest *guest = &house->guests[i];
	char	   *org = format("t%d", guest->tenant);
	DecideOffer offer = {.type = 0};
	DecideRequestClass request = {
		.min_gpus = guest->gpus, .max_gpus = guest->gpus,
		.share = DECIDE_WHOLE, .n_offers = 1, .offers = &offer,
		.wall_limit = guest->wall
	};
	DecideJob  *job = world_job(world, world_request(world, &request), org,
								"", i);
	DecidePreviousReservation *previous;
	bool		gone = false;
	int			p;

	job->tier = world_rank(world, guest->tier);
	job->submitted = guest->comes;
	free(org);
	if (!guest->reserved)
		return;
	for (p = 0; p < guest->n_parts; p++)
		gone |= house->lost[guest->parts[p].node] == 2;
	if (gone && guest->latest == 0)
		return;
	previous = world_previous(world, world->n_jobs - 1, 0, guest->parts,
							  gone ? 0 : guest->n_parts);
	previous->limit_at = guest->limit_at;
	previous->latest = guest->latest;
}

/*
 * Makes the world of a cycle.
 */
static void
house_world(const House *house, World *world)
{
	int			i;

	world_init(world);
	world->now = house->now;
	world->policy.backfill_depth = house->depth;
	(void) world_type(world, "a");
	for (i = 0; i < 2; i++)
	{
		int			tier = world_rank(world, i);

		world->tiers[tier].ages_to = i;
	}
	for (i = 0; i < 3; i++)
	{
		char	   *org = format("t%d", i);
		int			account = world_account(world, org);

		/* jobs of the first tenant go last as long as others arrive */
		world->accounts[account].usage = i == 0 ? INT64_C(1) << 40 : 0;
		free(org);
	}
	for (i = 0; i < house->n_nodes; i++)
	{
		char	   *name = format("n%d", i);

		world_node(world, name, 0, house->gpus[i])->schedulable =
			house->lost[i] == 0;
		free(name);
	}
	for (i = 0; i < JOBS; i++)
	{
		if (house->guests[i].stage == STAGE_RUNS)
			guest_runs(house, world, i);
		else if (house->guests[i].stage == STAGE_WAITS)
			guest_waits(house, world, i);
	}
	if (house->quota > 0)
		world_quota(world, world_account(world, "t1"), DECIDE_ANY_TYPE)->most.of
			[DECIDE_LIMITED_DEVICES] = (int64_t) house->quota * DECIDE_WHOLE;
}

/*
 * Counts the guarantees that the order of the queue alone would miss.
 */
static long
missed_alone(const World *world, DecideInput input)
{
	DecidePreviousReservation none[JOBS];
	DecideResult result;
	Pool		pool;
	DecideArena arena;
	bool		held[JOBS] = {false};
	long		missed = 0;
	int			i;

	for (i = 0; i < world->n_previous; i++)
	{
		none[i] = world->previous[i];
		none[i].latest = 0;
	}
	input.previous = none;
	pool_init(&pool);
	arena = pool_arena(&pool);
	if (DecideRun(&input, &arena, &result) == NULL)
	{
		for (i = 0; i < result.n_starts; i++)
			held[result.starts[i].job] = true;
		for (i = 0; i < result.n_reservations; i++)
			held[result.reservations[i].job] = true;
		for (i = 0; i < world->n_previous; i++)
			missed += world->previous[i].latest > 0 &&
				!held[world->previous[i].job];
		for (i = 0; i < result.n_reservations; i++)
		{
			int			k;

			for (k = 0; k < world->n_previous; k++)
				missed += world->previous[k].job ==
					result.reservations[i].job &&
					world->previous[k].latest > 0 &&
					result.reservations[i].limit_at > world->previous[k].latest;
		}
	}
	pool_free(&pool);
	return missed;
}

/*
 * Checks that DecideCheck reports damage to broken guarantees.  Returns NULL,
 * or what it does not report.
 */
static const char *
broken_damage(const DecideInput *input, DecideResult *result,
			  const DecideArena *arena)
{
	DecideBroken *broken = result->broken;
	DecideBroken was;
	const char *passes = NULL;

	if (result->n_broken == 0)
		return NULL;
	was = *broken;
	result->n_broken--;
	if (DecideCheck(input, result, arena, NULL) == NULL)
		passes = "DecideCheck passes a broken guarantee without its name";
	result->n_broken++;
	broken->latest++;
	if (DecideCheck(input, result, arena, NULL) == NULL)
		passes = "DecideCheck passes a broken guarantee that was not given";
	*broken = was;
	broken->by = was.by == DECIDE_BROKEN_BY_NODE ? DECIDE_BROKEN_BY_TIER :
		DECIDE_BROKEN_BY_NODE;
	if (DecideCheck(input, result, arena, NULL) == NULL)
		passes = "DecideCheck passes what did not break a guarantee";
	*broken = was;
	return passes;
}

/*
 * Does the same with the first guarantee that is carried on, and with the
 * first that is given.
 */
static const char *
kept_damage(const DecideInput *input, DecideResult *result,
			const DecideArena *arena)
{
	const char *passes = NULL;
	bool		carried = false;
	bool		any = false;
	int			i;
	int			k;

	for (i = 0; i < result->n_reservations && !(carried && any); i++)
	{
		DecideReservation *r = &result->reservations[i];
		int64_t		latest = r->latest;

		if (latest == 0)
			continue;
		for (k = 0; k < input->n_previous && !carried; k++)
		{
			if (input->previous[k].job != r->job ||
				input->previous[k].latest != latest)
				continue;
			carried = true;
			r->latest = latest + HOUR;
			if (DecideCheck(input, result, arena, NULL) == NULL)
				passes = "DecideCheck passes a guarantee that is put off";
		}
		if (!any)
		{
			any = true;
			r->latest = r->limit_at - 1;
			if (DecideCheck(input, result, arena, NULL) == NULL)
				passes = "DecideCheck passes a guarantee before its reservation";
		}
		r->latest = latest;
	}
	return passes;
}

/*
 * Whether this cause may break a guarantee here.
 */
static bool
may_break(const House *house, const Guest *guest, DecideBreaker by)
{
	return (by == DECIDE_BROKEN_BY_NODE && house->losses) ||
		(by == DECIDE_BROKEN_BY_TIER && guest->tier == 1) ||
		(by == DECIDE_BROKEN_BY_QUOTA && guest->tenant == 1 &&
		 house->quota > 0);
}

/*
 * Records what a cycle guarantees, breaks and starts.  Returns NULL, or what
 * is wrong.
 */
static char *
house_apply(House *house, const World *world, const DecideResult *result)
{
	int			i;

	for (i = 0; i < result->n_broken; i++)
	{
		Guest	   *guest = &house->guests[world->jobs[result->broken[i].job].id];

		if (!may_break(house, guest, result->broken[i].by))
			return format("job %" PRId64 " loses what it was guaranteed by %s",
						  world->jobs[result->broken[i].job].id,
						  DecideBreakerName(result->broken[i].by));
		guest->latest = 0;
		house->broken++;
	}
	for (i = 0; i < JOBS; i++)
	{
		if (house->guests[i].stage == STAGE_WAITS)
			house->guests[i].reserved = false;
	}
	for (i = 0; i < result->n_reservations; i++)
	{
		const DecideReservation *r = &result->reservations[i];
		Guest	   *guest = &house->guests[world->jobs[r->job].id];

		if (guest->latest > 0 && r->latest != guest->latest)
			return format("job %" PRId64 " was guaranteed %" PRId64
						  ", and is %" PRId64, world->jobs[r->job].id,
						  guest->latest, r->latest);
		house->kept += guest->latest > 0;
		guest->latest = r->latest;
		guest->limit_at = r->limit_at;
		guest->reserved = true;
		guest->n_parts = r->n_parts;
		memcpy(guest->parts, &result->reserved_parts[r->first_part],
			   sizeof(DecidePart) * (size_t) r->n_parts);
	}
	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *start = &result->starts[i];
		Guest	   *guest = &house->guests[world->jobs[start->job].id];

		if (guest->latest > 0 && house->now > guest->latest)
			return format("job %" PRId64 " starts later than guaranteed",
						  world->jobs[start->job].id);
		guest->stage = STAGE_RUNS;
		guest->started = house->now;
		guest->n_parts = start->n_parts;
		memcpy(guest->parts, &result->parts[start->first_part],
			   sizeof(DecidePart) * (size_t) start->n_parts);
	}
	return NULL;
}

/*
 * Runs one cycle.  Returns NULL, or what is wrong.
 */
static char *
house_cycle(House *house)
{
	World		world;
	Pool		pool;
	DecideArena arena;
	DecideInput input;
	DecideResult result;
	const char *error;
	bool		decides;
	char	   *why = NULL;

	house_world(house, &world);
	pool_init(&pool);
	arena = pool_arena(&pool);
	input = world_input(&world);
	error = DecideRun(&input, &arena, &result);
	decides = error == NULL;
	if (decides)
		error = DecideCheck(&input, &result, &arena, NULL);
	if (error == NULL)
		error = broken_damage(&input, &result, &arena);
	if (error == NULL && house->now / HOUR % 8 == 0)
		error = kept_damage(&input, &result, &arena);
	if (error != NULL)
		why = format("%s", error);
	else
	{
		house->saved += missed_alone(&world, input);
		why = house_apply(house, &world, &result);
	}
	if (why != NULL)
	{
		char	   *decided = decides ? world_render(&world, &result, NULL) :
			format("nothing");
		char	   *full = format("at %" PRId64 " h: %s\n%s",
								  house->now / HOUR, why, decided);

		free(decided);
		free(why);
		why = full;
	}
	pool_free(&pool);
	world_free(&world);
	return why;
}

/*
 * Removes a node, with all jobs that run on it.
 */
static void
node_lose(House *house, int node, int how)
{
	int			i;
	int			p;

	house->lost[node] = how;
	for (i = 0; i < JOBS; i++)
	{
		Guest	   *guest = &house->guests[i];

		for (p = 0; p < guest->n_parts && guest->stage == STAGE_RUNS; p++)
		{
			if (guest->parts[p].node == node)
				guest->stage = STAGE_OVER;
		}
	}
}

/*
 * Advances to the next instant at which a job arrives or ends.  Returns false
 * if there is none.
 */
static bool
house_step(House *house, uint64_t *seed)
{
	int64_t		next = INT64_MAX;
	int			i;

	for (i = 0; i < JOBS; i++)
	{
		const Guest *guest = &house->guests[i];
		int64_t		at = guest->stage == STAGE_COMES ? guest->comes :
			guest->stage == STAGE_RUNS ? guest->started + guest->runs :
			INT64_MAX;

		next = at < next ? at : next;
	}
	if (next == INT64_MAX)
		return false;
	house->now = next;
	for (i = 0; i < JOBS; i++)
	{
		Guest	   *guest = &house->guests[i];

		if (guest->stage == STAGE_COMES && guest->comes <= next)
			guest->stage = STAGE_WAITS;
		else if (guest->stage == STAGE_RUNS &&
				 guest->started + guest->runs <= next)
			guest->stage = STAGE_OVER;
	}
	if (house->losses && random_below(seed, 60) == 0)
		node_lose(house, random_below(seed, house->n_nodes),
				  1 + random_below(seed, 2));
	if (house->quota > 0 && random_below(seed, 20) == 0)
		house->quota = 1 + random_below(seed, 2 * house->quota);
	return true;
}

/*
 * Tests random streams.
 */
void
guarantee_tests(Tap *tap, int instances)
{
	House	   *house = calloc(1, sizeof(House));
	long		kept = 0;
	long		saved = 0;
	long		broken = 0;
	char	   *why = NULL;
	uint64_t	i;

	for (i = 0; i < (uint64_t) instances && why == NULL; i++)
	{
		uint64_t	seed = 900000000 + i;

		house_random(house, &seed);
		while (why == NULL && house_step(house, &seed))
			why = house_cycle(house);
		kept += house->kept;
		saved += house->saved;
		broken += house->broken;
		if (why != NULL)
		{
			char	   *full = format("stream %" PRIu64 ": %s", i, why);

			free(why);
			why = full;
		}
	}
	free(house);
	printf("# %ld guarantees carried on, %ld of them missed by the queue alone,"
		   " %ld broken by lost nodes, more important tiers or quotas\n", kept,
		   saved, broken);
	tap_ok(tap, why == NULL, "guarantees: each is kept, or what broke it is "
		   "named, and nothing else breaks one", why);
	tap_ok(tap, why != NULL || (kept > instances && saved > instances / 20 &&
								broken > instances / 20),
		   "guarantees: the queue alone would miss some, and some are broken",
		   NULL);
	free(why);
}
