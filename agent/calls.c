/*-------------------------------------------------------------------------
 *
 * calls.c
 *		Decides which call of the database to make next, and handles its
 *		answer.
 *
 * Every call may be repeated, so the agent repeats a call that got no answer.
 * Each attempt's state determines which call it needs.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "attempts.h"
#include "calls.h"
#include "checkpoints.h"
#include "clock.h"
#include "config.h"
#include "crash_point.h"
#include "db.h"
#include "devices.h"
#include "digest_calls.h"
#include "energy.h"
#include "health.h"
#include "job_signals.h"
#include "keep_log.h"
#include "log.h"
#include "log_calls.h"
#include "memory.h"
#include "node_proof.h"
#include "orders.h"
#include "sessions.h"
#include "spot_watch.h"
#include "topology_watch.h"

#define PAUSE_LEAST		(500 * NS_PER_MS)
#define PAUSE_MOST		(60 * NS_PER_S)
#define LOOK_AT_LOGS	(100 * NS_PER_MS)	/* interval of checking logs while
											 * a caller waits for one */
#define SETTINGS_EVERY	(60 * NS_PER_S)

static int64_t beat_due_ns;
static int64_t beat_sent_ns;	/* CLOCK_BOOTTIME when the last heartbeat was
								 * sent */
static int64_t settings_due_ns;
static bool poked;
static int	connection;			/* number of the connection used by the last
								 * call */
static int	about_told;			/* number of the connection that received this
								 * node's description */
static char *about_heard;		/* the description that the database has */
static char *about_sent;		/* the description in the call in flight, or
								 * NULL */

static void read_settings(void);
static void settings_read(PGresult * result, void *context);
static char *about_us(void);
static char *poke_address(void);
static void beat(void);
static void beat_answered(PGresult * result, void *context);
static int64_t number_of(const PGresult * result, int row, const char *name,
						 int64_t none);
static LocalAttempt *next_to_settle(void);
static void settle(LocalAttempt *attempt);
static void settle_answered(PGresult * result, void *context);
static bool any_to_meter(void);
static void meter(void);
static char *utilization_of(uint64_t gpus);
static void meter_answered(PGresult * result, void *context);
static char *array_of(char **texts, int n);

/* Makes the next heartbeat due at once. */
void
BeatSoon(void)
{
	poked = true;
}

/* Returns in how many milliseconds the next call is due. */
int
CallsWaitMs(void)
{
	int64_t		due = beat_due_ns;
	int64_t		rest;

	if (poked)
		return DbIdle() ? 0 : 1000;
	for (LocalAttempt *a = about_told == connection ? attempts :
		 NULL; a != NULL;
		 a = a->next)
	{
		if (a->phase == PHASE_GONE && a->checked && a->settle_due_ns < due)
			due = a->settle_due_ns;
	}
	if (LogWishesWait() && due > MonotonicNs() + LOOK_AT_LOGS)
		due = MonotonicNs() + LOOK_AT_LOGS;
	if (about_told == connection && KeepLogDue() < due)
		due = KeepLogDue();
	rest = due - MonotonicNs();
	return rest <= 0 ? (DbIdle() ? 0 : 1000) : (int) (rest / NS_PER_MS) + 1;
}

/*
 * Makes the most urgent call. The connection must be idle. The first call of a
 * new connection is a heartbeat: the connection may lead to a database that
 * was restored from a backup, and the heartbeat's answer shows whether the
 * attempt numbers still have the same meaning.
 */
void
CallsMake(void)
{
	int64_t		now = MonotonicNs();
	LocalAttempt *attempt;

	if (connection != DbConnects())
	{
		connection = DbConnects();
		poked = true;
	}
	if (now >= settings_due_ns)
		read_settings();
	else if (poked || now >= beat_due_ns)
		beat();
	else if (about_told != connection || SpotReclaim())
		return;
	else if ((attempt = DigestNext(true)) != NULL)
		DigestResume(attempt);
	else if ((attempt = DigestNext(false)) != NULL)
		DigestSave(attempt);
	else if ((attempt = next_to_settle()) != NULL)
		settle(attempt);
	else if (any_to_meter())
		meter();
	else if (!TopologyReport() && !LogAnswer())
		(void) KeepLog();
}

/*
 * Reads the server's settings that the agent has to follow.
 */
static void
read_settings(void)
{
	DbCall("SELECT pg_catalog.date_part('epoch',"
		   " pg_catalog.current_setting('gpucredit.node_lost', true)"
		   "::pg_catalog.interval)", 0, NULL, settings_read, NULL);
}

/*
 * Sets the fence from the server's node_lost, which limits how long jobs may
 * run without an answer.
 */
static void
settings_read(PGresult * result, void *context)
{
	double		lost;

	(void) context;
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
	{
		if (result != NULL)
			LogLine("event=settings_refused error=\"%s\"",
					PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
		settings_due_ns = MonotonicNs() + NS_PER_S;
		return;
	}
	lost = PQgetisnull(result, 0, 0) ? 60 : strtod(PQgetvalue(result, 0, 0),
												   NULL);
	lease->fence_ns = (int64_t) (lost / 2 * NS_PER_S);
	settings_due_ns = MonotonicNs() + SETTINGS_EVERY;
}

/*
 * Builds the node's description: boot, agent start, version, devices and
 * address.
 */
static char *
about_us(void)
{
	json_t	   *about = json_pack("{s:s, s:I, s:s}", "boot_id", boot_id,
								  "incarnation", (json_int_t) incarnation,
								  "version", AGENT_VERSION);
	json_t	   *devices = json_array();
	json_t	   *pulling = json_array();
	json_t	   *typed;
	char	   *poke;
	char	   *text;

	json_object_set_new(about, "containment", json_string(containment));
	if (*config.address != '\0')
		json_object_set_new(about, "address", json_string(config.address));
	poke = poke_address();
	if (*poke != '\0')
		json_object_set_new(about, "poke", json_string(poke));
	free(poke);
	for (int i = 0; i < DeviceCount(); i++)
		json_array_append_new(devices, json_string(DeviceNumber(i)->uuid));
	json_object_set_new(about, "devices", devices);
	for (const LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (a->phase == PHASE_RUNS && a->pull != 0)
			json_array_append_new(pulling, json_string(a->tag));
	}
	json_object_set_new(about, "pulling", pulling);
	json_object_set_new(about, "out_of_service", HealthReasons());
	json_object_set_new(about, "logs", json_true());
	json_object_set_new(about, "sessions", SessionsOpen());
	json_object_set_new(about, "signals", JobSignalsDelivered());
	typed = SessionsTyped();
	if (typed != NULL)
	{
		json_object_set_new(about, "typed", typed);
		/* The same list again may mean another key press. */
		free(about_heard);
		about_heard = NULL;
	}
	text = json_dumps(about, JSON_COMPACT);
	json_decref(about);
	return text;
}

/*
 * Returns the address to which the database sends "poke". If the setting is
 * "any address", it is the node's own.
 */
static char *
poke_address(void)
{
	const char *port = strrchr(config.poke, ':');
	bool		any = strncmp(config.poke, "0.0.0.0:", 8) == 0 ||
		strncmp(config.poke, "[::]:", 5) == 0;

	if (!any || *config.address == '\0')
		return Dup(any ? "" : config.poke);
	return Format(strchr(config.address, ':') != NULL ? "[%s]%s" : "%s%s",
				  config.address, port);
}

/*
 * Reports the node's devices and attempts. The answer contains what to run.
 */
static void
beat(void)
{
	char	   *healthy = SetText(HealthSet());
	char	   *names[65536];
	int			n = 0;
	char	   *running;
	char	   *about = about_us();
	const char *values[5];

	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (AttemptHolds(a) && !a->forgotten && n < 65536)
			names[n++] = a->tag;
	}
	if (about_told == connection && about_heard != NULL &&
		strcmp(about, about_heard) == 0)
	{
		free(about);
		about = NULL;
	}
	running = array_of(names, n);
	values[0] = config.key;
	values[1] = config.node;
	values[2] = healthy;
	values[3] = running;
	values[4] = about;
	poked = false;
	beat_sent_ns = BoottimeNs();
	beat_due_ns = MonotonicNs() + config.heartbeat_ms * NS_PER_MS;
	DbCall("SELECT org, job, attempt, action, reason, gpus, share, spec,"
		   " traceparent, save,"
		   " (pg_catalog.date_part('epoch', time_left) * 1000)::bigint AS"
		   " left_ms, pg_catalog.array_to_string(nodes, E'\\n') AS nodes,"
		   " pg_catalog.array_to_string(addresses, E'\\n', '') AS addresses,"
		   " save_to, log, (pg_catalog.date_part('epoch', started_at) * 1000000)"
		   "::bigint AS placed_us, cpu_milli, memory_mib, account,"
		   " pg_catalog.array_to_string(node_gpus, E'\\n') AS node_gpus"
		   FROM_PROVEN("heartbeat", "$2::pg_catalog.text")
		   ", $3::gpucredit.gpuset, $4::pg_catalog.text[],"
		   " $5::pg_catalog.jsonb)", 5, values, beat_answered, NULL);
	free(about_sent);
	about_sent = about;
	free(running);
	free(healthy);
}

/*
 * Handles the answer to a heartbeat. The lease counts from when the heartbeat
 * was sent, because the database counts the node's silence from no earlier
 * time.
 */
static void
beat_answered(PGresult * result, void *context)
{
	(void) context;
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
	{
		if (result != NULL)
			LogLine("event=heartbeat_refused state=%s error=\"%s\"",
					DbState(result),
					PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
		/* Another agent reports for this node and keeps its attempts. */
		if (result != NULL && strcmp(DbState(result), "UC303") == 0)
			Die("event=superseded node=%s", config.node);
		beat_due_ns = MonotonicNs() + NS_PER_S;
		return;
	}
	about_told = connection;
	if (about_sent != NULL)
	{
		free(about_heard);
		about_heard = about_sent;
		about_sent = NULL;
	}
	lease->answered_ns = beat_sent_ns;
	LogWishesForget();
	JobSignalsBegin();
	for (int i = 0; i < PQntuples(result); i++)
	{
		Order		order = {
			.org = DbField(result, i, "org"),
			.job = strtoll(DbField(result, i, "job"), NULL, 10),
			.number = atoi(DbField(result, i, "attempt")),
			.action = DbField(result, i, "action"),
			.reason = DbField(result, i, "reason"),
			.gpus = DbField(result, i, "gpus"),
			.share = DbField(result, i, "share"),
			.spec = DbField(result, i, "spec"),
			.traceparent = DbField(result, i, "traceparent"),
			.nodes = DbField(result, i, "nodes"),
			.addresses = DbField(result, i, "addresses"),
			.node_gpus = DbField(result, i, "node_gpus"),
			.account = DbField(result, i, "account"),
			.save_to = DbField(result, i, "save_to"),
			.left_ms = number_of(result, i, "left_ms", -1),
			.placed_us = number_of(result, i, "placed_us", 0),
			.cpu_milli = number_of(result, i, "cpu_milli", 0),
			.memory_mib = number_of(result, i, "memory_mib", 0),
		};

		order.save = DbField(result, i, "save") != NULL &&
			strcmp(DbField(result, i, "save"), "t") == 0;
		if (strcmp(order.action, "log") == 0)
			LogWishAdd(&order, DbField(result, i, "log"));
		else if (strcmp(order.action, "session") == 0)
			SessionStart(&order);
		else if (strcmp(order.action, "signal") == 0)
			JobSignalSend(&order);
		else
			AttemptObey(&order);
	}
	JobSignalsEnd();
}

/* Returns a number field, or "none" if it is null. */
static int64_t
number_of(const PGresult * result, int row, const char *name, int64_t none)
{
	const char *text = DbField(result, row, name);

	return text == NULL ? none : strtoll(text, NULL, 10);
}

/*
 * Returns an attempt that has ended on this node and whose report is due.
 */
static LocalAttempt *
next_to_settle(void)
{
	int64_t		now = MonotonicNs();

	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (a->phase != PHASE_GONE || !a->checked || now < a->settle_due_ns)
			continue;
		if (CheckpointHolds(a))
		{
			/*
			 * Nobody else gets the devices meanwhile, so the attempt pays for
			 * them.
			 */
			a->held_ns = now;
			continue;
		}
		return a;
	}
	return NULL;
}

/*
 * Reports how this node's part of an attempt ended. The last node's report
 * settles the attempt; the report of a single node settles it at once.
 */
static void
settle(LocalAttempt *attempt)
{
	Ending		ending;
	char	   *job = Format("%lld", (long long) attempt->job);
	char	   *number = Format("%d", attempt->number);
	char	   *elapsed;
	char	   *code;
	char	   *energy = Format("%lld", (long long) EnergyJoules(attempt));
	const char *values[10];

	AttemptEnding(attempt, &ending);
	elapsed = Format("%lld microseconds", (long long) ending.elapsed_us);
	code = Format("%d", ending.exit_code);
	values[0] = config.key;
	values[1] = attempt->org;
	values[2] = job;
	values[3] = number;
	values[4] = config.node;
	values[5] = ending.outcome;
	values[6] = ending.exit_code < 0 ? NULL : code;
	values[7] = ending.message[0] == '\0' ? NULL : ending.message;
	values[8] = ending.elapsed_us < 0 ? NULL : elapsed;
	values[9] = EnergyJoules(attempt) < 0 ? NULL : energy;
	CrashPoint("settle");
	DbCall("SELECT COALESCE(outcome, 'part')"
		   FROM_PROVEN("part_ended", "$2::pg_catalog.text")
		   ", $3, $4, $5, $6, $7, $8, $9, energy_j => $10)", 10, values,
		   settle_answered, attempt);
	free(energy);
	free(job);
	free(number);
	free(elapsed);
	free(code);
}

/*
 * Handles the answer: the attempt is settled, or the report is repeated after
 * a growing pause.
 */
static void
settle_answered(PGresult * result, void *context)
{
	LocalAttempt *attempt = context;
	const char *state = result == NULL ? "" : DbState(result);

	CrashPoint("answer");
	if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1)
	{
		AttemptSettled(attempt, PQgetvalue(result, 0, 0));
		return;
	}
	/* A database restored from an earlier time does not have the attempt. */
	if (strcmp(state, "UC302") == 0 || strcmp(state, "UC301") == 0 ||
		strcmp(state, "UC001") == 0)
	{
		AttemptSettled(attempt, "unknown");
		return;
	}
	attempt->pause_ns = attempt->pause_ns == 0 ? PAUSE_LEAST :
		attempt->pause_ns * 2 > PAUSE_MOST ? PAUSE_MOST :
		attempt->pause_ns * 2;
	attempt->settle_due_ns = MonotonicNs() + attempt->pause_ns;
	if (result != NULL)
		LogLine("event=settle_refused attempt=%s state=%s error=\"%s\"",
				attempt->tag, state,
				PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
}

static bool
any_to_meter(void)
{
	int64_t		now = MonotonicNs();

	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (AttemptMeters(a) && now >= a->meter_due_ns)
			return true;
	}
	return false;
}

/*
 * Meters all live attempts in one call, as soon as one of them is due.
 */
static void
meter(void)
{
	enum
	{
	MOST = 4096};
	char	   *columns[6][MOST];
	char	   *arrays[6];
	const char *values[7] = {config.key};
	int			n = 0;

	for (LocalAttempt *a = attempts; a != NULL && n < MOST; a = a->next)
	{
		if (!AttemptMeters(a))
			continue;
		columns[0][n] = Dup(a->org);
		columns[1][n] = Format("%lld", (long long) a->job);
		columns[2][n] = Format("%d", a->number);
		columns[3][n] = Format("%lld microseconds", (long long)
							   (a->metered ? AttemptElapsedUs(a) : 0));
		columns[4][n] = a->state == NULL || a->state->progress < 0 ? NULL :
			Format("%lld", (long long) a->state->progress);
		columns[5][n++] = utilization_of(a->gpus);
		a->meter_due_ns = MonotonicNs() + config.meter_ms * NS_PER_MS;
	}
	for (int c = 0; c < 6; c++)
	{
		arrays[c] = array_of(columns[c], n);
		values[c + 1] = arrays[c];
		for (int i = 0; i < n; i++)
			free(columns[c][i]);
	}
	DbCall("SELECT org, job, attempt, action, reason,"
		   " (pg_catalog.date_part('epoch', time_left) * 1000)::bigint AS"
		   " left_ms, save, pg_catalog.to_char(pg_catalog.timezone('UTC',"
		   " deadline), 'HH24:MI') AS ends"
		   FROM_PROVEN("meter_batch", "$2::pg_catalog.text[]")
		   ", $3::pg_catalog.int8[], $4::pg_catalog.int4[],"
		   " $5::pg_catalog.interval[], $6::pg_catalog.int8[],"
		   " $7::pg_catalog.float8[])",
		   7, values, meter_answered, NULL);
	for (int c = 0; c < 6; c++)
		free(arrays[c]);
}

/*
 * Returns the mean utilization of an attempt's devices, from 0 to 1, or NULL
 * if unknown.
 */
static char *
utilization_of(uint64_t gpus)
{
	int			sum = 0;
	int			n = 0;

	for (int i = 0; i < DeviceCount(); i++)
	{
		int			percent = DeviceNumber(i)->utilization;

		if ((gpus >> i & 1) != 0 && percent >= 0 && percent <= 100)
		{
			sum += percent;
			n++;
		}
	}
	return n == 0 ? NULL : Format("%.4f", sum / 100.0 / n);
}

/*
 * Executes every answer other than "continue": leave, stop or save.
 */
static void
meter_answered(PGresult * result, void *context)
{
	(void) context;
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
	{
		if (result != NULL)
			LogLine("event=meter_refused state=%s error=\"%s\"", DbState(result),
					PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
		for (LocalAttempt *a = attempts; a != NULL; a = a->next)
			a->meter_due_ns = MonotonicNs() + NS_PER_S;
		return;
	}
	for (int i = 0; i < PQntuples(result); i++)
	{
		const char *action = DbField(result, i, "action");
		Order		order = {
			.org = DbField(result, i, "org"),
			.job = strtoll(DbField(result, i, "job"), NULL, 10),
			.number = atoi(DbField(result, i, "attempt")),
			.action = action,
			.reason = DbField(result, i, "reason"),
			.left_ms = number_of(result, i, "left_ms", -1),
		};
		LocalAttempt *attempt = AttemptFind(order.org, order.job,
											order.number);

		if (attempt == NULL)
			continue;
		if (strcmp(action, "busy") == 0)
		{
			attempt->meter_due_ns = MonotonicNs() + NS_PER_S;
			continue;
		}
		attempt->metered = true;
		attempt->digest.metered = attempt->digest.ready;
		order.save = DbField(result, i, "save") != NULL &&
			strcmp(DbField(result, i, "save"), "t") == 0;
		AttemptWarnIdle(attempt, strcmp(action, "continue") == 0 &&
						order.reason != NULL &&
						strcmp(order.reason, "idle") == 0 ?
						DbField(result, i, "ends") : NULL);
		AttemptObey(&order);
	}
}

/*
 * Builds a text array in the database's syntax. NULL elements become null.
 */
static char *
array_of(char **texts, int n)
{
	char	   *array;
	size_t		len;
	FILE	   *out = open_memstream(&array, &len);

	if (out == NULL)
		Die("out of memory");
	fputc('{', out);
	for (int i = 0; i < n; i++)
	{
		if (i > 0)
			fputc(',', out);
		if (texts[i] == NULL)
		{
			fputs("NULL", out);
			continue;
		}
		fputc('"', out);
		for (const char *at = texts[i]; *at != '\0'; at++)
		{
			if (*at == '"' || *at == '\\')
				fputc('\\', out);
			fputc(*at, out);
		}
		fputc('"', out);
	}
	fputc('}', out);
	fclose(out);
	return array;
}
