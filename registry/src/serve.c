/*-------------------------------------------------------------------------
 *
 * serve.c
 *		Serves requests: the database answers, and the daemon executes the
 *		plan of the answer.
 *
 * The body of a PUT or PATCH is stored as it arrives. Other bodies are
 * collected first, up to a limit, and passed to the database with the request.
 *-------------------------------------------------------------------------
 */
#include "serve.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "chunk.h"
#include "db.h"
#include "delivery.h"
#include "finish.h"
#include "framing.h"
#include "health.h"
#include "http_client.h"
#include "http_tls.h"
#include "log.h"
#include "options.h"
#include "piece.h"
#include "proxy.h"
#include "receive.h"

#define BODY_MAX	(64 * 1024 * 1024)
#define SHORT_BODY	(256 * 1024)	/* most bytes that are collected without
									 * checking the token */
#define COLLECTED_MAX	(256 * 1024 * 1024) /* limit for all requests together */
#define SEND_BLOCK	(512 * 1024)

typedef struct HttpRequest
{
	char	   *target;			/* path and query as received */
	char	   *body;
	size_t		body_size;
	bool		begun;
	bool		too_large;
	bool		collects;		/* a PUT whose body is passed with the request */
	Receive    *receive;		/* state of a body that is being stored */
	json_t	   *plan;			/* plan of the answer that began storing */
	json_t	   *headers;		/* headers and status of that answer */
	int			status;
	bool		refused;		/* storing the body has failed */
	DbError		error;
} HttpRequest;

/* An answer whose bytes are in the store. */
typedef struct Sending
{
	Pieces		pieces;
	int			socket;
	int64_t		handed;			/* bytes that the library has asked for */
	Delivery	delivery;
	json_t	   *plan;
} Sending;

static enum MHD_Result respond(struct MHD_Connection *connection, int status,
							   json_t * headers, struct MHD_Response *response);

/* Returns the HTTP status for an error of the daemon's own calls. */
static int
status_of(const char *sqlstate)
{
	static const struct
	{
		const char *class;
		int			status;
	}			table[] = {
		{"UC502", 404}, {"UC503", 422}, {"UC506", 409}, {"UC509", 403},
		{"22", 400}, {"40", 503}, {"58", 503}, {"08", 503}, {"53", 503}, {"57", 503}
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (strncmp(sqlstate, table[i].class, strlen(table[i].class)) == 0)
			return table[i].status;
	return 500;
}

/*
 * Answers with the error of a call to the database. The client gets the
 * message of an error that it caused; the message of a server fault is only
 * logged.
 */
static enum MHD_Result
respond_error(struct MHD_Connection *connection, const DbError *error)
{
	int			status = status_of(error->sqlstate);
	json_t	   *body = json_pack("{s:s, s:s}", "error", status == 500 ?
								 "internal error" : error->message,
								 "sqlstate", error->sqlstate);
	char	   *text = json_dumps(body, JSON_COMPACT);
	struct MHD_Response *response = text == NULL ? NULL :
		MHD_create_response_from_buffer(strlen(text), text,
										MHD_RESPMEM_MUST_FREE);

	if (status >= 500)
		LogLine("%s: %s", error->sqlstate, error->message);
	json_decref(body);
	if (response != NULL)
		MHD_add_response_header(response, "Content-Type", "application/json");
	return respond(connection, status, NULL, response);
}

/*
 * Queues a response. Without a response, because memory ran out, closes the
 * connection.
 */
static enum MHD_Result
respond(struct MHD_Connection *connection, int status, json_t * headers,
		struct MHD_Response *response)
{
	const char *name;
	json_t	   *value;
	enum MHD_Result result;

	if (response == NULL)
		return MHD_NO;
	json_object_foreach(headers, name, value)
		MHD_add_response_header(response, name, json_string_value(value));
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	health_count_answer(status);
	return result;
}

/*
 * Called by the library for the next block of the body. The headers have been
 * written when it asks for the first one.
 */
static ssize_t
send_more(void *cls, uint64_t at, char *buffer, size_t max)
{
	Sending    *sending = cls;
	ssize_t		n;

	if (at == 0)
		delivery_begin(&sending->delivery, sending->socket);
	n = pieces_read(&sending->pieces, buffer, max);
	if (n < 0)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (n == 0)
		return MHD_CONTENT_READER_END_OF_STREAM;
	sending->handed += n;
	health_count_sent(n);
	return n;
}

/* Called when the answer has ended, whether it was sent completely or not. */
static void
send_end(void *cls)
{
	Sending    *sending = cls;
	json_t	   *download = json_object_get(sending->plan, "download");
	char		number[32];
	char		sent[32];
	const char *values[] = {
		json_string_value(json_object_get(sending->plan, "org")), number, sent, "off"
	};
	DbError		error;

	if (download != NULL)
	{
		sprintf(number, "%" PRId64, (int64_t) json_integer_value(download));
		sprintf(sent, "%" PRId64, sending->handed == 0 ? 0 :
				delivery_end(&sending->delivery, sending->handed,
							 json_integer_value(json_object_get(sending->plan, "length"))));
		PQclear(db_call(&error, "SELECT sent FROM " DB_COMMIT("$4") ","
						" gpucredit_registry.close_download("
						"$1::text, $2::bigint, $3::bigint) sent", 4, values,
						NULL, NULL));
	}
	pieces_end(&sending->pieces);
	json_decref(sending->plan);
	free(sending);
}

/*
 * Creates the response to a plan that names stored bytes; for a HEAD the plan
 * contains only their number. Returns NULL if memory runs out.
 */
static struct MHD_Response *
stored_response(struct MHD_Connection *connection, json_t * plan)
{
	Sending    *sending = calloc(1, sizeof(Sending));

	if (sending == NULL)
		return NULL;
	sending->plan = json_incref(plan);
	sending->socket = ClientSocket(connection);
	pieces_init(&sending->pieces, json_object_get(plan, "send"));
	return MHD_create_response_from_callback(
											 json_integer_value(json_object_get(plan, "length")),
											 SEND_BLOCK, send_more, sending, send_end);
}

/* Whether the body of this method is stored as it arrives. */
static bool
is_upload(const char *method)
{
	return strcmp(method, "PUT") == 0 || strcmp(method, "PATCH") == 0;
}

/* Adds one header of the request, with its name in lower case. */
static enum MHD_Result
add_header(void *cls, enum MHD_ValueKind kind, const char *name,
		   const char *value)
{
	static const char *const wanted[] = {
		"authorization", "content-range", "content-type", "host",
		"idempotency-key",
		"if-none-match", "if-range", "range", "upload-offset",
		"x-forwarded-proto"
	};
	char		action[32];

	(void) kind;
	if (strcasecmp(name, "x-registry-proxy") == 0 && value != NULL &&
		proxy_parse(value, action, sizeof(action)))
		json_object_set_new(cls, "x-registry-proxy", json_string(action));
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (strcasecmp(name, wanted[i]) == 0 && value != NULL)
			json_object_set_new(cls, wanted[i], json_string(value));
	return MHD_YES;
}

/*
 * Adds the address of the client as "client-address", a name that no client
 * can send. A proxy that has proved its identity says whom it speaks for.
 */
static void
add_address(struct MHD_Connection *connection, json_t * headers)
{
	const char *forwarded =
	MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-Real-IP");
	const union MHD_ConnectionInfo *info =
	MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	char		address[INET_ADDRSTRLEN];

	if (json_object_get(headers, "x-registry-proxy") != NULL && forwarded != NULL)
		json_object_set_new(headers, "client-address", json_string(forwarded));
	else if (info != NULL && info->client_addr->sa_family == AF_INET &&
			 inet_ntop(AF_INET, &((const struct sockaddr_in *) info->client_addr)->sin_addr,
					   address, sizeof(address)) != NULL)
		json_object_set_new(headers, "client-address", json_string(address));
}

/* Adds a number that no other request has as "writer", by which it stores. */
static void
add_writer(json_t * headers)
{
	int64_t		writer;
	char		word[32];

	if (getrandom(&writer, sizeof(writer), 0) != sizeof(writer))
		writer = (int64_t) (intptr_t) headers;
	sprintf(word, "%" PRId64, writer);
	json_object_set_new(headers, "writer", json_string(word));
}

/*
 * Asks the database. Returns the answer's row, or NULL and the reason. The
 * body is NULL until it has arrived.
 *
 * What a GET writes is who reads, and what the beginning of an upload writes is
 * of use only once the upload is finished, by a later transaction. Neither
 * waits for the server's WAL to be on disk, which takes longer than the call.
 */
static PGresult *
ask(struct MHD_Connection *connection, const char *method, HttpRequest *request,
	DbError *error)
{
	json_t	   *headers = json_object();
	const char *values[4];
	int			lengths[4] = {0, 0, 0, (int) request->body_size};
	int			formats[4] = {0, 0, 0, 1};
	PGresult   *result;
	char	   *text;

	MHD_get_connection_values(connection, MHD_HEADER_KIND, add_header, headers);
	add_address(connection, headers);
	if (TlsIsOn())
		json_object_set_new(headers, "x-forwarded-proto", json_string("https"));
	if (is_upload(method))
		add_writer(headers);
	text = json_dumps(headers, JSON_COMPACT);
	values[0] = method;
	values[1] = request->target;
	values[2] = text != NULL ? text : "{}";
	values[3] = request->body != NULL ? request->body :
		request->collects || !is_upload(method) ? "" : NULL;
	result = db_call_for(error, ClientSocket(connection),
						 "SELECT status, response_headers,"
						 " encode(response_body, 'base64'), plan"
						 " FROM gpucredit_registry.http($1::text, $2::text,"
						 " $3::jsonb, $4::bytea)", 4, values, lengths, formats);
	free(text);
	json_decref(headers);
	return result;
}

static json_t *
json_column(PGresult * result, int column)
{
	return PQgetisnull(result, 0, column) ? NULL :
		json_loads(PQgetvalue(result, 0, column), 0, NULL);
}

/*
 * Creates the response with a body that the database built. Returns NULL if
 * memory runs out.
 */
static struct MHD_Response *
body_response(PGresult * result)
{
	json_t	   *list = json_array();
	Pieces		pieces;
	char	   *body;
	size_t		size = 0;
	size_t		room = PQgetlength(result, 0, 2) + 1;
	char	   *base64 = PQgetvalue(result, 0, 2);
	char	   *to = base64;

	/* Remove the line breaks that the server's base64 has. */
	for (char *from = base64; *from != '\0'; from++)
		if (*from != '\n')
			*to++ = *from;
	*to = '\0';
	json_array_append_new(list, json_string(base64));
	pieces_init(&pieces, list);
	body = malloc(room);
	for (ssize_t n = 1; body != NULL && n > 0; size += n > 0 ? n : 0)
		n = pieces_read(&pieces, body + size, room - size);
	pieces_end(&pieces);
	json_decref(list);
	if (body == NULL)
		return NULL;
	return MHD_create_response_from_buffer(size, body, MHD_RESPMEM_MUST_FREE);
}

static enum MHD_Result
respond_answer(struct MHD_Connection *connection, PGresult * result,
			   json_t * plan)
{
	json_t	   *headers = json_column(result, 1);
	struct MHD_Response *response =
	plan != NULL && json_object_get(plan, "length") != NULL ?
	stored_response(connection, plan) : body_response(result);
	enum MHD_Result done = respond(connection, atoi(PQgetvalue(result, 0, 0)),
								   headers, response);

	json_decref(headers);
	return done;
}

/* Answers a request whose body, if any, is collected. */
static enum MHD_Result
answer(struct MHD_Connection *connection, const char *method, HttpRequest *request)
{
	DbError		error;
	PGresult   *result;
	enum MHD_Result done;
	json_t	   *plan;
	json_t	   *verify;
	int			status;
	struct MHD_Response *watched = health_response(method, request->target, &status);

	if (status != 0)
		return respond(connection, status, NULL, watched);
	result = ask(connection, method, request, &error);
	if (result == NULL)
		return respond_error(connection, &error);
	plan = json_column(result, 3);
	verify = json_object_get(plan, "verify");
	if (verify != NULL && !verify_upload(verify, &error))
		done = respond_error(connection, &error);
	else
		done = respond_answer(connection, result, plan);
	json_decref(plan);
	PQclear(result);
	return done;
}

/* Begins a PUT: the database decides what to do with its body. */
static enum MHD_Result
begin_put(struct MHD_Connection *connection, const char *method,
		  HttpRequest *request)
{
	DbError		error;
	PGresult   *result = ask(connection, method, request, &error);
	json_t	   *receive;
	enum MHD_Result done = MHD_YES;

	if (result == NULL)
		return respond_error(connection, &error);
	request->plan = json_column(result, 3);
	request->headers = json_column(result, 1);
	request->status = atoi(PQgetvalue(result, 0, 0));
	receive = json_object_get(request->plan, "receive");
	request->collects = json_is_true(json_object_get(request->plan, "collect"));
	if (request->collects)
		done = MHD_YES;
	else if (receive == NULL)
		done = respond_answer(connection, result, request->plan);
	else
	{
		request->receive = receive_begin(receive, &error);
		if (request->receive == NULL)
			done = respond_error(connection, &error);
	}
	PQclear(result);
	return done;
}

/* Handles a part that is stored, which may complete the upload. */
static bool
complete(json_t * plan, const unsigned char *digest, DbError *error)
{
	if (json_is_true(json_object_get(plan, "whole")))
		return finish_upload(plan, digest, error);
	if (json_is_true(json_object_get(plan, "verify")))
		return verify_stored(plan, error);
	return true;
}

/* Completes a PUT or PATCH whose body has arrived. */
static enum MHD_Result
end_put(struct MHD_Connection *connection, HttpRequest *request)
{
	json_t	   *plan = json_object_get(request->plan, "receive");
	unsigned char digest[DIGEST_SIZE];
	char		etag[2 * DIGEST_SIZE + 3];
	char		offset[32];
	char		range[32];
	int64_t		missing = receive_missing(request->receive);
	DbError		error = request->error;
	bool		is_last = missing == 0 || json_is_true(json_object_get(plan, "last"));
	bool		finishes = is_last &&
		(json_is_true(json_object_get(plan, "whole")) ||
		 json_is_true(json_object_get(plan, "verify")));
	bool		good = !request->refused &&
		receive_end(request->receive, finishes, (char *) digest, &error);
	struct MHD_Response *response;

	sprintf(offset, "%" PRId64, receive_end_byte(request->receive));
	sprintf(range, "0-%" PRId64, receive_end_byte(request->receive) - 1);
	receive_free(request->receive);
	request->receive = NULL;
	if (good && is_last)
		good = complete(plan, digest, &error);
	if (!good)
		return respond_error(connection, &error);
	response = MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
	etag[0] = '"';
	for (int i = 0; i < DIGEST_SIZE; i++)
		sprintf(etag + 1 + 2 * i, "%02x", digest[i]);
	strcat(etag, "\"");
	MHD_add_response_header(response, "ETag", etag);
	MHD_add_response_header(response, "Upload-Offset", offset);
	if (json_is_true(json_object_get(plan, "range")))
		MHD_add_response_header(response, "Range", range);
	return respond(connection, request->status, request->headers, response);
}

/*
 * Changes the number of bytes that all requests together have collected.
 * Returns false if it would exceed the limit.
 */
static bool
charge_collected(ssize_t change)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static size_t collected = 0;
	bool		fits;

	pthread_mutex_lock(&lock);
	fits = change <= 0 || collected + change <= COLLECTED_MAX;
	if (fits)
		collected += change;
	pthread_mutex_unlock(&lock);
	return fits;
}

/*
 * Collects a body that is passed with its request. Beyond its limit, or that
 * of all requests together, bytes are only counted.
 */
static bool
collect(HttpRequest *request, const char *data, size_t size)
{
	char	   *more;

	if (request->too_large || request->body_size + size > BODY_MAX ||
		!charge_collected(size))
	{
		request->too_large = true;
		return true;
	}
	more = realloc(request->body, request->body_size + size);
	if (more == NULL)
	{
		charge_collected(-(ssize_t) size);
		return false;
	}
	memcpy(more + request->body_size, data, size);
	request->body = more;
	request->body_size += size;
	return true;
}

/*
 * Answers a request with an error without reading its body. The connection
 * ends after the answer.
 */
static enum MHD_Result
refuse_headers(struct MHD_Connection *connection, int status, const char *message)
{
	json_t	   *body = json_pack("{s:s}", "error", message);
	char	   *text = json_dumps(body, JSON_COMPACT);
	struct MHD_Response *response = text == NULL ? NULL :
		MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);

	json_decref(body);
	if (response != NULL)
	{
		MHD_add_response_header(response, "Content-Type", "application/json");
		MHD_add_response_header(response, "Connection", "close");
	}
	return respond(connection, status, NULL, response);
}

/*
 * Whether the sender may have a long body collected, which requires a valid
 * token.
 */
static bool
may_send_long(struct MHD_Connection *connection, DbError *error)
{
	const char *values[] = {
		MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization")
	};
	PGresult   *result = db_call(error, "SELECT gpucredit_registry.knows_token($1::text)",
								 1, values, NULL, NULL);
	bool		may = result != NULL && strcmp(PQgetvalue(result, 0, 0), "t") == 0;

	PQclear(result);
	return may;
}

/* Handles the headers of a request whose body is collected. */
static enum MHD_Result
begin_collecting(struct MHD_Connection *connection, int64_t size)
{
	DbError		error = {.sqlstate = ""};

	if (size >= 0 && size <= SHORT_BODY)
		return MHD_YES;
	if (!may_send_long(connection, &error))
		return error.sqlstate[0] != '\0' ? respond_error(connection, &error) :
			refuse_headers(connection, 401, "a body of more than 256 KiB needs a good token");
	return MHD_YES;
}

/* Handles the headers of a request. */
static enum MHD_Result
begin_body(struct MHD_Connection *connection, const char *method, HttpRequest *request)
{
	int64_t		size;

	if (!framing_is_certain(connection, &size))
		return refuse_headers(connection, 400, "it is not certain where the request ends");
	return is_upload(method) ? begin_put(connection, method, request) :
		begin_collecting(connection, size);
}

/*
 * Called by the library when headers have arrived, for each piece of the body,
 * and at the body's end.
 */
static enum MHD_Result
handle(void *cls, struct MHD_Connection *connection, const char *url,
	   const char *method, const char *version, const char *data, size_t *size,
	   void **con_cls)
{
	HttpRequest *request = *con_cls;
	bool		put = is_upload(method);

	(void) cls;
	(void) url;
	(void) version;
	if (request == NULL)
		return MHD_NO;			/* begin_request() ran out of memory */
	if (!request->begun)
	{
		request->begun = true;
		ClientEnter(connection, CLIENT_UPLOADS);
		return begin_body(connection, method, request);
	}
	if (*size > 0)
	{
		ClientSent(connection, *size);
		health_count_received(*size);
		if (put && !request->collects)
			request->refused = request->refused || request->receive == NULL ||
				!receive_data(request->receive, data, *size, &request->error);
		else if (!collect(request, data, *size))
			return MHD_NO;
		*size = 0;
		return MHD_YES;
	}
	ClientEnter(connection, CLIENT_WAITS);
	if (request->too_large)
	{
		struct MHD_Response *response =
		MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);

		return respond(connection, 413, NULL, response);
	}
	return put && request->receive != NULL ? end_put(connection, request) :
		answer(connection, method, request);
}

/*
 * Called with the first line of a request. Stores the target as received,
 * because signatures cover the encoded path, which libmicrohttpd decodes
 * afterwards.
 */
static void *
begin_request(void *cls, const char *uri, struct MHD_Connection *connection)
{
	HttpRequest *request = calloc(1, sizeof(HttpRequest));

	(void) cls;
	(void) connection;
	if (request != NULL)
		request->target = strdup(uri);
	if (request != NULL && request->target == NULL)
	{
		free(request);
		request = NULL;
	}
	return request;
}

/*
 * Frees a request, however it ended. The headers of the connection's next one
 * may come.
 */
static void
free_request(void *cls, struct MHD_Connection *connection, void **con_cls,
			 enum MHD_RequestTerminationCode code)
{
	HttpRequest *request = *con_cls;

	(void) cls;
	(void) code;
	ClientEnter(connection, CLIENT_SENDS);
	if (request == NULL)
		return;
	receive_free(request->receive);
	json_decref(request->plan);
	json_decref(request->headers);
	charge_collected(-(ssize_t) request->body_size);
	free(request->body);
	free(request->target);
	free(request);
	*con_cls = NULL;
}

struct MHD_Daemon *
serve(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons(options.port)
	};

	if (inet_pton(AF_INET, options.address, &address.sin_addr) != 1)
	{
		LogLine("\"%s\" is no address", options.address);
		return NULL;
	}
	return MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD |
							MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL | TlsFlags(),
							0, NULL, NULL, handle, NULL,
							MHD_OPTION_ARRAY, TlsOptions(),
							MHD_OPTION_SOCK_ADDR, (struct sockaddr *) &address,
							MHD_OPTION_URI_LOG_CALLBACK, begin_request, NULL,
							MHD_OPTION_NOTIFY_COMPLETED, free_request, NULL,
							MHD_OPTION_NOTIFY_CONNECTION, ClientNotify, NULL,
							MHD_OPTION_CONNECTION_TIMEOUT,
							(unsigned int) options.idle,
							MHD_OPTION_CONNECTION_MEMORY_LIMIT,
							(size_t) (256 * 1024),
							MHD_OPTION_CONNECTION_LIMIT, (unsigned int) 1024,
							MHD_OPTION_PER_IP_CONNECTION_LIMIT,
							(unsigned int) options.per_address,
							MHD_OPTION_THREAD_STACK_SIZE, (size_t) (256 * 1024),
							MHD_OPTION_END);
}
