/*-------------------------------------------------------------------------
 *
 * request.h
 *		Parses an HTTP request and keeps its state until it is answered.
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_REQUEST_H
#define HTTP_REQUEST_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum WebRequestStep
{
	REQUEST_HEADERS,			/* its headers have just arrived */
	REQUEST_CHECKING,			/* a worker is checking its token */
	REQUEST_CHECKED,			/* its token is valid */
	REQUEST_BODY,				/* its body is arriving */
	REQUEST_WORKING,			/* a worker is answering it */
	REQUEST_ANSWERED			/* it has an answer */
} WebRequestStep;

/* Which of the addresses below /v1/sign_in a request is for (signin.c). */
typedef enum SignInStep
{
	SIGN_IN_NONE,
	SIGN_IN_LIST,
	SIGN_IN_BEGIN,
	SIGN_IN_CALLBACK
} SignInStep;

typedef struct SignIn
{
	SignInStep	step;
	long long	provider;		/* provider in the address */
	char	   *nonce;			/* nonce that the provider's token must
								 * contain */
	char	   *page;			/* page to redirect to after signing in */
} SignIn;

typedef struct WebRequest
{
	struct MHD_Connection *connection;
	WebRequestStep step;
	char	   *target;			/* path and query as received */
	char	   *method;
	char	   *path;			/* the decoded words of the path, as a JSON
								 * array */
	char	   *query;			/* the arguments of the query, as a JSON
								 * object */
	char	   *token;			/* secret of the header Authorization, or of
								 * the session's cookie; or NULL */
	char	   *csrf;			/* header X-CSRF-Token of a request whose
								 * secret is from a cookie; NULL if it is from
								 * Authorization */
	bool		is_secure;		/* it reached the daemon or its proxy over
								 * TLS */
	bool		is_session;		/* its address is that of the session itself */
	char	   *key;			/* value of the header Idempotency-Key, or
								 * NULL */
	char	   *traceparent;	/* value of the header traceparent, or NULL */
	char	   *last_event;		/* value of the header Last-Event-ID, or
								 * NULL */
	bool		is_stream;		/* it requests a stream of events */
	SignIn		sign_in;
	char	   *claims;			/* claims of a provider's token whose signature
								 * is verified; NULL if it has none, or is not
								 * verified yet */
	long long	provider;		/* provider that signed the claims */
	char	   *role;			/* role that it acted as; NULL if not known */
	char	   *body;
	size_t		body_size;
	int64_t		started_us;		/* when its headers had arrived */
	int			status;			/* HTTP status of the answer */
	struct MHD_Response *response;	/* the answer, once it exists */
	struct WebRequest *next;		/* next request in the queue of those that
									 * wait for a worker */
} WebRequest;

extern WebRequest *request_new(const char *target);
extern void request_free(WebRequest *request);

/*
 * Parses what arrived with the headers. Returns false, with a problem as the
 * answer, if it is malformed.
 */
extern bool request_parse(WebRequest *request, struct MHD_Connection *connection,
						  const char *method);

/* Adds a piece of the body. Returns false if memory runs out. */
extern bool request_add_body(WebRequest *request, const char *data, size_t size);

/* Returns the name of the cookie that holds a session. */
extern const char *request_cookie(const WebRequest *request);

extern int64_t now_us(void);

#endif							/* HTTP_REQUEST_H */
