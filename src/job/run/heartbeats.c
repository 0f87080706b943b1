/*-------------------------------------------------------------------------
 *
 * heartbeats.c
 *		The heartbeats that one call reports: parsed from arrays, checked,
 *		and deduplicated.
 *
 * If several heartbeats are for one attempt, the one with the largest elapsed
 * counts. The heartbeats that count are sorted by key, as in the index, and
 * are converted to arrays again for the statements.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "util/errors.h"
#include "api/api.h"
#include "job/run/heartbeats.h"
#include "miscadmin.h"
#include "types/duration.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

static int	parse_array(FunctionCallInfo fcinfo, int arg, const char *name,
						Datum **elems, bool **nulls);
static void parse_beat(AttemptBeat *beat, int i, Datum *const *elems,
					   bool *const *nulls);
static void count_beats(Beats *beats);
static int	compare_beats(const void *a, const void *b);
static int	compare_keys(const AttemptBeat *a, const AttemptBeat *b);
static void *many(Size size, int n);

/* Parses and checks the arguments. */
Beats
ParseHeartbeats(FunctionCallInfo fcinfo)
{
	static const char *const names[] = {"org", "job", "attempt", "elapsed",
	"progress", "utilization"};
	Datum	   *elems[6] = {NULL};
	bool	   *nulls[6] = {NULL};
	Beats		beats = {0};

	for (int arg = 0; arg < 6; arg++)
	{
		int			length;

		if (arg >= 4 && PG_ARGISNULL(arg))
			continue;
		length = parse_array(fcinfo, arg, names[arg], &elems[arg],
							 &nulls[arg]);
		if (arg == 0)
			beats.n = length;
		if (length != beats.n)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("\"org\" and \"%s\" are of unequal length",
							names[arg]),
					 errdetail("\"org\" has %d elements, \"%s\" has %d.",
							   beats.n, names[arg], length),
					 errhint("Pass one element per heartbeat in each.")));
	}

	beats.all = many(sizeof(AttemptBeat), beats.n);
	for (int i = 0; i < beats.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int arg = 0; arg < 4; arg++)
		{
			if (nulls[arg][i])
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("\"%s\" has a null element", names[arg]),
						 errdetail("It is element %d.", i + 1),
						 errhint("Pass a value for each heartbeat.")));
		}
		parse_beat(&beats.all[i], i, elems, nulls);
		beats.reported |= !beats.all[i].progress_null ||
			!beats.all[i].utilization_null;
	}
	count_beats(&beats);
	return beats;
}

/* Reads the elements of an array argument. Returns their number. */
static int
parse_array(FunctionCallInfo fcinfo, int arg, const char *name, Datum **elems,
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
				 errhint("Pass an array of one dimension.")));
	get_typlenbyvalalign(ARR_ELEMTYPE(array), &len, &byval, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), len, byval, align, elems,
					  nulls, &n);
	return n;
}

/* Reads one heartbeat from the elements of the arrays. */
static void
parse_beat(AttemptBeat *beat, int i, Datum *const *elems, bool *const *nulls)
{
	*beat = (AttemptBeat)
	{
		.org_datum = elems[0][i],
			.org = TextDatumGetCString(elems[0][i]),
			.job = DatumGetInt64(elems[1][i]),
			.attempt = DatumGetInt32(elems[2][i]),
			.elapsed_datum = elems[3][i],
			.elapsed = DurationFromInterval(DatumGetIntervalP(elems[3][i]),
											"elapsed"),
			.progress_null = nulls[4] == NULL || nulls[4][i],
			.utilization_null = nulls[5] == NULL || nulls[5][i]
	};
	if (beat->elapsed < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"elapsed\" must be 0 or more"),
				 errdetail("Element %d is %s.", i + 1,
						   DurationToCString(beat->elapsed)),
				 errhint("Pass how long the attempt has run so far.")));
	if (!beat->progress_null)
		beat->progress = elems[4][i];
	if (!beat->utilization_null)
		beat->utilization =
			Float4GetDatum(MeterUtilization(DatumGetFloat8(elems[5][i])));
}

/* Determines which heartbeats count. */
static void
count_beats(Beats *beats)
{
	AttemptBeat **sorted = many(sizeof(AttemptBeat *), beats->n);

	for (int i = 0; i < beats->n; i++)
		sorted[i] = &beats->all[i];
	qsort(sorted, beats->n, sizeof(AttemptBeat *), compare_beats);
	for (int i = 0; i < beats->n; i++)
	{
		AttemptBeat *beat = sorted[i];
		AttemptBeat *before = beats->n_counting > 0 ?
			sorted[beats->n_counting - 1] : NULL;

		if (before != NULL && compare_keys(before, beat) == 0)
			beat->counts = before;
		else
			sorted[beats->n_counting++] = beat->counts = beat;
	}
	beats->counting = sorted;
}

/*----------
 * The order of heartbeats, of which only the first of each attempt counts:
 *
 * 1. attempt (compare_keys());
 * 2. elapsed time, the longest first;
 * 3. place in the argument.
 *----------
 */
static int
compare_beats(const void *a, const void *b)
{
	const AttemptBeat *ba = *(AttemptBeat *const *) a;
	const AttemptBeat *bb = *(AttemptBeat *const *) b;
	int			order = compare_keys(ba, bb);

	if (order != 0)
		return order;
	if (ba->elapsed != bb->elapsed)
		return ba->elapsed > bb->elapsed ? -1 : 1;
	return (ba > bb) - (ba < bb);
}

/*----------
 * The order of attempts, in which their rows are locked, too:
 *
 * 1. organisation;
 * 2. number of the job;
 * 3. number of the attempt.
 *----------
 */
static int
compare_keys(const AttemptBeat *a, const AttemptBeat *b)
{
	int			order = strcmp(a->org, b->org);

	if (order != 0)
		return order;
	if (a->job != b->job)
		return a->job < b->job ? -1 : 1;
	return (a->attempt > b->attempt) - (a->attempt < b->attempt);
}

/* Allocates an array that may be larger than palloc allows. */
static void *
many(Size size, int n)
{
	return MemoryContextAllocHuge(CurrentMemoryContext, size * (n + 1));
}

/*
 * Lists the heartbeats that count and pass a test, sorted by key. Returns
 * their number. The list has room for all heartbeats that count.
 */
int
BeatsPick(const Beats *beats, BeatTest test, AttemptBeat **picked)
{
	int			n = 0;

	for (int i = 0; i < beats->n_counting; i++)
	{
		if (test(beats->counting[i]))
			picked[n++] = beats->counting[i];
	}
	return n;
}

/* Adds three parameters: arrays of organisations, jobs and attempts. */
void
BeatsArgKeys(Values *args, AttemptBeat *const *beats, int n)
{
	Datum	   *column = many(sizeof(Datum), n);

	for (int i = 0; i < n; i++)
		column[i] = beats[i]->org_datum;
	ValuesAdd(args, ArrayValue(column, NULL, n, TEXTOID));
	for (int i = 0; i < n; i++)
		column[i] = Int64GetDatum(beats[i]->job);
	ValuesAdd(args, ArrayValue(column, NULL, n, INT8OID));
	for (int i = 0; i < n; i++)
		column[i] = Int32GetDatum(beats[i]->attempt);
	ValuesAdd(args, ArrayValue(column, NULL, n, INT4OID));
	pfree(column);
}

/* Adds a parameter: an array of elapsed times. */
void
BeatsArgElapsed(Values *args, AttemptBeat *const *beats, int n)
{
	Datum	   *column = many(sizeof(Datum), n);

	for (int i = 0; i < n; i++)
		column[i] = beats[i]->elapsed_datum;
	ValuesAdd(args, ArrayValue(column, NULL, n, INTERVALOID));
	pfree(column);
}

/*
 * Adds two parameters: arrays of progress and utilization, with null where
 * they are not reported.
 */
void
HeartbeatsArgReported(Values *args, AttemptBeat *const *beats, int n)
{
	Datum	   *column = many(sizeof(Datum), n);
	bool	   *nulls = many(sizeof(bool), n);

	for (int i = 0; i < n; i++)
	{
		column[i] = beats[i]->progress;
		nulls[i] = beats[i]->progress_null;
	}
	ValuesAdd(args, ArrayValue(column, nulls, n, INT8OID));
	for (int i = 0; i < n; i++)
	{
		column[i] = beats[i]->utilization;
		nulls[i] = beats[i]->utilization_null;
	}
	ValuesAdd(args, ArrayValue(column, nulls, n, FLOAT4OID));
	pfree(column);
	pfree(nulls);
}

/* Finds the heartbeat that counts for an attempt. */
AttemptBeat *
BeatsFind(const Beats *beats, const Attempt *attempt)
{
	AttemptBeat key = {.org = attempt->org, .job = attempt->job,
		.attempt = attempt->attempt};
	int			low = 0;
	int			high = beats->n_counting;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (compare_keys(beats->counting[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	Ensure(low < beats->n_counting &&
		   compare_keys(beats->counting[low], &key) == 0,
		   "An attempt came back that was not asked for.");
	return beats->counting[low];
}
