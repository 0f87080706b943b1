/*-------------------------------------------------------------------------
 *
 * relay_stream.c
 *		One end of a stream of bytes, and TLS connections to a relay.
 *
 * A relay is named by the text "HOST:PORT DIGEST".  DIGEST is the SHA-256
 * digest of the relay's certificate in hexadecimal, or several of them after
 * spaces, while one certificate replaces another.  Without a digest, an
 * authority that this machine trusts must have signed the certificate for HOST.
 *
 * RelayPump() keeps at most one buffer for each direction, and reads from one
 * end only what the other end has accepted.  A slow reader therefore slows its
 * writer down, and costs no memory.
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "memory.h"
#include "relay_stream.h"

#define PIECE			(64 * 1024)
#define LAST_BYTES_MS	30000	/* how long one end may take for the last
								 * bytes once the other has ended */
#define CLOSE_MS		1000	/* how long the other side may take to close */

/* The bytes on their way from one end to the other. */
typedef struct Direction
{
	RelayEnd   *from;
	RelayEnd   *to;
	size_t		at;
	size_t		len;
	bool		came;			/* the last move() read something */
	bool		ended;			/* nothing more comes from "from" */
	short		from_waits;		/* poll event that "from" waits for */
	short		to_waits;
	char		buffer[PIECE];
} Direction;

static int	connect_to(const char *host, const char *port, int64_t until_ns);
static SSL_CTX * client_context(void);
static bool certificate_is(SSL * ssl, const char *digests);
static bool wait_for(const RelayEnd *end, short events, int64_t until_ns);
static ssize_t end_read(RelayEnd *end, void *data, size_t len, short *waits);
static ssize_t end_write(RelayEnd *end, const void *data, size_t len,
						 short *waits);
static bool move(Direction *direction, bool *broken);
static short events_of(int result, SSL * ssl);

/*
 * Connects to a relay and checks its certificate. Returns NULL, or the reason
 * of a failure.
 */
const char *
RelayConnect(const char *relay, int64_t until_ns, RelayEnd *end)
{
	char	   *host = Dup(relay);
	char	   *digests = strchr(host, ' ');
	char	   *port;
	SSL_CTX    *context;
	const char *why = NULL;

	*end = (RelayEnd)
	{
		-1, NULL
	};
	if (digests != NULL)
		*digests++ = '\0';
	port = strrchr(host, ':');
	if (port == NULL || port == host || port[1] == '\0')
	{
		free(host);
		return "the setting gpucredit.relay is not HOST:PORT";
	}
	*port++ = '\0';
	if (*host == '[' && port[-2] == ']')
	{
		port[-2] = '\0';
		memmove(host, host + 1, strlen(host));
	}
	end->fd = connect_to(host, port, until_ns);
	if (end->fd < 0)
	{
		free(host);
		return "it does not accept a connection";
	}
	context = client_context();
	end->ssl = context == NULL ? NULL : SSL_new(context);
	if (end->ssl == NULL || SSL_set_fd(end->ssl, end->fd) != 1)
		why = "TLS cannot be used";
	else if (digests == NULL || *digests == '\0')
	{
		X509_VERIFY_PARAM *param = SSL_get0_param(end->ssl);

		digests = NULL;
		SSL_set_verify(end->ssl, SSL_VERIFY_PEER, NULL);
		if (X509_VERIFY_PARAM_set1_ip_asc(param, host) != 1 &&
			SSL_set1_host(end->ssl, host) != 1)
			why = "its name cannot be checked";
	}
	if (why == NULL)
	{
		(void) SSL_set_tlsext_host_name(end->ssl, host);
		if (!RelayHandshake(end, false, until_ns))
			why = digests == NULL ? "its certificate is not trusted, or it does"
				" not answer in TLS" : "it does not answer in TLS";
		else if (digests != NULL && !certificate_is(end->ssl, digests))
			why = "its certificate is not the one that gpucredit.relay names";
	}
	SSL_CTX_free(context);
	free(host);
	if (why != NULL)
		RelayClose(end);
	return why;
}

/*
 * Opens a connection that does not block. Returns -1 on failure.
 */
static int
connect_to(const char *host, const char *port, int64_t until_ns)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	int			fd = -1;

	if (getaddrinfo(host, port, &hints, &found) != 0)
		return -1;
	for (struct addrinfo *a = found; a != NULL && fd < 0; a = a->ai_next)
	{
		int			error = 0;
		socklen_t	len = sizeof(error);
		RelayEnd	end = {.fd = socket(a->ai_family, SOCK_STREAM |
										SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};

		fd = end.fd;
		if (fd < 0)
			continue;
		if (connect(fd, a->ai_addr, a->ai_addrlen) != 0 &&
			(errno != EINPROGRESS || !wait_for(&end, POLLOUT, until_ns) ||
			 getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 ||
			 error != 0))
		{
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(found);
	if (fd >= 0)
		RelayPrepareSocket(fd);
	return fd;
}

/*
 * Makes a TCP connection send small pieces at once, and notice within a minute
 * that the other machine is gone.
 */
void
RelayPrepareSocket(int fd)
{
	const int	on = 1;
	const int	idle = 30;
	const int	every = 10;
	const int	tries = 3;

	(void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void) setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
	(void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof(tries));
}

static SSL_CTX *
client_context(void)
{
	SSL_CTX    *context = SSL_CTX_new(TLS_client_method());

	if (context == NULL)
		return NULL;
	(void) SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	(void) SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
							SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	(void) SSL_CTX_set_default_verify_paths(context);
	return context;
}

/*
 * Whether the digest of the other side's certificate is one of a list.
 */
static bool
certificate_is(SSL * ssl, const char *digests)
{
	X509	   *certificate = SSL_get1_peer_certificate(ssl);
	unsigned char *der = NULL;
	int			len = certificate == NULL ? -1 : i2d_X509(certificate, &der);
	char		hex[65] = "";
	bool		found = false;

	if (len > 0)
		RelayDigest(der, len, hex);
	while (*digests != '\0' && len > 0)
	{
		size_t		word = strcspn(digests, " ");

		found |= word == 64 && strncasecmp(digests, hex, 64) == 0;
		digests += word + (digests[word] == ' ');
	}
	OPENSSL_free(der);
	X509_free(certificate);
	return found;
}

/* Computes a SHA-256 digest in hexadecimal. */
void
RelayDigest(const void *data, size_t len, char hex[65])
{
	unsigned char digest[32];

	if (EVP_Digest(data, len, digest, NULL, EVP_sha256(), NULL) != 1)
		memset(digest, 0, sizeof(digest));
	for (int i = 0; i < 32; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

/*
 * Does TLS's handshake as the side that accepts the connection, or that opened
 * it.
 */
bool
RelayHandshake(RelayEnd *end, bool accepts, int64_t until_ns)
{
	for (;;)
	{
		int			n = accepts ? SSL_accept(end->ssl) : SSL_connect(end->ssl);
		short		events;

		if (n == 1)
			return true;
		events = events_of(n, end->ssl);
		if (events == 0 || !wait_for(end, events, until_ns))
			return false;
	}
}

/* Waits until the end is ready. Returns false once the time is over. */
static bool
wait_for(const RelayEnd *end, short events, int64_t until_ns)
{
	struct pollfd fd = {end->fd, events, 0};
	int64_t		now;

	while ((now = MonotonicNs()) < until_ns)
	{
		int			n = poll(&fd, 1, (int) ((until_ns - now) / NS_PER_MS) + 1);

		if (n > 0)
			return true;
		if (n < 0 && errno != EINTR)
			return false;
	}
	return false;
}

bool
RelayWriteLine(RelayEnd *end, const char *line, int64_t until_ns)
{
	char		text[RELAY_LINE + 1];
	size_t		len = snprintf(text, sizeof(text), "%s\n", line);
	size_t		done = 0;

	while (done < len && len < sizeof(text))
	{
		short		waits = 0;
		ssize_t		n = end_write(end, text + done, len - done, &waits);

		if (n > 0)
			done += n;
		else if (waits == 0 || !wait_for(end, waits, until_ns))
			return false;
	}
	return done == len;
}

/*
 * Reads a line without its end, and not a byte more. Returns false if none
 * comes in time, or if it is too long.
 */
bool
RelayReadLine(RelayEnd *end, char line[RELAY_LINE], int64_t until_ns)
{
	size_t		len = 0;

	while (len < RELAY_LINE)
	{
		short		waits = 0;
		ssize_t		n = end_read(end, line + len, 1, &waits);

		if (n > 0 && line[len] == '\n')
		{
			line[len] = '\0';
			return true;
		}
		if (n > 0)
			len++;
		else if (n == 0 || waits == 0 || !wait_for(end, waits, until_ns))
			return false;
	}
	return false;
}

/*
 * Passes bytes on in both directions, until one end has closed and the other
 * has received what it sent. Calls "came", unless that is NULL, after bytes of
 * the first end were read.
 */
void
RelayPump(RelayEnd *first, RelayEnd *second, void (*came) (void))
{
	Direction  *there = Alloc(sizeof(Direction));
	Direction  *back = Alloc(sizeof(Direction));
	bool		broken = false;

	there->from = back->to = first;
	there->to = back->from = second;
	while (!broken)
	{
		bool		moved = move(there, &broken);
		bool		ended;
		struct pollfd fds[2];
		int			n;

		if (there->came && came != NULL)
			came();
		moved |= move(back, &broken);
		if ((there->ended && there->len == 0) ||
			(back->ended && back->len == 0))
			break;
		if (moved)
			continue;
		ended = there->ended || back->ended;
		fds[0] = (struct pollfd)
		{
			first->fd, there->from_waits | back->to_waits, 0
		};
		fds[1] = (struct pollfd)
		{
			second->fd, back->from_waits | there->to_waits, 0
		};
		n = poll(fds, 2, ended ? LAST_BYTES_MS : -1);
		if (n == 0 || (n < 0 && errno != EINTR))
			break;
	}
	free(there);
	free(back);
}

/*
 * Reads what fits into the buffer and writes what the other end accepts.
 * Returns whether anything moved.
 */
static bool
move(Direction *d, bool *broken)
{
	bool		moved = false;
	ssize_t		n;

	d->from_waits = d->to_waits = 0;
	d->came = false;
	if (d->len == 0)
		d->at = 0;
	while (!d->ended && d->at + d->len < PIECE)
	{
		n = end_read(d->from, d->buffer + d->at + d->len,
					 PIECE - d->at - d->len, &d->from_waits);
		if (n <= 0)
		{
			d->ended = n == 0 || d->from_waits == 0;
			break;
		}
		d->len += n;
		moved = d->came = true;
	}
	if (d->len > 0)
	{
		n = end_write(d->to, d->buffer + d->at, d->len, &d->to_waits);
		if (n > 0)
		{
			d->at += n;
			d->len -= n;
			moved = true;
		}
		else if (d->to_waits == 0)
			*broken = true;
	}
	return moved;
}

/*
 * Reads from an end. Returns 0 at its end, and -1 with the event to wait for,
 * which is 0 after a failure.
 */
static ssize_t
end_read(RelayEnd *end, void *data, size_t len, short *waits)
{
	ssize_t		n;

	if (end->ssl != NULL)
	{
		n = SSL_read(end->ssl, data, (int) len);
		if (n > 0)
			return n;
		*waits = events_of((int) n, end->ssl);
		return SSL_get_error(end->ssl, (int) n) == SSL_ERROR_ZERO_RETURN ?
			0 : -1;
	}
	n = read(end->fd, data, len);
	if (n < 0)
		*waits = errno == EAGAIN || errno == EINTR ? POLLIN : 0;
	return n;
}

/*
 * Writes to an end. Returns -1 with the event to wait for, which is 0 after a
 * failure.
 */
static ssize_t
end_write(RelayEnd *end, const void *data, size_t len, short *waits)
{
	ssize_t		n;

	if (end->ssl != NULL)
	{
		n = SSL_write(end->ssl, data, (int) len);
		if (n > 0)
			return n;
		*waits = events_of((int) n, end->ssl);
		return -1;
	}
	n = send(end->fd, data, len, MSG_NOSIGNAL);
	if (n < 0)
		*waits = errno == EAGAIN || errno == EINTR ? POLLOUT : 0;
	return n;
}

/* Returns the event that TLS waits for, or 0 if it has failed. */
static short
events_of(int result, SSL * ssl)
{
	switch (SSL_get_error(ssl, result))
	{
		case SSL_ERROR_WANT_READ:
			return POLLIN;
		case SSL_ERROR_WANT_WRITE:
			return POLLOUT;
		default:
			return 0;
	}
}

/*
 * Closes an end. What was written to it still arrives: the other side is given
 * a moment to close first, because closing with unread bytes would discard
 * them.
 */
void
RelayClose(RelayEnd *end)
{
	int64_t		until = MonotonicNs() + CLOSE_MS * NS_PER_MS;
	char		waste[4096];

	if (end->fd < 0)
		return;
	if (end->ssl != NULL && SSL_is_init_finished(end->ssl))
		(void) SSL_shutdown(end->ssl);
	if (end->ssl != NULL)
	{
		(void) shutdown(end->fd, SHUT_WR);
		while (wait_for(end, POLLIN, until) &&
			   read(end->fd, waste, sizeof(waste)) > 0)
			;
	}
	SSL_free(end->ssl);
	close(end->fd);
	*end = (RelayEnd)
	{
		-1, NULL
	};
}
