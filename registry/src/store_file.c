/*-------------------------------------------------------------------------
 *
 * store_file.c
 *		Packs as files of a folder.
 *-------------------------------------------------------------------------
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "store.h"

static int	folder = -1;

static bool
file_open(void)
{
	if (mkdir(options.store, 0700) != 0 && errno != EEXIST)
	{
		LogLine("could not make folder %s: %s", options.store, strerror(errno));
		return false;
	}
	folder = open(options.store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		LogLine("could not open folder %s: %s", options.store, strerror(errno));
	return folder >= 0;
}

/* Creates the file of a pack, and makes its directory entry durable. */
static int
file_create(int64_t number)
{
	char		path[STORE_PATH];
	char		name[5];
	int			dir;
	int			fd;

	store_path(number, path);
	memcpy(name, path, 4);
	name[4] = '\0';
	if (mkdirat(folder, name, 0700) == 0)
		(void) fsync(folder);
	fd = openat(folder, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	dir = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

static bool
file_put(int64_t number, int fd, size_t size)
{
	(void) size;
	if (fdatasync(fd) == 0)
		return true;
	LogLine("could not sync pack %" PRId64 ": %s", number, strerror(errno));
	return false;
}

/* Reads all of the requested bytes, except those after the pack's end. */
static ssize_t
file_read(int64_t number, int64_t at, void *buffer, size_t size)
{
	char		path[STORE_PATH];
	int			fd;
	size_t		done = 0;
	ssize_t		n = 1;

	store_path(number, path);
	fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
	{
		LogLine("could not open pack %s: %s", path, strerror(errno));
		return -1;
	}
	while (done < size && n > 0)
	{
		n = pread(fd, (char *) buffer + done, size - done, at + done);
		if (n > 0)
			done += n;
		else if (n < 0 && errno == EINTR)
			n = 1;
	}
	if (n < 0)
		LogLine("could not read pack %s: %s", path, strerror(errno));
	close(fd);
	return n < 0 ? -1 : (ssize_t) done;
}

static bool
file_delete(int64_t number)
{
	char		path[STORE_PATH];

	store_path(number, path);
	if (unlinkat(folder, path, 0) == 0 || errno == ENOENT)
		return true;
	LogLine("could not delete pack %s: %s", path, strerror(errno));
	return false;
}

/* Lists the packs in one subfolder. */
static void
list_folder(const char *name, StoredPackCallback callback, void *arg)
{
	int			fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR		   *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *file;

	while (dir != NULL && (file = readdir(dir)) != NULL)
	{
		struct stat status;
		StoredPack	pack;

		if (!store_number(file->d_name, &pack.number) ||
			fstatat(fd, file->d_name, &status, 0) != 0)
			continue;
		pack.size = status.st_size;
		pack.changed = status.st_mtime;
		callback(arg, &pack);
	}
	if (dir != NULL)
		closedir(dir);
}

static bool
file_list(StoredPackCallback callback, void *arg)
{
	DIR		   *top = fdopendir(openat(folder, ".", O_RDONLY | O_DIRECTORY));
	struct dirent *entry;

	while (top != NULL && (entry = readdir(top)) != NULL)
		if (strlen(entry->d_name) == 4)
			list_folder(entry->d_name, callback, arg);
	if (top != NULL)
		closedir(top);
	return top != NULL;
}

const StoreDriver store_file = {
	.remote = false, .open = file_open, .create = file_create, .put = file_put,
	.read = file_read, .delete = file_delete, .list = file_list
};
