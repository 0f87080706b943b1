/*-------------------------------------------------------------------------
 *
 * run.h
 *		A run of a Slurm job, which is a job of the database.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SLURM_RUN_H
#define GPUCREDIT_SLURM_RUN_H

#include "slurm_job.h"

/* A run that the bridge knows. Times are on the monotonic clock. */
typedef struct Run
{
	char	   *name;			/* UUID:RESTARTS */
	char	   *org;
	long long	job;			/* number of the job in the database, or 0 if
								 * no credit is reserved yet */
	bool		open;			/* the job has not ended in the database */
	bool		waits;			/* its credit is held */
	bool		denied;			/* the last attempt to reserve was denied, or
								 * the Slurm account has no line in the file
								 * of accounts */
	bool		placed;			/* it has had an attempt */
	bool		idle;			/* the job waits in the database, funded or
								 * not */
	int			tries;			/* number of denied attempts to reserve */
	int64_t		next_ns;		/* when the next attempt to reserve is due */
	int64_t		pause_ns;
	int64_t		refused_ns;		/* when placed() first refused the run, or 0 */
	int64_t		over_ns;		/* since when Slurm has had no such run
								 * although its attempt runs in the database,
								 * or 0 */
	int64_t		seen_ns;		/* when Slurm last listed it */
	bool		forgotten;		/* Slurm has no such run, and the attempt is
								 * being stopped */
	SlurmJob   *seen;			/* copy of the job as it ran, for placing it
								 * later */
	struct Run *next;
} Run;

/* run_fund.c */
extern bool RunFund(Run *run, const SlurmJob *job);
extern bool RunFindOver(Run *run, const char *org);

#endif							/* GPUCREDIT_SLURM_RUN_H */
