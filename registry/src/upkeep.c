/*-------------------------------------------------------------------------
 *
 * upkeep.c
 *		What nobody uses goes; and a look at every byte that is stored.
 *
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
#include <sys/stat.h>
#include <unistd.h>

#include "chunk.h"
#include "db.h"
#include "options.h"
#include "pack.h"

#define UPKEEP_SECONDS	60
#define SWEEP_EVERY		60		/* rounds of upkeep */

/* Files of packs that were condemned a grace ago. */
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

		if (pack_unlink(strtoll(number[0], NULL, 10)))
			PQclear(db_call(&error, "SELECT gpucredit_registry.pack_gone($1::bigint)",
							1, number, NULL, NULL));
	}
	PQclear(result);
}

/* Is less than half of a pack used? */
static bool
is_sparse(int64_t number, int64_t live)
{
	int			fd = pack_open(number);
	struct stat status;
	bool		sparse = fd >= 0 && fstat(fd, &status) == 0 &&
		live * 2 < status.st_size;

	if (fd >= 0)
		close(fd);
	return sparse;
}

/*
 * Copy one chunk into another pack, and make the copy the one that is used.
 */
static bool
move_chunk(PGresult * chunks, int row, int fd, const char *from, Pack *pack)
{
	static unsigned char buffer[CHUNK_MAX];
	int			size = atoi(PQgetvalue(chunks, row, 2));
	int32_t		first_byte;
	char		to[32];
	char		place[32];
	const char *values[] = {PQgetvalue(chunks, row, 0), from, to, place};
	DbError		error;
	PGresult   *result;

	if (size > CHUNK_MAX ||
		pread(fd, buffer, size, atoi(PQgetvalue(chunks, row, 1))) != size ||
		!pack_append(pack, buffer, size, &first_byte) || !pack_sync(pack))
		return false;
	snprintf(to, sizeof(to), "%" PRId64, pack->number);
	snprintf(place, sizeof(place), "%d", first_byte);
	result = db_call(&error, "SELECT gpucredit_registry.move_chunk($1::bigint,"
					 " $2::bigint, $3::bigint, $4::integer)",
					 4, values, NULL, NULL);
	PQclear(result);
	return result != NULL;
}

/*
 * Move what is used of a pack elsewhere.  The pack is then empty, and goes as
 * any other that is.
 */
static void
empty_pack(const char *number)
{
	DbError		error;
	PGresult   *chunks = db_call(&error, "SELECT 0, 0, 0 UNION ALL SELECT * FROM"
								 " gpucredit_registry.chunks_in($1::bigint)",
								 1, &number, NULL, NULL);
	int			fd = pack_open(strtoll(number, NULL, 10));
	Pack	   *pack = NULL;
	bool		good = fd >= 0;

	for (int i = 1; good && i < PQntuples(chunks); i++)
	{
		if (pack == NULL)
			pack = pack_take(PACK_MAX / 2);
		good = pack != NULL && move_chunk(chunks, i, fd, number, pack);
	}
	if (pack != NULL)
		pack_give_back(pack);
	if (fd >= 0)
		close(fd);
	PQclear(chunks);
}

static void
empty_sparse_packs(void)
{
	DbError		error;
	PGresult   *packs = db_call(&error, "SELECT 0, 0 UNION ALL SELECT * FROM"
								" gpucredit_registry.aged_packs()",
								0, NULL, NULL, NULL);

	for (int i = 1; i < PQntuples(packs); i++)
		if (is_sparse(strtoll(PQgetvalue(packs, i, 0), NULL, 10),
					  strtoll(PQgetvalue(packs, i, 1), NULL, 10)))
			empty_pack(PQgetvalue(packs, i, 0));
	PQclear(packs);
}

/*
 * One round: what nobody uses goes, as long as there is any.
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
			say("collect: %s", error.message);
			return false;
		}
		more = PQgetvalue(result, 0, 0)[0] == 't';
		PQclear(result);
	}
	delete_packs();
	if (thorough)
	{
		empty_sparse_packs();
		pack_sweep();
	}
	return true;
}

/* Once a minute, for ever. */
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
		say("could not start upkeep: nothing is collected");
}

/* Is a chunk in its pack, with its digest? */
static bool
chunk_is_good(PGresult * chunks, int row)
{
	static unsigned char buffer[CHUNK_MAX];
	unsigned char digest[DIGEST_SIZE];
	size_t		digest_size;
	int			size = atoi(PQgetvalue(chunks, row, 1));
	int			fd = pack_open(strtoll(PQgetvalue(chunks, row, 2), NULL, 10));
	unsigned char *expected = PQunescapeBytea(
											  (unsigned char *) PQgetvalue(chunks, row, 4), &digest_size);
	bool		good = fd >= 0 && size <= CHUNK_MAX &&
		digest_size == DIGEST_SIZE &&
		pread(fd, buffer, size, atoi(PQgetvalue(chunks, row, 3))) == size &&
		EVP_Digest(buffer, size, digest, NULL, EVP_sha256(), NULL) == 1 &&
		memcmp(digest, expected, DIGEST_SIZE) == 0;

	PQfreemem(expected);
	if (fd >= 0)
		close(fd);
	return good;
}

/*
 * Read every chunk; the number of those that are not what they were.
 */
int
upkeep_verify(void)
{
	char		after[32] = "0";
	int			bad = 0;
	int			n;

	do
	{
		const char *values[] = {after};
		DbError		error;
		PGresult   *chunks = db_call(&error, "SELECT 0, 0, 0, 0, ''::bytea"
									 " UNION ALL SELECT * FROM"
									 " gpucredit_registry.stored_chunks($1::bigint)",
									 1, values, NULL, NULL);

		if (chunks == NULL)
		{
			say("%s", error.message);
			return 1;
		}
		n = PQntuples(chunks) - 1;
		for (int i = 1; i <= n; i++)
		{
			if (!chunk_is_good(chunks, i))
			{
				printf("chunk %s in pack %s is not what it was\n",
					   PQgetvalue(chunks, i, 0), PQgetvalue(chunks, i, 2));
				bad++;
			}
			snprintf(after, sizeof(after), "%s", PQgetvalue(chunks, i, 0));
		}
		PQclear(chunks);
	} while (n > 0);
	return bad;
}
