/*-------------------------------------------------------------------------
 *
 * quote.c
 *		The function quote(): what reserve() would answer, at which
 *		prices, and when the job would start.
 *
 * The arguments and the checks are those of reserve() (job/submit). Instead of
 * opening a hold, quote() simulates one (ledger/hold_simulate.c). The start is
 * that of a hypothetical job in a planned cycle, as in plan_with().
 *
 * A tenant chooses the arguments and may call as often as its rate limits
 * allow. Nothing is locked or written, so that nobody waits for the call, and
 * a denial leaves no trace. A tenant gets later instants only roughly, and
 * neither nodes nor devices, so that the answer does not show how long other
 * tenants' jobs will run.
 *
 * Locks: none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/clock.h"
#include "util/sql.h"
#include "api/api.h"
#include "api/tenant.h"
#include "job/submit/submission.h"
#include "ledger/uncollected.h"
#include "sched/load/hypothetical.h"
#include "sched/sched.h"
#include "utils/timestamp.h"

API_FUNCTION(gpucredit_quote, quote);

#define RESERVE_ARGS	15
#define PLAN_ARG		14
#define NO_JOB			(-1)	/* the number of a hypothetical job */

/* Amounts are texts, because programs often read numbers of JSON as floats. */
SQL_STATEMENT(offers_json, SPI_OK_SELECT,
			  "text[], bigint[], gpucredit.credits[], gpucredit.credits[],"
			  " gpucredit.credits[], int[], gpucredit.credits[],"
			  " gpucredit.credits[], boolean",
			  "SELECT COALESCE(pg_catalog.jsonb_agg("
			  " pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object("
			  "  'gpu_type', o.gpu_type, 'gpu_memory', NULLIF(o.memory, 0),"
			  "  'list_per_gpu_hour', o.list::numeric::text,"
			  "  'per_gpu_hour', o.price::numeric::text,"
			  "  'spot_per_gpu_hour', CASE WHEN $9 THEN"
			  "   o.spot::numeric::text END,"
			  "  'share', o.share, 'per_hour', o.per_hour::numeric::text,"
			  "  'spot_per_hour', CASE WHEN $9 THEN"
			  "   o.spot_per_hour::numeric::text END)) ORDER BY o.n), '[]')"
			  " FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3), pg_catalog.unnest($4),"
			  "  pg_catalog.unnest($5), pg_catalog.unnest($6),"
			  "  pg_catalog.unnest($7), pg_catalog.unnest($8))"
			  "  WITH ORDINALITY AS o (gpu_type, memory, price, spot, list,"
			  "   share, per_hour, spot_per_hour, n)");
SQL_STATEMENT(buckets_json, SPI_OK_SELECT,
			  "text, bigint[], gpucredit.credits[]",
			  "SELECT COALESCE(pg_catalog.jsonb_agg("
			  " pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object("
			  "  'bucket', b.bucket, 'account', b.account, 'kind', b.kind,"
			  "  'expires_at', b.expires_at,"
			  "  'amount', u.amount::numeric::text)) ORDER BY u.n), '[]')"
			  " FROM ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  "  WITH ORDINALITY AS u (bucket, amount, n)"
			  " CROSS JOIN LATERAL (SELECT b.* FROM gpucredit.bucket b"
			  "  WHERE b.org = $1 AND b.bucket = u.bucket OFFSET 0) b"
			  " WHERE" SEARCH_EACH("u.n"));

typedef struct Quote
{
	Submission	submission;
	const char *reason;			/* why reserve() would deny the job, or NULL
								 * if it would be granted */
	TimestampTz at;
	bool		priced;			/* whether held, cost, list_held and list are
								 * known */
	Credits		held;			/* PG_INT64_MAX if more than the largest
								 * amount; likewise cost and list_held */
	Credits		cost;			/* price of the whole wall limit on the most
								 * expensive accepted type */
	Credits		list_held;		/* as held, at prices without the tier's
								 * factor */
	Offers		list;			/* the offers without the tier's factor */
	bool		simulated;		/* whether simulation is filled in */
	HoldSimulation simulation;
	const char *starts;			/* NULL if no start was planned */
	const char *waits_for;
	TimestampTz expected_at;	/* DT_NOEND if not known */
	TimestampTz latest_at;
} Quote;

static void parse_submission(FunctionCallInfo fcinfo, Submission *submission);
static void compute_prices(Quote *quote);
static const char *simulate_hold(Quote *quote);
static void plan_start(Quote *quote);
static void find_start(Quote *quote, const SchedCycle *cycle, int32 index);
static bool find_promise(Quote *quote, const SchedCycle *cycle, int32 index);
static bool find_reservation(Quote *quote, const SchedCycle *cycle,
							 int32 index);
static TimestampTz round_instant(TimestampTz at, TimestampTz now);
static Values result_row(const Quote *quote);
static NullableDatum amount_or_null(bool known, Credits amount);
static NullableDatum offers_value(const Quote *quote);
static NullableDatum buckets_value(const Quote *quote);

Datum
call_quote(PG_FUNCTION_ARGS)
{
	Quote		quote = {0};
	Submission *submission = &quote.submission;
	bool		plan = ArgBool(fcinfo, PLAN_ARG, "plan");
	Values		row;

	parse_submission(fcinfo, submission);
	SqlConnect();
	SubmissionResolve(submission);
	quote.reason = SubmissionCheck(submission, NULL, false);
	submission->job.job = NO_JOB;
	quote.at = ClockNow();
	compute_prices(&quote);
	if (quote.reason == NULL)
		quote.reason = simulate_hold(&quote);
	quote.expected_at = quote.latest_at = DT_NOEND;
	if (quote.reason == NULL && plan)
		plan_start(&quote);
	row = result_row(&quote);
	return SqlFinishRow(RowReturn(fcinfo, &row));
}

/* Parses the arguments, which are those of reserve() without the key. */
static void
parse_submission(FunctionCallInfo fcinfo, Submission *submission)
{
	Request		request;

	LOCAL_FCINFO(call, RESERVE_ARGS);

	InitFunctionCallInfoData(*call, fcinfo->flinfo, RESERVE_ARGS,
							 fcinfo->fncollation, NULL, NULL);
	call->args[0] = fcinfo->args[0];
	call->args[1] = fcinfo->args[1];
	call->args[2] = (NullableDatum)
	{
		CStringGetTextDatum("-"), false
	};
	for (int n = 3; n < RESERVE_ARGS; n++)
		call->args[n] = fcinfo->args[n - 1];
	ParseSubmission(call, submission, &request);
}

/*
 * Computes what the job costs, even if it would be denied. The list prices are
 * those without the tier's factor.
 */
static void
compute_prices(Quote *quote)
{
	Job		   *job = &quote->submission.job;
	Job			list = *job;

	quote->priced = job->offers.n > 0 || GpuReqIsCpuOnly(job->request);
	if (!quote->priced)
		return;

	/*
	 * Where reserve() would open a hold, an amount that is too large is an
	 * error, as it is in reserve(). For a denied job it is only reported.
	 */
	if (quote->reason == NULL)
		quote->held = OffersHold(job);
	else
		(void) OffersHoldToday(job, &quote->held);
	quote->cost = job->wall_limit < 0 ? PG_INT64_MAX :
		CreditsHoldWithin(OffersDearest(job), 1, SHARE_WHOLE,
						  job->wall_limit, PG_INT64_MAX);
	if (job->price_factor != FACTOR_ONE)
	{
		list.price_factor = FACTOR_ONE;
		(void) OffersMake(&list, NodesCached(job->pool), quote->at);
		/* Prices may have changed since the checks. */
		if (list.offers.n != job->offers.n)
			list = *job;
	}
	quote->list = list.offers;
	(void) OffersHoldToday(&list, &quote->list_held);
}

/* Simulates the hold. Returns the reason why it would be denied, or NULL. */
static const char *
simulate_hold(Quote *quote)
{
	Submission *submission = &quote->submission;
	Purpose		purpose = JobPurpose(&submission->job);

	if (UncollectedDenies(&submission->path, &purpose, quote->held,
						  quote->at))
		return UNCOLLECTED_REASON;
	HoldSimulate(&submission->path, &purpose, quote->held, quote->at,
				 &quote->simulation);
	quote->simulated = true;
	return quote->simulation.status == LEDGER_DONE ? NULL :
		LedgerReason(quote->simulation.status);
}

/* Plans a cycle of the pool in which the job is queued. */
static void
plan_start(Quote *quote)
{
	Submission	supposed = quote->submission;
	const char *denied = NULL;
	Hypothetical hypothetical = {.n_jobs = 1, .jobs = &supposed,
		.denied = &denied};
	SchedCycle	cycle = {.pool = supposed.job.pool,
		.hypothetical = &hypothetical};
	const SetAside *aside;
	int32		index = 0;

	CyclePlan(&cycle);
	aside = SetAsideFind(&cycle, supposed.job.org, NO_JOB);
	while (index < cycle.input.n_jobs && cycle.jobs[index].id != NO_JOB)
		index++;
	if (aside != NULL)
	{
		quote->starts = aside->ends || aside->reason == SET_ASIDE_NEVER ?
			"never" : "waits";
		quote->waits_for = SetAsideName(aside->reason);
	}
	else if (cycle.foreign)
		quote->starts = "elsewhere";
	else if (index == cycle.input.n_jobs)
	{
		/*
		 * The state of the database has changed since the checks of this
		 * call.
		 */
		quote->starts = "waits";
		quote->waits_for = denied;
	}
	else
		find_start(quote, &cycle, index);
	if (TenantCalls())
	{
		quote->expected_at = round_instant(quote->expected_at, cycle.now);
		quote->latest_at = round_instant(quote->latest_at, cycle.now);
	}
}

/* Reads from the result what the cycle decided about the job. */
static void
find_start(Quote *quote, const SchedCycle *cycle, int32 index)
{
	for (int i = 0; i < cycle->result.n_starts; i++)
	{
		if (cycle->result.starts[i].job != index)
			continue;
		quote->starts = "now";
		quote->expected_at = quote->latest_at = cycle->now;
		return;
	}
	quote->waits_for = CycleWaitReason(cycle, index);
	if (!find_promise(quote, cycle, index) &&
		!find_reservation(quote, cycle, index))
		quote->starts = "waits";
}

/*
 * Whether the cycle claims devices for the job. The job then starts when the
 * victims have left, at the latest after their grace.
 */
static bool
find_promise(Quote *quote, const SchedCycle *cycle, int32 index)
{
	const DecideResult *result = &cycle->result;

	for (int i = 0; i < result->n_promises; i++)
	{
		const DecidePromise *leader;

		if (result->promises[i].job != index)
			continue;
		leader = &result->promises[result->promises[i].leader];
		quote->starts = "soon";
		quote->latest_at = cycle->now;
		for (int e = 0; e < leader->n_evictions; e++)
		{
			const DecideEviction *eviction =
			&result->evictions[leader->first_eviction + e];
			const DecideRunning *running = &cycle->running[eviction->running];

			quote->latest_at = Max(quote->latest_at,
								   ClockAdd(cycle->now,
											cycle->tiers[running->tier].grace));
		}
		quote->expected_at = quote->latest_at;
		return true;
	}
	return false;
}

/* Whether the cycle reserves devices for the job. */
static bool
find_reservation(Quote *quote, const SchedCycle *cycle, int32 index)
{
	for (int i = 0; i < cycle->result.n_reservations; i++)
	{
		const DecideReservation *reserved = &cycle->result.reservations[i];

		if (reserved->job != index)
			continue;
		quote->starts = "later";
		quote->expected_at = cycle->expected_at[i];
		quote->latest_at = reserved->latest > 0 ? reserved->latest :
			DECIDE_NEVER;
		return true;
	}
	return false;
}

/*
 * Rounds an instant up: to a minute within the next hour, to a quarter of an
 * hour within a day, else to an hour.
 */
static TimestampTz
round_instant(TimestampTz at, TimestampTz now)
{
	int64		step = USECS_PER_HOUR;

	if (TIMESTAMP_NOT_FINITE(at) || at <= now)
		return at;
	if (at - now <= USECS_PER_HOUR)
		step = USECS_PER_MINUTE;
	else if (at - now <= USECS_PER_DAY)
		step = 15 * USECS_PER_MINUTE;
	return at % step == 0 ? at : ClockAdd(at - at % step, at > 0 ? step : 0);
}

/* Builds the row of the result. */
static Values
result_row(const Quote *quote)
{
	const Job  *job = &quote->submission.job;
	bool		priced = quote->priced;
	Credits		discount = quote->list_held == PG_INT64_MAX ? PG_INT64_MAX :
		quote->list_held - quote->held;
	Values		row = *VALUES(TextValue(quote->reason == NULL ? "granted" :
										"denied"),
							  TextValue(quote->reason),
							  amount_or_null(priced, quote->held),
							  amount_or_null(priced, quote->cost),
							  amount_or_null(priced, OffersDearest(job)),
							  amount_or_null(priced, job->resources),
							  NumericValue((Credits) job->price_factor * 1000),
							  amount_or_null(priced, discount),
							  DurationValueOrNull(job->wall_limit),
							  priced ?
							  DurationValue(OffersHeldFor(job->wall_limit,
														  job->hold_window)) :
							  NullValue());

	ValuesAdd(&row, offers_value(quote), buckets_value(quote),
			  amount_or_null(quote->simulated, quote->simulation.payable),
			  amount_or_null(quote->simulated, quote->simulation.room),
			  TextValue(quote->starts), TextValue(quote->waits_for),
			  TimeValueOrNull(quote->expected_at),
			  TimeValueOrNull(quote->latest_at));
	return row;
}

static NullableDatum
amount_or_null(bool known, Credits amount)
{
	return known && amount < PG_INT64_MAX ? NumericValue(amount) :
		NullValue();
}

/* Returns the offered types as JSON, in the order in which they are tried. */
static NullableDatum
offers_value(const Quote *quote)
{
	const Job  *job = &quote->submission.job;
	const Offers *offers = &job->offers;
	int			n = quote->priced ? offers->n : 0;
	int32		gpus = job->request->max_gpus;
	Credits    *per_hour = palloc(sizeof(Credits) * (n + 1));
	Credits    *spot_per_hour = palloc(sizeof(Credits) * (n + 1));

	for (int i = 0; i < n; i++)
	{
		per_hour[i] = OffersPerHour(offers->prices[i], gpus,
									offers->shares[i], job->resources);
		spot_per_hour[i] = OffersPerHour(offers->spot_prices[i], gpus,
										 offers->shares[i], job->resources);
	}
	return DatumValue(SqlNotNull(SqlRun(&offers_json,
										VALUES(TextArrayValue(offers->types, n),
											   Int8ArrayValue(offers->memory, n),
											   CreditsArrayValue(offers->prices, n),
											   CreditsArrayValue(offers->spot_prices, n),
											   CreditsArrayValue(quote->list.prices, n),
											   Int4ArrayValue(offers->shares, n),
											   CreditsArrayValue(per_hour, n),
											   CreditsArrayValue(spot_per_hour, n),
											   BoolValue(job->preemptible !=
														 PREEMPTIBLE_NEVER))),
								 0, 1));
}

/* Returns the buckets that would pay as JSON, in burn order. */
static NullableDatum
buckets_value(const Quote *quote)
{
	const HoldSimulation *simulation = &quote->simulation;

	return DatumValue(SqlNotNull(SqlRun(&buckets_json,
										VALUES(TextValue(quote->submission.job.org),
											   Int8ArrayValue(simulation->buckets,
															  simulation->n),
											   CreditsArrayValue(simulation->amounts,
																 simulation->n))),
								 0, 1));
}
