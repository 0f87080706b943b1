/*-------------------------------------------------------------------------
 *
 * could_run.c
 *		Whether a pool could ever run a request.
 *
 * Every submission asks this, so the answers are kept until the pool's nodes
 * change.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/digest.h"
#include "util/errors.h"
#include "inventory/inventory.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#define MOST_ANSWERS	10000

/* A kept answer, under the digest of everything it depends on. */
typedef struct FeasibilityAnswer
{
	uint8		digest[DIGEST_SIZE];
	bool		feasible;
} FeasibilityAnswer;

static HTAB *answers = NULL;

static void digest_request(const char *pool, const NodeSet *set,
						   const DecideRequestClass *request, uint8 *digest);
static void *arena_alloc(void *context, size_t size);
static void arena_poll(void *context);

/*
 * Whether the pool could run the request if it were empty and all its devices
 * were healthy.
 */
bool
PoolCouldRun(const char *pool, const NodeSet *set,
			 const DecideRequestClass *request)
{
	uint8		digest[DIGEST_SIZE];
	FeasibilityAnswer *answer;
	bool		feasible;

	digest_request(pool, set, request, digest);
	if (answers == NULL || hash_get_num_entries(answers) >= MOST_ANSWERS)
	{
		HASHCTL		control = {.keysize = sizeof(digest),
			.entrysize = sizeof(FeasibilityAnswer), .hcxt = TopMemoryContext};

		if (answers != NULL)
			hash_destroy(answers);
		answers = NULL;			/* in case the next allocation fails */
		answers = hash_create("gpucredit feasible requests", 256, &control,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	answer = hash_search(answers, digest, HASH_FIND, NULL);
	if (answer != NULL)
		return answer->feasible;
	feasible = NodesCouldRun(set, request);
	answer = hash_search(answers, digest, HASH_ENTER, NULL);
	answer->feasible = feasible;
	return feasible;
}

/* Computes a digest of the pool's set of nodes and of the request. */
static void
digest_request(const char *pool, const NodeSet *set, const DecideRequestClass *request,
			   uint8 *digest)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "%s\n" INT64_FORMAT " %d-%d %d %d %d "
					 INT64_FORMAT " " INT64_FORMAT, pool, set->shape,
					 request->min_gpus, request->max_gpus, request->share,
					 request->topology, request->spot_ok,
					 (int64) request->cpu_milli, (int64) request->memory_mib);
	for (int i = 0; i < request->n_offers; i++)
		appendStringInfo(&text, "|%s@" INT64_FORMAT,
						 set->types.names[request->offers[i].type],
						 (int64) request->offers[i].min_memory);
	appendStringInfo(&text, "|%d", request->per_node);
	for (int i = 0; request->filter != NULL && i < set->n; i += 64)
		appendStringInfo(&text, " " UINT64_FORMAT,
						 (uint64) request->filter[i / 64]);
	DigestOf(&text, digest);
}

/*
 * As PoolCouldRun(), for a hypothetical set of nodes.  The answer is not kept.
 */
bool
NodesCouldRun(const NodeSet *set, const DecideRequestClass *request)
{
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext,
												  "gpucredit feasible",
												  ALLOCSET_DEFAULT_SIZES);
	DecideArena arena = ArenaOf(scratch);
	bool		feasible = false;
	const char *problem = DecideFeasible(set->nodes, set->n, request, &arena,
										 &feasible);

	Ensure(problem == NULL, problem);
	MemoryContextDelete(scratch);
	return feasible;
}

/*
 * Returns an arena, with which the decision core allocates memory in the
 * context.
 */
DecideArena
ArenaOf(MemoryContext context)
{
	DecideArena arena = {arena_alloc, arena_poll, context};

	return arena;
}

static void *
arena_alloc(void *context, size_t size)
{
	return MemoryContextAllocHuge((MemoryContext) context, Max(size, 1));
}

static void
arena_poll(void *context)
{
	CHECK_FOR_INTERRUPTS();
}
