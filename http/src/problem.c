/*-------------------------------------------------------------------------
 *
 * problem.c
 *		Answers errors as problem documents (RFC 9457).
 *
 * An error that the database raises for the caller is sent to the client with
 * its message, detail and hint. A fault of the server is logged, and the
 * client only receives the fact that there was one.
 *-------------------------------------------------------------------------
 */
#include "problem.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "options.h"

/*
 * Returns the HTTP status of an SQLSTATE. The first row that is a prefix of it
 * applies.
 */
static int
status_of(const char *sqlstate)
{
	static const struct
	{
		const char *beginning;
		int			status;
	}			table[] = {
		{"28000", 401},			/* the token is not valid */
		{"42501", 403}, {"25006", 403}, /* missing rights, or a token that may
										 * only read */
		{"UC001", 404}, {"UC002", 404}, {"UC003", 404}, {"UC301", 404}, {"UC302", 404},
		{"UC401", 404}, {"UC501", 404}, {"UC601", 404}, {"UC701", 404},
		{"42883", 404}, {"42704", 404},
		{"UC303", 409}, {"UC901", 409}, {"23", 409}, {"25", 409}, {"55000", 409},
		{"UC202", 429},
		{"UC", 422}, {"22023", 422}, {"22003", 422}, {"0A", 422}, {"P0001", 422},
		{"22", 400}, {"54001", 400},	/* 54001 is raised for brackets nested
										 * too deeply */
		{"40", 503}, {"53", 503}, {"57", 503}, {"08", 503}, {"55P03", 503}
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (strncmp(sqlstate, table[i].beginning, strlen(table[i].beginning)) == 0)
			return table[i].status;
	return 500;
}

/*
 * Adds how long a client should wait: the time in a rate limit's hint, or a
 * second.
 */
static void
add_retry_after(struct MHD_Response *response, const char *hint)
{
	double		seconds = 1;
	char		text[32];

	if (hint == NULL || sscanf(hint, "Try again in %lf", &seconds) != 1 ||
		!(seconds >= 1 && seconds < 1e9))
		seconds = 1;
	snprintf(text, sizeof(text), "%ld", (long) ceil(seconds));
	MHD_add_response_header(response, "Retry-After", text);
}

/* Builds the answer from a problem document, and releases the document. */
static void
answer_with(WebRequest * request, int status, json_t * document)
{
	char	   *hint = json_string_value(json_object_get(document, "hint")) == NULL ? NULL :
		strdup(json_string_value(json_object_get(document, "hint")));
	char	   *text = json_dumps(document, JSON_COMPACT);

	json_decref(document);
	request->status = status;
	request->response = text == NULL ?
		MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT) :
		MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
	MHD_add_response_header(request->response, "Content-Type", "application/problem+json");
	if (status == 401)
		MHD_add_response_header(request->response, "WWW-Authenticate", "Bearer");
	if (status == 429 || status == 503)
		add_retry_after(request->response, hint);
	free(hint);
}

/* Returns a text as JSON, or null if it is NULL or not UTF-8. */
static json_t *
json_text(const char *text)
{
	json_t	   *value = text != NULL ? json_string(text) : NULL;

	return value != NULL ? value : json_null();
}

/* Builds a document. Members whose value is unknown are omitted. */
static json_t *
document_new(int status, const char *sqlstate, const char *title,
			 const char *detail, const char *hint)
{
	json_t	   *document = json_object();

	if (sqlstate == NULL)
		json_object_set_new(document, "type", json_string("about:blank"));
	else
		json_object_set_new(document, "type", json_sprintf("urn:gpucredit:error:%s", sqlstate));
	json_object_set_new(document, "title", json_text(title));
	json_object_set_new(document, "status", json_integer(status));
	if (detail != NULL)
		json_object_set_new(document, "detail", json_text(detail));
	if (hint != NULL)
		json_object_set_new(document, "hint", json_text(hint));
	if (sqlstate != NULL)
		json_object_set_new(document, "sqlstate", json_string(sqlstate));
	return document;
}

void
problem_answer(WebRequest * request, int status, const char *title, const char *detail,
			   const char *hint)
{
	answer_with(request, status, document_new(status, NULL, title, detail, hint));
}

void
problem_from_database(WebRequest * request, const PGresult * result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	int			status = status_of(sqlstate != NULL ? sqlstate : "08006");

	if (status == 500)
	{
		LogLine("%s %s: %s %s", request->method, request->target, sqlstate, message);
		problem_answer(request, status, "internal error",
					   "The server could not do this. Its log says why.",
					   "Repeat the request later, or show its time to an operator.");
		return;
	}
	answer_with(request, status, document_new(status, sqlstate != NULL ? sqlstate : "08006",
											  message != NULL ? message : "the database is not there",
											  PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL),
											  PQresultErrorField(result, PG_DIAG_MESSAGE_HINT)));
}

void
problem_denied(WebRequest * request, int status, const char *result)
{
	json_t	   *denied = json_loads(result, 0, NULL);
	const char *reason = json_string_value(json_object_get(denied, "reason"));
	json_t	   *document = document_new(status, NULL, "denied", reason,
										"GET /v1/balance and GET /v1/budgets show what is left.");

	json_object_set_new(document, "type", json_sprintf("urn:gpucredit:denied:%s",
													   reason != NULL ? reason : ""));
	json_object_set_new(document, "result", denied != NULL ? denied : json_null());
	answer_with(request, status, document);
}
