/*-------------------------------------------------------------------------
 *
 * failing.c
 *		Failed work of a worker, and when it is tried again.
 *
 * After a failure the next try waits a second; the wait is doubled with each
 * further failure in a row, up to a minute, and each failure is logged.  The
 * errors 40001 and 40P01 are normal with concurrency, so the worker retries at
 * once and logs nothing.  After MOST_RETRIES of them in a row, the next one
 * counts as a failure.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/log.h"
#include "worker/failing.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define FIRST_BACKOFF_MS	1000
#define LAST_BACKOFF_MS		60000
#define MOST_RETRIES		10

typedef struct Failing
{
	char	   *name;
	TimestampTz next_try;		/* 0 if it may be tried at any time */
	int			backoff_ms;
	int			retries;		/* number of retries in a row */
} Failing;

static Failing *
find(List *failing, const char *name)
{
	ListCell   *cell;

	foreach(cell, failing)
	{
		Failing    *one = lfirst(cell);

		if (strcmp(one->name, name) == 0)
			return one;
	}
	return NULL;
}

/* Finds the entry of this work, or adds one that may be tried at once. */
static Failing *
find_or_add(List **failing, const char *name)
{
	Failing    *one = find(*failing, name);

	if (one == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		one = palloc0(sizeof(Failing));
		one->name = pstrdup(name);
		one->backoff_ms = FIRST_BACKOFF_MS / 2;
		*failing = lappend(*failing, one);
		MemoryContextSwitchTo(old);
	}
	return one;
}

bool
FailingMayTry(List *failing, const char *name, TimestampTz now)
{
	const Failing *one = find(failing, name);

	return one == NULL || now >= one->next_try;
}

/*
 * Returns the pools whose next try is due.  These are all pools if reading the
 * list of pools is due.
 */
PoolSet
FailingDue(List *failing, TimestampTz now)
{
	PoolSet		due = 0;
	ListCell   *cell;

	foreach(cell, failing)
	{
		Failing    *one = lfirst(cell);

		if (one->next_try == 0 || now < one->next_try ||
			*one->name == SWEEP_MARK)
			continue;
		one->next_try = 0;
		due |= *one->name == '\0' ? ALL_POOLS : WakePoolSet(one->name);
	}
	return due;
}

/* Whether work that ended with 40001 or 40P01 may be retried at once. */
bool
FailingMayRetry(List *failing, const char *name)
{
	const Failing *one = find(failing, name);

	return one == NULL || one->retries < MOST_RETRIES;
}

/* Counts a retry after 40001 or 40P01. */
List *
FailingRetried(List *failing, const char *name)
{
	find_or_add(&failing, name)->retries++;
	return failing;
}

/* Records and logs a failure, and doubles the wait before the next try. */
List *
FailingFailed(List *failing, const char *name)
{
	Failing    *one = find_or_add(&failing, name);
	StringInfo	line;

	one->backoff_ms = Min(one->backoff_ms * 2, LAST_BACKOFF_MS);
	one->next_try = TimestampTzPlusMilliseconds(ClockSteady(),
												one->backoff_ms);
	line = LogBegin(*name == SWEEP_MARK ? "sweep_failed" : "cycle_failed");
	if (*name == SWEEP_MARK)
		LogText(line, "sweep", name + 1);
	else
		LogText(line, "pool", name);
	LogNumber(line, "retry_ms", one->backoff_ms);
	LogNow(line);
	return failing;
}

/* Removes the entry of work that has succeeded. */
List *
FailingOver(List *failing, const char *name)
{
	Failing    *one = find(failing, name);

	if (one == NULL)
		return failing;
	failing = list_delete_ptr(failing, one);
	pfree(one->name);
	pfree(one);
	return failing;
}
