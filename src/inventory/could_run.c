/*-------------------------------------------------------------------------
 *
 * could_run.c
 *		Could a pool ever run a request?  Every submission asks, so the
 *		answers are kept until the pool's nodes change.
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

/* The digest of everything the answer depends on, and the answer. */
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
 * Could the pool, empty and all healthy, run the request?
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
		answers = NULL;			/* the next allocation may fail */
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

/*
 * A digest of the pool's set of nodes and of the request.
 */
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
	DigestOf(&text, digest);
}

/*
 * The same for a set of nodes that is no pool's; the answer is not kept.
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
 * Memory for the decision core, from our context.
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
