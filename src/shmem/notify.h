/*-------------------------------------------------------------------------
 *
 * notify.h
 *		What listeners are told of a commit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_NOTIFY_H
#define GPUCREDIT_NOTIFY_H

/* A node's agent is to ask what there is for it. */
#define NODE_CHANNEL	"gpucredit_node"

extern void NotifyInit(void);
extern void NotifyAtCommit(const char *channel, const char *payload);
extern uint64 NotifyDropped(void);

#endif							/* GPUCREDIT_NOTIFY_H */
