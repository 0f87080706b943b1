/*-------------------------------------------------------------------------
 *
 * receive.c
 *		Cuts a request's body into chunks, and stores batches of about 16 MiB.
 *
 * Chunks that the store does not have are appended to a pack. Once they are
 * durable, the daemon reports all chunks of the batch to the database. If a
 * known chunk was deleted in the meantime, it is appended, too. A client whose
 * connection broke continues after the last reported batch.
 *
 * Each batch has a thread, which computes the digests and stores the batch
 * while the next ones arrive. The threads write to different packs, then
 * report in turn. Only the commit of the last batch waits for the server's WAL
 * flush, which includes the earlier commits; so all batches are durable before
 * the client is answered. Where the upload is then finished, the last batch does
 * not wait either, but the commit that finishes it: reports hold their
 * organisation's lock, and others would wait for the disk, too.
 *-------------------------------------------------------------------------
 */
#include "receive.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "chunk.h"
#include "pack.h"

#define BATCH_BYTES		(16 * 1024 * 1024)
#define BATCH_CHUNKS	(BATCH_BYTES / CHUNK_MIN + 2)
#define BATCHES			3		/* one batch arrives while the others are
								 * stored */

typedef struct Chunk
{
	unsigned char digest[DIGEST_SIZE];
	size_t		start;			/* offset in the batch's buffer */
	int32_t		size;
	bool		stored;			/* this daemon has stored it in a pack */
	int64_t		pack;
	int32_t		first_byte;
} Chunk;

typedef struct ChunkBatch
{
	Receive    *receive;
	int64_t		turn;			/* number of the upload's batches before it */
	bool		is_storing;		/* a thread is storing it */
	pthread_t	thread;
	int64_t		reported;		/* bytes of the part that precede the buffer */
	size_t		filled;			/* number of bytes in the buffer */
	size_t		cut;			/* end of the last complete chunk */
	bool		last;			/* no later commit makes it durable */
	int			nchunks;
	Chunk		chunks[BATCH_CHUNKS];
	unsigned char buffer[BATCH_BYTES + CHUNK_MAX];
} ChunkBatch;

struct Receive
{
	json_t	   *plan;			/* member "receive" of the plan */
	int64_t		writer;
	int64_t		expected;		/* number of bytes of the body */
	int64_t		seen;
	bool		finishes;		/* the upload is finished once its bytes are
								 * stored */
	EVP_MD_CTX *whole;			/* digest of the body so far */
	Chunker		chunker;
	ChunkBatch *batches[BATCHES];	/* used in turn; allocated when needed */
	ChunkBatch *batch;			/* the batch that is arriving */

	pthread_mutex_t lock;		/* guards the following fields */
	pthread_cond_t one_reported;
	int64_t		turn;			/* number of batches that were reported */
	bool		failed;			/* a batch has failed, and nothing more is
								 * stored */
	DbError		why;
};

/* Sets the first parameters of a call about a part: org, upload and part. */
static void
part_values(Receive *receive, const char **values, char *upload, char *part)
{
	sprintf(upload, "%" PRId64,
			(int64_t) json_integer_value(json_object_get(receive->plan, "upload")));
	sprintf(part, "%" PRId64,
			(int64_t) json_integer_value(json_object_get(receive->plan, "part")));
	values[0] = json_string_value(json_object_get(receive->plan, "org"));
	values[1] = upload;
	values[2] = part;
}

/* Returns the batch for a turn, or NULL if memory runs out. */
static ChunkBatch *
batch_of(Receive *receive, int64_t turn)
{
	ChunkBatch **place = &receive->batches[turn % BATCHES];

	if (*place == NULL)
		*place = malloc(sizeof(ChunkBatch));
	if (*place != NULL)
	{
		memset(*place, 0, offsetof(ChunkBatch, chunks));
		(*place)->receive = receive;
		(*place)->turn = turn;
	}
	return *place;
}

/*
 * Begins the part that the plan names. Its commit does not wait for the disk: a
 * server that forgets it in a crash has ended this request, too.
 */
static bool
begin_part(Receive *receive, DbError *error)
{
	const char *values[6];
	char		upload[32];
	char		part[32];
	char		from[32];
	char		writer[32];
	PGresult   *result;

	if (getrandom(&receive->writer, sizeof(receive->writer), 0) < 0)
		receive->writer = (int64_t) (intptr_t) receive;
	part_values(receive, values, upload, part);
	sprintf(from, "%" PRId64, receive->batch->reported);
	sprintf(writer, "%" PRId64, receive->writer);
	values[3] = from;
	values[4] = writer;
	values[5] = "off";
	result = db_call(error, "SELECT expected FROM " DB_COMMIT("$6") ","
					 " gpucredit_registry.begin_part($1::text,"
					 " $2::bigint, $3::integer, $4::bigint, $5::bigint)",
					 6, values, NULL, NULL);
	if (result == NULL)
		return false;
	receive->expected = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
	PQclear(result);
	return true;
}

Receive *
receive_begin(json_t * plan, DbError *error)
{
	Receive    *receive = calloc(1, sizeof(Receive));

	if (receive == NULL || (receive->batch = batch_of(receive, 0)) == NULL)
	{
		free(receive);
		db_error(error, "53200", "out of memory");
		return NULL;
	}
	pthread_mutex_init(&receive->lock, NULL);
	pthread_cond_init(&receive->one_reported, NULL);
	receive->batch->reported = json_integer_value(json_object_get(plan, "from"));
	receive->plan = json_incref(plan);
	receive->whole = EVP_MD_CTX_new();
	EVP_DigestInit_ex(receive->whole, EVP_sha256(), NULL);
	if (json_is_integer(json_object_get(plan, "expected")))
	{
		receive->writer = json_integer_value(json_object_get(plan, "writer"));
		receive->expected = json_integer_value(json_object_get(plan, "expected"));
	}
	else if (!begin_part(receive, error))
	{
		receive_free(receive);
		return NULL;
	}
	return receive;
}

/*
 * The following functions format elements of the arrays that are passed to the
 * database.
 */
static const char *
digest_word(const void *of, int i, char *buffer)
{
	const Chunk *chunk = (const Chunk *) of + i;

	strcpy(buffer, "\"\\\\x");
	for (int j = 0; j < DIGEST_SIZE; j++)
		sprintf(buffer + 4 + 2 * j, "%02x", chunk->digest[j]);
	strcat(buffer, "\"");
	return buffer;
}

static const char *
size_word(const void *of, int i, char *buffer)
{
	sprintf(buffer, "%d", ((const Chunk *) of)[i].size);
	return buffer;
}

static const char *
pack_word(const void *of, int i, char *buffer)
{
	const Chunk *chunk = (const Chunk *) of + i;

	if (!chunk->stored)
		return NULL;
	sprintf(buffer, "%" PRId64, chunk->pack);
	return buffer;
}

static const char *
first_byte_word(const void *of, int i, char *buffer)
{
	const Chunk *chunk = (const Chunk *) of + i;

	if (!chunk->stored)
		return NULL;
	sprintf(buffer, "%d", chunk->first_byte);
	return buffer;
}

/*
 * Appends the chunks that are wanted, and waits until they are durable.
 */
static bool
store_wanted(ChunkBatch *batch, const bool *wanted)
{
	Pack	   *pack = NULL;

	for (int i = 0; i < batch->nchunks; i++)
	{
		Chunk	   *chunk = &batch->chunks[i];

		if (!wanted[i] || chunk->stored)
			continue;
		if (pack != NULL && pack->size + chunk->size > PACK_MAX)
		{
			if (!pack_finish(pack))
				return false;
			pack = NULL;
		}
		if (pack == NULL)
			pack = pack_acquire(chunk->size);
		if (pack == NULL)
			return false;
		if (!pack_append(pack, batch->buffer + chunk->start, chunk->size,
						 &chunk->first_byte))
		{
			pack_abandon(pack);
			return false;
		}
		chunk->pack = pack->number;
		chunk->stored = true;
	}
	return pack == NULL || pack_finish(pack);
}

/* Asks the database which chunks the store does not have. */
static bool
ask_known(const ChunkBatch *batch, bool *wanted, const char *digests, DbError *error)
{
	PGresult   *result = db_call(error, "SELECT unnest("
								 "gpucredit_registry.known_chunks($1::bytea[]))",
								 1, &digests, NULL, NULL);

	if (result == NULL)
		return false;
	for (int i = 0; i < batch->nchunks; i++)
		wanted[i] = i < PQntuples(result) && PQgetvalue(result, i, 0)[0] != 't';
	PQclear(result);
	return true;
}

/*
 * Reports the batch to the database. *again becomes true if chunks were
 * deleted in the meantime and must be appended now.
 */
static bool
report_chunks(Receive *receive, ChunkBatch *batch, bool *wanted, const char *digests,
			  bool *again, DbError *error)
{
	const char *values[10];
	char		upload[32];
	char		part[32];
	char		from[32];
	char		writer[32];
	char	   *sizes = db_array(batch->nchunks, size_word, batch->chunks);
	char	   *packs = db_array(batch->nchunks, pack_word, batch->chunks);
	char	   *first = db_array(batch->nchunks, first_byte_word, batch->chunks);
	PGresult   *result;

	part_values(receive, values, upload, part);
	sprintf(from, "%" PRId64, batch->reported);
	sprintf(writer, "%" PRId64, receive->writer);
	values[3] = from;
	values[4] = writer;
	values[5] = digests;
	values[6] = sizes;
	values[7] = packs;
	values[8] = first;
	values[9] = batch->last ? NULL : "off";
	result = db_call(error, "SELECT 0 FROM " DB_COMMIT("$10")
					 " UNION ALL SELECT unnest("
					 "gpucredit_registry.store_chunks($1::text, $2::bigint,"
					 " $3::integer, $4::bigint, $5::bigint, $6::bytea[],"
					 " $7::integer[], $8::bigint[], $9::integer[]))",
					 10, values, NULL, NULL);
	free(sizes);
	free(packs);
	free(first);
	if (result == NULL)
		return false;
	*again = false;
	for (int i = 1; i < PQntuples(result); i++)
	{
		int			gone = atoi(PQgetvalue(result, i, 0)) - 1;

		if (gone < 0 || gone >= batch->nchunks)
			continue;
		wanted[gone] = true;
		batch->chunks[gone].stored = false;
		*again = true;
	}
	PQclear(result);
	return true;
}

/*
 * Waits until all earlier batches are reported. Returns false if one failed.
 */
static bool
wait_turn(Receive *receive, int64_t turn)
{
	bool		failed;

	pthread_mutex_lock(&receive->lock);
	while (receive->turn < turn && !receive->failed)
		pthread_cond_wait(&receive->one_reported, &receive->lock);
	failed = receive->failed;
	pthread_mutex_unlock(&receive->lock);
	return !failed;
}

/* Records the first failure, after which nothing more is stored. */
static void
stop_storing(Receive *receive, const DbError *why)
{
	pthread_mutex_lock(&receive->lock);
	if (!receive->failed)
		receive->why = *why;
	receive->failed = true;
	pthread_cond_broadcast(&receive->one_reported);
	pthread_mutex_unlock(&receive->lock);
}

/* Stores all chunks of a batch and reports them to the database. */
static bool
store_chunks(ChunkBatch *batch, DbError *error)
{
	Receive    *receive = batch->receive;
	bool		wanted[BATCH_CHUNKS];
	bool		again = true;
	char	   *digests;
	bool		good;

	for (int i = 0; i < batch->nchunks; i++)
	{
		Chunk	   *chunk = &batch->chunks[i];

		EVP_Digest(batch->buffer + chunk->start, chunk->size, chunk->digest,
				   NULL, EVP_sha256(), NULL);
	}
	digests = db_array(batch->nchunks, digest_word, batch->chunks);
	if (digests == NULL)
	{
		db_error(error, "53200", "out of memory");
		return false;
	}
	good = ask_known(batch, wanted, digests, error);
	for (int i = 0; good && again && i < 3; i++)
	{
		if (!store_wanted(batch, wanted))
		{
			db_error(error, "58030", "the store cannot be written");
			good = false;
			break;
		}
		good = wait_turn(receive, batch->turn) &&
			report_chunks(receive, batch, wanted, digests, &again, error);
	}
	free(digests);
	if (good && again)
	{
		db_error(error, "40001", "chunks go while they are used");
		good = false;
	}
	return good;
}

/* Runs the thread of a batch. */
static void *
store_batch(void *arg)
{
	ChunkBatch *batch = arg;
	Receive    *receive = batch->receive;
	DbError		error;

	if (!store_chunks(batch, &error))
	{
		stop_storing(receive, &error);
		return NULL;
	}
	pthread_mutex_lock(&receive->lock);
	receive->turn++;
	pthread_cond_broadcast(&receive->one_reported);
	pthread_mutex_unlock(&receive->lock);
	return NULL;
}

/* Waits for the thread of a batch. */
static void
stored(ChunkBatch *batch)
{
	if (batch != NULL && batch->is_storing)
	{
		pthread_join(batch->thread, NULL);
		batch->is_storing = false;
	}
}

/* Waits for all threads. Returns false if a batch could not be stored. */
static bool
all_stored(Receive *receive, DbError *error)
{
	for (int i = 0; i < BATCHES; i++)
		stored(receive->batches[i]);
	if (receive->failed)
		*error = receive->why;
	return !receive->failed;
}

/*
 * Starts a thread that stores the batch. Bytes that are not cut yet are moved
 * to the next batch. After a failure, it waits for all threads.
 */
static bool
flush(Receive *receive, bool last, DbError *error)
{
	ChunkBatch *batch = receive->batch;
	ChunkBatch *next;

	if (batch->nchunks == 0)
		return all_stored(receive, error);
	stored(receive->batches[(batch->turn + 1) % BATCHES]);
	if (!wait_turn(receive, 0))
		return all_stored(receive, error);
	next = batch_of(receive, batch->turn + 1);
	if (next == NULL)
	{
		db_error(error, "53200", "out of memory");
		return false;
	}
	next->reported = batch->reported + batch->cut;
	next->filled = batch->filled - batch->cut;
	memcpy(next->buffer, batch->buffer + batch->cut, next->filled);
	batch->last = last && !receive->finishes;
	receive->batch = next;
	batch->is_storing = pthread_create(&batch->thread, NULL, store_batch, batch) == 0;
	if (!batch->is_storing)
		(void) store_batch(batch);
	return true;
}

static void
end_chunk(ChunkBatch *batch, size_t end)
{
	batch->chunks[batch->nchunks++] = (Chunk)
	{
		.start = batch->cut, .size = end - batch->cut
	};
	batch->cut = end;
}

/*
 * Handles a wrong number of bytes from the client: discards what is not stored
 * yet.
 */
static bool
fail(Receive *receive, DbError *error, const char *sqlstate, const char *why)
{
	(void) all_stored(receive, error);
	db_error(error, sqlstate, why);
	stop_storing(receive, error);
	return false;
}

bool
receive_data(Receive *receive, const char *data, size_t size, DbError *error)
{
	receive->seen += size;
	if (receive->seen > receive->expected)
		return fail(receive, error, "22023", "more bytes than were announced");
	EVP_DigestUpdate(receive->whole, data, size);
	while (size > 0)
	{
		ChunkBatch *batch = receive->batch;
		unsigned char *place;
		size_t		room;
		size_t		n;
		bool		cut;

		/* More bytes follow, so this is not the last batch. */
		if ((batch->filled == BATCH_BYTES ||
			 batch->nchunks == BATCH_CHUNKS - 1) && !flush(receive, false, error))
			return false;
		batch = receive->batch;
		room = BATCH_BYTES - batch->filled;
		n = size < room ? size : room;
		place = batch->buffer + batch->filled;
		memcpy(place, data, n);
		n = chunk_scan(&receive->chunker, place, n, &cut);
		batch->filled += n;
		data += n;
		size -= n;
		if (cut)
			end_chunk(batch, batch->filled);
	}
	return true;
}

/*
 * Returns how many bytes of the part have not arrived yet.
 */
int64_t
receive_missing(const Receive *receive)
{
	return receive->expected - receive->seen;
}

/*
 * Returns the position in the part after the bytes that have arrived.
 */
int64_t
receive_end_byte(const Receive *receive)
{
	return json_integer_value(json_object_get(receive->plan, "from")) +
		receive->seen;
}

/*
 * Completes the body, and returns its SHA-256 in "digest". "finishes" is whether
 * the caller then finishes the upload.
 */
bool
receive_end(Receive *receive, bool finishes, char *digest, DbError *error)
{
	if (receive_missing(receive) > 0 &&
		!json_is_true(json_object_get(receive->plan, "partial")))
		return fail(receive, error, "UC503", "fewer bytes than were announced");
	if (receive->batch->filled > receive->batch->cut)
		end_chunk(receive->batch, receive->batch->filled);
	receive->finishes = finishes;
	EVP_DigestFinal_ex(receive->whole, (unsigned char *) digest, NULL);
	return flush(receive, true, error) && all_stored(receive, error);
}

/*
 * Stores what has arrived of a body whose connection broke, and frees the
 * state.
 */
void
receive_free(Receive *receive)
{
	DbError		error;

	if (receive == NULL)
		return;
	(void) (flush(receive, true, &error) && all_stored(receive, &error));
	for (int i = 0; i < BATCHES; i++)
		free(receive->batches[i]);
	pthread_cond_destroy(&receive->one_reported);
	pthread_mutex_destroy(&receive->lock);
	EVP_MD_CTX_free(receive->whole);
	json_decref(receive->plan);
	free(receive);
}
