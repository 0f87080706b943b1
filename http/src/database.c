/*-------------------------------------------------------------------------
 *
 * database.c
 *		Has the database answer a request.
 *
 * A request is one transaction of two statements, sent at once: the first
 * makes the session act as the token's role until the transaction ends, the
 * second computes the answer with that role's rights. The transaction is the
 * implicit one of a pipeline, so an error rolls back all of it, and the role
 * ends with it.
 *
 * A request that failed because of another transaction is repeated. A request
 * whose connection broke is not, because it may have taken effect; the client
 * repeats it with the same idempotency key.
 *-------------------------------------------------------------------------
 */
#include "database.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call_repeat.h"
#include "etag.h"
#include "log.h"
#include "options.h"
#include "problem.h"
#include "signin.h"
#include "stream.h"

#define TRIES	5

static const char *const enter_sql =
"SELECT gpucredit_http.enter($1::pg_catalog.text, $2::pg_catalog.text,"
" $3::pg_catalog.text, $4::pg_catalog.text)";

static const char *const enter_identity_sql =
"SELECT gpucredit_http.enter_identity($1::pg_catalog.text, $2::pg_catalog.text,"
" $3::pg_catalog.text)";

static const char *const sign_in_sql =
"SELECT s.cookie, s.max_age FROM gpucredit_http.sign_in($1::pg_catalog.int8,"
" $2::pg_catalog.jsonb, $3::pg_catalog.text, $4::pg_catalog.text) s";

static const char *const session_sql =
"SELECT s.status, s.type, s.content, s.allow, s.cookie, s.max_age"
" FROM gpucredit_http.session_answer($1::pg_catalog.text, $2::pg_catalog.text,"
" $3::pg_catalog.text, $4::pg_catalog.text, $5::pg_catalog.jsonb) s";

static const char *const answer_sql =
"SELECT a.status, a.type, a.content, a.allow FROM gpucredit_http.answer("
"$1::pg_catalog.text,"
" ARRAY(SELECT pg_catalog.jsonb_array_elements_text($2::pg_catalog.jsonb)),"
" $3::pg_catalog.jsonb, $4::pg_catalog.text, $5::pg_catalog.text) a";

static const char *const stream_sql =
"SELECT s::pg_catalog.text, true FROM gpucredit_http.open_stream("
"$1::pg_catalog.jsonb, NULLIF($2::pg_catalog.text, '')) s";

static const char *const page_sql =
"SELECT * FROM gpucredit_http.stream_page($1::pg_catalog.int8, $2::pg_catalog.text,"
" $3::pg_catalog.text, $4::pg_catalog.text[], $5::pg_catalog.int8)";

/*
 * The second statement of a request's transaction, which mostly runs with the
 * rights of its token's role.
 */
typedef struct Work
{
	const char *statement;
	int			n;
	const char *values[5];
	bool		is_alone;		/* the statement itself checks the token, so
								 * there is no first statement */
}			Work;

/* Sets what every session of the daemon needs. */
static bool
set_session(PGconn * connection)
{
	char		settings[512];
	PGresult   *result;
	bool		good;

	snprintf(settings, sizeof(settings),
			 "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'iso_8601';"
			 "SET client_encoding = 'UTF8'; SET client_min_messages = 'error';"
			 "SET search_path = pg_catalog, pg_temp; SET statement_timeout = '%ds';"
			 "SET idle_in_transaction_session_timeout = '%ds'; SET lock_timeout = '%ds'",
			 options.statement_s, options.statement_s, options.statement_s);
	result = PQexec(connection, settings);
	good = PQresultStatus(result) == PGRES_COMMAND_OK;
	PQclear(result);
	return good;
}

static bool
prepare(PGconn * connection, const char *name, const char *statement)
{
	PGresult   *result = PQprepare(connection, name, statement, 0, NULL);
	bool		good = PQresultStatus(result) == PGRES_COMMAND_OK;

	PQclear(result);
	return good;
}

/*
 * Prepares a session that answers requests. Returns false if a statement
 * failed.
 */
static bool
prepare_session(PGconn * connection)
{
	return set_session(connection) && prepare(connection, "enter", enter_sql) &&
		prepare(connection, "answer", answer_sql) &&
		prepare(connection, "session", session_sql) &&
		prepare(connection, "enter_identity", enter_identity_sql) &&
		prepare(connection, "sign_in", sign_in_sql) &&
		prepare(connection, "stream", stream_sql) &&
		prepare(connection, "page", page_sql) &&
		PQenterPipelineMode(connection) == 1;
}

/*
 * Opens a connection to the database. The caller checks its state. The
 * operator's connection string takes precedence over the limits set here.
 */
static PGconn *
connect_to_database(void)
{
	static const char *const words[] = {
		"fallback_application_name", "connect_timeout", "keepalives_idle",
		"keepalives_interval", "keepalives_count", "tcp_user_timeout", "dbname",
		NULL
	};
	const char *values[] = {
		"gpucreditd", "10", "10", "5", "4", "30000", options.database, NULL
	};

	return PQconnectdbParams(words, values, 1);
}

PGconn *
database_connect(void)
{
	PGconn	   *connection = connect_to_database();

	if (PQstatus(connection) == CONNECTION_OK && set_session(connection))
		return connection;
	LogLine("no connection to the database: %s", PQerrorMessage(connection));
	PQfinish(connection);
	return NULL;
}

bool
database_keep_connected(PGconn * *connection)
{
	PGresult   *result;
	bool		good;

	if (*connection != NULL && PQstatus(*connection) == CONNECTION_OK)
		return true;
	PQfinish(*connection);
	*connection = database_connect();
	if (*connection == NULL)
		return false;
	result = PQexec(*connection, "SET default_transaction_isolation = 'read committed'");
	good = PQresultStatus(result) == PGRES_COMMAND_OK;
	PQclear(result);
	if (!good)
	{
		PQfinish(*connection);
		*connection = NULL;
	}
	return good;
}

PGresult *
database_rows(PGconn * connection, const char *thread, const char *statement, int n,
			  const char *const *values)
{
	PGresult   *result = PQexecParams(connection, statement, n, NULL, values, NULL, NULL, 0);

	if (PQresultStatus(result) == PGRES_TUPLES_OK)
		return result;
	LogLine("%s: %s", thread, PQresultErrorMessage(result));
	PQclear(result);
	return NULL;
}

/*
 * Connects unless there is a connection that seems to work. Returns false if
 * there is none.
 */
static bool
connect_if_needed(PGconn * *connection)
{
	/*
	 * A server that has stopped has closed the connection. The first call
	 * reads the server's last message, the second one the end of the stream.
	 */
	if (*connection != NULL && PQconsumeInput(*connection) == 1 &&
		PQconsumeInput(*connection) == 1 && PQstatus(*connection) == CONNECTION_OK)
		return true;
	PQfinish(*connection);
	*connection = connect_to_database();
	if (PQstatus(*connection) == CONNECTION_OK && prepare_session(*connection))
		return true;
	LogLine("no connection to the database: %s", PQerrorMessage(*connection));
	PQfinish(*connection);
	*connection = NULL;
	return false;
}

static void
answer_unreachable(WebRequest * request)
{
	problem_answer(request, 503, "the database does not answer",
				   "The request may have taken effect, or not.",
				   "Repeat it with the same Idempotency-Key.");
}

/*
 * Reads the results of a pipeline up to its end. Stores the role that the
 * request acts as, the answer's row, and the first error. Returns false if the
 * connection broke.
 */
static bool
read_pipeline(PGconn * connection, WebRequest * request, PGresult * *rows, PGresult * *error)
{
	int			nothing = 0;

	*rows = *error = NULL;
	while (nothing < 2)
	{
		PGresult   *result = PQgetResult(connection);
		ExecStatusType status = PQresultStatus(result);

		nothing = result == NULL ? nothing + 1 : 0;
		if (status == PGRES_PIPELINE_SYNC)
		{
			PQclear(result);
			return true;
		}
		if (status == PGRES_TUPLES_OK && PQnfields(result) == 1)
		{
			if (request->role == NULL)
				request->role = strdup(PQgetvalue(result, 0, 0));
			PQclear(result);
		}
		else if (status == PGRES_TUPLES_OK)
		{
			PQclear(*rows);
			*rows = result;
		}
		else if (status == PGRES_FATAL_ERROR && *error == NULL)
			*error = result;
		else
			PQclear(result);
		if (PQstatus(connection) != CONNECTION_OK)
			return false;
	}
	return false;
}

/*
 * Runs a request's transaction. Without "work", it only checks the token.
 * Returns false if the connection broke.
 */
static bool
run_transaction(PGconn * connection, WebRequest * request, const Work * work,
				PGresult * *rows, PGresult * *error)
{
	const char *traceparent = request->traceparent != NULL ? request->traceparent : "";
	const char *who[] = {request->token, traceparent, request->csrf, request->method};
	char		provider[24];
	const char *whose[] = {provider, request->claims, traceparent};
	bool		is_identity = request->claims != NULL;

	snprintf(provider, sizeof(provider), "%lld", request->provider);
	return ((work != NULL && work->is_alone) ||
			PQsendQueryPrepared(connection, is_identity ? "enter_identity" : "enter",
								is_identity ? 3 : 4, is_identity ? whose : who,
								NULL, NULL, 0) == 1) &&
		(work == NULL || PQsendQueryPrepared(connection, work->statement, work->n, work->values,
											 NULL, NULL, 0) == 1) &&
		PQpipelineSync(connection) == 1 &&
		read_pipeline(connection, request, rows, error);
}

/*
 * Answers with a copy of the content. The answer to a GET has an entity tag,
 * or is 304 if the client has that tag.
 */
static void
answer_content(WebRequest * request, int status, const char *type, const char *content,
			   size_t size)
{
	const char *known = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND,
													"If-None-Match");
	char		etag[ETAG_SIZE] = "";

	if (strcmp(request->method, "GET") == 0 && status == 200)
		etag_make(etag, content, size);
	if (etag[0] != '\0' && known != NULL && strstr(known, etag) != NULL)
	{
		status = 304;
		size = 0;
	}
	request->status = status;
	request->response = MHD_create_response_from_buffer(size, (void *) content,
														MHD_RESPMEM_MUST_COPY);
	MHD_add_response_header(request->response, "Content-Type", type);
	MHD_add_response_header(request->response, "Cache-Control", "no-store");
	if (etag[0] != '\0')
		MHD_add_response_header(request->response, "ETag", etag);
}

/* Adds the cookie of a session that has begun or ended, if the row has one. */
static void
add_cookie(WebRequest * request, const PGresult * row)
{
	char		cookie[512];

	if (PQnfields(row) < 6 || PQgetisnull(row, 0, 4))
		return;
	snprintf(cookie, sizeof(cookie), "%s=%.128s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%d%s",
			 request_cookie(request), PQgetvalue(row, 0, 4), atoi(PQgetvalue(row, 0, 5)),
			 request->is_secure ? "; Secure" : "");
	MHD_add_response_header(request->response, "Set-Cookie", cookie);
}

/*
 * Answers with the database's row: status, type, content, allowed methods, and
 * possibly a cookie.
 */
static void
answer_with_row(WebRequest * request, const PGresult * row)
{
	int			status = atoi(PQgetvalue(row, 0, 0));
	const char *content = PQgetvalue(row, 0, 2);

	if (status == 404)
		problem_answer(request, 404, "there is no such address", NULL,
					   "GET /v1/openapi.json lists the addresses.");
	else if (status == 405)
	{
		problem_answer(request, 405, "this address has other methods", PQgetvalue(row, 0, 3), NULL);
		MHD_add_response_header(request->response, "Allow", PQgetvalue(row, 0, 3));
	}
	else if (status >= 400)
		problem_denied(request, status, content);
	else
		answer_content(request, status, PQgetvalue(row, 0, 1), content,
					   (size_t) PQgetlength(row, 0, 2));
	add_cookie(request, row);
}

/*
 * Runs a request's transaction, and repeats it after conflicts with other
 * transactions.
 */
static bool
run_repeated(PGconn * *connection, WebRequest * request, const Work * work, PGresult * *rows,
			 PGresult * *error)
{
	for (int i = 0; i < TRIES; i++)
	{
		if (!connect_if_needed(connection))
			return false;
		if (!run_transaction(*connection, request, work, rows, error))
		{
			PQclear(*rows);
			PQclear(*error);
			*rows = *error = NULL;
			PQfinish(*connection);
			*connection = NULL;
			return false;
		}
		if (*error == NULL || CallMayRepeat(*error) != REPEAT_AT_ONCE || i == TRIES - 1)
			return true;
		PQclear(*rows);
		PQclear(*error);
		*rows = *error = NULL;
	}
	return false;
}

void
database_answer(PGconn * *connection, WebRequest * request)
{
	PGresult   *rows = NULL;
	PGresult   *error = NULL;
	char		provider[24];
	Work		work = {"answer", 5, {
			request->method, request->path, request->query, request->key, request->body
	}, false};

	if (request->is_stream)
		work = (Work)
	{
		"stream", 2,
		{
			request->query, request->last_event
		}, false
	};
	if (request->is_session)
		work = (Work)
	{
		"session", 5,
		{
			request->method, request->token, request->csrf,
				MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "User-Agent"),
				request->query
		}, true
	};
	snprintf(provider, sizeof(provider), "%lld", request->provider);
	if (request->sign_in.step != SIGN_IN_NONE)
		work = (Work)
	{
		"sign_in", 4,
		{
			provider, request->claims, request->sign_in.nonce,
				MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "User-Agent")
		}, true
	};
	if (!run_repeated(connection, request, &work, &rows, &error))
	{
		answer_unreachable(request);
		return;
	}
	if (request->sign_in.step != SIGN_IN_NONE)
		signin_finish(request, rows, error);
	else if (error != NULL)
		problem_from_database(request, error);
	else if (rows != NULL && PQntuples(rows) == 1 && request->is_stream)
		stream_open(request, PQgetvalue(rows, 0, 0));
	else if (rows != NULL && PQntuples(rows) == 1)
		answer_with_row(request, rows);
	else
		problem_answer(request, 500, "internal error", NULL, NULL);
	PQclear(rows);
	PQclear(error);
}

bool
database_check_token(PGconn * *connection, WebRequest * request)
{
	PGresult   *rows = NULL;
	PGresult   *error = NULL;

	if (!run_repeated(connection, request, NULL, &rows, &error))
	{
		answer_unreachable(request);
		return false;
	}
	if (error != NULL)
		problem_from_database(request, error);
	PQclear(rows);
	PQclear(error);
	return request->response == NULL;
}

bool
database_stream_page(PGconn * *connection, const StreamPage * page, PGresult * *rows,
					 PGresult * *error)
{
	WebRequest	request = {.token = page->token, .csrf = page->csrf, .method = "GET"};
	Work		work = {"page", 5, {
			page->after, page->org, page->account, page->kinds, page->job
	}, false};
	bool		reached = run_repeated(connection, &request, &work, rows, error);

	free(request.role);
	return reached;
}

bool
database_ready(PGconn * *connection)
{
	return connect_if_needed(connection);
}
