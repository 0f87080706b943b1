/*-------------------------------------------------------------------------
 *
 * notify.h
 *		Notifications at the commit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_NOTIFY_H
#define GPUCREDIT_NOTIFY_H

/* The channel that asks a node's agent to send a heartbeat at once. */
#define NODE_CHANNEL	"gpucredit_node"

extern void NotifyInit(void);
extern void NotifyAtCommit(const char *channel, const char *payload);
extern uint64 NotifyDropped(void);

#endif							/* GPUCREDIT_NOTIFY_H */
