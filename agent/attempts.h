/*-------------------------------------------------------------------------
 *
 * attempts.h
 *		The attempts this node has to do with, from disk and in memory.
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
	PHASE_RUNS,					/* has begun or is about to, not seen gone */
	PHASE_GONE,					/* no process is left; to be settled */
	PHASE_SETTLED				/* the database answered */
} Phase;

/* The digest of what a job saved, or is to go on from. */
typedef struct FileDigest
{
	pid_t		pid;			/* who takes it; 0: nobody */
	int			out;			/* where that one tells it */
	bool		ready;
	bool		metered;		/* the time until then was told */
	int64_t		step;
	int64_t		size;
	char	   *path;
	char		sha256[65];		/* empty: it could not be read */
} FileDigest;

typedef struct LocalAttempt
{
	char	   *org;
	int64_t		job;
	int			number;
	char	   *tag;			/* 'org/job/attempt' */
	char	   *name;			/* of its folder */
	int			dir;
	char	   *cgroup;			/* empty: none */
	Phase		phase;
	int			rank;			/* of this node among the attempt's */
	int			nodes;
	int64_t		placed_us;		/* when the database placed it; 0: not told */
	uint64_t	gpus;
	int			share;			/* thousandths of each */
	bool		forgotten;		/* the database gave its number to another */
	bool		lost;			/* its processes went with the machine */
	char	   *told;			/* why it was told to stop; NULL: it was not */
	char	   *saves;			/* why it was told to save, and did not yet */
	pid_t		keeper;			/* a child of ours; 0: adopted, or dead */
	int64_t		kept_until_ns;	/* the keeper was started just now */
	int			control;		/* -1: not open */
	const KeeperState *state;	/* NULL: not mapped yet */
	bool		metered;		/* its first heartbeat was answered */
	int64_t		meter_due_ns;
	int64_t		settle_due_ns;
	int64_t		pause_ns;		/* between tries */
	FileDigest	digest;
	ino_t		checkpoint_inode;	/* of the newest that was looked at */
	int64_t		saved_step;		/* -1: nothing saved */
	bool		resumes;		/* not launched: what it goes on from is read */
	int			from_attempt;
	int64_t		from_step;
	int64_t		gone_ns;
	bool		orphans_said;
	bool		checked;		/* gone, and its devices were looked at */
	int64_t		asked_ns;		/* when that look was asked for; 0: not yet */
	int			ticket;			/* of that look */
	int64_t		settled_ns;		/* CLOCK_BOOTTIME, or when this agent began */
	char	   *unwritten;		/* it ended as that, and no disk took it */
	struct LocalAttempt *next;
} LocalAttempt;

/* What the database says about one, by heartbeat(). */
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
	const char *addresses;		/* theirs; empty: not known */
	const char *save_to;
	int64_t		placed_us;		/* since 1970; 0: not told */
	int64_t		cpu_milli;		/* of this node; 0: no limit */
	int64_t		memory_mib;
	int64_t		left_ms;		/* until the deadline; -1: none */
	bool		save;
} Order;

extern LocalAttempt *attempts;

extern void AttemptsLoad(void);
extern LocalAttempt *AttemptFind(const char *org, int64_t job, int number);
extern void AttemptObey(const Order *order);
extern LocalAttempt *AttemptOpen(const char *name);
extern json_t * AttemptIntent(int dir);
extern void AttemptsLook(void);
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
extern void AttemptResume(LocalAttempt *attempt, bool good,
						  json_t * checkpoint);

/* How this node's part ended, as part_ended() is told. */
typedef struct Ending
{
	char		outcome[32];
	int64_t		elapsed_us;		/* -1: not known */
	int			exit_code;		/* -1: none */
	char		message[2304];
} Ending;

extern void AttemptNote(const LocalAttempt *attempt, const char *note);
extern void AttemptEnding(const LocalAttempt *attempt, Ending *ending);

#endif							/* GPUCREDIT_AGENT_ATTEMPTS_H */
