/*-------------------------------------------------------------------------
 *
 * limit.c
 *		Quotas on devices and running jobs, in a scheduling cycle.
 *
 * Which there are, and what is in use, is loaded before (limit_load.c).  The
 * decision core knows no quotas: its starts are walked in order, and where
 * one passes a quota it is given fewer devices, or loses that type, or the
 * job is held back; then the cycle decides anew.  So what a tenant's own
 * limits hold back blocks nobody else.  Where what was in its way is given up
 * in the end it is tried again (limit_again.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/sql.h"
#include "miscadmin.h"
#include "sched/limit.h"

SQL_STATEMENT(limits_count, SPI_OK_UPDATE, "text[], text[], text[]",
			  "UPDATE gpucredit.quota_turn t SET turn = t.turn + 1"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  "  AS u (org, account, gpu_type)"
			  " WHERE t.org = u.org AND t.account = u.account"
			  " AND t.gpu_type = u.gpu_type");

static bool hopeless(const Cycle *cycle, const LimitList *over, int32 job);
static const char *type_name(const Cycle *cycle, int32 type);
static void count_claims(Cycle *cycle);
static int32 gpus_of(const Cycle *cycle, const DecideClaim *claim);
static bool keep_reservations(Cycle *cycle, bool *drop);
static bool keep_start(Cycle *cycle, const DecideStart *start, bool *drop);
static bool keep_promise(Cycle *cycle, const DecidePromise *promise,
						 bool *drop);
static bool narrow(Cycle *cycle, DecideJob *job, const QuotaLimit *limit,
				   const DecideStart *start);
static DecideAsk *own_ask(Cycle *cycle, int32 index);
static void drop_type(DecideAsk *ask, int32 type);

/*
 * A GPU type's name; NULL for no GPUs.
 */
static const char *
type_name(const Cycle *cycle, int32 type)
{
	return type == DECIDE_NO_TYPE ? NULL : cycle->set->types.names[type];
}

/*
 * Hold back what no decision of this cycle could start.
 */
void
LimitsHoldBack(Cycle *cycle)
{
	bool	   *drop;
	LimitList	over = {0};

	if (cycle->n_limits == 0 || cycle->input.n_jobs == 0)
		return;
	drop = palloc(sizeof(bool) * cycle->input.n_jobs);
	for (int32 j = 0; j < cycle->input.n_jobs; j++)
	{
		/* they come account by account */
		if (j == 0 || cycle->jobs[j].account != cycle->jobs[j - 1].account)
			over = LimitsOver(cycle, cycle->jobs[j].org,
							  cycle->queued[j].account);
		drop[j] = hopeless(cycle, &over, j);
	}
	CycleDrop(cycle, drop);
	pfree(drop);
}

/*
 * Is a job's start ruled out by a quota of any type that it stands under, or
 * by a busy one?
 */
static bool
hopeless(const Cycle *cycle, const LimitList *over, int32 job)
{
	const DecideAsk *ask = &cycle->asks[cycle->jobs[job].ask];

	for (int l = 0; l < over->n; l++)
	{
		const QuotaLimit *limit = over->limits[l];

		if (limit->busy)
			return true;
		if (LimitConcerns(limit, NULL) &&
			((limit->max_running >= 0 &&
			  limit->running >= limit->max_running) ||
			 (limit->max_milli >= 0 && limit->used_milli +
			  (int64) ask->min_gpus * ask->share > limit->max_milli)))
			return true;
	}
	return false;
}

/*
 * Do the decided starts keep all quotas?  False: jobs were held back or
 * narrowed, and the cycle must decide anew.
 */
bool
LimitsKept(Cycle *cycle)
{
	bool	   *drop;
	bool		kept = true;

	LimitsLoadGrowing(cycle);
	for (int l = 0; l < cycle->n_limits; l++)
		cycle->limits[l].new_milli = cycle->limits[l].new_running = 0;
	if (cycle->n_limits == 0 ||
		(cycle->result.n_starts + cycle->result.n_promises +
		 cycle->result.n_reservations == 0 && !cycle->gave_up))
		return true;
	drop = palloc0(sizeof(bool) * (cycle->input.n_jobs + 1));
	count_claims(cycle);
	for (int s = 0; s < cycle->result.n_starts; s++)
	{
		CHECK_FOR_INTERRUPTS();
		kept &= keep_start(cycle, &cycle->result.starts[s], drop);
	}
	for (int p = 0; p < cycle->result.n_promises; p++)
		kept &= keep_promise(cycle, &cycle->result.promises[p], drop);
	cycle->gave_up |= !kept;
	kept &= keep_reservations(cycle, drop);
	if (!kept)
		LimitsDrop(cycle, drop);
	pfree(drop);
	return kept && LimitsSettled(cycle);
}

/*
 * What was promised in earlier cycles, and does not start in this one, is
 * spoken for.
 */
static void
count_claims(Cycle *cycle)
{
	bool	   *starts = palloc0(sizeof(bool) * (cycle->input.n_jobs + 1));

	for (int s = 0; s < cycle->result.n_starts; s++)
		starts[cycle->result.starts[s].job] = true;
	for (int l = 0; l < cycle->n_limits; l++)
		cycle->limits[l].claimed_milli = cycle->limits[l].claimed = 0;
	for (int c = 0; c < cycle->input.n_claims; c++)
	{
		const DecideClaim *claim = &cycle->claims[c];
		int32		has = claim->running ? gpus_of(cycle, claim) : 0;
		LimitList	over;

		if (has >= claim->gpus || (claim->job >= 0 && starts[claim->job]))
			continue;
		over = LimitsOver(cycle, claim->org,
						  cycle->account_names[claim->account].path);
		for (int l = 0; l < over.n; l++)
		{
			QuotaLimit *limit = over.limits[l];

			if (!LimitConcerns(limit, type_name(cycle, claim->type)))
				continue;
			limit->claimed += !claim->running;
			limit->claimed_milli += (int64) (claim->gpus - has) * claim->share;
		}
	}
	pfree(starts);
}

/*
 * How many devices a running job has that is to go on elsewhere.
 */
static int32
gpus_of(const Cycle *cycle, const DecideClaim *claim)
{
	for (int32 r = 0; r < cycle->input.n_running; r++)
	{
		const DecideRunning *running = &cycle->running[r];

		if (running->id == claim->id && !running->over &&
			strcmp(running->org, claim->org) == 0)
			return running->gpus;
	}
	return claim->gpus;
}

/*
 * Does a promise keep the quotas that its start will stand under?  Else its
 * job is held back, or grows less.
 */
static bool
keep_promise(Cycle *cycle, const DecidePromise *promise, bool *drop)
{
	DecideRunning *running;
	LimitList	over;
	int64		more;

	if (promise->job >= 0)
	{
		DecideStart start = {promise->job, promise->type, promise->gpus,
			promise->share, promise->first_part, promise->n_parts, 0, false};

		return keep_start(cycle, &start, drop);
	}
	running = &cycle->running[promise->running];
	more = (int64) (promise->gpus - running->gpus) * promise->share;
	over = LimitsOver(cycle, running->org,
					  cycle->account_names[running->account].path);
	for (int l = 0; l < over.n && more > 0; l++)
	{
		QuotaLimit *limit = over.limits[l];
		int64		room = limit->max_milli - limit->used_milli -
			limit->claimed_milli - limit->new_milli;

		if (!LimitConcerns(limit, type_name(cycle, promise->type)) ||
			limit->max_milli < 0)
			continue;
		if (limit->busy || room < more)
		{
			running->max_gpus = running->gpus + (limit->busy || room < 0 ? 0 :
												 (int32) (room / DECIDE_WHOLE));
			return false;
		}
		limit->new_milli += more;
	}
	return true;
}

/*
 * Count up the turns of the quotas that this cycle's starts stand under, so
 * that a cycle with an older snapshot cannot go by what was before.
 */
void
LimitsCount(const Cycle *cycle)
{
	const char **texts = palloc(sizeof(char *) * 3 * (cycle->n_limits + 1));
	int			n = 0;
	SqlArgs		args = {0};

	for (int l = 0; l < cycle->n_limits; l++)
	{
		const QuotaLimit *limit = &cycle->limits[l];

		if (limit->new_running == 0)
			continue;
		texts[n] = limit->org;
		texts[cycle->n_limits + n] = limit->account;
		texts[2 * cycle->n_limits + n++] = limit->gpu_type;
	}
	if (n == 0)
		return;
	for (int column = 0; column < 3; column++)
		SqlArgTextArray(&args, texts + column * cycle->n_limits, n);
	(void) SqlRun(&limits_count, &args);
}

/*
 * Those who could not start for a quota if they were given what is reserved
 * for them are held back, and in nobody's way.  Reservations count among
 * themselves, but not for the cycles of other pools.
 */
static bool
keep_reservations(Cycle *cycle, bool *drop)
{
	QuotaLimit *before = palloc_extended(sizeof(QuotaLimit) * cycle->n_limits,
										 MCXT_ALLOC_HUGE);
	bool		kept = true;

	memcpy(before, cycle->limits, sizeof(QuotaLimit) * cycle->n_limits);
	for (int i = 0; i < cycle->result.n_reservations; i++)
	{
		const DecideReservation *r = &cycle->result.reservations[i];
		DecideStart start = {.job = r->job, .type = r->type, .gpus = r->gpus,
			.share = cycle->asks[cycle->jobs[r->job].ask].share};

		kept &= keep_start(cycle, &start, drop);
	}
	memcpy(cycle->limits, before, sizeof(QuotaLimit) * cycle->n_limits);
	pfree(before);
	return kept;
}

/*
 * Count one start against its quotas, if it keeps them; else hold its job
 * back, or narrow what it asks.
 */
static bool
keep_start(Cycle *cycle, const DecideStart *start, bool *drop)
{
	DecideJob  *job = &cycle->jobs[start->job];
	const char *type = type_name(cycle, start->type);
	int64		milli = (int64) start->gpus * start->share;
	LimitList	over = LimitsOver(cycle, job->org,
								  cycle->queued[start->job].account);

	for (int l = 0; l < over.n; l++)
	{
		QuotaLimit *limit = over.limits[l];

		if (!LimitConcerns(limit, type))
			continue;
		if ((limit->max_running >= 0 && limit->running + limit->claimed +
			 limit->new_running >= limit->max_running) ||
			(limit->max_milli >= 0 && limit->used_milli +
			 limit->claimed_milli + limit->new_milli + milli >
			 limit->max_milli))
		{
			drop[start->job] = !narrow(cycle, job, limit, start);
			return false;
		}
	}
	for (int l = 0; l < over.n; l++)
	{
		if (!LimitConcerns(over.limits[l], type))
			continue;
		over.limits[l]->new_running++;
		over.limits[l]->new_milli += milli;
	}
	return true;
}

/*
 * Ask for less: as many devices as the quota leaves, where a range allows
 * that; else without the quota's type.  False: nothing is left to ask for.
 */
static bool
narrow(Cycle *cycle, DecideJob *job, const QuotaLimit *limit,
	   const DecideStart *start)
{
	DecideAsk  *ask = &cycle->asks[job->ask];
	bool		may_run = limit->max_running < 0 ||
		limit->running + limit->claimed + limit->new_running <
		limit->max_running;
	int64		room = limit->max_milli < 0 || !may_run ? 0 :
		(limit->max_milli - limit->used_milli - limit->claimed_milli -
		 limit->new_milli) / DECIDE_WHOLE;

	if (ask->min_gpus < ask->max_gpus && room >= ask->min_gpus)
	{
		ask = own_ask(cycle, start->job);
		ask->max_gpus = (int32) Min(room, start->gpus - 1);
		return true;
	}
	if (*limit->gpu_type == '\0' || ask->n_offers < 2)
		return false;
	ask = own_ask(cycle, start->job);
	drop_type(ask, start->type);
	return true;
}

/*
 * Give a job an ask of its own, which may then change.
 */
static DecideAsk *
own_ask(Cycle *cycle, int32 index)
{
	DecideJob  *job = &cycle->jobs[index];
	Queued	   *queued = &cycle->queued[index];

	if (queued->whole_ask == 0)
		queued->whole_ask = job->ask + 1;
	job->ask = CycleAddAsk(cycle, &cycle->asks[job->ask]);
	return &cycle->asks[job->ask];
}

/*
 * Take a type out of an ask's offers.
 */
static void
drop_type(DecideAsk *ask, int32 type)
{
	DecideOffer *offers = palloc(sizeof(DecideOffer) * ask->n_offers);
	int32		kept = 0;

	for (int32 o = 0; o < ask->n_offers; o++)
	{
		if (ask->offers[o].type != type)
			offers[kept++] = ask->offers[o];
	}
	ask->offers = offers;
	ask->n_offers = kept;
}
