/*-------------------------------------------------------------------------
 *
 * session.h
 *		Opens terminals and forwarded ports in running jobs.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_SESSION_H
#define GPUCREDIT_CLI_SESSION_H

#include "session_frame.h"

extern void SessionOpen(FrameStream *stream, const char *job, int port,
						const char *node);
extern void SessionReport(const char *why, size_t len);
extern int	SessionForward(const char *job, int port, const char *node,
						   int listener);
extern int	SessionListen(int *port);

#endif							/* GPUCREDIT_CLI_SESSION_H */
