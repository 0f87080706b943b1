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

/* The texts that are declared const belong to the output of squeue. */
typedef struct SlurmJob
{
	SlurmState	state;
	bool		held;
	bool		never;			/* Slurm can never run the job */
	bool		shares;			/* the job asks for parts of a GPU */
	bool		ran;
	char	   *uuid;
	char	   *name;			/* UUID[_TASK]:RESTARTS */
	char	   *id;				/* the job as scontrol takes it: JOB or
								 * ARRAY_TASK */
	char	   *gpus;			/* the devices on each node, as a gpuset[];
								 * empty if unknown */
	long		devices;		/* number of devices on all nodes, or -1 if
								 * unknown */
	long		least;			/* the fewest devices that the job asks for */
	long		most;			/* the most devices that Slurm may give it */
	char		type[64];		/* the requested GPU type; empty for any */
	bool		whole;			/* the job gets all devices of its nodes */
	const char *account;
	const char *comment;
	const char *nodes;			/* host list, such as "n[1-2]" */
	char	   *node_list;		/* what "nodes" points to, in a copy or a
								 * record */
	char	   *payer;			/* what "account" points to, in a record */
	long		minutes;		/* the time limit, or 0 for none */
	int			n_nodes;
	int			most_nodes;
	int			restarts;
	long long	start;			/* seconds since the epoch; 0 if the job has
								 * not started */
	long long	end;
	long long	number;			/* the job's number; for an array, the array's */
	int			n_tasks;		/* how many tasks the row stands for, at least
								 * 1 */
	int		   *tasks;			/* numbers of the tasks; -1 for a job that is
								 * no array */
} SlurmJob;

extern json_t * SlurmJobs(void);
extern bool SlurmJobParse(const json_t * row, SlurmJob *job);
extern void SlurmJobTask(SlurmJob *job, int t);
extern SlurmJob *SlurmJobCopy(const SlurmJob *job);
extern void SlurmJobFree(SlurmJob *job);
extern char *SlurmNodes(const char *list);
extern char *SlurmAnyDevices(int n_nodes, long devices, int from);

#endif							/* GPUCREDIT_BRIDGE_SLURM_JOB_H */
