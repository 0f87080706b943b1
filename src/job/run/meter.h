/*-------------------------------------------------------------------------
 *
 * meter.h
 *		The answer to a heartbeat, for meter and for meter_batch.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_METER_H
#define GPUCREDIT_METER_H

#include "util/args.h"
#include "job/attempt.h"
#include "job/idle.h"

typedef struct MeterAnswer
{
	const char *action;
	const char *reason;			/* why the attempt must stop or save, or NULL */
	Credits		billed;
	Credits		held;
	TimestampTz deadline;		/* when the attempt must have stopped, or
								 * DT_NOEND */
	int64		time_left;		/* microseconds that the attempt may still
								 * run, or -1 if there is no limit */
	bool		save;			/* whether it is time for a checkpoint */
} MeterAnswer;

/*
 * The columns that a heartbeat changes. Parameters 4 to 6 of the statements
 * are elapsed, now and gpucredit.clock_skew. A heartbeat that is late,
 * repeated or out of order matches no row. These statements run ten thousand
 * times a second, so what is rarely written (a usage row, or that the elapsed
 * time was cut) has statements of its own.
 */
#define METER_ELAPSED(e, most) \
	"LEAST(" e " + " METER_OVERHEAD(e, most) ", $5 - a.started_at + $6)"
/*
 * The first heartbeat fixes how long the devices waited for the processes, at
 * most SettingStartupMax() (see AttemptStartup() in attempt.c).
 */
#define METER_OVERHEAD(e, most) \
	"CASE WHEN a.running_at IS NULL AND NOT a.is_foreign" \
	" AND " e " < $5 - a.started_at" \
	" THEN LEAST($5 - a.started_at - " e ", " most ") ELSE a.overhead END"
#define METER_PROGRESS(p) \
	"CASE WHEN " p " IS NULL OR " p " <= a.progress" \
	" THEN a.progress_at ELSE $5 END"
/*
 * Since when utilization has been near 0, or when the last alert about that
 * was raised.
 */
#define METER_IDLE(u) \
	"CASE WHEN " u " >= 0.01::pg_catalog.float4 THEN NULL" \
	" WHEN " u " IS NULL THEN a.idle_since" \
	" ELSE COALESCE(a.idle_since, $5) END"
/*
 * How long an attempt with an idle limit has been idle, and when that was last
 * reported (job/idle.c).
 */
#define METER_IDLE_FOR(u) \
	"CASE WHEN a.idle_limit IS NULL OR " u " IS NULL THEN a.idle_for" \
	" WHEN " u " < 0.01::pg_catalog.float4 AND a.idle_at >= $5 - " IDLE_GAP \
	" THEN a.idle_for + GREATEST($5 - a.idle_at, '0') ELSE '0' END"
#define METER_IDLE_AT(u) \
	"CASE WHEN a.idle_limit IS NULL OR " u " IS NULL THEN a.idle_at" \
	" ELSE $5 END"
#define METER_IDLE_SET(u) \
	" idle_since = " METER_IDLE(u) ", idle_for = " METER_IDLE_FOR(u) "," \
	" idle_at = " METER_IDLE_AT(u)
#define METER_SET(e, p, u, most) \
	" elapsed = GREATEST(a.elapsed, " METER_ELAPSED(e, most) ")," \
	" overhead = " METER_OVERHEAD(e, most) "," \
	" running_at = COALESCE(a.running_at, $5), heard_at = $5," \
	" progress_at = " METER_PROGRESS(p) ", progress = COALESCE(" p ", a.progress)," \
	" utilization = COALESCE(" u ", a.utilization)," \
	METER_IDLE_SET(u)
#define METER_MATCH(e, most) \
	" a.ended_at IS NULL AND (a.elapsed < " METER_ELAPSED(e, most) \
	"  OR a.running_at IS NULL)"

extern MeterAnswer AnswerLive(const Attempt *attempt, TimestampTz now);
extern float4 MeterUtilization(float8 utilization);
extern MeterAnswer MeterAccepted(Attempt *attempt, int64 claimed,
								 TimestampTz now,
								 bool wait);
extern MeterAnswer MeterGoOn(Attempt *attempt, TimestampTz now, bool wait);
extern bool MeterTryAgain(Attempt *attempt, int64 elapsed, TimestampTz now,
						  bool wait, MeterAnswer *answer);
extern MeterAnswer MeterUnchanged(Attempt *attempt, int64 elapsed,
								  TimestampTz now, bool wait);

#endif							/* GPUCREDIT_METER_H */
