/*-------------------------------------------------------------------------
 *
 * session_port.c
 *		Opens a connection to a forwarded port, within a job.
 *
 * A job in a network namespace of its own can only have its own ports on the
 * loopback address. A job in the node's network shares that address with the
 * node's services and with other jobs. There a port is forwarded only if a
 * process of this job listens on it, which shows in the process's environment
 * (the mark of its attempt) and its descriptors.
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "memory.h"
#include "session_inside.h"

#define LISTENERS	64

static int	port;

static bool job_listens(const char *mark);
static int	listeners(const char *table, uint64_t *inodes, int n);
static bool of_job(const char *pid, const char *mark);
static bool has_socket(const char *pid, const uint64_t *inodes, int n);

/* Sets the port for SessionOpenPort(). */
void
SessionChoosePort(int chosen)
{
	port = chosen;
}

int
SessionOpenPort(void *context, const char **why)
{
	const Start *start = context;
	struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_port = htons(port),.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int			fd;

	if (start->network == NULL && !job_listens(start->mark))
	{
		*why = "no program of the job listens on this port";
		return -1;
	}
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *) &address,
						   sizeof(address)) != 0 && errno != EINPROGRESS)
	{
		close(fd);
		fd = -1;
	}
	if (fd < 0)
		*why = strerror(errno);
	return fd;
}

/* Whether a process of the job listens on the port. */
static bool
job_listens(const char *mark)
{
	uint64_t	inodes[LISTENERS];
	int			n = listeners("/proc/self/net/tcp", inodes, 0);
	DIR		   *proc;
	struct dirent *entry;
	bool		found = false;

	n = listeners("/proc/self/net/tcp6", inodes, n);
	proc = n == 0 || mark == NULL ? NULL : opendir("/proc");
	while (proc != NULL && !found && (entry = readdir(proc)) != NULL)
		found = isdigit((unsigned char) *entry->d_name) &&
			of_job(entry->d_name, mark) &&
			has_socket(entry->d_name, inodes, n);
	if (proc != NULL)
		closedir(proc);
	return found;
}

/*
 * Adds the sockets that listen on the port. Returns how many there are now.
 */
static int
listeners(const char *table, uint64_t *inodes, int n)
{
	FILE	   *file = fopen(table, "re");
	char		line[512];

	while (file != NULL && n < LISTENERS &&
		   fgets(line, sizeof(line), file) != NULL)
	{
		unsigned	at;
		unsigned	state;
		uint64_t	inode;

		if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %*s %*s %"
				   SCNu64, &at, &state, &inode) == 3 &&
			at == (unsigned) port && state == 0x0a)
			inodes[n++] = inode;
	}
	if (file != NULL)
		fclose(file);
	return n;
}

/* Whether a process has the mark of the attempt in its environment. */
static bool
of_job(const char *pid, const char *mark)
{
	char	   *path = Format("/proc/%s/environ", pid);
	size_t		len = 0;
	char	   *text = SessionReadProc(path, &len);
	char	   *wanted = Format("GPUCREDIT_MARK=%s", mark);
	bool		found = false;

	for (char *at = text; text != NULL && at < text + len && !found;
		 at += strlen(at) + 1)
		found = strcmp(at, wanted) == 0;
	free(wanted);
	free(text);
	free(path);
	return found;
}

/* Whether a process has one of these sockets open. */
static bool
has_socket(const char *pid, const uint64_t *inodes, int n)
{
	char	   *path = Format("/proc/%s/fd", pid);
	DIR		   *dir = opendir(path);
	struct dirent *entry;
	bool		found = false;

	while (dir != NULL && !found && (entry = readdir(dir)) != NULL)
	{
		char		link[64];
		ssize_t		len = readlinkat(dirfd(dir), entry->d_name, link,
									 sizeof(link) - 1);
		uint64_t	inode;

		link[len > 0 ? len : 0] = '\0';
		if (sscanf(link, "socket:[%" SCNu64 "]", &inode) != 1)
			continue;
		for (int i = 0; i < n; i++)
			found |= inodes[i] == inode;
	}
	if (dir != NULL)
		closedir(dir);
	free(path);
	return found;
}
