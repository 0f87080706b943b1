/*-------------------------------------------------------------------------
 *
 * request.h
 *		One HTTP request, from its first header to its answer.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_REQUEST_H
#define HTTP_REQUEST_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum WebRequestStep
{
	REQUEST_HEADERS,			/* its headers have just come */
	REQUEST_CHECKING,			/* a worker has its token checked */
	REQUEST_CHECKED,			/* its token is good */
	REQUEST_BODY,				/* its body is coming */
	REQUEST_WORKING,			/* a worker has it answered */
	REQUEST_ANSWERED			/* the answer is made */
} WebRequestStep;

typedef struct WebRequest
{
	struct MHD_Connection *connection;
	WebRequestStep step;
	char	   *target;			/* path and query, as they came */
	char	   *method;
	char	   *path;			/* the words of the path, decoded: a JSON array */
	char	   *query;			/* its arguments: a JSON object */
	char	   *token;			/* the secret of the header Authorization; or NULL */
	char	   *csrf;			/* NULL: token is a token; else it is a cookie's
								 * session, and this the header X-CSRF-Token */
	bool		is_secure;		/* it came to the proxy by TLS */
	bool		is_session;		/* its address is that of the session itself */
	char	   *key;			/* of the header Idempotency-Key; or NULL */
	char	   *traceparent;	/* of that header; or NULL */
	char	   *last_event;		/* of the header Last-Event-ID; or NULL */
	bool		is_stream;		/* it asks for events as they happen */
	char	   *role;			/* that it acted as; NULL: not known */
	char	   *body;
	size_t		body_size;
	int64_t		started_us;		/* when its headers had come */
	int			status;			/* of the answer */
	struct MHD_Response *response;	/* the answer, once it is made */
	struct WebRequest *next;		/* in the queue of those that wait for a worker */
} WebRequest;

extern WebRequest *request_new(const char *target);
extern void request_free(WebRequest *request);

/* Parse what came with the headers; false, with a problem as its answer. */
extern bool request_parse(WebRequest *request, struct MHD_Connection *connection,
						  const char *method);

/* Add a piece of the body; false if there is no memory for it. */
extern bool request_add_body(WebRequest *request, const char *data, size_t size);

/* The name of the cookie that holds a session. */
extern const char *request_cookie(const WebRequest *request);

extern int64_t now_us(void);

#endif							/* HTTP_REQUEST_H */
