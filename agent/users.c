/*-------------------------------------------------------------------------
 *
 * users.c
 *		Determines the user of this machine that an account's jobs run as.
 *
 * A line "user.ORG/ACCOUNT = NAME" of the configuration maps an account, and
 * those below it, to a user that the machine has. Every other account gets its
 * own user number: first_uid plus its position in <state>/uids, which never
 * changes. No job runs as root.
 *-------------------------------------------------------------------------
 */
#include <fcntl.h>
#include <jansson.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "file.h"
#include "log.h"
#include "memory.h"
#include "users.h"

typedef struct MappedUser
{
	char	   *account;		/* organisation and account */
	JobUser		user;
	struct MappedUser *next;
} MappedUser;

static MappedUser *mapped;

static bool is_mapped(const char *org, const char *account, JobUser *user);
static const char *number_of(const char *org, const char *account,
							 uid_t *uid);

/*
 * Adds a line of the configuration. Returns false if there is no such user, or
 * it is root.
 */
bool
UsersMap(const char *account, const char *name)
{
	const struct passwd *known = getpwnam(name);
	MappedUser *new;

	if (known == NULL || known->pw_uid == 0)
		return false;
	new = Alloc(sizeof(MappedUser));
	new->account = Dup(account);
	new->user = (JobUser)
	{
		known->pw_uid, known->pw_gid, Dup(known->pw_dir)
	};
	new->next = mapped;
	mapped = new;
	return true;
}

/*
 * Determines an account's user. Returns NULL, or the reason why there is no
 * user.
 */
const char *
UserOf(const char *org, const char *account, JobUser *user)
{
	const char *why = NULL;

	*user = (JobUser)
	{
		0
	};
	if (is_mapped(org, account, user))
		return NULL;
	if (config.first_uid != 0)
		why = number_of(org, account, &user->uid);
	else if (geteuid() == 0)
		why = "it would run as root: set first_uid";
	user->gid = user->uid;
	return why;
}

/*
 * Finds the mapping of the account, or of the nearest account above it. An
 * organisation whose name contains a slash could be confused with another
 * organisation's account, so it is never mapped.
 */
static bool
is_mapped(const char *org, const char *account, JobUser *user)
{
	char	   *path = Format("%s%s%s", org, *account == '\0' ? "" : "/",
							  account);
	size_t		longest = 0;

	for (MappedUser *m = strchr(org, '/') != NULL ? NULL : mapped; m != NULL;
		 m = m->next)
	{
		size_t		len = strlen(m->account);

		if (len > longest && strncmp(path, m->account, len) == 0 &&
			(path[len] == '\0' || path[len] == '/'))
		{
			longest = len;
			*user = m->user;
		}
	}
	free(path);
	return longest > 0;
}

/*
 * Determines the account's own number, which is written to disk before its
 * first use. Returns NULL, or the reason why there is none.
 */
static const char *
number_of(const char *org, const char *account, uid_t *uid)
{
	int			state = open(config.state,
							 O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t		len = 0;
	char	   *known = FileGet(state, "uids", &len);
	json_t	   *accounts = known == NULL ? json_array() :
		json_loadb(known, len, 0, NULL);
	json_t	   *wanted = json_pack("[s, s]", org, account);
	const char *why = NULL;
	size_t		place;
	json_t	   *one;

	if (!json_is_array(accounts))
		Die("%s/uids is damaged", config.state);
	json_array_foreach(accounts, place, one)
	{
		if (json_equal(one, wanted))
			break;
	}
	if (place == json_array_size(accounts))
	{
		char	   *text;

		json_array_append(accounts, wanted);
		text = json_dumps(accounts, JSON_COMPACT);
		if ((long) place >= config.uids)
			why = "no user is left for its account: raise uids";
		else if (!FilePut(state, "uids", text, strlen(text)))
			why = "its account's user could not be written down";
		free(text);
	}
	*uid = config.first_uid + place;
	json_decref(accounts);
	json_decref(wanted);
	free(known);
	close(state);
	return why;
}
