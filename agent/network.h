/*-------------------------------------------------------------------------
 *
 * network.h
 *		A job's own network namespace.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_NETWORK_H
#define GPUCREDIT_AGENT_NETWORK_H

#include <stdbool.h>

#include "keeper.h"

/* Address at which slirp4netns answers name queries, and nothing else. */
#define NETWORK_RESOLVER	"10.0.2.3"

extern const char *NetworkMake(Keeper *keeper);
extern void NetworkMend(Keeper *keeper);
extern void NetworkEnd(Keeper *keeper);
extern bool NetworkNames(const Start *start);

#endif							/* GPUCREDIT_AGENT_NETWORK_H */
