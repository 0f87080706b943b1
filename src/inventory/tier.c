/*-------------------------------------------------------------------------
 *
 * tier.c
 *		Tiers: how urgent a job is, and whether it may be preempted.
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

API_FUNCTION(gpucredit_set_tier, set_tier);

#define FACTOR_MOST		INT64CONST(1000000000)	/* a factor of 1000, as
												 * credits */

const char *const PreemptibleNames[3] = {"never", "reclaim", "capacity"};

/*
 * The view gpucredit.tier has the same rows: an operator's tier takes
 * precedence over a built-in one of that name.
 */
#define TIER_READ(table) \
	"SELECT t.rank, t.preemptible, t.max_wall," \
	" (t.price_factor * 1000)::int, t.open" \
	" FROM gpucredit." table " t WHERE t.tier = $1"
SQL_STATEMENT(tier_custom, SPI_OK_SELECT, "text", TIER_READ("tier_custom"));
SQL_STATEMENT(tier_builtin, SPI_OK_SELECT, "text", TIER_READ("tier_builtin"));
SQL_STATEMENT(tier_upsert, SPI_OK_INSERT,
			  "text, int, text, boolean, interval, interval, interval,"
			  " interval, boolean, numeric, boolean, int",
			  "INSERT INTO gpucredit.tier_custom (tier, rank, preemptible,"
			  " can_preempt, grace, min_run, max_wall, max_wait,"
			  " bill_lost_work, price_factor, open, ages_to)"
			  " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, COALESCE($11,"
			  "  (SELECT t.open FROM gpucredit.tier t WHERE t.tier = $1),"
			  "  true), $12)"
			  " ON CONFLICT (tier) DO UPDATE SET rank = EXCLUDED.rank,"
			  " preemptible = EXCLUDED.preemptible,"
			  " can_preempt = EXCLUDED.can_preempt, grace = EXCLUDED.grace,"
			  " min_run = EXCLUDED.min_run, max_wall = EXCLUDED.max_wall,"
			  " max_wait = EXCLUDED.max_wait,"
			  " bill_lost_work = EXCLUDED.bill_lost_work,"
			  " price_factor = EXCLUDED.price_factor,"
			  " open = EXCLUDED.open, ages_to = EXCLUDED.ages_to");

static Credits parse_price_factor(FunctionCallInfo fcinfo, int n);

/* Reads a tier; raises UC402 if there is none of that name. */
void
TierRead(const char *name, Tier *tier)
{
	Values	   *args = VALUES(TextValue(name));
	SqlResult	row = SqlRun(&tier_custom, args);

	if (row.n == 0)
		row = SqlRun(&tier_builtin, args);
	if (row.n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_GPUCREDIT_NO_TYPE),
				 errmsg("unknown tier \"%s\"", ClipForMessage(name)),
				 errdetail("No tier of that name is built in or was set by "
						   "gpucredit.set_tier()."),
				 errhint("SELECT tier FROM gpucredit.tier lists them.")));
	tier->rank = SqlInt4(row, 0, 1);
	tier->preemptible = (Preemptible) ArgWord(SqlText(row, 0, 2),
											  "preemptible",
											  PreemptibleNames,
											  lengthof(PreemptibleNames));
	tier->max_wall = SqlDuration(row, 0, 3);
	tier->price_factor = SqlInt4(row, 0, 4);
	tier->open = SqlBool(row, 0, 5);
}

/*
 * Parses a price factor: whole thousandths from 0 to 1000.  It is stored as an
 * amount of credits, with six decimals, of which the last three are zero.
 */
static Credits
parse_price_factor(FunctionCallInfo fcinfo, int n)
{
	Credits		factor = ArgAmount(fcinfo, n, "price_factor", true);

	if (factor % 1000 == 0 && factor <= FACTOR_MOST)
		return factor;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("\"price_factor\" is out of range"),
			 errdetail("It is %s.", CreditsToCString(factor)),
			 errhint("Pass 0 to 1000, with at most three decimals.")));
}

Datum
call_set_tier(PG_FUNCTION_ARGS)
{
	char	   *tier = ArgName(fcinfo, 0, "tier");
	char	   *preemptible = ArgName(fcinfo, 2, "preemptible");
	AuditRow	audit = {.operation = "set_tier", .decision = "set"};
	Values	   *args = VALUES(TextValue(tier),
							  Int4Value(ArgInt4(fcinfo, 1, "rank", 0, 1000)));

	(void) ArgWord(preemptible, "preemptible", PreemptibleNames,
				   lengthof(PreemptibleNames));
	ValuesAdd(args, TextValue(preemptible),
			  BoolValue(ArgBool(fcinfo, 3, "can_preempt")),
			  DurationValue(ArgDuration(fcinfo, 4, "grace", true)),
			  DurationValue(ArgDuration(fcinfo, 5, "min_run", true)),
			  DurationValue(ArgDuration(fcinfo, 6, "max_wall", false)),
			  DurationValue(ArgDuration(fcinfo, 7, "max_wait", true)),
			  BoolValue(ArgBool(fcinfo, 8, "bill_lost_work")),
			  NumericValue(parse_price_factor(fcinfo, 9)),
			  PG_ARGISNULL(10) ? NullValue() :
			  BoolValue(ArgBool(fcinfo, 10, "open")),
			  PG_ARGISNULL(11) ? NullValue() :
			  Int4Value(ArgInt4(fcinfo, 11, "ages_to", 0, 1000)));

	SqlConnect();
	(void) SqlRun(&tier_upsert, args);
	AuditArgs(&audit, fcinfo);
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}
