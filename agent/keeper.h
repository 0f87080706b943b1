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

#define WORDS	4096			/* most arguments, and most texts of the
								 * environment */
#define NETWORKS	64			/* most networks of a list */
#define LAST_BYTES	4096		/* bytes that are kept of a standard error
								 * that goes to a file */

/* The contents of the file "start". */
typedef struct Start
{
	char	   *tag;
	char	   *cgroup;
	char	   *cwd;
	char	   *lease;
	char	   *files[2];		/* files for stdout and stderr; NULL for the
								 * log */
	char	   *mark;			/* value of GPUCREDIT_MARK */
	int64_t		taken_ns;		/* CLOCK_MONOTONIC since which the attempt has
								 * its devices */
	int			save_signal;	/* signal that asks the job to save, or 0 */
	int			limit_signal;	/* signal that announces the wall limit, or 0 */
	int64_t		limit_after_ns; /* when to send it, counted from exec_ns */
	bool		limit_batch;	/* it goes to the program, otherwise to each
								 * srun that the program runs */
	uid_t		uid;
	gid_t		gid;
	bool		filters;		/* the keeper installs the system call filter */
	bool		passes;			/* bubblewrap installs the system call filter */
	bool		keeps;			/* bubblewrap drops the capabilities */
	bool		drops;			/* the child switches to uid and gid */
	bool		nested;			/* the job has its own pid namespace */
	char	   *network;		/* "own" for a network namespace; NULL for the
								 * node's network */
	char	   *slirp;			/* path of slirp4netns, which connects the
								 * namespace; NULL if nothing does */
	char	   *resolver;		/* file to mount over /etc/resolv.conf, or
								 * NULL */
	char	   *denied[NETWORKS];	/* hosts and networks that the job may not
									 * reach */
	int			ndenied;
	char	   *allowed[NETWORKS];	/* private networks that the job may reach */
	int			nallowed;
	char	   *made;			/* file that podman writes once the container
								 * exists; NULL without a container */
	char	   *argv[WORDS + 1];
	int			nargs;
	char	   *envp[WORDS + 1];
	int			nenv;
} Start;

/* The last bytes of a standard error that goes to a file. */
typedef struct LastBytes
{
	uint64_t	total;			/* number of bytes that were written */
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
	int			messages;		/* pipe on which the job reports progress and
								 * checkpoints */
	JobLog		logs[2];
	int			failed;			/* pipe on which the child reports why it
								 * could not execute the program */
	pid_t		writer;			/* process that writes the job's file
								 * (output.c), or 0 */
	int			output_pipe;	/* pipe to the writer */
	int			output_socket;
	LastBytes  *last;			/* NULL if there is no writer */
	pid_t		router;			/* the process slirp4netns, or 0 */
	int			router_end;		/* pipe whose closing ends slirp4netns */
	int			outside;		/* the node's network namespace */
	int64_t		mend_ns;		/* earliest time to start slirp4netns again */
	int64_t		term_ns;		/* when to send SIGTERM; 0 if never, or if it
								 * was sent */
	int64_t		kill_ns;		/* when to send SIGKILL, or 0 for never */
	bool		leaving;
	bool		requeued;		/* the job asked to run again */
	bool		limit_sent;		/* the signal of the wall limit was sent */
	int64_t		freezing_ns;	/* when a freeze began that is not confirmed
								 * yet */
	bool		ended;			/* the program has ended */
	int64_t		kill_again_ns;	/* when to kill leftover processes again */
	char		words[512];		/* incomplete line read from "control" */
	size_t		nwords;
	char		message[4096];	/* incomplete line read from the job */
	size_t		nmessage;
	char		checkpoint[4096];	/* the newest checkpoint that the job
									 * reported */
	bool		checkpoint_new; /* that checkpoint is not on disk yet */
	int64_t		checkpoint_due_ns;	/* earliest time to write it */
} Keeper;

extern void ProgramRead(Keeper *keeper);
extern void ProgramStart(Keeper *keeper);
extern bool ProgramFailed(Keeper *keeper);
extern void ProgramForgetProtection(void);
extern int64_t KeeperElapsedUs(const KeeperState *state);
extern void KeeperWriteCheckpoint(Keeper *keeper);
extern void KeeperWriteExit(Keeper *keeper, const char *kind, int status,
							const char *message);

#endif							/* GPUCREDIT_AGENT_KEEPER_H */
