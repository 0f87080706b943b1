/*-------------------------------------------------------------------------
 *
 * key_space.c
 *		Key spaces: which callers share idempotency keys.
 *
 * Two callers who happen to choose the same key must not get each other's
 * results.  So a key belongs to a space, which the server derives from the
 * caller's roles, never from an argument:
 *
 *   tenant/NAME   a tenant; each role of a tenant has a space of its own
 *   admin         superusers and members of gpucredit_admin
 *   operator      other members of gpucredit_operator
 *   agent         other members of gpucredit_agent
 *   app           other members of gpucredit_app
 *   role/NAME     any other role that was granted single functions
 *
 * The caller is the outer user: the login, or the role it has SET ROLE to.  A
 * login that inherits several roles uses the first space of the list that
 * applies.  All logins of an application share one space, so that a retry
 * through a replaced login finds its key.
 *
 * A companion extension acts on behalf of its caller, and builds its keys from
 * dates and numbers that anybody can guess.  So each of its functions that
 * calls keyed functions sets gpucredit.key_space, which only a superuser's
 * function can set.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "api/tenant.h"
#include "miscadmin.h"
#include "request/key_space.h"
#include "types/entry.h"
#include "util/args.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"

PG_FUNCTION_INFO_V1(gpucredit_key_space);

typedef struct RoleSpace
{
	const char *role;
	const char *space;
} RoleSpace;

/* In order of precedence: the first role that the caller has counts. */
static const RoleSpace spaces[] = {
	{"gpucredit_admin", "admin"},
	{"gpucredit_operator", "operator"},
	{"gpucredit_agent", "agent"},
	{"gpucredit_app", "app"}
};

static char *companion_space;

static bool check_space(char **value, void **extra, GucSource source);

void
KeySpaceInit(void)
{
	DefineCustomStringVariable("gpucredit.key_space",
							   "The space of idempotency keys of a companion "
							   "extension's function.",
							   "Companion extensions set it for their own "
							   "functions. Empty: the space follows from the "
							   "caller's roles.",
							   &companion_space, "", PGC_SUSET, 0,
							   check_space, NULL, NULL);
}

/*
 * The check hook.  The space of a companion must begin as the names of
 * companion extensions do, so it never equals a caller's own space.
 */
static bool
check_space(char **value, void **extra, GucSource source)
{
	if (**value == '\0' ||
		(strncmp(*value, KEY_SPACE_COMPANION, strlen(KEY_SPACE_COMPANION)) == 0 &&
		 strlen(*value) < NAMEDATALEN))
		return true;
	GUC_check_errdetail("It is empty, or the name of a companion extension, "
						"which begins with \"%s\".", KEY_SPACE_COMPANION);
	return false;
}

/* Returns the space of the keys of the running call. */
const char *
KeySpace(void)
{
	return *companion_space != '\0' ? companion_space : KeySpaceOfCaller();
}

/*
 * Returns the caller's own space, even within a companion's function.  The
 * result is a constant or allocated in the current context.
 */
const char *
KeySpaceOfCaller(void)
{
	Oid			user = GetOuterUserId();

	if (TenantCalls())
		return psprintf("tenant/%s", CallerName());
	if (superuser_arg(user))
		return "admin";
	for (size_t i = 0; i < lengthof(spaces); i++)
	{
		/*
		 * Raises an error if the role does not exist: after a rename its
		 * members would silently get another space.
		 */
		if (has_privs_of_role(user, get_role_oid(spaces[i].role, false)))
			return spaces[i].space;
	}
	return psprintf("role/%s", CallerName());
}

/*
 * key_space(): the caller's own space, for companions and for row security of
 * the table of keys.
 */
Datum
gpucredit_key_space(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(KeySpaceOfCaller()));
}
