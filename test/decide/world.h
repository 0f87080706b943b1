/*
 * world.h
 *	  Clusters and queues for the tests of the decision core.
 *
 * A world owns its memory.  Types have names, so a permuted world with other
 * indexes and labels gives the same text.
 */
#ifndef WORLD_H
#define WORLD_H

#include <stdio.h>

#include "decide/decide.h"

#define WORLD_MAX_OFFERS 16
#define WORLD_FILTER_WORDS 4	/* A request's filter has room for 256 nodes. */

/*
 * Memory for one call; each piece is allocated separately, so that sanitizers
 * detect errors.
 */
typedef struct Pool
{
	void	  **pieces;
	int			n;
	int			room;
	long		fail_after;		/* number of allocations before NULL is
								 * returned; no limit if negative */
	size_t		bytes;
} Pool;

typedef struct World
{
	char	  **types;
	int			n_types;
	int			types_capacity;
	DecideType *weights;		/* weights of the types */
	int			weights_capacity;
	char	  **tier_names;
	int			tier_names_capacity;
	DecideTier *tiers;
	int			n_tiers;
	int			tiers_capacity;
	DecideAccount *accounts;
	int			n_accounts;
	int			accounts_capacity;
	DecideNode *nodes;
	int			n_nodes;
	int			nodes_capacity;
	DecideRequestClass *requests;
	int			n_requests;
	int			requests_capacity;
	DecideJob  *jobs;
	int			n_jobs;
	int			jobs_capacity;
	DecideWorkload *workloads;
	int			n_workloads;
	int			workload_capacity;
	DecideCached *cached;
	int			n_cached;
	int			cached_capacity;
	int			max_starts;
	int			max_evictions;
	int64_t		now;
	DecidePolicy policy;
	DecideRunning *running;
	int			n_running;
	int			running_capacity;
	DecidePart *parts;			/* parts of the running jobs */
	int			n_parts;
	int			parts_capacity;
	DecideClaim *claims;		/* claims of earlier cycles */
	int			n_claims;
	int			claims_capacity;
	DecidePart *claim_parts;
	int			n_claim_parts;
	int			claim_parts_capacity;
	DecidePreviousReservation *previous;	/* previous reservations */
	int			n_previous;
	int			previous_capacity;
	DecidePart *previous_parts;
	int			n_previous_parts;
	int			previous_parts_capacity;
	DecideQuota *quotas;
	int			n_quotas;
	int			quotas_capacity;
} World;

/* world.c */
extern void pool_init(Pool *pool);
extern void pool_free(Pool *pool);
extern DecideArena pool_arena(Pool *pool);
extern void world_init(World *world);
extern void world_free(World *world);
extern int	world_type(World *world, const char *name);
extern DecideNode *world_node(World *world, const char *name, int type,
							  int gpus);
extern int	world_request(World *world, const DecideRequestClass *request);
extern int	world_request_again(World *world,
								const DecideRequestClass *request);
extern int	world_tier(World *world, const char *name);
extern int	world_rank(World *world, int rank);
extern int	world_account(World *world, const char *name);
extern DecideJob *world_job(World *world, int request, const char *org,
							const char *account, int64_t id);
extern DecideRunning *world_running(World *world, const char *org,
									int64_t id);
extern DecidePart *world_part(World *world, DecideRunning *running);
extern int64_t share_memory(const DecideNode *node, int share);
extern void devices_allocate(DecideNode *node, const DecidePart *part, int share,
							 int sign);
extern DecideWorkload *world_workload(World *world,
									  const DecideRequestClass *request,
									  int64_t jobs);
extern void world_cached(World *world, int cache, int node);
extern DecideInput world_input(const World *world);
extern char *format(const char *form,...)
			__attribute__((format(printf, 1, 2)));

extern DecideClaim *world_claim(World *world, const char *org, int64_t id);
extern void world_leaves(DecideRunning *running, const char *org, int64_t id);
extern DecidePart *world_claim_part(World *world, DecideClaim *claim);
extern DecidePreviousReservation *world_previous(World *world, int job,
												 int type,
												 const DecidePart *parts,
												 int n_parts);

/* claims.c */
extern void running_request(World *world, DecideRunning *running,
							DecideTopology topology);
extern char *claim_line(World *world, char *line);
extern void claims_render(const World *world, const DecideResult *result,
						  FILE *out);
extern char *claims_expect(World *world, const DecideResult *result,
						   char *line);
extern void claims_permute(const World *world, uint64_t *seed,
						   const int *new_type, const int *new_node,
						   World *other);
extern void previous_permute(const World *world, uint64_t *seed,
							 const int *new_type, const int *new_node,
							 World *other);

/* next.c */
extern void world_next(const World *world, const DecideResult *result,
					   World *next);
extern void world_without(const World *world, const bool *gone, World *left);
extern char *next_error(const World *world, const DecideResult *result);

/* render.c */
extern int *random_order(uint64_t *seed, int n);
extern const char *type_name(const World *world, int type);
extern char *world_render(const World *world, const DecideResult *result,
						  const int *request_order);
extern char *earlier_error(const World *world, const DecideResult *result);
extern char *again_permuted(const World *world, const char *expected,
							uint64_t *seed);
extern char *again_starved(const World *world, const char *expected);
extern void world_permute(const World *world, uint64_t *seed, World *other,
						  int *request_order);
extern uint64_t random_next(uint64_t *seed);
extern int	random_below(uint64_t *seed, int n);
extern void set_format(char *text, size_t size, uint64_t devices);

/* main.c */
typedef struct Tap
{
	int			run;
	int			failed;
} Tap;

extern void tap_ok(Tap *tap, bool passed, const char *name, const char *why);

/* scenario.c, setting.c, request_digest.c, expect.c */
extern int	label_number(const char *name);
extern bool scenario_file(Tap *tap, const char *path);
extern bool settings_line(World *world, char *line, char **error);
extern char *expect_check(World *world, const DecideResult *result,
						  char *line);
extern char *request_parse(World *world, char *words,
						   DecideRequestClass *request,
						   DecideJob *job);
extern bool set_parse(const char *text, const char **end, uint64_t *devices);
extern bool number_parse(const char *text, int64_t *number);
extern bool time_parse(const char *text, int64_t *time);

extern int	job_find(const World *world, const char *name);
extern char *start_word(const World *world, const DecidePart *parts,
						const DecideStart *start, char *word, int *n_named);

/* guarantees.c */
extern char *previous_line(World *world, char *line);
extern char *expect_broken(const World *world, const DecideResult *result,
						   char *rest);
extern void guarantee_tests(Tap *tap, int instances);

/* expect_reserve.c */
extern char *expect_reserve(const World *world, const DecideResult *result,
							char *rest);
extern char *expect_likely(const World *world, const DecideResult *result,
						   char *rest);
extern char *expect_unreserved(const World *world,
							   const DecideResult *result, char *rest);

/* quotas.c */
extern void quotas_count(World *world, int account, int type, DecideUse use,
						 int sign);
extern DecideUse running_use(const World *world, const DecideRunning *running);
extern DecideQuota *world_quota(World *world, int account, int type);
extern void quotas_copy(const World *world, uint64_t *seed,
						const int *new_type, World *other);
extern void random_quotas(World *world, uint64_t *seed);
extern void quotas_halve(World *world);
extern char *quota_line(World *world, char *line);
extern char *expect_held(const World *world, const DecideResult *result,
						 char *rest);

/* running.c */
extern char *running_line(World *world, char *line);

/* oracle.c */
extern int64_t oracle_memory(const DecideNode *node,
							 const DecideRequestClass *request);
extern bool oracle_device(const DecideNode *node,
						  const DecideRequestClass *request,
						  int device);
extern int	oracle_largest(const DecideNode *nodes, int n_nodes,
						   const DecideRequestClass *request,
						   const DecideOffer *offer);
extern void oracle_fewest(const DecideNode *nodes, int n_nodes,
						  const DecideRequestClass *request,
						  const DecideOffer *offer,
						  int count, int *domains, int *leaves, int *used,
						  int *spines);
extern char *oracle_judge(const World *world, const DecideResult *result,
						  long *leaf_misses);

/* Who takes devices from others. */
/* Who takes devices from others. */
typedef struct Taker
{
	int			account;
	int			tier;
	bool		preempts;		/* its tier may preempt less important ones */
	int64_t		taken;			/* device-thousandths */
} Taker;

/*
 * The right by which victims leave for an entitlement: each account keeps its
 * own; or the largest victim may leave its account less; or the taker's
 * entitlement is rounded up.  From ORACLE_RAISED on these are the same three
 * rights if the taker asks for everything.
 */
typedef enum OracleRight
{
	ORACLE_EXACT = 0, ORACLE_UNDER, ORACLE_ROUNDED, ORACLE_RAISED,
	ORACLE_RAISED_UNDER, ORACLE_RAISED_ROUNDED, ORACLE_RIGHTS
} OracleRight;

extern bool oracle_may_evict(const World *world, const Taker *taker,
							 uint64_t set, OracleRight right);

/* A node with a job on it. */

/* A node once a job is on it. */
typedef struct Trial
{
	const DecideNode *node;
	uint64_t	devices;		/* devices of the job */
	int			share;			/* share of each device */
	int64_t		cpu;
	int64_t		memory;
	int64_t		gpu_memory;		/* memory of each device in MiB, if shared */
} Trial;

extern int64_t oracle_near(const DecideNode *nodes, int n_nodes, int node);
extern int64_t oracle_fgd(const World *world, const Trial *trial);
extern int64_t oracle_spread(const Trial *trial, int64_t loss);

/* oracle_order.c */
typedef struct OracleQueue OracleQueue;

extern OracleQueue *oracle_queue(const World *world);
extern int	oracle_next(OracleQueue *queue);
extern void oracle_started(OracleQueue *queue, int job, int type, int gpus);
extern void oracle_failed(OracleQueue *queue, int job);
extern void oracle_queue_free(OracleQueue *queue);

/* msr_report.c */
extern int	msr_all(const char *folder, int clusters, int seed);

/* aged.c */
extern void aged_tests(Tap *tap);

/* decay.c */
extern void decay_tests(Tap *tap);

/* property.c, mutate.c */
extern void property_tests(Tap *tap, int instances);
extern void reserve_tests(Tap *tap, int instances);
extern void random_world(World *world, uint64_t *seed);
extern void mutation_tests(Tap *tap);

/* stream.c */
extern void stream_tests(Tap *tap, int instances);

/* entitled.c */
extern void entitled_tests(Tap *tap, int instances);

/* grown.c */
extern void grown_tests(Tap *tap, int instances);

/* gangs.c */
extern void random_gangs(World *world, uint64_t *seed);
extern void gangs_tests(Tap *tap, int instances);

/* fixpoint.c */
extern void fixpoint_tests(Tap *tap, int instances);

/* claims_property.c */
extern void claims_property_tests(Tap *tap, int instances);

/* rescue.c */
extern void rescue_tests(Tap *tap, int instances);

/* leaves.c */
extern int	leaves_all(void);
extern void leaves_tests(Tap *tap);

/* bench.c, trace.c, openb.c */
extern int	bench_all(const char *trace);
extern bool trace_nodes(World *world, const char *folder);
extern int	openb_all(const char *folder, int seeds);
extern char *trace_pods(World *world, const char *folder, const char *name);
extern void trace_tests(Tap *tap);

#endif							/* WORLD_H */
