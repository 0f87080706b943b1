/*-------------------------------------------------------------------------
 *
 * report.c
 *		A worker reports what the model answered to a leased case.
 *
 * The usual report, the first of its case, is two statements: the lease takes
 * the cost of the call, then the result is inserted.  The lease's row is what
 * two reports of one lease wait for; the result's key is what reports of two
 * leases of one case meet at.  Calls that failed and reports that come again
 * are report_else()'s matter, in SQL.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "checks.h"
#include "lib/stringinfo.h"
#include "statement.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#define MAX_OUTPUT_BYTES	(1024 * 1024)

/* The function's arguments, then those of its statements. */
enum
{
	ORG, RUN, CASE, ATTEMPT, OUTPUT, CHECKS, USAGE, NARGS
};

#define LEASE_KEY(args)	args[ORG], args[RUN], args[CASE], args[ATTEMPT]

enum
{
	ACTION, SCORE, COST, REPLAYED, NCOLUMNS
};

PGDLLEXPORT PG_FUNCTION_INFO_V1(gpucredit_eval_report);

/*
 * A call costs at most what was set aside for it, and just that if its usage
 * is not known.  A case passes by its threshold, else if each check passes.
 */
#define CALL_COST	"least(gpucredit_eval.token_cost(u.model_terms, $5, $6), m.call_max)"
#define PASSES	"(CASE WHEN m.threshold IS NULL THEN $7 ELSE $8 >= m.threshold END)"
#define JUDGES	"m.judged AND " PASSES

STATEMENT(take_cost,
		  "UPDATE gpucredit_eval.lease m"
		  " SET called = true, error = NULL, finishes = NOT (" JUDGES "),"
		  "  cost = m.cost + " CALL_COST ","
		  "  open_max = CASE WHEN " JUDGES " THEN m.open_max - m.call_max ELSE 0 END,"
		  "  state = CASE WHEN " JUDGES " THEN m.state ELSE 'closed' END"
		  " FROM gpucredit_eval.run u"
		  " WHERE m.org = $1 AND m.run = $2 AND m.\"case\" = $3 AND m.attempt = $4"
		  "  AND m.state IN ('open', 'lost') AND NOT m.called AND NOT m.accounted"
		  "  AND u.org = $1 AND u.run = $2"
		  " RETURNING " CALL_COST ", " PASSES ", " JUDGES ","
		  "  CASE WHEN NOT " PASSES " THEN 0 WHEN m.judged THEN NULL"
		  "   WHEN m.threshold IS NULL THEN 1 ELSE $8 END,"
		  "  gpucredit_eval.token_cost(u.model_terms, $5, $6) > m.call_max,"
		  "  NOT (" JUDGES ") AND gpucredit_eval.account_due(u)",
		  TEXTOID, INT8OID, INT8OID, INT4OID, NUMERICOID, NUMERICOID, BOOLOID,
		  NUMERICOID);

STATEMENT(keep_result,
		  "INSERT INTO gpucredit_eval.result"
		  " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, NULL, $10, $11, gpucredit.now())"
		  " ON CONFLICT DO NOTHING",
		  TEXTOID, INT8OID, INT8OID, INT4OID, BYTEAOID, JSONBOID, JSONBOID,
		  BYTEAOID, BOOLOID, NUMERICOID, NUMERICOID);

/* call_cost() records a cost above what was set aside. */
STATEMENT(record_cost,
		  "SELECT gpucredit_eval.call_cost(u, u.model_terms, $5, m.call_max, m.\"case\")"
		  " FROM gpucredit_eval.lease m"
		  "  JOIN gpucredit_eval.run u ON u.org = m.org AND u.run = m.run"
		  " WHERE m.org = $1 AND m.run = $2 AND m.\"case\" = $3 AND m.attempt = $4",
		  TEXTOID, INT8OID, INT8OID, INT4OID, JSONBOID);

STATEMENT(account,
		  "SELECT gpucredit_eval.account_if_free($1, $2)",
		  TEXTOID, INT8OID);

STATEMENT(report_else,
		  "SELECT r.action, r.score, r.cost, r.replayed"
		  " FROM gpucredit_eval.report_else($1, $2, $3, $4, $5, $6, $7, $8, $9) r",
		  TEXTOID, INT8OID, INT8OID, INT4OID, BOOLOID, JSONBOID, JSONBOID,
		  BYTEAOID, BOOLOID);

static bool report_first(const NullableDatum *args, Jsonb *checks, Usage usage,
						 Datum digest, MemoryContext context,
						 NullableDatum *row, bool *charged);
static void report_other(const NullableDatum *args, Datum digest, bool charged,
						 MemoryContext context, NullableDatum *row);
static Datum digest_of(const NullableDatum *args);

static inline Jsonb *
jsonb_of(NullableDatum value)
{
	return value.isnull ? NULL : DatumGetJsonbP(value.value);
}

Datum
gpucredit_eval_report(PG_FUNCTION_ARGS)
{
	NullableDatum *args = fcinfo->args;
	MemoryContext context = CurrentMemoryContext;
	NullableDatum row[NCOLUMNS];
	Usage		usage = UsageRead(jsonb_of(args[USAGE]));
	Datum		digest;
	bool		charged = false;
	int			bytes = args[OUTPUT].isnull ? 0 :
		VARSIZE_ANY_EXHDR(PG_GETARG_BYTEA_PP(OUTPUT));

	if (bytes > MAX_OUTPUT_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("an output has at most 1 MiB"),
				 errdetail("It has %d bytes.", bytes),
				 errhint("Correct the argument and call again.")));
	digest = digest_of(args);
	SPI_connect();
	if (args[OUTPUT].isnull ||
		!report_first(args, jsonb_of(args[CHECKS]), usage, digest, context,
					  row, &charged))
		report_other(args, digest, charged, context, row);
	SPI_finish();
	return RowOf(fcinfo, row);
}

/*
 * The first report of a case; false: it is not, or the lease has ended.
 * charged: the lease has taken its cost all the same.
 */
static bool
report_first(const NullableDatum *args, Jsonb *json, Usage usage, Datum digest,
			 MemoryContext context, NullableDatum *row, bool *charged)
{
	Checks		checks = ChecksRead(json);
	NullableDatum passed;
	bool		judged;
	bool		over;
	bool		due;

	if (StatementRun(&take_cost, VALUES(LEASE_KEY(args),
										usage.tokens_in, usage.tokens_out,
										ValueOf(BoolGetDatum(checks.passed)),
										ValueOf(checks.score))) == 0)
		return false;
	*charged = true;
	row[COST] = StatementKept(context, 1);
	passed = StatementValue(0, 2);
	judged = DatumGetBool(StatementValue(0, 3).value);
	row[SCORE] = StatementKept(context, 4);
	over = DatumGetBool(StatementValue(0, 5).value);	/* null is false */
	due = DatumGetBool(StatementValue(0, 6).value);
	if (over)
		StatementRun(&record_cost, VALUES(LEASE_KEY(args),
										  args[USAGE]));
	if (StatementRun(&keep_result, VALUES(LEASE_KEY(args),
										  args[OUTPUT], args[CHECKS], args[USAGE],
										  ValueOf(digest), passed,
										  row[SCORE], row[COST])) == 0)
		return false;
	if (due)
		StatementRun(&account, args);
	MemoryContextSwitchTo(context);
	row[ACTION] = ValueOf(CStringGetTextDatum(judged ? "judge" : "done"));
	row[REPLAYED] = ValueOf(BoolGetDatum(false));
	return true;
}

/*
 * A call that failed, or a report that comes again.
 */
static void
report_other(const NullableDatum *args, Datum digest, bool charged,
			 MemoryContext context, NullableDatum *row)
{
	StatementRun(&report_else, VALUES(LEASE_KEY(args),
									  ValueOf(BoolGetDatum(args[OUTPUT].isnull)),
									  args[CHECKS], args[USAGE], ValueOf(digest),
									  ValueOf(BoolGetDatum(charged))));
	for (int i = 0; i < NCOLUMNS; i++)
		row[i] = StatementKept(context, i + 1);
}

/*
 * A digest of what was reported, to tell the same report from another.
 */
static Datum
digest_of(const NullableDatum *args)
{
	StringInfoData all;
	bytea	   *data;

	initStringInfo(&all);
	appendStringInfoSpaces(&all, VARHDRSZ);
	for (int i = OUTPUT; i <= USAGE; i++)
	{
		appendStringInfoChar(&all, args[i].isnull ? 'n' : 'v');
		if (!args[i].isnull && i != OUTPUT)
			JsonbToCString(&all, &DatumGetJsonbP(args[i].value)->root, 0);
		else if (!args[i].isnull)
		{
			data = DatumGetByteaPP(args[i].value);
			appendBinaryStringInfo(&all, VARDATA_ANY(data),
								   VARSIZE_ANY_EXHDR(data));
		}
	}
	SET_VARSIZE(all.data, all.len);
	return DirectFunctionCall1(sha256_bytea, PointerGetDatum(all.data));
}
