/*-------------------------------------------------------------------------
 *
 * watch.c
 *		Keeps a list of the API server's objects up to date.
 *
 * It lists the objects, then watches from the list's version. When the stream
 * ends, it watches from the last version seen. It lists again only if the
 * server no longer has the events since that version (410).
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "clock.h"
#include "document.h"
#include "log.h"
#include "memory.h"
#include "watch.h"

#define STREAM_S		60
#define MOST_LINE		(16 * 1024 * 1024)
#define CATCH_UP_NS		(2 * NS_PER_S)
#define KUBELETS_NS		(60 * NS_PER_S) /* time within which kubelets repeat
										 * their reports */

static void begin_list(KubeWatch *watch);
static void listed(long status, json_t * body, void *context);
static void note_gap(KubeWatch *watch, int64_t until);
static void begin_stream(KubeWatch *watch);
static bool streamed(const char *data, size_t len, void *context);
static bool apply_event(KubeWatch *watch, const char *text, size_t len);
static void stream_ended(long status, json_t * body, void *context);
static void pause_after_failure(KubeWatch *watch);
static void remember(KubeWatch *watch, const char *version);

/*
 * Makes the next call, if none is under way.
 */
void
WatchWork(KubeWatch *watch)
{
	if (watch->stage != WATCH_PAUSES || MonotonicNs() < watch->again_ns)
		return;
	if (watch->version == NULL || watch->more != NULL)
		begin_list(watch);
	else
		begin_stream(watch);
}

/*
 * Returns the time up to which all events are known: now, or after a gap the
 * time when the gap began.
 */
int64_t
WatchKnownNs(const KubeWatch *watch)
{
	int64_t		now = MonotonicNs();

	if (watch->stage == WATCH_STREAMS)
		return now > watch->behind_ns ? now : watch->gap_ns;
	return watch->heard_ns;
}

/*
 * Returns the time up to which kubelets' reports are known: now, except for a
 * while after a gap.
 */
int64_t
WatchReportedNs(const KubeWatch *watch)
{
	int64_t		known = WatchKnownNs(watch);

	return MonotonicNs() <= watch->late_until_ns &&
		watch->reported_ns < known ? watch->reported_ns : known;
}

/*
 * Requests the list, or its next page.
 */
static void
begin_list(KubeWatch *watch)
{
	char	   *path = watch->more == NULL ?
		Format("%s?limit=500", watch->path) :
		Format("%s?limit=500&continue=%s", watch->path, watch->more);

	if (watch->more == NULL)
	{
		watch->mark();
		watch->list_ns = MonotonicNs();
	}
	watch->stage = WATCH_LISTS;
	ApiCall("GET", path, API_JSON, NULL, listed, watch);
	free(path);
}

/*
 * Handles a page of the list.
 */
static void
listed(long status, json_t * body, void *context)
{
	KubeWatch  *watch = context;
	json_t	   *item;
	size_t		i;
	const char *more = DocumentText(body, "metadata", "continue");
	const char *version = DocumentText(body, "metadata", "resourceVersion");

	watch->stage = WATCH_PAUSES;
	free(watch->more);
	watch->more = NULL;
	if (status != 200 || version == NULL)
	{
		remember(watch, NULL);
		LogLine("event=list_failed path=%s status=%ld error=\"%.200s\"",
				watch->path, status, ApiProblem(body));
		pause_after_failure(watch);
		return;
	}
	json_array_foreach(json_object_get(body, "items"), i, item)
	{
		watch->put(item);
	}
	remember(watch, version);
	watch->failures = 0;
	if (more != NULL && *more != '\0')
		watch->more = Dup(more);
	else
	{
		watch->sweep();
		if (watch->complete)
			note_gap(watch, watch->list_ns);
		watch->complete = true;
		watch->heard_ns = watch->list_ns;
	}
}

/*
 * Records that nothing was received until an instant. If the API server was
 * unreachable, kubelets could not report to it either, and need about as long
 * to repeat their reports.
 */
static void
note_gap(KubeWatch *watch, int64_t until)
{
	int64_t		gap = until - watch->heard_ns;

	if (gap <= NS_PER_S)
		return;
	if (until > watch->late_until_ns)
		watch->reported_ns = watch->heard_ns;
	watch->late_until_ns = until + (gap < CATCH_UP_NS ? CATCH_UP_NS :
									gap > KUBELETS_NS ? KUBELETS_NS : gap);
}

/*
 * Starts to watch from the last version that was seen.
 */
static void
begin_stream(KubeWatch *watch)
{
	char	   *path = Format("%s?watch=1&allowWatchBookmarks=true"
							  "&timeoutSeconds=%d&resourceVersion=%s",
							  watch->path, STREAM_S, watch->version);

	/* Events from the time between two streams arrive first. */
	if (MonotonicNs() - watch->heard_ns > NS_PER_S)
	{
		watch->behind_ns = MonotonicNs() + CATCH_UP_NS;
		watch->gap_ns = watch->heard_ns;
		note_gap(watch, MonotonicNs());
	}
	watch->stage = WATCH_STREAMS;
	watch->len = 0;
	ApiStream(path, STREAM_S + 15, streamed, stream_ended, watch);
	free(path);
}

/*
 * Handles a piece of the stream. Each line is an event.
 */
static bool
streamed(const char *data, size_t len, void *context)
{
	KubeWatch  *watch = context;
	char	   *end;

	watch->heard_ns = MonotonicNs();
	if (watch->len + len > MOST_LINE)
		return false;
	if (watch->len + len > watch->room)
	{
		watch->room = 2 * (watch->len + len);
		watch->line = realloc(watch->line, watch->room);
		if (watch->line == NULL)
			Die("out of memory");
	}
	memcpy(watch->line + watch->len, data, len);
	watch->len += len;
	while ((end = memchr(watch->line, '\n', watch->len)) != NULL)
	{
		size_t		n = end - watch->line;
		bool		good = apply_event(watch, watch->line, n);

		watch->len -= n + 1;
		memmove(watch->line, end + 1, watch->len);
		if (!good)
			return false;
	}
	return true;
}

/*
 * Applies an event. Returns false if the stream cannot be used any longer.
 */
static bool
apply_event(KubeWatch *watch, const char *text, size_t len)
{
	json_t	   *event = json_loadb(text, len, 0, NULL);
	json_t	   *object = json_object_get(event, "object");
	const char *type = DocumentText(event, "type");
	const char *version = DocumentText(object, "metadata", "resourceVersion");
	bool		good = type != NULL && version != NULL &&
		strcmp(type, "ERROR") != 0;

	if (good)
	{
		watch->failures = 0;
		if (strcmp(type, "DELETED") == 0)
			watch->drop(object);
		else if (strcmp(type, "BOOKMARK") != 0)
			watch->put(object);
		remember(watch, version);
	}
	else if (json_integer_value(json_object_get(object, "code")) == 410)
		remember(watch, NULL);
	json_decref(event);
	return good;
}

/*
 * Handles the end of the stream, which occurs regularly.
 */
static void
stream_ended(long status, json_t * body, void *context)
{
	KubeWatch  *watch = context;

	(void) body;
	watch->stage = WATCH_PAUSES;
	if (status == 200)
		watch->heard_ns = MonotonicNs();
	if (status == 410)
		remember(watch, NULL);
	if (watch->version == NULL)
		LogLine("event=watch_expired path=%s", watch->path);
	if (status == 200 || watch->version == NULL)
		watch->again_ns = MonotonicNs() + 20 * NS_PER_MS;
	else
		pause_after_failure(watch);
}

static void
pause_after_failure(KubeWatch *watch)
{
	int			doubling = watch->failures < 6 ? watch->failures++ : 6;

	watch->again_ns = MonotonicNs() + (100 * NS_PER_MS << doubling);
}

static void
remember(KubeWatch *watch, const char *version)
{
	char	   *copy = Dup(version);

	free(watch->version);
	watch->version = copy;
}
