/*-------------------------------------------------------------------------
 *
 * request.c
 *		Parses an HTTP request and keeps its state until it is answered.
 *-------------------------------------------------------------------------
 */
#include "request.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "framing.h"
#include "http_tls.h"
#include "options.h"
#include "problem.h"
#include "signin.h"

int64_t
now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

WebRequest *
request_new(const char *target)
{
	WebRequest *request = calloc(1, sizeof(WebRequest));

	if (request != NULL && (request->target = strdup(target)) == NULL)
	{
		free(request);
		request = NULL;
	}
	return request;
}

void
request_free(WebRequest * request)
{
	if (request->response != NULL)
		MHD_destroy_response(request->response);
	free(request->target);
	free(request->method);
	free(request->path);
	free(request->query);
	free(request->token);
	free(request->csrf);
	free(request->key);
	free(request->traceparent);
	free(request->last_event);
	free(request->sign_in.nonce);
	free(request->sign_in.page);
	free(request->claims);
	free(request->role);
	free(request->body);
	free(request);
}

/* Refuses a request whose end is not certain, or whose body is too large. */
static bool
check_framing(WebRequest * request, struct MHD_Connection *connection)
{
	int64_t		size;

	if (!framing_is_certain(connection, &size))
	{
		problem_answer(request, 400, "the request's end is not certain",
					   "It has no Host or several, two lengths, a length and an encoding, or an unknown encoding.",
					   "Send one Host, and one Content-Length or \"Transfer-Encoding: chunked\".");
		MHD_add_response_header(request->response, "Connection", "close");
		return false;
	}
	if (size > (int64_t) options.body_max)
	{
		problem_answer(request, 413, "the body is too large", NULL, NULL);
		return false;
	}
	return true;
}

static int
hex_value(char c)
{
	return isdigit((unsigned char) c) ? c - '0' :
		isxdigit((unsigned char) c) ? tolower((unsigned char) c) - 'a' + 10 : -1;
}

/* Decodes one word of the path to JSON. Returns NULL if it is malformed. */
static json_t *
decode_word(const char *word, size_t size)
{
	char	   *text = malloc(size + 1);
	size_t		n = 0;
	json_t	   *value = NULL;
	bool		good = text != NULL;

	for (size_t i = 0; good && i < size; i++)
	{
		char		c = word[i];

		if (c == '%')
		{
			int			high = i + 2 < size ? hex_value(word[i + 1]) : -1;
			int			low = i + 2 < size ? hex_value(word[i + 2]) : -1;

			good = high >= 0 && low >= 0;
			c = (char) (high * 16 + low);
			i += 2;
		}
		good = good && c != '\0';
		text[n++] = c;
	}
	if (good)
		value = json_stringn(text, n);
	free(text);
	return value;
}

/*
 * Returns the words of a path as a JSON array, or NULL if the path is
 * malformed.
 */
static char *
parse_path(const char *target)
{
	json_t	   *words = json_array();
	const char *end = target + strcspn(target, "?");
	char	   *text = NULL;
	bool		good = *target == '/';

	for (const char *word = target; good && word < end;)
	{
		size_t		size = strcspn(++word, "/?");

		good = json_array_append_new(words, decode_word(word, size)) == 0;
		word += size;
	}
	if (good)
		text = json_dumps(words, JSON_COMPACT);
	json_decref(words);
	return text;
}

/*
 * Adds an argument of the query. An argument that is repeated becomes an
 * array.
 */
static enum MHD_Result
add_argument(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_size,
			 const char *value, size_t value_size)
{
	json_t	   *query = *(json_t * *) cls;
	json_t	   *one = value != NULL ? json_stringn(value, value_size) : json_string("");
	json_t	   *old;

	(void) kind;
	if (one == NULL || memchr(name, '\0', name_size) != NULL ||
		(value != NULL && memchr(value, '\0', value_size) != NULL))
	{
		json_decref(one);
		json_decref(query);
		*(json_t * *) cls = NULL;
		return MHD_NO;
	}
	old = json_object_get(query, name);
	if (old == NULL)
		json_object_set_new(query, name, one);
	else if (json_is_array(old))
		json_array_append_new(old, one);
	else
		json_object_set_new(query, name, json_pack("[O, o]", old, one));
	return MHD_YES;
}

/*
 * Returns the arguments of a query as a JSON object, or NULL if one is not
 * UTF-8.
 */
static char *
parse_query(struct MHD_Connection *connection)
{
	json_t	   *query = json_object();
	char	   *text;

	MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, add_argument, &query);
	text = query != NULL ? json_dumps(query, JSON_COMPACT) : NULL;
	json_decref(query);
	return text;
}

/* Returns a copy of a header's value, or NULL. */
static char *
copy_header(struct MHD_Connection *connection, const char *name)
{
	const char *value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);

	return value != NULL ? strdup(value) : NULL;
}

/* Returns the secret of "Authorization: Bearer SECRET", or NULL. */
static char *
copy_token(struct MHD_Connection *connection)
{
	const char *value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");

	if (value == NULL || strncasecmp(value, "Bearer ", 7) != 0)
		return NULL;
	value += 7;
	return strdup(value + strspn(value, " "));
}

/*
 * With TLS, the prefix __Host- makes the browser accept the cookie only from
 * this host, and send it only over TLS.
 */
const char *
request_cookie(const WebRequest * request)
{
	return request->is_secure ? "__Host-gpucredit" : "gpucredit_session";
}

/* Finds the secret of a request: in its header, or else in a cookie. */
static void
find_secret(WebRequest * request, struct MHD_Connection *connection)
{
	const char *scheme = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
													 "X-Forwarded-Proto");
	const char *cookie;

	request->is_secure = TlsIsOn() || (scheme != NULL && strcasecmp(scheme, "https") == 0);
	request->token = copy_token(connection);
	cookie = MHD_lookup_connection_value(connection, MHD_COOKIE_KIND, request_cookie(request));
	if (request->token == NULL && cookie != NULL)
	{
		request->token = strdup(cookie);
		request->csrf = copy_header(connection, "X-CSRF-Token");
		if (request->csrf == NULL)
			request->csrf = strdup("");
	}
}

/*
 * Refuses requests that a page of another site makes a browser send. A browser
 * sends the page's origin with each request that may change something.
 */
static bool
check_origin(WebRequest * request, struct MHD_Connection *connection)
{
	const char *origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin");
	const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
	bool		changes = strcmp(request->method, "GET") != 0 &&
		strcmp(request->method, "HEAD") != 0;
	bool		same = false;

	if (request->csrf == NULL && !(request->is_session && origin != NULL))
		return true;
	if (origin == NULL)
		same = !changes;
	else if (strncasecmp(origin, "https://", 8) == 0)
		same = strcasecmp(origin + 8, host) == 0;
	else if (strncasecmp(origin, "http://", 7) == 0)
		same = !request->is_secure && strcasecmp(origin + 7, host) == 0;
	if (!same)
		problem_answer(request, 403, "the request comes from another site",
					   "Its Origin is not the address that it was sent to.",
					   "Use the console at its own address, or a token in place of a cookie.");
	return same;
}

/* Whether the client requests a stream of events. */
static bool
wants_stream(const WebRequest * request, struct MHD_Connection *connection)
{
	const char *accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Accept");
	size_t		path = strcspn(request->target, "?");

	return request->method != NULL && strcmp(request->method, "GET") == 0 &&
		path == strlen("/v1/events") && strncmp(request->target, "/v1/events", path) == 0 &&
		accept != NULL && strstr(accept, "text/event-stream") != NULL;
}

bool
request_parse(WebRequest * request, struct MHD_Connection *connection, const char *method)
{
	request->connection = connection;
	request->started_us = now_us();
	request->method = strdup(method);
	if (!check_framing(request, connection))
		return false;
	request->path = parse_path(request->target);
	request->query = parse_query(connection);
	find_secret(request, connection);
	request->key = copy_header(connection, "Idempotency-Key");
	request->traceparent = copy_header(connection, "Traceparent");
	request->last_event = copy_header(connection, "Last-Event-ID");
	request->is_stream = wants_stream(request, connection);
	if (request->method == NULL || request->path == NULL || request->query == NULL)
	{
		problem_answer(request, 400, "the address is malformed",
					   "Its words are UTF-8 without NUL, and what follows a % is two hexadecimal digits.",
					   NULL);
		return false;
	}
	request->is_session = strcmp(request->path, "[\"v1\",\"session\"]") == 0;
	signin_find(request);
	return check_origin(request, connection);
}

bool
request_add_body(WebRequest * request, const char *data, size_t size)
{
	char	   *more = realloc(request->body, request->body_size + size + 1);

	if (more == NULL)
		return false;
	memcpy(more + request->body_size, data, size);
	request->body = more;
	request->body_size += size;
	request->body[request->body_size] = '\0';
	return true;
}
