/*-------------------------------------------------------------------------
 *
 * post.h
 *		Sends messages of webhooks, many at once.
 *
 * All of it is for one thread, except posts_wake().
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_POST_H
#define HTTP_POST_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct WebhookPost
{
	char	   *org;			/* which delivery it is, and which attempt */
	char	   *webhook;
	char	   *event;
	char	   *attempt;
	char	   *url;
	char	   *body;
	struct curl_slist *headers;
	CURL	   *curl;			/* while it is being sent */
	bool		is_plain;		/* by http:// */
	bool		is_refused;		/* an address was not allowed */
	bool		needs_tls;		/* an address is allowed for https:// alone */
	size_t		received;		/* bytes of the answer */
	long		status;			/* of the answer; 0: there was none */
	long		retry_after;	/* seconds that the answer asks for */
	char		problem[160];	/* why it failed; empty: it did not */
	struct WebhookPost *next;
} WebhookPost;

extern bool posts_init(void);

/* Add a header "NAME: VALUE". */
extern bool post_add_header(WebhookPost *post, const char *name, const char *value);

/* Begin to send; a post that cannot be sent has ended, with a problem. */
extern void post_send(WebhookPost *post);

/* Send and receive what can be; the next post that has ended, or NULL. */
extern WebhookPost *posts_next_ended(void);

/* Wait until there is something to do, for so long at most. */
extern void posts_wait(int ms);

/* End such a wait, from any thread. */
extern void posts_wake(void);

extern int	posts_underway(void);
extern void post_free(WebhookPost *post);

/* Drop what is being sent. */
extern void posts_end(void);

#endif							/* HTTP_POST_H */
