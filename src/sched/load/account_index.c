/*-------------------------------------------------------------------------
 *
 * account_index.c
 *		Loads accounts, tiers, weights of GPU types and the pool's policy.
 *
 * AccountIndex() numbers the account of every waiting or running job, and the
 * accounts above it. ShareLoad() then reads the properties of the numbered
 * accounts, with one statement for each kind of property.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "util/sql.h"
#include "common/hashfn.h"
#include "sched/sched.h"

#define WEIGHT_MOST INT64CONST(1000000000)

typedef AccountName AccountKey; /* compared by the texts that its pointers
								 * point to, not by the pointers */

typedef struct AccountEntry
{
	AccountKey	key;
	int32		index;
} AccountEntry;

SQL_STATEMENT(tiers_read, SPI_OK_SELECT, "",
			  "SELECT t.tier, t.rank, t.can_preempt, t.grace, t.min_run,"
			  " t.max_wait, t.open, t.ages_to FROM gpucredit.tier t");
/* Most accounts have the weight 1, which is not stored. */
SQL_STATEMENT(weights_read, SPI_OK_SELECT, "text[]",
			  "SELECT a.org, a.account, a.weight FROM gpucredit.account a"
			  " WHERE a.org = ANY ($1) AND a.weight <> 1");
SQL_STATEMENT(weights_read_of, SPI_OK_SELECT, "text[], text[]",
			  "SELECT a.org, a.account, a.weight FROM ROWS FROM"
			  " (pg_catalog.unnest($1), pg_catalog.unnest($2))"
			  " AS u (org, account) JOIN gpucredit.account a"
			  " ON a.org = u.org AND a.account = u.account"
			  " AND a.weight <> 1");

/*
 * Context of reading weights, for all accounts of some organisations or for
 * single accounts.
 */
typedef struct Weights
{
	SchedCycle *cycle;
	int64		most;			/* number of rows after which reading stops */
} Weights;

static void load_tiers(SchedCycle *cycle, const PoolPolicy *policy);
static DecideTier *add_tier(SchedCycle *cycle, const char *name);
static uint32 hash_account(const void *key, Size size);
static int	match_account(const void *a, const void *b, Size size);
static int32 add_account(SchedCycle *cycle, const AccountKey *key);
static void load_types(SchedCycle *cycle);
static void load_weights(SchedCycle *cycle);
static bool add_weight(void *context, const Datum *values, const bool *nulls);

/*
 * Initialises policy, types, tiers and the table of accounts, before any
 * account is numbered.
 */
void
ShareBegin(SchedCycle *cycle)
{
	PoolPolicy *policy = PolicyRead(cycle->pool, cycle->read_only);

	cycle->input.policy = policy->decide;
	cycle->foreign = policy->foreign;
	load_types(cycle);
	load_tiers(cycle, policy);
	cycle->max_accounts = 64;
	cycle->accounts = palloc(sizeof(DecideAccount) * cycle->max_accounts);
	cycle->account_names = palloc(sizeof(AccountName) * cycle->max_accounts);
	cycle->account_ids = AccountTable("gpucredit accounts",
									  sizeof(AccountEntry));
}

/* Creates an empty hash table whose entries begin with an account's name. */
HTAB *
AccountTable(const char *what, Size entry)
{
	HASHCTL		control = {.keysize = sizeof(AccountKey), .entrysize = entry,
		.hash = hash_account, .match = match_account,
		.hcxt = CurrentMemoryContext};

	return hash_create(what, 256, &control, HASH_ELEM | HASH_FUNCTION |
					   HASH_COMPARE | HASH_CONTEXT);
}

/* Loads what the decision needs of the numbered accounts. */
void
ShareLoad(SchedCycle *cycle)
{
	if (cycle->input.n_accounts > 0)
		load_weights(cycle);
	cycle->input.tiers = cycle->tiers;
	cycle->input.accounts = cycle->accounts;
}

/* Loads all tiers, and the share of the pool that each is guaranteed. */
static void
load_tiers(SchedCycle *cycle, const PoolPolicy *policy)
{
	SqlResult	rows = CycleRead(cycle, &tiers_read, NULL);

	cycle->max_tiers = (int) rows.n + 16;
	cycle->tiers = palloc(sizeof(DecideTier) * cycle->max_tiers);
	cycle->tier_names = palloc(sizeof(char *) * cycle->max_tiers);
	cycle->tier_closed = palloc(sizeof(bool) * cycle->max_tiers);
	for (uint64 i = 0; i < rows.n; i++)
	{
		DecideTier *tier = add_tier(cycle, SqlText(rows, i, 1));

		tier->rank = SqlInt4(rows, i, 2);
		tier->can_preempt = SqlBool(rows, i, 3);
		tier->grace = SqlDuration(rows, i, 4);
		tier->min_run = SqlDuration(rows, i, 5);
		tier->max_wait = SqlDuration(rows, i, 6);
		cycle->tier_closed[i] = !SqlBool(rows, i, 7);
		tier->ages_to = SqlIsNull(rows, i, 8) ? -1 : SqlInt4(rows, i, 8);
	}
	SqlFree(&rows);
	for (int i = 0; i < cycle->input.n_tiers; i++)
	{
		if (cycle->tiers[i].ages_to < 0)
			cycle->tiers[i].ages_to = DecideAgesTo(cycle->tiers,
												   cycle->input.n_tiers, i);
	}
	for (int i = 0; i < policy->n_shares; i++)
		cycle->tiers[TierIndex(cycle, policy->shares[i].tier)].share_ppm =
			policy->shares[i].ppm;
}

/* Adds a tier of which only the name is known, and returns its entry. */
static DecideTier *
add_tier(SchedCycle *cycle, const char *name)
{
	int			n = cycle->input.n_tiers++;

	if (n == cycle->max_tiers)
	{
		cycle->max_tiers *= 2;
		cycle->tiers = repalloc(cycle->tiers,
								sizeof(DecideTier) * cycle->max_tiers);
		cycle->tier_names = repalloc(cycle->tier_names,
									 sizeof(char *) * cycle->max_tiers);
		cycle->tier_closed = repalloc(cycle->tier_closed,
									  sizeof(bool) * cycle->max_tiers);
	}
	cycle->tier_names[n] = name;
	cycle->tier_closed[n] = false;
	memset(&cycle->tiers[n], 0, sizeof(DecideTier));
	return &cycle->tiers[n];
}

/*
 * Returns the number of a tier. A tier that was removed after a job's
 * submission ranks last, and its jobs do not age.
 */
int32
TierIndex(SchedCycle *cycle, const char *name)
{
	DecideTier *tier;

	for (int i = 0; i < cycle->input.n_tiers; i++)
	{
		if (strcmp(cycle->tier_names[i], name) == 0)
			return i;
	}
	tier = add_tier(cycle, pstrdup(name));
	tier->rank = PG_INT32_MAX;
	tier->max_wait = DECIDE_NEVER;
	return cycle->input.n_tiers - 1;
}

static uint32
hash_account(const void *key, Size size)
{
	const AccountKey *account = key;

	return hash_combine(hash_bytes((const unsigned char *) account->org,
								   (int) strlen(account->org)),
						hash_bytes((const unsigned char *) account->path,
								   (int) strlen(account->path)));
}

static int
match_account(const void *a, const void *b, Size size)
{
	const AccountKey *x = a;
	const AccountKey *y = b;

	return strcmp(x->org, y->org) != 0 || strcmp(x->path, y->path) != 0;
}

/* Returns the number of an account, and adds the account if it is new. */
int32
AccountIndex(SchedCycle *cycle, const char *org, const char *path)
{
	AccountKey	key = {org, path};

	return add_account(cycle, &key);
}

/* Returns the number of an account, or -1 if it has no jobs in the cycle. */
int32
AccountFind(const SchedCycle *cycle, const char *org, const char *path)
{
	AccountKey	key = {org, path};
	const AccountEntry *entry = hash_search(cycle->account_ids, &key,
											HASH_FIND, NULL);

	return entry == NULL ? -1 : entry->index;
}

/*
 * Returns the number of an account. A new account gets its number after the
 * accounts above it, so that parents have lower numbers.
 */
static int32
add_account(SchedCycle *cycle, const AccountKey *key)
{
	bool		found;
	AccountEntry *entry = hash_search(cycle->account_ids, key, HASH_FIND,
									  NULL);
	int32		parent = -1;
	int32		n;

	if (entry != NULL)
		return entry->index;
	if (*key->path != '\0')
	{
		const char *slash = strrchr(key->path, '/');
		AccountKey	above = {key->org, slash == NULL ? "" :
			pnstrdup(key->path, slash - key->path)};

		parent = add_account(cycle, &above);
	}
	entry = hash_search(cycle->account_ids, key, HASH_ENTER, &found);
	entry->key.org = parent < 0 ? pstrdup(key->org) :
		cycle->account_names[parent].org;
	entry->key.path = pstrdup(key->path);
	n = cycle->input.n_accounts++;
	if (n == cycle->max_accounts)
	{
		cycle->max_accounts *= 2;
		cycle->accounts = repalloc_huge(cycle->accounts,
										sizeof(DecideAccount) *
										cycle->max_accounts);
		cycle->account_names = repalloc_huge(cycle->account_names,
											 sizeof(AccountName) *
											 cycle->max_accounts);
	}
	entry->index = n;
	cycle->account_names[n] = entry->key;
	cycle->accounts[n] = (DecideAccount)
	{
		.parent = parent, .weight = DECIDE_WEIGHT_ONE,
			.name = *key->path == '\0' ? entry->key.org :
			psprintf("%s/%s", key->org, key->path)
	};
	return n;
}

/*
 * Returns the number of a row's account. It is usually the account of the row
 * before, whose number the caller passes (-1 if there is none).
 */
int32
AccountOfRow(SchedCycle *cycle, int32 before, Datum org, Datum path)
{
	char	   *org_text;
	char	   *path_text;
	int32		account;

	if (before >= 0 && TextIs(path, cycle->account_names[before].path) &&
		TextIs(org, cycle->account_names[before].org))
		return before;
	org_text = TextDatumGetCString(org);
	path_text = TextDatumGetCString(path);
	account = AccountIndex(cycle, org_text, path_text);
	pfree(org_text);
	pfree(path_text);
	return account;
}

/*
 * Returns the number of a row's tier, which is usually the tier of the row
 * before, whose number the caller passes (-1 if there is none).
 */
int32
TierOfRow(SchedCycle *cycle, int32 before, Datum tier)
{
	char	   *name;
	int32		number;

	if (before >= 0 && TextIs(tier, cycle->tier_names[before]))
		return before;
	name = TextDatumGetCString(tier);
	number = TierIndex(cycle, name);
	pfree(name);
	return number;
}

/* Whether a text datum equals a C string. */
bool
TextIs(Datum value, const char *what)
{
	text	   *bytes = DatumGetTextPP(value);
	Size		size = VARSIZE_ANY_EXHDR(bytes);

	return strncmp(VARDATA_ANY(bytes), what, size) == 0 && what[size] == '\0';
}

/*
 * Loads the weights of GPU types. A type's weight is its price in thousandths
 * of the price of the pool's cheapest type. Types without a price weigh as
 * much as the cheapest.
 */
static void
load_types(SchedCycle *cycle)
{
	int			n = cycle->set->types.n;
	DecideType *types = palloc(sizeof(DecideType) * (n + 1));
	Credits    *costs = palloc0(sizeof(Credits) * (n + 1));
	Credits		cheapest = 0;
	Price	   *prices;
	int			n_prices = PricesRead(cycle->pool, cycle->now,
									  cycle->read_only, &prices);

	for (int p = 0; p < n_prices; p++)
	{
		int32		type = NameFind(&cycle->set->types, prices[p].gpu_type);
		Credits		cost = prices[p].per_gpu_hour;

		if (type < 0 || cost <= 0)
			continue;
		costs[type] = cost;
		if (cheapest == 0 || cost < cheapest)
			cheapest = cost;
	}
	for (int i = 0; i < n; i++)
	{
		int128		weight = costs[i] <= 0 ? 1000 :
			((int128) costs[i] * 1000 + cheapest / 2) / cheapest;

		types[i].weight = (int64) Min(weight, WEIGHT_MOST);
	}
	cycle->input.types = types;
	cycle->input.n_types = n;
}

/*
 * Loads the weights of the numbered accounts. Few organisations set many
 * weights, so the weights are read for whole organisations. If most rows turn
 * out to belong to accounts without jobs, the weights are read for single
 * accounts instead.
 */
static void
load_weights(SchedCycle *cycle)
{
	int			n = cycle->input.n_accounts;
	const char **texts = palloc_extended(sizeof(char *) * 2 * n,
										 MCXT_ALLOC_HUGE);
	Weights		weights = {cycle, 2 * (int64) n};
	Values		args = {0};
	int			orgs = 0;

	for (int i = 0; i < n; i++)
	{
		if (cycle->accounts[i].parent < 0)
			texts[orgs++] = cycle->account_names[i].org;
	}
	ValuesAdd(&args, TextArrayValue(texts, orgs));
	SqlEach(&weights_read, &args, cycle->read_only, add_weight, &weights);
	if (weights.most == 0)
	{
		for (int i = 0; i < n; i++)
		{
			texts[i] = cycle->account_names[i].org;
			texts[n + i] = cycle->account_names[i].path;
		}
		args = (Values){0};
		ValuesAdd(&args, TextArrayValue(texts, n),
				  TextArrayValue(texts + n, n));
		weights.most = PG_INT64_MAX;
		SqlEach(&weights_read_of, &args, cycle->read_only, add_weight,
				&weights);
	}
	pfree(texts);
}

static bool
add_weight(void *context, const Datum *values, const bool *nulls)
{
	Weights    *weights = context;
	char	   *org = TextDatumGetCString(values[0]);
	char	   *path = TextDatumGetCString(values[1]);
	int32		account = AccountFind(weights->cycle, org, path);

	if (account >= 0)
		weights->cycle->accounts[account].weight =
			CreditsFromNumeric(DatumGetNumeric(values[2]), "weight");
	pfree(org);
	pfree(path);
	return --weights->most > 0;
}
