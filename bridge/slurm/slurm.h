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
	char	   *database;		/* the libpq connection string */
	char	   *pool;
	char	   *tier;
	char	   *socket;			/* path of the socket where job_submit.lua
								 * sends its questions */
	char	   *accounts;		/* path of a file with lines SLURM_ACCOUNT ORG
								 * [ACCOUNT] */
	char	   *hold_window;	/* hold window as an interval; empty for a
								 * hold that covers the whole time limit */
	char	   *refuse;			/* reasons that are refused at sbatch in
								 * addition to final ones */
	char	   *bin;			/* the folder of squeue, scontrol and scancel */
	char	   *records;		/* the folder where the script "record"
								 * writes; empty if the script is not used */
	long		interval_ms;	/* time between two sweeps */
	long		grace_s;		/* how long after its time limit Slurm may end
								 * a job */
} SlurmConfig;

/* The account whose credit a Slurm account spends. */
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

/* sql.c; both functions return NULL if the database cannot be reached */
extern PGresult * SqlCall(const char *sql, int n, const char *const *values);
extern PGresult * Reserve(const SlurmPayer *payer, const char *key,
						  const char *request, long minutes,
						  const char *spec, bool in_vain);

/* gate.c and sweep.c; each function runs in a process of its own */
extern void GateRun(int listener)
			__attribute__((noreturn));
extern void SweepRun(void)
			__attribute__((noreturn));

#endif							/* GPUCREDIT_BRIDGE_SLURM_H */
