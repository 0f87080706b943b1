/*
 * world.h
 *	  Clusters and queues for the tests of the decision core.
 *
 * A world owns all its memory.  Types are known by name, so that a permuted
 * world, in which every index and label is another, renders its result as the
 * same text.
 */
#ifndef WORLD_H
#define WORLD_H

#include <stdio.h>

#include "decide/decide.h"

#define WORLD_MAX_OFFERS 16

/* Memory for one call; every piece on its own, so that sanitizers see it. */
typedef struct Pool
{
	void	  **pieces;
	int			n;
	int			room;
	long		fail_after;		/* pieces to give before NULL; < 0: no limit */
	size_t		bytes;
} Pool;

typedef struct World
{
	char	  **types;
	int			n_types;
	int			types_room;
	DecideType *weights;		/* of the types */
	int			weights_room;
	char	  **tier_names;
	int			tier_names_room;
	DecideTier *tiers;
	int			n_tiers;
	int			tiers_room;
	DecideAccount *accounts;
	int			n_accounts;
	int			accounts_room;
	DecideNode *nodes;
	int			n_nodes;
	int			nodes_room;
	DecideAsk  *asks;
	int			n_asks;
	int			asks_room;
	DecideJob  *jobs;
	int			n_jobs;
	int			jobs_room;
	DecideTypical *typical;
	int			n_typical;
	int			typical_room;
	DecideCached *cached;
	int			n_cached;
	int			cached_room;
	int			max_starts;
	int64_t		now;
	DecidePolicy policy;
	DecideRunning *running;
	int			n_running;
	int			running_room;
	DecidePart *parts;			/* of what runs */
	int			n_parts;
	int			parts_room;
	DecideClaim *claims;		/* of earlier cycles */
	int			n_claims;
	int			claims_room;
	DecidePart *claim_parts;
	int			n_claim_parts;
	int			claim_parts_room;
	DecideTold *told;			/* what the cycle before reserved */
	int			n_told;
	int			told_room;
	DecidePart *told_parts;
	int			n_told_parts;
	int			told_parts_room;
	DecideQuota *quotas;
	int			n_quotas;
	int			quotas_room;
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
extern int	world_ask(World *world, const DecideAsk *ask);
extern int	world_ask_again(World *world, const DecideAsk *ask);
extern int	world_tier(World *world, const char *name);
extern int	world_rank(World *world, int rank);
extern int	world_account(World *world, const char *name);
extern DecideJob *world_job(World *world, int ask, const char *org,
							const char *account, int64_t id);
extern DecideRunning *world_running(World *world, const char *org,
									int64_t id);
extern DecidePart *world_part(World *world, DecideRunning *running);
extern DecideTypical *world_typical(World *world, const DecideAsk *ask,
									int64_t jobs);
extern void world_cached(World *world, int cache, int node);
extern DecideInput world_input(const World *world);
extern char *format(const char *form,...)
			__attribute__((format(printf, 1, 2)));

extern DecideClaim *world_claim(World *world, const char *org, int64_t id);
extern DecidePart *world_claim_part(World *world, DecideClaim *claim);
extern void world_told(World *world, int job, int type,
					   const DecidePart *parts, int n_parts);

/* claims.c */
extern void running_ask(World *world, DecideRunning *running,
						DecideTopology topology);
extern char *claim_line(World *world, char *line);
extern void claims_render(const World *world, const DecideResult *result,
						  FILE *out);
extern char *claims_expect(World *world, const DecideResult *result,
						   char *line);
extern void claims_permute(const World *world, uint64_t *seed,
						   const int *new_type, const int *new_node,
						   World *other);
extern void told_permute(const World *world, uint64_t *seed,
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
						  const int *ask_order);
extern char *earlier_error(const World *world, const DecideResult *result);
extern char *again_permuted(const World *world, const char *expected,
							uint64_t *seed);
extern char *again_starved(const World *world, const char *expected);
extern void world_permute(const World *world, uint64_t *seed, World *other,
						  int *ask_order);
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

/* scenario.c, setting.c, ask.c, expect.c */
extern int	label_number(const char *name);
extern bool scenario_file(Tap *tap, const char *path);
extern bool settings_line(World *world, char *line, char **error);
extern char *expect_check(World *world, const DecideResult *result,
						  char *line);
extern char *request_parse(World *world, char *words, DecideAsk *ask,
						   DecideJob *job);
extern bool set_parse(const char *text, const char **end, uint64_t *devices);
extern bool number_parse(const char *text, int64_t *number);
extern bool time_parse(const char *text, int64_t *time);

extern int	job_find(const World *world, const char *name);
extern char *start_word(const World *world, const DecidePart *parts,
						const DecideStart *start, char *word, int *n_named);

/* expect_reserve.c */
extern char *expect_reserve(const World *world, const DecideResult *result,
							char *rest);
extern char *expect_unreserved(const World *world,
							   const DecideResult *result, char *rest);

/* quotas.c */
extern void quotas_count(World *world, int account, int type, int64_t milli,
						 int jobs);
extern DecideQuota *world_quota(World *world, int account, int type);
extern void quotas_copy(const World *world, uint64_t *seed,
						const int *new_type, World *other);
extern void random_quotas(World *world, uint64_t *seed);
extern char *quota_line(World *world, char *line);
extern char *expect_held(const World *world, const DecideResult *result,
						 char *rest);

/* running.c */
extern char *running_line(World *world, char *line);

/* oracle.c */
extern int	oracle_largest(const DecideNode *nodes, int n_nodes,
						   const DecideAsk *ask, const DecideOffer *offer);
extern void oracle_fewest(const DecideNode *nodes, int n_nodes,
						  const DecideAsk *ask, const DecideOffer *offer,
						  int count, int *domains, int *leaves, int *used);
extern char *oracle_judge(const World *world, const DecideResult *result,
						  long *leaf_misses);

/* oracle_victims.c */
extern bool oracle_may_evict(const World *world, uint64_t set);

/* oracle_packing.c */

/* A node once a job is on it. */
typedef struct Trial
{
	const DecideNode *node;
	uint64_t	devices;		/* that the job has */
	int			share;			/* of each */
	int64_t		cpu;
	int64_t		memory;
} Trial;

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

/* gangs.c */
extern void random_gangs(World *world, uint64_t *seed);
extern void gangs_tests(Tap *tap, int instances);

/* fixpoint.c */
extern void fixpoint_tests(Tap *tap, int instances);

/* claims_property.c */
extern void claims_property_tests(Tap *tap, int instances);

/* rescue.c */
extern void rescue_tests(Tap *tap, int instances);

/* bench.c, trace.c, openb.c */
extern int	bench_all(const char *trace);
extern bool trace_nodes(World *world, const char *folder);
extern int	openb_all(const char *folder, int seeds);
extern bool trace_pods(World *world, const char *folder, const char *file);

#endif							/* WORLD_H */
