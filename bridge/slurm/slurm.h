/*-------------------------------------------------------------------------
 *
 * slurm.h
 *		The Slurm bridge: two processes that share a configuration.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_BRIDGE_SLURM_H
#define GPUCREDIT_BRIDGE_SLURM_H

#include <libpq-fe.h>
#include <stdbool.h>

typedef struct SlurmConfig
{
	char	   *database;		/* a libpq connection string */
	char	   *pool;
	char	   *tier;
	char	   *socket;			/* where job_submit.lua sends its questions */
	char	   *accounts;		/* a file: SLURM_ACCOUNT ORG [ACCOUNT] */
	char	   *hold_window;	/* an interval; empty: all of the time limit */
	char	   *refuse;			/* the reasons to refuse at sbatch, beside
								 * final ones */
	char	   *bin;			/* the folder of squeue, scontrol, scancel */
	char	   *records;		/* where the script "record" writes; empty: it
								 * is not used */
	long		interval_ms;	/* between two sweeps */
	long		grace_s;		/* how long after its time limit Slurm may end
								 * a job */
} SlurmConfig;

/* Whose credit a Slurm account spends. */
typedef struct SlurmPayer
{
	char	   *org;
	char	   *account;
} SlurmPayer;

extern SlurmConfig slurm;

/* config.c */
extern void SlurmConfigRead(const char *path);
extern bool PayerFind(const char *slurm_account, SlurmPayer *payer);
extern void PayerFree(SlurmPayer *payer);

/* sql.c: NULL: the database is away */
extern PGresult * SqlCall(const char *sql, int n, const char *const *values);
extern PGresult * Reserve(const SlurmPayer *payer, const char *key,
						  const char *request, long minutes,
						  const char *spec, bool in_vain);

/* gate.c, sweep.c: a process each */
extern void GateRun(int listener)
			__attribute__((noreturn));
extern void SweepRun(void)
			__attribute__((noreturn));

#endif							/* GPUCREDIT_BRIDGE_SLURM_H */
