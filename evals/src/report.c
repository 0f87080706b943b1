/*-------------------------------------------------------------------------
 *
 * report.c
 *		report(): a worker reports the model's answer to a leased case.
 *
 * Usually the report is the first of its case. It then runs three statements:
 * the first reads the checks of the case, with which those of the report are
 * compared; the second adds the cost of the call to the lease; the third
 * inserts the result. Two reports of one lease wait for each other at the
 * lease's row. Reports of two leases of one case conflict at the result's key,
 * and the second inserts nothing. Calls that failed and repeated reports are
 * passed to the SQL function report_else().
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "checks.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "recheck.h"
#include "types/entry.h"
#include "util/args.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#define MAX_OUTPUT_BYTES	(1024 * 1024)

/* The function's arguments, followed by those of its statements. */
enum
{
	ORG, RUN, CASE, ATTEMPT, OUTPUT, CHECKS, USAGE, NARGS
};

#define LEASE_KEY(args)	args[ORG], args[RUN], args[CASE], args[ATTEMPT]

#define NCOLUMNS	4			/* columns action, score, cost and replayed */

PG_FUNCTION_INFO_V1(gpucredit_eval_report);

/*
 * A call costs at most the amount that was reserved for it, and exactly that
 * amount if its usage is not known. It includes the calls of the embedding
 * model, where the case needs one. A case with a threshold passes if its
 * score reaches the threshold; another case passes if each check passes.
 */
#define TOKENS_COST	"(gpucredit_eval.token_cost(u.model_terms, $5, $6)" \
	" + coalesce(gpucredit_eval.token_cost(u.embedding_terms, $9, 0), 0))"
#define CALL_COST	"least(" TOKENS_COST ", m.call_max)"
#define PASSES	"(CASE WHEN m.threshold IS NULL THEN $7 ELSE $8 >= m.threshold END)"
#define JUDGES	"m.judged AND " PASSES

/* Reads the case's own checks. */
SQL_STATEMENT(read_checks, SPI_OK_SELECT, "text, bigint",
			  "SELECT c.checks FROM gpucredit_eval.golden_case c"
			  " WHERE c.org = $1 AND c.\"case\" = $2");

SQL_STATEMENT(settle_checks, SPI_OK_SELECT,
			  "text, bigint, bigint, jsonb, jsonb, boolean[]",
			  "SELECT gpucredit_eval.settle_checks($1, $2, $3, $4, $5, $6)");

SQL_STATEMENT(charge_lease, SPI_OK_UPDATE_RETURNING,
			  "text, bigint, bigint, integer, numeric, numeric, boolean, numeric,"
			  " numeric",
			  "UPDATE gpucredit_eval.lease m"
			  " SET called = true, error = NULL, finishes = NOT (" JUDGES "),"
			  "  cost = m.cost + " CALL_COST ","
			  "  open_max = CASE WHEN " JUDGES " THEN m.open_max - m.call_max ELSE 0 END,"
			  "  state = CASE WHEN " JUDGES " THEN m.state ELSE 'closed' END"
			  " FROM gpucredit_eval.run u"
			  " WHERE m.org = $1 AND m.run = $2 AND m.\"case\" = $3 AND m.attempt = $4"
			  "  AND m.state IN ('open', 'lost') AND NOT m.called AND NOT m.accounted"
			  "  AND m.leased_by = gpucredit_eval.caller()"
			  "  AND u.org = $1 AND u.run = $2"
			  " RETURNING " CALL_COST ", " PASSES ", " JUDGES ","
			  "  CASE WHEN NOT " PASSES " THEN 0 WHEN m.judged THEN NULL"
			  "   WHEN m.threshold IS NULL THEN 1 ELSE $8 END,"
			  "  " TOKENS_COST " > m.call_max,"
			  "  NOT (" JUDGES ") AND gpucredit_eval.account_due(u)");

SQL_STATEMENT(insert_result, SPI_OK_INSERT,
			  "text, bigint, bigint, integer, bytea, jsonb, jsonb, bytea, boolean, numeric, numeric",
			  "INSERT INTO gpucredit_eval.result"
			  " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, NULL, $10, $11, gpucredit.now())"
			  " ON CONFLICT DO NOTHING");

/* call_cost() logs a cost above the reserved amount. */
SQL_STATEMENT(record_cost, SPI_OK_SELECT,
			  "text, bigint, bigint, integer, jsonb",
			  "SELECT gpucredit_eval.call_cost(u, u.model_terms, $5, m.call_max, m.\"case\")"
			  " FROM gpucredit_eval.lease m"
			  "  JOIN gpucredit_eval.run u ON u.org = m.org AND u.run = m.run"
			  " WHERE m.org = $1 AND m.run = $2 AND m.\"case\" = $3 AND m.attempt = $4");

SQL_STATEMENT(account, SPI_OK_SELECT,
			  "text, bigint",
			  "SELECT gpucredit_eval.account_if_free($1, $2)");

SQL_STATEMENT(report_else, SPI_OK_SELECT,
			  "text, bigint, bigint, integer, boolean, jsonb, jsonb, bytea, boolean",
			  "SELECT r.action, r.score, r.cost, r.replayed"
			  " FROM gpucredit_eval.report_else($1, $2, $3, $4, $5, $6, $7, $8, $9) r");

static bool report_first(const NullableDatum *args, NullableDatum settled, Usage usage,
						 NullableDatum digest, Values *row, bool *charged);
static NullableDatum settle(const NullableDatum *args);
static SqlResult report_other(const NullableDatum *args, NullableDatum digest,
							  bool charged);
static NullableDatum digest_of(const NullableDatum *args);

static inline Jsonb *
jsonb_of(NullableDatum value)
{
	return value.isnull ? NULL : DatumGetJsonbP(value.value);
}

/* Returns a column of the first row, which may be null. */
static inline NullableDatum
column_value(SqlResult result, int column)
{
	NullableDatum value;

	value.value = SqlDatum(result, 0, column, &value.isnull);
	return value;
}

/* Returns a boolean column of the first row. Null counts as false. */
static inline bool
is_true(SqlResult result, int column)
{
	NullableDatum value = column_value(result, column);

	return !value.isnull && DatumGetBool(value.value);
}

Datum
gpucredit_eval_report(PG_FUNCTION_ARGS)
{
	NullableDatum *args = fcinfo->args;
	Values		row = {0};
	Usage		usage = UsageRead(jsonb_of(args[USAGE]));
	NullableDatum digest;
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
	SqlConnect();
	if (args[OUTPUT].isnull ||
		!report_first(args, settle(args), usage, digest, &row, &charged))
	{
		SqlResult	result = report_other(args, digest, charged);

		for (int column = 1; column <= NCOLUMNS; column++)
			ValuesAdd(&row, column_value(result, column));
	}
	PG_RETURN_DATUM(SqlFinishRow(RowReturn(fcinfo, &row)));
}

/*
 * Charges the lease and inserts the result of a case that nobody has reported
 * yet. Returns false if somebody has, or if the lease has ended; "charged"
 * then tells whether the lease was charged nevertheless.
 */
static bool
report_first(const NullableDatum *args, NullableDatum settled, Usage usage,
			 NullableDatum digest, Values *row, bool *charged)
{
	Checks		checks = ChecksRead(jsonb_of(settled));
	SqlResult	lease = SqlRun(&charge_lease,
							   VALUES(LEASE_KEY(args), usage.tokens_in,
									  usage.tokens_out,
									  BoolValue(checks.passed),
									  DatumValue(checks.score),
									  usage.embedded));
	NullableDatum cost;
	NullableDatum passed;
	NullableDatum score;
	bool		judged;

	if (lease.n == 0)
		return false;
	*charged = true;
	cost = column_value(lease, 1);
	passed = column_value(lease, 2);
	judged = SqlBool(lease, 0, 3);
	score = column_value(lease, 4);
	if (is_true(lease, 5))
		SqlRun(&record_cost, VALUES(LEASE_KEY(args), args[USAGE]));
	if (SqlRun(&insert_result,
			   VALUES(LEASE_KEY(args), args[OUTPUT], settled, args[USAGE],
					  digest, passed, score, cost)).n == 0)
		return false;
	if (is_true(lease, 6))
		SqlRun(&account, VALUES(args[ORG], args[RUN]));
	ValuesAdd(row, TextValue(judged ? "judge" : "done"), score, cost,
			  BoolValue(false));
	return true;
}

/*
 * Returns the checks to store: the reported ones unchanged if they agree with
 * the case's own, which is usual. If the case does not exist, the checks are
 * left to report_else().
 */
static NullableDatum
settle(const NullableDatum *args)
{
	SqlResult	own = SqlRun(&read_checks, VALUES(args[ORG], args[CASE]));
	Jsonb	   *checks;
	Recheck		recheck;
	Datum	   *decided;
	bool	   *unknown;

	(void) ChecksRead(jsonb_of(args[CHECKS]));	/* raises an error for a
												 * malformed check */
	if (own.n == 0)
		return args[CHECKS];
	checks = DatumGetJsonbP(SqlNotNull(own, 0, 1));
	recheck = RecheckReport(checks, jsonb_of(args[CHECKS]),
							DatumGetByteaPP(args[OUTPUT].value));
	if (recheck.agrees)
		return args[CHECKS];
	decided = palloc(sizeof(Datum) * recheck.n);
	unknown = palloc(sizeof(bool) * recheck.n);
	for (int i = 0; i < recheck.n; i++)
	{
		decided[i] = BoolGetDatum(recheck.decisions[i] == CHECK_PASSES);
		unknown[i] = recheck.decisions[i] == CHECK_UNDECIDED;
	}
	return column_value(SqlRun(&settle_checks,
							   VALUES(args[ORG], args[RUN], args[CASE],
									  DatumValue(JsonbPGetDatum(checks)),
									  args[CHECKS],
									  ArrayValue(decided, unknown, recheck.n,
												 BOOLOID))), 1);
}

/*
 * Handles a call that failed, or a case that was reported before.
 */
static SqlResult
report_other(const NullableDatum *args, NullableDatum digest, bool charged)
{
	return SqlRun(&report_else,
				  VALUES(LEASE_KEY(args), BoolValue(args[OUTPUT].isnull),
						 args[CHECKS], args[USAGE], digest,
						 BoolValue(charged)));
}

/*
 * Computes a digest of the report, by which a repeated report is recognized.
 */
static NullableDatum
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
	return DatumValue(DirectFunctionCall1(sha256_bytea,
										  PointerGetDatum(all.data)));
}
