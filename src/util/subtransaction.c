/*-------------------------------------------------------------------------
 *
 * subtransaction.c
 *		Work that takes effect whole or not at all.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "util/subtransaction.h"
#include "utils/resowner.h"

/*
 * Do something in a subtransaction, and roll it back, locks included, where
 * the work returns false or raises an error.
 */
bool
SubtransactionTry(bool (*work) (void *context), void *context)
{
	MemoryContext memory = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool done = false;

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
		ReThrowError(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(memory);
	CurrentResourceOwner = owner;
	return done;
}
