/*-------------------------------------------------------------------------
 *
 * attempts.c
 *		The attempts of this node, from disk and in memory.
 *
 * The disk decides (attempt_dir.h), and memory only saves reads.  Each check
 * takes an attempt one step further.  It does not matter who took the steps
 * before: this agent, an earlier one, or a keeper.  So a restart needs no code
 * of its own.
 *
 *-------------------------------------------------------------------------
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent.h"
#include "attempts.h"
#include "checkpoints.h"
#include "config.h"
#include "contain.h"
#include "devices.h"
#include "podman.h"
#include "pull_image.h"
#include "trash.h"
#include "util.h"

#define REMEMBERED		(24 * 3600 * NS_PER_S)	/* after settlement */

LocalAttempt *attempts;

static void read_intent(LocalAttempt *attempt, const json_t * intent);
static void advance_stage(LocalAttempt *attempt, AttemptLook look_foreign);
static bool keeper_lives(LocalAttempt *attempt, int *lock);
static Contain contain_of(const LocalAttempt *attempt);
static void recover(LocalAttempt *attempt);
static void close_files(LocalAttempt *attempt);
static void remove_cgroup(LocalAttempt *attempt);
static void attempt_free(LocalAttempt *attempt);

/*
 * At the start: load every attempt on the disk.
 */
void
AttemptsLoad(void)
{
	DIR		   *run = fdopendir(dup(run_dir));
	struct dirent *entry;

	if (run == NULL)
		Die("could not read %s/run: %s", config.state, strerror(errno));
	while ((entry = readdir(run)) != NULL)
	{
		LocalAttempt *attempt;

		if (entry->d_name[0] == '.')
			continue;
		attempt = AttemptOpen(entry->d_name);
		if (attempt == NULL)
			continue;
		attempt->next = attempts;
		attempts = attempt;
		LogLine("event=found attempt=%s phase=%s", attempt->tag,
				attempt->phase == PHASE_SETTLED ? "settled" :
				attempt->phase == PHASE_GONE ? "gone" : "runs");
	}
	closedir(run);
}

/*
 * A folder with a half-written intent is no attempt: nothing can have started.
 */
LocalAttempt *
AttemptOpen(const char *name)
{
	LocalAttempt *attempt = Alloc(sizeof(LocalAttempt));
	json_t	   *intent = NULL;

	attempt->name = Dup(name);
	attempt->control = -1;
	attempt->saved_step = -1;
	attempt->watch = -1;
	attempt->dir = openat(run_dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC |
						  O_NOFOLLOW);
	if (attempt->dir >= 0)
		intent = AttemptIntent(attempt->dir);
	if (intent == NULL)
	{
		if (attempt->dir >= 0)
			TrashPut(run_dir, name);
		attempt_free(attempt);
		return NULL;
	}
	attempt->on_disk = true;
	read_intent(attempt, intent);
	json_decref(intent);
	attempt->stop_reason = FileGet(attempt->dir, "told", NULL);
	attempt->phase = FileThere(attempt->dir, "settled") ? PHASE_SETTLED :
		FileThere(attempt->dir, "gone") ? PHASE_GONE : PHASE_RUNS;
	attempt->checked = attempt->phase == PHASE_SETTLED;
	attempt->settled_ns = BoottimeNs();
	attempt->gone_ns = MonotonicNs();
	if (attempt->phase == PHASE_RUNS)
	{
		char	   *path = Format("/proc/self/fd/%d", attempt->dir);

		attempt->watch = inotify_add_watch(watches, path, IN_MOVED_TO);
		free(path);
	}
	else
		attempt->cgroup_left = true;	/* an earlier agent may have left it */
	if (attempt->phase == PHASE_SETTLED)
		close_files(attempt);
	return attempt;
}

/*
 * A descriptor of the attempt's folder, which the caller closes; -1: there is
 * none.  The agent itself keeps the folders of settled attempts closed, because
 * it keeps them for a day.
 */
int
AttemptFolder(const LocalAttempt *attempt)
{
	return !attempt->on_disk ? -1 :
		openat(run_dir, attempt->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC |
			   O_NOFOLLOW);
}

/*
 * A settled attempt has to be settled again.
 */
void
AttemptReopen(LocalAttempt *attempt)
{
	if (attempt->dir < 0)
		attempt->dir = AttemptFolder(attempt);
	attempt->phase = PHASE_GONE;
}

/* NULL if the file is half written */
json_t *
AttemptIntent(int dir)
{
	size_t		len;
	char	   *text = FileGet(dir, "intent", &len);
	json_t	   *intent = text == NULL ? NULL :
		json_loadb(text, len, JSON_DISABLE_EOF_CHECK, NULL);

	free(text);
	return intent;
}

/*
 * The image that an attempt runs in; NULL: it runs on the node itself.
 */
const char *
AttemptImage(const json_t * intent)
{
	return json_string_value(json_object_get(json_object_get(intent, "spec"),
											 "image"));
}

/*
 * Read the intent of an attempt.  One from before the last boot is lost.
 */
static void
read_intent(LocalAttempt *attempt, const json_t * intent)
{
	const		json_t *nodes = json_object_get(intent, "nodes");
	const char *boot = json_string_value(json_object_get(intent, "boot_id"));
	const char *account;
	const char *foreign;
	size_t		i;
	json_t	   *node;

	attempt->org = Dup(json_string_value(json_object_get(intent, "org")));
	account = json_string_value(json_object_get(intent, "account"));
	attempt->account = Dup(account == NULL ? "" : account);
	attempt->job = json_integer_value(json_object_get(intent, "job"));
	attempt->number = json_integer_value(json_object_get(intent, "attempt"));
	attempt->cgroup = Dup(json_string_value(json_object_get(intent,
															"cgroup")));
	attempt->tag = Format("%s/%lld/%d", attempt->org,
						  (long long) attempt->job, attempt->number);
	attempt->in_image = AttemptImage(intent) != NULL;
	foreign = json_string_value(json_object_get(json_object_get(intent,
																"spec"),
												"foreign"));
	attempt->foreign = foreign == NULL ? NULL : Dup(foreign);
	attempt->lost = boot == NULL || strcmp(boot, boot_id) != 0;
	attempt->nodes = json_array_size(nodes);
	attempt->placed_us = json_integer_value(json_object_get(intent,
															"placed_us"));
	if (!attempt->lost)
		attempt->taken_ns = json_integer_value(json_object_get(intent,
															   "taken_ns"));
	attempt->share = atoi(json_string_value(json_object_get(intent,
															"share")));
	(void) SetParse(json_string_value(json_object_get(intent, "gpus")),
					&attempt->gpus);
	json_array_foreach(nodes, i, node)
	{
		if (strcmp(json_string_value(node), config.node) == 0)
			attempt->rank = i;
	}
}

LocalAttempt *
AttemptFind(const char *org, int64_t job, int number)
{
	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (a->job == job && a->number == number && strcmp(a->org, org) == 0)
			return a;
	}
	return NULL;
}

void
AttemptsAdvance(AttemptLook look_foreign)
{
	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (a->phase == PHASE_RUNS && !a->resumes && a->pull == 0)
			advance_stage(a, look_foreign);
		else if (a->cgroup_left)
			remove_cgroup(a);
	}
}

/*
 * Move an attempt on to the stage that its folder shows.
 */
static void
advance_stage(LocalAttempt *attempt, AttemptLook look_foreign)
{
	int			lock;

	if (FileThere(attempt->dir, "gone"))
	{
		AttemptGone(attempt);
		return;
	}
	if (attempt->foreign != NULL)
	{
		look_foreign(attempt);
		return;
	}
	if (keeper_lives(attempt, &lock))
	{
		if (attempt->control < 0)
			attempt->control = openat(attempt->dir, "control", O_WRONLY |
									  O_NONBLOCK | O_CLOEXEC);
		if (attempt->state == NULL && FileThere(attempt->dir, "state"))
		{
			const KeeperState *state = FileMap(attempt->dir, "state",
											   sizeof(KeeperState), false);

			if (state != NULL && state->magic == KEEPER_MAGIC)
				attempt->state = state;
			else if (state != NULL)
				munmap((void *) state, sizeof(KeeperState));
		}
		return;
	}
	/* we hold the lock while we end a dead keeper's processes */
	if (attempt->keeper == 0 || MonotonicNs() > attempt->kept_until_ns)
		recover(attempt);
	close(lock);
}

/*
 * The keeper holds the lock.  If no process holds it, we hold it on return.
 */
static bool
keeper_lives(LocalAttempt *attempt, int *lock)
{
	*lock = openat(attempt->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (*lock >= 0 && flock(*lock, LOCK_EX | LOCK_NB) == 0)
		return false;
	if (*lock >= 0)
		close(*lock);
	return true;
}

/*
 * How the processes of an attempt are found without its keeper.
 */
static Contain
contain_of(const LocalAttempt *attempt)
{
	Contain		contain = ContainOpen(attempt->cgroup);
	size_t		len = 0;
	char	   *start = FileGet(attempt->dir, "start", &len);

	contain.uid = geteuid();
	for (char *at = start; at != NULL && at < start + len;
		 at += strlen(at) + 1)
	{
		if (strncmp(at, "mark=", 5) == 0)
			contain.mark = Dup(at + 5);
		else if (strncmp(at, "uid=", 4) == 0)
			contain.uid = strtoul(at + 4, NULL, 10);
	}
	free(start);
	return contain;
}

/*
 * The keeper is dead: end its processes, then write how the attempt ended.
 */
static void
recover(LocalAttempt *attempt)
{
	Contain		contain;
	bool		populated;

	if (attempt->control >= 0)
		close(attempt->control);
	attempt->control = -1;
	if (!attempt->lost)
	{
		contain = contain_of(attempt);
		populated = ContainPopulated(&contain);
		if (populated)
			ContainSignal(&contain, SIGKILL);
		ContainClose(&contain);
		free((char *) contain.mark);
		if (populated)
		{
			if (!attempt->orphans_logged)
				LogLine("event=orphaned attempt=%s", attempt->tag);
			attempt->orphans_logged = true;
			return;				/* try again soon */
		}
	}
	if (!FileThere(attempt->dir, "exit"))
		AttemptWriteLost(attempt, FileThere(attempt->dir, "main"));
	AttemptGone(attempt);
}

/*
 * Write the end that no keeper saw: it ran until its keeper last looked.
 */
void
AttemptWriteLost(LocalAttempt *attempt, bool began)
{
	const KeeperState *state = FileMap(attempt->dir, "state",
									   sizeof(KeeperState), false);
	int64_t		ran = 0;
	char	   *line;

	if (began && state != NULL && state->exec_ns != 0)
		ran = (state->frozen_since_ns != 0 ? state->frozen_since_ns :
			   state->seen_ns) - state->exec_ns - state->frozen_ns;
	else if (!began && attempt->taken_ns != 0 && attempt->foreign == NULL)
		ran = MonotonicNs() - attempt->taken_ns;	/* it pulled its image */
	line = Format("%s 0 %lld %s\n", began ? EXIT_LOST : EXIT_NOT_STARTED,
				  (long long) (ran > 0 ? ran / 1000 : 0),
				  !began && attempt->pull != 0 ?
				  "image: it was still being pulled" :
				  !began ? "never begun" :
				  attempt->lost ? "the machine restarted" :
				  FileThere(attempt->dir, "main") ? "its keeper died" :
				  "this node knows nothing of it");
	AttemptWriteExit(attempt, line);
	if (state != NULL)
		munmap((void *) state, sizeof(KeeperState));
}

/*
 * Write "exit" in place of a dead keeper.  If the disk is full, memory keeps
 * it.
 */
void
AttemptWriteExit(LocalAttempt *attempt, char *line)
{
	free(attempt->unwritten);
	attempt->unwritten = NULL;
	if (FilePut(attempt->dir, "exit", line, strlen(line)))
		free(line);
	else
		attempt->unwritten = line;
}

void
AttemptGone(LocalAttempt *attempt)
{
	if (!FileThere(attempt->dir, "gone") &&
		!FilePut(attempt->dir, "gone", "", 0))
	{
		LogLine("event=gone_not_written attempt=%s error=\"%s\"", attempt->tag,
				strerror(errno));
		return;					/* a full disk: try again soon */
	}
	attempt->phase = PHASE_GONE;
	attempt->gone_ns = MonotonicNs();
	if (attempt->resumes)
		CheckpointEnd(attempt);
	attempt->resumes = false;
	if (attempt->pull != 0)
		PullLeave(attempt);
	if (attempt->in_image)
		PodmanRemove(attempt);
	if (attempt->control >= 0)
		close(attempt->control);
	attempt->control = -1;
	remove_cgroup(attempt);
	LogLine("event=gone attempt=%s", attempt->tag);
}

/* a child ended; the disk says what that means */
void
AttemptChildGone(pid_t pid)
{
	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (a->keeper == pid)
			a->keeper = 0;
	}
}

/* the attempt's first node meters for all of its nodes */
bool
AttemptMeters(const LocalAttempt *attempt)
{
	return attempt->phase == PHASE_RUNS && attempt->rank == 0 &&
		!attempt->forgotten &&
		(attempt->stop_reason == NULL || strcmp(attempt->stop_reason, "over") != 0) &&
		AttemptElapsedUs(attempt) >= 0;
}

/*
 * How long a live attempt has had its devices, in microseconds; -1: it has not
 * begun.
 */
int64_t
AttemptElapsedUs(const LocalAttempt *attempt)
{
	const KeeperState *state = attempt->state;
	int64_t		until;

	if (state == NULL || state->exec_ns == 0)
		return attempt->taken_ns == 0 || attempt->foreign != NULL ? -1 :
			(MonotonicNs() - attempt->taken_ns) / 1000;
	until = state->frozen_since_ns != 0 ? state->frozen_since_ns :
		MonotonicNs();
	return (until - state->exec_ns - state->frozen_ns) / 1000;
}

/*
 * The database has settled it.  Keep its folder for a day, so that a late
 * answer does not start it again.
 */
void
AttemptSettled(LocalAttempt *attempt, const char *how)
{
	/* a full disk: a restart settles it again, without effect */
	if (attempt->dir >= 0 &&
		!FilePut(attempt->dir, "settled", how, strlen(how)))
		LogLine("event=settled_not_written attempt=%s error=\"%s\"",
				attempt->tag, strerror(errno));
	CrashPoint("settled");
	attempt->phase = PHASE_SETTLED;
	attempt->settled_ns = BoottimeNs();
	CheckpointEnd(attempt);
	close_files(attempt);
	LogLine("event=settled attempt=%s as=%s", attempt->tag, how);
}

void
AttemptsForget(void)
{
	LocalAttempt **link = &attempts;

	while (*link != NULL)
	{
		LocalAttempt *attempt = *link;

		if ((attempt->phase == PHASE_SETTLED &&
			 (!attempt->on_disk ||
			  BoottimeNs() - attempt->settled_ns > REMEMBERED)) ||
			(!AttemptHolds(attempt) && attempt->forgotten))
		{
			*link = attempt->next;
			if (attempt->on_disk)
				TrashPut(run_dir, attempt->name);
			attempt_free(attempt);
		}
		else
			link = &attempt->next;
	}
}

/*
 * The disk is full: remove the folders of settled attempts.
 */
void
AttemptsMakeRoom(void)
{
	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		int			dir = a->phase == PHASE_SETTLED ? AttemptFolder(a) : -1;

		if (dir >= 0 && FileThere(dir, "work"))
		{
			LogLine("event=work_removed attempt=%s", a->tag);
			TrashPut(dir, "work");
		}
		if (dir >= 0)
			close(dir);
	}
}

/* does the agent report it as running: its processes live, or its devices are not checked yet? */
bool
AttemptHolds(const LocalAttempt *attempt)
{
	return attempt->phase == PHASE_RUNS ||
		(attempt->phase == PHASE_GONE && !attempt->checked);
}

/*
 * Does such a share fit on each of these devices?  A database restored from a
 * backup may have forgotten an attempt that holds one.
 */
bool
AttemptFits(uint64_t gpus, int share)
{
	for (int i = 0; i < 64; i++)
	{
		int			held = 0;

		for (const LocalAttempt *a = attempts; a != NULL; a = a->next)
		{
			if (AttemptHolds(a) && (a->gpus >> i & 1) != 0)
				held += a->share;
		}
		if ((gpus >> i & 1) != 0 && held + share > 1000)
			return false;
	}
	return true;
}

/*
 * Close all that is open of an attempt.
 */
static void
close_files(LocalAttempt *attempt)
{
	if (attempt->watch >= 0)
		(void) inotify_rm_watch(watches, attempt->watch);
	if (attempt->dir >= 0)
		close(attempt->dir);
	if (attempt->control >= 0)
		close(attempt->control);
	if (attempt->state != NULL)
		munmap((void *) attempt->state, sizeof(KeeperState));
	attempt->watch = attempt->dir = attempt->control = -1;
	attempt->state = NULL;
}

/*
 * Remove the cgroup of an attempt that is gone.  Until the kernel lets it go,
 * each look tries again.
 */
static void
remove_cgroup(LocalAttempt *attempt)
{
	bool		first = !attempt->cgroup_left;

	if (attempt->cgroup == NULL || *attempt->cgroup == '\0')
		attempt->cgroup_left = false;
	else
		attempt->cgroup_left = !ContainRemove(attempt->cgroup);
	if (first && attempt->cgroup_left)
		LogLine("event=cgroup_stays attempt=%s path=%s", attempt->tag,
				attempt->cgroup);
}

/*
 * Free all memory of an attempt.
 */
static void
attempt_free(LocalAttempt *attempt)
{
	close_files(attempt);
	if (attempt->digest.pid != 0)
	{
		CheckpointEnd(attempt);
		close(attempt->digest.out);
	}
	free(attempt->digest.path);
	free(attempt->org);
	free(attempt->account);
	free(attempt->tag);
	free(attempt->name);
	free(attempt->cgroup);
	free(attempt->stop_reason);
	free(attempt->saves);
	free(attempt->unwritten);
	free(attempt->foreign);
	free(attempt->run_record);
	free(attempt);
}
