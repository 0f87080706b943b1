/*-------------------------------------------------------------------------
 *
 * sessions.h
 *		Terminals and forwarded ports in this node's jobs.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_SESSIONS_H
#define GPUCREDIT_AGENT_SESSIONS_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "attempts.h"

extern void SessionStart(const Order *order);
extern bool SessionChildGone(pid_t pid);
extern json_t * SessionsOpen(void);
extern json_t * SessionsTyped(void);

/* defined in session_outside.c */
extern void SessionRun(int argc, char **argv) __attribute__((noreturn));

#endif							/* GPUCREDIT_AGENT_SESSIONS_H */
