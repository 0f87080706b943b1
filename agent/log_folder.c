/*-------------------------------------------------------------------------
 *
 * log_folder.c
 *		Writes the output of ended attempts to a folder of the site's.
 *
 * The folder may be on a server that does not answer, so a child process
 * writes there, one at a time, and the agent never waits for it.  Each attempt
 * has a folder, which belongs to the agent's user, and each node's streams
 * have a file in it that only its owner may read.  A file has the head and the
 * tail of its stream, with a line between them that says how many bytes are
 * missing.
 *
 * The owner is the job's user if the configuration maps its account to a user
 * of the machine.  Users from first_uid on are numbered by each node for
 * itself, so on another node the same number is another account's user: files
 * of their jobs remain the agent's.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"
#include "clock.h"
#include "config.h"
#include "file.h"
#include "log.h"
#include "log_folder.h"
#include "log_piece.h"
#include "memory.h"

#define PAUSE_LEAST	(60 * NS_PER_S)
#define PAUSE_MOST	(3600 * NS_PER_S)

static pid_t writer;			/* the child that writes, or 0 */
static char *writes;			/* tag of the attempt whose output it writes */

static void run_writer(const LocalAttempt *attempt) __attribute__((noreturn));
static int	open_folder(const char *name);
static bool write_stream(const LocalAttempt *attempt, int folder, int stream,
						 uid_t uid, gid_t gid);
static bool write_pieces(const LocalAttempt *attempt, int file, int stream);
static char *file_name(int stream);
static void read_owner(const LocalAttempt *attempt, uid_t *uid, gid_t *gid);

/* Returns the path of a stream's file, allocated. */
char *
LogFolderFile(const LocalAttempt *attempt, int stream)
{
	char	   *name = file_name(stream);
	char	   *path = Format("%s/%s/%s", config.log_folder, attempt->name,
							  name);

	free(name);
	return path;
}

/*
 * Starts to write an attempt's output, unless a child is writing already, or
 * this attempt's output could not be written a moment ago.  Returns whether
 * the output is in the folder.
 */
bool
LogFolderWrite(LocalAttempt *attempt)
{
	if (attempt->in_log_folder)
		return true;
	if (writer != 0 || MonotonicNs() < attempt->log_folder_due_ns)
		return false;
	writer = fork();
	if (writer == 0)
		run_writer(attempt);
	if (writer < 0)
		writer = 0;				/* the next call tries again */
	else
		writes = Dup(attempt->tag);
	return false;
}

/*
 * Whether the process that ended was the one that writes.  If it failed, the
 * attempt's output waits for a pause that doubles each time: the outputs of
 * other attempts do not wait for one that cannot be written, for example
 * because its owner's quota is used up.
 */
bool
LogFolderChildGone(pid_t pid, int status)
{
	if (pid != writer)
		return false;
	writer = 0;
	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (strcmp(a->tag, writes) != 0)
			continue;
		a->in_log_folder = status == 0;
		a->log_folder_pause_ns = a->log_folder_pause_ns == 0 ? PAUSE_LEAST :
			a->log_folder_pause_ns * 2 > PAUSE_MOST ? PAUSE_MOST :
			a->log_folder_pause_ns * 2;
		a->log_folder_due_ns = MonotonicNs() + a->log_folder_pause_ns;
	}
	if (status != 0)
		LogLine("event=log_folder_not_written attempt=%s folder=%s error=\"%s\"",
				writes, config.log_folder,
				WIFEXITED(status) ? strerror(WEXITSTATUS(status)) :
				"the process was killed");
	free(writes);
	writes = NULL;
	return true;
}

/*
 * Runs in the child.  Of the agent's descriptors it keeps only the folder of
 * attempts, and above all not the agent's lock.  Its exit status is 0, or the
 * error number.
 */
static void
run_writer(const LocalAttempt *attempt)
{
	uid_t		uid = 0;
	gid_t		gid = 0;
	sigset_t	none;
	int			folder;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	(void) umask(022);
	if (dup2(run_dir, 3) < 0)
		_exit(errno);
	run_dir = 3;
	(void) close_range(4, ~0U, 0);
	read_owner(attempt, &uid, &gid);
	folder = open_folder(attempt->name);
	if (folder < 0)
		_exit(errno);
	for (int stream = 0; stream < 2; stream++)
	{
		if (!write_stream(attempt, folder, stream, uid, gid))
			_exit(errno == 0 ? EIO : errno);
	}
	_exit(0);
}

/*
 * Opens the attempt's folder, and makes it unless another node of the attempt
 * has.  Returns -1 with errno on failure, also if the folder is somebody
 * else's or others may write to it: they could replace the files.
 */
static int
open_folder(const char *name)
{
	int			top = open(config.log_folder,
						   O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int			folder = -1;
	struct stat st;

	if (top >= 0 && (mkdirat(top, name, 0755) == 0 || errno == EEXIST))
		folder = openat(top, name,
						O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (folder < 0 || fstat(folder, &st) != 0)
		return -1;
	if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
	{
		errno = EPERM;
		return -1;
	}
	return folder;
}

/*
 * Writes one stream's file, which has another name until it is complete.
 * Returns false with errno on failure.
 */
static bool
write_stream(const LocalAttempt *attempt, int folder, int stream, uid_t uid,
			 gid_t gid)
{
	char	   *name = file_name(stream);
	char	   *part = Format("%s.part", name);
	int			file;
	bool		done;
	int			error;

	(void) unlinkat(folder, part, 0);
	file = openat(folder, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC |
				  O_NOFOLLOW, 0600);
	done = file >= 0 && (uid == 0 || fchown(file, uid, gid) == 0) &&
		write_pieces(attempt, file, stream) && fsync(file) == 0 &&
		renameat(folder, part, folder, name) == 0;
	error = errno;
	if (file >= 0)
		close(file);
	if (!done)
		(void) unlinkat(folder, part, 0);
	errno = error;
	free(name);
	free(part);
	return done;
}

/*
 * Writes the head and the tail of a stream, as much as log_folder_kib allows,
 * to the file in the site's folder.  Returns false if that fails.
 */
static bool
write_pieces(const LocalAttempt *attempt, int file, int stream)
{
	static LogPiece piece;
	uint64_t	most = (uint64_t) config.log_folder_kib * 1024;
	uint64_t	at = 0;

	for (;;)
	{
		uint64_t	tail;

		LogPieceRead(attempt, stream, at, &piece);
		if (piece.message != NULL)
			return dprintf(file, "%s\n", piece.message) > 0;
		tail = piece.written > most ? piece.written - most : 0;
		if (at >= most && at < tail)
			LogPieceRead(attempt, stream, tail, &piece);
		else if (at < most && most < tail && at + piece.len > most)
			piece.len = most - at;	/* the head ends within the piece */
		if (piece.first > at &&
			dprintf(file, "\n[%llu bytes are not kept]\n",
					(unsigned long long) (piece.first - at)) < 0)
			return false;
		if (!WriteAll(file, piece.body, piece.len))
			return false;
		at = piece.first + piece.len;
		if (at >= piece.written)
			return true;
		if (piece.len == 0)		/* the node cannot read the rest */
			return dprintf(file, "\n[%llu bytes are not kept]\n",
						   (unsigned long long) (piece.written - at)) > 0;
	}
}

/*
 * Returns the name of a stream's file, allocated.  A node's name may contain
 * slashes, which become underscores.
 */
static char *
file_name(int stream)
{
	char	   *name = Format("%s.%s", config.node, LogStreams[stream]);

	for (char *at = name; *at != '\0'; at++)
	{
		if (*at == '/')
			*at = '_';
	}
	return name;
}

/*
 * Determines the user and group that shall own the files: those of the job,
 * from "start", or 0 and 0 for the agent's own.
 */
static void
read_owner(const LocalAttempt *attempt, uid_t *uid, gid_t *gid)
{
	int			dir = AttemptFolder(attempt);
	size_t		len = 0;
	char	   *start = dir < 0 ? NULL : FileGet(dir, "start", &len);

	for (char *at = start; at != NULL && at < start + len;
		 at += strlen(at) + 1)
	{
		if (strncmp(at, "uid=", 4) == 0)
			*uid = strtoul(at + 4, NULL, 10);
		if (strncmp(at, "gid=", 4) == 0)
			*gid = strtoul(at + 4, NULL, 10);
	}
	if (config.first_uid != 0 && *uid >= config.first_uid &&
		*uid - config.first_uid < (uid_t) config.uids)
		*uid = *gid = 0;
	free(start);
	if (dir >= 0)
		close(dir);
}
