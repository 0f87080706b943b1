/*-------------------------------------------------------------------------
 *
 * inventory.h
 *		Pools, nodes, prices and tiers, for the layers above.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_INVENTORY_H
#define GPUCREDIT_INVENTORY_H

#include "datatype/timestamp.h"
#include "decide/decide.h"
#include "fmgr.h"
#include "types/credits.h"
#include "utils/jsonb.h"

/* Defined in tier.c. */

/*
 * When a tier's jobs may be preempted.  Each value includes those before it.
 */
typedef enum Preemptible
{
	PREEMPTIBLE_NEVER, PREEMPTIBLE_RECLAIM, PREEMPTIBLE_CAPACITY
} Preemptible;

typedef struct Tier
{
	int32		rank;
	Preemptible preemptible;
	int64		max_wall;		/* longest wall limit, in microseconds */
	int32		price_factor;	/* in thousandths of the list price */
	bool		open;			/* whether every account may use it; else
								 * tier_grant.h decides */
} Tier;

#define FACTOR_ONE		1000	/* price factor of the list price */

extern const char *const PreemptibleNames[3];

extern void TierRead(const char *name, Tier *tier); /* raises UC402 */

/* Defined in price.c. */
typedef struct Price
{
	const char *gpu_type;
	Credits		per_gpu_hour;
	Credits		spot;			/* price on spot nodes */
} Price;

/* Other resources that have a price, under names that no GPU type can have. */
#define PRICE_CPU_CORE		"cpu core"
#define PRICE_MEMORY_GIB	"memory GiB"

extern int	PricesRead(const char *pool, TimestampTz at, bool read_only,
					   Price **prices);
extern bool PriceTypeKnown(const char *gpu_type);

/*
 * Defined in pool.c.  All but PoolCount() raise UC401 if there is no such
 * pool.
 */
extern void PoolLock(const char *pool, bool reshape);
extern bool PoolTryLock(const char *pool);
extern void PoolExists(const char *pool);
extern int64 PoolShape(const char *pool);
extern void PoolCount(const char *pool);

/* Defined in policy.c. */

/*
 * The share of the pool, in millionths, up to which a tier's jobs come first.
 */
typedef struct TierShare
{
	const char *tier;
	int32		ppm;
} TierShare;

typedef struct PoolPolicy
{
	DecidePolicy decide;
	bool		foreign;		/* another scheduler places jobs, and calls
								 * placed() */
	int			n_shares;
	TierShare  *shares;
} PoolPolicy;

extern bool JsonPlace(const JsonbValue *value);
extern void PolicyParse(Jsonb *json, PoolPolicy *policy);	/* raises 22023 */
extern PoolPolicy *PolicyRead(const char *pool, bool read_only);

/* Defined in node.c. */

/* A node, as the arguments of register_node() describe it. */
typedef struct GpuNode
{
	char	   *pool;
	char	   *node;
	char	   *gpu_type;
	int32		gpus;
	int64		gpu_memory_mib;
	int64		cpu_milli;
	int64		memory_mib;
	char	   *nvlink_domain;
	char	   *leaf;
	bool		spot;
	Jsonb	   *labels;
	char	   *spine;
	int64		mbps[DECIDE_LEVELS];	/* -1 if the operator named none */
} GpuNode;

/* A locked node, and its pool, which is locked as well. */
typedef struct NodePool
{
	const char *node;
	const char *pool;
} NodePool;

extern void NodeParse(FunctionCallInfo fcinfo, GpuNode *node);
extern char *NodeLockPool(const char *node, bool reshape);	/* raises UC401 */
extern NodePool *NodesLock(const char **nodes, int *n); /* raises UC401 */
extern void NodesReclaim(const char **nodes, int n, TimestampTz at);
extern NodePool *NodesReclaimEarlier(const char **nodes, int *n,
									 TimestampTz at);
extern void NodeResume(const char *pool, const char *node);
extern void NodeAudit(FunctionCallInfo fcinfo, const char *operation,
					  const char *decision, const char *pool,
					  const char *reason);

/* Defined in report_topology.c. */
#define MOST_MBPS		INT64CONST(1000000000)

extern const char *const TopologyMbpsWords[DECIDE_LEVELS];

/* Defined in nodes.c. */

/*
 * SQL condition: node n gets new work.  `since` is the parameter that has
 * heard_since of the set of nodes.
 */
#define NODE_TAKES_WORK(since) \
	"n.draining IS NULL AND n.reclaim_at IS NULL AND n.heard_at > " since

/*
 * Numbers names from 0, so that the decision core can compare numbers: for GPU
 * types, NVLink domains and leaves.
 */
typedef struct NameTable
{
	int			n;
	int			size;
	const char **names;
	struct HTAB *ids;
} NameTable;

typedef struct NodeLabels NodeLabels;	/* private to node_labels.c */

/* The nodes of a pool without any load, in the form of the decision core. */
typedef struct NodeSet
{
	int32		n;
	int64		shape;			/* count of the pool's changes when a cached
								 * set was loaded */
	TimestampTz heard_since;	/* a node that was not heard of since then
								 * gets no new work */
	DecideNode *nodes;			/* sorted by name */
	NameTable	types;
	NameTable	domains;
	NameTable	leaves;
	NameTable	spines;
	NodeLabels *labels;
} NodeSet;

extern NodeSet *NodesLoad(const char *pool, bool read_only);
extern NodeSet *NodesCached(const char *pool);	/* raises UC401 */
extern void NodesSuppose(NodeSet *set, const GpuNode *nodes, int n);
extern int32 NodeIndex(const NodeSet *set, const char *name);	/* -1 if unknown */
extern int32 NameFind(const NameTable *table, const char *name);	/* -1 if unknown */

/* Defined in node_labels.c. */
extern NodeLabels *NodeLabelsCreate(void);
extern void NodeLabelsAdd(NodeLabels *labels, const char *node,
						  Jsonb *stored);
extern void NodeLabelsFind(const NodeSet *set, const char *label,
						   uint64 *mask);

/* Defined in could_run.c. */
extern DecideArena ArenaOf(MemoryContext context);

extern bool PoolCouldRun(const char *pool, const NodeSet *set,
						 const DecideRequestClass *request);
extern bool NodesCouldRun(const NodeSet *set, const DecideRequestClass *request);

#endif							/* GPUCREDIT_INVENTORY_H */
