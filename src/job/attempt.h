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
	Credits		per_hour;		/* price of the whole attempt per hour */
	int64		overhead;		/* the part of elapsed in which its processes
								 * did not run yet */
	int64		wall_limit;		/* -1 if there is no limit */
	int64		hold_window;	/* -1 if the hold covers the whole wall limit */
	TimestampTz started_at;
	TimestampTz ends_by;		/* latest end, fixed at the start; DT_NOEND if
								 * no reservation follows */
	Credits		held;
	int64		elapsed;		/* how long it has had its devices, including
								 * overhead */
	int64		logged;			/* elapsed time at its last usage row */
	TimestampTz skewed_at;		/* when its elapsed time was cut; DT_NOBEGIN
								 * if never */
	bool		extension_denied;
	TimestampTz heard_at;		/* last heartbeat; DT_NOBEGIN if none yet */
	TimestampTz running_at;		/* first heartbeat; DT_NOBEGIN if none yet */
	bool		running;		/* whether there was a heartbeat */
	TimestampTz ended_at;		/* DT_NOBEGIN while it is live */
	char	   *outcome;
	Credits		billed;			/* amount billed once it has ended */
	TimestampTz saved_at;		/* instant of the last checkpoint; DT_NOBEGIN
								 * if none */
	int64		save_every;		/* time between checkpoints; -1 if none are
								 * due */
	bool		save_asked;		/* whether its spec asked for periodic
								 * checkpoints */
	bool		is_foreign;		/* whether another scheduler placed it */
	TimestampTz progress_at;	/* when progress last grew */
	int64		progress;
	bool		has_progress;
	float4		utilization;
	bool		has_utilization;
	TimestampTz idle_since;		/* since when utilization is near 0;
								 * DT_NOBEGIN if it is not */
	int64		idle_limit;		/* how long it may be idle; -1 if there is no
								 * limit */
	int64		idle_warning;	/* how long before that its owner is warned */
	int64		idle_for;		/* how long it has been idle (idle.c) */
	TimestampTz idle_at;		/* last report that counts for that;
								 * DT_NOBEGIN if none */
	TimestampTz idle_warned_at; /* when its owner was last warned; DT_NOBEGIN
								 * if never */
	bool		directed;		/* whether it has directives */
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

extern void AttemptParse(const Datum *values, Attempt *attempt);
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
