/*-------------------------------------------------------------------------
 *
 * session_forward.h
 *		Connections to a forwarded port, over one session.
 *-------------------------------------------------------------------------
 */
#ifndef LIB_SESSION_FORWARD_H
#define LIB_SESSION_FORWARD_H

#include <stddef.h>

#include "session_frame.h"

/*
 * Opens a connection that does not block to the job's port. Returns -1 and why
 * not.
 */
typedef int (*ForwardOpen) (void *context, const char **why);

/* Reports why a connection was closed. */
typedef void (*ForwardReport) (const char *why, size_t len);

extern void ForwardConnections(FrameStream *stream, int listener,
							   ForwardReport report);
extern void ForwardPort(FrameStream *stream, ForwardOpen open,
						void *context);

#endif							/* LIB_SESSION_FORWARD_H */
