/*-------------------------------------------------------------------------
 *
 * srun_request.c
 *		Builds srun's request to a node: tasks, their environment and their
 *		files.
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "memory.h"
#include "srun.h"

extern char **environ;

static void put_environment(FILE *out, const Srun *srun,
							const StepLayout *layout);
static bool is_exported(const Srun *srun, const char *variable);
static void put_task(FILE *out, const Srun *srun, const StepLayout *layout,
					 int node, int task, int local);
static char *gpus_of(const Srun *srun, const StepNode *here, int local);
static char *nodes_of(const StepLayout *layout);
static char *tasks_per_node(const StepLayout *layout);
static void put(FILE *out, const char *key, const char *format,...)
			__attribute__((format(printf, 3, 4)));
static void put_unless_set(FILE *out, const char *name, int value);

/*
 * Builds the request to a node of the job. The caller frees it.
 */
char *
SrunRequest(const Srun *srun, const StepLayout *layout, int node, size_t *len)
{
	char	   *text;
	FILE	   *out = open_memstream(&text, len);
	char	   *here = srun->folder != NULL ? Dup(srun->folder) :
		getcwd(NULL, 0);

	if (out == NULL)
		Die("out of memory");
	put(out, "cwd", "%s", here == NULL ? "/" : here);
	for (int i = 0; i < srun->argc; i++)
		put(out, "arg", "%s", srun->argv[i]);
	put_environment(out, srun, layout);
	for (int task = 0; task < layout->ntasks; task++)
	{
		int			local;

		if (StepLayoutNode(layout, &srun->ask, task, &local) == node)
			put_task(out, srun, layout, node, task, local);
	}
	fclose(out);
	free(here);
	return text;
}

static void
put(FILE *out, const char *key, const char *format,...)
{
	va_list		args;

	va_start(args, format);
	fprintf(out, "%s=", key);
	vfprintf(out, format, args);
	fputc('\0', out);
	va_end(args);
}

/*
 * Writes srun's own environment, filtered by --export, and the variables that
 * all tasks have in common.
 */
static void
put_environment(FILE *out, const Srun *srun, const StepLayout *layout)
{
	char	   *nodes = nodes_of(layout);
	char	   *each = tasks_per_node(layout);
	char	   *list = Dup(srun->exported == NULL ? "" : srun->exported);
	char	   *rest = list;
	char	   *word;

	for (char **at = environ; *at != NULL; at++)
	{
		if (is_exported(srun, *at))
			put(out, "env", "%s", *at);
	}
	while ((word = strsep(&rest, ",")) != NULL)
	{
		if (strchr(word, '=') != NULL)
			put(out, "env", "%s", word);
	}
	put(out, "env", "SLURM_STEP_ID=%d", layout->step);
	put(out, "env", "SLURM_STEPID=%d", layout->step);
	put(out, "env", "SLURM_STEP_NODELIST=%s", nodes);
	put(out, "env", "SLURM_STEP_NUM_NODES=%d", layout->nnodes);
	put(out, "env", "SLURM_STEP_NUM_TASKS=%d", layout->ntasks);
	put(out, "env", "SLURM_STEP_TASKS_PER_NODE=%s", each);
	put(out, "env", "SLURM_TASKS_PER_NODE=%s", each);
	put(out, "env", "SLURM_NTASKS=%d", layout->ntasks);
	put(out, "env", "SLURM_NPROCS=%d", layout->ntasks);
	put(out, "env", "SLURM_NNODES=%d", layout->nnodes);
	put(out, "env", "SLURM_NODELIST=%s", nodes);
	put_unless_set(out, "WORLD_SIZE", layout->ntasks);
	put_unless_set(out, "NNODES", layout->nnodes);
	if (srun->ask.cpus_per_task > 0)
		put(out, "env", "SLURM_CPUS_PER_TASK=%d", srun->ask.cpus_per_task);
	free(nodes);
	free(each);
	free(list);
}

/*
 * Whether a variable is passed to the tasks: all are, unless --export names
 * some. Variables that the agent set for the node where srun runs are not
 * passed, and neither are those that are set anew below.
 */
static bool
is_exported(const Srun *srun, const char *variable)
{
	static const char *const anew[] = {"GPUCREDIT_", "SLURM_STEP", "SLURM_NTASKS=",
		"SLURM_NPROCS=", "SLURM_NNODES=", "SLURM_NODELIST=",
		"SLURM_TASKS_PER_NODE=", "SLURM_PROCID=", "SLURM_LOCALID=",
		"SLURM_NODEID=", "SLURM_GTIDS=", "SLURMD_NODENAME=", "SLURM_TASK_PID=",
	"CUDA_VISIBLE_DEVICES=", "NVIDIA_VISIBLE_DEVICES="};
	char	   *padded;
	char	   *name;
	bool		named;

	for (size_t i = 0; i < sizeof(anew) / sizeof(anew[0]); i++)
	{
		if (strncmp(variable, anew[i], strlen(anew[i])) == 0)
			return strncmp(variable, "GPUCREDIT_SAVE_TO=", 18) == 0;
	}
	if (srun->ask.cpus_per_task > 0 &&
		strncmp(variable, "SLURM_CPUS_PER_TASK=", 20) == 0)
		return false;
	if (srun->exported == NULL || strncmp(variable, "SLURM_", 6) == 0)
		return true;
	padded = Format(",%s,", srun->exported);
	name = Format(",%.*s,", (int) strcspn(variable, "="), variable);
	named = strstr(padded, ",ALL,") != NULL || strstr(padded, name) != NULL;
	if (named)
	{
		/* A value that --export gives is written later. */
		char	   *given = Format(",%.*s=", (int) strcspn(variable, "="),
								   variable);

		named = strstr(padded, given) == NULL;
		free(given);
	}
	free(padded);
	free(name);
	return named;
}

/* Writes a variable unless the script has set it already. */
static void
put_unless_set(FILE *out, const char *name, int value)
{
	if (getenv(name) == NULL)
		put(out, "env", "%s=%d", name, value);
}

/*
 * Writes a task: its number, its devices, and its own files.
 */
static void
put_task(FILE *out, const Srun *srun, const StepLayout *layout, int node,
		 int task, int local)
{
	const StepNode *here = &layout->nodes[node];
	char	   *gpus = gpus_of(srun, here, local);
	int			place = 0;

	for (int i = 0; i < node; i++)
		place += layout->nodes[i].used;
	put(out, "task", "%d %s", task, gpus);
	put(out, "taskenv", "SLURM_PROCID=%d", task);
	put(out, "taskenv", "SLURM_LOCALID=%d", local);
	put(out, "taskenv", "SLURM_NODEID=%d", place);
	put(out, "taskenv", "SLURMD_NODENAME=%s", here->name);
	put(out, "taskenv", "SLURM_GTIDS=%d", task);
	if (getenv("RANK") == NULL)
		put(out, "taskenv", "RANK=%d", task);
	if (getenv("LOCAL_RANK") == NULL)
		put(out, "taskenv", "LOCAL_RANK=%d", local);
	if (getenv("LOCAL_WORLD_SIZE") == NULL)
		put(out, "taskenv", "LOCAL_WORLD_SIZE=%d", here->ntasks);
	if (getenv("NODE_RANK") == NULL)
		put(out, "taskenv", "NODE_RANK=%d", place);
	if (strcmp(gpus, "all") != 0)
		put(out, "taskenv", "SLURM_STEP_GPUS=%s", gpus);
	put(out, "taskenv", "SLURM_GPUS_ON_NODE=%d",
		here->nchosen > 0 ? here->nchosen : here->gpus);
	if (srun->output != NULL && SrunFileOfTask(srun->output))
		put(out, "output", "%s", SrunFile(srun, layout, srun->output, node,
										  task));
	if (srun->error != NULL && SrunFileOfTask(srun->error))
		put(out, "error", "%s", SrunFile(srun, layout, srun->error, node,
										 task));
	else if (srun->error == NULL && srun->output != NULL &&
			 SrunFileOfTask(srun->output))
		put(out, "error", "%s", SrunFile(srun, layout, srun->output, node,
										 task));
	free(gpus);
}

/*
 * Returns the devices of a task: its own with --gpus-per-task, otherwise all
 * that the step has on the task's node.
 */
static char *
gpus_of(const Srun *srun, const StepNode *here, int local)
{
	int			each = srun->ask.gpus_per_task;
	int			from = each >= 0 ? local * each : 0;
	int			to = each >= 0 ? from + each : here->nchosen;
	char	   *list;

	if (each < 0 && srun->ask.gpus < 0 && srun->ask.gpus_per_node < 0)
		return Dup("all");
	list = Dup("");
	for (int i = from; i < to && i < here->nchosen; i++)
	{
		char	   *more = Format("%s%s%d", list, *list == '\0' ? "" : ",",
								  here->chosen[i]);

		free(list);
		list = more;
	}
	return list;
}

/*
 * Returns the names of the step's nodes, separated by commas.
 */
static char *
nodes_of(const StepLayout *layout)
{
	char	   *list = Dup("");

	for (int i = 0; i < layout->njob; i++)
	{
		char	   *more;

		if (!layout->nodes[i].used)
			continue;
		more = Format("%s%s%s", list, *list == '\0' ? "" : ",",
					  layout->nodes[i].name);
		free(list);
		list = more;
	}
	return list;
}

/* Formats the number of tasks on each node as Slurm does: "4(x2),3". */
static char *
tasks_per_node(const StepLayout *layout)
{
	char	   *list = Dup("");

	for (int i = 0; i < layout->njob;)
	{
		int			n = layout->nodes[i].ntasks;
		int			times = 0;
		char	   *more;

		for (; i < layout->njob; i++)
		{
			if (!layout->nodes[i].used)
				continue;
			if (layout->nodes[i].ntasks != n && times > 0)
				break;
			n = layout->nodes[i].ntasks;
			times++;
		}
		if (times == 0)
			break;
		more = times == 1 ? Format("%s%s%d", list, *list == '\0' ? "" : ",",
								   n) :
			Format("%s%s%d(x%d)", list, *list == '\0' ? "" : ",", n, times);
		free(list);
		list = more;
	}
	return list;
}

/*
 * Whether a pattern names a file for each task or node. If it does not, srun
 * itself writes the file.
 */
bool
SrunFileOfTask(const char *pattern)
{
	for (const char *at = pattern; *at != '\0'; at++)
	{
		if (*at != '%')
			continue;
		while (isdigit((unsigned char) at[1]))
			at++;
		if (at[1] != '\0' && strchr("tnN", at[1]) != NULL)
			return true;
		if (at[1] == '%')
			at++;
	}
	return false;
}

/*
 * Expands a pattern to the name of the file for a task on a node.
 */
char *
SrunFile(const Srun *srun, const StepLayout *layout, const char *pattern,
		 int node, int task)
{
	char	   *name;
	size_t		len;
	FILE	   *out = open_memstream(&name, &len);
	const char *job = getenv("SLURM_JOB_ID");

	if (out == NULL)
		Die("out of memory");
	job = job == NULL ? "0" : job;
	for (const char *at = pattern; *at != '\0'; at++)
	{
		const char *field = at;
		int			width = 0;

		while (*field == '%' && isdigit((unsigned char) at[1]) && width < 10)
			width = width * 10 + *++at - '0';
		width = width > 10 ? 10 : width;
		if (*field != '%' || at[1] == '\0' ||
			strchr("jJAastnNxu%", at[1]) == NULL)
		{
			fwrite(field, 1, at - field + 1, out);
			continue;
		}
		switch (*++at)
		{
			case 'j':
			case 'A':
				fprintf(out, "%0*lld", width, atoll(job));
				break;
			case 'J':
				fprintf(out, "%s.%d", job, layout->step);
				break;
			case 'a':
				fputs(getenv("SLURM_ARRAY_TASK_ID") == NULL ? "4294967294" :
					  getenv("SLURM_ARRAY_TASK_ID"), out);
				break;
			case 's':
				fprintf(out, "%0*d", width, layout->step);
				break;
			case 't':
				fprintf(out, "%0*d", width, task);
				break;
			case 'n':
				fprintf(out, "%0*d", width, node);
				break;
			case 'N':
				fputs(layout->nodes[node].name, out);
				break;
			case 'x':
				fputs(srun->name != NULL ? srun->name : "", out);
				break;
			case 'u':
				fputs(getenv("USER") == NULL ? "" : getenv("USER"), out);
				break;
			default:
				fputc('%', out);
		}
	}
	fclose(out);
	return name;
}
