/*-------------------------------------------------------------------------
 *
 * meter.h
 *		The answer to a heartbeat, for one and for many.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_METER_H
#define GPUCREDIT_METER_H

#include "util/args.h"
#include "job/attempt.h"

typedef struct MeterAnswer
{
	const char *action;
	const char *reason;			/* NULL: none */
	Credits		billed;
	Credits		held;
	TimestampTz deadline;		/* DT_NOEND: none */
	int64		time_left;		/* -1: without end */
	bool		save;			/* it is time for a checkpoint */
} MeterAnswer;

/*
 * What a heartbeat changes. Parameters 4 to 6 are elapsed, now and clock skew.
 * A late, repeated or out-of-order heartbeat matches no row. This statement
 * runs ten thousand times a second, so rare results (a usage row, a cut) are
 * written apart.
 */
#define METER_ELAPSED(e, most) \
	"LEAST(" e " + " METER_OVERHEAD(e, most) ", $5 - a.started_at + $6)"
/*
 * The first heartbeat fixes how long the devices waited for the processes, at
 * most SettingStartupMax() (attempt.c, AttemptStartup()).
 */
#define METER_OVERHEAD(e, most) \
	"CASE WHEN a.running_at IS NULL AND NOT a.is_foreign" \
	" AND " e " < $5 - a.started_at" \
	" THEN LEAST($5 - a.started_at - " e ", " most ") ELSE a.overhead END"
#define METER_PROGRESS(p) \
	"CASE WHEN " p " IS NULL OR " p " <= a.progress" \
	" THEN a.progress_at ELSE $5 END"
/* since when utilization is near 0, or the last alert about it */
#define METER_IDLE(u) \
	"CASE WHEN " u " >= 0.01::pg_catalog.float4 THEN NULL" \
	" WHEN " u " IS NULL THEN a.idle_since" \
	" ELSE COALESCE(a.idle_since, $5) END"
#define METER_SET(e, p, u, most) \
	" elapsed = GREATEST(a.elapsed, " METER_ELAPSED(e, most) ")," \
	" overhead = " METER_OVERHEAD(e, most) "," \
	" running_at = COALESCE(a.running_at, $5), heard_at = $5," \
	" progress_at = " METER_PROGRESS(p) ", progress = COALESCE(" p ", a.progress)," \
	" utilization = COALESCE(" u ", a.utilization)," \
	" idle_since = " METER_IDLE(u)
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
