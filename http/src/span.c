/*-------------------------------------------------------------------------
 *
 * span.c
 *		The thread that sends spans of jobs to a collector of OpenTelemetry.
 *
 * The database decides which spans are next (64_span.sql). The thread leases
 * them, sends them as one request, and reports the result. Nothing else waits
 * for the collector: the thread has a connection to the database of its own,
 * no transaction is open while it sends, and what was not sent stays in the
 * database, so memory has one request at most.
 *
 * The operator names the collector, so any address is allowed, but a redirect
 * is not followed, and the time and size of an answer are limited. A collector
 * that cannot be reached, or that is busy (408, 429, 5xx), gets the same spans
 * again after a growing pause, which all daemons keep. Any other refusal is
 * final, as the protocol says: the spans are counted, and left out.
 *-------------------------------------------------------------------------
 */
#include "span.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "database.h"
#include "log.h"
#include "options.h"
#include "otlp.h"
#include "outgoing.h"
#include "request.h"

#define POLL_MS			1000
#define STOP_MS			100		/* how often a pause looks for the end */
#define CONNECT_MS		5000
#define ANSWER_MS		10000
#define ANSWER_MOST		(64 * 1024) /* most bytes of headers and body */
#define LEASE			"30 s"	/* longer than an attempt and its report */
#define PAUSE_LEAST_S	5
#define PAUSE_MOST_S	300

typedef struct SpanSender
{
	PGconn	   *connection;
	CURL	   *curl;
	size_t		received;		/* bytes of the answer so far */
	int			pause_s;		/* pause after the last failure; 0 after a
								 * success */
}			SpanSender;

static pthread_t thread;
static char *url = NULL;		/* where the collector receives traces */
static struct curl_slist *headers = NULL;
static bool started = false;
static atomic_bool stopping = false;
static atomic_ullong accepted = 0;
static atomic_ullong refused = 0;
static atomic_ullong failures = 0;

/* Runs a statement. Returns its rows, or NULL after an error. */
static PGresult *
run(SpanSender * self, const char *statement, int n, const char *const *values)
{
	return database_rows(self->connection, "spans", statement, n, values);
}

static curl_socket_t
open_socket(void *cls, curlsocktype purpose, struct curl_sockaddr *address)
{
	(void) cls;
	if (purpose != CURLSOCKTYPE_IPCXN)
		return CURL_SOCKET_BAD;
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/*
 * Counts bytes of the answer and discards them. Returning 0 ends the transfer.
 */
static size_t
drop_bytes(char *data, size_t size, size_t n, void *cls)
{
	SpanSender *self = cls;

	(void) data;
	self->received += size * n;
	return self->received > ANSWER_MOST ? 0 : size * n;
}

/* Breaks a transfer off when the daemon ends. */
static int
is_stopping(void *cls, curl_off_t download, curl_off_t downloaded, curl_off_t upload,
			curl_off_t uploaded)
{
	(void) cls;
	(void) download;
	(void) downloaded;
	(void) upload;
	(void) uploaded;
	return atomic_load(&stopping);
}

/* Sets libcurl's options for a request. */
static bool
set_options(SpanSender * self, const char *body)
{
	Outgoing	request = {
		.url = url, .open_socket = open_socket, .context = self,
		.connect_ms = CONNECT_MS, .timeout_ms = ANSWER_MS, .ca = options.otlp_ca
	};
	bool		good = outgoing_restrict(self->curl, &request);

#define SET(option, value) (good = curl_easy_setopt(self->curl, option, value) == CURLE_OK && good)
	SET(CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
	SET(CURLOPT_POST, 1L);
	SET(CURLOPT_POSTFIELDS, body);
	SET(CURLOPT_POSTFIELDSIZE, (long) strlen(body));
	SET(CURLOPT_HTTPHEADER, headers);
	SET(CURLOPT_WRITEFUNCTION, drop_bytes);
	SET(CURLOPT_WRITEDATA, self);
	SET(CURLOPT_HEADERFUNCTION, drop_bytes);
	SET(CURLOPT_HEADERDATA, self);
	SET(CURLOPT_XFERINFOFUNCTION, is_stopping);
	SET(CURLOPT_NOPROGRESS, 0L);
#undef SET
	return good;
}

/*
 * Sends a request. Returns the status of the answer, or 0 if there was none,
 * and how many seconds the collector asks to wait.
 */
static long
post_body(SpanSender * self, const char *body, curl_off_t * retry_after)
{
	long		status = 0;
	CURLcode	code = CURLE_FAILED_INIT;

	*retry_after = 0;
	self->received = 0;
	if (set_options(self, body))
		code = curl_easy_perform(self->curl);
	curl_easy_getinfo(self->curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(self->curl, CURLINFO_RETRY_AFTER, retry_after);
	if (status < 200)			/* "100 Continue" is not a final answer */
		status = 0;
	if (status >= 200 && status < 300)
		return status;
	if (self->pause_s == 0 && !atomic_load(&stopping))
		LogLine("spans: the collector answered with status %ld: %s", status,
				status > 0 ? "no success" : curl_easy_strerror(code));
	return status;
}

static bool
is_temporary(long status)
{
	return status == 0 || status == 408 || status == 429 || status >= 500;
}

/* Reports what became of a lease. */
static void
report(SpanSender * self, const char *lease, bool done)
{
	char		pause[24];
	const char *values[] = {lease, done ? "true" : "false", pause};

	snprintf(pause, sizeof(pause), "%d s", self->pause_s);
	PQclear(run(self, "SELECT gpucredit_http.report_spans($1, $2, $3)", 3, values));
}

/* Sends spans that are leased, and reports the result. */
static void
send_spans(SpanSender * self, const PGresult * rows)
{
	char	   *body = otlp_body(rows);
	curl_off_t	wait = 0;
	long		status = body != NULL ? post_body(self, body, &wait) : 0;
	int			n = PQntuples(rows);

	free(body);
	if (is_temporary(status))
	{
		if (!atomic_load(&stopping))
			atomic_fetch_add(&failures, 1);
		self->pause_s = self->pause_s == 0 ? PAUSE_LEAST_S : self->pause_s * 2;
		if (wait > self->pause_s)
			self->pause_s = wait < PAUSE_MOST_S ? (int) wait : PAUSE_MOST_S;
		if (self->pause_s > PAUSE_MOST_S)
			self->pause_s = PAUSE_MOST_S;
		/* Another daemon may send what this one has broken off. */
		if (atomic_load(&stopping))
			self->pause_s = 0;
	}
	else
	{
		self->pause_s = 0;
		atomic_fetch_add(status < 300 ? &accepted : &refused, (unsigned long long) n);
	}
	report(self, PQgetvalue(rows, 0, 0), !is_temporary(status));
}

/* Sends the next spans. Returns false if there are none to send. */
static bool
send_next(SpanSender * self)
{
	static const char *const values[] = {LEASE};
	PGresult   *rows;
	bool		found;

	PQclear(run(self, "SELECT gpucredit_http.number_events()", 0, NULL));
	rows = run(self, "SELECT c.lease, c.trace, c.span, c.parent, c.name, c.begins, c.ends, c.error,"
			   " c.attributes FROM gpucredit_http.claim_spans($1::pg_catalog.interval) c",
			   1, values);
	found = PQntuples(rows) > 0;
	if (found)
		send_spans(self, rows);
	PQclear(rows);
	return found;
}

/* Waits, or until the daemon ends. */
static void
wait_ms(int ms)
{
	for (; ms > 0 && !atomic_load(&stopping); ms -= STOP_MS)
		nanosleep(&(struct timespec) {.tv_nsec = STOP_MS * 1000000L}, NULL);
}

/* Runs the thread until the daemon ends. */
static void *
span_main(void *unused)
{
	SpanSender	self = {.curl = curl_easy_init()};

	(void) unused;
	while (self.curl != NULL && !atomic_load(&stopping))
	{
		if (!database_keep_connected(&self.connection) || !send_next(&self))
			wait_ms(POLL_MS);
	}
	if (self.curl != NULL)
		curl_easy_cleanup(self.curl);
	PQfinish(self.connection);
	return NULL;
}

static bool
add_header(const char *line)
{
	struct curl_slist *more = curl_slist_append(headers, line);

	if (more != NULL)
		headers = more;
	return more != NULL;
}

/*
 * Adds the headers of the operator's file, a line each. They are in a file and
 * not among the options because such a header is often a key.
 */
static bool
read_headers(const char *name)
{
	FILE	   *file = fopen(name, "re");
	char	   *line = NULL;
	size_t		size = 0;
	bool		good = file != NULL;

	if (!good)
		LogLine("spans: could not read \"%s\": %s", name, strerror(errno));
	while (good && getline(&line, &size, file) >= 0)
	{
		line[strcspn(line, "\r\n")] = '\0';
		if (line[0] == '\0' || line[0] == '#')
			continue;
		good = strchr(line, ':') != NULL && strchr(line, ':') != line;
		if (good)
			good = add_header(line);
		else
			LogLine("spans: \"%s\" has a line that is no header \"NAME: VALUE\"", name);
	}
	free(line);
	if (file != NULL)
		fclose(file);
	return good;
}

bool
spans_start(void)
{
	const char *endpoint = options.otlp_endpoint;
	size_t		length;

	if (endpoint == NULL)
		return true;
	for (length = strlen(endpoint); endpoint[length - 1] == '/'; length--);
	if (asprintf(&url, "%.*s/v1/traces", (int) length, endpoint) < 0 ||
		!add_header("Content-Type: application/json") ||
		!add_header("User-Agent: gpucreditd") || !add_header("Expect:") ||
		(options.otlp_headers != NULL && !read_headers(options.otlp_headers)))
		return false;
	started = pthread_create(&thread, NULL, span_main, NULL) == 0;
	return started;
}

void
spans_stop(void)
{
	if (!started)
		return;
	atomic_store(&stopping, true);
	pthread_join(thread, NULL);
	curl_slist_free_all(headers);
	free(url);
}

unsigned long long
spans_sent(bool of_accepted)
{
	return atomic_load(of_accepted ? &accepted : &refused);
}

unsigned long long
spans_failures(void)
{
	return atomic_load(&failures);
}
