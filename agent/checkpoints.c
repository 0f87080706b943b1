/*-------------------------------------------------------------------------
 *
 * checkpoints.c
 *		Checkpoints are digested before the database hears of them.
 *
 * A job names a file or folder that it has saved.  A process of the job's user
 * computes the digest, at idle priority.  So a job can only name what it could
 * read itself, and neither the agent nor its GPUs wait.
 *
 * Before an attempt starts from a checkpoint, the agent computes its digest
 * again. It never uses a checkpoint that changed.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attempts.h"
#include "checkpoints.h"
#include "launch.h"
#include "util.h"

#define LAST_WORD_LIMIT	(60 * NS_PER_S) /* how long settlement waits for a
										 * digest */

/* of a folder: of file names and contents, sorted by name */
static const char digest_script[] =
"if [ -d \"$1\" ]; then cd -- \"$1\" &&"
" find . -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum |"
" sha256sum; else sha256sum <\"$1\"; fi && du -sb -- \"$1\"";

static void take_newest(LocalAttempt *attempt);
static bool digest_begin(LocalAttempt *attempt, const char *path);
static void run_digest(const LocalAttempt *attempt, const char *path, int out);

/*
 * See whether jobs have saved a checkpoint.
 */
void
CheckpointsLook(void)
{
	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (a->phase != PHASE_SETTLED && a->digest.pid == 0 &&
			!a->digest.ready && !a->resumes)
			take_newest(a);
	}
}

/*
 * Digest the newest checkpoint, if it is new.
 */
static void
take_newest(LocalAttempt *attempt)
{
	struct stat st;
	char	   *line;
	char	   *end;
	long long	step;

	if (fstatat(attempt->dir, "checkpoint", &st, AT_SYMLINK_NOFOLLOW) != 0 ||
		st.st_ino == attempt->checkpoint_inode)
		return;
	attempt->checkpoint_inode = st.st_ino;
	line = FileGet(attempt->dir, "checkpoint", NULL);
	if (line == NULL)
		return;
	step = strtoll(line, &end, 10);
	if (end != line && *end == ' ' && step > attempt->saved_step)
	{
		attempt->digest.step = step;
		(void) digest_begin(attempt, end + 1);
	}
	free(line);
}

/*
 * Start to digest the checkpoint an attempt starts from.  False: it is no file
 * of this machine, and the job itself finds it.
 */
bool
CheckpointVerify(LocalAttempt *attempt, const char *uri)
{
	if (strncmp(uri, "file://", 7) == 0)
		uri += 7;
	return *uri == '/' && digest_begin(attempt, uri);
}

/*
 * Start a child that computes the digest; false on failure.
 */
static bool
digest_begin(LocalAttempt *attempt, const char *path)
{
	FileDigest *digest = &attempt->digest;
	int			ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	digest->pid = fork();
	if (digest->pid == 0)
		run_digest(attempt, path, ends[1]);
	close(ends[1]);
	if (digest->pid < 0)
	{
		digest->pid = 0;
		close(ends[0]);
		return false;
	}
	digest->out = ends[0];
	digest->path = Dup(path);
	digest->sha256[0] = '\0';
	return true;
}

/*
 * The child: drop the agent's rights, then read.
 */
static void
run_digest(const LocalAttempt *attempt, const char *path, int out)
{
	sigset_t	none;
	JobUser		user;
	char	   *argv[] = {"ionice", "-c3", "nice", "-n19", "sh", "-c",
	(char *) digest_script, "sh", (char *) path, NULL};
	char	   *env[] = {"PATH=/usr/bin:/bin", NULL};

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (UserOf(attempt->org, attempt->account, &user) == NULL &&
		dup2(out, STDOUT_FILENO) >= 0 &&
		(user.uid == 0 || (setgroups(0, NULL) == 0 &&
						   setresgid(user.gid, user.gid, user.gid) == 0 &&
						   setresuid(user.uid, user.uid, user.uid) == 0)))
		execvpe(argv[0], argv, env);
	_exit(127);
}

/*
 * A child ended: did it compute a digest?
 */
bool
CheckpointChildGone(pid_t pid, int status)
{
	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		FileDigest *digest = &a->digest;
		char		text[8192];
		ssize_t		n;
		char	   *size;

		if (digest->pid != pid)
			continue;
		n = read(digest->out, text, sizeof(text) - 1);
		close(digest->out);
		digest->pid = 0;
		digest->ready = true;
		text[n > 0 ? n : 0] = '\0';
		size = strchr(text, '\n');
		if (status == 0 && size != NULL && strcspn(text, " ") == 64)
		{
			memcpy(digest->sha256, text, 64);
			digest->sha256[64] = '\0';
			digest->size = strtoll(size + 1, NULL, 10);
		}
		else
			LogLine("event=unreadable_checkpoint attempt=%s path=%s", a->tag,
					digest->path);
		if (digest->sha256[0] == '\0' && !a->resumes)
			CheckpointDone(a);	/* nothing to report */
		return true;
	}
	return false;
}

/* the database has the digest, or refused it for good */
void
CheckpointDone(LocalAttempt *attempt)
{
	FileDigest *digest = &attempt->digest;

	attempt->saved_step = digest->step;
	free(digest->path);
	memset(digest, 0, sizeof(FileDigest));
}

/*
 * Must settlement wait for the attempt's last digest?
 */
bool
CheckpointHolds(const LocalAttempt *attempt)
{
	return (attempt->digest.pid != 0 || attempt->digest.ready) &&
		MonotonicNs() - attempt->gone_ns < LAST_WORD_LIMIT;
}
