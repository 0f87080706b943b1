/*
 * expect.c
 *	  Compares the result of a scenario with what the scenario expects.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decide/order/order.h"
#include "world.h"

/*
 * Returns the job named ORG[/ACCOUNT]/ID, or -1.
 */
int
job_find(const World *world, const char *name)
{
	int			i;

	for (i = 0; i < world->n_jobs; i++)
	{
		const DecideJob *job = &world->jobs[i];
		char	   *full = format("%s/%" PRId64, job->org, job->id);
		bool		same = strcmp(full, name) == 0;

		free(full);
		if (same)
			return i;
	}
	return -1;
}

/*
 * Returns the start of a job, or NULL.
 */
static const DecideStart *
start_find(const DecideResult *result, int job)
{
	int			i;

	for (i = 0; i < result->n_starts; i++)
	{
		if (result->starts[i].job == job)
			return &result->starts[i];
	}
	return NULL;
}

/*
 * Checks one word of "expect start": NODE{devices}[/cpu[/mem]], NODE, or a
 * property of the start, as type=A100, gpus=4, nodes=2, share=460.
 */
char *
start_word(const World *world, const DecidePart *parts,
		   const DecideStart *start, char *word, int *n_named)
{
	char	   *brace = strchr(word, '{');
	const DecidePart *part = NULL;
	uint64_t	devices;
	const char *rest = "";
	int64_t		cpu;
	int64_t		memory;
	int			i;

	if (strncmp(word, "type=", 5) == 0)
		return strcmp(word + 5, start->type < 0 ? "none" :
					  world->types[start->type]) == 0 ? NULL :
			format("another type than %s", word + 5);
	if (strncmp(word, "gpus=", 5) == 0)
		return atoi(word + 5) == start->gpus ? NULL :
			format("%d gpus", start->gpus);
	if (strncmp(word, "nodes=", 6) == 0)
		return atoi(word + 6) == start->n_parts ? NULL :
			format("%d nodes", start->n_parts);
	if (strncmp(word, "share=", 6) == 0)
		return atoi(word + 6) == start->share ? NULL :
			format("share %d", start->share);
	if (brace != NULL)
	{
		if (!set_parse(brace, &rest, &devices))
			return format("bad set \"%s\"", brace);
		*brace = '\0';
	}
	for (i = 0; i < start->n_parts; i++)
	{
		part = &parts[start->first_part + i];
		if (strcmp(world->nodes[part->node].name, word) == 0)
			break;
	}
	if (i == start->n_parts)
		return format("not on %s", word);
	++*n_named;
	if (brace != NULL && part->devices != devices)
		return format("other devices of %s", word);
	if (sscanf(rest, "/%" SCNd64, &cpu) == 1 && cpu != part->cpu_milli)
		return format("cpu %" PRId64 " of %s", part->cpu_milli, word);
	if (sscanf(rest, "/%*d/%" SCNd64, &memory) == 1 &&
		memory != part->memory_mib)
		return format("memory %" PRId64 " of %s", part->memory_mib, word);
	return NULL;
}

/*
 * Checks "start JOB WORD...": the job starts with these properties.  If any
 * node is named, all must be named.
 */
static char *
expect_start(const World *world, const DecideResult *result, char *rest)
{
	char	   *name = strtok(rest, " ");
	int			job = name != NULL ? job_find(world, name) : -1;
	const DecideStart *start;
	int			n_named = 0;
	char	   *word;

	if (job < 0)
		return format("no job %s", name ? name : "");
	start = start_find(result, job);
	if (start == NULL)
		return format("%s did not start", name);
	while ((word = strtok(NULL, " ")) != NULL)
	{
		char	   *error = start_word(world, result->parts, start, word,
									   &n_named);

		if (error != NULL)
		{
			char	   *full = format("%s: %s", name, error);

			free(error);
			return full;
		}
	}
	if (n_named > 0 && n_named != start->n_parts)
		return format("%s is on other nodes too", name);
	return NULL;
}

/*
 * Checks "wait JOB [REASON [WANTED AVAILABLE]]".
 */
static char *
expect_wait(const World *world, const DecideResult *result, char *rest)
{
	char	   *name = strtok(rest, " ");
	char	   *reason = strtok(NULL, " ");
	char	   *wanted = strtok(NULL, " ");
	char	   *available = strtok(NULL, " ");
	int			job = name != NULL ? job_find(world, name) : -1;
	const DecideWait *wait;

	if (job < 0)
		return format("no job %s", name ? name : "");
	if (start_find(result, job) != NULL)
		return format("%s started", name);
	wait = &result->waits[world->jobs[job].request];
	if (wait->reason == DECIDE_NOT_WAITING)
		return format("nobody says why %s waits", name);
	if (reason != NULL &&
		strcmp(reason, DecideReasonName(wait->reason)) != 0)
		return format("%s waits for %s %" PRId64 " %" PRId64, name,
					  DecideReasonName(wait->reason), wait->wanted,
					  wait->available);
	if (available != NULL && (atoll(wanted) != wait->wanted ||
							  atoll(available) != wait->available))
		return format("%s wants %" PRId64 " of %" PRId64, name, wait->wanted,
					  wait->available);
	return NULL;
}

/*
 * Checks "order JOB...": these jobs start in this order; others may start
 * between them.
 */
static char *
expect_order(const World *world, const DecideResult *result, char *rest)
{
	const DecideStart *last = NULL;
	char	   *name;

	for (name = strtok(rest, " "); name != NULL; name = strtok(NULL, " "))
	{
		int			job = job_find(world, name);
		const DecideStart *start = job < 0 ? NULL : start_find(result, job);

		if (start == NULL)
			return format("%s did not start", name);
		if (last != NULL && start < last)
			return format("%s started too early", name);
		last = start;
	}
	return NULL;
}

/*
 * Checks "feasible REQUEST ..." and "impossible REQUEST ...".
 */
static char *
expect_feasible(World *world, char *rest, bool expected)
{
	DecideOffer offers[WORLD_MAX_OFFERS] = {{0}};
	DecideRequestClass request = {0};
	DecideJob	job = {0};
	Pool		pool;
	DecideArena arena;
	bool		feasible;
	const char *error;
	char	   *why;

	request.offers = offers;
	why = request_parse(world, rest, &request, &job);
	if (why != NULL)
		return why;
	pool_init(&pool);
	arena = pool_arena(&pool);
	error = DecideFeasible(world->nodes, world->n_nodes, &request, &arena,
						   &feasible);
	pool_free(&pool);
	if (error != NULL)
		return format("%s", error);
	return feasible == expected ? NULL :
		format("it is %s", feasible ? "feasible" : "impossible");
}

/*
 * Checks "count ACCOUNT N": this many of the account's own jobs start.
 */
static char *
expect_count(World *world, const DecideResult *result, char *rest)
{
	char	   *name = strtok(rest, " ");
	char	   *wanted = strtok(NULL, " ");
	int			n = 0;
	int			i;

	if (name == NULL || wanted == NULL)
		return format("an account and a number are missing");
	for (i = 0; i < result->n_starts; i++)
	{
		int			account = world->jobs[result->starts[i].job].account;

		n += strcmp(world->accounts[account].name, name) == 0;
	}
	return n == atoi(wanted) ? NULL : format("%d jobs of %s started", n, name);
}

/*
 * Checks "ranks ACCOUNT=N ...": the accounts' ranks in the fair-share tree.
 */
static char *
expect_ranks(World *world, char *rest)
{
	DecideInput input = world_input(world);
	Pool		pool;
	DecideArena arena;
	int32_t    *ranks;
	const char *error;
	char	   *why = NULL;
	char	   *word;

	pool_init(&pool);
	arena = pool_arena(&pool);
	error = DecideFairRank(&input, &arena, &ranks);
	if (error != NULL)
		why = format("%s", error);
	for (word = strtok(rest, " "); word != NULL && why == NULL;
		 word = strtok(NULL, " "))
	{
		char	   *value = strchr(word, '=');
		int			account;

		if (value == NULL)
		{
			why = format("\"%s\" names no rank", word);
			break;
		}
		*value++ = '\0';
		account = world_account(world, word);
		if (account >= input.n_accounts)
			why = format("no account %s", word);
		else if (ranks[account] != atoi(value))
			why = format("%s has rank %d", word, ranks[account]);
	}
	pool_free(&pool);
	return why;
}

/*
 * Computes the order of turns if each job started at its turn with its fewest
 * devices of its first type.
 */
static const char *
turns_of(const DecideInput *input, const DecideArena *arena,
		 int32_t **turns)
{
	DecideResult result = {0};
	Cycle		cycle = {.input = input, .arena = arena, .result = &result};
	Queue		queue;
	const char *error = DecideInputError(input);
	int32_t		n = 0;
	int32_t		job;

	if (error == NULL && !DecideQuotasBegin(&cycle))
		error = "out of memory";
	if (error == NULL)
		error = DecideQueueOpen(input, arena, result.held, &queue);
	if (error != NULL)
		return error;
	*turns = DecideAlloc(arena, input->n_jobs, sizeof(int32_t));
	if (*turns == NULL)
		return "out of memory";
	memset(*turns, 0xFF, (size_t) input->n_jobs * sizeof(int32_t));
	while ((job = DecideQueueNext(&queue)) >= 0)
	{
		const DecideRequestClass *request = &input->requests[input->jobs[job].request];

		(*turns)[n++] = job;
		DecideQueueCharge(&queue, input->jobs[job].account,
						  input->jobs[job].tier, request->n_offers > 0 ?
						  request->offers[0].type : DECIDE_NO_TYPE,
						  (int64_t) request->min_gpus * request->share);
	}
	return NULL;
}

/*
 * Checks "turns JOB...": the order of all jobs, if each started at its turn.
 */
static char *
expect_turns(const World *world, char *rest)
{
	DecideInput input = world_input(world);
	Pool		pool;
	DecideArena arena;
	int32_t    *turns;
	const char *error;
	char	   *why = NULL;
	char	   *word;
	int			n = 0;

	pool_init(&pool);
	arena = pool_arena(&pool);
	error = turns_of(&input, &arena, &turns);
	if (error != NULL)
		why = format("%s", error);
	for (word = strtok(rest, " "); word != NULL && why == NULL;
		 word = strtok(NULL, " "))
	{
		if (n == world->n_jobs || job_find(world, word) != turns[n])
			why = format("%s has not turn %d", word, n + 1);
		n++;
	}
	if (why == NULL && n != world->n_jobs)
		why = format("there are %d jobs", world->n_jobs);
	pool_free(&pool);
	return why;
}

/*
 * Compares a result with one expectation.  Returns NULL, or what is wrong.
 */
char *
expect_check(World *world, const DecideResult *result, char *line)
{
	char	   *rest = strchr(line, ' ');

	if (rest != NULL)
		*rest++ = '\0';
	if (strcmp(line, "nothing") == 0)
		return result->n_starts + result->n_evictions == 0 ? NULL :
			format("%d jobs started, %d were told to go", result->n_starts,
				   result->n_evictions);
	if (rest == NULL)
		return format("what to expect is missing");
	if (strcmp(line, "start") == 0)
		return expect_start(world, result, rest);
	if (strcmp(line, "wait") == 0)
		return expect_wait(world, result, rest);
	if (strcmp(line, "reserve") == 0)
		return expect_reserve(world, result, rest);
	if (strcmp(line, "likely") == 0)
		return expect_likely(world, result, rest);
	if (strcmp(line, "broken") == 0)
		return expect_broken(world, result, rest);
	if (strcmp(line, "unreserved") == 0)
		return expect_unreserved(world, result, rest);
	if (strcmp(line, "reservations") == 0)
		return atoi(rest) == result->n_reservations ? NULL :
			format("%d reservations", result->n_reservations);
	if (strcmp(line, "held") == 0)
		return expect_held(world, result, rest);
	if (strcmp(line, "order") == 0)
		return expect_order(world, result, rest);
	if (strcmp(line, "count") == 0)
		return expect_count(world, result, rest);
	if (strcmp(line, "ranks") == 0)
		return expect_ranks(world, rest);
	if (strcmp(line, "turns") == 0)
		return expect_turns(world, rest);
	if (strcmp(line, "feasible") == 0)
		return expect_feasible(world, rest, true);
	if (strcmp(line, "impossible") == 0)
		return expect_feasible(world, rest, false);
	if (strcmp(line, "starts") == 0)
		return atoi(rest) == result->n_starts ? NULL :
			format("%d jobs started", result->n_starts);
	rest[-1] = ' ';
	return claims_expect(world, result, line);
}
