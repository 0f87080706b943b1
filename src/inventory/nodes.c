/*-------------------------------------------------------------------------
 *
 * nodes.c
 *		The nodes of a pool, loaded for the decision core.
 *
 * A submission needs the pool's GPU types, and whether the pool could ever run
 * the request.  Both change only with the pool's nodes.  So each backend
 * caches the set of nodes it has loaded, together with the pool's number for
 * this set. Scheduling cycles never use a cached set.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/errors.h"
#include "util/settings.h"
#include "util/sql.h"
#include "inventory/inventory.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#define NAME_SIZE		256
#define CACHED_POOLS	16

typedef struct NameEntry
{
	char		name[NAME_SIZE];
	int32		id;
} NameEntry;

typedef struct CachedPool
{
	char		pool[NAME_SIZE];
	NodeSet    *set;
	MemoryContext context;		/* has the whole set */
} CachedPool;

static CachedPool cache[CACHED_POOLS];
static int	cache_next = 0;

SQL_STATEMENT(nodes_read, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT n.node, n.gpu_type, n.gpus, n.gpu_memory_mib,"
			  " n.cpu_milli, n.memory_mib, COALESCE(n.nvlink_domain,"
			  "  n.topology ->> 'nvlink_domain'),"
			  " COALESCE(n.leaf, n.topology ->> 'leaf'), n.spot,"
			  " n.healthy, " NODE_TAKES_WORK("$2") ","
			  " NULLIF(n.labels, '{}'),"
			  " COALESCE(n.spine, n.topology ->> 'spine'),"
			  " COALESCE(n.nvlink_mbps,"
			  "  (n.topology ->> 'nvlink_mbps')::bigint, 0),"
			  " COALESCE(n.leaf_mbps,"
			  "  (n.topology ->> 'leaf_mbps')::bigint, 0),"
			  " COALESCE(n.spine_mbps,"
			  "  (n.topology ->> 'spine_mbps')::bigint, 0)"
			  " FROM gpucredit.node n WHERE n.pool = $1 ORDER BY n.node");

static void table_init(NameTable *table, const char *what);
static int32 name_id(NameTable *table, const char *name);
static int	compare_names(const void *a, const void *b);
static void read_node(SqlResult rows, uint64 i, NodeSet *set);

/*
 * Loads a pool's nodes into the current memory context, with all devices free.
 */
NodeSet *
NodesLoad(const char *pool, bool read_only)
{
	NodeSet    *set = palloc0(sizeof(NodeSet));
	Values	   *args;
	SqlResult	rows;

	set->labels = NodeLabelsCreate();
	set->heard_since = SettingNodeSuspect() == 0 ? DT_NOBEGIN :
		ClockAdd(ClockNow(), -SettingNodeSuspect());
	table_init(&set->types, "GPU types");
	table_init(&set->domains, "NVLink domains");
	table_init(&set->leaves, "leaves");
	table_init(&set->spines, "spines");
	args = VALUES(TextValue(pool), TimeValue(set->heard_since));
	rows = read_only ? SqlRead(&nodes_read, args) :
		SqlRun(&nodes_read, args);
	set->nodes = MemoryContextAllocHuge(CurrentMemoryContext,
										sizeof(DecideNode) * (rows.n + 1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		read_node(rows, i, set);
	}
	SqlFree(&rows);
	return set;
}

/* Adds the node of one row to the set, with all devices free. */
static void
read_node(SqlResult rows, uint64 i, NodeSet *set)
{
	DecideNode *node = &set->nodes[set->n++];
	char	   *domain = SqlText(rows, i, 7);
	char	   *leaf = SqlText(rows, i, 8);
	char	   *spine;
	bool		isnull;

	node->name = SqlText(rows, i, 1);
	node->gpus = SqlInt4(rows, i, 3);
	node->type = node->gpus == 0 ? DECIDE_NO_TYPE :
		name_id(&set->types, SqlText(rows, i, 2));
	node->gpu_memory_mib = SqlInt8(rows, i, 4);
	node->cpu_milli = node->cpu_left = SqlInt8(rows, i, 5);
	node->memory_mib = node->memory_left = SqlInt8(rows, i, 6);
	node->domain = domain ? name_id(&set->domains, domain) : DECIDE_OWN_GROUP;
	node->leaf = leaf ? name_id(&set->leaves, leaf) : DECIDE_OWN_GROUP;
	spine = SqlText(rows, i, 13);
	node->spine = spine ? name_id(&set->spines, spine) : DECIDE_NO_SPINE;
	for (int level = 0; level < DECIDE_LEVELS; level++)
		node->mbps[level] = SqlInt8(rows, i, 14 + level);
	node->spot = SqlBool(rows, i, 9);
	node->usable = DatumGetGpuSet(SqlDatum(rows, i, 10, &isnull));
	node->schedulable = SqlBool(rows, i, 11);
	if (!SqlIsNull(rows, i, 12))
		NodeLabelsAdd(set->labels, node->name,
					  DatumGetJsonbPCopy(SqlDatum(rows, i, 12, &isnull)));
	for (int d = 0; d < DECIDE_MAX_DEVICES; d++)
	{
		node->device_left[d] = d < node->gpus ? DECIDE_WHOLE : 0;
		node->gpu_memory_used[d] = 0;
	}
}

/*
 * Adds hypothetical nodes, empty and healthy, to a set.  The set must be new,
 * so that nothing refers to its nodes by number.
 */
void
NodesSuppose(NodeSet *set, const GpuNode *nodes, int n)
{
	set->nodes = repalloc_huge(set->nodes,
							   sizeof(DecideNode) * (set->n + n + 1));
	for (int i = 0; i < n; i++)
	{
		const GpuNode *from = &nodes[i];
		DecideNode *node = &set->nodes[set->n++];

		*node = (DecideNode)
		{
			.name = from->node,
				.gpus = from->gpus,
				.type = from->gpus == 0 ? DECIDE_NO_TYPE :
				name_id(&set->types, from->gpu_type),
				.gpu_memory_mib = from->gpu_memory_mib,
				.cpu_milli = from->cpu_milli,
				.cpu_left = from->cpu_milli,
				.memory_mib = from->memory_mib,
				.memory_left = from->memory_mib,
				.domain = from->nvlink_domain == NULL ? DECIDE_OWN_GROUP :
				name_id(&set->domains, from->nvlink_domain),
				.leaf = from->leaf == NULL ? DECIDE_OWN_GROUP :
				name_id(&set->leaves, from->leaf),
				.spine = from->spine == NULL ? DECIDE_NO_SPINE :
				name_id(&set->spines, from->spine),
				.spot = from->spot,
				.usable = from->gpus == DECIDE_MAX_DEVICES ? ~(uint64) 0 :
				(UINT64CONST(1) << from->gpus) - 1,
				.schedulable = true
		};
		for (int d = 0; d < from->gpus; d++)
			node->device_left[d] = DECIDE_WHOLE;
		for (int level = 0; level < DECIDE_LEVELS; level++)
			node->mbps[level] = Max(from->mbps[level], 0);
		NodeLabelsAdd(set->labels, from->node, from->labels);
	}
	qsort(set->nodes, set->n, sizeof(DecideNode), compare_names);
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(((const DecideNode *) a)->name,
				  ((const DecideNode *) b)->name);
}

/*
 * Returns the cached set of a pool, which is loaded again if the pool's nodes
 * have changed.  Raises UC401 if there is no such pool.
 */
NodeSet *
NodesCached(const char *pool)
{
	int64		shape = PoolShape(pool);
	CachedPool *entry = NULL;
	MemoryContext context;
	MemoryContext before;

	for (int i = 0; i < CACHED_POOLS && entry == NULL; i++)
	{
		if (cache[i].context != NULL && strcmp(cache[i].pool, pool) == 0)
			entry = &cache[i];
	}
	if (entry != NULL && entry->set->shape == shape)
		return entry->set;
	if (entry == NULL)
	{
		entry = &cache[cache_next];
		cache_next = (cache_next + 1) % CACHED_POOLS;
	}
	if (entry->context != NULL)
		MemoryContextDelete(entry->context);
	memset(entry, 0, sizeof(CachedPool));

	/*
	 * The set is loaded into a context of its own below the current one, so
	 * that an error during the load neither leaves half of an entry nor leaks
	 * memory.
	 */
	context = AllocSetContextCreate(CurrentMemoryContext,
									"gpucredit nodes of a pool",
									ALLOCSET_DEFAULT_SIZES);
	before = MemoryContextSwitchTo(context);
	entry->set = NodesLoad(pool, false);
	MemoryContextSwitchTo(before);
	MemoryContextSetParent(context, TopMemoryContext);
	strlcpy(entry->pool, pool, NAME_SIZE);
	entry->set->shape = shape;
	entry->context = context;
	return entry->set;
}

/* Returns a node's index by its name, or -1 if the set has no such node. */
int32
NodeIndex(const NodeSet *set, const char *name)
{
	int32		low = 0;
	int32		high = set->n - 1;

	while (low <= high)
	{
		int32		middle = low + (high - low) / 2;
		int			order = strcmp(set->nodes[middle].name, name);

		if (order == 0)
			return middle;
		if (order < 0)
			low = middle + 1;
		else
			high = middle - 1;
	}
	return -1;
}

static void
table_init(NameTable *table, const char *what)
{
	HASHCTL		control = {.keysize = NAME_SIZE,
		.entrysize = sizeof(NameEntry), .hcxt = CurrentMemoryContext};

	table->n = 0;
	table->size = 16;
	table->names = palloc(sizeof(char *) * table->size);
	table->ids = hash_create(what, 64, &control,
							 HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
}

/* Returns the number of a name.  A new name gets the next number. */
static int32
name_id(NameTable *table, const char *name)
{
	bool		found;
	NameEntry  *entry;

	Ensure(strlen(name) < NAME_SIZE, "A name is longer than allowed.");
	entry = hash_search(table->ids, name, HASH_ENTER, &found);
	if (!found)
	{
		if (table->n == table->size)
		{
			table->size *= 2;
			table->names = repalloc(table->names,
									sizeof(char *) * table->size);
		}
		table->names[table->n] = entry->name;
		entry->id = table->n++;
	}
	return entry->id;
}

/* Returns the number of a name, or -1 if the table does not have it. */
int32
NameFind(const NameTable *table, const char *name)
{
	NameEntry  *entry;

	if (strlen(name) >= NAME_SIZE)
		return -1;
	entry = hash_search(table->ids, name, HASH_FIND, NULL);
	return entry ? entry->id : -1;
}
