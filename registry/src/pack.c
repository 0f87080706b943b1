/*-------------------------------------------------------------------------
 *
 * pack.c
 *		Packs that are open for writing.
 *
 * A pack is only appended to, by one thread at a time, up to 64 MiB, and only
 * by the daemon that created it. Its number comes from the database and is
 * never used again, so that a late deletion of a pack cannot remove a newer
 * one.
 *-------------------------------------------------------------------------
 */
#include "pack.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "db.h"
#include "log.h"
#include "options.h"
#include "store.h"

#define PACK_AGE	(12 * 60 * 60)	/* seconds during which a pack is used;
									 * half of what collect() waits */

static Pack *idle = NULL;		/* packs that may be appended to */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Gets a new number from the database. Returns -1 on failure. */
static int64_t
new_number(void)
{
	DbError		error;
	PGresult   *result = db_call(&error, "SELECT gpucredit_registry.new_pack()",
								 0, NULL, NULL, NULL);
	int64_t		number = -1;

	if (result != NULL)
		number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
	else
		LogLine("could not get a pack's number: %s", error.message);
	PQclear(result);
	return number;
}

/*
 * Creates an empty pack. A restored database may assign numbers whose files
 * exist; these are skipped.
 */
static Pack *
new_pack(void)
{
	Pack	   *pack = calloc(1, sizeof(Pack));

	if (pack == NULL)
		return NULL;
	do
	{
		pack->number = new_number();
		pack->fd = pack->number < 0 ? -1 : store->create(pack->number);
	} while (pack->fd < 0 && pack->number >= 0 && errno == EEXIST);
	pack->made = time(NULL);
	if (pack->fd >= 0)
		return pack;
	if (pack->number >= 0)
		LogLine("could not make pack %" PRId64 ": %s", pack->number, strerror(errno));
	free(pack);
	return NULL;
}

/*
 * Returns a pack with room for this number of bytes, or NULL if none can be
 * created. Old packs are not used any more, because the database condemns
 * packs that have had no chunks for a day.
 */
Pack *
pack_acquire(size_t size)
{
	Pack	   *pack;

	pthread_mutex_lock(&lock);
	pack = idle;
	if (pack != NULL)
		idle = pack->next;
	pthread_mutex_unlock(&lock);
	if (pack != NULL && (pack->size + size > PACK_MAX ||
						 time(NULL) - pack->made > PACK_AGE))
	{
		pack_abandon(pack);
		pack = NULL;
	}
	return pack != NULL ? pack : new_pack();
}

bool
pack_append(Pack *pack, const void *data, size_t size, int32_t *first_byte)
{
	size_t		done = 0;

	*first_byte = pack->size;
	while (done < size)
	{
		ssize_t		n = pwrite(pack->fd, (const char *) data + done,
							   size - done, pack->size + done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
		{
			LogLine("could not write pack %" PRId64 ": %s", pack->number,
					strerror(errno));
			return false;
		}
		done += n;
	}
	pack->size += size;
	return true;
}

/*
 * Makes the appended bytes durable, or abandons the pack on failure. If the
 * pack may still grow, other threads can continue it.
 */
bool
pack_finish(Pack *pack)
{
	if (!store->put(pack->number, pack->fd, pack->size))
	{
		pack_abandon(pack);
		return false;
	}
	if (store->remote)
		pack_abandon(pack);
	else
	{
		pthread_mutex_lock(&lock);
		pack->next = idle;
		idle = pack;
		pthread_mutex_unlock(&lock);
	}
	return true;
}

/*
 * Closes a pack for writing. It is used after an error, because the content of
 * the pack's end is then unknown.
 */
void
pack_abandon(Pack *pack)
{
	close(pack->fd);
	free(pack);
}
