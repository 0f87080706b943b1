/*-------------------------------------------------------------------------
 *
 * post.h
 *		Sends messages of webhooks, many at once.
 *
 * All functions must be called by one thread, except posts_wake().
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_POST_H
#define HTTP_POST_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct WebhookPost
{
	char	   *org;			/* identifies the delivery, together with the
								 * following three */
	char	   *webhook;
	char	   *event;
	char	   *attempt;
	char	   *url;
	char	   *body;
	struct curl_slist *headers;
	CURL	   *curl;			/* the transfer while it is being sent */
	bool		is_plain;		/* the URL begins with http:// */
	bool		is_refused;		/* an address was not allowed */
	bool		needs_tls;		/* an address is allowed only with https:// */
	size_t		received;		/* bytes of the answer so far */
	long		status;			/* HTTP status of the answer, or 0 if there was
								 * none */
	long		retry_after;	/* seconds that the answer asks to wait */
	char		problem[160];	/* why it failed; empty if it did not */
	struct WebhookPost *next;
} WebhookPost;

extern bool posts_init(void);

/* Adds a header "NAME: VALUE". */
extern bool post_add_header(WebhookPost *post, const char *name, const char *value);

/* Starts to send. A post that cannot be sent ends at once, with a problem. */
extern void post_send(WebhookPost *post);

/*
 * Sends and receives what is possible without waiting. Returns the next post
 * that has ended, or NULL.
 */
extern WebhookPost *posts_next_ended(void);

/* Waits until there is something to do, for at most this time. */
extern void posts_wait(int ms);

/* Ends such a wait. May be called by any thread. */
extern void posts_wake(void);

extern int	posts_underway(void);
extern void post_free(WebhookPost *post);

/* Drops the posts that are being sent. */
extern void posts_end(void);

#endif							/* HTTP_POST_H */
