/*-------------------------------------------------------------------------
 *
 * store.c
 *		The store of packs: a folder, or a bucket.
 *-------------------------------------------------------------------------
 */
#include "store.h"

#include <inttypes.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const StoreDriver *store = &store_file;

bool
store_open(void)
{
	if (strncmp(options.store, "s3://", 5) == 0)
		store = &store_s3;
	return store->open();
}

/*
 * Builds the path of a pack. It begins with four digits of a digest, which
 * distributes packs over folders.
 */
void
store_path(int64_t number, char *path)
{
	unsigned char digest[SHA256_DIGEST_LENGTH];
	char		word[32];
	int			n = snprintf(word, sizeof(word), "%" PRId64, number);

	SHA256((unsigned char *) word, n, digest);
	snprintf(path, STORE_PATH, "%02x%02x/%s.pack", digest[0], digest[1], word);
}

/*
 * Parses a pack's file name to its number. Returns false if it is not the name
 * of a pack.
 */
bool
store_number(const char *name, int64_t *number)
{
	char	   *end;

	*number = strtoll(name, &end, 10);
	return end != name && strcmp(end, ".pack") == 0;
}

/*
 * Reads bytes of a pack, all of them or none. "ahead" is how many bytes from
 * there on will be read next, if that is known.
 */
bool
store_read(StoreReader *reader, int64_t pack, int64_t at, void *buffer,
		   size_t size, size_t ahead)
{
	ssize_t		n;

	if (!store->remote)
		return store->read(pack, at, buffer, size) == (ssize_t) size;
	if (reader->pack != pack || at < reader->from ||
		at + (int64_t) size > reader->from + (int64_t) reader->filled)
	{
		if (reader->ahead == NULL)
			reader->ahead = malloc(STORE_AHEAD);
		if (reader->ahead == NULL || size > STORE_AHEAD)
			return false;
		ahead = ahead < size ? size : ahead < STORE_AHEAD ? ahead : STORE_AHEAD;
		reader->filled = 0;
		n = store->read(pack, at, reader->ahead, ahead);
		if (n < (ssize_t) size)
			return false;
		reader->pack = pack;
		reader->from = at;
		reader->filled = n;
	}
	memcpy(buffer, reader->ahead + (at - reader->from), size);
	return true;
}

void
store_read_end(StoreReader *reader)
{
	free(reader->ahead);
	*reader = (StoreReader)
	{
		0
	};
}

typedef struct PackList
{
	StoredPack *packs;
	size_t		n;
	size_t		room;
	bool		failed;
} PackList;

/* Adds a pack to the list. Called by the drivers. */
static void
add_pack(void *arg, const StoredPack *pack)
{
	PackList   *list = arg;
	StoredPack *more;

	if (list->n == list->room)
	{
		list->room = 2 * list->room + 1024;
		more = realloc(list->packs, list->room * sizeof(StoredPack));
		if (more == NULL)
		{
			list->room = list->n;
			list->failed = true;
			return;
		}
		list->packs = more;
	}
	list->packs[list->n++] = *pack;
}

/*
 * Lists all packs. The caller frees the list. Returns NULL if they cannot be
 * listed.
 */
StoredPack *
store_list(size_t *n)
{
	PackList	list = {.packs = calloc(1, sizeof(StoredPack))};

	if (!store->list(add_pack, &list) || list.failed)
	{
		free(list.packs);
		return NULL;
	}
	*n = list.n;
	return list.packs;
}
