/*-------------------------------------------------------------------------
 *
 * step_layout.c
 *		Assigns the tasks of a step to nodes and devices of its job.
 *
 * Steps that request GPUs have them exclusively, and with --exclusive their
 * CPUs too. No table stores the assignment: srun locks a byte of the file
 * "taken" for each device and CPU, and the kernel releases the locks when the
 * process ends, for whatever reason. A step that finds too little waits.
 *
 * Lock order: the byte of the whole file first, then those of devices and
 * CPUs.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"
#include "memory.h"
#include "step_layout.h"

#define NODE_BYTES	8192		/* bytes of the file "taken" for each node */
#define FIRST_CPU	64			/* index of the first CPU's byte; the devices'
								 * bytes precede it */
#define WHOLE_FILE	((off_t) NODE_BYTES * STEP_NODES)
#define RETRY_US	50000

static void count_nodes_and_tasks(StepLayout *layout, StepAsk *ask);
static int	usable(const StepLayout *layout, const StepAsk *ask, int node);
static bool listed(const char *list, const char *name);
static int	tasks_of(const StepLayout *layout, const StepAsk *ask, int i);
static int	gpus_of(const StepLayout *layout, const StepAsk *ask, int i,
					int ntasks);
static bool lay_out(StepLayout *layout, const StepAsk *ask, int taken,
					bool *never);
static bool claim(StepLayout *layout, const StepAsk *ask, int taken, int node,
				  int gpus, bool *never);
static bool lock_byte(int fd, off_t at, int type, bool waits);
static void release_all(StepLayout *layout, int taken);
static int	next_step(const char *folder);

void
StepFail(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	fprintf(stderr, "%s: error: ", program_invocation_short_name);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

/*
 * Reads the nodes of the job, as its agent wrote them.
 */
void
StepLayoutRead(StepLayout *layout, const char *folder)
{
	char	   *text = FileGet(-1, Format("%s/nodes", folder), NULL);
	char	   *rest = text;
	char	   *line = text == NULL ? NULL : strsep(&rest, "\n");
	const char *cpus = getenv("SLURM_CPUS_ON_NODE");

	if (line == NULL)
		StepFail("could not read %s/nodes: %s", folder, strerror(errno));
	layout->rank = atoi(line);
	layout->cpus = cpus == NULL || atoi(cpus) < 1 ? 1 : atoi(cpus);
	while ((line = strsep(&rest, "\n")) != NULL && *line != '\0')
	{
		StepNode   *node = &layout->nodes[layout->njob];

		if (layout->njob == STEP_NODES)
			StepFail("a job of more than %d nodes has no steps", STEP_NODES);
		node->name = strsep(&line, " ");
		node->address = strsep(&line, " ");
		node->gpus = line == NULL ? 0 : atoi(line);
		layout->njob++;
	}
}

/*
 * Chooses the step's nodes, and waits until its devices and CPUs are free.
 */
void
StepLayoutPlan(StepLayout *layout, StepAsk *ask, const char *folder)
{
	int			taken = open(Format("%s/taken", folder), O_RDWR | O_CLOEXEC);
	bool		told = false;
	bool		never = false;

	if (taken < 0)
		StepFail("could not open %s/taken: %s", folder, strerror(errno));
	count_nodes_and_tasks(layout, ask);
	for (;;)
	{
		bool		good;

		(void) lock_byte(taken, WHOLE_FILE, F_WRLCK, true);
		good = lay_out(layout, ask, taken, &never);
		if (good)
			layout->step = next_step(folder);
		(void) lock_byte(taken, WHOLE_FILE, F_UNLCK, true);
		if (good)
			return;
		if (never)
			StepFail("Unable to create step: the job has fewer GPUs or cpus"
					 " than the step asks for");
		if (!told)
			fputs("srun: Job step creation temporarily disabled, retrying"
				  " (Requested nodes are busy)\n", stderr);
		told = true;
		usleep(RETRY_US);
	}
}

/*
 * Determines the number of nodes and tasks that options do not define.
 */
static void
count_nodes_and_tasks(StepLayout *layout, StepAsk *ask)
{
	const char *all = getenv("SLURM_NTASKS");
	int			most = 0;

	for (int i = 0; i < layout->njob; i++)
		most += usable(layout, ask, i);
	if (most == 0)
		StepFail("the job has none of the nodes that are asked for");
	if (ask->nodes > most)
		StepFail("Unable to create step: %d nodes are asked for, and the job"
				 " has %d", ask->nodes, most);
	layout->nnodes = ask->nodes > 0 ? ask->nodes : most;
	if (ask->tasks > 0)
		layout->ntasks = ask->tasks;
	else if (ask->tasks_per_node > 0)
		layout->ntasks = layout->nnodes * ask->tasks_per_node;
	else if (ask->nodes > 0 && ask->nodes != layout->njob)
		layout->ntasks = layout->nnodes;
	else
		layout->ntasks = all == NULL || atoi(all) < 1 ? layout->nnodes :
			atoi(all);
	if (ask->nodes <= 0 && ask->tasks_per_node > 0)
		layout->nnodes = (layout->ntasks + ask->tasks_per_node - 1) /
			ask->tasks_per_node;
	if (layout->nnodes > most)
		StepFail("Unable to create step: %d tasks of %d a node need more nodes"
				 " than the job has", layout->ntasks, ask->tasks_per_node);
	if (layout->ntasks < layout->nnodes)
		layout->nnodes = layout->ntasks;
}

static int
usable(const StepLayout *layout, const StepAsk *ask, int node)
{
	return node >= ask->first &&
		(ask->node_list == NULL || listed(ask->node_list,
										  layout->nodes[node].name)) &&
		(ask->excluded == NULL || !listed(ask->excluded,
										  layout->nodes[node].name));
}

static bool
listed(const char *list, const char *name)
{
	char	   *padded = Format(",%s,", list);
	char	   *wanted = Format(",%s,", name);
	bool		found = strstr(padded, wanted) != NULL;

	free(padded);
	free(wanted);
	return found;
}

/*
 * Returns the number of tasks on the i-th node of the step: evenly
 * distributed, with more on the first nodes.
 */
static int
tasks_of(const StepLayout *layout, const StepAsk *ask, int i)
{
	int			most = ask->tasks_per_node;

	if (most > 0 && layout->nnodes * most >= layout->ntasks && !ask->cyclic)
	{
		int			rest = layout->ntasks - i * most;

		return rest < 0 ? 0 : rest > most ? most : rest;
	}
	return layout->ntasks / layout->nnodes +
		(i < layout->ntasks % layout->nnodes ? 1 : 0);
}

/*
 * Returns the number of GPUs that the step has exclusively on its i-th node,
 * or -1 if it shares all.
 */
static int
gpus_of(const StepLayout *layout, const StepAsk *ask, int i, int ntasks)
{
	if (ask->gpus_per_task >= 0)
		return ask->gpus_per_task * ntasks;
	if (ask->gpus_per_node >= 0)
		return ask->gpus_per_node;
	if (ask->gpus >= 0)
		return ask->gpus / layout->nnodes +
			(i < ask->gpus % layout->nnodes ? 1 : 0);
	return -1;
}

/*
 * Assigns each part of the step to a node that has what the part needs. Sets
 * "never" if the job's nodes can never satisfy it.
 */
static bool
lay_out(StepLayout *layout, const StepAsk *ask, int taken, bool *never)
{
	int			placed = 0;
	int			could = 0;

	for (int node = 0; node < layout->njob; node++)
	{
		layout->nodes[node].used = false;
		layout->nodes[node].nchosen = 0;
	}
	for (int node = 0; node < layout->njob && placed < layout->nnodes; node++)
	{
		bool		impossible = false;

		if (!usable(layout, ask, node))
			continue;
		layout->nodes[node].ntasks = tasks_of(layout, ask, placed);
		if (claim(layout, ask, taken, node,
				  gpus_of(layout, ask, placed, layout->nodes[node].ntasks),
				  &impossible))
		{
			layout->nodes[node].used = true;
			placed++;
		}
		could += !impossible;
	}
	if (placed == layout->nnodes)
		return true;
	release_all(layout, taken);
	*never = could < layout->nnodes;
	return false;
}

/*
 * Locks the devices and CPUs of a part on a node, if they are free.
 */
static bool
claim(StepLayout *layout, const StepAsk *ask, int taken, int node, int gpus,
	  bool *never)
{
	StepNode   *here = &layout->nodes[node];
	off_t		base = (off_t) node * NODE_BYTES;
	int			cpus = ask->exclusive && !ask->overlap ? here->ntasks *
		(ask->cpus_per_task > 0 ? ask->cpus_per_task : 1) : 0;
	int			got = 0;

	here->nchosen = 0;
	if (gpus > here->gpus || cpus > layout->cpus)
	{
		*never = true;
		return false;
	}
	for (int i = 0; i < here->gpus && here->nchosen < gpus; i++)
	{
		if (ask->overlap || lock_byte(taken, base + i, F_WRLCK, false))
			here->chosen[here->nchosen++] = i;
	}
	for (int i = 0; i < layout->cpus && got < cpus; i++)
		got += lock_byte(taken, base + FIRST_CPU + i, F_WRLCK, false);
	if ((gpus <= 0 || here->nchosen == gpus) && got == cpus)
		return true;
	here->nchosen = 0;
	(void) lock_byte(taken, base, F_UNLCK, true);
	return false;
}

/*
 * Locks or unlocks a byte. Unlocking a byte unlocks all of its node.
 */
static bool
lock_byte(int fd, off_t at, int type, bool waits)
{
	struct flock lock = {.l_type = (short) type, .l_whence = SEEK_SET,
		.l_start = at, .l_len = type == F_UNLCK && at != WHOLE_FILE ?
		NODE_BYTES : 1};

	return fcntl(fd, waits ? F_OFD_SETLKW : F_OFD_SETLK, &lock) == 0;
}

static void
release_all(StepLayout *layout, int taken)
{
	for (int node = 0; node < layout->njob; node++)
	{
		layout->nodes[node].nchosen = 0;
		(void) lock_byte(taken, (off_t) node * NODE_BYTES, F_UNLCK, true);
	}
}

/*
 * Returns the number of the next step, from 0. The caller holds the lock of
 * the file.
 */
static int
next_step(const char *folder)
{
	char	   *path = Format("%s/next", folder);
	char	   *text = FileGet(-1, path, NULL);
	int			step = text == NULL ? 0 : atoi(text);
	FILE	   *out = fopen(path, "we");

	if (out == NULL || fprintf(out, "%d\n", step + 1) < 0 ||
		fclose(out) != 0)
		StepFail("could not write %s: %s", path, strerror(errno));
	free(text);
	free(path);
	return step;
}

/*
 * Returns the node of a task, and the task's index there.
 */
int
StepLayoutNode(const StepLayout *layout, const StepAsk *ask, int task,
			   int *local)
{
	int			at = 0;
	int			place = 0;

	for (int node = 0; node < layout->njob; node++)
	{
		const StepNode *here = &layout->nodes[node];

		if (!here->used)
			continue;
		if (ask->cyclic ? task % layout->nnodes == place :
			task < at + here->ntasks)
		{
			*local = ask->cyclic ? task / layout->nnodes : task - at;
			return node;
		}
		at += here->ntasks;
		place++;
	}
	StepFail("task %d has no node", task);
}
