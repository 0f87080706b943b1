/*-------------------------------------------------------------------------
 *
 * session_inside.h
 *		A terminal or a forwarded port within a job.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_SESSION_INSIDE_H
#define GPUCREDIT_AGENT_SESSION_INSIDE_H

#include "keeper.h"
#include "session_frame.h"

/* How a session's socket is named in the folder of its attempt. */
#define SESSION_SOCKET		"session-%s"
#define SESSION_NAME		16	/* length of a session's name */

/*
 * The file that has the CLOCK_MONOTONIC nanoseconds at which the user of a
 * terminal last sent something.
 */
#define SESSION_TYPED		"typed-%s"

/* Descriptors of a session's process within the job */
#define SESSION_SOCKET_FD	3
#define SESSION_NOTICE_FD	4	/* what the agent tells all terminals of the
								 * job; may be closed */

extern void SessionBegin(const Keeper *keeper, const char *name, int port);
extern char *SessionReadProc(const char *path, size_t *len);

/* defined in session_terminal.c */
extern void SessionTerminal(FrameStream *stream, const Start *start)
			__attribute__((noreturn));

/* defined in session_port.c */
extern int	SessionOpenPort(void *start, const char **why);
extern void SessionChoosePort(int port);

#endif							/* GPUCREDIT_AGENT_SESSION_INSIDE_H */
