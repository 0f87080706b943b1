/*-------------------------------------------------------------------------
 *
 * meter_batch.c
 *		SQL function meter_batch: many heartbeats in one call.
 *
 * The arguments are deduplicated and sorted (heartbeats.c). The statements
 * skip rows that other transactions have locked. Heartbeats for such rows are
 * answered from what is known; as heartbeats are cumulative, the next one
 * makes up for them. An unknown attempt is ordered to stop. An attempt whose
 * account has reached its rate limit is answered like one with a locked row,
 * so that a tenant's limit does not concern others in the same call.
 *
 * Most heartbeats are ordinary: they advance a running attempt, and nothing
 * has to be cut. One statement that reads few columns applies those, and
 * another one applies all others. Both find the rows by key, lock them, and
 * change them by location.
 *
 * The sets are unnested in the target list, which costs half as much as
 * functions in FROM, because those store all rows. The subquery within the
 * join keeps the planner from carrying whole rows along for the lock.
 *
 * Locks: attempts by key; for extensions the hold, then buckets. Never waits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "util/async_commit.h"
#include "util/clock.h"
#include "util/settings.h"
#include "api/api.h"
#include "job/run/heartbeats.h"
#include "miscadmin.h"
#include "types/duration.h"
#include "utils/memutils.h"

API_FUNCTION(gpucredit_meter_batch, meter_batch);

/* the heartbeats that one statement applies, and where its rows are stored */
typedef struct Pass
{
	AttemptBeat **beats;
	int			n;
	Attempt    *attempts;		/* for ordinary heartbeats an array with one
								 * element for each, otherwise NULL */
} Pass;

#define KEYS \
	" pg_catalog.unnest($1) AS org, pg_catalog.unnest($2) AS job," \
	" pg_catalog.unnest($3) AS attempt"
#define KEYS_MATCH " a.org = u.org AND a.job = u.job AND a.attempt = u.attempt"

/*
 * OFFSET 0 makes the statement lock the rows before it joins them to the rows
 * that it changes.
 */
#define BEAT_TYPES \
	"text[], bigint[], int[], interval[], timestamptz, timestamptz[]," \
	" interval[], int[]"
#define BEAT(sets, columns, column_names) \
	"UPDATE gpucredit.attempt a SET elapsed = l.elapsed + a.overhead," \
	" heard_at = $5," sets \
	" logged = CASE WHEN a.logged <= l.log_from + a.overhead" \
	"  THEN l.elapsed + a.overhead ELSE a.logged END" \
	" FROM (SELECT k.tid, u.elapsed, u.log_from, u.place" column_names \
	"  FROM (SELECT" KEYS ", pg_catalog.unnest($4) AS elapsed," \
	"   pg_catalog.unnest($6) AS started_by," \
	"   pg_catalog.unnest($7) AS log_from," \
	"   pg_catalog.unnest($8) AS place" columns ") u" \
	"  CROSS JOIN LATERAL (SELECT a.ctid AS tid FROM gpucredit.attempt a" \
	"   WHERE" KEYS_MATCH " AND a.ended_at IS NULL" \
	"   AND a.running_at IS NOT NULL AND a.elapsed < u.elapsed + a.overhead" \
	"   AND a.started_at <= u.started_by - a.overhead" \
	"   FOR NO KEY UPDATE OF a SKIP LOCKED) k OFFSET 0) l" \
	" WHERE a.ctid = l.tid RETURNING" ATTEMPT_COLUMNS ", l.place"
SQL_STATEMENT(attempts_beat, SPI_OK_UPDATE_RETURNING, BEAT_TYPES,
			  BEAT("", "", ""));
SQL_STATEMENT(attempts_beat_reported, SPI_OK_UPDATE_RETURNING,
			  BEAT_TYPES ", bigint[], real[]",
			  BEAT(" progress_at = " METER_PROGRESS("l.progress") ","
				   " progress = COALESCE(l.progress, a.progress),"
				   " utilization = COALESCE(l.utilization, a.utilization),"
				   METER_IDLE_SET("l.utilization") ",",
				   ", pg_catalog.unnest($9) AS progress,"
				   " pg_catalog.unnest($10) AS utilization",
				   ", u.progress, u.utilization"));
SQL_STATEMENT(attempts_meter, SPI_OK_UPDATE_RETURNING,
			  "text[], bigint[], int[], interval[], timestamptz, interval,"
			  " bigint[], real[], interval",
			  "UPDATE gpucredit.attempt a SET"
			  METER_SET("l.elapsed", "l.progress", "l.utilization", "$9")
			  " FROM (SELECT k.tid, u.elapsed, u.progress, u.utilization"
			  "  FROM (SELECT" KEYS ", pg_catalog.unnest($4) AS elapsed,"
			  "   pg_catalog.unnest($7) AS progress,"
			  "   pg_catalog.unnest($8) AS utilization) u"
			  "  CROSS JOIN LATERAL (SELECT a.ctid AS tid"
			  "   FROM gpucredit.attempt a WHERE" KEYS_MATCH " AND"
			  METER_MATCH("u.elapsed", "$9")
			  "   FOR NO KEY UPDATE OF a SKIP LOCKED) k OFFSET 0) l"
			  " WHERE a.ctid = l.tid RETURNING" ATTEMPT_COLUMNS);
SQL_STATEMENT(attempts_read, SPI_OK_SELECT, "text[], bigint[], int[]",
			  "SELECT" ATTEMPT_COLUMNS " FROM (SELECT" KEYS ") u"
			  " JOIN gpucredit.attempt a ON" KEYS_MATCH);

static void beat_ordinary(const Beats *beats, TimestampTz now);
static bool store_beaten(void *context, const Datum *values,
						 const bool *nulls);
static void beat_any(const Beats *beats, TimestampTz now);
static int	answer_accepted(const Beats *beats, TimestampTz now,
							const Attempt **logged);
static void answer_unchanged(const Beats *beats, TimestampTz now);
static bool any_beat(const AttemptBeat *beat);
static bool outstanding(const AttemptBeat *beat);
static bool unanswered(const AttemptBeat *beat);
static Pass pick(const Beats *beats, BeatTest test);
static void put_answers(ReturnSetInfo *rsinfo, const Beats *beats);

Datum
call_meter_batch(PG_FUNCTION_ARGS)
{
	Beats		beats;
	TimestampTz now;
	const Attempt **logged;
	int			n_logged;
	bool		may;

	InitMaterializedSRF(fcinfo, 0);
	beats = ParseHeartbeats(fcinfo);

	SqlConnect();
	now = ClockNow();
	may = AsyncCommitMay(fcinfo);
	beat_ordinary(&beats, now);
	AsyncCommitAllow(may);
	beat_any(&beats, now);
	logged = MemoryContextAllocHuge(CurrentMemoryContext,
									sizeof(Attempt *) * (beats.n_counting +
														 1));
	n_logged = answer_accepted(&beats, now, logged);
	may = AsyncCommitMay(fcinfo);
	if (n_logged > 0)
		AttemptsLogUsage(logged, n_logged, now);
	AsyncCommitAllow(may);
	answer_unchanged(&beats, now);
	put_answers((ReturnSetInfo *) fcinfo->resultinfo, &beats);
	SqlFinish();
	return (Datum) 0;
}

static bool
any_beat(const AttemptBeat *beat)
{
	return true;
}

static bool
outstanding(const AttemptBeat *beat)
{
	return beat->taken == NULL;
}

static bool
unanswered(const AttemptBeat *beat)
{
	return !beat->answered;
}

static Pass
pick(const Beats *beats, BeatTest test)
{
	Pass		pass = {
		.beats = MemoryContextAllocHuge(CurrentMemoryContext,
										sizeof(AttemptBeat *) *
										(beats->n_counting + 1))
	};

	pass.n = BeatsPick(beats, test, pass.beats);
	return pass;
}

/* Applies the ordinary heartbeats. */
static void
beat_ordinary(const Beats *beats, TimestampTz now)
{
	Pass		pass = pick(beats, any_beat);
	Size		size = sizeof(Datum) * (pass.n + 1);
	Datum	   *started_by = MemoryContextAllocHuge(CurrentMemoryContext,
													size);
	Datum	   *log_from = MemoryContextAllocHuge(CurrentMemoryContext, size);
	Datum	   *place = MemoryContextAllocHuge(CurrentMemoryContext, size);
	Values		args = {0};

	if (pass.n == 0)
		return;
	pass.attempts = MemoryContextAllocHuge(CurrentMemoryContext,
										   sizeof(Attempt) * pass.n);
	for (int i = 0; i < pass.n; i++)
	{
		int64		elapsed = pass.beats[i]->elapsed;

		started_by[i] = TimestampTzGetDatum(ClockAdd(now, SettingClockSkew() -
													 elapsed));
		log_from[i] = IntervalPGetDatum(DurationToInterval(elapsed -
														   SettingUsageInterval()));
		place[i] = Int32GetDatum(i);
	}
	BeatsArgKeys(&args, pass.beats, pass.n);
	BeatsArgElapsed(&args, pass.beats, pass.n);
	ValuesAdd(&args, TimeValue(now),
			  ArrayValue(started_by, NULL, pass.n, TIMESTAMPTZOID),
			  ArrayValue(log_from, NULL, pass.n, INTERVALOID),
			  ArrayValue(place, NULL, pass.n, INT4OID));
	if (beats->reported)
		HeartbeatsArgReported(&args, pass.beats, pass.n);
	SqlEach(beats->reported ? &attempts_beat_reported : &attempts_beat, &args,
			false,
			store_beaten, &pass);
}

/*
 * Stores an attempt's new state, read from a row that the statement returned.
 */
static bool
store_beaten(void *context, const Datum *values, const bool *nulls)
{
	Pass	   *pass = context;
	int			place = DatumGetInt32(values[ATTEMPT_WIDTH]);
	AttemptBeat *beat = pass->beats[place];
	Attempt    *attempt = &pass->attempts[place];

	AttemptParse(values, attempt);
	beat->taken = attempt;
	beat->ordinary = true;
	return true;
}

/* Applies the other heartbeats that change something. */
static void
beat_any(const Beats *beats, TimestampTz now)
{
	Pass		pass = pick(beats, outstanding);
	Values		args = {0};
	SqlResult	rows;

	if (pass.n == 0)
		return;
	BeatsArgKeys(&args, pass.beats, pass.n);
	BeatsArgElapsed(&args, pass.beats, pass.n);
	ValuesAdd(&args, TimeValue(now), DurationValue(SettingClockSkew()));
	HeartbeatsArgReported(&args, pass.beats, pass.n);
	ValuesAdd(&args, DurationValue(SettingStartupMax()));
	rows = SqlRun(&attempts_meter, &args);
	for (uint64 i = 0; i < rows.n; i++)
	{
		Attempt    *attempt = palloc0(sizeof(Attempt));

		CHECK_FOR_INTERRUPTS();
		AttemptFrom(rows, i, attempt);
		BeatsFind(beats, attempt)->taken = attempt;
	}
	SqlFree(&rows);
}

/*
 * Answers the accepted heartbeats in the order of their keys. Lists the
 * ordinary ones whose usage has to be logged, and returns their number.
 */
static int
answer_accepted(const Beats *beats, TimestampTz now, const Attempt **logged)
{
	int			n_logged = 0;

	for (int i = 0; i < beats->n_counting; i++)
	{
		AttemptBeat *beat = beats->counting[i];

		CHECK_FOR_INTERRUPTS();
		if (beat->taken == NULL)
			continue;
		beat->answered = true;
		if (!beat->ordinary)
		{
			beat->answer = MeterAccepted(beat->taken, beat->elapsed, now,
										 false);
			continue;
		}
		beat->answer = MeterGoOn(beat->taken, now, false);
		if (beat->taken->logged == beat->taken->elapsed)
			logged[n_logged++] = beat->taken;
	}
	return n_logged;
}

/* Answers the heartbeats that changed nothing. */
static void
answer_unchanged(const Beats *beats, TimestampTz now)
{
	Pass		pass = pick(beats, unanswered);
	Values		args = {0};
	SqlResult	rows;

	if (pass.n == 0)
		return;
	BeatsArgKeys(&args, pass.beats, pass.n);
	rows = SqlRun(&attempts_read, &args);
	for (uint64 i = 0; i < rows.n; i++)
	{
		Attempt		attempt;
		AttemptBeat *beat;
		int64		most;

		CHECK_FOR_INTERRUPTS();
		AttemptFrom(rows, i, &attempt);
		beat = BeatsFind(beats, &attempt);
		most = now - attempt.started_at + SettingClockSkew();
		if (!MeterTryAgain(&attempt, beat->elapsed, now, false,
						   &beat->answer))
			beat->answer = MeterUnchanged(&attempt, beat->elapsed, now,
										  false);
		beat->answered = true;

		/* The row is locked by another transaction. */
		if (attempt.ended_at == DT_NOBEGIN && beat->answer.reason == NULL &&
			(Min(AttemptHad(&attempt, beat->elapsed), most) >
			 attempt.elapsed || !attempt.running))
			beat->answer.reason = "busy";
	}
	SqlFree(&rows);
}

/*
 * Returns one row for each heartbeat, in the order of the arguments.
 * Duplicates get the same answer.
 */
static void
put_answers(ReturnSetInfo *rsinfo, const Beats *beats)
{
	static const MeterAnswer unknown = {"stop", "unknown", 0, 0, DT_NOEND, -1,
		false};

	for (int i = 0; i < beats->n; i++)
	{
		const AttemptBeat *beat = &beats->all[i];
		const MeterAnswer *answer = beat->counts->answered ?
			&beat->counts->answer : &unknown;

		CHECK_FOR_INTERRUPTS();
		RowPut(rsinfo,
			   VALUES(Int4Value(i + 1), DatumValue(beat->org_datum),
					  Int8Value(beat->job), Int4Value(beat->attempt),
					  TextValue(answer->action), TextValue(answer->reason),
					  NumericValue(answer->billed), NumericValue(answer->held),
					  TimeValueOrNull(answer->deadline),
					  DurationValueOrNull(answer->time_left),
					  BoolValue(answer->save)));
	}
}
