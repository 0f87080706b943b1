/*-------------------------------------------------------------------------
 *
 * http_client.h
 *		Tracks the connections of a daemon's HTTP clients, and limits the time
 *		that each may take.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_HTTP_CLIENT_H
#define GPUCREDIT_HTTP_CLIENT_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum ClientState
{
	CLIENT_SENDS,				/* a request is arriving, or the next one is
								 * awaited */
	CLIENT_UPLOADS,				/* a body is arriving that may take long, but
								 * not too slowly */
	CLIENT_WAITS,				/* the client waits for the answer to its
								 * request */
	CLIENT_READS,				/* the client reads the answer */
	CLIENT_STAYS				/* the client reads an answer that has no end */
} ClientState;

/*
 * Starts the thread that closes late connections. A request must have arrived
 * within receive_s seconds, but for a body that is uploaded; an answer must
 * have been read within read_s seconds, if that is not 0.
 */
extern bool ClientsStart(int receive_s, int read_s);
extern void ClientsStop(void);

/* Called by the library when a connection begins or ends. */
extern void ClientNotify(void *cls, struct MHD_Connection *connection,
						 void **context,
						 enum MHD_ConnectionNotificationCode code);

/* Sets the state of a connection, from now on. */
extern void ClientEnter(struct MHD_Connection *connection, ClientState state);

/* Records that a piece of an uploaded body has arrived. */
extern void ClientSent(struct MHD_Connection *connection, size_t bytes);

/* Returns the number of connections. */
extern int	ClientsOpen(void);

/* Returns the socket of a connection, or -1. */
extern int	ClientSocket(struct MHD_Connection *connection);

/*
 * Shuts down a connection's socket from another thread; the library notices
 * that and ends the connection.
 */
extern void ClientCut(int socket);

#endif							/* GPUCREDIT_HTTP_CLIENT_H */
