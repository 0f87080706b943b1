/*-------------------------------------------------------------------------
 *
 * commit_queue.h
 *		Texts that wait for the end of their transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_COMMIT_QUEUE_H
#define GPUCREDIT_COMMIT_QUEUE_H

#include "access/xact.h"

typedef struct Pending
{
	struct Pending *next;
	int			level;			/* nesting level of the subtransaction that
								 * the text belongs to */
	const char *channel;		/* channel of the notification, or NULL for a
								 * log line */
	char	   *text;
} Pending;

extern void PendingAdd(Pending **list, const char *channel,
					   const char *text);
extern void PendingEndSub(Pending **list, SubXactEvent event);
extern Pending *PendingInOrder(Pending *list);

#endif							/* GPUCREDIT_COMMIT_QUEUE_H */
