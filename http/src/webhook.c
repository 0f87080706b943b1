/*-------------------------------------------------------------------------
 *
 * webhook.c
 *		The thread that delivers events to webhooks.
 *
 * The database decides what is sent, when, and with which signature
 * (66_delivery.sql). The thread claims deliveries that are due, sends them in
 * parallel (post.c), and reports the results. A delivery is leased: if the
 * daemon or its connection to the database dies, the lease ends and another
 * daemon sends the message again. So several daemons share the work, and no
 * message is lost, though one may be delivered twice.
 *
 * If the database cannot store a report at the moment, because it cannot be
 * reached or because somebody is changing that webhook, the report is
 * repeated. A delivery that waits for its report does not occupy a connection.
 *-------------------------------------------------------------------------
 */
#include "webhook.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "database.h"
#include "log.h"
#include "options.h"
#include "post.h"
#include "request.h"

#define POLL_MS			200
#define IDLE_MS			2000	/* interval while no webhook is enabled */
#define REPEAT_LEAST_MS	10		/* pause before a report is repeated */
#define REPEAT_MOST_MS	1000
#define FORGET_US		60000000
#define REPORT_MOST		200		/* most results that one statement reports */
#define UNREPORTED_MOST	10000
#define PAGE			"1000"	/* number of events */

typedef struct WebhookThread
{
	PGconn	   *connection;
	WebhookPost *first;			/* list of posts that have ended and are to be
								 * reported */
	WebhookPost *last;
	int			unreported;
	bool		is_due;			/* there may be a delivery that can be claimed
								 * at once */
	bool		is_idle;		/* no webhook is enabled */
	int64_t		claimed_us;
	int64_t		reported_us;
	int			repeat_ms;		/* pause before the next report, or 0 */
	int64_t		forgot_us;
	json_t	   *sending;		/* number of posts being sent, for each
								 * organisation */
}			WebhookThread;

static pthread_t thread;
static bool started = false;
static atomic_bool stopping = false;
static atomic_ullong succeeded = 0;
static atomic_ullong failed = 0;

/* Runs a statement. Returns its rows, or NULL after an error. */
static PGresult *
run(WebhookThread * self, const char *statement, int n, const char *const *values)
{
	return database_rows(self->connection, "webhooks", statement, n, values);
}

/* Returns the single number that a statement selects, or -1 if it failed. */
static long long
run_number(WebhookThread * self, const char *statement)
{
	PGresult   *result = run(self, statement, 0, NULL);
	long long	number = result != NULL ? atoll(PQgetvalue(result, 0, 0)) : -1;

	PQclear(result);
	return number;
}

/* Keeps a post until it is reported. */
static void
keep_post(WebhookThread * self, WebhookPost * post)
{
	post->next = NULL;
	if (self->unreported >= UNREPORTED_MOST)
	{
		post_free(post);		/* its lease ends, and the message is sent
								 * again */
		return;
	}
	if (self->first == NULL)
		self->first = post;
	else
		self->last->next = post;
	self->last = post;
	self->unreported++;
}

/* Changes the number of an organisation's posts that are being sent. */
static void
count_sending(WebhookThread * self, const char *org, int more)
{
	json_int_t	n = json_integer_value(json_object_get(self->sending, org)) + more;

	if (n > 0)
		json_object_set_new(self->sending, org, json_integer(n));
	else
		json_object_del(self->sending, org);
}

/* Collects the posts that have ended. */
static void
collect_ended(WebhookThread * self)
{
	WebhookPost *post;

	while ((post = posts_next_ended()) != NULL)
	{
		atomic_fetch_add(post->problem[0] == '\0' ? &succeeded : &failed, 1);
		self->repeat_ms = 0;
		count_sending(self, post->org, -1);
		keep_post(self, post);
	}
}

/* Returns a post's result in the format of report_deliveries(). */
static json_t *
result_of(const WebhookPost * post)
{
	json_t	   *result = json_object();

	json_object_set_new(result, "org", json_string(post->org));
	json_object_set_new(result, "webhook", json_integer(atoll(post->webhook)));
	json_object_set_new(result, "event", json_integer(atoll(post->event)));
	json_object_set_new(result, "attempt", json_integer(atoll(post->attempt)));
	if (post->status > 0)
		json_object_set_new(result, "status", json_integer(post->status));
	if (post->problem[0] != '\0')
		json_object_set_new(result, "problem", json_string(post->problem));
	if (post->retry_after > 0)
		json_object_set_new(result, "retry_after", json_integer(post->retry_after));
	return result;
}

/* Whether a post is among the rows of those that must be reported again. */
static bool
is_listed(const WebhookPost * post, const PGresult * rows)
{
	for (int i = 0; i < PQntuples(rows); i++)
		if (strcmp(PQgetvalue(rows, i, 0), post->org) == 0 &&
			strcmp(PQgetvalue(rows, i, 1), post->webhook) == 0 &&
			strcmp(PQgetvalue(rows, i, 2), post->event) == 0)
			return true;
	return false;
}

/*
 * Reports posts that have ended, those that have waited longest first. Posts
 * whose report the database cannot store now are moved to the end.
 */
static void
report_ended(WebhookThread * self)
{
	json_t	   *results = json_array();
	WebhookPost *post = self->first;
	char	   *text;
	const char *values[1];
	int			n = 0;
	PGresult   *again = NULL;

	for (; post != NULL && n < REPORT_MOST; post = post->next, n++)
		json_array_append_new(results, result_of(post));
	text = json_dumps(results, JSON_COMPACT);
	json_decref(results);
	values[0] = text;
	if (text != NULL)
		again = run(self, "SELECT r.org, r.webhook, r.event"
					" FROM gpucredit_http.report_deliveries($1::pg_catalog.jsonb) r",
					1, values);
	free(text);
	self->reported_us = now_us();

	/*
	 * Another daemon locks a webhook for milliseconds, a tenant possibly for
	 * longer.
	 */
	self->repeat_ms = self->repeat_ms == 0 ? REPEAT_LEAST_MS :
		self->repeat_ms * 2 < REPEAT_MOST_MS ? self->repeat_ms * 2 : REPEAT_MOST_MS;
	if (again == NULL)
		return;
	for (; n > 0; n--)
	{
		post = self->first;
		self->first = post->next;
		self->unreported--;
		if (is_listed(post, again))
			keep_post(self, post);
		else
		{
			self->is_due = true;	/* the next event of its job may be due
									 * now */
			post_free(post);
		}
	}
	PQclear(again);
}

/*
 * Creates a post from a row of claim_deliveries(). Returns NULL if memory runs
 * out.
 */
static WebhookPost *
post_of(const PGresult * rows, int i)
{
	WebhookPost *post = calloc(1, sizeof(WebhookPost));

	if (post == NULL)
		return NULL;
	post->org = strdup(PQgetvalue(rows, i, 0));
	post->webhook = strdup(PQgetvalue(rows, i, 1));
	post->event = strdup(PQgetvalue(rows, i, 2));
	post->attempt = strdup(PQgetvalue(rows, i, 3));
	post->url = strdup(PQgetvalue(rows, i, 4));
	post->body = strdup(PQgetvalue(rows, i, 8));
	if (post->org != NULL && post->webhook != NULL && post->event != NULL &&
		post->attempt != NULL && post->url != NULL && post->body != NULL &&
		post_add_header(post, "webhook-id", PQgetvalue(rows, i, 5)) &&
		post_add_header(post, "webhook-timestamp", PQgetvalue(rows, i, 6)) &&
		post_add_header(post, "webhook-signature", PQgetvalue(rows, i, 7)))
		return post;
	post_free(post);
	return NULL;
}

/* Claims deliveries that are due, and starts to send them. */
static void
claim_due(WebhookThread * self)
{
	char		most[16];
	char		per_org[16];
	char		lease[16];
	char	   *sending;
	const char *values[] = {most, per_org, lease, NULL};
	int			room = options.webhooks - posts_underway();
	PGresult   *rows;
	long long	noted;

	run_number(self, "SELECT gpucredit_http.number_events()");
	noted = run_number(self, "SELECT gpucredit_http.notice_events(" PAGE ")");
	self->is_idle = noted < 0;
	self->is_due = noted == atoi(PAGE);
	self->claimed_us = now_us();
	if (self->is_idle || room <= 0)
		return;
	values[3] = sending = json_dumps(self->sending, JSON_COMPACT);
	if (sending == NULL)
		return;
	snprintf(most, sizeof(most), "%d", room);
	snprintf(per_org, sizeof(per_org), "%d", (options.webhooks + 3) / 4);

	/*
	 * The lease is longer than an attempt plus a report that waits for the
	 * database.
	 */
	snprintf(lease, sizeof(lease), "%d s", options.webhook_s + options.statement_s + 5);
	rows = run(self, "SELECT c.org, c.webhook, c.event, c.attempt, c.url, c.id, c.sent_at,"
			   " c.signature, c.body FROM gpucredit_http.claim_deliveries("
			   "$1::pg_catalog.int4, $2::pg_catalog.int4, $3::pg_catalog.interval,"
			   " $4::pg_catalog.jsonb) c", 4, values);
	free(sending);
	for (int i = 0; i < PQntuples(rows); i++)
	{
		WebhookPost *post = post_of(rows, i);

		if (post == NULL)
			continue;
		count_sending(self, post->org, 1);
		post_send(post);
	}
	if (PQntuples(rows) == room)
		self->is_due = true;
	PQclear(rows);
}

/*
 * Does one round: reports posts that have ended, and sends those that are due.
 */
static void
work_round(WebhookThread * self)
{
	int64_t		now = now_us();

	if (self->unreported > 0 && now - self->reported_us >= self->repeat_ms * (int64_t) 1000)
		report_ended(self);
	if (atomic_load(&stopping))
		return;
	if (now - self->claimed_us > (self->is_idle ? IDLE_MS : POLL_MS) * 1000 ||
		(self->is_due && posts_underway() < options.webhooks))
		claim_due(self);
	if (now - self->forgot_us > FORGET_US)
	{
		run_number(self, "SELECT gpucredit_http.forget_deliveries(10000)");
		self->forgot_us = now;
	}
}

/* Returns how long to wait for answers of receivers before the next round. */
static int
pause_ms(const WebhookThread * self)
{
	int			ms = self->is_idle && posts_underway() == 0 ? IDLE_MS : POLL_MS;

	if (self->is_due && posts_underway() < options.webhooks)
		return 0;
	return self->unreported > 0 && self->repeat_ms < ms ? self->repeat_ms : ms;
}

/*
 * Whether all posts have ended and are reported, so that the thread can end.
 */
static bool
is_finished(const WebhookThread * self)
{
	return posts_underway() == 0 && self->unreported == 0;
}

/*
 * Runs the thread. When the daemon ends, it waits for the posts that are being
 * sent, but not longer than the time limit of a receiver.
 */
static void *
webhook_main(void *unused)
{
	WebhookThread self = {.sending = json_object()};
	int64_t		until = 0;

	(void) unused;
	for (;;)
	{
		bool		connected;

		if (atomic_load(&stopping))
		{
			if (until == 0)
				until = now_us() + (options.webhook_s + 2) * (int64_t) 1000000;
			if (is_finished(&self) || now_us() > until)
				break;
		}
		collect_ended(&self);
		connected = database_keep_connected(&self.connection);
		if (connected)
			work_round(&self);
		posts_wait(connected ? pause_ms(&self) : 500);
	}
	while (self.first != NULL)
	{
		WebhookPost *post = self.first;

		self.first = post->next;
		post_free(post);
	}
	json_decref(self.sending);
	PQfinish(self.connection);
	return NULL;
}

bool
webhooks_start(void)
{
	if (options.webhooks == 0)
		return true;
	started = posts_init() && pthread_create(&thread, NULL, webhook_main, NULL) == 0;
	return started;
}

void
webhooks_stop(void)
{
	if (!started)
		return;
	atomic_store(&stopping, true);
	posts_wake();
	pthread_join(thread, NULL);
	posts_end();
}

unsigned long long
webhooks_attempts(bool of_success)
{
	return atomic_load(of_success ? &succeeded : &failed);
}

int
webhooks_underway(void)
{
	return posts_underway();
}
