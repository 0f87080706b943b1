/*-------------------------------------------------------------------------
 *
 * client.c
 *		Clients' connections, and the time that each may take.
 *
 * The library ends connections on which nothing moves.  A client that sends a
 * byte now and then would keep its connection for ever, and some hundred of
 * those all connections.  So each connection has a deadline by which its
 * request must have come whole, and one by which its answer must have been
 * read; a thread ends those that are past it.
 *
 *-------------------------------------------------------------------------
 */
#include "client.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>

#include "options.h"
#include "request.h"

typedef struct Client
{
	LIST_ENTRY(Client) link;
	int			socket;
	ClientState state;
	int64_t		since_us;		/* when it entered that state */
}			Client;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stopped = PTHREAD_COND_INITIALIZER;
static LIST_HEAD(Clients, Client) all = LIST_HEAD_INITIALIZER(all);
static int	open_now = 0;
static bool stopping = false;
static pthread_t thread;

int
client_socket(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
	MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info != NULL ? info->connect_fd : -1;
}

void
client_cut(int socket)
{
	shutdown(socket, SHUT_RDWR);
}

/* A connection has come. */
static void
client_begin(struct MHD_Connection *connection, void **context)
{
	int			socket = client_socket(connection);
	Client	   *client = socket >= 0 ? calloc(1, sizeof(Client)) : NULL;

	*context = client;
	if (client == NULL)
		return;
	client->socket = socket;
	client->state = CLIENT_SENDS;
	client->since_us = now_us();
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&all, client, link);
	open_now++;
	pthread_mutex_unlock(&lock);
}

static void
client_end(Client * client)
{
	pthread_mutex_lock(&lock);
	LIST_REMOVE(client, link);
	open_now--;
	pthread_mutex_unlock(&lock);
	free(client);
}

void
client_notify(void *cls, struct MHD_Connection *connection, void **context,
			  enum MHD_ConnectionNotificationCode code)
{
	(void) cls;
	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		client_begin(connection, context);
	else if (*context != NULL)
		client_end(*context);
}

void
client_enter(struct MHD_Connection *connection, ClientState state)
{
	const union MHD_ConnectionInfo *info =
	MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	Client	   *client = info != NULL ? info->socket_context : NULL;

	if (client == NULL)
		return;
	pthread_mutex_lock(&lock);
	client->state = state;
	client->since_us = now_us();
	pthread_mutex_unlock(&lock);
}

static bool
is_late(const Client * client, int64_t now)
{
	int64_t		seconds = (now - client->since_us) / 1000000;

	return (client->state == CLIENT_SENDS && seconds >= options.receive_s) ||
		(client->state == CLIENT_READS && seconds >= options.send_s);
}

/* End connections that are late, every second. */
static void *
watch_clients(void *unused)
{
	struct timespec until;

	(void) unused;
	pthread_mutex_lock(&lock);
	while (!stopping)
	{
		int64_t		now = now_us();
		Client	   *client;

		LIST_FOREACH(client, &all, link)
			if (is_late(client, now))
			client_cut(client->socket);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		pthread_cond_timedwait(&stopped, &lock, &until);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

bool
clients_start(void)
{
	return pthread_create(&thread, NULL, watch_clients, NULL) == 0;
}

void
clients_stop(void)
{
	pthread_mutex_lock(&lock);
	stopping = true;
	pthread_cond_signal(&stopped);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
}

int
clients_open(void)
{
	int			n;

	pthread_mutex_lock(&lock);
	n = open_now;
	pthread_mutex_unlock(&lock);
	return n;
}
