/*-------------------------------------------------------------------------
 *
 * limits.c
 *		What limits an account, in its own row.
 *
 * Who draws reads the rows of its path in any case.  So each has, of the
 * account's budgets and quotas, what a draw must know before it counts in
 * them: tables of their own would be asked at each level, most often for
 * nothing.  What is changed with each draw (what a budget counted, what a quota
 * has to spare) is not there.
 *
 * Who sets a budget or a quota locks the account's row first, and writes there
 * last what the tables say by then.
 *
 * Locks: the account's row, before its budgets and quotas.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/clock.h"
#include "common/sql.h"
#include "ledger/limits.h"

/*
 * A look at a path goes for so long as what limits it.  Who had to wait since,
 * for a quota that is, waited longer and looks again: what was set meanwhile
 * counts, as the instant of a hold is after it.
 */
#define LOOK_STAYS	(5 * INT64CONST(1000))

SQL_STATEMENT(account_lock, SPI_OK_SELECT, "text, text",
			  "SELECT 1 FROM gpucredit.account a"
			  " WHERE a.org = $1 AND a.account = $2 FOR NO KEY UPDATE");
SQL_STATEMENT(limits_keep, SPI_OK_UPDATE, "text, text",
			  "UPDATE gpucredit.account a SET limits = NULLIF("
			  " pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object("
			  "  'budgets', (SELECT pg_catalog.jsonb_agg("
			  "   pg_catalog.jsonb_build_array(b.period,"
			  "   b.amount::pg_catalog.numeric, b.hard, b.slices, b.alert_at)"
			  "   ORDER BY b.period COLLATE pg_catalog.\"C\")"
			  "   FROM gpucredit.budget b"
			  "   WHERE b.org = $1 AND b.account = $2),"
			  "  'quotas', (SELECT pg_catalog.jsonb_agg("
			  "   pg_catalog.jsonb_build_array(q.gpu_type, q.max_gpus,"
			  "   q.max_queued IS NOT NULL) ORDER BY q.gpu_type)"
			  "   FROM gpucredit.quota q"
			  "   WHERE q.org = $1 AND q.account = $2))),"
			  " '{}'::pg_catalog.jsonb)"
			  " WHERE a.org = $1 AND a.account = $2");

/*
 * Nobody else sets a budget or a quota of the account from here on.
 */
void
AccountLimitsLock(const char *org, const char *account)
{
	SqlArgs		args = {0};

	SqlArgText(&args, org);
	SqlArgText(&args, account);
	(void) SqlRun(&account_lock, &args);
}

/*
 * Write into the account's row, which is locked, what its budgets and quotas
 * are by now.
 */
void
AccountLimitsKeep(const char *org, const char *account)
{
	SqlArgs		args = {0};

	SqlArgText(&args, org);
	SqlArgText(&args, account);
	(void) SqlRun(&limits_keep, &args);
}

/*
 * Does what was seen of a path say what limits it?
 */
bool
AccountLimitsKnown(const AccountPath *path)
{
	return path->looked &&
		ClockSteady() - path->looked_at < LOOK_STAYS;
}

/*
 * The budgets, or quotas, of a level: of each its fields, as JsonbValues.
 */
List *
AccountLimitsOf(const AccountPath *path, int level, const char *kind)
{
	JsonbValue	list;
	List	   *limits = NIL;

	if (path->limits[level] == NULL ||
		getKeyJsonValueFromContainer(&path->limits[level]->root, kind,
									 strlen(kind), &list) == NULL)
		return NIL;
	for (uint32 i = 0; i < JsonContainerSize(list.val.binary.data); i++)
	{
		JsonbValue *limit = getIthJsonbValueFromContainer(list.val.binary.data,
														  i);
		JsonbContainer *fields = limit->val.binary.data;
		JsonbValue *values = palloc(sizeof(JsonbValue) *
									JsonContainerSize(fields));

		for (uint32 f = 0; f < JsonContainerSize(fields); f++)
			values[f] = *getIthJsonbValueFromContainer(fields, f);
		limits = lappend(limits, values);
	}
	return limits;
}
