/*-------------------------------------------------------------------------
 *
 * client.h
 *		Clients' connections, and the time that each may take.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include <microhttpd.h>
#include <stdbool.h>

typedef enum ClientState
{
	CLIENT_SENDS,				/* a request is coming, or the next one is awaited */
	CLIENT_WAITS,				/* for its answer */
	CLIENT_READS,				/* its answer */
	CLIENT_STAYS				/* for events (stream.c ends it) */
} ClientState;

extern bool clients_start(void);
extern void clients_stop(void);

/* What MHD calls when a connection comes or goes. */
extern void client_notify(void *cls, struct MHD_Connection *connection, void **context,
						  enum MHD_ConnectionNotificationCode code);

/* The connection is in another state, from now on. */
extern void client_enter(struct MHD_Connection *connection, ClientState state);

extern int	clients_open(void);

/* The socket of a connection, or -1. */
extern int	client_socket(struct MHD_Connection *connection);

/* Close a connection from outside: the library notices, and ends it. */
extern void client_cut(int socket);

#endif							/* HTTP_CLIENT_H */
