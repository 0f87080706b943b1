/*-------------------------------------------------------------------------
 *
 * serve.c
 *		Listens, and moves requests through their steps.
 *
 * A request without a token is refused before its body is read. So is a
 * request with a long body and an invalid token. A short body is read first:
 * it uses no more memory than the connection has anyway, and saves a round
 * trip to the database.
 *-------------------------------------------------------------------------
 */
#include "serve.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "counters.h"
#include "follow.h"
#include "http_client.h"
#include "http_tls.h"
#include "identity.h"
#include "log.h"
#include "options.h"
#include "problem.h"
#include "request.h"
#include "worker.h"

#define SHORT_BODY	16384
#define CONNECTION_MEMORY	(32 * 1024) /* an open stream uses half of it */
#define POLLING_THREADS	2

/* Sends the answer of a request. */
static enum MHD_Result
send_answer(WebRequest * request)
{
	struct MHD_Response *response = request->response;
	enum MHD_Result result;

	request->response = NULL;
	count_answer(request);
	ClientEnter(request->connection, request->is_stream && request->status == 200 ?
				CLIENT_STAYS : CLIENT_READS);
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	result = MHD_queue_response(request->connection, (unsigned int) request->status, response);
	MHD_destroy_response(response);
	return result;
}

static void
answer_text(WebRequest * request, int status, const char *type, char *text)
{
	request->status = status;
	request->response = MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
	MHD_add_response_header(request->response, "Content-Type", type);
	MHD_add_response_header(request->response, "Cache-Control", "no-store");
}

/*
 * Answers a request that needs neither a token nor the database. Returns false
 * for all others.
 */
static bool
answer_at_once(WebRequest * request)
{
	bool		ready = workers_ready();

	if (console_answer(request))
		return true;
	if (strcmp(request->method, "GET") != 0)
		return false;
	if (strcmp(request->target, "/healthz") == 0)
		answer_text(request, 200, "text/plain", strdup("ok\n"));
	else if (strcmp(request->target, "/readyz") == 0)
		answer_text(request, ready ? 200 : 503, "text/plain",
					strdup(ready ? "ok\n" : "the database does not answer\n"));
	else if (strcmp(request->target, "/metrics/gpucreditd") == 0)
		answer_text(request, 200, "text/plain; version=0.0.4", counters_text());
	else
		return false;
	return true;
}

/*
 * Whether the body is so long that the token must be checked before the body
 * is read.
 */
static bool
has_long_body(struct MHD_Connection *connection)
{
	const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");

	if (length != NULL)
		return atoll(length) > SHORT_BODY;
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Transfer-Encoding") != NULL;
}

/*
 * Passes a request to a thread that may wait. Returns false, with an answer,
 * if too many requests wait.
 */
static bool
enqueue(WebRequest * request)
{
	return identity_is_needed(request) ? identity_enqueue(request) : worker_enqueue(request);
}

/* Handles a request whose headers have arrived. */
static enum MHD_Result
begin_request(WebRequest * request, struct MHD_Connection *connection, const char *method)
{
	if (!request_parse(request, connection, method) || answer_at_once(request))
		return send_answer(request);
	if (request->token == NULL && request->sign_in.step == SIGN_IN_NONE)
	{
		problem_answer(request, 401, "a token is needed", NULL,
					   "Send \"Authorization: Bearer TOKEN\"; gpucredit_http.issue_token() makes one.");
		return send_answer(request);
	}
	request->step = REQUEST_BODY;
	if (has_long_body(connection))
	{
		request->step = REQUEST_CHECKING;
		ClientEnter(connection, CLIENT_WAITS);
		if (!enqueue(request))
			return send_answer(request);
	}
	return MHD_YES;
}

/* Stores a piece of the body. Bytes beyond the limit are dropped. */
static enum MHD_Result
add_body(WebRequest * request, const char *data, size_t *size)
{
	size_t		n = *size;

	*size = 0;
	if (request->response != NULL)
		return MHD_YES;
	if (request->body_size + n > options.body_max)
		problem_answer(request, 413, "the body is too large", NULL, NULL);
	else if (!request_add_body(request, data, n))
		return MHD_NO;
	return MHD_YES;
}

/*
 * Handles a request that has arrived completely. A request whose body is
 * incomplete is not answered.
 */
static enum MHD_Result
end_request(WebRequest * request)
{
	const char *length = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND,
													 "Content-Length");

	if (request->response == NULL && length != NULL &&
		request->body_size != (size_t) atoll(length))
		return MHD_NO;
	if (request->response == NULL && request->body != NULL &&
		memchr(request->body, '\0', request->body_size) != NULL)
		problem_answer(request, 400, "the body has a NUL in it", NULL, "Send JSON.");
	if (request->response != NULL)
		return send_answer(request);
	request->step = REQUEST_WORKING;
	ClientEnter(request->connection, CLIENT_WAITS);
	return enqueue(request) ? MHD_YES : send_answer(request);
}

/*
 * Called by the library when headers have arrived, for each piece of the body,
 * and at the body's end.
 */
static enum MHD_Result
handle(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
	   const char *version, const char *data, size_t *size, void **context)
{
	WebRequest *request = *context;

	(void) cls;
	(void) url;
	(void) version;
	if (request == NULL)
		return MHD_NO;
	switch (request->step)
	{
		case REQUEST_HEADERS:
			return begin_request(request, connection, method);
		case REQUEST_ANSWERED:
			/*
			 * The library sends no answer before the end of a body, so drop
			 * it.
			 */
			if (*size == 0)
				return send_answer(request);
			*size = 0;
			return MHD_YES;
		case REQUEST_CHECKED:
			/*
			 * The library calls once more for the headers, then for the body.
			 */
			request->step = REQUEST_BODY;
			return *size > 0 ? add_body(request, data, size) : MHD_YES;
		case REQUEST_BODY:
			return *size > 0 ? add_body(request, data, size) : end_request(request);
		default:
			return MHD_YES;
	}
}

/* Stores the target as received, before anything is decoded. */
static void *
note_target(void *cls, const char *uri, struct MHD_Connection *connection)
{
	(void) cls;
	(void) connection;
	return request_new(uri);
}

/* Frees a request, however it ended. */
static void
end_of_request(void *cls, struct MHD_Connection *connection, void **context,
			   enum MHD_RequestTerminationCode code)
{
	(void) cls;
	(void) code;
	ClientEnter(connection, CLIENT_SENDS);
	if (*context != NULL)
		request_free(*context);
	*context = NULL;
}

struct MHD_Daemon *
serve_start(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t) options.port)
	};

	if (inet_pton(AF_INET, options.address, &address.sin_addr) != 1)
	{
		LogLine("\"%s\" is no address", options.address);
		return NULL;
	}
	return MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
							MHD_USE_ITC | TlsFlags(),
							0, NULL, NULL, handle, NULL,
							MHD_OPTION_ARRAY, TlsOptions(),
							MHD_OPTION_SOCK_ADDR, (struct sockaddr *) &address,
							MHD_OPTION_URI_LOG_CALLBACK, note_target, NULL,
							MHD_OPTION_NOTIFY_COMPLETED, end_of_request, NULL,
							MHD_OPTION_NOTIFY_CONNECTION, ClientNotify, NULL,
							MHD_OPTION_STRICT_FOR_CLIENT, 1,
							MHD_OPTION_THREAD_POOL_SIZE, (unsigned int) POLLING_THREADS,
							MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int) options.receive_s,
							MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) CONNECTION_MEMORY,
							MHD_OPTION_CONNECTION_LIMIT, (unsigned int) options.connections,
							MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned int) options.per_address,
							MHD_OPTION_END);
}

void
serve_stop(struct MHD_Daemon *daemon)
{
	/* No connection may be left suspended. */
	identity_stop();
	workers_stop();
	follow_stop();
	MHD_stop_daemon(daemon);
}
