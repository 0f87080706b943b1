/*
 * trace.c
 *	  Reads a cluster and its pods from a folder with openb's CSV files.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

/*
 * Cut a line of CSV into fields (empty ones included); returns how many.
 */
static int
fields_cut(char *line, char **fields, int max)
{
	int			n = 0;

	line[strcspn(line, "\r\n")] = '\0';
	while (n < max)
	{
		fields[n++] = line;
		line = strchr(line, ',');
		if (line == NULL)
			break;
		*line++ = '\0';
	}
	return n;
}

/*
 * Open a file of the folder and skip its heading.
 */
static FILE *
trace_open(const char *folder, const char *name)
{
	char	   *path = format("%s/%s", folder, name);
	FILE	   *file = fopen(path, "r");
	char		line[1024];

	free(path);
	if (file != NULL && fgets(line, sizeof(line), file) == NULL)
	{
		fclose(file);
		return NULL;
	}
	return file;
}

/*
 * Add the nodes: sn, cpu_milli, memory_mib, gpu, model.
 */
bool
trace_nodes(World *world, const char *folder)
{
	FILE	   *file = trace_open(folder, "openb_node_list_gpu_node.csv");
	char		line[1024];
	char	   *f[5];

	if (file == NULL)
		return false;
	while (fgets(line, sizeof(line), file) != NULL)
	{
		DecideNode *node;

		if (fields_cut(line, f, 5) < 5)
			continue;
		node = world_node(world, f[0], world_type(world, f[4]), atoi(f[3]));
		node->cpu_milli = node->cpu_left = atoll(f[1]);
		node->memory_mib = node->memory_left = atoll(f[2]);
	}
	fclose(file);
	return world->n_nodes > 0;
}

/*
 * Add the pods as jobs, in order of their creation: name, cpu_milli,
 * memory_mib, num_gpu, gpu_milli, gpu_spec, qos, pod_phase, creation_time, ...
 * No gpu_spec means any type; all a pod accepts are equally good.
 */
bool
trace_pods(World *world, const char *folder, const char *name)
{
	FILE	   *file = trace_open(folder, name);
	char		line[1024];
	char	   *f[9];

	if (file == NULL)
		return false;
	while (fgets(line, sizeof(line), file) != NULL)
	{
		DecideOffer offers[WORLD_MAX_OFFERS] = {{0}};
		DecideAsk	ask = {0};
		char	   *type;
		int			i;

		if (fields_cut(line, f, 9) < 9)
			continue;
		ask.offers = offers;
		ask.cpu_milli = atoll(f[1]);
		ask.memory_mib = atoll(f[2]);
		ask.min_gpus = ask.max_gpus = atoi(f[3]);
		ask.share = ask.min_gpus == 1 ? atoi(f[4]) : DECIDE_WHOLE;
		ask.wall_limit = DECIDE_NEVER;
		ask.topology = DECIDE_TOPOLOGY_NODE;
		for (type = strtok(f[5], "|"); type != NULL && ask.min_gpus > 0;
			 type = strtok(NULL, "|"))
		{
			offers[ask.n_offers].type = world_type(world, type);
			offers[ask.n_offers].tied = ask.n_offers > 0;
			offers[ask.n_offers++].min_memory = 0;
		}
		for (i = 0; i < world->n_types && *f[5] == '\0' && ask.min_gpus > 0;
			 i++)
		{
			offers[ask.n_offers].type = i;
			offers[ask.n_offers].tied = i > 0;
			offers[ask.n_offers++].min_memory = 0;
		}
		world_job(world, world_ask(world, &ask), "openb", "",
				  world->n_jobs)->submitted = atoll(f[8]) * 1000000;
	}
	fclose(file);
	return world->n_jobs > 0;
}
