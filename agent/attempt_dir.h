/*-------------------------------------------------------------------------
 *
 * attempt_dir.h
 *		The folder of an attempt, which agent and keeper share.
 *
 * Each step of an attempt's life is a file, synced before the next step:
 *
 *	intent		the agent: what is to run, as the database gave it
 *	start		the agent: the same, in the keeper's form
 *	pull		the agent: it waits for its image
 *	environment	the agent: the environment of a program in an image
 *	container	podman: the container exists
 *	lock		the keeper holds it (flock) for as long as it lives
 *	state		the keeper's figures, mapped (KeeperState)
 *	control		a pipe: the agent's commands to the keeper
 *	main		the keeper: the process, before its program is executed
 *	reserve		the keeper: disk space for "exit" and the files after it
 *	exit		the keeper: how the program ended
 *	last_bytes	the keeper: the end of a standard error that goes to a file
 *	forgotten	the program foreign_stop: the other scheduler knows no run
 *	gone		no process of the attempt is left; how long it had run by then,
 *				in microseconds, if a keeper saw it
 *	told		the agent: why the attempt must stop
 *	notes		the agent: what the driver said of its devices
 *	settled		the agent: the database answered; kept for a day
 *
 * "start" is a sequence of texts "key=value", each with a zero byte behind
 * it.  "exit" is a line: KIND STATUS ELAPSED_US MESSAGE.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_ATTEMPT_DIR_H
#define GPUCREDIT_AGENT_ATTEMPT_DIR_H

#include <stdint.h>

#define KEEPER_MAGIC	UINT32_C(0x6763726b)

/* What a keeper reports while it runs.  Only the keeper writes. */
typedef struct KeeperState
{
	uint32_t	magic;
	uint32_t	oom_kills;
	int64_t		exec_ns;		/* CLOCK_MONOTONIC from which its time counts;
								 * 0: it is not executed yet */
	int64_t		seen_ns;		/* when the keeper last looked */
	int64_t		frozen_ns;		/* time spent frozen, before the present
								 * freeze */
	int64_t		frozen_since_ns;	/* 0: not frozen */
	int64_t		progress;		/* -1: the job reports none */
	uint64_t	log_bytes[2];	/* bytes the job wrote: stdout, stderr */
	uint64_t	log_dropped[2]; /* of these, dropped as the disk was full */
} KeeperState;

/*
 * The agent's last contact, in <state>/lease, for all keepers of a node.  A
 * keeper freezes its job once the last answer is older than fence_ns.
 */
typedef struct Lease
{
	int64_t		answered_ns;	/* CLOCK_BOOTTIME of the call last answered */
	int64_t		fence_ns;		/* 0: never */
} Lease;

#define RESERVE		(16 * 1024)

/* A log has a head, then a ring, in one file. */
#define LOG_HEAD	(INT64_C(1) << 20)
#define LOG_RING	(INT64_C(64) << 20)

/* kinds of "exit" */
#define EXIT_NOT_STARTED	"not_started"
#define EXIT_NO_IMAGE		"no_image"	/* the image cannot be had */
#define EXIT_EXITED			"exited"	/* STATUS is the exit code */
#define EXIT_KILLED			"killed"	/* STATUS is the signal */
#define EXIT_LOST			"lost"	/* no keeper saw it end */

#endif							/* GPUCREDIT_AGENT_ATTEMPT_DIR_H */
