/*-------------------------------------------------------------------------
 *
 * attempt.h
 *		One run of a job.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ATTEMPT_H
#define GPUCREDIT_ATTEMPT_H

#include "util/sql.h"
#include "datatype/timestamp.h"
#include "types/credits.h"

typedef struct Attempt
{
	char	   *org;
	int64		job;
	int32		attempt;
	int64		hold;
	int32		gpus;
	Credits		per_hour;		/* of the whole attempt */
	int64		overhead;		/* of elapsed: its processes did not run */
	int64		wall_limit;		/* -1: none */
	int64		hold_window;	/* -1: the whole wall limit is held */
	TimestampTz started_at;
	TimestampTz ends_by;		/* DT_NOEND: nobody waits for its devices */
	Credits		held;
	int64		elapsed;		/* it has had its devices; overhead counts */
	int64		logged;			/* elapsed of the last usage row */
	TimestampTz skewed_at;		/* DT_NOBEGIN: never */
	bool		extension_denied;
	TimestampTz heard_at;		/* DT_NOBEGIN: not yet */
	TimestampTz running_at;		/* first heard of; DT_NOBEGIN: not yet */
	bool		running;		/* it has been heard of */
	TimestampTz ended_at;		/* DT_NOBEGIN: it lives */
	char	   *outcome;
	Credits		billed;			/* of one that ended */
	TimestampTz saved_at;		/* last checkpoint; DT_NOBEGIN: none */
	int64		save_every;		/* time between checkpoints; -1: none */
	bool		save_asked;		/* its spec asked for that */
	bool		is_foreign;		/* another scheduler placed it */
	TimestampTz progress_at;	/* when progress last grew */
	int64		progress;
	bool		has_progress;
	float4		utilization;
	bool		has_utilization;
	TimestampTz idle_since;		/* utilization is near 0 since then;
								 * DT_NOBEGIN: it is not */
	bool		directed;		/* there are directives */
} Attempt;

/* How long an attempt's processes have run. */
#define AttemptRan(a)	((a)->elapsed - (a)->overhead)

/* The parameters org, job, attempt: of an attempt, or what names one. */
#define ATTEMPT_KEY(a) \
	TextValue((a)->org), Int8Value((a)->job), Int4Value((a)->attempt)

/*
 * The columns of an Attempt, from a row "a": the row as one value
 * (sql_whole.c), and whether there are directives.
 */
#define ATTEMPT_WIDTH	2
#define ATTEMPT_DIRECTED(org, job, attempt) \
	"EXISTS (SELECT FROM gpucredit.directive d WHERE d.org = " org \
	" AND d.job = " job " AND d.attempt = " attempt ")"
#define ATTEMPT_COLUMNS \
	" a, " ATTEMPT_DIRECTED("a.org", "a.job", "a.attempt")

/*
 * Live attempts "a": the last of each active job "j", looked up one by one.
 */
#define LIVE_ATTEMPTS \
	" FROM gpucredit.job j CROSS JOIN LATERAL (SELECT t.*" \
	"  FROM gpucredit.attempt t WHERE t.org = j.org AND t.job = j.job" \
	"  AND t.attempt = j.attempt OFFSET 0) a WHERE j.state = 'active'"

extern void AttemptTake(const Datum *values, Attempt *attempt);
extern void AttemptFrom(SqlResult rows, uint64 i, Attempt *attempt);
extern bool AttemptRead(const char *org, int64 job, int32 number,
						Attempt *attempt);
extern bool AttemptLock(const char *org, int64 job, int32 number,
						Attempt *attempt);
extern bool AttemptLockLive(const char *org, int64 job, int32 number,
							Attempt *attempt);
extern TimestampTz AttemptWallEnd(const Attempt *attempt);
extern TimestampTz AttemptStuckAt(const Attempt *attempt);
extern Credits AttemptBill(const Attempt *attempt);
extern Credits AttemptCost(const Attempt *attempt, int64 elapsed);
extern Credits AttemptHoldFor(const Attempt *attempt, int64 duration,
							  Credits most);
extern int64 AttemptHad(const Attempt *attempt, int64 ran);
extern int64 AttemptStartup(const Attempt *attempt, int64 ran,
							TimestampTz now);
extern void AttemptLateReport(const Attempt *attempt, const char *operation,
							  const char *outcome, int64 claimed,
							  bool wait);
extern void AttemptLogUsage(const Attempt *attempt, Credits billed,
							TimestampTz at);
extern void AttemptsLogUsage(const Attempt *const *attempts, int n,
							 TimestampTz at);

#endif							/* GPUCREDIT_ATTEMPT_H */
