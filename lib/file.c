/*-------------------------------------------------------------------------
 *
 * file.c
 *		Durable files, shared memory maps and file descriptors.
 *
 * A file that a decision depends on is written completely or not at all: it is
 * written under a temporary name, synced and renamed, and then its directory
 * is synced.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"
#include "memory.h"

bool
WriteAll(int fd, const void *data, size_t len)
{
	const char *rest = data;

	while (len > 0)
	{
		ssize_t		n = write(fd, rest, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		rest += n;
		len -= n;
	}
	return true;
}

/*
 * Writes a file durably, completely or not at all. Returns false with errno
 * set on failure.
 */
bool
FilePut(int dir, const char *name, const void *data, size_t len)
{
	char		temporary[64];
	int			fd;
	bool		ok;

	snprintf(temporary, sizeof(temporary), ".%s.new", name);
	fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
				0600);
	if (fd < 0)
		return false;
	ok = WriteAll(fd, data, len) && fsync(fd) == 0;
	close(fd);
	return ok && renameat(dir, temporary, dir, name) == 0 && fsync(dir) == 0;
}

/*
 * Reads a whole file and appends a zero byte. Returns NULL with errno set on
 * failure.
 */
char *
FileGet(int dir, const char *name, size_t *len)
{
	int			fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	char	   *data;
	ssize_t		n;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) != 0 || st.st_size > 1024 * 1024)
	{
		close(fd);
		return NULL;
	}
	data = Alloc(st.st_size + 1);
	n = read(fd, data, st.st_size);
	close(fd);
	if (n < 0)
	{
		free(data);
		return NULL;
	}
	if (len != NULL)
		*len = n;
	return data;
}

bool
FileThere(int dir, const char *name)
{
	return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/*
 * Maps a file that several processes share. Returns NULL with errno set on
 * failure.
 */
void *
FileMap(int dir, const char *name, size_t size, bool writes)
{
	int			flags = writes ? O_RDWR | O_CREAT : O_RDONLY;
	int			fd = openat(dir, name, flags | O_CLOEXEC, 0600);
	struct stat st;
	void	   *map = MAP_FAILED;

	if (fd < 0)
		return NULL;
	if ((!writes || posix_fallocate(fd, 0, size) == 0) &&
		fstat(fd, &st) == 0 && st.st_size >= (off_t) size)
		map = mmap(NULL, size, writes ? PROT_READ | PROT_WRITE : PROT_READ,
				   MAP_SHARED, fd, 0);
	close(fd);
	return map == MAP_FAILED ? NULL : map;
}

/*
 * Closes all descriptors except standard input, output and error.
 */
void
CloseInherited(void)
{
	if (close_range(STDERR_FILENO + 1, ~0U, 0) != 0)
	{
		/* Linux before 5.9 has no close_range(). */
		long		most = sysconf(_SC_OPEN_MAX);

		for (int fd = STDERR_FILENO + 1; fd < most && fd < 65536; fd++)
			(void) close(fd);
	}
}
