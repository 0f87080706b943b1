/*-------------------------------------------------------------------------
 *
 * users.h
 *		Determines the user of this machine that an account's jobs run as.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_USERS_H
#define GPUCREDIT_AGENT_USERS_H

#include <stdbool.h>
#include <sys/types.h>

/* A job's user. A uid of 0 means the agent's own user, which is not root. */
typedef struct JobUser
{
	uid_t		uid;
	gid_t		gid;
	const char *home;			/* home of a user that the machine has, or
								 * NULL */
} JobUser;

extern bool UsersMap(const char *account, const char *name);
extern const char *UserOf(const char *org, const char *account, JobUser *user);

#endif							/* GPUCREDIT_AGENT_USERS_H */
