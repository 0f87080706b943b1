/*-------------------------------------------------------------------------
 *
 * step_layout.h
 *		Assigns the tasks of a step to nodes and devices of its job.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_STEP_LAYOUT_H
#define GPUCREDIT_AGENT_STEP_LAYOUT_H

#include <stdbool.h>

#define STEP_NODES	1024

/* The values of srun's options; -1 if an option was not given. */
typedef struct StepAsk
{
	int			tasks;
	int			nodes;
	int			tasks_per_node;
	int			cpus_per_task;
	int			gpus;			/* of the whole step */
	int			gpus_per_node;
	int			gpus_per_task;
	int			first;			/* index of the first of the job's nodes to
								 * use */
	const char *node_list;		/* nodes that may be used; NULL for any */
	const char *excluded;		/* nodes that may not be used; NULL for none */
	bool		cyclic;			/* task n runs on node n modulo the number of
								 * nodes */
	bool		exclusive;		/* no other step uses its CPUs */
	bool		overlap;		/* it shares all devices and CPUs */
} StepAsk;

/* A node of the job, and the step's part on it. */
typedef struct StepNode
{
	char	   *name;
	char	   *address;
	int			gpus;			/* number of the job's GPUs on the node */
	bool		used;
	int			ntasks;
	int			chosen[64];		/* the devices that the step has exclusively */
	int			nchosen;
} StepNode;

/* A job's nodes, and a step's use of them. */
typedef struct StepLayout
{
	int			rank;			/* index of the node where srun runs */
	int			njob;
	StepNode	nodes[STEP_NODES];
	int			cpus;			/* the job's CPUs on each node */
	int			nnodes;			/* number of nodes that the step uses */
	int			ntasks;
	int			step;			/* the step's number */
} StepLayout;

extern void StepLayoutRead(StepLayout *layout, const char *folder);
extern void StepLayoutPlan(StepLayout *layout, StepAsk *ask,
						   const char *folder);
extern int	StepLayoutNode(const StepLayout *layout, const StepAsk *ask,
						   int task, int *local);

extern void StepFail(const char *format,...)
			__attribute__((format(printf, 1, 2), noreturn));

#endif							/* GPUCREDIT_AGENT_STEP_LAYOUT_H */
