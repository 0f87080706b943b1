/*-------------------------------------------------------------------------
 *
 * poke.c
 *		gpucredit-agent poke: one listener for all agents.
 *
 *	gpucredit-agent poke CONFIG
 *
 * Each NOTIFY wakes every session that listens, so with many agents only this
 * process listens.  For each notification it sends a datagram to the named
 * node's agent, if that agent takes them ("poke" in its "about").  A datagram
 * means "ask now", nothing else.  So a lost one costs an interval, and two of
 * these processes do no harm.
 *
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

#include "config.h"
#include "poke.h"
#include "util.h"

#define READ_EVERY	(10 * NS_PER_S) /* where agents are */
#define FIRST_PAUSE	(NS_PER_S / 10) /* after a read that did not help; then
									 * doubled */
#define PAUSE		1			/* seconds between tries to connect */

/* A node's agent and its address for datagrams. */
typedef struct PokeAddress
{
	char	   *node;
	char	   *address;		/* HOST:PORT, as the agent reported it */
	struct sockaddr_storage to;
	socklen_t	len;			/* 0: not looked up yet, or not found */
	bool		looked_up;
} PokeAddress;

static PokeAddress *places;		/* by node */
static int	nplaces;
static int64_t read_ns;
static int64_t pause_ns;		/* least time between reads for an unknown
								 * node */
static int	sockets[2] = {-1, -1};	/* IPv4, IPv6 */

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
 * Listen until a signal ends the process; reconnect after a loss.
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
 * A connection that listens; NULL: there is none.
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
 * Wait for notifications and forward them; false: the connection is lost.
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
 * Send a node's agent a datagram.  For an unknown node, read the addresses
 * again.  If that does not help, wait longer each time, as an agent may take
 * no datagrams.  False: the connection is lost.
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
 * Load the agents' addresses, and keep the lookups of unchanged ones.
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
 * Look a name up once; do not repeat a failed lookup.
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

/* send without waiting; a loss does no harm */
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
