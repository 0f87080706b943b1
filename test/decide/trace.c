/*
 * trace.c
 *	  Reads a cluster and its pods from a folder with openb's CSV files.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define PODS_SHORT	5			/* columns of the shorter lists */
#define PODS_LONG	9			/* columns that are read of the longer lists */

/*
 * Splits a line of CSV into fields, including empty ones.  Returns their
 * number.
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
 * Opens a file of the folder and reads its heading.
 */
static FILE *
trace_open(const char *folder, const char *name, char heading[1024])
{
	char	   *path = format("%s/%s", folder, name);
	FILE	   *file = fopen(path, "r");

	free(path);
	if (file != NULL && fgets(heading, 1024, file) == NULL)
	{
		fclose(file);
		return NULL;
	}
	return file;
}

/*
 * Adds the nodes, from the columns sn, cpu_milli, memory_mib, gpu, model.
 */
bool
trace_nodes(World *world, const char *folder)
{
	char		line[1024];
	FILE	   *file = trace_open(folder, "openb_node_list_gpu_node.csv",
								  line);
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
 * Returns how many columns of a list of pods are read, by its heading, or 0 if
 * it is no such list.  The shorter lists have no types and no times.
 */
static int
pod_columns(char *heading)
{
	static const char *const names[PODS_LONG] = {
		"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli",
		"gpu_spec", "qos", "pod_phase", "creation_time"
	};
	char	   *f[PODS_LONG];
	int			n = fields_cut(heading, f, PODS_LONG);
	int			i;

	for (i = 0; i < n; i++)
	{
		if (strcmp(f[i], names[i]) != 0)
			return 0;
	}
	return n == PODS_SHORT || n == PODS_LONG ? n : 0;
}

/*
 * Adds a pod as a job.  A pod without gpu_spec accepts any type; all accepted
 * types are equal.
 */
static void
pod_add(World *world, char **f)
{
	DecideOffer offers[WORLD_MAX_OFFERS] = {{0}};
	DecideRequestClass request = {0};
	char	   *type;
	int			i;

	request.offers = offers;
	request.cpu_milli = atoll(f[1]);
	request.memory_mib = atoll(f[2]);
	request.min_gpus = request.max_gpus = atoi(f[3]);
	request.share = request.min_gpus == 1 ? atoi(f[4]) : DECIDE_WHOLE;
	request.wall_limit = DECIDE_NEVER;
	request.topology = DECIDE_TOPOLOGY_NODE;
	for (i = 0; i < world->n_types && *f[5] == '\0' &&
		 request.min_gpus > 0; i++)
	{
		offers[request.n_offers].type = i;
		offers[request.n_offers++].tied = i > 0;
	}
	for (type = strtok(f[5], "|"); type != NULL && request.min_gpus > 0;
		 type = strtok(NULL, "|"))
	{
		offers[request.n_offers].type = world_type(world, type);
		offers[request.n_offers].tied = request.n_offers > 0;
		request.n_offers++;
	}
	world_job(world, world_request(world, &request), "openb", "",
			  world->n_jobs)->submitted = atoll(f[8]) * 1000000;
}

/*
 * Adds the pods as jobs, from the columns name, cpu_milli, memory_mib,
 * num_gpu, gpu_milli, and in the longer lists gpu_spec, qos, pod_phase,
 * creation_time, ...  Returns NULL, or why the list is rejected.
 */
char *
trace_pods(World *world, const char *folder, const char *name)
{
	char		line[1024];
	FILE	   *file = trace_open(folder, name, line);
	char	   *error = NULL;
	char		none[] = "";
	char	   *f[PODS_LONG];
	int			columns;
	int			row;
	int			i;

	if (file == NULL)
		return format("%s/%s: no such file", folder, name);
	columns = pod_columns(line);
	if (columns == 0)
		error = format("%s: not a list of pods, by its heading", name);
	for (row = 2; error == NULL && fgets(line, sizeof(line), file) != NULL;
		 row++)
	{
		int			n = fields_cut(line, f, columns);

		for (i = n; i < PODS_LONG; i++)
			f[i] = none;
		if (n < columns)
			error = format("%s: line %d has %d columns of %d", name, row, n,
						   columns);
		else
			pod_add(world, f);
	}
	fclose(file);
	return error == NULL && world->n_jobs == 0 ?
		format("%s: no pods", name) : error;
}

/*
 * Returns the result of reading this text as a list of pods.
 */
static char *
read_text(const char *text)
{
	char		folder[] = "/tmp/decide-trace-XXXXXX";
	World		world;
	char	   *path;
	char	   *read;
	FILE	   *file;

	if (mkdtemp(folder) == NULL)
		return format("no folder");
	path = format("%s/pods.csv", folder);
	file = fopen(path, "w");
	if (file != NULL)
	{
		fputs(text, file);
		fclose(file);
	}
	world_init(&world);
	world_type(&world, "T4");
	read = trace_pods(&world, folder, "pods.csv");
	if (read == NULL)
		read = format("%d jobs, the last of %d devices x %d, %d types",
					  world.n_jobs,
					  world.requests[world.jobs[world.n_jobs -
												1].request].min_gpus,
					  world.requests[world.jobs[world.n_jobs -
												1].request].share,
					  world.requests[world.jobs[world.n_jobs -
												1].request].n_offers);
	remove(path);
	remove(folder);
	free(path);
	world_free(&world);
	return read;
}

/*
 * Tests that lists of pods are read, or rejected with a reason.
 */
void
trace_tests(Tap *tap)
{
#define SHORT "name,cpu_milli,memory_mib,num_gpu,gpu_milli"
	static const char *const lists[][3] = {
		{"of 5 columns", SHORT "\np,1,2,1,460\nq,1,2,4,1000\n",
		"2 jobs, the last of 4 devices x 1000, 1 types"},
		{"of 11 columns", SHORT ",gpu_spec,qos,pod_phase,creation_time,"
			"deletion_time,scheduled_time\np,1,2,1,460,T4|A10,LS,Running,5,6,7\n",
		"1 jobs, the last of 1 devices x 460, 2 types"},
		{"with a short line", SHORT "\np,1,2,1,460\nq,1,2\n",
		"pods.csv: line 3 has 3 columns of 5"},
		{"with other columns", "name,cpu_milli,memory_mib,gpus\np,1,2,1\n",
		"pods.csv: not a list of pods, by its heading"},
		{"without pods", SHORT "\n", "pods.csv: no pods"}
	};
	size_t		i;

	for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
	{
		char	   *name = format("trace: a list of pods %s", lists[i][0]);
		char	   *read = read_text(lists[i][1]);

		tap_ok(tap, strcmp(read, lists[i][2]) == 0, name, read);
		free(read);
		free(name);
	}
}
