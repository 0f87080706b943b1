/*-------------------------------------------------------------------------
 *
 * sweep.c
 *		Upkeep, one item after the other; a failed item stops no other.
 *
 * Each item has its own subtransaction. The sweeps run with a lock_timeout of
 * 10 ms. If a row is locked, or its data raises an error, the item is undone,
 * and its organisation is left for the next sweep. A sweep begins no item once
 * half of deadlock_timeout has passed since the first, and waits for a row a
 * quarter of it at most. So a session that waits for the sweep's locks never
 * sees a deadlock in the sweep's own wait. The first item always runs, however
 * long its search took.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/subtransaction.h"
#include "job/sweep.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define SWEEP_MOST		1000	/* things a call */
#define SWEEP_MOST_MS	500
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
	Sweep		sweep = {.memory = CurrentMemoryContext};

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
	return SweepRunFor(sweep, SWEEP_MOST_MS, rows, step, context);
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
	MemoryContext before = CurrentMemoryContext;

	if (rows.n > 0 && sweep->until == 0)
		sweep->until = TimestampTzPlusMilliseconds(now,
												   Min(SWEEP_MOST_MS,
													   DeadlockTimeout / 2));
	until = Min(until, sweep->until);
	for (uint64 i = 0; i < rows.n; i++)
	{
		char	   *org = SqlText(rows, i, 1);
		bool		stuck = false;

		CHECK_FOR_INTERRUPTS();
		if (done >= SWEEP_MOST || now >= until)
			break;
		if (is_stuck(sweep, org))
		{
			sweep->skipped++;
			continue;
		}
		MemoryContextSwitchTo(each);
		switch (try_step(step, org, SqlInt8(rows, i, 2),
						 SqlInt4(rows, i, 3), context, &stuck))
		{
			case SWEEP_DONE:
				done++;
				break;
			case SWEEP_BUSY:
				sweep->skipped++;
				break;
			case SWEEP_IDLE:
				break;
		}
		if (stuck)
			leave(sweep, org);
		MemoryContextSwitchTo(before);
		MemoryContextReset(each);
		now = ClockSteady();
	}
	MemoryContextDelete(each);
	return done;
}

/*
 * Was an organisation left for the next sweep?
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
 * Leave an organisation for the next sweep.
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
 * Do one item, whole or not at all. stuck: leave its organisation for the next
 * sweep.
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
