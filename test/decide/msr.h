/*
 * msr.h
 *	  The replay of the msr trace: its jobs, tenants and cluster.
 */
#ifndef MSR_H
#define MSR_H

#include "world.h"

#define SECOND		INT64_C(1000000)
#define DAY			(86400 * SECOND)
#define TYPES		3
#define TENANTS		32
#define LEARNT		20
#define LEARN_FROM	5
#define FIFO_HEAD	16
#define GANG		17			/* number of GPUs from which a job is reported
								 * separately */

typedef struct MsrJob
{
	int64_t		submitted;
	int64_t		run[TYPES];		/* run on V100, P100, K80 */
	int64_t		wall;
	int64_t		started;		/* -1 while it waits */
	int64_t		ended;
	int			tenant;
	int			gpus;
	int			type;
	int			n_parts;
	DecidePart *parts;
} MsrJob;

typedef enum MsrPolicy
{
	MSR_FIFO, MSR_BACKFILL, MSR_DEFAULT, MSR_SHORTEST
} MsrPolicy;

/* A pool's settings. */
typedef struct MsrSetting
{
	const char *name;
	MsrPolicy	policy;
	int64_t		max_wait;		/* max_wait of the tier */
	int64_t		gang_wait;		/* max_wait of the gangs' tier, which has the
								 * same rank */
	int64_t		halflife;		/* gpucredit.usage_halflife */
	int			depth;			/* gpucredit.backfill_depth */
	double		least_gain;		/* target for FIFO's mean wait divided by this
								 * one's, or 0 */
} MsrSetting;

typedef struct Tenant
{
	char		name[32];
	int			ratios[LEARNT]; /* thousandths of their wall limits for which
								 * the last jobs ran */
	int			n_ratios;
	int			learnt;			/* 75th percentile of ratios */
	int64_t		usage;			/* decayed use at the time of the last event */
	int			running;		/* number of GPUs in use */
	int			waiting;
	/* on this day, in GPU-microseconds */
	double		got;
	double		wanted;
	double		due;
	bool		idle;			/* the tenant wanted no devices at some time
								 * of the day */
} Tenant;

typedef struct Sim
{
	const MsrSetting *setting;
	int			types;
	World		world;			/* the world, of which the nodes are used */
	MsrJob	   *jobs;
	int			n_jobs;
	int			next;			/* index of the next job to submit */
	Tenant		tenants[TENANTS];
	int			n_tenants;
	int		   *queue;
	int			n_queue;
	int		   *running;
	int			n_running;
	int64_t		now;
	int			devices;
	double		busy;			/* GPU-microseconds in use until the last
								 * submission */
	long		days;			/* days of tenants that wanted devices all day */
	long		days_fair;
	Pool		pool;
} Sim;

/* The result, in hours. */
typedef struct MsrOutcome
{
	double		completion;
	double		p95;
	double		wait;
	double		gang_completion;
	double		gang_wait;
	double		busy;			/* part of the devices in use until the last
								 * submission */
	double		fair;			/* part of the tenant-days with a fair share */
	long		days;
} MsrOutcome;

/* msr.c */
extern int	msr_read(const char *folder, uint64_t seed, Sim *sim);
extern void msr_nodes(Sim *sim);
extern const char *msr_replay(Sim *sim);

/* msr_report.c */
extern void msr_pass(Sim *sim, int64_t until);

#endif							/* MSR_H */
