/*-------------------------------------------------------------------------
 *
 * sweep.c
 *		Upkeep, one item after the other; a failed item stops no other.
 *
 * Each item has its own subtransaction. The sweeps run with a lock_timeout of
 * 10 ms. If a row is locked, or its data raises an error, the item is undone
 * and left for the next sweep. The other items of its organisation probably
 * need the same lock, so they come after those of all other organisations, in
 * an order that begins at a random one: no organisation keeps another waiting,
 * and none of its items keeps the others from their turn.
 *
 * A sweep begins no item once gpucredit.upkeep_time or half of
 * deadlock_timeout has passed since the first, and waits for a row a quarter
 * of the latter at most. So a session that waits for the sweep's locks never
 * sees a deadlock in the sweep's own wait. The first item always runs, however
 * long its search took.
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

#define SWEEP_MOST		1000	/* things a run */
#define SWEEP_WAIT_MS	10		/* for one row */

/* A step of a sweep, and what came of it. */
typedef struct Step
{
	SweepStep	step;
	const char *org;
	int64		id;
	int32		number;
	const void *context;
	SweepResult result;
} Step;

static bool run_item(Sweep *sweep, SqlResult rows, uint64 i, SweepStep step,
					 const void *context, MemoryContext each);
static bool is_stuck(const Sweep *sweep, const char *org);
static void leave(Sweep *sweep, const char *org);
static SweepResult try_step(SweepStep step, const char *org, int64 id,
							int32 number, const void *context,
							bool *stuck);
static bool do_step(void *context);
static char *failed_line(const char *org, int64 id, const ErrorData *error);
static bool goes_on(const ErrorData *error);

/*
 * Begin a sweep. If the server is read-only, refuse the sweep as a whole: each
 * item's error would look like bad data.
 */
Sweep
SweepBegin(void)
{
	Sweep		sweep = {.memory = CurrentMemoryContext, .begun = ClockSteady()};

	PreventCommandIfReadOnly("upkeep");
	SweepWait(SWEEP_WAIT_MS);
	return sweep;
}

/*
 * Until the caller's settings end, wait for a row for so long at most.
 */
void
SweepWait(int ms)
{
	char	   *timeout = psprintf("%dms",
								   Max(1, Min(ms, DeadlockTimeout / 4)));

	(void) set_config_option("lock_timeout", timeout, PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	pfree(timeout);
}

/*
 * Do rows while there is time; returns how many were done.
 */
int64
SweepRun(Sweep *sweep, SqlResult rows, SweepStep step, const void *context)
{
	return SweepRunFor(sweep, SettingUpkeepTime(), rows, step, context);
}

/*
 * May the sweep search for further items?
 */
bool
SweepGoesOn(const Sweep *sweep)
{
	TimestampTz until = sweep->until != 0 ? sweep->until :
		TimestampTzPlusMilliseconds(sweep->begun, SettingUpkeepTime());

	return ClockSteady() < until;
}

/*
 * The same, for so long at most.
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
													   DeadlockTimeout / 2));
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

/*
 * Do one row. True: it is done.
 */
static bool
run_item(Sweep *sweep, SqlResult rows, uint64 i, SweepStep step,
		 const void *context, MemoryContext each)
{
	const char *org = SqlText(rows, i, 1);
	MemoryContext before = MemoryContextSwitchTo(each);
	bool		stuck = false;
	SweepResult result;

	CHECK_FOR_INTERRUPTS();
	result = try_step(step, org, SqlInt8(rows, i, 2), SqlInt4(rows, i, 3),
					  context, &stuck);
	if (result == SWEEP_BUSY)
		sweep->skipped++;
	if (stuck && !is_stuck(sweep, org))
		leave(sweep, org);
	MemoryContextSwitchTo(before);
	MemoryContextReset(each);
	return result == SWEEP_DONE;
}

/*
 * Was a lock of the organisation not free in this sweep?
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
 * Have the organisation's other items come last.
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
 * Do one item outside a sweep, in the same way: without waiting, whole or not
 * at all.
 */
SweepResult
SweepOnce(SweepStep step, const char *org, int64 id, int32 number,
		  const void *context)
{
	int			level = NewGUCNestLevel();
	bool		stuck = false;
	SweepResult result;

	SweepWait(SWEEP_WAIT_MS);
	result = try_step(step, org, id, number, context, &stuck);
	AtEOXact_GUC(true, level);
	return result;
}

/*
 * Do one item, whole or not at all. stuck: other items of its organisation
 * should come last.
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

/*
 * The same for the log.
 */
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
 * May the sweep go on after an error? Not if the transaction must end, or the
 * machine fails.
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
