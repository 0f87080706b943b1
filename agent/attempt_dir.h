/*-------------------------------------------------------------------------
 *
 * attempt_dir.h
 *		The folder of an attempt, which agent and keeper share.
 *
 * Each step of an attempt's life is a file, which is synced before the next
 * step:
 *
 *     intent       by the agent: what to run, as the database sent it
 *     start        by the agent: the same, in the keeper's format
 *     pull         by the agent: the attempt waits for its image
 *     environment  by the agent: the environment of a program in an image
 *     container    by podman: the container exists
 *     lock         locked (flock) by the keeper while it lives
 *     state        the keeper's measurements, mapped (KeeperState)
 *     control      a pipe for the agent's commands to the keeper
 *     main         by the keeper: the process, before its program is executed
 *     reserve      by the keeper: disk space for "exit" and later files
 *     exit         by the keeper: how the program ended
 *     last_bytes   by the keeper: the end of a standard error that goes to a
 *                  file
 *     forgotten    by the program foreign_stop: the other scheduler has no
 *                  such run
 *     gone         no process of the attempt is left; contains the elapsed
 *                  microseconds up to then, if a keeper measured them
 *     told         by the agent: why the attempt must stop
 *     signals      by the agent: ids of the signals that people sent to the
 *                  job and that were delivered, the newest last
 *     notice       by the agent: lines for all terminals of the job
 *     typed-NAME   by a terminal's process: when its user last typed
 *     requeue      by the keeper: the job asked to run again
 *     notes        by the agent: errors of its devices that the driver
 *                  reported
 *     settled      by the agent: the database answered; kept for a day
 *     output_kept  by the agent: the output has been handed over, or there is
 *                  none
 *
 * "start" is a sequence of texts "key=value", each followed by a zero byte.
 * "exit" is a line: KIND STATUS ELAPSED_US MESSAGE.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_ATTEMPT_DIR_H
#define GPUCREDIT_AGENT_ATTEMPT_DIR_H

#include <stdint.h>

#define KEEPER_MAGIC	UINT32_C(0x6763726b)

/* What a keeper reports while it runs. Only the keeper writes it. */
typedef struct KeeperState
{
	uint32_t	magic;
	uint32_t	oom_kills;
	int64_t		exec_ns;		/* CLOCK_MONOTONIC when the elapsed time
								 * starts; 0 if the program is not executed
								 * yet */
	int64_t		seen_ns;		/* CLOCK_MONOTONIC of the keeper's last check */
	int64_t		frozen_ns;		/* nanoseconds spent frozen, without the
								 * present freeze */
	int64_t		frozen_since_ns;	/* when the present freeze began; 0 if not
									 * frozen */
	int64_t		progress;		/* progress that the job reported, or -1 */
	uint64_t	log_bytes[2];	/* bytes the job wrote: stdout, stderr */
	uint64_t	log_dropped[2]; /* the number of these bytes that were dropped
								 * because the disk was full */
} KeeperState;

/*
 * When the database last answered the agent, in <state>/lease, for all keepers
 * of a node. A keeper freezes its job once this is longer ago than fence_ns.
 */
typedef struct Lease
{
	int64_t		answered_ns;	/* CLOCK_BOOTTIME when the last answered call
								 * was sent */
	int64_t		fence_ns;		/* 0 for no fence */
} Lease;

#define RESERVE		(16 * 1024)

/*
 * A log file starts with the first LOG_HEAD bytes of the output, followed by a
 * ring with the newest LOG_RING bytes.
 */
#define LOG_HEAD	(INT64_C(1) << 20)
#define LOG_RING	(INT64_C(64) << 20)

/* Values of KIND in "exit" */
#define EXIT_NOT_STARTED	"not_started"
#define EXIT_NO_IMAGE		"no_image"	/* the image cannot be pulled */
#define EXIT_EXITED			"exited"	/* STATUS is the exit code */
#define EXIT_KILLED			"killed"	/* STATUS is the signal */
#define EXIT_LOST			"lost"	/* the program ended while no keeper
									 * watched it */

#endif							/* GPUCREDIT_AGENT_ATTEMPT_DIR_H */
