/*-------------------------------------------------------------------------
 *
 * launch_network.h
 *		Decides which network an attempt has.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_LAUNCH_NETWORK_H
#define GPUCREDIT_AGENT_LAUNCH_NETWORK_H

#include <stdbool.h>

#include "launch.h"
#include "start_file.h"

extern bool NetworkIsOwn(const LocalAttempt *attempt);
extern void NetworkPut(Writer *writer, const Launch *launch);
extern void NetworkPutBwrap(Writer *writer, const Launch *launch);

#endif							/* GPUCREDIT_AGENT_LAUNCH_NETWORK_H */
