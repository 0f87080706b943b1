/*-------------------------------------------------------------------------
 *
 * key_space.c
 *		Whose idempotency keys a call uses.
 *
 * Two callers who choose the same key must not meet.  So a key belongs to a
 * space, which the server derives from the caller's roles, never from an
 * argument:
 *
 *	tenant/NAME		a tenant; each role of a tenant has a space of its own
 *	admin			superusers and members of gpucredit_admin
 *	operator		other members of gpucredit_operator
 *	agent			other members of gpucredit_agent
 *	app				other members of gpucredit_app
 *	role/NAME		any other role that was granted single functions
 *
 * The caller is the outer user: the login, or the role that it took by SET
 * ROLE.  A login that inherits several roles uses the first space of the list.
 * All logins of an application share one space, so that a retry through a
 * renewed login finds its key.
 *
 * A companion extension acts for whoever calls it, and its keys are made from
 * dates and numbers that anybody can guess.  Each of its functions that calls
 * keyed functions sets gpucredit.key_space, which only a superuser's function
 * can do.
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

/* The first that applies counts. */
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
 * A space of a companion is named after its extension, so it is never a
 * caller's.
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

/*
 * The space of the keys of the running call.
 */
const char *
KeySpace(void)
{
	return *companion_space != '\0' ? companion_space : KeySpaceOfCaller();
}

/*
 * The caller's own space, also within a companion's function.  The result is
 * constant or allocated in the current context.
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
		/* a renamed role must not move keys to another space unnoticed */
		if (has_privs_of_role(user, get_role_oid(spaces[i].role, false)))
			return spaces[i].space;
	}
	return psprintf("role/%s", CallerName());
}

/*
 * The caller's own space, for companions and for reading the table of keys.
 */
Datum
gpucredit_key_space(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(KeySpaceOfCaller()));
}
