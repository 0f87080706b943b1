/*-------------------------------------------------------------------------
 *
 * attempts.h
 *		The attempts of this node, on disk and in memory.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_ATTEMPTS_H
#define GPUCREDIT_AGENT_ATTEMPTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "attempt_dir.h"

typedef enum Phase
{
	PHASE_RUNS,					/* processes live, or are about to start */
	PHASE_GONE,					/* no process is left; to be settled */
	PHASE_SETTLED				/* the database has answered the settlement */
} Phase;

/*
 * Digest of a checkpoint, either one that the job saved or the one that it
 * starts from.
 */
typedef struct FileDigest
{
	pid_t		pid;			/* the child that computes the digest, or 0 */
	int			out;			/* pipe to which the child writes the digest */
	bool		ready;
	bool		metered;		/* the elapsed time when it was saved is
								 * reported */
	int64_t		step;
	int64_t		size;
	char	   *path;
	char		sha256[65];		/* empty if the child could not read the file */
} FileDigest;

typedef struct LocalAttempt
{
	char	   *org;
	char	   *account;		/* empty for the organisation itself */
	int64_t		job;
	int			number;
	char	   *tag;			/* "org/job/attempt" */
	char	   *name;			/* name of the attempt's folder */
	bool		on_disk;		/* the folder exists */
	int			dir;			/* descriptor of the folder, or -1 if not open */
	int			watch;			/* inotify watch of the folder, or -1 */
	char	   *cgroup;			/* path of the cgroup; empty if there is none */
	bool		cgroup_left;	/* the cgroup could not be removed yet */
	Phase		phase;
	int			rank;			/* index of this node among the attempt's
								 * nodes */
	int			nodes;
	int64_t		placed_us;		/* when the database placed it; 0 if unknown */
	int64_t		taken_ns;		/* CLOCK_MONOTONIC when it occupied its
								 * devices */
	uint64_t	gpus;
	int			share;			/* share of each device, in thousandths */
	bool		output_kept;	/* all of its output is handed over, or it has
								 * none */
	int			keep_stream;	/* stream to hand over next: 0 stdout, 1
								 * stderr */
	uint64_t	keep_from;		/* byte at which its next piece begins */
	bool		in_log_folder;	/* its output is in the site's folder */
	int64_t		log_folder_due_ns;	/* when to try again to write it there */
	int64_t		log_folder_pause_ns;	/* pause before that, or 0 */
	bool		forgotten;		/* the database has reused its number */
	bool		lost;			/* a reboot ended its processes */
	char	   *stop_reason;	/* why it must stop, or NULL */
	char	   *saves;			/* why it must save, or NULL once it has */
	pid_t		keeper;			/* process id of the keeper if it is a child;
								 * 0 if it is adopted or dead */
	int64_t		kept_until_ns;	/* the keeper was just started; it counts as
								 * live until then */
	int			control;		/* pipe "control", or -1 if not open */
	const KeeperState *state;	/* NULL if not mapped yet */
	bool		metered;		/* the database has answered its first
								 * heartbeat */
	bool		idle_told;		/* its terminals show that it is idle */
	int64_t		meter_due_ns;
	int64_t		settle_due_ns;
	int64_t		pause_ns;		/* pause before the next attempt to settle */
	FileDigest	digest;
	int			digests_killed; /* how many digests were killed by the end of
								 * the job */
	ino_t		checkpoint_inode;	/* inode of the newest checkpoint record
									 * that was digested */
	int64_t		saved_step;		/* step of the last checkpoint, or -1 */
	pid_t		pull;			/* the child that pulls its image, or 0 */
	int64_t		pull_until_ns;	/* until when it waits for its image */
	bool		in_image;		/* it runs in podman */
	bool		resumes;		/* it waits for the digest of the checkpoint
								 * that it starts from */
	int			from_attempt;
	int64_t		from_step;
	int64_t		gone_ns;
	int64_t		held_ns;		/* until when its last digest kept its devices
								 * in use, or 0 */
	bool		orphans_logged;
	bool		checked;		/* it is gone, and its devices were checked */
	int64_t		asked_ns;		/* when the check of its devices began, or 0 */
	int			ticket;			/* number of the device readings that the
								 * check waits for */
	int64_t		settled_ns;		/* CLOCK_BOOTTIME of the settlement, or of
								 * this agent's start if it was settled before */
	int64_t		energy_mj;		/* millijoules that its devices used so far */
	uint64_t	energy_of;		/* its devices of which energy was read */
	int64_t		xids;			/* Xids of its devices while it had them,
								 * since the agent's start */
	char	   *metric_labels;	/* its labels in metrics; NULL if not built
								 * yet */
	char	   *unwritten;		/* the line of "exit" that could not be
								 * written because the disk was full */
	char	   *foreign;		/* the name of its run in another scheduler;
								 * NULL if the agent itself runs it */
	char	   *run_record;		/* folder of that run's record, or NULL if not
								 * known yet */
	int64_t		stop_ns;		/* when foreign_stop was last run, or 0 */
	char		stop_word;		/* first letter of the command that
								 * foreign_stop was given */
	struct LocalAttempt *next;
} LocalAttempt;

/* The database's answer about an attempt, from heartbeat(). */
typedef struct Order
{
	const char *org;
	int64_t		job;
	int			number;
	const char *action;
	const char *reason;
	const char *gpus;
	const char *share;
	const char *spec;
	const char *traceparent;
	const char *nodes;			/* names of the attempt's nodes, one per line */
	const char *addresses;		/* addresses of those nodes; empty if unknown */
	const char *node_gpus;		/* number of GPUs on each node, one per line */
	const char *account;
	const char *save_to;
	int64_t		placed_us;		/* microseconds since 1970; 0 if unknown */
	int64_t		cpu_milli;		/* limit on this node, or 0 for none */
	int64_t		memory_mib;
	int64_t		left_ms;		/* milliseconds until the deadline, or -1 for
								 * none */
	bool		save;
} Order;

extern LocalAttempt *attempts;

extern void AttemptsLoad(void);
extern LocalAttempt *AttemptFind(const char *org, int64_t job, int number);
extern LocalAttempt *AttemptOpen(const char *name);
extern int	AttemptFolder(const LocalAttempt *attempt);
extern void AttemptReopen(LocalAttempt *attempt);
extern json_t * AttemptIntent(int dir);
extern const char *AttemptImage(const json_t * intent);

/* Checks an attempt that another scheduler starts. */
typedef void (*AttemptLook) (LocalAttempt *attempt);

extern void AttemptsAdvance(AttemptLook look_foreign);
extern void AttemptsMakeRoom(void);
extern bool AttemptHolds(const LocalAttempt *attempt);
extern bool AttemptFits(uint64_t gpus, int share);
extern void AttemptWriteLost(LocalAttempt *attempt, bool began);
extern void AttemptWriteExit(LocalAttempt *attempt, char *line);
extern void AttemptGone(LocalAttempt *attempt);
extern void AttemptChildGone(pid_t pid);
extern bool AttemptMeters(const LocalAttempt *attempt);
extern int64_t AttemptElapsedUs(const LocalAttempt *attempt);
extern void AttemptSettled(LocalAttempt *attempt, const char *how);
extern void AttemptsForget(void);

#define MESSAGE_MOST	4096	/* most bytes of a program's standard error in
								 * the message */

/* How this node's part ended: the arguments of part_ended(). */
typedef struct Ending
{
	char		outcome[32];
	int64_t		elapsed_us;		/* -1 if not known */
	int			exit_code;		/* -1 for none */
	char		message[MESSAGE_MOST + 256];
} Ending;

extern void AttemptNote(const LocalAttempt *attempt, const char *note);
extern void AttemptEnding(const LocalAttempt *attempt, Ending *ending);

#endif							/* GPUCREDIT_AGENT_ATTEMPTS_H */
