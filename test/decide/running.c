/*
 * running.c
 *	  Parses running jobs in the scenario language.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

/*
 * Parses an instant or a duration: a number of microseconds, or of s, m, h, d.
 */
bool
time_parse(const char *text, int64_t *time)
{
	static const char units[] = "smhd";
	static const int64_t seconds[] = {1, 60, 3600, 86400};
	char	   *end;
	const char *unit;

	if (strcmp(text, "never") == 0)
	{
		*time = DECIDE_NEVER;
		return true;
	}
	*time = strtoll(text, &end, 10);
	if (end == text)
		return false;
	if (*end == '\0')
		return true;
	if (strcmp(end, "k") == 0)
	{
		*time *= 1000;
		return true;
	}
	unit = strchr(units, *end);
	if (unit == NULL || end[1] != '\0')
		return false;
	*time *= seconds[unit - units] * 1000000;
	return true;
}

/*
 * Allocates an attempt's part on its node.
 */
static char *
part_allocate(DecideNode *node, const DecideRunning *running,
			  const DecidePart *part)
{
	int			i;

	for (i = 0; i < DECIDE_MAX_DEVICES; i++)
	{
		if (((part->devices >> i) & 1) == 0)
			continue;
		if (node->device_left[i] < running->share)
			return format("device %d of %s is not there to run on", i,
						  node->name);
	}
	devices_allocate(node, part, running->share, 1);
	node->cpu_left -= node->cpu_milli > 0 ? part->cpu_milli : 0;
	node->memory_left -= node->memory_mib > 0 ? part->memory_mib : 0;
	return NULL;
}

/*
 * Parses /cpu/mem, either with k for thousands.
 */
static void
amounts_parse(const char *text, DecidePart *part)
{
	char		cpu[32] = "0";
	char		memory[32] = "0";

	(void) sscanf(text, "/%31[0-9k]/%31[0-9k]", cpu, memory);
	(void) number_parse(cpu, &part->cpu_milli);
	(void) number_parse(memory, &part->memory_mib);
}

/*
 * Parses NODE{devices}[/cpu[/mem]], or NODE/cpu/mem for an attempt without
 * devices.  gpu_memory is the memory floor that a share asked for.
 */
static char *
part_word(World *world, DecideRunning *running, int64_t gpu_memory,
		  char *word)
{
	char	   *brace = strchr(word, '{');
	const char *rest = "";
	uint64_t	devices = 0;
	DecidePart *part;
	int			i;

	if (brace != NULL)
	{
		if (!set_parse(brace, &rest, &devices))
			return format("bad set \"%s\"", brace);
		*brace = '\0';
	}
	else if (strchr(word, '/') != NULL)
	{
		char	   *slash = strchr(word, '/');

		rest = format("%s", slash);
		*slash = '\0';
	}
	for (i = 0; i < world->n_nodes; i++)
	{
		if (strcmp(world->nodes[i].name, word) == 0)
			break;
	}
	if (i == world->n_nodes)
		return format("no node %s", word);
	part = world_part(world, running);
	part->node = i;
	part->devices = devices;
	part->gpus = __builtin_popcountll(devices);
	amounts_parse(rest, part);
	part->gpu_memory_mib = running->share == DECIDE_WHOLE ? 0 :
		gpu_memory > 0 ? gpu_memory :
		share_memory(&world->nodes[i], running->share);
	if (gpu_memory > 0 && running->share < DECIDE_WHOLE)
	{
		int64_t		has = world->nodes[i].gpu_memory_mib;
		int64_t		kept = (gpu_memory * DECIDE_WHOLE + has - 1) / has;

		running->counted = kept > running->share ? (int32_t) kept :
			running->share;
	}
	if (brace == NULL && *rest != '\0')
		free((char *) rest);
	running->gpus += part->gpus;
	return part_allocate(&world->nodes[i], running, part);
}

/*
 * Parses ORGANISATION/NUMBER, the claim for which a running job leaves.
 */
static bool
leaves_for(DecideRunning *running, char *job)
{
	char	   *number = strrchr(job, '/');

	if (number == NULL)
		return false;
	*number++ = '\0';
	world_leaves(running, job, strtoll(number, NULL, 10));
	return true;
}

/*
 * Parses a word after the parts.  Returns false if the word is unknown.
 */
static bool
running_word(World *world, DecideRunning *running, char *word)
{
	static const char *const willing[] = {"never", "reclaim", "capacity"};
	char	   *value = strchr(word, '=');
	int			i;

	if (strcmp(word, "leaving") == 0 || strcmp(word, "over") == 0)
	{
		running->leaving = true;
		running->over = *word == 'o';
		return true;
	}
	if (strcmp(word, "stays") == 0)
	{
		running->stays = true;
		return true;
	}
	if (strcmp(word, "aged") == 0)
	{
		running->aged = true;
		return true;
	}
	for (i = 0; i < 3; i++)
	{
		if (strcmp(word, willing[i]) == 0)
		{
			running->preemptible = (DecidePreemptible) i;
			return true;
		}
	}
	if (value == NULL)
		return false;
	*value++ = '\0';
	if (strcmp(word, "for") == 0)
		return leaves_for(running, value);
	if (strcmp(word, "started") == 0)
		return time_parse(value, &running->started);
	if (strcmp(word, "saved") == 0)
		return time_parse(value, &running->saved_at);
	if (strcmp(word, "ends") == 0)
		return time_parse(value, &running->expected_end);
	if (strcmp(word, "likely") == 0)
		return time_parse(value, &running->likely_end);
	if (strcmp(word, "limit") == 0)
		return time_parse(value, &running->limit_end);
	if (strcmp(word, "redone") == 0)
		return time_parse(value, &running->redone);
	if (strcmp(word, "evictions") == 0)
		running->evictions = atoi(value);
	else if (strcmp(word, "priority") == 0)
		running->priority = atoi(value);
	else if (strcmp(word, "submit") == 0)
		running->submitted = atoll(value);
	else if (strcmp(word, "topology") == 0)
		running->request = *value == 'n' ? (value[1] == 'o' ?
											DECIDE_TOPOLOGY_NODE :
											DECIDE_TOPOLOGY_NVLINK) :
			*value == 'l' ? DECIDE_TOPOLOGY_LEAF : DECIDE_TOPOLOGY_ANY;
	else if (strcmp(word, "tier") == 0)
		running->tier = world_tier(world, value);
	else if (strcmp(word, "attempt") == 0)
		running->attempt = atoi(value);
	else if (strcmp(word, "share") == 0)
		running->share = atoi(value);
	else if (sscanf(value, "%d-%d", &running->min_gpus,
					&running->max_gpus) != 2 || strcmp(word, "range") != 0)
		return false;
	return true;
}

/*
 * Parses the line: running ORG[/ACCOUNT]/ID TYPE|- PART... WORD...; a share
 * and its gpumem stand before the parts.
 */
char *
running_line(World *world, char *line)
{
	char	   *name = strtok(line, " ");
	char	   *type = strtok(NULL, " ");
	char	   *id = name != NULL ? strrchr(name, '/') : NULL;
	char	   *account;
	DecideRunning *running;
	bool		saved = false;
	int64_t		gpu_memory = 0;
	char	   *word;

	if (id == NULL || type == NULL)
		return format("what runs needs ORG/ID, a type, parts");
	*id++ = '\0';
	account = format("%s", name);
	name[strcspn(name, "/")] = '\0';
	running = world_running(world, name, atoll(id));
	running->account = world_account(world, account);
	free(account);
	if (strcmp(type, "-") != 0)
		running->type = world_type(world, type);
	while ((word = strtok(NULL, " ")) != NULL)
	{
		size_t		n = strcspn(word, "{/=");
		char	   *error = NULL;

		saved |= strncmp(word, "saved=", 6) == 0;
		if (word[n] == '{' || word[n] == '/')
			error = part_word(world, running, gpu_memory, word);
		else if (strncmp(word, "gpumem=", 7) == 0)
			(void) number_parse(word + 7, &gpu_memory);
		else if (!running_word(world, running, word))
			error = format("bad word \"%s\" of what runs", word);
		if (error != NULL)
			return error;
	}
	if (!saved)
		running->saved_at = running->started;
	if (running->likely_end == 0)
		running->likely_end = running->expected_end;
	if (running->limit_end == DECIDE_NEVER)
		running->limit_end = running->expected_end;
	else if (running->expected_end > running->limit_end)
		running->expected_end = running->limit_end;
	if (running->min_gpus == 0)
		running->min_gpus = running->max_gpus = running->gpus;
	running_request(world, running, (DecideTopology)
					(running->request >= 0 ? running->request :
					 DECIDE_TOPOLOGY_ANY));
	return NULL;
}
