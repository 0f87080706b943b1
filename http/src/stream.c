/*-------------------------------------------------------------------------
 *
 * stream.c
 *		Streams of events to clients that keep their connection open.
 *
 * An open stream has no connection to the database and no thread, and has a
 * buffer only while there is something to send. One thread reads each event of
 * the feed once (follow.c), and sends it to the live streams whose role may
 * read it and whose filters match. Another thread reads pages of older events
 * for streams that are behind: new streams, and those whose client reads more
 * slowly than events arrive. A stream becomes live when it has reached the
 * position up to which the feed has been read, so it misses no event and gets
 * none twice.
 *
 * A stream is ended if its client reads nothing, if its token is no longer
 * valid, or if its role may read other events than when the stream began. The
 * client then reconnects with the number of its last event.
 *
 * One lock guards all streams. No thread waits while it holds the lock.
 *-------------------------------------------------------------------------
 */
#include "stream.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "http_client.h"
#include "options.h"
#include "problem.h"

#define BUFFER_MOST	(64 * 1024) /* a stream with more unsent bytes is behind */
#define BLOCK		2048		/* bytes that the library requests at once */
#define KEEPALIVE_US	15000000	/* interval without an event after which a
									 * comment is sent */

typedef struct HttpStream
{
	LIST_ENTRY(HttpStream) link;
	uint64_t	number;
	struct MHD_Connection *connection;
	int			socket;
	bool		suspended;
	bool		ended;
	bool		live;			/* false if it is behind */
	bool		has_page;		/* a page is being read for it */
	int64_t		not_before_us;	/* earliest time of the next page */
	int64_t		role_page_us;	/* when a page was last read for its role, or
								 * the role's first stream began */
	int64_t		after;			/* the last event that it has, or that it does
								 * not want */
	int64_t		sent_id;		/* the last event number that was sent to the
								 * client */
	int64_t		written_us;		/* when something was last put into the
								 * buffer */
	int64_t		read_us;		/* when the client last read something */
	char	   *buffer;
	size_t		size;
	size_t		sent;			/* number of bytes of the buffer that were
								 * sent */
	char	   *token;			/* secret of a token or a session */
	int64_t		token_number;
	int64_t		session;		/* 0 if it has none */
	char	   *role;
	json_t	   *rights;
	bool		reads_all;
	char	   *org;			/* filters on organisation and account, or
								 * NULL */
	char	   *account;
	json_t	   *kinds;			/* filter on kinds of events, or NULL */
	int64_t		job;			/* filter on the job, or 0 */
}			HttpStream;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t behind = PTHREAD_COND_INITIALIZER;
static LIST_HEAD(HttpStreams, HttpStream) all = LIST_HEAD_INITIALIZER(all);
static int	count = 0;
static uint64_t last_number = 0;
static int64_t followed = -1;	/* number of the last event of the feed that
								 * was read; -1 while the feed is not read */
static uint64_t asked = 0;		/* number of the last stream whose token is
								 * being checked */
static bool stopping = false;

/* Makes the library request more bytes, if it waits. */
static void
wake(HttpStream * stream)
{
	if (!stream->suspended)
		return;
	stream->suspended = false;
	MHD_resume_connection(stream->connection);
}

static void
end_stream(HttpStream * stream)
{
	stream->ended = true;
	wake(stream);
}

/* Puts text into a stream's buffer. Returns false if the buffer is full. */
static bool
put_text(HttpStream * stream, const char *text, size_t size)
{
	char	   *more;

	if (stream->size - stream->sent + size > BUFFER_MOST && stream->size > stream->sent)
		return false;
	if (stream->sent > 0)
	{
		stream->size -= stream->sent;
		memmove(stream->buffer, stream->buffer + stream->sent, stream->size);
		stream->sent = 0;
	}
	more = realloc(stream->buffer, stream->size + size);
	if (more == NULL)
		return false;
	if (stream->size == 0)
		stream->read_us = now_us();
	memcpy(more + stream->size, text, size);
	stream->buffer = more;
	stream->size += size;
	stream->written_us = now_us();
	wake(stream);
	return true;
}

static bool
put_event(HttpStream * stream, int64_t number, const char *kind, const char *content)
{
	char	   *text = NULL;
	int			size = asprintf(&text, "id: %" PRId64 "\nevent: %s\ndata: %s\n\n", number, kind, content);
	bool		good = size > 0 && put_text(stream, text, (size_t) size);

	if (size > 0)
		free(text);
	if (good)
		stream->sent_id = number;
	return good;
}

/* Called by the library for more bytes to send. */
static ssize_t
read_stream(void *cls, uint64_t position, char *buffer, size_t room)
{
	HttpStream *stream = cls;
	size_t		n;

	(void) position;
	pthread_mutex_lock(&lock);
	n = stream->size - stream->sent;
	if (stream->ended || n == 0)
	{
		bool		ended = stream->ended;

		if (!ended)
		{
			stream->suspended = true;
			MHD_suspend_connection(stream->connection);
			if (!stream->live)
				pthread_cond_signal(&behind);
		}
		pthread_mutex_unlock(&lock);
		return ended ? MHD_CONTENT_READER_END_OF_STREAM : 0;
	}
	if (n > room)
		n = room;
	memcpy(buffer, stream->buffer + stream->sent, n);
	stream->sent += n;
	stream->read_us = now_us();
	if (!stream->live && stream->size - stream->sent < BUFFER_MOST / 2)
		pthread_cond_signal(&behind);
	if (stream->sent == stream->size)
	{
		free(stream->buffer);
		stream->buffer = NULL;
		stream->size = stream->sent = 0;
	}
	pthread_mutex_unlock(&lock);
	return (ssize_t) n;
}

static void
free_members(HttpStream * stream)
{
	free(stream->buffer);
	free(stream->token);
	free(stream->role);
	free(stream->org);
	free(stream->account);
	json_decref(stream->rights);
	json_decref(stream->kinds);
	free(stream);
}

/* Called by the library when the connection has ended. */
static void
free_stream(void *cls)
{
	HttpStream *stream = cls;

	pthread_mutex_lock(&lock);
	LIST_REMOVE(stream, link);
	count--;
	pthread_mutex_unlock(&lock);
	free_members(stream);
}

static char *
copy_member(const json_t * object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text != NULL ? strdup(text) : NULL;
}

/* Creates a stream from the answer of open_stream(). */
static HttpStream *
stream_new(WebRequest * request, const json_t * opened)
{
	HttpStream *stream = calloc(1, sizeof(HttpStream));
	json_t	   *after = json_object_get(opened, "after");
	json_t	   *kinds = json_object_get(opened, "kinds");

	if (stream == NULL)
		return NULL;
	stream->connection = request->connection;
	stream->socket = ClientSocket(request->connection);
	stream->after = json_integer_value(json_is_integer(after) ? after :
									   json_object_get(opened, "last"));
	stream->sent_id = stream->after;
	stream->token = strdup(request->token);
	stream->token_number = json_integer_value(json_object_get(opened, "token"));
	stream->session = json_integer_value(json_object_get(opened, "session"));
	stream->role = copy_member(opened, "role");
	stream->rights = json_incref(json_object_get(opened, "rights"));
	stream->reads_all = json_is_true(json_object_get(stream->rights, "all"));
	stream->org = copy_member(opened, "org");
	stream->account = copy_member(opened, "account");
	stream->kinds = json_is_array(kinds) ? json_incref(kinds) : NULL;
	stream->job = json_integer_value(json_object_get(opened, "job"));
	stream->written_us = stream->read_us = stream->role_page_us = now_us();
	return stream;
}

/*
 * Whether the client has closed its connection. The library does not poll a
 * connection that waits for an event.
 */
static bool
is_gone(const HttpStream * stream)
{
	char		byte;
	ssize_t		n = recv(stream->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/*
 * Whether the limits allow one more stream of a role. Only if they do not,
 * streams whose client is gone are searched for and ended.
 */
static bool
has_room(const char *role)
{
	int			most = (options.streams + 3) / 4;
	int			of_role = 0;
	HttpStream *stream;

	LIST_FOREACH(stream, &all, link)
		of_role += !stream->ended && strcmp(stream->role, role) == 0;
	if (of_role >= most)
	{
		LIST_FOREACH(stream, &all, link)
		{
			if (stream->ended || strcmp(stream->role, role) != 0 || !is_gone(stream))
				continue;
			end_stream(stream);
			of_role--;
		}
	}
	return count < options.streams && of_role < most;
}

/* Adds a stream, if the limits allow one more of its role. */
static bool
add_stream(HttpStream * stream)
{
	bool		accepted;
	const		HttpStream *other;

	pthread_mutex_lock(&lock);
	accepted = !stopping && has_room(stream->role);
	if (accepted)
	{
		LIST_FOREACH(other, &all, link)
		{
			if (strcmp(other->role, stream->role) == 0)
			{
				stream->role_page_us = other->role_page_us;
				break;
			}
		}
		stream->number = ++last_number;
		LIST_INSERT_HEAD(&all, stream, link);
		count++;
		/*
		 * This shows the client at once that the connection works and where
		 * the stream begins.
		 */
		put_text(stream, ": gpucredit\n\n", 13);
		pthread_cond_signal(&behind);
	}
	pthread_mutex_unlock(&lock);
	return accepted;
}

void
stream_open(WebRequest * request, const char *text)
{
	json_t	   *opened = json_loads(text, 0, NULL);
	HttpStream *stream = stream_new(request, opened);

	json_decref(opened);
	if (stream == NULL || stream->token == NULL || stream->role == NULL || stream->account == NULL)
	{
		if (stream != NULL)
			free_members(stream);
		problem_answer(request, 500, "internal error", NULL, NULL);
		return;
	}
	if (!add_stream(stream))
	{
		free_members(stream);
		problem_answer(request, 429, "too many streams are open",
					   "A role has a quarter of the daemon's streams.",
					   "End one, or repeat the request later.");
		return;
	}
	request->status = 200;
	request->response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream,
														  stream, free_stream);
	if (request->response == NULL)
	{
		free_stream(stream);
		problem_answer(request, 500, "internal error", NULL, NULL);
		return;
	}
	MHD_add_response_header(request->response, "Content-Type", "text/event-stream");
	MHD_add_response_header(request->response, "Cache-Control", "no-store");
	MHD_add_response_header(request->response, "X-Accel-Buffering", "no");
}

static bool
is_below(const char *account, const char *ancestor)
{
	size_t		n = strlen(ancestor);

	return n == 0 || (strncmp(account, ancestor, n) == 0 &&
					  (account[n] == '\0' || account[n] == '/'));
}

/*
 * Whether the stream's role may read an event, by the same rules as
 * gpucredit_internal.may_read().
 */
static bool
may_read(const HttpStream * stream, const StreamEvent * event)
{
	json_t	   *bound = json_object_get(stream->rights, "bound");
	size_t		i;
	json_t	   *one;

	if (stream->reads_all)
		return true;
	json_array_foreach(bound, i, one)
	{
		const char *org = json_string_value(json_array_get(one, 0));
		const char *account = json_string_value(json_array_get(one, 1));

		if (org != NULL && account != NULL && strcmp(org, event->org) == 0 &&
			is_below(event->account, account))
			return true;
	}
	return false;
}

/* Whether an event matches the stream's filters. */
static bool
wants(const HttpStream * stream, const StreamEvent * event)
{
	size_t		i;
	json_t	   *kind;

	if ((stream->org != NULL && strcmp(stream->org, event->org) != 0) ||
		!is_below(event->account, stream->account) ||
		(stream->job != 0 && stream->job != event->job))
		return false;
	if (stream->kinds == NULL)
		return true;
	json_array_foreach(stream->kinds, i, kind)
		if (json_is_string(kind) && strcmp(json_string_value(kind), event->kind) == 0)
		return true;
	return false;
}

void
streams_follow(int64_t number)
{
	pthread_mutex_lock(&lock);
	followed = number;
	pthread_mutex_unlock(&lock);
}

void
streams_feed_lost(void)
{
	HttpStream *stream;

	pthread_mutex_lock(&lock);
	followed = -1;
	LIST_FOREACH(stream, &all, link)
		stream->live = false;
	pthread_mutex_unlock(&lock);
}

void
streams_send(const StreamEvent * event)
{
	HttpStream *stream;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(stream, &all, link)
	{
		if (!stream->live || stream->ended || event->number <= stream->after)
			continue;
		if (may_read(stream, event) && wants(stream, event) &&
			!put_event(stream, event->number, event->kind, event->content))
			stream->live = false;	/* it continues from its last event by
									 * pages */
		else
			stream->after = event->number;
	}
	followed = event->number;
	pthread_mutex_unlock(&lock);
}

void
streams_end_stalled(void)
{
	int64_t		now = now_us();
	HttpStream *stream;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(stream, &all, link)
	{
		if (stream->ended)
			continue;
		if (stream->suspended && is_gone(stream))
			end_stream(stream);
		else if (stream->size > stream->sent &&
				 now - stream->read_us > (int64_t) options.receive_s * 1000000)
		{
			ClientCut(stream->socket);
			end_stream(stream);
		}
	}
	pthread_mutex_unlock(&lock);
}

void
streams_send_keepalives(void)
{
	int64_t		now = now_us();
	char		text[64];
	HttpStream *stream;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(stream, &all, link)
	{
		if (stream->ended || stream->size > stream->sent ||
			now - stream->written_us <= KEEPALIVE_US)
			continue;

		/*
		 * An id without data tells the client the position to resume from, and
		 * nothing else.
		 */
		if (stream->after > stream->sent_id)
			snprintf(text, sizeof(text), ": \nid: %" PRId64 "\n\n", stream->after);
		else
			snprintf(text, sizeof(text), ": \n\n");
		if (put_text(stream, text, strlen(text)))
			stream->sent_id = stream->after;
	}
	pthread_mutex_unlock(&lock);
}

bool
streams_tokens(char **tokens, char **sessions)
{
	size_t		size = 0;
	FILE	   *token = open_memstream(tokens, &size);
	FILE	   *session = open_memstream(sessions, &size);
	const char *comma = "";
	const		HttpStream *stream;
	const		HttpStream *next;

	if (token == NULL || session == NULL)
	{
		if (token != NULL)
			fclose(token);
		return false;
	}
	fputc('{', token);
	fputc('{', session);
	pthread_mutex_lock(&lock);
	asked = last_number;
	LIST_FOREACH(stream, &all, link)
	{
		next = LIST_NEXT(stream, link);
		if (next != NULL && next->token_number == stream->token_number &&
			next->session == stream->session)
			continue;
		fprintf(token, "%s%" PRId64, comma, stream->token_number);
		fprintf(session, "%s%" PRId64, comma, stream->session);
		comma = ",";
	}
	pthread_mutex_unlock(&lock);
	fputc('}', token);
	fputc('}', session);
	fclose(token);
	fclose(session);
	return true;
}

void
streams_check(const PGresult * good)
{
	json_t	   *tokens = json_object();
	char		name[64];
	HttpStream *stream;

	for (int i = 0; i < PQntuples(good); i++)
	{
		snprintf(name, sizeof(name), "%s/%s", PQgetvalue(good, i, 0), PQgetvalue(good, i, 1));
		json_object_set_new(tokens, name, json_loads(PQgetvalue(good, i, 2), 0, NULL));
	}
	pthread_mutex_lock(&lock);
	LIST_FOREACH(stream, &all, link)
	{
		snprintf(name, sizeof(name), "%" PRId64 "/%" PRId64, stream->token_number, stream->session);
		/*
		 * A stream that was added since the check began is checked the next
		 * time.
		 */
		if (stream->number <= asked &&
			!json_equal(json_object_get(tokens, name), stream->rights))
			end_stream(stream);
	}
	pthread_mutex_unlock(&lock);
	json_decref(tokens);
}

/* Formats a JSON array of texts as an array in SQL. */
static char *
sql_array(const json_t * texts)
{
	char	   *text = NULL;
	size_t		size = 0;
	FILE	   *out = open_memstream(&text, &size);
	size_t		i;
	json_t	   *one;

	if (out == NULL)
		return NULL;
	fputc('{', out);
	json_array_foreach(texts, i, one)
	{
		fputs(i > 0 ? ",\"" : "\"", out);
		for (const char *c = json_is_string(one) ? json_string_value(one) : ""; *c != '\0'; c++)
		{
			if (*c == '"' || *c == '\\')
				fputc('\\', out);
			fputc(*c, out);
		}
		fputc('"', out);
	}
	fputc('}', out);
	fclose(out);
	return text;
}

/*
 * Describes the page that a stream needs, and counts its role as served now.
 */
static void
describe_page(HttpStream * stream, StreamPage * page)
{
	char		job[24];
	int64_t		now = now_us();
	HttpStream *other;

	LIST_FOREACH(other, &all, link)
	{
		if (strcmp(other->role, stream->role) == 0)
			other->role_page_us = now;
	}
	stream->has_page = true;
	snprintf(job, sizeof(job), "%" PRId64, stream->job);
	snprintf(page->after, sizeof(page->after), "%" PRId64, stream->after);
	page->stream = stream->number;
	page->token = strdup(stream->token);
	page->csrf = stream->session != 0 ? strdup("") : NULL;
	page->org = stream->org != NULL ? strdup(stream->org) : NULL;
	page->account = strdup(stream->account);
	page->kinds = stream->kinds != NULL ? sql_array(stream->kinds) : NULL;
	page->job = stream->job != 0 ? strdup(job) : NULL;
}

/*
 * Whether stream a gets a page before stream b:
 *  1. The stream whose role has waited longer for a page goes first, so that
 *     a role with many streams does not make other roles wait.
 *  2. Then the stream that has waited longer itself.
 */
static bool
goes_before(const HttpStream * a, const HttpStream * b)
{
	if (a->role_page_us != b->role_page_us)
		return a->role_page_us < b->role_page_us;
	return a->not_before_us < b->not_before_us;
}

/*
 * Returns the next stream that is behind, has room for a page, and is due, or
 * NULL.
 */
static HttpStream *
find_behind(void)
{
	HttpStream *found = NULL;
	int64_t		now = now_us();
	HttpStream *stream;

	LIST_FOREACH(stream, &all, link)
	{
		if (!stream->live && !stream->ended && !stream->has_page &&
			stream->size - stream->sent < BUFFER_MOST / 2 && stream->not_before_us <= now &&
			(found == NULL || goes_before(stream, found)))
			found = stream;
	}
	return found;
}

static bool
any_behind(void)
{
	const		HttpStream *stream;

	LIST_FOREACH(stream, &all, link)
	{
		if (!stream->live && !stream->ended)
			return true;
	}
	return false;
}

bool
streams_next_page(StreamPage * page)
{
	HttpStream *stream;
	struct timespec until;

	pthread_mutex_lock(&lock);
	while (!stopping && (stream = find_behind()) == NULL)
	{
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += any_behind() ? 5000000 : 900000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&behind, &lock, &until);
	}
	if (!stopping)
		describe_page(stream, page);
	pthread_mutex_unlock(&lock);
	return !stopping;
}

static void
free_page(StreamPage * page)
{
	free(page->token);
	free(page->csrf);
	free(page->org);
	free(page->account);
	free(page->kinds);
	free(page->job);
}

/* Returns the stream of a page, or NULL if it has ended. */
static HttpStream *
stream_of(const StreamPage * page)
{
	HttpStream *stream;

	LIST_FOREACH(stream, &all, link)
	{
		if (stream->number != page->stream)
			continue;
		stream->has_page = false;
		return stream;
	}
	return NULL;
}

/* Puts a page into a stream's buffer, as far as there is room. */
static void
put_page(HttpStream * stream, const PGresult * rows)
{
	int			n = PQntuples(rows) - 1;
	char		text[64];

	if (n < 0)
		return;
	if (strcmp(PQgetvalue(rows, n, 4), "t") == 0)
	{
		snprintf(text, sizeof(text), "event: gap\ndata: {\"after\":%" PRId64 "}\n\n", stream->after);
		if (!put_text(stream, text, strlen(text)))
			return;
	}
	for (int i = 0; i < n; i++)
	{
		int64_t		number = atoll(PQgetvalue(rows, i, 0));

		if (!put_event(stream, number, PQgetvalue(rows, i, 1), PQgetvalue(rows, i, 2)))
			return;
		stream->after = number;
	}
	stream->after = atoll(PQgetvalue(rows, n, 0));
	/*
	 * The stream has reached the feed's position and follows the feed from now
	 * on.
	 */
	stream->live = followed >= 0 && stream->after >= followed &&
		strcmp(PQgetvalue(rows, n, 3), "t") != 0;
}

void
streams_add_page(StreamPage * page, const PGresult * rows)
{
	HttpStream *stream;

	pthread_mutex_lock(&lock);
	stream = stream_of(page);
	if (stream != NULL)
	{
		put_page(stream, rows);
		stream->not_before_us = now_us() + 2000;
	}
	pthread_mutex_unlock(&lock);
	free_page(page);
}

void
streams_end(StreamPage * page)
{
	HttpStream *stream;

	pthread_mutex_lock(&lock);
	stream = stream_of(page);
	if (stream != NULL)
		end_stream(stream);
	pthread_mutex_unlock(&lock);
	free_page(page);
}

void
streams_retry(StreamPage * page)
{
	HttpStream *stream;

	pthread_mutex_lock(&lock);
	stream = stream_of(page);
	if (stream != NULL)
		stream->not_before_us = now_us() + 500000;
	pthread_mutex_unlock(&lock);
	free_page(page);
}

int
streams_count(void)
{
	int			n;

	pthread_mutex_lock(&lock);
	n = count;
	pthread_mutex_unlock(&lock);
	return n;
}

void
streams_stop(void)
{
	HttpStream *stream;

	pthread_mutex_lock(&lock);
	stopping = true;
	LIST_FOREACH(stream, &all, link)
		end_stream(stream);
	pthread_cond_broadcast(&behind);
	pthread_mutex_unlock(&lock);
}
