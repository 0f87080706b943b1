/*-------------------------------------------------------------------------
 *
 * network.h
 *		Which addresses webhooks may be sent to.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_NETWORK_H
#define HTTP_NETWORK_H

#include <stdbool.h>
#include <sys/socket.h>

/*
 * Allow networks beyond the public ones: ADDRESS/BITS, separated by commas.
 * False if the list is malformed.
 */
extern bool networks_allow(const char *list);

/* Did the operator allow this address by name? */
extern bool network_is_allowed(const struct sockaddr *address);

/*
 * Is it an address of the public internet?  Private, link-local, loopback,
 * multicast, documentation and other reserved addresses are not, nor are those
 * of this machine.
 */
extern bool network_is_public(const struct sockaddr *address);

#endif							/* HTTP_NETWORK_H */
