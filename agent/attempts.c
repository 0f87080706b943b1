/*-------------------------------------------------------------------------
 *
 * attempts.c
 *		The attempts of this node, on disk and in memory.
 *
 * The files on disk are authoritative (attempt_dir.h); memory only saves
 * reads. Each check advances an attempt by one step, regardless of who took
 * the earlier steps: this agent, an earlier agent, or a keeper. So a restart
 * needs no code of its own.
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
#include "clock.h"
#include "config.h"
#include "contain.h"
#include "crash_point.h"
#include "devices.h"
#include "file.h"
#include "log.h"
#include "memory.h"
#include "podman.h"
#include "pull_image.h"
#include "trash.h"

#define REMEMBERED		(24 * 3600 * NS_PER_S)	/* how long an attempt is kept
												 * after settlement */

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
 * Loads all attempts from disk, when the agent starts.
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
 * Loads an attempt from its folder. Returns NULL if its intent is incomplete:
 * then nothing can have been started.
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
	attempt->output_kept = FileThere(attempt->dir, "output_kept");
	attempt->settled_ns = BoottimeNs();
	attempt->gone_ns = MonotonicNs();
	if (attempt->phase == PHASE_RUNS)
	{
		char	   *path = Format("/proc/self/fd/%d", attempt->dir);

		attempt->watch = inotify_add_watch(watches, path, IN_MOVED_TO);
		free(path);
	}
	else
		attempt->cgroup_left = true;	/* an earlier agent may not have
										 * removed it */
	if (attempt->phase == PHASE_SETTLED)
		close_files(attempt);
	return attempt;
}

/*
 * Opens the attempt's folder. The caller closes the descriptor. Returns -1 if
 * there is no folder. The agent keeps the folders of settled attempts closed,
 * because there can be many: they are kept for a day.
 */
int
AttemptFolder(const LocalAttempt *attempt)
{
	return !attempt->on_disk ? -1 :
		openat(run_dir, attempt->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC |
			   O_NOFOLLOW);
}

/*
 * Makes a settled attempt be settled again.  A database that has lost the
 * settlement has lost the output that was handed over after it, too.
 */
void
AttemptReopen(LocalAttempt *attempt)
{
	if (attempt->dir < 0)
		attempt->dir = AttemptFolder(attempt);
	if (attempt->dir >= 0)
		(void) unlinkat(attempt->dir, "output_kept", 0);
	attempt->output_kept = false;
	attempt->keep_stream = 0;
	attempt->keep_from = 0;
	attempt->phase = PHASE_GONE;
}

/* Reads the intent of an attempt. Returns NULL if the file is incomplete. */
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
 * Returns the image that an attempt runs in, or NULL if it runs on the node
 * itself.
 */
const char *
AttemptImage(const json_t * intent)
{
	return json_string_value(json_object_get(json_object_get(intent, "spec"),
											 "image"));
}

/*
 * Reads an attempt's intent into the structure. An attempt of an earlier boot
 * is lost.
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
 * Advances an attempt to the stage that its folder shows.
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
	/* Keep the lock while ending the processes of a dead keeper. */
	if (attempt->keeper == 0 || MonotonicNs() > attempt->kept_until_ns)
		recover(attempt);
	close(lock);
}

/*
 * Whether the attempt's keeper lives, which then holds the lock. If it does
 * not, the lock is held on return.
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
 * Describes the processes of an attempt, so that they are found without its
 * keeper.
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
 * Handles the death of the keeper: ends its processes, then records how the
 * attempt ended.
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
			return;				/* tried again by the next check */
		}
	}
	if (!FileThere(attempt->dir, "exit"))
		AttemptWriteLost(attempt, FileThere(attempt->dir, "main"));
	AttemptGone(attempt);
}

/*
 * Records an end that no keeper saw. The attempt counts as running until its
 * keeper's last check.
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
		ran = MonotonicNs() - attempt->taken_ns;	/* the attempt was pulling
													 * its image */
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
 * Writes "exit" in place of a dead keeper. If the disk is full, the line stays
 * in memory until it can be written.
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
		return;					/* the disk is full: tried again by the next
								 * check */
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

/* Notes that a keeper ended. The attempt's files show what that means. */
void
AttemptChildGone(pid_t pid)
{
	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (a->keeper == pid)
			a->keeper = 0;
	}
}

/*
 * Whether this node meters the attempt, which its first node does for all
 * nodes.
 */
bool
AttemptMeters(const LocalAttempt *attempt)
{
	return attempt->phase == PHASE_RUNS && attempt->rank == 0 &&
		!attempt->forgotten &&
		(attempt->stop_reason == NULL || strcmp(attempt->stop_reason, "over") != 0) &&
		AttemptElapsedUs(attempt) >= 0;
}

/*
 * Returns how long a live attempt has had its devices, in microseconds, or -1
 * if it has not begun.
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
 * Marks an attempt as settled. Its folder is kept for a day, so that a late
 * answer does not start the attempt again.
 */
void
AttemptSettled(LocalAttempt *attempt, const char *how)
{
	/*
	 * If the disk is full, a restarted agent settles the attempt again, which
	 * has no effect.
	 */
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
 * Removes the folders of settled attempts, because the disk is full.
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

/*
 * Whether the agent reports the attempt as running: its processes live, or its
 * devices are not checked yet.
 */
bool
AttemptHolds(const LocalAttempt *attempt)
{
	return attempt->phase == PHASE_RUNS ||
		(attempt->phase == PHASE_GONE && !attempt->checked);
}

/*
 * Whether a share of this size is free on each of these devices. It may not be
 * if a database restored from a backup lacks an attempt that runs here.
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
 * Closes all descriptors of an attempt.
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
 * Removes the cgroup of an attempt that is gone. While the kernel still uses
 * the cgroup, each check tries again.
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
 * Frees all memory of an attempt.
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
	free(attempt->metric_labels);
	free(attempt->foreign);
	free(attempt->run_record);
	free(attempt);
}
