/*-------------------------------------------------------------------------
 *
 * fair_share.c
 *		The function fair_share(): the standing of a pool's accounts.
 *
 * It covers all accounts of the organisations that used the pool, use it now
 * or wait for it, with the figures of a cycle. A share depends on all of these
 * accounts, so each call reads all of them, but it builds only the rows that
 * the caller asks for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/clock.h"
#include "util/compat.h"
#include "util/errors.h"
#include "util/sql.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(gpucredit_fair_share);

#define MILLION		INT64CONST(1000000)

/*
 * An account's figures, beside its weight and rank. Sums are 128 bits wide,
 * because a sum of weights or of use may exceed the range of a single
 * account's value.
 */
typedef struct Standing
{
	int32		account;
	bool		own;			/* whether the account has jobs of its own in
								 * this pool */
	int128		own_use;
	int128		decayed;		/* past use of the account and all below it */
	int128		live;
	int128		children;		/* sum of the weights of its children */
	int64		share;			/* in millionths of the pool */
} Standing;

/* The part of the rows that the caller asks for. */
typedef struct SharePage
{
	const char *org;			/* NULL for all organisations */
	const char *after_org;		/* only rows after this account; NULL to begin
								 * with the first */
	const char *after_account;
	int32		most;
} SharePage;

SQL_STATEMENT(waiting_read, SPI_OK_SELECT, "text",
			  "SELECT DISTINCT j.org, j.account FROM gpucredit.job j"
			  " WHERE j.pool = $1 AND j.state = 'queued'");
SQL_STATEMENT(users_read, SPI_OK_SELECT, "text",
			  "SELECT DISTINCT f.org FROM gpucredit.fair_usage f"
			  " WHERE f.pool = $1");
SQL_STATEMENT(accounts_read, SPI_OK_SELECT, "text[]",
			  "SELECT a.org, a.account FROM gpucredit.account a"
			  " WHERE a.org = ANY ($1)");

static void name_accounts(SchedCycle *cycle);
static bool name_account(void *context, const Datum *values,
						 const bool *nulls);
static Standing *stand(SchedCycle *cycle, SqlResult waiting);
static int	compare_names(const void *a, const void *b, void *arg);
static SharePage page_asked(FunctionCallInfo fcinfo);
static bool is_on_page(const SharePage *page, const AccountName *name);
static SqlResult name_users(SchedCycle *cycle);
static void put_account(ReturnSetInfo *rsinfo, const SchedCycle *cycle,
						const Standing *standing, int128 all_used,
						int32 rank);
static Credits millionths(int128 amount);

Datum
gpucredit_fair_share(PG_FUNCTION_ARGS)
{
	char	   *pool = ArgName(fcinfo, 0, "pool");
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SchedCycle	cycle = {.pool = pool, .read_only = true};
	DecideArena arena = ArenaOf(CurrentMemoryContext);
	Standing   *standings;
	SqlResult	waiting;
	const char *problem;
	int32	   *ranks;
	int32	   *order;
	int32		n_rows = 0;
	int128		all_used = 0;
	SharePage	page = page_asked(fcinfo);

	InitMaterializedSRF(fcinfo, 0);
	SqlConnect();
	PoolExists(pool);
	cycle.now = cycle.input.now = ClockNow();
	cycle.set = NodesLoad(pool, true);
	cycle.input.nodes = cycle.set->nodes;
	cycle.input.n_nodes = cycle.set->n;
	ShareBegin(&cycle);
	RunningLoad(&cycle);
	waiting = name_users(&cycle);
	UsageLoad(&cycle);
	name_accounts(&cycle);
	ShareLoad(&cycle);
	problem = DecideFairRank(&cycle.input, &arena, &ranks);
	Ensure(problem == NULL, problem);

	standings = stand(&cycle, waiting);
	order = palloc(sizeof(int32) * (cycle.input.n_accounts + 1));
	for (int32 i = 0; i < cycle.input.n_accounts; i++)
	{
		if (is_on_page(&page, &cycle.account_names[i]))
			order[n_rows++] = i;
		all_used += standings[i].own_use;
	}
	qsort_arg(order, n_rows, sizeof(int32), compare_names, &cycle);
	for (int32 i = 0; i < Min(n_rows, page.most); i++)
		put_account(rsinfo, &cycle, &standings[order[i]], all_used,
					ranks[order[i]]);
	SqlFinish();
	return (Datum) 0;
}

/* Parses the arguments that follow the pool. */
static SharePage
page_asked(FunctionCallInfo fcinfo)
{
	SharePage	page = {.most = PG_INT32_MAX};

	page.org = ArgNameOrNull(fcinfo, 1, "org");
	if (!PG_ARGISNULL(2))
		page.most = ArgInt4(fcinfo, 2, "most", 1, PG_INT32_MAX);
	page.after_org = ArgNameOrNull(fcinfo, 3, "after_org");
	page.after_account = ArgPath(fcinfo, 4, "after_account");
	return page;
}

/*
 * Whether an account belongs to the organisation that the caller asks for, and
 * comes after the last row of the previous page.
 */
static bool
is_on_page(const SharePage *page, const AccountName *name)
{
	int			order;

	if (page->org != NULL && strcmp(name->org, page->org) != 0)
		return false;
	if (page->after_org == NULL)
		return true;
	order = strcmp(name->org, page->after_org);
	return order > 0 ||
		(order == 0 && strcmp(name->path, page->after_account) > 0);
}

/*
 * Adds the organisations that used the pool, and the accounts with waiting
 * jobs. Returns the accounts with waiting jobs.
 */
static SqlResult
name_users(SchedCycle *cycle)
{
	Values	   *args = VALUES(TextValue(cycle->pool));
	SqlResult	rows = SqlRead(&users_read, args);

	for (uint64 i = 0; i < rows.n; i++)
		(void) AccountIndex(cycle, SqlText(rows, i, 1), "");
	rows = SqlRead(&waiting_read, args);
	for (uint64 i = 0; i < rows.n; i++)
		(void) AccountIndex(cycle, SqlText(rows, i, 1), SqlText(rows, i, 2));
	return rows;
}

/* Adds all accounts of the organisations added so far. */
static void
name_accounts(SchedCycle *cycle)
{
	const char **orgs = palloc(sizeof(char *) *
							   (cycle->input.n_accounts + 1));
	int			n = 0;

	for (int32 i = 0; i < cycle->input.n_accounts; i++)
	{
		if (cycle->accounts[i].parent < 0)
			orgs[n++] = cycle->account_names[i].org;
	}
	SqlEach(&accounts_read,
			VALUES(TextArrayValue(orgs, n)), true, name_account, cycle);
}

static bool
name_account(void *context, const Datum *values, const bool *nulls)
{
	(void) AccountOfRow(context, -1, values[0], values[1]);
	return true;
}

/*
 * Sums up use and weights. An account's share is its weight divided by the sum
 * of its siblings' and its own weights, times its parent's share. The own jobs
 * of an account with children count as one more child.
 */
static Standing *
stand(SchedCycle *cycle, SqlResult waiting)
{
	int32		n = cycle->input.n_accounts;
	Standing   *standings = palloc0(sizeof(Standing) * (n + 1));
	int128		roots = 0;

	for (uint64 i = 0; i < waiting.n; i++)
		standings[AccountIndex(cycle, SqlText(waiting, i, 1),
							   SqlText(waiting, i, 2))].own = true;
	for (int32 i = 0; i < n; i++)
	{
		const DecideAccount *account = &cycle->accounts[i];
		Standing   *standing = &standings[i];

		standing->account = i;
		standing->own_use = account->usage +
			(int128) account->live * cycle->input.policy.fair_horizon;
		standing->own |= standing->own_use > 0;
		for (int32 a = i; a >= 0; a = cycle->accounts[a].parent)
		{
			standings[a].decayed += account->usage;
			standings[a].live += account->live;
		}
		if (account->parent < 0)
			roots += account->weight;
		else
			standings[account->parent].children += account->weight;
	}
	/* Accounts have higher numbers than the accounts above them. */
	for (int32 i = 0; i < n; i++)
	{
		const DecideAccount *account = &cycle->accounts[i];
		const Standing *above = account->parent < 0 ? NULL :
			&standings[account->parent];
		int128		weights = above == NULL ? roots :
			above->children + (above->own ? MILLION : 0);

		standings[i].share = (int64)
			((int128) (above == NULL ? MILLION : above->share) *
			 account->weight / weights);
	}
	return standings;
}

/*----------
 * The order in which fair_share() returns accounts:
 *
 * 1. organisation;
 * 2. path of the account.
 *----------
 */
static int
compare_names(const void *a, const void *b, void *arg)
{
	const AccountName *names = ((const SchedCycle *) arg)->account_names;
	const AccountName *x = &names[*(const int32 *) a];
	const AccountName *y = &names[*(const int32 *) b];
	int			order = strcmp(x->org, y->org);

	return order != 0 ? order : strcmp(x->path, y->path);
}

/*
 * Returns the row of an account. Use is in thousandths of devices times
 * seconds; the columns are credits with six decimals.
 */
static void
put_account(ReturnSetInfo *rsinfo, const SchedCycle *cycle,
			const Standing *standing, int128 all_used, int32 rank)
{
	const AccountName *name = &cycle->account_names[standing->account];
	int128		used = standing->decayed + standing->live *
		cycle->input.policy.fair_horizon;

	RowPut(rsinfo,
		   VALUES(TextValue(name->org), TextValue(name->path),
				  NumericValue(cycle->accounts[standing->account].weight),
				  NumericValue(millionths(standing->decayed * 10 / 36)),
				  NumericValue(millionths(standing->live * 1000)),
				  NumericValue(standing->share),
				  NumericValue(all_used == 0 ? 0 :
							   millionths(used * MILLION / all_used)),
				  Int4Value(rank)));
}

/*
 * Converts an amount to the type of the column; larger amounts become its
 * largest value.
 */
static Credits
millionths(int128 amount)
{
	return (Credits) Min(amount, PG_INT64_MAX);
}
