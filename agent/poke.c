/*-------------------------------------------------------------------------
 *
 * poke.c
 *		gpucredit-agent poke: one listener for all agents.
 *
 *     gpucredit-agent poke CONFIG
 *
 * Each NOTIFY wakes every session that listens, so in an installation with
 * many agents only this process listens. For each notification it sends a
 * datagram to the named node's agent, if that agent accepts datagrams ("poke"
 * in its description). A datagram only means "send a heartbeat now". So a lost
 * one costs the delay of an interval, and two of these processes do no harm.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <libpq-fe.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "config.h"
#include "log.h"
#include "memory.h"
#include "poke.h"

#define READ_EVERY	(10 * NS_PER_S) /* interval of reading the agents'
									 * addresses */
#define FIRST_PAUSE	(NS_PER_S / 10) /* pause after a read that did not find
									 * the node; it doubles each time */
#define PAUSE		1			/* seconds between attempts to connect */

/* A node, with its agent's address for datagrams. */
typedef struct PokeAddress
{
	char	   *node;
	char	   *address;		/* HOST:PORT, as the agent reported it */
	struct sockaddr_storage to;
	socklen_t	len;			/* 0 if not resolved yet, or not found */
	bool		looked_up;
} PokeAddress;

static PokeAddress *places;		/* sorted by node */
static int	nplaces;
static int64_t read_ns;
static int64_t pause_ns;		/* shortest time between reads for an unknown
								 * node */
static int	sockets[2] = {-1, -1};	/* one for IPv4, one for IPv6 */

static PGconn * open_connection(void);
static bool run(PGconn * conn, const char *sql);
static bool serve(PGconn * conn);
static bool forward(PGconn * conn, const char *node);
static bool read_places(PGconn * conn);
static PokeAddress *find(const char *node);
static int	compare(const void *a, const void *b);
static void resolve_name(PokeAddress *place);
static void send_to(PokeAddress *place);

/*
 * Listens until a signal ends the process. Reconnects after the connection is
 * lost.
 */
void
PokeRun(void)
{
	sockets[0] = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	sockets[1] = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
						0);
	if (sockets[0] < 0 && sockets[1] < 0)
		Die("could not open a socket: %s", strerror(errno));
	for (;;)
	{
		PGconn	   *conn = open_connection();

		if (conn != NULL)
		{
			LogLine("event=poke_start agents=%d", nplaces);
			while (serve(conn))
				;
			LogLine("event=connection_lost error=\"%.*s\"",
					(int) strcspn(PQerrorMessage(conn), "\n"),
					PQerrorMessage(conn));
			PQfinish(conn);
		}
		sleep(PAUSE);
	}
}

/*
 * Opens a connection that listens. Returns NULL on failure.
 */
static PGconn *
open_connection(void)
{
	PGconn	   *conn = PQconnectdb(config.database);

	if (PQstatus(conn) == CONNECTION_OK && run(conn,
											   "LISTEN gpucredit_node") &&
		read_places(conn))
		return conn;
	LogLine("event=connect_failed error=\"%.*s\"",
			(int) strcspn(PQerrorMessage(conn), "\n"), PQerrorMessage(conn));
	PQfinish(conn);
	return NULL;
}

static bool
run(PGconn * conn, const char *sql)
{
	PGresult   *result = PQexec(conn, sql);
	bool		good = PQresultStatus(result) == PGRES_COMMAND_OK;

	PQclear(result);
	return good;
}

/*
 * Waits for notifications and forwards them. Returns false if the connection
 * is lost.
 */
static bool
serve(PGconn * conn)
{
	struct pollfd fd = {PQsocket(conn), POLLIN, 0};
	int64_t		rest = read_ns + READ_EVERY - MonotonicNs();
	PGnotify   *one;

	if (poll(&fd, 1, rest <= 0 ? 0 : (int) (rest / NS_PER_MS) + 1) < 0 &&
		errno != EINTR)
		Die("could not wait: %s", strerror(errno));
	if (!PQconsumeInput(conn))
		return false;
	while ((one = PQnotifies(conn)) != NULL)
	{
		bool		good = forward(conn, one->extra);

		PQfreemem(one);
		if (!good)
			return false;
	}
	return MonotonicNs() - read_ns < READ_EVERY || read_places(conn);
}

/*
 * Sends a datagram to a node's agent. For an unknown node, the addresses are
 * read again. If that does not help, the pause before the next read grows, as
 * an agent may accept no datagrams. Returns false if the connection is lost.
 */
static bool
forward(PGconn * conn, const char *node)
{
	PokeAddress *place = find(node);

	if (place == NULL && MonotonicNs() - read_ns >= pause_ns)
	{
		if (!read_places(conn))
			return false;
		place = find(node);
		pause_ns = place != NULL ? 0 :
			pause_ns == 0 ? FIRST_PAUSE :
			pause_ns * 2 < READ_EVERY ? pause_ns * 2 : READ_EVERY;
	}
	if (place != NULL)
		send_to(place);
	return true;
}

/*
 * Reads the agents' addresses. An address that has not changed is not resolved
 * again.
 */
static bool
read_places(PGconn * conn)
{
	PGresult   *result = PQexec(conn, "SELECT node, address FROM"
								" gpucredit.poke_addresses()");
	PokeAddress *before = places;
	int			nbefore = nplaces;
	PokeAddress *now;
	int			n = PQntuples(result);

	if (PQresultStatus(result) != PGRES_TUPLES_OK)
	{
		PQclear(result);
		return false;
	}
	now = Alloc(sizeof(PokeAddress) * (n + 1));
	for (int i = 0; i < n; i++)
	{
		PokeAddress *old = find(PQgetvalue(result, i, 0));

		if (old != NULL && strcmp(old->address, PQgetvalue(result, i, 1)) == 0)
			now[i] = *old;
		now[i].node = Dup(PQgetvalue(result, i, 0));
		now[i].address = Dup(PQgetvalue(result, i, 1));
	}
	PQclear(result);
	qsort(now, n, sizeof(PokeAddress), compare);
	for (int i = 0; i < nbefore; i++)
	{
		free(before[i].node);
		free(before[i].address);
	}
	free(before);
	places = now;
	nplaces = n;
	read_ns = MonotonicNs();
	return true;
}

static PokeAddress *
find(const char *node)
{
	PokeAddress key = {.node = (char *) node};

	return nplaces == 0 ? NULL :
		bsearch(&key, places, nplaces, sizeof(PokeAddress), compare);
}

static int
compare(const void *a, const void *b)
{
	return strcmp(((const PokeAddress *) a)->node,
				  ((const PokeAddress *) b)->node);
}

/*
 * Resolves an address once. A failed resolution is not repeated.
 */
static void
resolve_name(PokeAddress *place)
{
	struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
	struct addrinfo *found;
	char	   *host = Dup(place->address);
	char	   *port = strrchr(host, ':');

	place->looked_up = true;
	if (port != NULL)
	{
		*port++ = '\0';
		if (*host == '[' && port - host > 2 && port[-2] == ']')
			port[-2] = '\0';
		if (getaddrinfo(*host == '[' ? host + 1 : host, port, &hints,
						&found) == 0)
		{
			memcpy(&place->to, found->ai_addr, found->ai_addrlen);
			place->len = found->ai_addrlen;
			freeaddrinfo(found);
		}
	}
	if (place->len == 0)
		LogLine("event=no_address node=%s address=%s", place->node,
				place->address);
	free(host);
}

/* Sends a datagram without waiting. A loss does no harm. */
static void
send_to(PokeAddress *place)
{
	if (!place->looked_up)
		resolve_name(place);
	if (place->len > 0)
		(void) sendto(sockets[place->to.ss_family == AF_INET6], "", 1,
					  MSG_NOSIGNAL, (struct sockaddr *) &place->to,
					  place->len);
}
