/*-------------------------------------------------------------------------
 *
 * keeper.h
 *		The keeper's state.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_KEEPER_H
#define GPUCREDIT_AGENT_KEEPER_H

#include <stdbool.h>
#include <sys/types.h>

#include "attempt_dir.h"
#include "contain.h"
#include "job_log.h"

#define WORDS	4096			/* arguments, and texts of the environment */
#define LAST_BYTES	4096		/* of a standard error that goes to a file */

/* The fields of "start". */
typedef struct Start
{
	char	   *tag;
	char	   *cgroup;
	char	   *cwd;
	char	   *lease;
	char	   *files[2];		/* of stdout and stderr; NULL: the log */
	char	   *mark;			/* GPUCREDIT_MARK */
	int64_t		taken_ns;		/* CLOCK_MONOTONIC, since when it has devices */
	int			save_signal;	/* means save; 0: the job has no such signal */
	uid_t		uid;
	gid_t		gid;
	bool		filters;		/* the keeper filters system calls */
	bool		passes;			/* bubblewrap filters them */
	bool		keeps;			/* bubblewrap drops capabilities */
	bool		drops;			/* switch to uid and gid */
	bool		nested;			/* the job has a pid namespace of its own */
	char	   *made;			/* podman writes this file once the container
								 * exists; NULL: no container */
	char	   *argv[WORDS + 1];
	int			nargs;
	char	   *envp[WORDS + 1];
	int			nenv;
} Start;

/* The end of a standard error that goes to a file. */
typedef struct LastBytes
{
	uint64_t	total;			/* bytes that were written */
	char		ring[LAST_BYTES];
} LastBytes;

typedef struct Keeper
{
	int			dir;
	Start		start;
	KeeperState *state;
	const Lease *lease;
	Contain		contain;
	pid_t		main;
	int			signals;
	int			control;
	int			messages;		/* from the job: progress, checkpoints */
	JobLog		logs[2];
	int			failed;			/* from the child: why it is not the program */
	pid_t		writer;			/* writes the job's file (output.c); 0: none */
	int			output_pipe;	/* to the writer */
	int			output_socket;
	LastBytes  *last;			/* NULL: there is no writer */
	int64_t		term_ns;		/* when to send SIGTERM; 0: never, or sent */
	int64_t		kill_ns;		/* when to send SIGKILL; 0: never */
	bool		leaving;
	int64_t		freezing_ns;	/* time of a freeze that is not confirmed yet */
	bool		ended;			/* the program */
	int64_t		kill_again_ns;	/* when to kill leftover processes again */
	char		words[512];		/* of control, an unfinished line */
	size_t		nwords;
	char		message[4096];	/* of the job, an unfinished line */
	size_t		nmessage;
	char		checkpoint[4096];	/* the newest that the job has named */
	bool		checkpoint_new; /* it is not on disk yet */
	int64_t		checkpoint_due_ns;	/* it is written no sooner */
} Keeper;

extern void ProgramRead(Keeper *keeper);
extern void ProgramStart(Keeper *keeper);
extern bool ProgramFailed(Keeper *keeper);
extern int64_t KeeperElapsedUs(const KeeperState *state);
extern void KeeperWriteCheckpoint(Keeper *keeper);
extern void KeeperWriteExit(Keeper *keeper, const char *kind, int status,
							const char *message);

#endif							/* GPUCREDIT_AGENT_KEEPER_H */
