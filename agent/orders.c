/*-------------------------------------------------------------------------
 *
 * orders.c
 *		Executes the database's answers about an attempt.
 *
 * An answer may arrive twice, late, or again after a restart. The agent does
 * not repeat a step that the attempt's folder shows as done.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent.h"
#include "attempts.h"
#include "checkpoints.h"
#include "clock.h"
#include "config.h"
#include "crash_point.h"
#include "devices.h"
#include "file.h"
#include "foreign.h"
#include "health.h"
#include "launch.h"
#include "log.h"
#include "memory.h"
#include "orders.h"
#include "pull_image.h"

#define KEEPER_STARTS	(5 * NS_PER_S)	/* time within which a keeper has
										 * locked its file */

static bool reused(const LocalAttempt *attempt, const Order *order);
static void forget(LocalAttempt *attempt);
static void begin(const Order *order);
static void begin_over(const Order *order);
static bool is_foreign(const Order *order);
static void begin_foreign(const Order *order);
static LocalAttempt *write_intent(const Order *order);
static void not_written(const Order *order, const char *name, int error);
static void go_on_from(LocalAttempt *attempt, const json_t * checkpoint);
static void launch(LocalAttempt *attempt);
static void start_keeper(LocalAttempt *attempt, const json_t * intent);
static json_t * intent_of(const Order *order);
static json_t * lines_of(const char *text);
static json_t * numbers_of(const char *text);
static char *folder_name(const char *org, int64_t job, int number);
static bool settles(const char *reason);
static bool leaves(const Order *order);
static void have_saved(LocalAttempt *attempt, const Order *order);
static void note_stop_reason(LocalAttempt *attempt, const char *reason);

/*
 * Executes a row of a heartbeat's answer.
 */
void
AttemptObey(const Order *order)
{
	LocalAttempt *attempt = AttemptFind(order->org, order->job,
										order->number);
	bool		stop = strcmp(order->action, "stop") == 0;
	const char *reason = order->reason == NULL ? "" : order->reason;

	if (attempt != NULL && reused(attempt, order))
	{
		forget(attempt);
		attempt = AttemptFind(order->org, order->job, order->number);
		if (attempt != NULL)
			return;				/* a later heartbeat starts the new attempt,
								 * once the old one has ended */
	}
	if (attempt == NULL)
	{
		if (stop && !settles(reason))
			return;
		if (strcmp(order->action, "continue") != 0 && is_foreign(order))
			begin_foreign(order);
		else if (strcmp(order->action, "start") == 0)
			begin(order);
		else
			begin_over(order);
		return;
	}

	/*
	 * A database restored from before the attempt's end needs the report
	 * again.
	 */
	if (attempt->phase == PHASE_SETTLED && (!stop || settles(reason)))
	{
		LogLine("event=settled_before attempt=%s", attempt->tag);
		AttemptReopen(attempt);
	}
	if (attempt->phase != PHASE_RUNS)
		return;
	if (attempt->resumes || attempt->pull != 0)
	{
		/* Nothing runs yet, so any reason ends the attempt at once. */
		if (stop || leaves(order))
		{
			note_stop_reason(attempt, reason);
			AttemptWriteLost(attempt, false);
			AttemptGone(attempt);
		}
		return;
	}
	if (stop)
	{
		note_stop_reason(attempt, reason);
		(void) AttemptCommand(attempt, "stop %ld\n", config.stop_grace_ms);
	}
	else if (leaves(order))
	{
		note_stop_reason(attempt, reason);
		(void) AttemptCommand(attempt, "leave %lld %ld\n",
							  (long long) (order->left_ms < 0 ? 0 : order->left_ms),
							  config.stop_grace_ms);
	}
	else
	{
		have_saved(attempt, order);
		if (attempt->state != NULL && attempt->state->frozen_since_ns != 0)
			(void) AttemptCommand(attempt, "thaw\n");
	}
}

/*
 * Whether the attempt must save and end. Before its wall limit it only saves,
 * since the limit itself ends it.
 */
static bool
leaves(const Order *order)
{
	return strcmp(order->action, "checkpoint") == 0 &&
		(order->reason == NULL || (strcmp(order->reason, "periodic") != 0 &&
								   strcmp(order->reason, "wall_limit") != 0));
}

/*
 * Makes the job save, once for each time that this is due. Each heartbeat
 * repeats the order until the database has a checkpoint. After a restart, the
 * agent signals the job again.
 */
static void
have_saved(LocalAttempt *attempt, const Order *order)
{
	const char *why = order->reason == NULL ? "periodic" : order->reason;

	if (!order->save)
	{
		free(attempt->saves);
		attempt->saves = NULL;
	}
	else if ((attempt->saves == NULL || strcmp(attempt->saves, why) != 0) &&
			 AttemptCommand(attempt, "save\n"))
	{
		free(attempt->saves);
		attempt->saves = Dup(why);
		LogLine("event=told_to_save attempt=%s reason=%s", attempt->tag, why);
	}
}

/*
 * Whether the order is about another attempt with the same number. A database
 * restored from an earlier time assigns numbers again.
 */
static bool
reused(const LocalAttempt *attempt, const Order *order)
{
	return attempt->forgotten || (order->placed_us != 0 &&
								  attempt->placed_us != 0 &&
								  attempt->placed_us != order->placed_us);
}

/*
 * Ends an attempt that the database does not have, and reports nothing.
 */
static void
forget(LocalAttempt *attempt)
{
	if (!attempt->forgotten)
		LogLine("event=forgotten attempt=%s", attempt->tag);
	attempt->forgotten = true;
	if (attempt->phase == PHASE_RUNS &&
		(attempt->resumes || attempt->pull != 0))
	{
		AttemptWriteLost(attempt, false);
		AttemptGone(attempt);
	}
	else if (attempt->phase == PHASE_RUNS)
		(void) AttemptCommand(attempt, "stop %ld\n", config.stop_grace_ms);
	AttemptsForget();
}

/*
 * Writes the intent, then starts a keeper or first digests the attempt's
 * checkpoint. If another attempt still has a device, it does nothing yet: each
 * heartbeat repeats the order.
 */
static void
begin(const Order *order)
{
	LocalAttempt *attempt;
	json_t	   *intent;
	uint64_t	gpus;

	if (order->gpus != NULL && SetParse(order->gpus, &gpus) &&
		(!AttemptFits(gpus, order->share == NULL ? 1000 : atoi(order->share)) ||
		 !HealthAllows(gpus)))
	{
		LogLine("event=devices_taken attempt=%s/%lld/%d gpus=%s", order->org,
				(long long) order->job, order->number, order->gpus);
		return;
	}
	attempt = write_intent(order);
	if (attempt == NULL)
		return;
	intent = AttemptIntent(attempt->dir);
	CrashPoint("intent");
	go_on_from(attempt, json_object_get(json_object_get(intent, "spec"),
										"checkpoint"));
	json_decref(intent);
}

/*
 * Handles an order about an attempt that the disk does not have: the disk was
 * lost, or the attempt never began. It is settled accordingly.
 */
static void
begin_over(const Order *order)
{
	LocalAttempt *attempt = write_intent(order);

	bool		stop = strcmp(order->action, "stop") == 0;

	if (attempt == NULL)
		return;
	if (stop)
		note_stop_reason(attempt, order->reason);
	AttemptWriteLost(attempt, !stop);
	AttemptGone(attempt);
}

/*
 * Whether another scheduler starts and ends the attempt.
 */
static bool
is_foreign(const Order *order)
{
	json_t	   *spec = order->spec == NULL ? NULL :
		json_loads(order->spec, 0, NULL);
	bool		foreign = json_is_string(json_object_get(spec, "foreign"));

	json_decref(spec);
	return foreign;
}

/*
 * Adds an attempt of another scheduler. That scheduler's records show what ran
 * here, whatever the order is: the attempt may have begun and ended before the
 * database knew it.
 */
static void
begin_foreign(const Order *order)
{
	LocalAttempt *attempt = write_intent(order);

	if (attempt == NULL)
		return;
	CrashPoint("intent");
	launch(attempt);
}

/*
 * Writes the intent to disk. Returns NULL on failure.
 */
static LocalAttempt *
write_intent(const Order *order)
{
	char	   *name = folder_name(order->org, order->job, order->number);
	json_t	   *intent = intent_of(order);
	char	   *text = json_dumps(intent, JSON_COMPACT);
	LocalAttempt *attempt;
	int			dir;

	mkdirat(run_dir, name, 0711);
	dir = openat(run_dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || !FilePut(dir, "intent", text, strlen(text)) ||
		fsync(run_dir) != 0)
	{
		not_written(order, name, errno);
		attempt = NULL;
	}
	else
	{
		attempt = AttemptOpen(name);
		if (attempt == NULL)
			Die("could not read back %s/run/%s", config.state, name);
		attempt->next = attempts;
		attempts = attempt;
	}
	if (dir >= 0)
		close(dir);
	free(name);
	free(text);
	json_decref(intent);
	return attempt;
}

/*
 * Handles an intent that could not be written; without it, nothing is started.
 * Old folders are removed, so that the next attempt to write may find space.
 * If the folder cannot be created at all, the agent reports that this node
 * cannot run the attempt.
 */
static void
not_written(const Order *order, const char *name, int error)
{
	LocalAttempt *attempt;

	LogLine("event=intent_not_written attempt=%s/%lld/%d error=\"%s\"",
			order->org, (long long) order->job, order->number, strerror(error));
	AttemptsMakeRoom();
	attempt = Alloc(sizeof(LocalAttempt));
	attempt->org = Dup(order->org);
	attempt->job = order->job;
	attempt->number = order->number;
	attempt->tag = Format("%s/%lld/%d", order->org, (long long) order->job,
						  order->number);
	attempt->name = Dup(name);
	attempt->dir = -1;
	attempt->watch = -1;
	attempt->control = -1;
	attempt->saved_step = -1;
	attempt->placed_us = order->placed_us;
	attempt->phase = PHASE_GONE;
	attempt->checked = true;
	attempt->unwritten = Format("%s 0 0 could not write it down: %s",
								strcmp(order->action, "start") == 0 ?
								EXIT_NOT_STARTED : EXIT_LOST,
								strerror(error));
	attempt->next = attempts;
	attempts = attempt;
}

/*
 * Digests a checkpoint that this machine can read, before the job starts from
 * it.
 */
static void
go_on_from(LocalAttempt *attempt, const json_t * checkpoint)
{
	const char *uri = json_string_value(json_object_get(checkpoint, "uri"));

	attempt->resumes = uri != NULL && CheckpointVerify(attempt, uri);
	if (!attempt->resumes)
	{
		launch(attempt);
		return;
	}
	attempt->from_attempt = json_integer_value(json_object_get(checkpoint,
															   "attempt"));
	attempt->from_step = json_integer_value(json_object_get(checkpoint,
															"step"));
}

/*
 * Handles the database's answer about the digest: starts the job from this
 * checkpoint, or from an earlier one, or from the beginning if "checkpoint" is
 * NULL.
 */
void
AttemptResume(LocalAttempt *attempt, bool good, json_t * checkpoint)
{
	json_t	   *intent = AttemptIntent(attempt->dir);
	json_t	   *spec = json_object_get(intent, "spec");
	char	   *text;

	attempt->resumes = false;
	if (good)
		launch(attempt);
	else
	{
		LogLine("event=bad_checkpoint attempt=%s", attempt->tag);
		if (checkpoint == NULL)
			json_object_del(spec, "checkpoint");
		else
			json_object_set(spec, "checkpoint", checkpoint);
		text = json_dumps(intent, JSON_COMPACT);
		if (!FilePut(attempt->dir, "intent", text, strlen(text)))
			Die("could not write intent of %s: %s", attempt->tag,
				strerror(errno));
		free(text);
		go_on_from(attempt, checkpoint);
	}
	json_decref(intent);
}

/*
 * Starts a keeper once the image is present. An attempt that cannot run ends.
 */
static void
launch(LocalAttempt *attempt)
{
	json_t	   *intent = AttemptIntent(attempt->dir);
	const char *image = AttemptImage(intent);

	if (attempt->foreign != NULL)
		LogLine("event=foreign attempt=%s name=%s", attempt->tag,
				attempt->foreign);
	else if (image == NULL)
		start_keeper(attempt, intent);
	else if (!PullImage(attempt, intent))
		AttemptGone(attempt);
	json_decref(intent);
}

/*
 * Makes attempts that waited for their image wait again, when the agent
 * starts.
 */
void
AttemptsPullAgain(void)
{
	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (a->phase == PHASE_RUNS && !a->lost && a->foreign == NULL &&
			FileThere(a->dir, "pull") && !FileThere(a->dir, "start"))
			launch(a);
	}
}

/*
 * Starts an attempt whose image is present now.
 */
void
AttemptPulled(LocalAttempt *attempt)
{
	json_t	   *intent = AttemptIntent(attempt->dir);

	start_keeper(attempt, intent);
	json_decref(intent);
}

/*
 * Writes "start", then starts the keeper.
 */
static void
start_keeper(LocalAttempt *attempt, const json_t * intent)
{
	char	   *refused = LaunchWriteStart(attempt, intent);

	if (refused != NULL)
	{
		LogLine("event=not_started attempt=%s error=\"%s\"", attempt->tag,
				refused);
		AttemptWriteExit(attempt, refused);
		AttemptGone(attempt);
		return;
	}
	CrashPoint("start");
	attempt->keeper = LaunchKeeper(attempt);
	attempt->kept_until_ns = MonotonicNs() + KEEPER_STARTS;
	LogLine("event=start attempt=%s", attempt->tag);
}

/*
 * Builds the JSON of all that must survive the agent.
 */
static json_t *
intent_of(const Order *order)
{
	json_t	   *intent = json_object();
	json_t	   *spec = order->spec == NULL ? NULL :
		json_loads(order->spec, 0, NULL);
	char	   *name = folder_name(order->org, order->job, order->number);
	char	   *cgroup = *config.cgroup == '\0' ? Dup("") :
		Format("%s/%s", config.cgroup, name);

	json_object_set_new(intent, "org", json_string(order->org));
	json_object_set_new(intent, "job", json_integer(order->job));
	json_object_set_new(intent, "attempt", json_integer(order->number));
	json_object_set_new(intent, "gpus", json_string(order->gpus == NULL ?
													"{}" : order->gpus));
	json_object_set_new(intent, "share", json_string(order->share == NULL ?
													 "1000" : order->share));
	json_object_set_new(intent, "spec", spec == NULL ? json_object() : spec);
	json_object_set_new(intent, "placed_us", json_integer(order->placed_us));
	json_object_set_new(intent, "taken_ns", json_integer(MonotonicNs()));
	json_object_set_new(intent, "cpu_milli", json_integer(order->cpu_milli));
	json_object_set_new(intent, "memory_mib",
						json_integer(order->memory_mib));
	json_object_set_new(intent, "nodes", lines_of(order->nodes == NULL ?
												  config.node :
												  order->nodes));
	json_object_set_new(intent, "addresses", lines_of(order->addresses));
	json_object_set_new(intent, "node_gpus", numbers_of(order->node_gpus));
	json_object_set_new(intent, "account", json_string(order->account == NULL ?
													   "" : order->account));
	if (order->save_to != NULL)
		json_object_set_new(intent, "save_to", json_string(order->save_to));
	json_object_set_new(intent, "traceparent",
						order->traceparent == NULL ? json_null() :
						json_string(order->traceparent));
	json_object_set_new(intent, "boot_id", json_string(boot_id));
	json_object_set_new(intent, "cgroup", json_string(cgroup));
	free(name);
	free(cgroup);
	return intent;
}

/* Returns the lines of a text as an array, including empty lines. */
static json_t *
lines_of(const char *text)
{
	json_t	   *lines = json_array();

	while (text != NULL)
	{
		size_t		len = strcspn(text, "\n");

		json_array_append_new(lines, json_stringn(text, len));
		text = text[len] == '\0' ? NULL : text + len + 1;
	}
	return lines;
}

/* Returns the lines of a text, which are numbers, as an array. */
static json_t *
numbers_of(const char *text)
{
	json_t	   *lines = lines_of(text);
	json_t	   *numbers = json_array();
	size_t		i;
	json_t	   *line;

	json_array_foreach(lines, i, line)
		json_array_append_new(numbers,
							  json_integer(atoi(json_string_value(line))));
	json_decref(lines);
	return numbers;
}

/*
 * Returns the name of an attempt's folder. A digest replaces the
 * organisation's name, which may contain any characters.
 */
static char *
folder_name(const char *org, int64_t job, int number)
{
	uint64_t	hash = UINT64_C(14695981039346656037);

	for (const char *at = org; *at != '\0'; at++)
		hash = (hash ^ (unsigned char) *at) * UINT64_C(1099511628211);
	return Format("%016llx-%lld-%d", (unsigned long long) hash,
				  (long long) job, number);
}

/* Whether the agent settles the attempt after a stop for this reason. */
static bool
settles(const char *reason)
{
	return strcmp(reason, "over") != 0 && strcmp(reason, "unknown") != 0 &&
		strcmp(reason, "device_failed") != 0;
}

/*
 * Writes a command to the keeper (keeper.c). Returns false if the keeper is not
 * ready; then the next heartbeat repeats the order.
 */
bool
AttemptCommand(LocalAttempt *attempt, const char *format,...)
{
	char		line[128];
	int			len;
	va_list		args;

	va_start(args, format);
	len = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (attempt->foreign != NULL)
		return ForeignStop(attempt, line);
	return attempt->control >= 0 && write(attempt->control, line, len) == len;
}

/*
 * Records why the attempt must stop. The first reason is kept, as it is the
 * one that ends the attempt.
 */
static void
note_stop_reason(LocalAttempt *attempt, const char *reason)
{
	if (attempt->stop_reason != NULL)
		return;
	if (!FilePut(attempt->dir, "told", reason, strlen(reason)))
		return;
	attempt->stop_reason = Dup(reason);
	LogLine("event=told attempt=%s reason=%s", attempt->tag, reason);
}

/*
 * Tells everybody at a terminal of an attempt, once each time, that it ends as
 * idle at the time "ends" (UTC). NULL means that it is not about to.
 */
void
AttemptWarnIdle(LocalAttempt *attempt, const char *ends)
{
	char	   *text;
	int			fd;

	if (ends == NULL)
		attempt->idle_told = false;
	if (ends == NULL || attempt->idle_told || attempt->dir < 0)
		return;
	text = Format("\r\ngpucredit: the GPUs of this job are idle. It ends at %s"
				  " UTC unless they are used, or somebody types here.\r\n",
				  ends);
	fd = openat(attempt->dir, "notice", O_WRONLY | O_APPEND | O_CREAT |
				O_CLOEXEC, 0644);
	if (fd >= 0 && WriteAll(fd, text, strlen(text)))
		attempt->idle_told = true;
	else
		LogLine("event=no_notice attempt=%s error=\"%s\"", attempt->tag,
				strerror(errno));
	if (fd >= 0)
		close(fd);
	if (attempt->idle_told)
		LogLine("event=told_idle attempt=%s", attempt->tag);
	free(text);
}
