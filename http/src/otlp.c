/*-------------------------------------------------------------------------
 *
 * otlp.c
 *		Writes spans in the JSON form of the OpenTelemetry protocol.
 *
 * The protocol's JSON differs from that of protocol buffers in one point: the
 * identifiers of traces and spans are hexadecimal. Numbers of 64 bits are
 * texts, as JSON's readers have fewer.
 *-------------------------------------------------------------------------
 */
#include "otlp.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The columns of claim_spans(). */
enum
{
	TRACE = 1,
	SPAN,
	PARENT,
	NAME,
	BEGINS,
	ENDS,
	PROBLEM,
	ATTRIBUTES
};

/* The protocol's numbers. */
#define KIND_INTERNAL	1
#define KIND_CLIENT		3
#define STATUS_ERROR	2

/* Returns an attribute, whose value is a text, a whole number or a boolean. */
static json_t *
attribute(const char *key, json_t * value)
{
	json_t	   *number = NULL;
	json_t	   *typed;

	if (json_is_integer(value))
	{
		number = json_sprintf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
		typed = json_pack("{s:o}", "intValue", number);
	}
	else
		typed = json_pack("{s:O}", json_is_boolean(value) ? "boolValue" : "stringValue", value);
	return json_pack("{s:s, s:o}", "key", key, "value", typed);
}

/* Returns the list of attributes that an object in JSON has. */
static json_t *
attributes_of(const char *text)
{
	json_t	   *list = json_array();
	json_t	   *object = json_loads(text, 0, NULL);
	const char *key;
	json_t	   *value;

	json_object_foreach(object, key, value)
		json_array_append_new(list, attribute(key, value));
	json_decref(object);
	return list;
}

/* Returns the span of a row. */
static json_t *
span_of(const PGresult * rows, int i)
{
	bool		is_call = strcmp(PQgetvalue(rows, i, NAME), "webhook") == 0;
	json_t	   *span = json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:o}",
								 "traceId", PQgetvalue(rows, i, TRACE),
								 "spanId", PQgetvalue(rows, i, SPAN),
								 "parentSpanId", PQgetvalue(rows, i, PARENT),
								 "name", PQgetvalue(rows, i, NAME),
								 "kind", is_call ? KIND_CLIENT : KIND_INTERNAL,
								 "startTimeUnixNano", PQgetvalue(rows, i, BEGINS),
								 "endTimeUnixNano", PQgetvalue(rows, i, ENDS),
								 "attributes", attributes_of(PQgetvalue(rows, i, ATTRIBUTES)));

	if (!PQgetisnull(rows, i, PROBLEM))
		json_object_set_new(span, "status",
							json_pack("{s:i, s:s}", "code", STATUS_ERROR,
									  "message", PQgetvalue(rows, i, PROBLEM)));
	return span;
}

char *
otlp_body(const PGresult * rows)
{
	json_t	   *spans = json_array();
	json_t	   *body;
	char	   *text;

	for (int i = 0; i < PQntuples(rows); i++)
		json_array_append_new(spans, span_of(rows, i));
	body = json_pack("{s:[{s:{s:[{s:s, s:{s:s}}]}, s:[{s:{s:s}, s:o}]}]}",
					 "resourceSpans",
					 "resource", "attributes",
					 "key", "service.name", "value", "stringValue", "gpucredit",
					 "scopeSpans", "scope", "name", "gpucredit", "spans", spans);
	text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
	json_decref(body);
	return text;
}
