/*-------------------------------------------------------------------------
 *
 * usage.c
 *		Computes how much accounts used of a pool, for fair share.
 *
 * An attempt counts its devices, weighted by their type's price, for the whole
 * time for which it had them, billed or not. Use counts less the older it is
 * (decide/order/fair_use.c). Running attempts are counted from the rows of
 * their devices. After an attempt has ended, the pool's next cycle adds its
 * use to fair_usage and marks the attempt's row, in one transaction. So each
 * attempt counts once, even after a crash, and a refund does not reduce the
 * use. Until then the attempt is counted from its row.
 *
 * Only place() writes fair_usage, under the pool's lock.
 *
 * Locks, without waiting: attempts that have ended.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/errors.h"
#include "util/settings.h"
#include "util/sql.h"
#include "miscadmin.h"
#include "sched/sched.h"

#define MOST_CHARGED	10000	/* number of ended attempts that one cycle
								 * charges; the next cycle charges the
								 * remaining ones */

/*
 * Selects ended attempts whose use is not charged yet. An attempt ends at
 * once, and costs nearly nothing, if its node could not pull its image. Jobs
 * with such an image, retried again and again, would always go before accounts
 * that have used something, so such an attempt counts as five minutes. Its
 * outcome is "failed" if the image does not exist, and "not_started" if the
 * attempt returned its devices while the image was being pulled
 * (agent/pull_image.c).
 */
#define ENDED \
	"SELECT a.org, a.account, a.job, a.attempt, a.gpu_type, a.gpus," \
	" a.billed_share, CASE WHEN a.outcome IN ('not_started', 'failed')" \
	"  AND pg_catalog.starts_with(a.message, 'image: ')" \
	"  THEN LEAST(a.started_at, a.ended_at OPERATOR(pg_catalog.-)" \
	"   '5 minutes'::pg_catalog.interval)" \
	"  ELSE a.started_at END AS started_at, a.ended_at" \
	" FROM gpucredit.attempt a" \
	" WHERE a.pool = $1 AND a.needs_cycle AND a.ended_at IS NOT NULL"

SQL_STATEMENT(ended_read, SPI_OK_SELECT, "text", ENDED);
SQL_STATEMENT(ended_lock, SPI_OK_SELECT, "text, bigint",
			  ENDED " ORDER BY a.org, a.account LIMIT $2"
			  " FOR NO KEY UPDATE SKIP LOCKED");
SQL_STATEMENT(ended_charge, SPI_OK_UPDATE,
			  "text[], bigint[], int[], bigint[]",
			  "UPDATE gpucredit.attempt a SET usage_charged = u.usage_charged, needs_cycle = false"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2), pg_catalog.unnest($3),"
			  "  pg_catalog.unnest($4)) AS u (org, job, attempt, usage_charged)"
			  " WHERE a.org = u.org AND a.job = u.job"
			  " AND a.attempt = u.attempt");
SQL_STATEMENT(usage_read, SPI_OK_SELECT, "text, text[]",
			  "SELECT f.org, f.account, f.usage, f.at"
			  " FROM gpucredit.fair_usage f"
			  " WHERE f.org = ANY ($2) AND f.pool = $1");
SQL_STATEMENT(usage_of, SPI_OK_SELECT, "text, text[], text[]",
			  "SELECT u.n, f.usage, f.at"
			  " FROM ROWS FROM (pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3)) WITH ORDINALITY"
			  "  AS u (org, account, n)"
			  " JOIN gpucredit.fair_usage f ON f.org = u.org"
			  " AND f.pool = $1 AND f.account = u.account");
SQL_STATEMENT(usage_write, SPI_OK_INSERT,
			  "text, text[], text[], bigint[], timestamptz",
			  "INSERT INTO gpucredit.fair_usage AS f"
			  " (org, pool, account, usage, at)"
			  " SELECT u.org, $1, u.account, u.usage, $5"
			  " FROM ROWS FROM (pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3), pg_catalog.unnest($4))"
			  "  AS u (org, account, usage)"
			  " ON CONFLICT (org, pool, account) DO UPDATE"
			  " SET usage = EXCLUDED.usage, at = EXCLUDED.at");

/* Ended attempts to charge to their accounts. */
typedef struct Charges
{
	int			n;
	const char **orgs;			/* first of the attempts; note_charged() then
								 * shortens the arrays to one element for each
								 * account */
	const char **accounts;
	int64	   *jobs;
	int32	   *attempts;
	int64	   *usage_charged;	/* the undecayed use of each attempt, which is
								 * written into its row */
	int64	   *usage;			/* by account, the sum of its attempts' use,
								 * decayed until now */
} Charges;

static void add_running(SchedCycle *cycle);
static void add_ended(SchedCycle *cycle);
static void add_recorded(SchedCycle *cycle);
static int32 billed_share(const SchedCycle *cycle,
						  const DecideRunning *running);
static int64 weighted(const SchedCycle *cycle, int32 type, int64 milli);
static int64 ended_rate(const SchedCycle *cycle, SqlResult rows, uint64 i);
static int64 ended_use(const SchedCycle *cycle, SqlResult rows, uint64 i);
static void note_charged(const SchedCycle *cycle, SqlResult rows,
						 Charges *charges);
static void write_usage(const SchedCycle *cycle, Charges *charges);
static int64 plus(int64 a, int64 b);

/*
 * Loads how much each account has used, and how much accounts and tiers use
 * now.
 */
void
UsageLoad(SchedCycle *cycle)
{
	add_running(cycle);
	add_ended(cycle);
	add_recorded(cycle);
}

/* Charges the use of ended attempts to their accounts. */
void
UsageCharge(const SchedCycle *cycle)
{
	SqlResult	rows;
	Charges		charges;

	rows = SqlRun(&ended_lock,
				  VALUES(TextValue(cycle->pool), Int8Value(MOST_CHARGED)));
	if (rows.n == 0)
		return;
	charges.orgs = palloc(sizeof(char *) * rows.n);
	charges.accounts = palloc(sizeof(char *) * rows.n);
	charges.jobs = palloc(sizeof(int64) * rows.n);
	charges.attempts = palloc(sizeof(int32) * rows.n);
	charges.usage_charged = palloc(sizeof(int64) * rows.n);
	charges.usage = palloc(sizeof(int64) * rows.n);
	note_charged(cycle, rows, &charges);
	if (charges.n > 0)
		write_usage(cycle, &charges);
	SqlFree(&rows);
}

/* Adds the past and the present use of running attempts. */
static void
add_running(SchedCycle *cycle)
{
	int64		halflife = SettingUsageHalflife();

	for (int32 i = 0; i < cycle->input.n_running; i++)
	{
		DecideRunning *running = &cycle->running[i];
		DecideAccount *account = &cycle->accounts[running->account];
		int64		milli;
		int64		rate;

		running->counted = billed_share(cycle, running);
		if (running->over)
			continue;
		milli = (int64) running->gpus * running->counted;
		rate = weighted(cycle, running->type, milli);
		account->live = plus(account->live, rate);
		account->usage = plus(account->usage,
							  DecidePastUsage(rate,
											  cycle->now - running->started,
											  0, halflife));
		cycle->tiers[running->tier].live += milli;
	}
}

/*
 * Returns how many thousandths of each device a running attempt is billed for,
 * as the column attempt.billed_share has it.
 */
static int32
billed_share(const SchedCycle *cycle, const DecideRunning *running)
{
	const DecidePart *part = &cycle->running_parts[running->first_part];

	if (running->share >= SHARE_WHOLE || running->n_parts == 0)
		return running->share;
	return OffersShare(running->share, part->gpu_memory_mib,
					   cycle->set->nodes[part->node].gpu_memory_mib);
}

/* Adds the use of ended attempts that are not charged yet. */
static void
add_ended(SchedCycle *cycle)
{
	SqlResult	rows;

	rows = CycleRead(cycle, &ended_read, VALUES(TextValue(cycle->pool)));
	for (uint64 i = 0; i < rows.n; i++)
	{
		char	   *org = SqlText(rows, i, 1);
		char	   *path = SqlText(rows, i, 2);
		int32		index = AccountIndex(cycle, org, path);

		CHECK_FOR_INTERRUPTS();
		cycle->accounts[index].usage = plus(cycle->accounts[index].usage,
											ended_use(cycle, rows, i));
		pfree(org);
		pfree(path);
	}
	SqlFree(&rows);
}

/* Adds the charged use of all accounts of the loaded organisations. */
static void
add_recorded(SchedCycle *cycle)
{
	const char **orgs = palloc_extended(sizeof(char *) *
										(cycle->input.n_accounts + 1),
										MCXT_ALLOC_HUGE);
	int			n = 0;
	SqlResult	rows;

	for (int32 i = 0; i < cycle->input.n_accounts; i++)
	{
		if (cycle->accounts[i].parent < 0)
			orgs[n++] = cycle->account_names[i].org;
	}
	rows = CycleRead(cycle, &usage_read,
					 VALUES(TextValue(cycle->pool), TextArrayValue(orgs, n)));
	for (uint64 i = 0; i < rows.n; i++)
	{
		char	   *org = SqlText(rows, i, 1);
		char	   *path = SqlText(rows, i, 2);
		int32		index = AccountIndex(cycle, org, path);
		int64		left = DecideDecayed(SqlInt8(rows, i, 3),
										 cycle->now - SqlTime(rows, i, 4),
										 SettingUsageHalflife());

		CHECK_FOR_INTERRUPTS();
		cycle->accounts[index].usage = plus(cycle->accounts[index].usage,
											left);
		pfree(org);
		pfree(path);
	}
	SqlFree(&rows);
	pfree(orgs);
}

/* Multiplies thousandths of devices by the weight of their type. */
static int64
weighted(const SchedCycle *cycle, int32 type, int64 milli)
{
	if (type == DECIDE_NO_TYPE)
		return 0;
	return (int64) ((int128) milli * cycle->input.types[type].weight / 1000);
}

/*
 * Returns an ended attempt's use per second. A type that the pool no longer
 * has counts as much as the pool's cheapest type.
 */
static int64
ended_rate(const SchedCycle *cycle, SqlResult rows, uint64 i)
{
	char	   *name = SqlText(rows, i, 5);
	int64		milli = (int64) SqlInt4(rows, i, 6) * SqlInt4(rows, i, 7);
	int32		type = name ? NameFind(&cycle->set->types, name) : -1;

	if (name == NULL)
		return 0;
	pfree(name);
	return type < 0 ? milli : weighted(cycle, type, milli);
}

/* Returns the use of an ended attempt, decayed until now. */
static int64
ended_use(const SchedCycle *cycle, SqlResult rows, uint64 i)
{
	return DecidePastUsage(ended_rate(cycle, rows, i),
						   cycle->now - SqlTime(rows, i, 8),
						   cycle->now - SqlTime(rows, i, 9),
						   SettingUsageHalflife());
}

/* Marks each attempt as charged, and sums up the decayed use by account. */
static void
note_charged(const SchedCycle *cycle, SqlResult rows, Charges *charges)
{
	for (uint64 i = 0; i < rows.n; i++)
	{
		int64		ran = SqlTime(rows, i, 9) - SqlTime(rows, i, 8);

		CHECK_FOR_INTERRUPTS();
		charges->orgs[i] = SqlText(rows, i, 1);
		charges->accounts[i] = SqlText(rows, i, 2);
		charges->jobs[i] = SqlInt8(rows, i, 3);
		charges->attempts[i] = SqlInt4(rows, i, 4);
		charges->usage_charged[i] = (int64)
			Min((int128) ended_rate(cycle, rows, i) * Max(ran, 0) /
				USECS_PER_SEC, PG_INT64_MAX);
		charges->usage[i] = ended_use(cycle, rows, i);
	}
	Ensure(SqlRun(&ended_charge,
				  VALUES(TextArrayValue(charges->orgs, (int) rows.n),
						 Int8ArrayValue(charges->jobs, (int) rows.n),
						 Int4ArrayValue(charges->attempts, (int) rows.n),
						 Int8ArrayValue(charges->usage_charged,
										(int) rows.n))).n == rows.n,
		   "An attempt is missing.");

	/* The rows arrive sorted by account. */
	charges->n = 0;
	for (uint64 i = 0; i < rows.n; i++)
	{
		int			last = charges->n - 1;

		if (charges->usage_charged[i] == 0)
			continue;
		if (last < 0 || strcmp(charges->orgs[last], charges->orgs[i]) != 0 ||
			strcmp(charges->accounts[last], charges->accounts[i]) != 0)
		{
			last = charges->n++;
			charges->orgs[last] = charges->orgs[i];
			charges->accounts[last] = charges->accounts[i];
			charges->usage[last] = charges->usage[i];
		}
		else
			charges->usage[last] = plus(charges->usage[last],
										charges->usage[i]);
	}
}

/* Adds the summed use to the recorded use of the accounts. */
static void
write_usage(const SchedCycle *cycle, Charges *charges)
{
	Values	   *args = VALUES(TextValue(cycle->pool),
							  TextArrayValue(charges->orgs, charges->n),
							  TextArrayValue(charges->accounts, charges->n));
	SqlResult	rows = SqlRun(&usage_of, args);

	for (uint64 i = 0; i < rows.n; i++)
	{
		int64	   *usage = &charges->usage[SqlInt8(rows, i, 1) - 1];

		*usage = plus(*usage, DecideDecayed(SqlInt8(rows, i, 2),
											cycle->now - SqlTime(rows, i, 3),
											SettingUsageHalflife()));
	}
	SqlFree(&rows);
	ValuesAdd(args, Int8ArrayValue(charges->usage, charges->n),
			  TimeValue(cycle->now));
	(void) SqlRun(&usage_write, args);
}

/* Adds two numbers; a sum beyond the range becomes PG_INT64_MAX. */
static int64
plus(int64 a, int64 b)
{
	return a > PG_INT64_MAX - b ? PG_INT64_MAX : a + b;
}
