/*-------------------------------------------------------------------------
 *
 * counters.c
 *		Counts requests, and formats the counters for Prometheus.
 *-------------------------------------------------------------------------
 */
#include "counters.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "http_client.h"
#include "http_tls.h"
#include "queue.h"
#include "span.h"
#include "stream.h"
#include "webhook.h"
#include "worker.h"

static const int bounds_ms[] = {1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000};

#define NBOUNDS	(sizeof(bounds_ms) / sizeof(bounds_ms[0]))

static atomic_ullong answered[6];	/* by the first digit of the status */
static atomic_ullong within[NBOUNDS + 1];	/* by the time that the answer
											 * took */
static atomic_ullong total_us;

void
count_answer(const WebRequest * request)
{
	int64_t		us = now_us() - request->started_us;
	int			class = request->status / 100;
	size_t		i = 0;

	atomic_fetch_add(&answered[class >= 1 && class <= 5 ? class : 0], 1);
	while (i < NBOUNDS && us > (int64_t) bounds_ms[i] * 1000)
		i++;
	atomic_fetch_add(&within[i], 1);
	atomic_fetch_add(&total_us, (unsigned long long) us);
}

char *
counters_text(void)
{
	char	   *text = NULL;
	size_t		size = 0;
	FILE	   *out = open_memstream(&text, &size);
	unsigned long long sum = 0;

	if (out == NULL)
		return NULL;
	fputs("# HELP gpucreditd_requests_total Requests answered, by the status' class.\n"
		  "# TYPE gpucreditd_requests_total counter\n", out);
	for (int i = 2; i <= 5; i++)
		fprintf(out, "gpucreditd_requests_total{status=\"%dxx\"} %llu\n", i,
				(unsigned long long) atomic_load(&answered[i]));
	fputs("# HELP gpucreditd_request_seconds Time from a request's headers to its answer.\n"
		  "# TYPE gpucreditd_request_seconds histogram\n", out);
	for (size_t i = 0; i < NBOUNDS; i++)
	{
		sum += atomic_load(&within[i]);
		fprintf(out, "gpucreditd_request_seconds_bucket{le=\"%g\"} %llu\n", bounds_ms[i] / 1000.0, sum);
	}
	sum += atomic_load(&within[NBOUNDS]);
	fprintf(out, "gpucreditd_request_seconds_bucket{le=\"+Inf\"} %llu\n"
			"gpucreditd_request_seconds_count %llu\n"
			"gpucreditd_request_seconds_sum %.6f\n", sum, sum,
			(double) atomic_load(&total_us) / 1e6);
	fprintf(out, "# HELP gpucreditd_waiting_requests Requests that wait for a worker.\n"
			"# TYPE gpucreditd_waiting_requests gauge\n"
			"gpucreditd_waiting_requests %d\n", queue_length());
	fprintf(out, "# HELP gpucreditd_connections Clients' connections.\n"
			"# TYPE gpucreditd_connections gauge\n"
			"gpucreditd_connections %d\n", ClientsOpen());
	if (TlsIsOn())
		fprintf(out, "# HELP gpucreditd_certificate_expires_seconds When the daemon's certificate expires, since 1970.\n"
				"# TYPE gpucreditd_certificate_expires_seconds gauge\n"
				"gpucreditd_certificate_expires_seconds %lld\n", TlsExpiresAt());
	fprintf(out, "# HELP gpucreditd_streams Clients that get events as they happen.\n"
			"# TYPE gpucreditd_streams gauge\n"
			"gpucreditd_streams %d\n", streams_count());
	fprintf(out, "# HELP gpucreditd_webhook_attempts_total Attempts to deliver an event to a webhook.\n"
			"# TYPE gpucreditd_webhook_attempts_total counter\n"
			"gpucreditd_webhook_attempts_total{result=\"succeeded\"} %llu\n"
			"gpucreditd_webhook_attempts_total{result=\"failed\"} %llu\n",
			webhooks_attempts(true), webhooks_attempts(false));
	fprintf(out, "# HELP gpucreditd_webhooks_underway Attempts that have begun and not ended.\n"
			"# TYPE gpucreditd_webhooks_underway gauge\n"
			"gpucreditd_webhooks_underway %d\n", webhooks_underway());
	fprintf(out, "# HELP gpucreditd_spans_total Spans of jobs that the collector has answered.\n"
			"# TYPE gpucreditd_spans_total counter\n"
			"gpucreditd_spans_total{result=\"accepted\"} %llu\n"
			"gpucreditd_spans_total{result=\"refused\"} %llu\n"
			"# HELP gpucreditd_span_failures_total Requests to the collector that failed and are repeated.\n"
			"# TYPE gpucreditd_span_failures_total counter\n"
			"gpucreditd_span_failures_total %llu\n",
			spans_sent(true), spans_sent(false), spans_failures());
	fprintf(out, "# HELP gpucreditd_database_up Whether the last request reached the database.\n"
			"# TYPE gpucreditd_database_up gauge\n"
			"gpucreditd_database_up %d\n", workers_ready());
	fclose(out);
	return text;
}
