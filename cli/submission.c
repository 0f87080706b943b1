/*-------------------------------------------------------------------------
 *
 * submission.c
 *		Builds the arguments of reserve() from Slurm's options.
 *
 * Slurm's options count per node, task and GPU; reserve() takes the counts of
 * the whole job (counts.c). The scheduler decides on how many nodes a job
 * runs: --nodes only multiplies the counts per node, except that a job of one
 * node stays on one node.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "submission.h"

/*
 * Variables that --export=ALL leaves out: secrets of the login, and what
 * belongs to the session, the terminal or the job in which the command runs.
 * So a submission whose answer was lost is the same one when it is repeated
 * from another session. A name that ends with "*" stands for all that begin
 * so. --export=NAME copies any of them.
 */
static const char *const left_out[] = {
	"PGPASSWORD", "PGPASSFILE", "PGSERVICE", "PGSERVICEFILE", "PGSSLKEY",
	"PGSSLCERT", "GPUCREDIT_*", "SLURM_*", "SLURMD_*", "SBATCH_*", "SRUN_*",
	"TMPDIR", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "OLDPWD", "_",
	"SSH_*", "XDG_SESSION_*", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
	"DISPLAY", "XAUTHORITY", "TMUX*", "STY", "WINDOWID", "COLUMNS", "LINES",
	"SHLVL"
};

extern char **environ;

static json_t * environment(const StoredSubmission *s);
static void carry_all(json_t * env);
static bool is_left_out(const char *name);
static void carry(json_t * env, const char *name);
static void put_exported(json_t * env, const char *name, const char *value);
static void put_slurm_variables(const StoredSubmission *s, json_t * env,
								const char *here);
static void put_variable(json_t * env, const char *name, const char *value);
static void put_count(json_t * env, const char *name, int64_t count);

char *
SubmissionRequest(const StoredSubmission *s)
{
	int64_t		gpus = SubmissionCounts(s).gpus;

	if (s->request != NULL)
		return Format("%s", s->request);
	if (gpus == 0)
		return Format("0");
	return Format("%lldx%s", (long long) gpus,
				  s->gpu_type == NULL ? "*" : s->gpu_type);
}

/*
 * Describes how the options were understood: "asks" of a dry run. A value that
 * the options leave open is null: the number of nodes, which the scheduler
 * chooses, tasks, of which each node then has one, and limits.
 */
json_t *
SubmissionAsks(const StoredSubmission *s)
{
	JobCounts	counts = SubmissionCounts(s);
	json_t	   *asks = json_object();

	json_object_set_new(asks, "nodes", counts.counts_nodes ?
						json_integer(counts.nodes) : json_null());
	json_object_set_new(asks, "tasks", counts.counts_tasks ?
						json_integer(counts.tasks) : json_null());
	json_object_set_new(asks, "gpus", json_integer(counts.gpus));
	json_object_set_new(asks, "cpus", counts.counts_cpus ?
						json_integer(counts.cpus) : json_null());
	json_object_set_new(asks, "memory_mib", counts.memory_mib > 0 ?
						json_integer(counts.memory_mib) : json_null());
	json_object_set_new(asks, "wall_seconds", s->seconds > 0 ?
						json_integer(s->seconds) : json_null());
	return asks;
}

/*
 * Describes the same as text. A value of --request is printed as it is.
 */
char *
SubmissionAsksText(const StoredSubmission *s)
{
	JobCounts	counts = SubmissionCounts(s);

	if (s->request != NULL)
		return Format("%s", s->request);
	return Format("GPUs %lld%s%s%s%s", (long long) counts.gpus,
				  counts.counts_nodes ?
				  Format(", nodes %lld", (long long) counts.nodes) : "",
				  counts.counts_tasks ?
				  Format(", tasks %lld", (long long) counts.tasks) : "",
				  counts.counts_cpus ?
				  Format(", cpus %lld", (long long) counts.cpus) : "",
				  counts.memory_mib > 0 ?
				  Format(", memory %lld MiB",
						 (long long) counts.memory_mib) : "");
}

/*
 * Builds the spec for the agent: program, environment and working folder.
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
	/* An image contains no srun, so each node gets its own process there. */
	if (s->launch != NULL || s->image == NULL)
		json_object_set_new(spec, "launch", json_string(s->launch != NULL ?
														s->launch : "once"));
	/* The present folder is unlikely to exist in an image. */
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
	if (s->signal != NULL)
		json_object_set(spec, "signal", s->signal);
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
 * Builds the environment by --export: NONE, ALL, or names and NAME=VALUE. The
 * default is ALL. An image has an environment of its own, so for an image the
 * default is NONE.
 */
static json_t *
environment(const StoredSubmission *s)
{
	json_t	   *env = json_object();
	char	   *list = Format("%s", s->exported != NULL ? s->exported :
							  s->image != NULL ? "NONE" : "ALL");
	char	   *save = NULL;

	for (char *word = strtok_r(list, ",", &save); word != NULL;
		 word = strtok_r(NULL, ",", &save))
	{
		char	   *value = strchr(word, '=');

		if (strcmp(word, "NONE") == 0 || strcmp(word, "NIL") == 0)
			continue;
		if (strcmp(word, "ALL") == 0)
			carry_all(env);
		else if (value == NULL)
			carry(env, word);
		else
		{
			*value++ = '\0';
			put_exported(env, word, value);
		}
	}
	free(list);
	return env;
}

static void
carry_all(json_t * env)
{
	for (char **at = environ; *at != NULL; at++)
	{
		size_t		length = strcspn(*at, "=");
		char	   *name = Format("%.*s", (int) length, *at);

		if (length > 0 && (*at)[length] == '=' && !is_left_out(name))
			put_exported(env, name, *at + length + 1);
		free(name);
	}
}

static bool
is_left_out(const char *name)
{
	for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
	{
		size_t		length = strcspn(left_out[i], "*");

		if (strncmp(name, left_out[i], length) == 0 &&
			(left_out[i][length] == '*' || name[length] == '\0'))
			return true;
	}
	return false;
}

static void
carry(json_t * env, const char *name)
{
	const char *value = getenv(name);

	if (value != NULL)
		put_exported(env, name, value);
}

/*
 * Sets a variable of the caller. The spec is JSON, which has no other texts
 * than UTF-8.
 */
static void
put_exported(json_t * env, const char *name, const char *value)
{
	if (json_object_set_new(env, name, json_string(value)) != 0)
		fprintf(stderr, "gpucredit: variable \"%s\" is not UTF-8 and does not"
				" reach the job\n", name);
}

/*
 * Sets the variables with which Slurm describes the submission to the script.
 * The agent adds those that depend on the nodes that the job gets.
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
	if (s->tasks > 0 || s->tasks_per_node > 0 || s->tasks_per_gpu > 0 ||
		s->gpus_per_task > 0)
		put_count(env, "SLURM_NTASKS", SubmissionCounts(s).tasks);
	if (s->array.indexes != NULL)
	{
		put_count(env, "SLURM_ARRAY_TASK_COUNT", s->array.n);
		put_variable(env, "SLURM_ARRAY_TASK_MIN",
					 Format("%lld", (long long) s->array.lowest));
		put_variable(env, "SLURM_ARRAY_TASK_MAX",
					 Format("%lld", (long long) s->array.highest));
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

/* Sets a variable to a count. A count of 0 was not requested. */
static void
put_count(json_t * env, const char *name, int64_t count)
{
	if (count > 0)
		json_object_set_new(env, name,
							json_string(Format("%lld", (long long) count)));
}
