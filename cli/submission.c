/*-------------------------------------------------------------------------
 *
 * submission.c
 *		From Slurm's counts to the arguments of reserve().
 *
 * Slurm counts per node, task and GPU; reserve() takes the whole job's.  The
 * scheduler decides how many nodes a job gets: --nodes multiplies counts per
 * node, and a job of one node stays on one.  As in Slurm, a job has a task a node
 * unless it says otherwise, and a task has one cpu.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "submission.h"

/* of the caller's environment, without --export */
static const char *const carried[] = {
	"PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV",
	"CONDA_PREFIX", "CONDA_DEFAULT_ENV"
};

extern char **environ;

static int64_t nodes_of(const StoredSubmission *s);
static int64_t tasks_of(const StoredSubmission *s);
static int64_t cpus_of(const StoredSubmission *s);
static json_t * environment(const StoredSubmission *s);
static void carry(json_t * env, const char *name);
static void put_slurm_variables(const StoredSubmission *s, json_t * env,
								const char *here);
static void put_variable(json_t * env, const char *name, const char *value);
static void put_count(json_t * env, const char *name, int64_t count);

static int64_t
nodes_of(const StoredSubmission *s)
{
	if (s->nodes == 0 && s->tasks > 0 && s->tasks_per_node > 0)
		return (s->tasks + s->tasks_per_node - 1) / s->tasks_per_node;
	return s->nodes > 0 ? s->nodes : 1;
}

static int64_t
tasks_of(const StoredSubmission *s)
{
	if (s->tasks > 0)
		return s->tasks;
	return nodes_of(s) * (s->tasks_per_node > 0 ? s->tasks_per_node : 1);
}

/*
 * Must its GPUs be on one node?  Those of --gpus alone may be anywhere.
 */
bool
SubmissionOnOneNode(const StoredSubmission *s)
{
	return nodes_of(s) == 1 && SubmissionGpus(s) > 1 &&
		(s->nodes == 1 || (s->gpus < 0 && s->gpus_per_node > 0));
}

int64_t
SubmissionGpus(const StoredSubmission *s)
{
	if (s->gpus >= 0)
		return s->gpus;
	if (s->gpus_per_node >= 0)
		return s->gpus_per_node * nodes_of(s);
	return s->gpus_per_task * tasks_of(s);
}

static int64_t
cpus_of(const StoredSubmission *s)
{
	if (s->cpus_per_gpu > 0)
		return s->cpus_per_gpu * SubmissionGpus(s);
	if (s->cpus_per_task == 0 && s->tasks == 0 && s->tasks_per_node == 0 &&
		s->memory_per_cpu_mib == 0)
		return 0;				/* it does not say */
	return tasks_of(s) * (s->cpus_per_task > 0 ? s->cpus_per_task : 1);
}

int64_t
SubmissionCpuMilli(const StoredSubmission *s)
{
	return cpus_of(s) * 1000;
}

int64_t
SubmissionMemoryMib(const StoredSubmission *s)
{
	if (s->memory_mib > 0)
		return s->memory_mib * nodes_of(s);
	if (s->memory_per_gpu_mib > 0)
		return s->memory_per_gpu_mib * SubmissionGpus(s);
	return s->memory_per_cpu_mib * cpus_of(s);
}

char *
SubmissionRequest(const StoredSubmission *s)
{
	int64_t		gpus = SubmissionGpus(s);

	if (s->request != NULL)
		return CliFormat("%s", s->request);
	if (gpus == 0)
		return CliFormat("0");
	return CliFormat("%lldx%s", (long long) gpus,
					 s->gpu_type == NULL ? "*" : s->gpu_type);
}

/*
 * The spec for the agent: program, environment, working folder.
 */
char *
SubmissionSpec(const StoredSubmission *s)
{
	json_t	   *spec = json_object();
	json_t	   *env;
	json_t	   *args = json_array();
	char	   *here = getcwd(NULL, 0);
	char	   *text;

	json_object_set_new(spec, "script", json_string(s->script));
	for (int i = 0; i < s->nargs; i++)
		json_array_append_new(args, json_string(s->args[i]));
	if (s->nargs > 0)
		json_object_set_new(spec, "args", args);
	if (s->image != NULL)
		json_object_set_new(spec, "image", json_string(s->image));
	/* an image has no srun, so there each node has its own process */
	if (s->launch != NULL || s->image == NULL)
		json_object_set_new(spec, "launch", json_string(s->launch != NULL ?
														s->launch : "once"));
	/* this folder is hardly in an image */
	if (s->workdir != NULL || s->image == NULL)
		json_object_set_new(spec, "workdir",
							json_string(s->workdir != NULL ? s->workdir :
										here == NULL ? "/" : here));
	env = environment(s);
	put_slurm_variables(s, env, here);
	json_object_set_new(spec, "env", env);
	if (s->name != NULL)
		json_object_set_new(spec, "name", json_string(s->name));
	if (s->output != NULL)
		json_object_set_new(spec, "output", json_string(s->output));
	if (s->error != NULL)
		json_object_set_new(spec, "error", json_string(s->error));
	if (s->checkpoint_signal != NULL)
		json_object_set_new(spec, "checkpoint_signal",
							json_string(s->checkpoint_signal));
	if (s->checkpoint_every != NULL)
		json_object_set_new(spec, "checkpoint_every",
							json_string(s->checkpoint_every));
	text = json_dumps(spec, JSON_COMPACT | JSON_SORT_KEYS);
	if (text == NULL)
		Fail(CLI_USAGE, "the script, its arguments or the environment are not"
			 " UTF-8");
	free(here);
	json_decref(spec);
	return text;
}

/*
 * --export: NONE, ALL, or names and NAME=VALUE.  By default a few variables
 * that a program needs to start, as all would seldom fit into 8 kB.
 */
static json_t *
environment(const StoredSubmission *s)
{
	json_t	   *env = json_object();
	const char *wanted = s->exported;
	char	   *list;
	char	   *save = NULL;

	if (wanted == NULL)
	{
		for (size_t i = 0; s->image == NULL && i < sizeof(carried) / sizeof(carried[0]); i++)
			carry(env, carried[i]);
		return env;
	}
	list = CliFormat("%s", wanted);
	for (char *word = strtok_r(list, ",", &save); word != NULL;
		 word = strtok_r(NULL, ",", &save))
	{
		char	   *value = strchr(word, '=');

		if (strcmp(word, "NONE") == 0 || strcmp(word, "NIL") == 0)
			continue;
		if (strcmp(word, "ALL") == 0)
		{
			for (char **at = environ; *at != NULL; at++)
				carry(env, CliFormat("%.*s", (int) strcspn(*at, "="), *at));
		}
		else if (value == NULL)
			carry(env, word);
		else
		{
			*value++ = '\0';
			json_object_set_new(env, word, json_string(value));
		}
	}
	free(list);
	return env;
}

static void
carry(json_t * env, const char *name)
{
	const char *value = getenv(name);

	if (value != NULL)
		json_object_set_new(env, name, json_string(value));
}

/*
 * What Slurm tells a script of its submission.  The agent adds what depends on
 * the nodes that the job gets.
 */
static void
put_slurm_variables(const StoredSubmission *s, json_t * env, const char *here)
{
	char		host[256] = "";

	if (gethostname(host, sizeof(host) - 1) != 0)
		host[0] = '\0';
	put_variable(env, "SLURM_SUBMIT_DIR", here);
	put_variable(env, "SLURM_SUBMIT_HOST", *host == '\0' ? NULL : host);
	put_variable(env, "SLURM_JOB_NAME", s->name);
	put_variable(env, "SLURM_JOB_PARTITION", s->pool != NULL ? s->pool :
				 "default");
	put_variable(env, "SLURM_JOB_QOS", s->tier != NULL ? s->tier :
				 "standard_training");
	put_variable(env, "SLURM_JOB_ACCOUNT", s->account != NULL ? s->account :
				 cli_account);
	if (s->tasks > 0 || s->tasks_per_node > 0)
		put_count(env, "SLURM_NTASKS", tasks_of(s));
	if (s->array.indexes != NULL)
	{
		put_count(env, "SLURM_ARRAY_TASK_COUNT", s->array.n);
		put_variable(env, "SLURM_ARRAY_TASK_MIN",
					 CliFormat("%lld", (long long) s->array.lowest));
		put_variable(env, "SLURM_ARRAY_TASK_MAX",
					 CliFormat("%lld", (long long) s->array.highest));
		put_count(env, "SLURM_ARRAY_TASK_STEP", s->array.step);
	}
	put_count(env, "SLURM_NTASKS_PER_NODE", s->tasks_per_node);
	put_count(env, "SLURM_CPUS_PER_TASK", s->cpus_per_task);
	put_count(env, "SLURM_GPUS_PER_TASK", s->gpus_per_task);
}

static void
put_variable(json_t * env, const char *name, const char *value)
{
	if (value != NULL)
		json_object_set_new(env, name, json_string(value));
}

/* one that is 0 was not asked for */
static void
put_count(json_t * env, const char *name, int64_t count)
{
	if (count > 0)
		json_object_set_new(env, name,
							json_string(CliFormat("%lld", (long long) count)));
}
