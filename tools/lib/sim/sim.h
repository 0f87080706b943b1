/*
 * sim.h
 *	  The simulator: a trace of jobs, a cluster, a policy, and what people
 *	  would have felt.
 *
 * All instants are microseconds since the trace's first submission.  The
 * program ends with a message where memory or a file fails.
 */
#ifndef SIM_H
#define SIM_H

#include "decide/capacity/capacity.h"
#include "decide/decide.h"

#define SECOND		INT64_C(1000000)
#define HOUR		(3600 * SECOND)
#define DAY			(24 * HOUR)
#define SIM_TYPES	8			/* GPU types of a trace or cluster */
#define SIM_TIERS	5
#define SIM_GANG	17			/* GPUs from which a job counts as a gang */
#define LEARNT_RUNS	20			/* completed runs that an estimate looks at */

/* A job of the trace, and what became of it. */
typedef struct SimJob
{
	const char *name;			/* as the trace calls it */
	int32_t		tenant;
	int32_t		tier;
	int32_t		gpus;
	int64_t		submitted;
	int64_t		run[SIM_TYPES]; /* how long it works on a type; 0: it cannot
								 * use that type */
	int64_t		wall;			/* its wall limit */

	/* while it is simulated */
	int64_t		first_start;	/* -1: it has not started yet */
	int64_t		started;		/* of the present attempt; -1: it waits */
	int64_t		ends;			/* when the present attempt is over */
	int64_t		done;			/* work saved by earlier attempts, as a part of
								 * its run in millionths */
	int64_t		likely_run;		/* as learnt when the attempt started */
	int64_t		promised;		/* first latest_at; DECIDE_NEVER: none yet */
	bool		named;			/* a cycle named what broke such a promise */
	int64_t		expected;		/* first expected start; DECIDE_NEVER: none */
	int64_t		waited;			/* all its waiting together */
	int64_t		queued_at;		/* when its present wait began */
	int64_t		lost;			/* GPU-microseconds of work done twice */
	int32_t		type;
	int32_t		attempt;
	int32_t		evictions;
	int32_t		reclaims;		/* of these, for an account's entitlement */
	bool		reclaimed;		/* it leaves for that now */
	int32_t		n_parts;
	DecidePart *parts;
	bool		was_aged;		/* it was aged when its attempt started */
	bool		leaving;		/* it is told to leave, and saves */
	DecidePart *reserved;		/* devices that the last cycle reserved for it */
	int32_t		n_reserved;
	int32_t		reserved_type;
	int64_t		reserved_at;
	int64_t		guaranteed;		/* the latest start that is guaranteed now */
	int32_t		for_job;		/* the job that it leaves for */
	bool		ended;
} SimJob;

typedef struct SimTenant
{
	char	   *name;
	int32_t		ratios[SIM_TIERS][LEARNT_RUNS]; /* run over wall limit of its
												 * last jobs, in millionths */
	int32_t		n_ratios[SIM_TIERS];
	int64_t		usage;			/* of attempts that are over, as the database
								 * keeps it: decayed until usage_at */
	int64_t		usage_at;
	int64_t		running;		/* GPUs */
	int64_t		waiting;

	/* of the present day, in GPU-microseconds */
	double		got;
	double		wanted;
	double		due;
	bool		idle;			/* it wanted nothing at some time of the day */
} SimTenant;

typedef struct SimTrace
{
	char	   *file;
	SimJob	   *jobs;			/* in order of submission */
	int32_t		n_jobs;
	SimTenant  *tenants;
	int32_t		n_tenants;
	char	   *types[SIM_TYPES];	/* those that the trace names; none: every
									 * type runs every job equally fast */
	int32_t		n_types;
	int64_t		n_skipped;		/* lines that are no jobs that ran */
} SimTrace;

/* So many nodes with so many GPUs of a type. */
typedef struct SimNodes
{
	char	   *type;
	int32_t		nodes;
	int32_t		gpus;
} SimNodes;

typedef enum SimPolicyKind
{
	SIM_FIFO,					/* yardsticks: they count GPUs, not nodes */
	SIM_EASY,
	SIM_SJF,
	SIM_CORE					/* the scheduler's own decision core */
} SimPolicyKind;

/* A policy, with the settings of a pool. */
typedef struct SimPolicy
{
	const char *name;
	SimPolicyKind kind;
	DecideOrder order;
	DecidePacking packing;
	bool		reclaim;
	bool		one_account;	/* no fair share: all jobs are one account's */
	bool		learn;			/* estimate runs from earlier ones */
	int32_t		depth;
	int64_t		max_wait;
	int64_t		min_run;
	int64_t		restart_cost;	/* gpucredit.restart_cost */
	int64_t		halflife;
	int64_t		fair_horizon;	/* seconds */
	int64_t		save_every;		/* between a job's checkpoints; DECIDE_NEVER:
								 * it never saves */
	int64_t		leave_time;		/* from the notice until it has left */
} SimPolicy;

/* What a replay came to; times in hours. */
typedef struct SimOutcome
{
	double		mean_wait;
	double		p95_wait;
	double		weighed_p95_wait;	/* by device time */
	double		longest_wait;
	double		slowdown;		/* mean bounded slowdown: (wait + run) / run,
								 * with runs of at least 10 s, at least 1 */
	double		utilisation;	/* until the last submission */
	double		evictions;		/* per job */
	int32_t		most_evictions;
	double		reclaims;		/* evictions for an entitlement, per job */
	int32_t		most_reclaims;
	double		lost;			/* part of the GPU time that was work done
								 * twice */
	double		gang_wait;		/* mean; negative: there is no gang */
	double		unfairness;		/* mean over tenant-days of the part of its
								 * ideal share that it did not get */
	double		fair_days;		/* part of the tenant-days with at least 0.8
								 * of the ideal share */
	int64_t		tenant_days;
	int64_t		promised;		/* jobs that were promised a latest start */
	int64_t		broken;			/* those that started later */
	int64_t		unnamed;		/* of these, without a cycle that named why */
	double		worst_break;	/* by so many hours */
	int64_t		expected;		/* jobs that waited and were expected to start
								 * at some time */
	double		expected_median;	/* by so many hours that was wrong */
	double		expected_p90;
	double		seconds;		/* how long the simulation took */
} SimOutcome;

/* A replay in progress. */
typedef struct Sim
{
	const SimPolicy *policy;
	SimTrace   *trace;
	DecideNode *nodes;
	int32_t		n_nodes;
	int32_t		n_types;
	char	   *types[SIM_TYPES];
	int64_t		devices;
	int64_t		now;
	int32_t		next;			/* the next job to submit */
	int32_t    *queue;			/* waiting jobs, in order of submission */
	int32_t		n_queue;
	int32_t    *running;
	int32_t		n_running;
	struct SimClaim *claims;	/* devices that waiting jobs were promised */
	int32_t		n_claims;
	int32_t		claims_size;
	double		busy;			/* GPU-microseconds until the last submission */
	double		worked;			/* all GPU-microseconds */
	double		missing;		/* sum over tenant-days */
	int64_t		days;
	int64_t		fair_days;
	bool		verify;			/* check each decision with independent code */
	bool		every_cycle;	/* decide also where nothing could start */
	int64_t		cycles;
	struct SimPlot *plot;
} Sim;

/* trace.c */
extern SimTrace *SimTraceRead(const char *file);
extern void SimTraceLimit(SimTrace *trace, int32_t n);
extern void SimTraceStretchWalls(SimTrace *trace, double least, double most,
								 uint64_t seed);
extern void SimTraceCompress(SimTrace *trace, double factor);
extern void SimTraceReset(SimTrace *trace);

/* trace_made.c */
extern SimTrace *SimTraceMake(const char *name, int64_t devices);

/* yardstick.c */
extern void SimYardstick(Sim *sim);

/* core.c */
extern void SimCore(Sim *sim);

/* advise.c */

/* The 95th percentile of waits on so many nodes, in hours. */
typedef double (*SimP95) (void *context, int nodes);

extern CapacityAnswer SimAdvice(const SimTrace *trace, int64_t wait,
								int32_t utilisation);
extern double SimLoad(const SimTrace *trace);
extern int	SimNodesNeeded(SimP95 p95, void *context, int least, double hours);

/* measure.c */
extern void SimPass(Sim *sim, int64_t until);
extern SimOutcome SimMeasure(const Sim *sim);

/* plot.c */
extern struct SimPlot *SimPlotOpen(const char *file);
extern void SimPlotPolicy(struct SimPlot *plot, const char *name);
extern void SimPlotSample(struct SimPlot *plot, int64_t at, double busy,
						  double waiting);
extern void SimPlotClose(struct SimPlot *plot);

/* main.c */
extern void SimDie(const char *form,...)
			__attribute__((format(printf, 1, 2), noreturn));
extern void *SimAlloc(size_t n, size_t size);
extern void *SimGrow(void *items, int32_t n, int32_t *capacity, size_t size);

#endif							/* SIM_H */
