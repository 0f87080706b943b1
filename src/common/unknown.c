/*-------------------------------------------------------------------------
 *
 * unknown.c
 *		The refusals of what is not there.
 *
 * In one place, because what is another tenant's is refused in the same words.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/errors.h"
#include "common/unknown.h"
#include "types/clip.h"

void
RefuseUnknownAccount(const char *org, const char *account)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_NO_ACCOUNT),
			 errmsg("no such account"),
			 errdetail("There is no account \"%s\" in organisation \"%s\".",
					   ClipForMessage(account), ClipForMessage(org)),
			 errhint("Create it, its ancestors first, by "
					 "gpucredit.create_account().")));
}

void
RefuseUnknownJob(int64 id)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_NO_JOB),
			 errmsg("no such job: %lld", (long long) id),
			 errdetail("There is none of that number in this organisation."),
			 errhint("Pass the number gpucredit.reserve() returned.")));
}

void
RefuseUnknownHold(int64 id)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_NO_HOLD),
			 errmsg("no such hold, or hold closed: %lld", (long long) id),
			 errdetail("There is none of that number in this organisation."),
			 errhint("Pass the number gpucredit.hold() returned.")));
}

void
RefuseUnknownNode(const char *node)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_NO_POOL),
			 errmsg("no such node \"%s\"", ClipForMessage(node)),
			 errdetail("No node of that name is registered."),
			 errhint("Register it by gpucredit.register_node().")));
}
