/*-------------------------------------------------------------------------
 *
 * attempts.h
 *		The attempts of this node, from disk and in memory.
 *
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
	PHASE_RUNS,					/* live, or about to start */
	PHASE_GONE,					/* no process is left; to be settled */
	PHASE_SETTLED				/* the database answered */
} Phase;

/* The digest of a checkpoint: a job's own, or the one it starts from. */
typedef struct FileDigest
{
	pid_t		pid;			/* the child that computes it; 0: none */
	int			out;			/* the child writes the digest here */
	bool		ready;
	bool		metered;		/* elapsed time up to then is reported */
	int64_t		step;
	int64_t		size;
	char	   *path;
	char		sha256[65];		/* empty: the child could not read it */
} FileDigest;

typedef struct LocalAttempt
{
	char	   *org;
	char	   *account;		/* empty: the organisation itself */
	int64_t		job;
	int			number;
	char	   *tag;			/* 'org/job/attempt' */
	char	   *name;			/* of the attempt's folder */
	bool		on_disk;		/* the folder exists */
	int			dir;			/* the folder; -1: not open */
	int			watch;			/* of that folder, by inotify; -1: none */
	char	   *cgroup;			/* empty: none */
	bool		cgroup_left;	/* the cgroup could not be removed yet */
	Phase		phase;
	int			rank;			/* this node's number in the attempt */
	int			nodes;
	int64_t		placed_us;		/* when the database placed it; 0: unknown */
	int64_t		taken_ns;		/* CLOCK_MONOTONIC, when it took its devices */
	uint64_t	gpus;
	int			share;			/* thousandths of each */
	bool		forgotten;		/* the database reused its number */
	bool		lost;			/* a reboot ended its processes */
	char	   *stop_reason;	/* why it must stop; NULL: it may run */
	char	   *saves;			/* why it must save, until it has */
	pid_t		keeper;			/* our child; 0: adopted, or dead */
	int64_t		kept_until_ns;	/* the keeper was just started */
	int			control;		/* -1: not open */
	const KeeperState *state;	/* NULL: not mapped yet */
	bool		metered;		/* the database answered its first heartbeat */
	int64_t		meter_due_ns;
	int64_t		settle_due_ns;
	int64_t		pause_ns;		/* between tries */
	FileDigest	digest;
	int			digests_killed; /* by the end of the job */
	ino_t		checkpoint_inode;	/* step of the newest checkpoint digested */
	int64_t		saved_step;		/* -1: no checkpoint yet */
	pid_t		pull;			/* the child that pulls its image; 0: none */
	int64_t		pull_until_ns;	/* it waits for that until then */
	bool		in_image;		/* it runs in podman */
	bool		resumes;		/* waits for the digest of its checkpoint */
	int			from_attempt;
	int64_t		from_step;
	int64_t		gone_ns;
	int64_t		held_ns;		/* until then its last digest held its
								 * devices; 0: it did not */
	bool		orphans_logged;
	bool		checked;		/* gone, and its devices were checked */
	int64_t		asked_ns;		/* when that check began; 0: not yet */
	int			ticket;			/* of that look */
	int64_t		settled_ns;		/* CLOCK_BOOTTIME, or when this agent began */
	char	   *unwritten;		/* ended like this; the disk was full */
	char	   *foreign;		/* what another scheduler's run is called;
								 * NULL: the agent runs it */
	char	   *run_record;		/* that run's folder; NULL: not known yet */
	int64_t		stop_ns;		/* when foreign_stop was last run; 0: never */
	char		stop_word;		/* the first letter of its command */
	struct LocalAttempt *next;
} LocalAttempt;

/* The database's answer about an attempt, by heartbeat(). */
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
	const char *nodes;			/* a text array's elements, one a line */
	const char *addresses;		/* the nodes'; empty: unknown */
	const char *node_gpus;		/* how many GPUs each has, one a line */
	const char *account;
	const char *save_to;
	int64_t		placed_us;		/* since 1970; 0: unknown */
	int64_t		cpu_milli;		/* of this node; 0: no limit */
	int64_t		memory_mib;
	int64_t		left_ms;		/* until the deadline; -1: none */
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

/* checks an attempt that another scheduler starts */
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

#define MESSAGE_MOST	4096	/* bytes of a program's standard error */

/* How this node's part ended: the arguments of part_ended(). */
typedef struct Ending
{
	char		outcome[32];
	int64_t		elapsed_us;		/* -1: not known */
	int			exit_code;		/* -1: none */
	char		message[MESSAGE_MOST + 256];
} Ending;

extern void AttemptNote(const LocalAttempt *attempt, const char *note);
extern void AttemptEnding(const LocalAttempt *attempt, Ending *ending);

#endif							/* GPUCREDIT_AGENT_ATTEMPTS_H */
