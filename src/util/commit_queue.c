/*-------------------------------------------------------------------------
 *
 * commit_queue.c
 *		Texts that wait for the end of their transaction.
 *
 * A list lives in TopTransactionContext, the last text first.  When a
 * subtransaction commits, its texts become its parent's; when it rolls back,
 * they go.  The list's owner forgets it at the transaction's end.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/commit_queue.h"
#include "utils/memutils.h"

/*
 * Add a text for the present (sub)transaction, with its channel, if any.
 */
void
PendingAdd(Pending **list, const char *channel, const char *text)
{
	Pending    *last = MemoryContextAlloc(TopTransactionContext,
										  sizeof(Pending));

	last->next = *list;
	last->level = GetCurrentTransactionNestLevel();
	last->channel = channel == NULL ? NULL :
		MemoryContextStrdup(TopTransactionContext, channel);
	last->text = MemoryContextStrdup(TopTransactionContext, text);
	*list = last;
}

/*
 * At the end of a subtransaction, its texts become its parent's, or go.
 */
void
PendingEndSub(Pending **list, SubXactEvent event)
{
	int			level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		while (*list != NULL && (*list)->level >= level)
			*list = (*list)->next;
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		for (Pending *text = *list; text != NULL && text->level >= level;
			 text = text->next)
			text->level = level - 1;
	}
}

/*
 * Reverse a list: the first text first, or last.
 */
Pending *
PendingInOrder(Pending *list)
{
	Pending    *ordered = NULL;

	while (list != NULL)
	{
		Pending    *next = list->next;

		list->next = ordered;
		ordered = list;
		list = next;
	}
	return ordered;
}
