/*-------------------------------------------------------------------------
 *
 * meter_batch.c
 *		Many heartbeats in one call.
 *
 * The inputs are deduplicated (the largest elapsed counts), sorted, and
 * applied by one statement that skips rows another transaction has locked:
 * those are answered from what is known, and their next heartbeat, being
 * cumulative, brings what this one did not.  One that names nothing real is
 * told to stop, and the others proceed.  One over a rate limit of its
 * account's is answered like a busy one: a tenant's limit is no other's
 * matter.
 *
 * Locks: attempts by key; for extensions hold, then buckets; never waits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/args.h"
#include "common/clock.h"
#include "common/errors.h"
#include "common/settings.h"
#include "entry/entry.h"
#include "job/meter.h"
#include "miscadmin.h"
#include "types/duration.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

ENTRY_POINT(meter_batch);

/* One input; those of the same attempt stand together after sorting. */
typedef struct Beat
{
	int			ordinal;		/* from 0 */
	Datum		org_datum;
	char	   *org;
	int64		job;
	int32		attempt;
	int64		elapsed;
	Datum		elapsed_datum;
	Datum		progress;
	bool		progress_null;
	Datum		utilization;
	bool		utilization_null;
	bool		limited;		/* over a rate limit: changes nothing */
	bool		answered;
	Answer		answer;
} Beat;

#define BEATS \
	" ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2)," \
	" pg_catalog.unnest($3), pg_catalog.unnest($4)," \
	" pg_catalog.unnest($7), pg_catalog.unnest($8))" \
	" AS u (org, job, attempt, elapsed, progress, utilization)"

SQL_STATEMENT(attempts_meter, SPI_OK_UPDATE_RETURNING,
			  "text[], bigint[], int[], interval[], timestamptz, interval,"
			  " bigint[], real[]",
			  "UPDATE gpucredit.attempt a SET"
			  METER_SET("l.elapsed", "l.progress", "l.utilization")
			  " FROM (SELECT a.ctid AS tid, u.elapsed, u.progress,"
			  "  u.utilization FROM" BEATS
			  "  JOIN gpucredit.attempt a ON a.org = u.org"
			  "  AND a.job = u.job AND a.attempt = u.attempt"
			  "  WHERE" METER_MATCH("u.elapsed")
			  "  FOR NO KEY UPDATE OF a SKIP LOCKED) l"
			  " WHERE a.ctid = l.tid RETURNING" ATTEMPT_COLUMNS);
SQL_STATEMENT(attempts_read, SPI_OK_SELECT, "text[], bigint[], int[]",
			  "SELECT" ATTEMPT_COLUMNS
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  " pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  " AS u (org, job, attempt) JOIN gpucredit.attempt a"
			  "  ON a.org = u.org AND a.job = u.job"
			  "  AND a.attempt = u.attempt");

static int	take_array(FunctionCallInfo fcinfo, int arg, const char *name,
					   Datum **elems, bool **nulls);
static int	take_beats(FunctionCallInfo fcinfo, Beat **beats);
static int	compare_beats(const void *a, const void *b);
static int	compare_keys(const Beat *a, const Beat *b);
static SqlArgs batch_args(Beat *beats, int n, bool unanswered, int nargs,
						  TimestampTz now);
static void answer_rows(Beat *beats, int n, SqlResult rows, TimestampTz now,
						bool accepted);
static Beat *find_beat(Beat *beats, int n, const Attempt *attempt);
static void put_answers(ReturnSetInfo *rsinfo, Beat *beats, int n);

Datum
call_meter_batch(PG_FUNCTION_ARGS)
{
	Beat	   *beats;
	int			n;
	TimestampTz now;
	SqlArgs		args;

	InitMaterializedSRF(fcinfo, 0);
	n = take_beats(fcinfo, &beats);
	qsort(beats, n, sizeof(Beat), compare_beats);

	SqlConnect();
	now = ClockNow();
	args = batch_args(beats, n, false, 8, now);
	answer_rows(beats, n, SqlRun(&attempts_meter, &args), now, true);
	args = batch_args(beats, n, true, 3, now);
	answer_rows(beats, n, SqlRun(&attempts_read, &args), now, false);
	put_answers((ReturnSetInfo *) fcinfo->resultinfo, beats, n);
	SqlFinish();
	return (Datum) 0;
}

/*
 * An array argument's elements.
 */
static int
take_array(FunctionCallInfo fcinfo, int arg, const char *name, Datum **elems,
		   bool **nulls)
{
	ArrayType  *array;
	int16		len;
	bool		byval;
	char		align;
	int			n;

	ArgNotNull(fcinfo, arg, name);
	array = PG_GETARG_ARRAYTYPE_P(arg);
	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must have one dimension", name),
				 errdetail("It has %d.", ARR_NDIM(array)),
				 errhint("Pass a plain array.")));
	get_typlenbyvalalign(ARR_ELEMTYPE(array), &len, &byval, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), len, byval, align, elems,
					  nulls, &n);
	return n;
}

/*
 * The inputs, checked.
 */
static int
take_beats(FunctionCallInfo fcinfo, Beat **beats)
{
	static const char *const names[] = {"org", "job", "attempt", "elapsed",
	"progress", "utilization"};
	Datum	   *elems[6] = {NULL};
	bool	   *nulls[6] = {NULL};
	int			n = 0;

	for (int arg = 0; arg < 6; arg++)
	{
		int			length;

		if (arg >= 4 && PG_ARGISNULL(arg))
			continue;
		length = take_array(fcinfo, arg, names[arg], &elems[arg],
							&nulls[arg]);
		if (arg == 0)
			n = length;
		if (length != n)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("arrays of unequal length"),
					 errdetail("\"org\" has %d elements, \"%s\" has %d.", n,
							   names[arg], length),
					 errhint("Pass one element per heartbeat in each.")));
	}

	*beats = MemoryContextAllocHuge(CurrentMemoryContext,
									sizeof(Beat) * (n + 1));
	for (int i = 0; i < n; i++)
	{
		Beat	   *beat = &(*beats)[i];

		CHECK_FOR_INTERRUPTS();
		for (int arg = 0; arg < 4; arg++)
		{
			if (nulls[arg][i])
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("\"%s\" has a null element", names[arg]),
						 errdetail("It is number %d.", i + 1),
						 errhint("Pass a value for each heartbeat.")));
		}
		beat->ordinal = i;
		beat->org_datum = elems[0][i];
		beat->org = TextDatumGetCString(elems[0][i]);
		beat->job = DatumGetInt64(elems[1][i]);
		beat->attempt = DatumGetInt32(elems[2][i]);
		beat->elapsed_datum = elems[3][i];
		beat->elapsed = DurationFromInterval(DatumGetIntervalP(elems[3][i]),
											 "elapsed");
		if (beat->elapsed < 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("\"elapsed\" must be 0 or more"),
					 errdetail("Element %d is %lld microseconds.", i + 1,
							   (long long) beat->elapsed),
					 errhint("Pass how long the attempt has run so far.")));
		beat->progress_null = nulls[4] == NULL || nulls[4][i];
		beat->progress = beat->progress_null ? (Datum) 0 : elems[4][i];
		beat->utilization_null = nulls[5] == NULL || nulls[5][i];
		if (!beat->utilization_null)
			MeterCheckUtilization(DatumGetFloat4(elems[5][i]));
		beat->utilization = beat->utilization_null ? (Datum) 0 : elems[5][i];
		beat->limited = !EntryAdmits(ENTRY_meter_batch, beat->org, beat->job);
		beat->answered = false;
	}
	return n;
}

/*
 * By key, then the largest elapsed first: that is the one that counts.
 */
static int
compare_beats(const void *a, const void *b)
{
	const Beat *ba = a;
	const Beat *bb = b;
	int			order = compare_keys(ba, bb);

	if (order != 0)
		return order;
	if (ba->elapsed != bb->elapsed)
		return ba->elapsed > bb->elapsed ? -1 : 1;
	return (ba->ordinal > bb->ordinal) - (ba->ordinal < bb->ordinal);
}

static int
compare_keys(const Beat *a, const Beat *b)
{
	int			order = strcmp(a->org, b->org);

	if (order != 0)
		return order;
	if (a->job != b->job)
		return a->job < b->job ? -1 : 1;
	return (a->attempt > b->attempt) - (a->attempt < b->attempt);
}

/*
 * The parameters of either statement: arrays of the beats that count.
 */
static SqlArgs
batch_args(Beat *beats, int n, bool unanswered, int nargs, TimestampTz now)
{
	Size		size = sizeof(Datum) * (n + 1);
	Datum	   *column[6];
	bool	   *nulls[6];
	static const Oid types[6] = {TEXTOID, INT8OID, INT4OID, INTERVALOID,
	INT8OID, FLOAT4OID};
	Datum		arrays[6];
	int			used = 0;
	SqlArgs		args = {0};

	for (int c = 0; c < 6; c++)
	{
		column[c] = MemoryContextAllocHuge(CurrentMemoryContext, size);
		nulls[c] = palloc0(n + 1);
	}
	for (int i = 0; i < n; i++)
	{
		if ((i > 0 && compare_keys(&beats[i - 1], &beats[i]) == 0) ||
			(unanswered ? beats[i].answered : beats[i].limited))
			continue;
		column[0][used] = beats[i].org_datum;
		column[1][used] = Int64GetDatum(beats[i].job);
		column[2][used] = Int32GetDatum(beats[i].attempt);
		column[3][used] = beats[i].elapsed_datum;
		column[4][used] = beats[i].progress;
		nulls[4][used] = beats[i].progress_null;
		column[5][used] = beats[i].utilization;
		nulls[5][used++] = beats[i].utilization_null;
	}
	for (int c = 0; c < 6; c++)
	{
		int16		len;
		bool		byval;
		char		align;
		int			lower = 1;

		get_typlenbyvalalign(types[c], &len, &byval, &align);
		arrays[c] = PointerGetDatum(construct_md_array(column[c], nulls[c], 1,
													   &used, &lower,
													   types[c], len, byval,
													   align));
	}
	for (int c = 0; c < Min(nargs, 4); c++)
		SqlArg(&args, arrays[c]);
	if (nargs > 4)
	{
		SqlArgTime(&args, now);
		SqlArgDuration(&args, SettingClockSkew());
		SqlArg(&args, arrays[4]);
		SqlArg(&args, arrays[5]);
	}
	return args;
}

/*
 * Answer the beats a statement returned rows for.
 */
static void
answer_rows(Beat *beats, int n, SqlResult rows, TimestampTz now,
			bool accepted)
{
	for (uint64 i = 0; i < rows.n; i++)
	{
		Attempt		attempt;
		Beat	   *beat;
		int64		most;

		CHECK_FOR_INTERRUPTS();
		AttemptFrom(rows, i, &attempt);
		beat = find_beat(beats, n, &attempt);
		Ensure(beat != NULL, "An attempt came back that was not asked for.");
		most = now - attempt.started_at + SettingClockSkew();
		beat->answer = accepted ? MeterAccepted(&attempt, beat->elapsed, now, false) :
			MeterUnchanged(&attempt, beat->elapsed, now);
		beat->answered = true;

		/* not late, not over: over a limit, or somebody else has the row */
		if (!accepted && attempt.ended_at == DT_NOBEGIN &&
			beat->answer.reason == NULL &&
			(Min(beat->elapsed, most) > attempt.elapsed || !attempt.running))
			beat->answer.reason = beat->limited ? "rate_limited" : "busy";
	}
	SqlFree(&rows);
}

/*
 * The beat that counts for an attempt: the first of its key.
 */
static Beat *
find_beat(Beat *beats, int n, const Attempt *attempt)
{
	Beat		key = {.org = attempt->org, .job = attempt->job,
		.attempt = attempt->attempt};
	int			low = 0;
	int			high = n;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (compare_keys(&beats[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n && compare_keys(&beats[low], &key) == 0 ?
		&beats[low] : NULL;
}

/*
 * A row per input, in the order given; duplicates are answered alike.
 */
static void
put_answers(ReturnSetInfo *rsinfo, Beat *beats, int n)
{
	static const Answer unknown = {"stop", "unknown", 0, 0, DT_NOEND, -1, false};
	Beat	  **ordered = MemoryContextAllocHuge(CurrentMemoryContext,
												 sizeof(Beat *) * (n + 1));

	for (int i = 0; i < n; i++)
	{
		if (i > 0 && compare_keys(&beats[i - 1], &beats[i]) == 0)
			beats[i].answer = beats[i - 1].answer;
		else if (!beats[i].answered)
			beats[i].answer = unknown;
		ordered[beats[i].ordinal] = &beats[i];
	}
	for (int i = 0; i < n; i++)
	{
		const Answer *answer = &ordered[i]->answer;
		Row			row = {0};

		CHECK_FOR_INTERRUPTS();
		RowAdd(&row, Int32GetDatum(i + 1));
		RowAdd(&row, ordered[i]->org_datum);
		RowAdd(&row, Int64GetDatum(ordered[i]->job));
		RowAdd(&row, Int32GetDatum(ordered[i]->attempt));
		RowText(&row, answer->action);
		RowText(&row, answer->reason);
		RowCredits(&row, answer->billed);
		RowCredits(&row, answer->held);
		RowTime(&row, answer->deadline);
		RowDuration(&row, answer->time_left);
		RowAdd(&row, BoolGetDatum(answer->save));
		RowPut(rsinfo, &row);
	}
}
