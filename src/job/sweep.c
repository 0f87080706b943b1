/*-------------------------------------------------------------------------
 *
 * sweep.c
 *		Upkeep that handles one item after the other. A failed item stops
 *		no other item.
 *
 * Each item has its own subtransaction, which waits for a lock for 10 ms. If a
 * row is locked, or its data raises an error, the item is rolled back and left
 * for the next sweep. The other items of its organisation probably need the
 * same lock, so they come after the items of all other organisations. Their
 * order begins at a random item. Thus no organisation keeps another one
 * waiting, and no item can keep the others of its organisation from being
 * tried.
 *
 * A sweep begins no item once gpucredit.upkeep_time, half of deadlock_timeout
 * or the process's own limit has passed since the first item. It waits for a
 * lock for a quarter of deadlock_timeout at most. So a session that waits for
 * the sweep's locks never finds a deadlock that the sweep's own wait caused.
 * The first item always runs, however long the search for items took.
 *
 * The search itself reads without row locks. It may wait that quarter for a
 * table, because a vacuum that truncates the table locks it as a whole for some
 * milliseconds.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/settings.h"
#include "util/subtransaction.h"
#include "job/sweep.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define SWEEP_MOST		1000	/* how many items one run handles at most */
#define ITEM_WAIT_MS	10		/* how long an item waits for one lock */
#define SEARCH_WAIT_MS	INT_MAX /* how long the search for items waits; no
								 * longer than set_lock_timeout() permits */

/* one step of a sweep, and its result */
typedef struct Step
{
	SweepStep	step;
	const char *org;
	int64		id;
	int32		number;
	const void *context;
	SweepResult result;
} Step;

/*
 * how long after the first item the sweeps of this process begin another one,
 * in milliseconds
 */
static int	locks_ms = INT_MAX;

static bool run_item(Sweep *sweep, SqlResult rows, uint64 i, SweepStep step,
					 const void *context, MemoryContext each);
static void set_lock_timeout(int ms);
static bool is_stuck(const Sweep *sweep, const char *org);
static void leave(Sweep *sweep, const char *org);
static SweepResult try_step(SweepStep step, const char *org, int64 id,
							int32 number, const void *context,
							bool *stuck);
static bool do_step(void *context);
static char *failed_line(const char *org, int64 id, const ErrorData *error);
static bool goes_on(const ErrorData *error);

/*
 * Begins a sweep. If the server is read-only, the sweep is refused as a whole,
 * because otherwise the error of each item would be reported as bad data.
 */
Sweep
SweepBegin(void)
{
	Sweep		sweep = {.memory = CurrentMemoryContext, .begun = ClockSteady(),
		.wait_ms = ITEM_WAIT_MS};

	PreventCommandIfReadOnly("upkeep");
	set_lock_timeout(SEARCH_WAIT_MS);
	return sweep;
}

/*
 * Limits how long the sweeps of this process keep locks: they begin no item
 * once the given time has passed since their first one.
 */
void
SweepLocksFor(int ms)
{
	locks_ms = ms;
}

/* Sets the longest wait for a lock, until the caller's settings end. */
static void
set_lock_timeout(int ms)
{
	char	   *timeout = psprintf("%dms",
								   Max(1, Min(ms, DeadlockTimeout / 4)));

	(void) set_config_option("lock_timeout", timeout, PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	pfree(timeout);
}

/*
 * Handles the rows of a result while there is time. Returns how many items
 * were done.
 */
int64
SweepRun(Sweep *sweep, SqlResult rows, SweepStep step, const void *context)
{
	return SweepRunFor(sweep, SettingUpkeepTime(), rows, step, context);
}

/* Whether the sweep has time to search for further items. */
bool
SweepGoesOn(const Sweep *sweep)
{
	TimestampTz until = sweep->until != 0 ? sweep->until :
		TimestampTzPlusMilliseconds(sweep->begun, SettingUpkeepTime());

	return ClockSteady() < until;
}

/*
 * Does the same as SweepRun(), but begins no item after the given number of
 * milliseconds.
 */
int64
SweepRunFor(Sweep *sweep, int ms, SqlResult rows, SweepStep step,
			const void *context)
{
	int64		done = 0;
	TimestampTz now = ClockSteady();
	TimestampTz until = TimestampTzPlusMilliseconds(now, ms);
	MemoryContext each = AllocSetContextCreate(CurrentMemoryContext,
											   "gpucredit sweep",
											   ALLOCSET_DEFAULT_SIZES);
	uint64	   *later = palloc(sizeof(uint64) * (rows.n + 1));
	uint64		nlater = 0;
	uint64		first;

	if (rows.n > 0 && sweep->until == 0)
		sweep->until = TimestampTzPlusMilliseconds(now,
												   Min(SettingUpkeepTime(),
													   Min(locks_ms,
														   DeadlockTimeout / 2)));
	until = Min(until, sweep->until);
	for (uint64 i = 0; i < rows.n && done < SWEEP_MOST && now < until; i++)
	{
		if (is_stuck(sweep, SqlText(rows, i, 1)))
			later[nlater++] = i;
		else
			done += run_item(sweep, rows, i, step, context, each);
		now = ClockSteady();
	}
	first = nlater == 0 ? 0 : (uint64) now % nlater;
	for (uint64 i = 0; i < nlater && done < SWEEP_MOST && now < until; i++)
	{
		done += run_item(sweep, rows, later[(first + i) % nlater], step,
						 context, each);
		now = ClockSteady();
	}
	pfree(later);
	MemoryContextDelete(each);
	return done;
}

/* Handles the item of one row. Returns whether it is done. */
static bool
run_item(Sweep *sweep, SqlResult rows, uint64 i, SweepStep step,
		 const void *context, MemoryContext each)
{
	const char *org = SqlText(rows, i, 1);
	MemoryContext before = MemoryContextSwitchTo(each);
	bool		stuck = false;
	SweepResult result;

	CHECK_FOR_INTERRUPTS();
	set_lock_timeout(sweep->wait_ms);
	result = try_step(step, org, SqlInt8(rows, i, 2), SqlInt4(rows, i, 3),
					  context, &stuck);
	if (result == SWEEP_BUSY)
		sweep->skipped++;
	if (stuck && !is_stuck(sweep, org))
		leave(sweep, org);
	set_lock_timeout(SEARCH_WAIT_MS);
	MemoryContextSwitchTo(before);
	MemoryContextReset(each);
	return result == SWEEP_DONE;
}

/*
 * Whether an item of the organisation has failed in this sweep, for example
 * because a row was locked.
 */
static bool
is_stuck(const Sweep *sweep, const char *org)
{
	for (int i = 0; i < sweep->nstuck; i++)
	{
		if (strcmp(sweep->stuck[i], org) == 0)
			return true;
	}
	return false;
}

/*
 * Postpones the organisation's other items behind those of all other
 * organisations.
 */
static void
leave(Sweep *sweep, const char *org)
{
	Size		size = sizeof(char *) * (sweep->nstuck + 1);

	sweep->stuck = sweep->nstuck == 0 ?
		MemoryContextAlloc(sweep->memory, size) :
		repalloc(sweep->stuck, size);
	sweep->stuck[sweep->nstuck++] = org;
}

/*
 * Handles one item outside a sweep, but in the same way: it hardly waits for
 * locks, and a failed item is rolled back as a whole.
 */
SweepResult
SweepOnce(SweepStep step, const char *org, int64 id, int32 number,
		  const void *context)
{
	int			level = NewGUCNestLevel();
	bool		stuck = false;
	SweepResult result;

	set_lock_timeout(ITEM_WAIT_MS);
	result = try_step(step, org, id, number, context, &stuck);
	AtEOXact_GUC(true, level);
	return result;
}

/*
 * Handles one item in a subtransaction, which is rolled back if it fails. Sets
 * *stuck if the item failed, so that other items of its organisation come
 * last.
 */
static SweepResult
try_step(SweepStep step, const char *org, int64 id, int32 number,
		 const void *context, bool *stuck)
{
	Step		one = {step, org, id, number, context, SWEEP_BUSY};
	ErrorData  *error;

	(void) SubtransactionTry(do_step, &one, &error);
	if (error == NULL)
		return one.result;
	if (!goes_on(error))
		ReThrowError(error);
	if (error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE &&
		error->sqlerrcode != ERRCODE_T_R_DEADLOCK_DETECTED)
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("upkeep of organisation \"%s\" failed: %s", org,
						error->message),
				 errdetail("It failed at item %lld; other organisations were "
						   "not affected.", (long long) id),
				 errdetail_log("%s", failed_line(org, id, error)),
				 errhint("Run gpucredit.verify() to see what is wrong.")));
	*stuck = true;
	return SWEEP_BUSY;
}

static bool
do_step(void *context)
{
	Step	   *one = context;

	one->result = one->step(one->org, one->id, one->number, one->context);
	return true;
}

/* Formats the error of a failed item as a line of the server's log. */
static char *
failed_line(const char *org, int64 id, const ErrorData *error)
{
	StringInfo	line = LogBegin("sweep_failed");

	LogText(line, "org", org);
	LogNumber(line, "id", id);
	LogText(line, "sqlstate", unpack_sql_state(error->sqlerrcode));
	return line->data;
}

/*
 * Whether the sweep may continue after an error. It may not if the transaction
 * must end or the machine fails.
 */
static bool
goes_on(const ErrorData *error)
{
	switch (ERRCODE_TO_CATEGORY(error->sqlerrcode))
	{
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_SYSTEM_ERROR:
			return false;
		default:
			return error->sqlerrcode != ERRCODE_T_R_SERIALIZATION_FAILURE;
	}
}
