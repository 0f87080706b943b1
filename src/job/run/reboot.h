/*-------------------------------------------------------------------------
 *
 * reboot.h
 *		Ends attempts whose machine was restarted.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_REBOOT_H
#define GPUCREDIT_REBOOT_H

#include "job/attempt.h"

/* The reason for which such an attempt must stop. */
#define NODE_REBOOTED	"node_rebooted"

extern void NodeRebooted(const Attempt *attempt, const char *node,
						 TimestampTz now);

#endif							/* GPUCREDIT_REBOOT_H */
