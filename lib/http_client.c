/*-------------------------------------------------------------------------
 *
 * http_client.c
 *		Tracks the connections of a daemon's HTTP clients, and limits the time
 *		that each may take.
 *
 * libmicrohttpd ends connections that are idle. A client that sends a byte now
 * and then would keep its connection forever, and some hundred such clients
 * would occupy all connections. Therefore each connection has a deadline by
 * which its request must have arrived, and one by which its answer must have
 * been read. A body that is uploaded may take longer, but then LEAST_RATE bytes
 * must have arrived for each second since it began. A thread closes the
 * connections that exceed this.
 *-------------------------------------------------------------------------
 */
#include "http_client.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>

#include "clock.h"

#define LEAST_RATE	1024		/* bytes a second */

typedef struct Client
{
	LIST_ENTRY(Client) link;
	int			socket;
	ClientState state;
	int64_t		since_ns;		/* when it entered that state */
	int64_t		sent;			/* bytes of the body since then */
} Client;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stopped = PTHREAD_COND_INITIALIZER;
static LIST_HEAD(Clients, Client) all = LIST_HEAD_INITIALIZER(all);
static int	open_now = 0;
static bool stopping = false;
static pthread_t thread;
static int	receive_limit_s;
static int	read_limit_s;

int
ClientSocket(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
	MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info != NULL ? info->connect_fd : -1;
}

void
ClientCut(int socket)
{
	shutdown(socket, SHUT_RDWR);
}

/* Registers a new connection. */
static void
client_begin(struct MHD_Connection *connection, void **context)
{
	int			socket = ClientSocket(connection);
	Client	   *client = socket >= 0 ? calloc(1, sizeof(Client)) : NULL;

	*context = client;
	if (client == NULL)
		return;
	client->socket = socket;
	client->state = CLIENT_SENDS;
	client->since_ns = MonotonicNs();
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&all, client, link);
	open_now++;
	pthread_mutex_unlock(&lock);
}

static void
client_end(Client *client)
{
	pthread_mutex_lock(&lock);
	LIST_REMOVE(client, link);
	open_now--;
	pthread_mutex_unlock(&lock);
	free(client);
}

void
ClientNotify(void *cls, struct MHD_Connection *connection, void **context,
			 enum MHD_ConnectionNotificationCode code)
{
	(void) cls;
	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		client_begin(connection, context);
	else if (*context != NULL)
		client_end(*context);
}

/* Returns the client of a connection, or NULL if memory ran out for it. */
static Client *
client_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
	MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info != NULL ? info->socket_context : NULL;
}

void
ClientEnter(struct MHD_Connection *connection, ClientState state)
{
	Client	   *client = client_of(connection);

	if (client == NULL)
		return;
	pthread_mutex_lock(&lock);
	client->state = state;
	client->since_ns = MonotonicNs();
	client->sent = 0;
	pthread_mutex_unlock(&lock);
}

void
ClientSent(struct MHD_Connection *connection, size_t bytes)
{
	Client	   *client = client_of(connection);

	if (client == NULL)
		return;
	pthread_mutex_lock(&lock);
	client->sent += (int64_t) bytes;
	pthread_mutex_unlock(&lock);
}

/* Whether a client has exceeded the limit of its state. */
static bool
is_late(const Client *client, int64_t now)
{
	int64_t		seconds = (now - client->since_ns) / NS_PER_S;

	switch (client->state)
	{
		case CLIENT_SENDS:
			return seconds >= receive_limit_s;
		case CLIENT_UPLOADS:
			return seconds >= receive_limit_s &&
				client->sent < seconds * LEAST_RATE;
		case CLIENT_READS:
			return read_limit_s > 0 && seconds >= read_limit_s;
		case CLIENT_WAITS:
		case CLIENT_STAYS:
			break;
	}
	return false;
}

/* Closes connections that are late, every second. */
static void *
watch_clients(void *unused)
{
	struct timespec until;

	(void) unused;
	pthread_mutex_lock(&lock);
	while (!stopping)
	{
		int64_t		now = MonotonicNs();

		for (Client *client = LIST_FIRST(&all); client != NULL;
			 client = LIST_NEXT(client, link))
		{
			if (is_late(client, now))
				ClientCut(client->socket);
		}
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		pthread_cond_timedwait(&stopped, &lock, &until);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

bool
ClientsStart(int receive_s, int read_s)
{
	receive_limit_s = receive_s;
	read_limit_s = read_s;
	return pthread_create(&thread, NULL, watch_clients, NULL) == 0;
}

void
ClientsStop(void)
{
	pthread_mutex_lock(&lock);
	stopping = true;
	pthread_cond_signal(&stopped);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
}

int
ClientsOpen(void)
{
	int			n;

	pthread_mutex_lock(&lock);
	n = open_now;
	pthread_mutex_unlock(&lock);
	return n;
}
