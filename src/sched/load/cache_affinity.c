/*-------------------------------------------------------------------------
 *
 * cache_affinity.c
 *		Records which nodes hold which caches: the cache keys of jobs that
 *		ran there.
 *
 * A node holds the caches of the jobs that started there in the last
 * LEARN_DAYS days, but only the latest CACHES_OF_NODE of them.
 *
 * Only the pool's cycle writes the table, under the pool's lock. Older rows
 * have no effect, and cycles that start jobs delete them.
 *
 * Locks: none beyond the pool's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/hsearch.h"
#include "util/errors.h"
#include "util/sql.h"
#include "miscadmin.h"
#include "sched/sched.h"

#define CACHES_OF_NODE	"32"
#define NAME_SIZE		256		/* size in bytes of an organisation's name or
								 * a cache key */

typedef struct CacheKey
{
	char		org[NAME_SIZE];
	char		cache[NAME_SIZE];
} CacheKey;

typedef struct CacheEntry
{
	CacheKey	key;
	int32		id;
} CacheEntry;

SQL_STATEMENT(caches_read, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT c.org, c.cache, c.node FROM gpucredit.node_cache c"
			  " WHERE c.pool = $1 AND c.used_at > $2 - interval '" LEARN_DAYS
			  " days'");
SQL_STATEMENT(caches_note, SPI_OK_INSERT,
			  "text, timestamptz, text[], text[], text[]",
			  "INSERT INTO gpucredit.node_cache AS c (org, cache, node, pool,"
			  " used_at) SELECT DISTINCT u.org, u.cache, u.node, $1, $2"
			  " FROM ROWS FROM (pg_catalog.unnest($3),"
			  "  pg_catalog.unnest($4), pg_catalog.unnest($5))"
			  " AS u (org, cache, node)"
			  " ON CONFLICT (org, cache, node) DO UPDATE"
			  " SET pool = EXCLUDED.pool, used_at = EXCLUDED.used_at");
SQL_STATEMENT(caches_forget, SPI_OK_DELETE, "text, timestamptz, text[]",
			  "DELETE FROM gpucredit.node_cache c"
			  " WHERE (c.pool = $1"
			  "  AND c.used_at <= $2 - interval '" LEARN_DAYS " days')"
			  " OR (c.org, c.cache, c.node) IN (SELECT r.org, r.cache, r.node"
			  "  FROM (SELECT o.org, o.cache, o.node,"
			  "   pg_catalog.row_number() OVER (PARTITION BY o.node"
			  "    ORDER BY o.used_at DESC, o.org, o.cache) AS n"
			  "   FROM gpucredit.node_cache o"
			  "   WHERE o.pool = $1 AND o.node = ANY ($3)) r"
			  "  WHERE r.n > " CACHES_OF_NODE ")");

/* Returns the number of an organisation's cache key. Numbers begin at 1. */
int32
CacheIndex(SchedCycle *cycle, const char *org, const char *cache)
{
	CacheKey	key;
	CacheEntry *entry;
	bool		found;

	if (cycle->cache_ids == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(CacheKey),
			.entrysize = sizeof(CacheEntry), .hcxt = CurrentMemoryContext};

		cycle->cache_ids = hash_create("gpucredit caches", 64, &control,
									   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	memset(&key, 0, sizeof(key));
	Ensure(strlen(org) < NAME_SIZE && strlen(cache) < NAME_SIZE,
		   "A name is longer than allowed.");
	strcpy(key.org, org);
	strcpy(key.cache, cache);
	entry = hash_search(cycle->cache_ids, &key, HASH_ENTER, &found);
	if (!found)
		entry->id = (int32) hash_get_num_entries(cycle->cache_ids);
	return entry->id;
}

/* Loads which nodes hold the caches that waiting jobs prefer. */
void
CacheAffinityLoad(SchedCycle *cycle)
{
	SqlResult	rows;
	DecideCached *cached;

	if (cycle->cache_ids == NULL)
		return;
	rows = CycleRead(cycle, &caches_read,
					 VALUES(TextValue(cycle->pool), TimeValue(cycle->now)));
	cached = MemoryContextAllocHuge(CurrentMemoryContext,
									sizeof(DecideCached) * (rows.n + 1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		CacheKey	key;
		CacheEntry *entry;
		int32		node = NodeIndex(cycle->set, SqlText(rows, i, 3));

		CHECK_FOR_INTERRUPTS();
		memset(&key, 0, sizeof(key));
		strlcpy(key.org, SqlText(rows, i, 1), NAME_SIZE);
		strlcpy(key.cache, SqlText(rows, i, 2), NAME_SIZE);
		entry = hash_search(cycle->cache_ids, &key, HASH_FIND, NULL);
		if (entry != NULL && node >= 0)
			cached[cycle->input.n_cached++] = (DecideCached)
		{
			entry->id, node
		};
	}
	SqlFree(&rows);
	cycle->input.cached = cached;
}

/* Records the caches that nodes will hold after this cycle's starts. */
void
CacheAffinityNote(const SchedCycle *cycle)
{
	int			most = cycle->result.n_parts;
	const char **texts = palloc(sizeof(char *) * 3 * (most + 1));
	int			n = 0;

	for (int i = 0; i < cycle->result.n_starts; i++)
	{
		const DecideStart *start = &cycle->result.starts[i];
		const Queued *queued = &cycle->queued[start->job];

		for (int p = 0; p < start->n_parts && queued->cache != NULL; p++)
		{
			const DecidePart *part =
			&cycle->result.parts[start->first_part + p];

			texts[n] = cycle->jobs[start->job].org;
			texts[most + n] = queued->cache;
			texts[2 * most + n++] = cycle->set->nodes[part->node].name;
		}
	}
	if (n == 0)
		return;
	(void) SqlRun(&caches_note,
				  VALUES(TextValue(cycle->pool), TimeValue(cycle->now),
						 TextArrayValue(texts, n),
						 TextArrayValue(texts + most, n),
						 TextArrayValue(texts + 2 * most, n)));
	(void) SqlRun(&caches_forget,
				  VALUES(TextValue(cycle->pool), TimeValue(cycle->now),
						 TextArrayValue(texts + 2 * most, n)));
}
