/*-------------------------------------------------------------------------
 *
 * pack.c
 *		Packs that are open for writing.
 *
 * A pack is only ever appended to, by one thread at a time, up to 64 MiB, and
 * only by the daemon that made it.  Its number comes from the database and is
 * never used again, so a late deletion hits nothing that lives.
 *
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

#define PACK_AGE	(12 * 60 * 60)	/* seconds; half of what collect() waits */

static Pack *idle = NULL;		/* may be appended to */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Take a new number from the database; -1: it gives none. */
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
		log_message("could not get a pack's number: %s", error.message);
	PQclear(result);
	return number;
}

/*
 * Make an empty pack.  A restored database may give out numbers whose files
 * exist: skip those.
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
		log_message("could not make pack %" PRId64 ": %s", pack->number, strerror(errno));
	free(pack);
	return NULL;
}

/*
 * A pack with room for so many bytes; NULL if none can be made.  Old packs are
 * not used again: the database condemns packs of a day without chunks.
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
			log_message("could not write pack %" PRId64 ": %s", pack->number,
						strerror(errno));
			return false;
		}
		done += n;
	}
	pack->size += size;
	return true;
}

/*
 * Sync what was appended, or abandon the pack.  Other threads may continue it,
 * if it may still grow.
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
 * Close a pack for writing; after an error the content of its end is unknown.
 */
void
pack_abandon(Pack *pack)
{
	close(pack->fd);
	free(pack);
}
