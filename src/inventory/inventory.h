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

/* tier.c */

/* Ordered: a later one is more willing. */
typedef enum Preemptible
{
	PREEMPTIBLE_NEVER, PREEMPTIBLE_RECLAIM, PREEMPTIBLE_CAPACITY
} Preemptible;

typedef struct Tier
{
	int32		rank;
	Preemptible preemptible;
	int64		max_wall;		/* microseconds */
	int32		price_factor;	/* thousandths of list prices */
	bool		open;			/* to all; else see tier_grant.h */
} Tier;

#define FACTOR_ONE		1000	/* the list price */

extern const char *const PreemptibleNames[3];

extern void TierRead(const char *name, Tier *tier); /* UC402 */

/* price.c */
typedef struct Price
{
	const char *gpu_type;
	Credits		per_gpu_hour;
	Credits		spot;			/* on spot nodes */
} Price;

/* What else has a price, under names that no GPU type can have. */
#define PRICE_CPU_CORE		"cpu core"
#define PRICE_MEMORY_GIB	"memory GiB"

extern int	PricesRead(const char *pool, TimestampTz at, bool read_only,
					   Price **prices);
extern bool PriceTypeKnown(const char *gpu_type);

/* pool.c */
extern void PoolLock(const char *pool, bool reshape);	/* UC401 */
extern bool PoolTryLock(const char *pool);	/* UC401 */
extern void PoolExists(const char *pool);	/* UC401 */
extern int64 PoolShape(const char *pool);	/* UC401 */
extern void PoolCount(const char *pool);

/* policy.c */

/* The part of the pool up to which a tier's jobs go first, in millionths. */
typedef struct TierShare
{
	const char *tier;
	int32		ppm;
} TierShare;

typedef struct PoolPolicy
{
	DecidePolicy decide;
	bool		foreign;		/* another scheduler places, and says where */
	int			n_shares;
	TierShare  *shares;
} PoolPolicy;

extern bool JsonPlace(const JsonbValue *value);
extern void PolicyParse(Jsonb *json, PoolPolicy *policy);	/* 22023 */
extern PoolPolicy *PolicyRead(const char *pool, bool read_only);

/* node.c */

/* A node at its registration. */
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
} GpuNode;

/* A locked node, and its pool. */
typedef struct NodePool
{
	const char *node;
	const char *pool;
} NodePool;

extern void NodeParse(FunctionCallInfo fcinfo, GpuNode *node);
extern char *NodeLockPool(const char *node, bool reshape);	/* UC401 */
extern NodePool *NodesLock(const char **nodes, int *n); /* UC401 */
extern void NodesReclaim(const char **nodes, int n, TimestampTz at);
extern void NodeResume(const char *pool, const char *node);
extern void NodeAudit(FunctionCallInfo fcinfo, const char *operation,
					  const char *decision, const char *pool,
					  const char *reason);

/* nodes.c */

/* Of a node n; since: the parameter with the set's heard_since. */
#define NODE_TAKES_WORK(since) \
	"n.draining IS NULL AND n.reclaim_at IS NULL AND n.heard_at > " since

/* Names with small numbers: GPU types, NVLink domains, leaves. */
typedef struct NameTable
{
	int			n;
	int			size;
	const char **names;
	struct HTAB *ids;
} NameTable;

/* The nodes of a pool, empty, in the decision core's form. */
typedef struct NodeSet
{
	int32		n;
	int64		shape;			/* of a kept set */
	TimestampTz heard_since;	/* a node silent since then gets no new work */
	DecideNode *nodes;			/* by name */
	NameTable	types;
	NameTable	domains;
	NameTable	leaves;
} NodeSet;

extern NodeSet *NodesLoad(const char *pool, bool read_only);
extern NodeSet *NodesCached(const char *pool);	/* UC401 */
extern void NodesSuppose(NodeSet *set, const GpuNode *nodes, int n);
extern int32 NodeIndex(const NodeSet *set, const char *name);	/* or -1 */
extern int32 NameFind(const NameTable *table, const char *name);	/* or -1 */

/* could_run.c */
extern DecideArena ArenaOf(MemoryContext context);

/* could_run.c */
extern bool PoolCouldRun(const char *pool, const NodeSet *set,
						 const DecideRequestClass *request);
extern bool NodesCouldRun(const NodeSet *set, const DecideRequestClass *request);

#endif							/* GPUCREDIT_INVENTORY_H */
