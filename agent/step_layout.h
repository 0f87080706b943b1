/*-------------------------------------------------------------------------
 *
 * step_layout.h
 *		Which tasks of a step run on which nodes and devices of its job.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_STEP_LAYOUT_H
#define GPUCREDIT_AGENT_STEP_LAYOUT_H

#include <stdbool.h>

#define STEP_NODES	1024

/* What srun's options ask for; -1: no option. */
typedef struct StepAsk
{
	int			tasks;
	int			nodes;
	int			tasks_per_node;
	int			cpus_per_task;
	int			gpus;			/* of the whole step */
	int			gpus_per_node;
	int			gpus_per_task;
	int			first;			/* the first of the job's nodes to use */
	const char *node_list;		/* only these; NULL: any */
	const char *excluded;		/* not these; NULL: none */
	bool		cyclic;			/* task n on node n modulo nodes */
	bool		exclusive;		/* its cpus are no other step's */
	bool		overlap;		/* it shares everything */
} StepAsk;

/* A node of the job, and the step's part there. */
typedef struct StepNode
{
	char	   *name;
	char	   *address;
	int			gpus;			/* of the job */
	bool		used;
	int			ntasks;
	int			chosen[64];		/* the devices that the step has alone */
	int			nchosen;
} StepNode;

/* A job, and a step of it. */
typedef struct StepLayout
{
	int			rank;			/* of the node where srun runs */
	int			njob;
	StepNode	nodes[STEP_NODES];
	int			cpus;			/* of the job on each node */
	int			nnodes;			/* of the step */
	int			ntasks;
	int			step;			/* its number */
} StepLayout;

extern void StepLayoutRead(StepLayout *layout, const char *folder);
extern void StepLayoutPlan(StepLayout *layout, StepAsk *ask,
						   const char *folder);
extern int	StepLayoutNode(const StepLayout *layout, const StepAsk *ask,
						   int task, int *local);

extern void StepFail(const char *format,...)
			__attribute__((format(printf, 1, 2), noreturn));

#endif							/* GPUCREDIT_AGENT_STEP_LAYOUT_H */
