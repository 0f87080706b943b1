/*-------------------------------------------------------------------------
 *
 * util.c
 *		Clocks, durable files and log lines, for the agent and its keepers.
 *
 * A file that a decision depends on is written whole or not at all: under
 * another name, synced, renamed, and then its folder is synced.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "util.h"

static int64_t
clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

int64_t
MonotonicNs(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* counts while the machine sleeps, as a fence must */
int64_t
BoottimeNs(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}

/*
 * Log one line to standard error, which systemd's journal keeps.
 */
void
LogLine(const char *format,...)
{
	char		line[2048];
	int			len;
	va_list		args;

	va_start(args, format);
	len = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (len > (int) sizeof(line) - 2)
		len = sizeof(line) - 2;
	line[len++] = '\n';
	(void) WriteAll(STDERR_FILENO, line, len);
}

void
Die(const char *format,...)
{
	char		line[2048];
	va_list		args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	LogLine("%s", line);
	exit(1);
}

void *
Alloc(size_t size)
{
	void	   *memory = calloc(1, size);

	if (memory == NULL)
		Die("out of memory");
	return memory;
}

char *
Dup(const char *text)
{
	char	   *copy = text == NULL ? NULL : strdup(text);

	if (text != NULL && copy == NULL)
		Die("out of memory");
	return copy;
}

char *
Format(const char *format,...)
{
	char	   *text;
	va_list		args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		Die("out of memory");
	va_end(args);
	return text;
}

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
 * Write a file durably, whole or not at all; false with errno.
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
 * Read a whole file and add a zero byte; NULL with errno.
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
 * Map a file that processes share; NULL with errno.
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
 * Close all descriptors but standard input, output and error.
 */
void
CloseInherited(void)
{
	if (close_range(STDERR_FILENO + 1, ~0U, 0) != 0)
	{
		/* a kernel before 5.9 */
		long		most = sysconf(_SC_OPEN_MAX);

		for (int fd = STDERR_FILENO + 1; fd < most && fd < 65536; fd++)
			(void) close(fd);
	}
}

/*
 * Replace each byte that is no part of a character in UTF-8: the database would
 * refuse the text, and a program may write any bytes.
 */
void
Utf8Mend(char *text)
{
	unsigned char *at = (unsigned char *) text;

	while (*at != '\0')
	{
		int			len = *at < 0x80 ? 1 : *at >= 0xc2 && *at < 0xe0 ? 2 :
			*at >= 0xe0 && *at < 0xf0 ? 3 : *at >= 0xf0 && *at < 0xf5 ? 4 : 0;
		bool		good = len > 0;

		for (int i = 1; i < len && good; i++)
			good = (at[i] & 0xc0) == 0x80;
		/* no overlong forms, surrogates, or what is past the last character */
		if (good && len == 3)
			good = !(at[0] == 0xe0 && at[1] < 0xa0) &&
				!(at[0] == 0xed && at[1] >= 0xa0);
		if (good && len == 4)
			good = !(at[0] == 0xf0 && at[1] < 0x90) &&
				!(at[0] == 0xf4 && at[1] >= 0x90);
		if (good)
			at += len;
		else
			*at++ = '?';
	}
}

/*
 * For tests: exit here if GPUCREDIT_CRASH_AT names the point.
 */
void
CrashPoint(const char *name)
{
	const char *wanted = getenv("GPUCREDIT_CRASH_AT");

	if (wanted != NULL && strcmp(wanted, name) == 0)
		kill(getpid(), SIGKILL);
}
