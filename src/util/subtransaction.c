/*-------------------------------------------------------------------------
 *
 * subtransaction.c
 *		Work that takes effect as a whole or not at all.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "util/subtransaction.h"
#include "utils/resowner.h"

/*
 * Calls `work` in a subtransaction, and rolls it back, including its locks, if
 * `work` returns false or raises an error.  Returns whether the work took
 * effect. The error is stored in *failed; if failed is NULL, it is raised
 * again.
 */
bool
SubtransactionTry(bool (*work) (void *context), void *context,
				  ErrorData **failed)
{
	MemoryContext memory = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool done = false;

	if (failed != NULL)
		*failed = NULL;
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(memory);
	PG_TRY();
	{
		done = work(context);
		if (done)
			ReleaseCurrentSubTransaction();
		else
			RollbackAndReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(memory);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		if (failed == NULL)
			ReThrowError(error);
		*failed = error;
		done = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(memory);
	CurrentResourceOwner = owner;
	return done;
}
