/*-------------------------------------------------------------------------
 *
 * checkpoints.c
 *		Computes the digests of checkpoints.
 *
 * A job reports a file or folder that it has saved. A process of the job's
 * user computes the digest, in the job's cgroup and at idle priority, before
 * the database is informed. So a job can only name what it could read itself,
 * and the reading counts as its own use. The process ends with the settlement
 * at the latest. If a program ends right after its last checkpoint, the digest
 * process ends with the program's cgroup, so the checkpoint is read once more.
 *
 * Before an attempt starts from a checkpoint, the agent computes its digest
 * again. It never uses a checkpoint that has changed.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attempts.h"
#include "checkpoints.h"
#include "clock.h"
#include "contain.h"
#include "file.h"
#include "launch.h"
#include "log.h"
#include "memory.h"

#define TRIES	3				/* how often to try to read one checkpoint */
#define KILLED	(128 + SIGKILL) /* exit status of a shell whose command was
								 * killed */
#define LAST_WORD_LIMIT	(60 * NS_PER_S) /* how long settlement waits for a
										 * digest */

/* The most that is read of a file that has nearly no blocks on the disk. */
#define SPARSE_MOST		(INT64_C(1) << 30)

/* Digest of a file, which is standard input; $1 is its size. */
static const char file_script[] = "sha256sum && echo \"$1\"";

/*
 * Digest of a folder: of the names and contents of its files, sorted by name.
 */
static const char folder_script[] =
"find . -xdev -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum |"
" sha256sum && du -sb .";

static void digest_newest(LocalAttempt *attempt);
static bool digest_begin(LocalAttempt *attempt, const char *path);
static void run_digest(const LocalAttempt *attempt, const char *path, int out)
			__attribute__((noreturn));
static void drop_rights(const LocalAttempt *attempt);
static void printable(char *text);
static bool was_killed(int status);

/*
 * Starts to digest the checkpoints that jobs have saved since the last call.
 */
void
CheckpointsDigest(void)
{
	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (a->phase != PHASE_SETTLED && a->digest.pid == 0 &&
			!a->digest.ready && !a->resumes)
			digest_newest(a);
	}
}

/*
 * Starts to digest an attempt's newest checkpoint, if it is new.
 */
static void
digest_newest(LocalAttempt *attempt)
{
	struct stat st;
	char	   *line;
	char	   *end;
	long long	step;

	if (fstatat(attempt->dir, "checkpoint", &st, AT_SYMLINK_NOFOLLOW) != 0 ||
		st.st_ino == attempt->checkpoint_inode)
		return;

	/*
	 * A process that enters the cgroup now would be killed together with the
	 * job's remaining processes.
	 */
	if (attempt->phase == PHASE_RUNS && FileThere(attempt->dir, "exit"))
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
 * Starts to digest the checkpoint that an attempt starts from. Returns false
 * if the checkpoint is not a file of this machine; then the job itself has to
 * find it.
 */
bool
CheckpointVerify(LocalAttempt *attempt, const char *uri)
{
	if (strncmp(uri, "file://", 7) == 0)
		uri += 7;
	return *uri == '/' && digest_begin(attempt, uri);
}

/*
 * Starts a child that computes a digest. Returns false on failure.
 */
static bool
digest_begin(LocalAttempt *attempt, const char *path)
{
	FileDigest *digest = &attempt->digest;
	json_t	   *intent = AttemptIntent(attempt->dir);
	bool		contained = intent != NULL && LaunchCgroup(attempt, intent);
	char	   *name = Dup(path);	/* "path" may be the digest's own */
	int			ends[2];

	json_decref(intent);
	free(digest->path);
	digest->path = name;
	if (!contained || pipe2(ends, O_CLOEXEC) != 0)
		return false;
	digest->pid = fork();
	if (digest->pid == 0)
		run_digest(attempt, name, ends[1]);
	close(ends[1]);
	if (digest->pid < 0)
	{
		digest->pid = 0;
		close(ends[0]);
		return false;
	}
	digest->out = ends[0];
	digest->sha256[0] = '\0';
	return true;
}

/*
 * Runs in the child. It reads as the job's user, in the job's cgroup and
 * within its limits, and reads only files and folders, because the job may
 * have named a device or a pipe that never ends.
 */
static void
run_digest(const LocalAttempt *attempt, const char *path, int out)
{
	char		size[32];
	const char *script = file_script;
	struct stat st;
	int			file;
	char	   *argv[] = {"ionice", "-c3", "nice", "-n19", "sh", "-c", NULL, "sh",
	size, NULL};
	char	   *env[] = {"PATH=/usr/bin:/bin", NULL};

	if (dup2(out, STDOUT_FILENO) < 0)
		_exit(127);
	drop_rights(attempt);
	file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY |
				O_CLOEXEC);
	if (file < 0 || fstat(file, &st) != 0)
		_exit(1);
	if (S_ISDIR(st.st_mode))
	{
		script = folder_script;
		if (fchdir(file) != 0)
			_exit(1);
	}
	else if (!S_ISREG(st.st_mode) || dup2(file, STDIN_FILENO) < 0 ||
			 (st.st_size > SPARSE_MOST &&
			  st.st_blocks * INT64_C(512) < st.st_size / 64))
		_exit(1);
	snprintf(size, sizeof(size), "%lld", (long long) st.st_size);
	argv[6] = (char *) script;
	execvpe(argv[0], argv, env);
	_exit(127);
}

/*
 * Turns the child into a process of the job, in a process group of its own.
 */
static void
drop_rights(const LocalAttempt *attempt)
{
	Contain		contain = ContainOpen(attempt->cgroup);
	sigset_t	none;
	JobUser		user;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	if (UserOf(attempt->org, attempt->account, &user) != NULL)
		_exit(127);

	/*
	 * If the job ends before this process has entered the job's cgroup, the
	 * cgroup is removed: this counts as killed with the job.
	 */
	if ((contain.cgroup < 0 && attempt->cgroup != NULL &&
		 *attempt->cgroup != '\0') || !ContainEnter(&contain))
		_exit(KILLED);
	if (user.uid != 0 && (setgroups(0, NULL) != 0 ||
						  setresgid(user.gid, user.gid, user.gid) != 0 ||
						  setresuid(user.uid, user.uid, user.uid) != 0))
		_exit(127);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
		prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
		_exit(127);
}

/*
 * Replaces characters with which a job's file name could break a line of the
 * log.
 */
static void
printable(char *text)
{
	for (; *text != '\0'; text++)
	{
		if ((unsigned char) *text < ' ' || *text == '"' || *text == 127)
			*text = '?';
	}
}

/*
 * Whether the end of the job ended a digest process. It kills the processes in
 * the job's cgroup one after the other: if "sha256sum" dies first, the shell
 * above it may still exit with the status KILLED. So does a digest process that
 * found the cgroup removed.
 */
static bool
was_killed(int status)
{
	return WIFSIGNALED(status) ||
		(WIFEXITED(status) && WEXITSTATUS(status) == KILLED);
}

/*
 * Handles the end of a child. Returns whether it was one that computed a
 * digest.
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
		else if (was_killed(status) && a->phase != PHASE_SETTLED &&
				 !a->resumes && ++a->digests_killed < TRIES)
		{
			/*
			 * The end of the job ended this process, too: read the checkpoint
			 * again.
			 */
			a->checkpoint_inode = 0;
			free(digest->path);
			memset(digest, 0, sizeof(FileDigest));
			return true;
		}
		else
		{
			printable(digest->path);
			LogLine("event=unreadable_checkpoint attempt=%s %s=%d path=\"%s\"",
					a->tag, WIFSIGNALED(status) ? "signal" : "exit",
					WIFSIGNALED(status) ? WTERMSIG(status) :
					WEXITSTATUS(status), digest->path);
		}
		a->cgroup_left = a->phase != PHASE_RUNS;
		if (digest->sha256[0] == '\0' && !a->resumes)
			CheckpointDone(a);	/* there is nothing to report */
		return true;
	}
	return false;
}

/*
 * Ends the digest process of an attempt that is settled.
 */
void
CheckpointEnd(LocalAttempt *attempt)
{
	FileDigest *digest = &attempt->digest;

	if (digest->pid == 0)
		return;
	(void) kill(-digest->pid, SIGKILL);
	(void) kill(digest->pid, SIGKILL);	/* the child may not have a process
										 * group yet */
	attempt->digests_killed = TRIES;	/* the checkpoint is not read again */
	attempt->cgroup_left = true;
}

/* Clears a digest that the database has stored or refused permanently. */
void
CheckpointDone(LocalAttempt *attempt)
{
	FileDigest *digest = &attempt->digest;

	attempt->saved_step = digest->step;
	free(digest->path);
	memset(digest, 0, sizeof(FileDigest));
}

/*
 * Whether settlement must wait for the attempt's last digest.
 */
bool
CheckpointHolds(const LocalAttempt *attempt)
{
	return (attempt->digest.pid != 0 || attempt->digest.ready) &&
		MonotonicNs() - attempt->gone_ns < LAST_WORD_LIMIT;
}
