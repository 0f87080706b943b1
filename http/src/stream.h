/*-------------------------------------------------------------------------
 *
 * stream.h
 *		Streams of events to clients that keep their connection open.
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_STREAM_H
#define HTTP_STREAM_H

#include <libpq-fe.h>

#include "request.h"

/*
 * Answers a request with a stream. "opened" is the JSON that open_stream()
 * returned.
 */
extern void stream_open(WebRequest *request, const char *opened);

/* An event of the feed. */
typedef struct StreamEvent
{
	int64_t		number;
	const char *kind;
	const char *org;
	const char *account;
	int64_t		job;			/* 0 if it belongs to no job */
	const char *content;
} StreamEvent;

/*
 * Called by the thread that reads the feed, before it sends events: the number
 * of the last event that it has read. Streams that have reached this position
 * are live from then on.
 */
extern void streams_follow(int64_t number);

/*
 * Called by the same thread when it stops reading the feed, because no stream
 * is open or the database cannot be reached. No stream is live from then on.
 */
extern void streams_feed_lost(void);

/*
 * Sends an event to the live streams that may read it and whose filters it
 * matches.
 */
extern void streams_send(const StreamEvent *event);

/* Ends streams whose client has closed its connection, or reads nothing. */
extern void streams_end_stalled(void);

/* Sends a comment to each stream to which nothing was sent for 15 seconds. */
extern void streams_send_keepalives(void);

/*
 * streams_tokens() returns the tokens of all streams and their sessions (0 for
 * none) as SQL arrays, which the caller frees, for a check in the database.
 * streams_check() ends the streams whose token is not in the result of that
 * check, or has other rights.
 */
extern bool streams_tokens(char **tokens, char **sessions);
extern void streams_check(const PGresult *good);

/*
 * A stream that is behind, with the arguments for reading its next page of
 * events.
 */
typedef struct StreamPage
{
	uint64_t	stream;
	char	   *token;			/* secret of a token, or of a session */
	char	   *csrf;			/* empty for a session, NULL for a token */
	char		after[24];
	char	   *org;			/* NULL for all */
	char	   *account;
	char	   *kinds;			/* an SQL array, or NULL for all */
	char	   *job;			/* NULL for all */
} StreamPage;

/*
 * Waits for a stream that is behind and returns it. Returns false if the
 * daemon ends.
 */
extern bool streams_next_page(StreamPage *page);
extern void streams_add_page(StreamPage *page, const PGresult *rows);
extern void streams_end(StreamPage *page);
extern void streams_retry(StreamPage *page);

extern int	streams_count(void);

/* Ends all streams, and accepts no more. */
extern void streams_stop(void);

#endif							/* HTTP_STREAM_H */
