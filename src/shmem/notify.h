/*-------------------------------------------------------------------------
 *
 * notify.h
 *		Notifications at the commit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_NOTIFY_H
#define GPUCREDIT_NOTIFY_H

/* Tell a node's agent to send a heartbeat. */
#define NODE_CHANNEL	"gpucredit_node"

extern void NotifyInit(void);
extern void NotifyAtCommit(const char *channel, const char *payload);
extern uint64 NotifyDropped(void);

#endif							/* GPUCREDIT_NOTIFY_H */
