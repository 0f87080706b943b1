/*-------------------------------------------------------------------------
 *
 * stream.h
 *		Clients that stay, and get events as they happen.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_STREAM_H
#define HTTP_STREAM_H

#include <libpq-fe.h>

#include "request.h"

/* Answer a request with a stream; opened is what open_stream() said, as JSON. */
extern void stream_open(WebRequest *request, const char *opened);

/* An event, as the feed has it. */
typedef struct StreamEvent
{
	int64_t		number;
	const char *kind;
	const char *org;
	const char *account;
	int64_t		job;			/* 0: none */
	const char *content;
} StreamEvent;

/*
 * For the thread that reads the feed: the number of the last event that it
 * read, before it sends the events after that.  Streams that have come as far
 * are live from then on.
 */
extern void streams_follow(int64_t number);

/*
 * For the same thread: it has stopped to read the feed, because no stream is
 * open or the database is not reached.  No stream is live from then on.
 */
extern void streams_feed_lost(void);

/* Send an event to the live streams that may read it and want it. */
extern void streams_send(const StreamEvent *event);

/* End streams whose client has closed its connection, or reads nothing. */
extern void streams_end_stalled(void);

/* Send a comment to each stream to which nothing was sent for 15 seconds. */
extern void streams_send_keepalives(void);

/*
 * The tokens of all streams and their sessions (0: none), for a check, as
 * arrays of SQL; to be freed.  Streams whose token is not in the result, or has
 * other rights, end.
 */
extern bool streams_tokens(char **tokens, char **sessions);
extern void streams_check(const PGresult *good);

/* A stream that is behind, with what a page of events for it is asked by. */
typedef struct StreamPage
{
	uint64_t	stream;
	char	   *token;			/* the secret of a token, or of a session */
	char	   *csrf;			/* empty for a session; NULL for a token */
	char		after[24];
	char	   *org;			/* NULL: all */
	char	   *account;
	char	   *kinds;			/* an array of SQL; NULL: all */
	char	   *job;			/* NULL: all */
} StreamPage;

/* The next stream that is behind; waits for one.  False: the daemon ends. */
extern bool streams_next_page(StreamPage *page);
extern void streams_add_page(StreamPage *page, const PGresult *rows);
extern void streams_end(StreamPage *page);
extern void streams_retry(StreamPage *page);

extern int	streams_count(void);

/* End all, for ever. */
extern void streams_stop(void);

#endif							/* HTTP_STREAM_H */
