/*-------------------------------------------------------------------------
 *
 * pack.c
 *		The files of the store.
 *
 * A pack is only ever appended to, by one thread at a time, up to 64 MiB, and
 * only by the daemon that made it.  Its number comes from the database and is
 * never used again, so a late deletion hits nothing that lives.  Its path
 * begins with four digits of a digest of its number, which spreads folders.
 *
 *-------------------------------------------------------------------------
 */
#include "pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "db.h"
#include "options.h"

#define PACK_PATH	64
#define SWEEP_AGE	(24 * 60 * 60)

static int	store = -1;			/* the folder */
static Pack *idle = NULL;		/* may be appended to */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool
pack_store_open(void)
{
	if (mkdir(options.store, 0700) != 0 && errno != EEXIST)
	{
		say("could not make folder %s: %s", options.store, strerror(errno));
		return false;
	}
	store = open(options.store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (store < 0)
		say("could not open folder %s: %s", options.store, strerror(errno));
	return store >= 0;
}

/* The folder's name is the first 4 bytes. */
static void
pack_path(int64_t number, char *path)
{
	unsigned char digest[SHA256_DIGEST_LENGTH];
	char		word[32];
	int			n = snprintf(word, sizeof(word), "%" PRId64, number);

	SHA256((unsigned char *) word, n, digest);
	snprintf(path, PACK_PATH, "%02x%02x/%s.pack", digest[0], digest[1], word);
}

/* A number that the database never gave out before; -1 if it gives none. */
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
		say("could not get a pack's number: %s", error.message);
	PQclear(result);
	return number;
}

/* Makes the file of a pack, for good; -1 and errno if it cannot. */
static int
make_file(int64_t number)
{
	char		path[PACK_PATH];
	char		folder[5];
	int			dir;
	int			fd;

	pack_path(number, path);
	memcpy(folder, path, 4);
	folder[4] = '\0';
	if (mkdirat(store, folder, 0700) == 0)
		(void) fsync(store);
	fd = openat(store, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	dir = openat(store, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || fsync(dir) != 0)
	{
		int			why = errno;

		close(fd);
		fd = -1;
		errno = why;
	}
	if (dir >= 0)
		close(dir);
	return fd;
}

/*
 * An empty pack.  A database that was restored gives out numbers again whose
 * files are there: those it passes.
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
		pack->fd = pack->number < 0 ? -1 : make_file(pack->number);
	} while (pack->fd < 0 && pack->number >= 0 && errno == EEXIST);
	if (pack->fd >= 0)
		return pack;
	if (pack->number >= 0)
		say("could not make pack %" PRId64 ": %s", pack->number, strerror(errno));
	free(pack);
	return NULL;
}

/*
 * A pack with room for so many bytes; NULL if none can be made.
 */
Pack *
pack_take(size_t size)
{
	Pack	   *pack;

	pthread_mutex_lock(&lock);
	pack = idle;
	if (pack != NULL)
		idle = pack->next;
	pthread_mutex_unlock(&lock);
	if (pack != NULL && pack->size + size > PACK_MAX)
	{
		close(pack->fd);
		free(pack);
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
			say("could not write pack %" PRId64 ": %s", pack->number,
				strerror(errno));
			return false;
		}
		done += n;
	}
	pack->size += size;
	return true;
}

bool
pack_sync(Pack *pack)
{
	if (fdatasync(pack->fd) == 0)
		return true;
	say("could not sync pack %" PRId64 ": %s", pack->number, strerror(errno));
	return false;
}

void
pack_give_back(Pack *pack)
{
	pthread_mutex_lock(&lock);
	pack->next = idle;
	idle = pack;
	pthread_mutex_unlock(&lock);
}

/*
 * After an error nobody knows what is in its end.
 */
void
pack_abandon(Pack *pack)
{
	close(pack->fd);
	free(pack);
}

int
pack_open(int64_t number)
{
	char		path[PACK_PATH];
	int			fd;

	pack_path(number, path);
	fd = openat(store, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		say("could not open pack %s: %s", path, strerror(errno));
	return fd;
}

bool
pack_unlink(int64_t number)
{
	char		path[PACK_PATH];

	pack_path(number, path);
	if (unlinkat(store, path, 0) == 0 || errno == ENOENT)
		return true;
	say("could not delete pack %s: %s", path, strerror(errno));
	return false;
}

/* Does the database know the pack?  Without an answer it does. */
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
 * Delete files of a day ago that the database does not know: their daemon
 * ended between file and row, or the database is an older copy.
 */
void
pack_sweep(void)
{
	DIR		   *top = fdopendir(openat(store, ".", O_RDONLY | O_DIRECTORY));
	struct dirent *folder;

	while (top != NULL && (folder = readdir(top)) != NULL)
	{
		int			fd;
		DIR		   *dir;
		struct dirent *file;

		if (strlen(folder->d_name) != 4)
			continue;
		fd = openat(store, folder->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		dir = fd >= 0 ? fdopendir(fd) : NULL;
		while (dir != NULL && (file = readdir(dir)) != NULL)
		{
			struct stat status;
			char	   *end;
			int64_t		number = strtoll(file->d_name, &end, 10);

			if (strcmp(end, ".pack") != 0 ||
				fstatat(fd, file->d_name, &status, 0) != 0 ||
				time(NULL) - status.st_mtime < SWEEP_AGE ||
				pack_is_known(number))
				continue;
			say("pack %" PRId64 " is unknown to the database: deleted", number);
			(void) unlinkat(fd, file->d_name, 0);
		}
		if (dir != NULL)
			closedir(dir);
	}
	if (top != NULL)
		closedir(top);
}
