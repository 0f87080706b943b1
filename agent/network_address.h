/*-------------------------------------------------------------------------
 *
 * network_address.h
 *		Parses addresses and networks.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_NETWORK_ADDRESS_H
#define GPUCREDIT_AGENT_NETWORK_ADDRESS_H

#include <stdbool.h>

/* An address, or a network whose prefix has "bits" bits. */
typedef struct Network
{
	int			family;
	unsigned char address[16];
	int			bits;
} Network;

extern bool NetworkParse(const char *text, Network *network);
extern bool AreNetworks(const char *list);

#endif							/* GPUCREDIT_AGENT_NETWORK_ADDRESS_H */
