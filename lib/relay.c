/*-------------------------------------------------------------------------
 *
 * relay.c
 *		The relay: where callers and agents meet.
 *
 * A caller has a secret, which open_session() returned; the agent of the job's
 * node has its SHA-256 digest. Both connect in TLS, and send one line:
 *
 *     GPUCREDIT 1 caller SECRET
 *     GPUCREDIT 1 agent DIGEST
 *
 * The relay joins the caller and the agent whose digest is that of the secret.
 * The caller then reads "joined", the agent "joined SECRET", which it checks
 * for itself, and from then on each reads what the other writes. Else a line
 * says "refused" and why. The relay knows no database, no job and no password,
 * and the bytes that it passes on mean nothing to it.
 *
 * A secret joins once: the relay remembers used digests for longer than the
 * database offers a session to an agent. Connections that wait for their other
 * side are few for each address, and wait for a limited time, so that nobody
 * can occupy the relay without knowing secrets.
 *
 * Each connection has a thread. The thread of the side that comes first leaves
 * its connection in the table and ends; that of the other side passes the
 * bytes on.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "memory.h"
#include "relay.h"
#include "relay_stream.h"

#define HELLO_NS		(10 * NS_PER_S) /* time for TLS and the line */
#define WAIT_NS			(60 * NS_PER_S) /* time for the other side to come */
#define REMEMBER_NS		(600 * NS_PER_S)
#define CONNECTIONS		2048	/* most connections at once */
#define OF_ADDRESS		128		/* most connections of an address that have
								 * not met their other side */
#define MEETINGS		65536	/* most digests that are remembered */
#define STACK			(256 * 1024)

/* A digest, for as long as it waits or is remembered. */
typedef struct Meeting
{
	char		digest[65];
	char		secret[65];		/* of the caller; empty before it came */
	bool		met;			/* both sides have come, or one has gone */
	bool		agent_waits;	/* the side that waits is the agent */
	RelayEnd	waiting;
	int64_t		until_ns;
	pthread_cond_t changed;
	struct Meeting *next;
} Meeting;

/* A connection that was accepted. */
typedef struct Visitor
{
	int			fd;
	SSL_CTX    *context;
	struct in6_addr address;
} Visitor;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Meeting *meetings;
static int	nmeetings;
static int	connections;
static struct in6_addr unmet[CONNECTIONS];	/* the addresses of connections
											 * that have not met their other
											 * side */
static int	nunmet;

static bool admit(const Visitor *visitor);
static void forget_address(const struct in6_addr *address);
static void *serve(void *argument);
static void meet(RelayEnd *end, const Visitor *visitor);
static Meeting *find(const char *digest);
static void wait_in(Meeting *meeting, RelayEnd *end);
static void join(RelayEnd *agent, RelayEnd *caller, const char *secret);
static void refuse(RelayEnd *end, const char *why);
static struct in6_addr address_of(const struct sockaddr_storage *peer);

/*
 * Reads the relay's certificate and key, and computes the digest by which
 * clients can recognize it. Returns NULL on failure.
 */
SSL_CTX *
RelayContext(const char *certificate, const char *key, char digest[65])
{
	SSL_CTX    *context = SSL_CTX_new(TLS_server_method());
	unsigned char *der = NULL;
	int			len;

	if (context == NULL)
		return NULL;
	(void) SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	(void) SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
							SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
							SSL_MODE_RELEASE_BUFFERS);
	if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1 ||
		SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1 ||
		SSL_CTX_check_private_key(context) != 1 ||
		(len = i2d_X509(SSL_CTX_get0_certificate(context), &der)) <= 0)
	{
		SSL_CTX_free(context);
		return NULL;
	}
	RelayDigest(der, len, digest);
	OPENSSL_free(der);
	return context;
}

/*
 * Serves connections forever.
 */
void
RelayServe(int listener, SSL_CTX * context)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK);
	for (;;)
	{
		struct sockaddr_storage peer;
		socklen_t	len = sizeof(peer);
		int			fd = accept4(listener, (struct sockaddr *) &peer, &len,
								 SOCK_CLOEXEC | SOCK_NONBLOCK);
		Visitor    *visitor;
		pthread_t	thread;

		if (fd < 0)
		{
			/* out of descriptors: some connection ends soon */
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
				(void) poll(NULL, 0, 100);
			continue;
		}
		RelayPrepareSocket(fd);
		visitor = Alloc(sizeof(Visitor));
		*visitor = (Visitor)
		{
			fd, context, address_of(&peer)
		};
		if (!admit(visitor))
		{
			close(fd);
			free(visitor);
		}
		else if (pthread_create(&thread, &attributes, serve, visitor) != 0)
		{
			forget_address(&visitor->address);
			pthread_mutex_lock(&lock);
			connections--;
			pthread_mutex_unlock(&lock);
			close(fd);
			free(visitor);
		}
	}
}

/* Returns an address, with those of IPv4 in the form of IPv6. */
static struct in6_addr
address_of(const struct sockaddr_storage *peer)
{
	struct in6_addr address = {.s6_addr = {[10] = 0xff,[11] = 0xff}};

	if (peer->ss_family == AF_INET6)
		return ((const struct sockaddr_in6 *) peer)->sin6_addr;
	if (peer->ss_family == AF_INET)
		memcpy(&address.s6_addr[12],
			   &((const struct sockaddr_in *) peer)->sin_addr, 4);
	return address;
}

/*
 * Counts a connection. Returns false if there are too many, of all or of its
 * address.
 */
static bool
admit(const Visitor *visitor)
{
	int			same = 0;
	bool		room;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < nunmet; i++)
		same += memcmp(&unmet[i], &visitor->address, sizeof(unmet[i])) == 0;
	room = connections < CONNECTIONS && nunmet < CONNECTIONS &&
		same < OF_ADDRESS;
	if (room)
	{
		connections++;
		unmet[nunmet++] = visitor->address;
	}
	pthread_mutex_unlock(&lock);
	return room;
}

/* Removes one connection of an address from those that wait. */
static void
forget_address(const struct in6_addr *address)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < nunmet; i++)
	{
		if (memcmp(&unmet[i], address, sizeof(unmet[i])) == 0)
		{
			unmet[i] = unmet[--nunmet];
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}

/* The thread of a connection. */
static void *
serve(void *argument)
{
	Visitor    *visitor = argument;
	RelayEnd	end = {visitor->fd, SSL_new(visitor->context)};

	if (end.ssl != NULL && SSL_set_fd(end.ssl, end.fd) == 1 &&
		RelayHandshake(&end, true, MonotonicNs() + HELLO_NS))
		meet(&end, visitor);
	else
		forget_address(&visitor->address);
	RelayClose(&end);
	pthread_mutex_lock(&lock);
	connections--;
	pthread_mutex_unlock(&lock);
	free(visitor);
	return NULL;
}

/*
 * Reads the line of one side, and joins it to the other side or waits for
 * that.
 */
static void
meet(RelayEnd *end, const Visitor *visitor)
{
	char		line[RELAY_LINE];
	char		secret[65] = "";
	char		digest[65];
	char		role[8];
	int			len = 0;
	bool		agent;
	Meeting    *meeting = NULL;
	RelayEnd	other = {-1, NULL};
	const char *why = NULL;

	if (!RelayReadLine(end, line, MonotonicNs() + HELLO_NS) ||
		sscanf(line, "GPUCREDIT 1 %7[a-z] %64[0-9a-f]%n", role, secret,
			   &len) != 2 || line[len] != '\0' || strlen(secret) != 64 ||
		(strcmp(role, "agent") != 0 && strcmp(role, "caller") != 0))
	{
		forget_address(&visitor->address);
		refuse(end, "this is a relay of gpucredit");
		return;
	}
	agent = strcmp(role, "agent") == 0;
	if (agent)
		memcpy(digest, secret, sizeof(digest));
	else
		RelayDigest(secret, 64, digest);
	pthread_mutex_lock(&lock);
	meeting = find(digest);
	if (meeting == NULL)
		why = "the relay is full";
	else if (meeting->met)
		why = "this secret has been used";
	else if (meeting->waiting.fd < 0)
	{
		meeting->agent_waits = agent;
		if (!agent)
			memcpy(meeting->secret, secret, sizeof(secret));
		wait_in(meeting, end);
		/* The thread of the other side owns the connection if it came. */
		if (!meeting->met)
			why = agent ? "the caller did not come" :
				"the agent of the job's node did not come";
		meeting->met = true;
		meeting->until_ns = MonotonicNs() + REMEMBER_NS;
	}
	else if (meeting->agent_waits == agent)
		why = "this secret is being used";
	else
	{
		if (agent)
			memcpy(secret, meeting->secret, sizeof(secret));
		other = meeting->waiting;
		meeting->waiting.fd = -1;
		meeting->met = true;
		meeting->until_ns = MonotonicNs() + REMEMBER_NS;
		pthread_cond_signal(&meeting->changed);
	}
	pthread_mutex_unlock(&lock);
	forget_address(&visitor->address);
	if (why != NULL)
		refuse(end, why);
	else if (other.fd >= 0)
	{
		join(agent ? end : &other, agent ? &other : end, secret);
		RelayClose(&other);
	}
}

/*
 * Finds the meeting of a digest, or adds it. Forgets old ones. Returns NULL if
 * there are too many.
 */
static Meeting *
find(const char *digest)
{
	int64_t		now = MonotonicNs();
	Meeting    *found = NULL;

	for (Meeting **link = &meetings; *link != NULL;)
	{
		Meeting    *meeting = *link;

		if (meeting->met && meeting->waiting.fd < 0 &&
			now > meeting->until_ns)
		{
			*link = meeting->next;
			nmeetings--;
			pthread_cond_destroy(&meeting->changed);
			free(meeting);
			continue;
		}
		if (strcmp(meeting->digest, digest) == 0)
			found = meeting;
		link = &meeting->next;
	}
	if (found == NULL && nmeetings < MEETINGS)
	{
		pthread_condattr_t clock;

		found = Alloc(sizeof(Meeting));
		snprintf(found->digest, sizeof(found->digest), "%s", digest);
		found->waiting.fd = -1;
		pthread_condattr_init(&clock);
		pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
		pthread_cond_init(&found->changed, &clock);
		found->next = meetings;
		meetings = found;
		nmeetings++;
	}
	return found;
}

/*
 * Waits for the other side, for a limited time. The lock is held. If it came,
 * it has taken over this connection, and the caller must not use it.
 */
static void
wait_in(Meeting *meeting, RelayEnd *end)
{
	int64_t		until = MonotonicNs() + WAIT_NS;
	struct timespec at = {until / NS_PER_S, until % NS_PER_S};

	meeting->waiting = *end;
	while (!meeting->met &&
		   pthread_cond_timedwait(&meeting->changed, &lock, &at) == 0)
		;
	meeting->waiting.fd = -1;
	if (meeting->met)
		*end = (RelayEnd)
	{
		-1, NULL
	};
}

/*
 * Tells both sides that they are joined, and passes on bytes until one of them
 * ends.
 */
static void
join(RelayEnd *agent, RelayEnd *caller, const char *secret)
{
	int64_t		until = MonotonicNs() + HELLO_NS;
	char		joined[RELAY_LINE];

	snprintf(joined, sizeof(joined), "joined %s", secret);
	if (RelayWriteLine(agent, joined, until) &&
		RelayWriteLine(caller, "joined", until))
		RelayPump(agent, caller, NULL);
}

static void
refuse(RelayEnd *end, const char *why)
{
	char		line[RELAY_LINE];

	snprintf(line, sizeof(line), "refused %s", why);
	(void) RelayWriteLine(end, line, MonotonicNs() + HELLO_NS);
}
