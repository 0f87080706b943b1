/*-------------------------------------------------------------------------
 *
 * not_found.c
 *		Errors for things that do not exist.
 *
 * They stand in one file so that a caller gets the same words for a thing that
 * does not exist and for one that belongs to another tenant.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/errors.h"
#include "util/not_found.h"
#include "types/clip.h"

void
NotFoundAccount(const char *org, const char *account)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_NO_ACCOUNT),
			 account[0] == '\0' ?
			 errmsg("organisation \"%s\" does not exist",
					ClipForMessage(org)) :
			 errmsg("account \"%s\" does not exist", ClipForMessage(account)),
			 errdetail("There is no account \"%s\" in organisation \"%s\".",
					   ClipForMessage(account), ClipForMessage(org)),
			 errhint("Create it with gpucredit.create_account(), its "
					 "ancestors first.")));
}

void
NotFoundJob(int64 id)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_NO_JOB),
			 errmsg("job %lld does not exist", (long long) id),
			 errdetail("There is none of that number in this organisation."),
			 errhint("Pass the number gpucredit.reserve() returned.")));
}

void
NotFoundHold(int64 id)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_NO_HOLD),
			 errmsg("hold %lld does not exist", (long long) id),
			 errdetail("There is none of that number in this organisation."),
			 errhint("Pass the number gpucredit.hold() returned.")));
}

void
NotFoundNode(const char *node)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_NO_POOL),
			 errmsg("node \"%s\" does not exist", ClipForMessage(node)),
			 errdetail("No node of that name is registered."),
			 errhint("Register it with gpucredit.register_node().")));
}
