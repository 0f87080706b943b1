/*-------------------------------------------------------------------------
 *
 * commit_queue.c
 *		Texts that wait for the end of their transaction.
 *
 * These are log lines and notifications, which must not be sent before the
 * commit.  A list of them lives in TopTransactionContext, with the newest text
 * first.  When a subtransaction commits, its texts pass to its parent; when it
 * rolls back, they are removed.  The module that owns a list sets it to NULL
 * when the transaction ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/commit_queue.h"
#include "utils/memutils.h"

/*
 * Adds a text that the present (sub)transaction has produced, with the channel
 * of a notification or NULL.
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
 * At the end of a subtransaction, passes its texts to the parent if it
 * committed, and removes them if it rolled back.
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

/* Reverses a list in place and returns its new head. */
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
