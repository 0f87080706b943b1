/*
 * scenario.c
 *	  Runs text scenarios: a cluster, a queue, and what must be decided.
 *
 * ../scenarios/README.md describes the language.  Every scenario is decided as
 * written, and several times in another order with other labels.  The results
 * must agree, pass DecideCheck, and meet the expectations.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define MAX_LINES	400
#define MAX_VARIES	64
#define PERMUTATIONS 3

typedef struct Scenario
{
	const char *file;
	char	   *name;
	char	   *lines[MAX_LINES];
	int			numbers[MAX_LINES];
	int			n;
	char	   *varies[MAX_VARIES];
	int			n_varies;
} Scenario;

/*
 * Returns a line in which each $x, where x is a letter, is replaced by the
 * value in "x=value ...".
 */
static char *
substituted(const char *line, const char *vary)
{
	char	   *text = NULL;
	size_t		size = 0;
	FILE	   *out = open_memstream(&text, &size);

	while (*line != '\0')
	{
		size_t		n;
		const char *at;

		if (*line != '$')
		{
			fputc(*line++, out);
			continue;
		}
		n = line[1] != '\0' ? 2 : 1;
		for (at = vary; at != NULL && *at != '\0'; at += strcspn(at, " "),
			 at += strspn(at, " "))
		{
			if (strncmp(at, line + 1, n - 1) == 0 && at[n - 1] == '=')
				break;
		}
		if (at == NULL || *at == '\0')
			fprintf(out, "%.*s", (int) n, line);
		else
			fprintf(out, "%.*s", (int) strcspn(at + n, " "), at + n);
		line += n;
	}
	fclose(out);
	return text;
}

/*
 * Returns the number of a domain's, leaf's or spine's label: its position in a list of
 * labels.
 */
int
label_number(const char *name)
{
	static char *names[1000];
	int			i;

	for (i = 0; i < 999 && names[i] != NULL; i++)
	{
		if (strcmp(names[i], name) == 0)
			return i;
	}
	names[i] = strdup(name);
	return i;
}

/*
 * Parses left={0:500,3:0}: what is left of single devices.
 */
static bool
free_parse(const char *text, DecideNode *node)
{
	if (*text++ != '{')
		return false;
	while (*text != '}')
	{
		int			device;
		int			left;
		int			n = 0;

		if (sscanf(text, "%d:%d%n", &device, &left, &n) != 2 || device < 0 ||
			device >= DECIDE_MAX_DEVICES || left < 0 || left > UINT16_MAX)
			return false;
		node->device_left[device] = (uint16_t) left;
		text += n;
		if (*text == ',')
			text++;
	}
	return true;
}

/*
 * Parses one word of a node's description.  Returns false if the word is
 * unknown.
 */
static bool
node_word(DecideNode *node, char *word)
{
	char	   *value = strchr(word, '=');
	const char *end;
	uint64_t	devices;
	int64_t		n = 0;
	int			i;

	if (value == NULL)
	{
		if (strcmp(word, "spot") == 0)
			node->spot = true;
		else if (strcmp(word, "closed") == 0)
			node->schedulable = false;
		else
			return false;
		return true;
	}
	*value++ = '\0';
	if (strcmp(word, "nvlink") == 0)
		node->domain = label_number(value);
	else if (strcmp(word, "leaf") == 0)
		node->leaf = label_number(value);
	else if (strcmp(word, "spine") == 0)
		node->spine = label_number(value);
	else if (strcmp(word, "left") == 0)
		return free_parse(value, node);
	else if (strcmp(word, "busy") == 0 || strcmp(word, "broken") == 0 ||
			 strcmp(word, "idle") == 0)
	{
		if (!set_parse(value, &end, &devices))
			return false;
		if (*word == 'i')
			node->idle = devices;
		if (word[1] == 'r')
			node->usable &= ~devices;
		for (i = 0; i < DECIDE_MAX_DEVICES && word[1] == 'u'; i++)
		{
			if ((devices >> i) & 1)
				node->device_left[i] = 0;
		}
	}
	else if (!number_parse(value, &n))
		return false;
	else if (strcmp(word, "nvlink_mbps") == 0)
		node->mbps[DECIDE_LEVEL_NVLINK] = n;
	else if (strcmp(word, "leaf_mbps") == 0)
		node->mbps[DECIDE_LEVEL_LEAF] = n;
	else if (strcmp(word, "spine_mbps") == 0)
		node->mbps[DECIDE_LEVEL_SPINE] = n;
	else if (strcmp(word, "cpu") == 0)
		node->cpu_milli = node->cpu_left = n;
	else if (strcmp(word, "mem") == 0)
		node->memory_mib = node->memory_left = n;
	else if (strcmp(word, "cpu_left") == 0)
		node->cpu_left = n;
	else if (strcmp(word, "mem_left") == 0)
		node->memory_left = n;
	else if (strcmp(word, "gpumem") == 0)
		node->gpu_memory_mib = n;
	else
		return false;
	return true;
}

/*
 * Parses the line: node NAME TYPExN ..., or node n{1-9} ... for several equal
 * nodes.
 */
static char *
node_line(World *world, char *line)
{
	char	   *name = strtok(line, " ");
	char	   *kind = strtok(NULL, " ");
	char	   *times = kind != NULL ? strrchr(kind, 'x') : NULL;
	char	   *brace;
	uint64_t	which = 1;
	DecideNode	like;
	World		scratch;
	char	   *word;
	const char *end;
	int			i;

	if (times == NULL)
		return format("a node needs a name and TYPExN");
	*times++ = '\0';
	brace = strchr(name, '{');
	if (brace != NULL && !set_parse(brace, &end, &which))
		return format("bad set of nodes");
	world_init(&scratch);
	like = *world_node(&scratch, name, *kind == '\0' ? DECIDE_NO_TYPE :
					   world_type(world, kind), atoi(times));
	world_free(&scratch);
	while ((word = strtok(NULL, " ")) != NULL)
	{
		if (!node_word(&like, word))
			return format("bad word \"%s\" of a node", word);
	}
	if (brace != NULL)
		*brace = '\0';
	for (i = 0; i < 64; i++)
	{
		char	   *full;
		DecideNode *node;

		if (((which >> i) & 1) == 0)
			continue;
		full = brace != NULL ? format("%s%d", name, i) : format("%s", name);
		node = world_node(world, full, 0, 0);
		like.name = node->name;
		*node = like;
		free(full);
	}
	return NULL;
}

/*
 * Parses the line: job ORG[/ACCOUNT]/ID[-LAST] REQUEST ...
 */
static char *
job_line(World *world, char *line)
{
	char	   *words = strchr(line, ' ');
	char	   *id = NULL;
	char	   *account;
	int64_t		first;
	int64_t		last;
	DecideOffer offers[WORLD_MAX_OFFERS];
	DecideRequestClass request = {0};
	DecideJob	like = {0};
	char	   *error;
	int			index;

	if (words != NULL)
	{
		*words++ = '\0';
		id = strrchr(line, '/');
	}
	if (id == NULL)
		return format("a job needs ORG/ID and a request");
	*id++ = '\0';
	last = first = strtoll(id, &id, 10);
	if (*id == '-')
		last = strtoll(id + 1, NULL, 10);
	account = strchr(line, '/');
	if (account != NULL)
		*account++ = '\0';
	request.offers = offers;
	error = request_parse(world, words, &request, &like);
	if (error != NULL)
		return error;
	index = world_request(world, &request);
	for (; first <= last; first++)
	{
		DecideJob  *job = world_job(world, index, line,
									account != NULL ? account : "", first);

		job->tier = like.tier;
		job->priority = like.priority;
		job->submitted = like.submitted;
		job->aged_at = like.aged_at;
		job->order_run = like.order_run;
		job->expected_run = like.expected_run;
		job->likely_run = like.likely_run;
		job->waits_from = like.waits_from;
		job->cache = like.cache;
	}
	return NULL;
}

/*
 * Decides a world and compares the result with all expectations.
 */
static char *
world_judge(World *world, Scenario *scenario, char **expectations,
			const char *expected_error)
{
	DecideInput input = world_input(world);
	DecideResult result;
	Pool		pool;
	DecideArena arena;
	uint64_t	seed = 1;
	const char *error;
	char	   *why = NULL;
	char	   *text;
	int			i;

	pool_init(&pool);
	arena = pool_arena(&pool);
	error = DecideRun(&input, &arena, &result);
	if (error != NULL || expected_error != NULL)
	{
		if (error == NULL || expected_error == NULL ||
			strcmp(error, expected_error) != 0)
			why = format("error \"%s\" instead of \"%s\"",
						 error ? error : "none",
						 expected_error ? expected_error : "none");
		pool_free(&pool);
		return why;
	}
	text = world_render(world, &result, NULL);
	error = DecideCheck(&input, &result, &arena, NULL);
	if (error != NULL)
		why = format("DecideCheck: %s\n%s", error, text);
	for (i = 0; i < scenario->n && why == NULL; i++)
	{
		char	   *wrong;

		if (expectations[i] == NULL)
			continue;
		wrong = expect_check(world, &result, expectations[i]);
		if (wrong != NULL)
			why = format("line %d: %s\ndecided:\n%s", scenario->numbers[i],
						 wrong, text);
		free(wrong);
	}
	for (i = 0; i < PERMUTATIONS && why == NULL; i++)
		why = again_permuted(world, text, &seed);
	if (why == NULL && result.n_starts < world->max_starts &&
		result.n_evictions < world->max_evictions)
	{
		char	   *wrong = next_error(world, &result);

		if (wrong != NULL)
			why = format("%s\ndecided:\n%s", wrong, text);
		free(wrong);
	}
	free(text);
	pool_free(&pool);
	return why;
}

/*
 * Runs one scenario with one set of values.
 */
static void
scenario_run(Tap *tap, Scenario *scenario, const char *vary)
{
	char	   *name = substituted(scenario->name, vary);
	char	   *full = format("%s: %s", scenario->file, name);
	char	   *lines[MAX_LINES];
	char	   *expectations[MAX_LINES] = {NULL};
	const char *expected_error = NULL;
	char	   *why = NULL;
	World		world;
	int			n_expected = 0;
	int			i;

	world_init(&world);
	for (i = 0; i < scenario->n; i++)
		lines[i] = substituted(scenario->lines[i], vary);
	for (i = 0; i < scenario->n && why == NULL; i++)
	{
		char	   *line = lines[i];
		char	   *error = NULL;

		if (strncmp(line, "node ", 5) == 0)
			error = node_line(&world, line + 5);
		else if (strncmp(line, "job ", 4) == 0)
			error = job_line(&world, line + 4);
		else if (strncmp(line, "running ", 8) == 0)
			error = running_line(&world, line + 8);
		else if (strncmp(line, "claim ", 6) == 0)
			error = claim_line(&world, line + 6);
		else if (strncmp(line, "quota ", 6) == 0)
			error = quota_line(&world, line + 6);
		else if (strncmp(line, "previous ", 9) == 0)
			error = previous_line(&world, line + 9);
		else if (strncmp(line, "max_starts ", 11) == 0)
			world.max_starts = atoi(line + 11);
		else if (strncmp(line, "max_evictions ", 14) == 0)
			world.max_evictions = atoi(line + 14);
		else if (settings_line(&world, line, &error))
			 /* done */ ;
		else if (strncmp(line, "expect error ", 13) == 0)
			expected_error = line + 13;
		else if (strncmp(line, "expect ", 7) == 0)
			expectations[i] = line + 7;
		else
			error = format("not understood: %s", line);
		n_expected += strncmp(line, "expect ", 7) == 0;
		if (error != NULL)
			why = format("line %d: %s", scenario->numbers[i], error);
		free(error);
	}
	if (why == NULL && n_expected == 0)
		why = format("nothing is expected");
	if (why == NULL)
		why = world_judge(&world, scenario, expectations, expected_error);
	tap_ok(tap, why == NULL, full, why);
	for (i = 0; i < scenario->n; i++)
		free(lines[i]);
	free(why);
	free(name);
	free(full);
	world_free(&world);
}

/*
 * Runs the scenario that was read, once for each set of values, and clears it.
 */
static void
scenario_finish(Tap *tap, Scenario *scenario)
{
	int			i;

	if (scenario->name != NULL)
	{
		if (scenario->n_varies == 0)
			scenario_run(tap, scenario, NULL);
		for (i = 0; i < scenario->n_varies; i++)
			scenario_run(tap, scenario, scenario->varies[i]);
	}
	free(scenario->name);
	for (i = 0; i < scenario->n; i++)
		free(scenario->lines[i]);
	for (i = 0; i < scenario->n_varies; i++)
		free(scenario->varies[i]);
	scenario->name = NULL;
	scenario->n = scenario->n_varies = 0;
}

/*
 * Runs all scenarios of a file.  Returns false if the file could not be read.
 */
bool
scenario_file(Tap *tap, const char *path)
{
	FILE	   *file = fopen(path, "r");
	const char *base = strrchr(path, '/');
	Scenario   *scenario = calloc(1, sizeof(Scenario));
	char		line[4096];
	int			number = 0;

	if (file == NULL || scenario == NULL)
	{
		free(scenario);
		return false;
	}
	scenario->file = base != NULL ? base + 1 : path;
	while (fgets(line, sizeof(line), file) != NULL)
	{
		char	   *text = line + strspn(line, " \t");

		number++;
		text[strcspn(text, "#\r\n")] = '\0';
		while (*text != '\0' && text[strlen(text) - 1] == ' ')
			text[strlen(text) - 1] = '\0';
		if (*text == '\0')
			continue;
		if (strncmp(text, "scenario ", 9) == 0)
		{
			scenario_finish(tap, scenario);
			scenario->name = strdup(text + 9);
		}
		else if (strncmp(text, "vary ", 5) == 0 &&
				 scenario->n_varies < MAX_VARIES)
			scenario->varies[scenario->n_varies++] = strdup(text + 5);
		else if (scenario->name == NULL || scenario->n == MAX_LINES)
			tap_ok(tap, false, path, text);
		else
		{
			scenario->numbers[scenario->n] = number;
			scenario->lines[scenario->n++] = strdup(text);
		}
	}
	scenario_finish(tap, scenario);
	free(scenario);
	fclose(file);
	return true;
}
