/*-------------------------------------------------------------------------
 *
 * slurm_job.h
 *		A job as squeue reports it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_BRIDGE_SLURM_JOB_H
#define GPUCREDIT_BRIDGE_SLURM_JOB_H

#include <jansson.h>
#include <stdbool.h>

typedef enum SlurmState
{
	SLURM_WAITS,
	SLURM_RUNS,
	SLURM_ENDED
} SlurmState;

/* Texts without a star belong to the answer of squeue. */
typedef struct SlurmJob
{
	SlurmState	state;
	bool		held;
	bool		ran;
	char	   *uuid;
	char	   *name;			/* UUID[_TASK]:RESTARTS */
	char	   *id;				/* for scontrol: JOB or ARRAY_TASK */
	char	   *gpus;			/* of each node, as a gpuset[]; empty: unknown */
	long		devices;		/* of all nodes; -1: unknown */
	long		least;			/* devices that it asks for */
	long		most;			/* that Slurm may give it */
	char		type[64];		/* empty: any */
	bool		whole;			/* it gets all devices of its nodes */
	const char *account;
	const char *comment;
	const char *nodes;			/* "n[1-2]" */
	char	   *node_list;		/* a copy's, or a record's, nodes */
	char	   *payer;			/* a record's account */
	long		minutes;		/* 0: no limit */
	int			n_nodes;
	int			most_nodes;
	int			restarts;
	long long	start;			/* seconds of the epoch; 0: it has not started */
	long long	end;
	long long	number;			/* of an array, the array's */
	int			n_tasks;		/* that the row stands for, at least 1 */
	int		   *tasks;			/* their numbers, -1: no array */
} SlurmJob;

extern json_t * SlurmJobs(void);
extern bool SlurmJobParse(const json_t * row, SlurmJob *job);
extern void SlurmJobTask(SlurmJob *job, int t);
extern SlurmJob *SlurmJobCopy(const SlurmJob *job);
extern void SlurmJobFree(SlurmJob *job);
extern char *SlurmNodes(const char *list);
extern char *SlurmAnyDevices(int n_nodes, long devices, int from);

#endif							/* GPUCREDIT_BRIDGE_SLURM_JOB_H */
