/*-------------------------------------------------------------------------
 *
 * upkeep.c
 *		Deletes unused data, and verifies every stored byte.
 *-------------------------------------------------------------------------
 */
#include "upkeep.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "chunk.h"
#include "db.h"
#include "log.h"
#include "options.h"
#include "pack.h"
#include "store.h"

#define UPKEEP_SECONDS	60
#define SWEEP_EVERY		60		/* number of rounds between two sweeps */
#define SWEEP_AGE		(24 * 60 * 60)

/* Deletes packs that were condemned a grace period ago. */
static void
delete_packs(void)
{
	const char *values[] = {options.grace};
	DbError		error;
	PGresult   *result = db_call(&error, "SELECT NULL UNION ALL SELECT"
								 " gpucredit_registry.condemned_packs($1::interval)",
								 1, values, NULL, NULL);

	for (int i = 1; i < PQntuples(result); i++)
	{
		const char *number[] = {PQgetvalue(result, i, 0)};

		if (store->delete(strtoll(number[0], NULL, 10)))
			PQclear(db_call(&error, "SELECT gpucredit_registry.pack_gone($1::bigint)",
							1, number, NULL, NULL));
	}
	PQclear(result);
}

/* Makes the database use the new copy of a chunk. */
static bool
move_chunk(const char *chunk, const char *from, int64_t pack, int32_t first_byte)
{
	char		to[32];
	char		place[32];
	const char *values[] = {chunk, from, to, place};
	DbError		error;
	PGresult   *result;

	snprintf(to, sizeof(to), "%" PRId64, pack);
	snprintf(place, sizeof(place), "%d", first_byte);
	result = db_call(&error, "SELECT gpucredit_registry.move_chunk($1::bigint,"
					 " $2::bigint, $3::bigint, $4::integer)",
					 4, values, NULL, NULL);
	PQclear(result);
	return result != NULL;
}

/* Copies chunks of a pack into another one, and reports where each is. */
static bool
copy_chunks(PGresult * chunks, int64_t from, Pack *pack, int32_t *first_bytes)
{
	static unsigned char buffer[CHUNK_MAX];
	StoreReader reader = {0};
	bool		good = true;

	for (int i = 1; good && i < PQntuples(chunks); i++)
	{
		int			size = atoi(PQgetvalue(chunks, i, 2));

		good = size <= CHUNK_MAX &&
			store_read(&reader, from, atoi(PQgetvalue(chunks, i, 1)), buffer,
					   size, STORE_AHEAD) &&
			pack_append(pack, buffer, size, &first_bytes[i]);
	}
	store_read_end(&reader);
	return good;
}

/*
 * Moves the used chunks of a pack to other packs. The empty pack is then
 * collected like any other.
 */
static void
empty_pack(const char *number)
{
	DbError		error;
	PGresult   *chunks = db_call(&error, "SELECT 0, 0, 0 UNION ALL SELECT * FROM"
								 " gpucredit_registry.chunks_in($1::bigint)",
								 1, &number, NULL, NULL);
	Pack	   *pack = PQntuples(chunks) > 1 ? pack_acquire(PACK_MAX / 2) : NULL;
	int32_t    *first_bytes = calloc(PQntuples(chunks) + 1, sizeof(int32_t));
	int64_t		to = pack != NULL ? pack->number : 0;
	bool		good = false;

	if (pack != NULL && first_bytes != NULL &&
		copy_chunks(chunks, strtoll(number, NULL, 10), pack, first_bytes))
		good = pack_finish(pack);
	else if (pack != NULL)
		pack_abandon(pack);
	for (int i = 1; good && i < PQntuples(chunks); i++)
		good = move_chunk(PQgetvalue(chunks, i, 0), number, to, first_bytes[i]);
	free(first_bytes);
	PQclear(chunks);
}

static int
compare_packs(const void *a, const void *b)
{
	int64_t		left = ((const StoredPack *) a)->number;
	int64_t		right = ((const StoredPack *) b)->number;

	return left < right ? -1 : left > right;
}

/* Empties packs of which less than half is used. */
static void
empty_sparse_packs(StoredPack *packs, size_t n)
{
	DbError		error;
	PGresult   *aged = db_call(&error, "SELECT 0, 0 UNION ALL SELECT * FROM"
							   " gpucredit_registry.aged_packs()",
							   0, NULL, NULL, NULL);

	qsort(packs, n, sizeof(StoredPack), compare_packs);
	for (int i = 1; i < PQntuples(aged); i++)
	{
		StoredPack	key = {.number = strtoll(PQgetvalue(aged, i, 0), NULL, 10)};
		StoredPack *pack = bsearch(&key, packs, n, sizeof(StoredPack),
								   compare_packs);

		if (pack != NULL && strtoll(PQgetvalue(aged, i, 1), NULL, 10) * 2 < pack->size)
			empty_pack(PQgetvalue(aged, i, 0));
	}
	PQclear(aged);
}

/*
 * Whether the database has the pack. Returns true also if the database gives
 * no answer.
 */
static bool
pack_is_known(int64_t number)
{
	char		word[32];
	const char *values[] = {word};
	DbError		error;
	PGresult   *result;
	bool		known = true;

	snprintf(word, sizeof(word), "%" PRId64, number);
	result = db_call(&error, "SELECT gpucredit_registry.has_pack($1::bigint)",
					 1, values, NULL, NULL);
	if (result != NULL)
		known = PQgetvalue(result, 0, 0)[0] != 'f';
	PQclear(result);
	return known;
}

/*
 * Deletes packs that are older than a day and that the database does not have,
 * since it was restored from an older copy.
 */
static void
sweep_packs(const StoredPack *packs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (time(NULL) - packs[i].changed >= SWEEP_AGE &&
			!pack_is_known(packs[i].number))
		{
			LogLine("pack %" PRId64 " is unknown to the database: deleted",
					packs[i].number);
			(void) store->delete(packs[i].number);
		}
}

/* Checks all stored packs. */
static bool
check_packs(void)
{
	size_t		n = 0;
	StoredPack *packs = store_list(&n);

	if (packs == NULL)
		return false;
	empty_sparse_packs(packs, n);
	sweep_packs(packs, n);
	free(packs);
	return true;
}

/*
 * Runs one round: deletes unused data until there is nothing left to delete.
 */
bool
upkeep_round(bool thorough)
{
	DbError		error;
	PGresult   *result;
	bool		more = true;

	while (more)
	{
		result = db_call(&error, "SELECT max(affected) >= 1000"
						 " FROM gpucredit_registry.collect(1000)",
						 0, NULL, NULL, NULL);
		if (result == NULL)
		{
			LogLine("collect: %s", error.message);
			return false;
		}
		more = PQgetvalue(result, 0, 0)[0] == 't';
		PQclear(result);
	}
	delete_packs();
	return !thorough || check_packs();
}

/* Runs a round every minute, forever. */
static void *
upkeep(void *arg)
{
	(void) arg;
	for (unsigned int round = 0;; round++)
	{
		(void) upkeep_round(round % SWEEP_EVERY == 0);
		sleep(UPKEEP_SECONDS);
	}
	return NULL;
}

void
upkeep_start(void)
{
	pthread_t	thread;

	if (pthread_create(&thread, NULL, upkeep, NULL) == 0)
		pthread_detach(thread);
	else
		LogLine("could not start upkeep: nothing is collected");
}

/*
 * Whether a chunk is in its pack and has its digest. Sets errno to ENOTCONN if
 * the store cannot be reached.
 */
static bool
chunk_is_good(StoreReader *reader, PGresult * chunks, int row)
{
	static unsigned char buffer[CHUNK_MAX];
	unsigned char digest[DIGEST_SIZE];
	size_t		digest_size;
	int			size = atoi(PQgetvalue(chunks, row, 1));
	unsigned char *expected = PQunescapeBytea(
											  (unsigned char *) PQgetvalue(chunks, row, 4), &digest_size);
	bool		good;

	errno = 0;
	good = size <= CHUNK_MAX && digest_size == DIGEST_SIZE &&
		store_read(reader, strtoll(PQgetvalue(chunks, row, 2), NULL, 10),
				   atoi(PQgetvalue(chunks, row, 3)), buffer, size, STORE_AHEAD) &&
		EVP_Digest(buffer, size, digest, NULL, EVP_sha256(), NULL) == 1 &&
		memcmp(digest, expected, DIGEST_SIZE) == 0;
	PQfreemem(expected);
	return good;
}

/* Checks chunks, in the order of their packs. *bad counts the damaged ones. */
static bool
check_chunks(StoreReader *reader, PGresult * chunks, int64_t *last, int *bad)
{
	for (int i = 1; i < PQntuples(chunks); i++)
	{
		int64_t		chunk = strtoll(PQgetvalue(chunks, i, 0), NULL, 10);

		if (!chunk_is_good(reader, chunks, i))
		{
			if (errno == ENOTCONN)
				return false;
			printf("chunk %s in pack %s is not what it was\n",
				   PQgetvalue(chunks, i, 0), PQgetvalue(chunks, i, 2));
			(*bad)++;
		}
		*last = chunk > *last ? chunk : *last;
	}
	return true;
}

/*
 * Reads every chunk. Returns the number of damaged chunks. Stops if the store
 * cannot be reached.
 */
int
upkeep_verify(void)
{
	StoreReader reader = {0};
	int64_t		last = 0;
	int			bad = 0;
	int			n;
	bool		answers = true;

	while (answers)
	{
		char		after[32];
		const char *values[] = {after};
		DbError		error;
		PGresult   *chunks;

		snprintf(after, sizeof(after), "%" PRId64, last);
		chunks = db_call(&error, "SELECT 0, 0, 0, 0, ''::bytea"
						 " UNION ALL (SELECT * FROM"
						 " gpucredit_registry.stored_chunks($1::bigint)"
						 " ORDER BY pack, first_byte)",
						 1, values, NULL, NULL);
		if (chunks == NULL)
		{
			LogLine("%s", error.message);
			bad++;
			break;
		}
		n = PQntuples(chunks) - 1;
		answers = check_chunks(&reader, chunks, &last, &bad);
		PQclear(chunks);
		if (n == 0)
			break;
	}
	if (!answers)
	{
		LogLine("the store cannot be asked: not all chunks were read");
		bad++;
	}
	store_read_end(&reader);
	return bad;
}
