/*-------------------------------------------------------------------------
 *
 * health.c
 *		Answers /healthz, /readyz and /metrics, which need no token and tell
 *		nothing of any organisation, and counts what /metrics says.
 *-------------------------------------------------------------------------
 */
#include "health.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db.h"
#include "http_client.h"

static atomic_ullong answered[6];	/* by the first digit of the status */
static atomic_ullong received;
static atomic_ullong sent;

void
health_count_answer(int status)
{
	int			class = status / 100;

	atomic_fetch_add(&answered[class >= 1 && class <= 5 ? class : 0], 1);
}

/* Counts bytes of a request's body. */
void
health_count_received(size_t bytes)
{
	atomic_fetch_add(&received, bytes);
}

/* Counts bytes from the store that an answer has. */
void
health_count_sent(size_t bytes)
{
	atomic_fetch_add(&sent, bytes);
}

/* Formats the counters for Prometheus. Returns NULL if memory runs out. */
static char *
metrics_text(void)
{
	char	   *text = NULL;
	size_t		size = 0;
	FILE	   *out = open_memstream(&text, &size);

	if (out == NULL)
		return NULL;
	fputs("# HELP registryd_requests_total Requests answered, by the status' class.\n"
		  "# TYPE registryd_requests_total counter\n", out);
	for (int i = 2; i <= 5; i++)
		fprintf(out, "registryd_requests_total{status=\"%dxx\"} %llu\n", i,
				(unsigned long long) atomic_load(&answered[i]));
	fprintf(out, "# HELP registryd_received_bytes_total Bytes of requests' bodies.\n"
			"# TYPE registryd_received_bytes_total counter\n"
			"registryd_received_bytes_total %llu\n",
			(unsigned long long) atomic_load(&received));
	fprintf(out, "# HELP registryd_sent_bytes_total Bytes of files that answers had.\n"
			"# TYPE registryd_sent_bytes_total counter\n"
			"registryd_sent_bytes_total %llu\n",
			(unsigned long long) atomic_load(&sent));
	fprintf(out, "# HELP registryd_connections Clients' connections.\n"
			"# TYPE registryd_connections gauge\n"
			"registryd_connections %d\n", ClientsOpen());
	if (fclose(out) != 0)
	{
		free(text);
		return NULL;
	}
	return text;
}

/* Whether the database answers now. */
static bool
database_answers(void)
{
	DbError		error;
	PGresult   *result = db_call(&error, "SELECT 1", 0, NULL, NULL, NULL);
	bool		answers = result != NULL;

	PQclear(result);
	return answers;
}

/*
 * Returns an answer with a text, which it frees. Returns NULL if memory runs
 * out.
 */
static struct MHD_Response *
text_response(char *text, const char *type)
{
	struct MHD_Response *response;

	if (text == NULL)
		return NULL;
	response = MHD_create_response_from_buffer(strlen(text), text,
											   MHD_RESPMEM_MUST_FREE);
	if (response == NULL)
	{
		free(text);
		return NULL;
	}
	MHD_add_response_header(response, "Content-Type", type);
	MHD_add_response_header(response, "Cache-Control", "no-store");
	return response;
}

/*
 * Returns the answer to a request of those who watch the daemon, and its
 * status. For all other requests the status is 0; NULL with another status
 * means that memory ran out.
 */
struct MHD_Response *
health_response(const char *method, const char *target, int *status)
{
	size_t		length = strcspn(target, "?");
	bool		ready;

	*status = 0;
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return NULL;
	if (length == strlen("/healthz") && strncmp(target, "/healthz", length) == 0)
	{
		*status = 200;
		return text_response(strdup("ok\n"), "text/plain");
	}
	if (length == strlen("/readyz") && strncmp(target, "/readyz", length) == 0)
	{
		ready = database_answers();
		*status = ready ? 200 : 503;
		return text_response(strdup(ready ? "ok\n" : "the database does not answer\n"), "text/plain");
	}
	if (length == strlen("/metrics") && strncmp(target, "/metrics", length) == 0)
	{
		*status = 200;
		return text_response(metrics_text(), "text/plain; version=0.0.4");
	}
	return NULL;
}
