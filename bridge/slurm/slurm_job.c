/*-------------------------------------------------------------------------
 *
 * slurm_job.c
 *		Parses the output of squeue --json, in the formats of Slurm 22.05 and
 *		24.11.
 *
 * Later versions write a number as {"set": true, "number": 5}, and a state as
 * a list of words.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"
#include "memory.h"
#include "slurm.h"
#include "slurm_job.h"

#define PREFIX		"gpucredit:"
#define UUID_LEN	36
#define MOST_TASKS	1000		/* how many tasks of a waiting array one sweep
								 * handles */

/*
 * Runs squeue for jobs of all states. Returns NULL if it gave no answer.
 */
json_t *
SlurmJobs(void)
{
	char	   *program = Format("%s/squeue", slurm.bin);
	char	   *argv[] = {program, "--json", "--states=all", NULL};
	char	   *text = CommandOutput(argv);
	json_t	   *answer = text == NULL ? NULL : json_loads(text, 0, NULL);

	free(text);
	free(program);
	return answer;
}

static long long
number(const json_t * row, const char *key, long long otherwise)
{
	const		json_t *value = json_object_get(row, key);
	const		json_t *inner = json_object_get(value, "number");

	if (json_is_integer(value))
		return json_integer_value(value);
	if (inner == NULL || json_is_false(json_object_get(value, "set")) ||
		json_is_true(json_object_get(value, "infinite")))
		return otherwise;
	return json_integer_value(inner);
}

static const char *
text(const json_t * row, const char *key)
{
	const char *value = json_string_value(json_object_get(row, key));

	return value == NULL ? "" : value;
}

/*
 * Whether a field's value is this word, or a list that contains it.
 */
static bool
has_word(const json_t * row, const char *key, const char *word)
{
	const		json_t *value = json_object_get(row, key);
	size_t		i;
	json_t	   *one;

	if (json_is_string(value))
		return strcmp(json_string_value(value), word) == 0;
	json_array_foreach(value, i, one)
	{
		if (strcmp(json_string_value(one), word) == 0)
			return true;
	}
	return false;
}

/*
 * Returns the number of devices in "gres:gpu:h100:2" or "gres/gpu:2", and
 * copies their type, if any, to "type".
 */
static long
gpus_of(const char *tres, char *type)
{
	const char *at = strstr(tres, "gpu");
	long		count = 1;

	*type = '\0';
	if (at == NULL)
		return 0;
	at += 3;
	if (sscanf(at, ":%ld", &count) == 1)
		return count;
	if (sscanf(at, ":%63[^:=,]", type) == 1)
	{
		at += 1 + strlen(type);
		if (sscanf(at, ":%ld", &count) != 1)
			count = 1;
	}
	return count;
}

/*
 * Whether a name is one of the words of a text such as "gres:shard:2" or
 * "gres/gpu=1".
 */
static bool
has_name(const char *tres, const char *name)
{
	size_t		len;

	for (; *tres != '\0'; tres += len + strspn(tres + len, "/:=,"))
	{
		len = strcspn(tres, "/:=,");
		if (len == strlen(name) && strncmp(tres, name, len) == 0)
			return true;
	}
	return false;
}

/*
 * Whether a job asks for gres/shard or gres/mps.
 */
static bool
asks_for_shares(const json_t * row)
{
	static const char *const keys[] = {"tres_per_job", "tres_per_node",
	"tres_per_socket", "tres_per_task", NULL};

	for (int i = 0; keys[i] != NULL; i++)
		if (has_name(text(row, keys[i]), "shard") ||
			has_name(text(row, keys[i]), "mps"))
			return true;
	return false;
}

/*
 * Parses how many devices a job asks for. "least" and "most" differ if Slurm
 * may give the job more nodes than it must have.
 */
static void
parse_request(const json_t * row, SlurmJob *job)
{
	long		per_node = 0;

	if ((job->least = gpus_of(text(row, "tres_per_job"), job->type)) > 0)
		;
	else if ((job->least = gpus_of(text(row, "tres_per_task"), job->type)) > 0)
		job->least *= number(row, "tasks", 1);
	else if ((per_node = gpus_of(text(row, "tres_per_node"), job->type)) == 0)
		per_node = gpus_of(text(row, "tres_per_socket"), job->type) *
			number(row, "sockets_per_node", 1);
	job->most = job->least + per_node * job->most_nodes;
	job->least += per_node * job->n_nodes;
}

/*
 * Counts the devices in a set such as "0-1,3".
 */
static long
count_devices(const char *set)
{
	long		count = 0;
	int			from;
	int			to;

	while (sscanf(set, "%d", &from) == 1)
	{
		set += strspn(set, "0123456789");
		to = from;
		if (*set == '-' && sscanf(set, "-%d", &to) == 1)
			set += 1 + strspn(set + 1, "0123456789");
		count += to - from + 1;
		set += *set == ',';
	}
	return count;
}

/*
 * Parses the devices that a job has: "gpu:h100:2(IDX:0-1)" of each node
 * becomes {"{0-1}"}. Slurm reports no devices for a job that uses none, nor
 * for one that has ended.
 */
static void
parse_devices(const json_t * row, SlurmJob *job)
{
	const		json_t *detail = json_object_get(row, "gres_detail");
	size_t		i;
	json_t	   *node;
	char	   *sets = Dup("");
	char	   *more;
	bool		none = job->least == 0 &&
		(!job->whole || job->state == SLURM_RUNS);

	job->devices = none ? 0 : -1;
	json_array_foreach(detail, i, node)
	{
		const char *at = json_string_value(node);
		char		devices[256] = "";

		while ((at = strstr(at, "IDX:")) != NULL)
		{
			size_t		used = strlen(devices);

			at += 4;
			snprintf(devices + used, sizeof(devices) - used, "%s%.*s",
					 used == 0 ? "" : ",", (int) strcspn(at, ")"), at);
		}
		if (strpbrk(devices, "NA") != NULL)
			*devices = '\0';
		job->devices = (job->devices < 0 ? 0 : job->devices) +
			count_devices(devices);
		more = Format("%s%s\"{%s}\"", sets, *sets == '\0' ? "" : ",",
					  devices);
		free(sets);
		sets = more;
	}
	for (int n = (int) json_array_size(detail); n < job->n_nodes && none; n++)
	{
		more = Format("%s%s\"{}\"", sets, *sets == '\0' ? "" : ",");
		free(sets);
		sets = more;
	}
	job->gpus = *sets == '\0' ? Dup("") : Format("{%s}", sets);
	free(sets);
}

/*
 * Parses the task numbers of a waiting array, such as "0-3,7%2".
 */
static void
parse_tasks(const json_t * row, SlurmJob *job)
{
	const char *at = text(row, "array_task_string");
	long long	array = number(row, "array_job_id", 0);
	long long	task = number(row, "array_task_id", -1);

	job->number = number(row, "job_id", 0);
	job->tasks = Alloc(sizeof(int) * MOST_TASKS);
	if (array != 0)
		job->number = array;
	if (array == 0 || task >= 0)
		job->tasks[job->n_tasks++] = array == 0 ? -1 : (int) task;
	while (array != 0 && task < 0 && *at >= '0' && *at <= '9')
	{
		int			from;
		int			to;
		int			step = 1;
		int			len = 0;

		if (sscanf(at, "%d-%d:%d%n", &from, &to, &step, &len) != 3 &&
			sscanf(at, "%d-%d%n", &from, &to, &len) != 2 &&
			sscanf(at, "%d%n", &from, &len) == 1)
			to = from;
		for (int i = from; i <= to && job->n_tasks < MOST_TASKS;
			 i += step > 0 ? step : 1)
			job->tasks[job->n_tasks++] = i;
		at += len;
		at += *at == ',';
	}
}

/*
 * Parses a job's row. Returns false if the bridge does not manage the job.
 */
bool
SlurmJobParse(const json_t * row, SlurmJob *job)
{
	memset(job, 0, sizeof(SlurmJob));
	job->comment = text(row, "admin_comment");
	if (strncmp(job->comment, PREFIX, strlen(PREFIX)) != 0 ||
		strlen(job->comment) < strlen(PREFIX) + UUID_LEN)
		return false;
	job->uuid = Format("%.*s", UUID_LEN, job->comment + strlen(PREFIX));
	job->state = has_word(row, "job_state", "PENDING") ? SLURM_WAITS :
		has_word(row, "job_state", "RUNNING") || has_word(row, "job_state", "SUSPENDED") ||
		has_word(row, "job_state", "CONFIGURING") ? SLURM_RUNS : SLURM_ENDED;
	job->held = number(row, "priority", 1) == 0;
	job->never = has_word(row, "state_reason", "BadConstraints");
	job->shares = asks_for_shares(row);
	job->account = text(row, "account");
	if (*job->account == '\0')
		job->account = "none";
	job->nodes = text(row, "nodes");
	job->n_nodes = (int) number(row, "node_count", 1);
	if (job->n_nodes < 1)
		job->n_nodes = 1;
	job->most_nodes = (int) number(row, "max_nodes", 0);
	if (job->most_nodes < job->n_nodes)
		job->most_nodes = job->n_nodes;
	job->whole = has_word(row, "shared", "none");
	job->restarts = (int) number(row, "restart_cnt", 0);
	job->minutes = (long) number(row, "time_limit", 0);
	job->start = number(row, "start_time", 0);
	job->end = number(row, "end_time", 0);
	/* A requeued job shows an end in the future until its nodes are clean. */
	if (has_word(row, "job_state", "COMPLETING") && job->end > time(NULL))
		job->state = SLURM_WAITS;
	job->ran = *job->nodes != '\0' && strcmp(job->nodes, "None assigned") != 0 &&
		job->start > 0 && job->end >= job->start;
	parse_request(row, job);
	parse_devices(row, job);
	parse_tasks(row, job);
	return true;
}

/*
 * Narrows a row that stands for several array tasks to one of them.
 */
void
SlurmJobTask(SlurmJob *job, int t)
{
	free(job->name);
	free(job->id);
	if (job->tasks[t] < 0)
	{
		job->name = Format("%s:%d", job->uuid, job->restarts);
		job->id = Format("%lld", job->number);
	}
	else
	{
		job->name = Format("%s_%d:%d", job->uuid, job->tasks[t],
						   job->restarts);
		job->id = Format("%lld_%d", job->number, job->tasks[t]);
	}
}

/*
 * Copies what placed() needs of a running job.
 */
SlurmJob *
SlurmJobCopy(const SlurmJob *job)
{
	SlurmJob   *copy = Alloc(sizeof(SlurmJob));

	copy->start = job->start;
	copy->devices = job->devices;
	copy->id = Dup(job->id);
	copy->gpus = Dup(job->gpus);
	copy->nodes = copy->node_list = Dup(job->nodes);
	return copy;
}

void
SlurmJobFree(SlurmJob *job)
{
	free(job->node_list);
	free(job->payer);
	free(job->uuid);
	free(job->name);
	free(job->id);
	free(job->gpus);
	free(job->tasks);
}

/*
 * Expands a host list such as "n[1-2]" to a text[] of node names.
 */
char *
SlurmNodes(const char *list)
{
	char	   *program = Format("%s/scontrol", slurm.bin);
	char	   *argv[] = {program, "show", "hostnames", (char *) list, NULL};
	char	   *names = CommandOutput(argv);
	char	   *array;

	free(program);
	if (names == NULL)
		return Dup("{}");
	for (char *at = names; *at != '\0'; at++)
	{
		if (*at == '\n')
			*at = at[1] == '\0' ? '\0' : ',';
	}
	array = Format("{%s}", names);
	free(names);
	return array;
}

/*
 * Chooses a number of devices on a number of nodes. On each node, the device
 * numbers start at "from".
 */
char *
SlurmAnyDevices(int n_nodes, long devices, int from)
{
	char	   *sets = Dup("{");
	char	   *more;

	for (int left = n_nodes; left > 0; left--)
	{
		long		here = (devices + left - 1) / left;
		char	   *set = here == 0 ? Dup("") :
			Format("%d-%ld", from, from + here - 1);

		more = Format("%s\"{%s}\"%s", sets, set, left == 1 ? "}" : ",");
		free(sets);
		free(set);
		sets = more;
		devices -= here;
	}
	return sets;
}
