/*-------------------------------------------------------------------------
 *
 * counters.c
 *		counters(): the counts in shared memory, one row each.
 *
 * Names and units follow Prometheus: durations are in seconds, names of
 * counters end in _total, and a histogram's buckets count values up to "le".
 * If the library was not preloaded, there are no rows.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/compat.h"
#include "api/count.h"
#include "shmem/token_bucket.h"
#include "shmem/notify.h"
#include "shmem/segment.h"
#include "shmem/wake.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(gpucredit_counters);

static void put(ReturnSetInfo *rsinfo, const char *name,
				const char *operation, const char *kind, const char *value,
				double count);
static void put_calls(ReturnSetInfo *rsinfo, ApiFunction entry);
static void put_errors(ReturnSetInfo *rsinfo);
static void put_scheduler(ReturnSetInfo *rsinfo);

Datum
gpucredit_counters(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	if (!SegmentReady() || SegmentDatabase() < 0)
		return (Datum) 0;
	for (int entry = 0; entry < API_COUNT; entry++)
		put_calls(rsinfo, (ApiFunction) entry);
	put_errors(rsinfo);
	put_scheduler(rsinfo);
	put(rsinfo, "rate_levels_forgotten_total", NULL, NULL, NULL,
		(double) TokenBucketForgotten());
	put(rsinfo, "notifications_dropped_total", NULL, NULL, NULL,
		(double) NotifyDropped());
	return (Datum) 0;
}

/* Adds one row: a counter's name, its labels, and its value. */
static void
put(ReturnSetInfo *rsinfo, const char *name, const char *operation,
	const char *kind, const char *value, double count)
{
	RowPut(rsinfo,
		   VALUES(TextValue(name), TextValue(operation), TextValue(kind),
				  TextValue(value), DatumValue(Float8GetDatum(count))));
}

/* Adds the counts of a function.  Details are added once it was called. */
static void
put_calls(ReturnSetInfo *rsinfo, ApiFunction entry)
{
	const char *name = ApiName(entry);
	CallCounts	counts;
	uint64		calls = 0;

	CountRead(entry, &counts);
	for (int b = 0; b < COUNT_BUCKETS; b++)
		calls += counts.buckets[b];
	put(rsinfo, "calls_total", name, NULL, NULL, (double) calls);
	if (calls == 0)
		return;
	put(rsinfo, "replays_total", name, NULL, NULL, (double) counts.replays);
	put(rsinfo, "lock_waits_total", name, NULL, NULL,
		(double) counts.lock_waits);
	for (int d = 0; d < COUNT_DENIALS; d++)
	{
		if (counts.denials[d] > 0)
			put(rsinfo, "denials_total", name, "reason", CountReasons[d],
				(double) counts.denials[d]);
	}
	for (int u = 0; u < COUNT_UNPAID; u++)
	{
		if (counts.uncollected[u] > 0)
			put(rsinfo, "uncollected_credits_total", name, "reason",
				CountUnpaid[u], (double) counts.uncollected[u] / 1e6);
	}
	if (counts.spent > 0)
		put(rsinfo, "spent_credits_total", name, NULL, NULL,
			(double) counts.spent / 1e6);
	if (counts.refunded > 0)
		put(rsinfo, "refunded_credits_total", name, NULL, NULL,
			(double) counts.refunded / 1e6);
	calls = 0;
	for (int b = 0; b < COUNT_BUCKETS; b++)
	{
		calls += counts.buckets[b];
		put(rsinfo, "call_seconds_bucket", name, "le",
			b == COUNT_BUCKETS - 1 ? "+Inf" :
			psprintf("%g", CountBounds[b] / 1e6), (double) calls);
	}
	put(rsinfo, "call_seconds_sum", name, NULL, NULL,
		(double) counts.microseconds / 1e6);
	put(rsinfo, "call_seconds_count", name, NULL, NULL, (double) calls);
}

static void
put_errors(ReturnSetInfo *rsinfo)
{
	ErrorCount *errors = palloc(sizeof(ErrorCount) * COUNT_ERRORS);
	int			n = CountReadErrors(errors);

	for (int i = 0; i < n; i++)
		put(rsinfo, "errors_total", errors[i].entry == API_COUNT ? "other" :
			ApiName(errors[i].entry), "sqlstate",
			errors[i].sqlstate == 0 ? "other" :
			unpack_sql_state(errors[i].sqlstate), (double) errors[i].n);
}

/* Adds the counts of this database's scheduling worker. */
static void
put_scheduler(ReturnSetInfo *rsinfo)
{
	WakeReport	report;

	if (!WakeRead(&report))
		return;
	put(rsinfo, "scheduler_up", NULL, NULL, NULL, report.pid != 0);
	put(rsinfo, "scheduler_cycles_total", NULL, NULL, NULL,
		(double) report.cycles);
	put(rsinfo, "scheduler_started_total", NULL, NULL, NULL,
		(double) report.started);
	put(rsinfo, "scheduler_failures_total", NULL, NULL, NULL,
		(double) report.failures);
	put(rsinfo, "scheduler_interval_seconds", NULL, NULL, NULL,
		atoi(GetConfigOption("gpucredit.scheduler_interval", false, false)) /
		1000.0);
	if (report.last_cycle != 0)
		put(rsinfo, "scheduler_lag_seconds", NULL, NULL, NULL,
			(double) (GetCurrentTimestamp() - report.last_cycle) /
			USECS_PER_SEC);
}
