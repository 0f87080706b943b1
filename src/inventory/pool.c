/*-------------------------------------------------------------------------
 *
 * pool.c
 *		Pools, and the lock on one.
 *
 * The lock is the pool's row, FOR NO KEY UPDATE, and each decision or change
 * increases a counter in the row.  So a transaction whose snapshot is older
 * than the last decision gets 40001 at REPEATABLE READ and SERIALIZABLE.  With
 * an advisory lock, such a transaction could decide on an old state.
 *
 * Locks: the pool's row, after request keys and before anything else.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "api/api.h"
#include "inventory/inventory.h"
#include "types/clip.h"

API_FUNCTION(gpucredit_create_pool, create_pool);

#define DEFAULT_POOL	"default"

SQL_STATEMENT(pool_upsert, SPI_OK_INSERT, "text, jsonb, timestamptz",
			  "INSERT INTO gpucredit.pool (pool, policy, created_at)"
			  " VALUES ($1, $2, $3) ON CONFLICT (pool) DO UPDATE"
			  " SET policy = EXCLUDED.policy, cycle = pool.cycle + 1");
SQL_STATEMENT(pool_default, SPI_OK_INSERT, "text, timestamptz",
			  "INSERT INTO gpucredit.pool (pool, policy, created_at)"
			  " VALUES ($1, '{}', $2) ON CONFLICT (pool) DO NOTHING");
SQL_STATEMENT(pool_lock, SPI_OK_UPDATE, "text, bigint",
			  "UPDATE gpucredit.pool p SET cycle = p.cycle + 1,"
			  " shape = COALESCE($2, p.shape) WHERE p.pool = $1");
SQL_STATEMENT(pool_try_lock, SPI_OK_SELECT, "text",
			  "SELECT 1 FROM gpucredit.pool p WHERE p.pool = $1"
			  " FOR NO KEY UPDATE SKIP LOCKED");
SQL_STATEMENT(pool_count, SPI_OK_UPDATE, "text",
			  "UPDATE gpucredit.pool p SET cycle = p.cycle + 1"
			  " WHERE p.pool = $1");
SQL_STATEMENT(pool_shape, SPI_OK_SELECT, "text",
			  "SELECT p.shape FROM gpucredit.pool p WHERE p.pool = $1");

static void ensure_default(const char *pool);
static int64 new_shape(void);
static pg_attribute_noreturn() void refuse_unknown(const char *pool);

/*
 * The default pool always exists, but its row is only inserted at its first
 * use, which is here.
 */
static void
ensure_default(const char *pool)
{
	if (strcmp(pool, DEFAULT_POOL) != 0)
		return;
	(void) SqlRun(&pool_default,
				  VALUES(TextValue(pool), TimeValue(ClockNow())));
}

static void
refuse_unknown(const char *pool)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_NO_POOL),
			 errmsg("pool \"%s\" does not exist", ClipForMessage(pool)),
			 errdetail("No pool of that name was created."),
			 errhint("Create it with gpucredit.create_pool().")));
}

/*
 * Returns a random number for a new set of nodes.  Backends cache sets of
 * nodes by this number, so it must not be one that another set ever had, even
 * in a transaction that was rolled back or an extension that was dropped.
 */
static int64
new_shape(void)
{
	uint64		shape;

	if (!pg_strong_random(&shape, sizeof(shape)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	return (int64) (shape & PG_INT64_MAX);
}

/*
 * Locks a pool and waits for its scheduling cycle to end.  With reshape the
 * caller is about to change the pool's nodes, so their set gets a new number.
 */
void
PoolLock(const char *pool, bool reshape)
{
	Values	   *args = VALUES(TextValue(pool),
							  reshape ? Int8Value(new_shape()) : NullValue());

	if (SqlRun(&pool_lock, args).n > 0)
		return;
	ensure_default(pool);
	if (SqlRun(&pool_lock, args).n == 0)
		refuse_unknown(pool);
}

/*
 * Locks a pool for a scheduling cycle.  Returns false if another cycle is
 * running.
 */
bool
PoolTryLock(const char *pool)
{
	Values	   *args = VALUES(TextValue(pool));

	if (SqlRun(&pool_try_lock, args).n > 0)
		return true;
	if (PoolShape(pool) >= 0)
		return false;
	ensure_default(pool);
	return SqlRun(&pool_try_lock, args).n > 0;
}

/* Counts a decision of the locked pool's cycle. */
void
PoolCount(const char *pool)
{
	(void) SqlRun(&pool_count, VALUES(TextValue(pool)));
}

/*
 * Returns the number of the pool's set of nodes, or -1 for the default pool
 * before its first use.
 */
int64
PoolShape(const char *pool)
{
	SqlResult	row = SqlRun(&pool_shape, VALUES(TextValue(pool)));

	if (row.n > 0)
		return SqlInt8(row, 0, 1);
	if (strcmp(pool, DEFAULT_POOL) != 0)
		refuse_unknown(pool);
	return -1;
}

/* Raises UC401 if there is no such pool; for reading functions. */
void
PoolExists(const char *pool)
{
	if (SqlRead(&pool_shape, VALUES(TextValue(pool))).n == 0 &&
		strcmp(pool, DEFAULT_POOL) != 0)
		refuse_unknown(pool);
}

Datum
call_create_pool(PG_FUNCTION_ARGS)
{
	char	   *pool = ArgName(fcinfo, 0, "pool");
	Jsonb	   *policy = ArgObject(fcinfo, 1, "policy");
	PoolPolicy	parsed;
	Tier		tier;
	AuditRow	audit = {.operation = "create_pool", .decision = "set",
		.at = ClockNow()};

	PolicyParse(policy, &parsed);
	SqlConnect();
	for (int i = 0; i < parsed.n_shares; i++)
		TierRead(parsed.shares[i].tier, &tier);
	(void) SqlRun(&pool_upsert,
				  VALUES(TextValue(pool), JsonValue(policy),
						 TimeValue(audit.at)));
	AuditArgs(&audit, fcinfo);
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}
