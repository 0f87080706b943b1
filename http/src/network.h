/*-------------------------------------------------------------------------
 *
 * network.h
 *		Decides which addresses the daemon connects to on behalf of others.
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_NETWORK_H
#define HTTP_NETWORK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#define NETWORKS_MOST	64

typedef struct NetworkRange
{
	struct in6_addr address;
	int			bits;
} NetworkRange;

/*
 * Networks that the operator allows for one purpose in addition to public
 * ones.
 */
typedef struct NetworkList
{
	NetworkRange ranges[NETWORKS_MOST];
	int			n;
} NetworkList;

/*
 * Adds networks: ADDRESS/BITS, separated by commas. Returns false if the text
 * is malformed.
 */
extern bool networks_allow(NetworkList *list, const char *text);

/* Whether the operator explicitly allowed this address. */
extern bool network_is_allowed(const NetworkList *list, const struct sockaddr *address);

/*
 * Whether it is an address of the public internet. Private, link-local,
 * loopback, multicast, documentation and other reserved addresses are not, nor
 * are those of this machine.
 */
extern bool network_is_public(const struct sockaddr *address);

#endif							/* HTTP_NETWORK_H */
