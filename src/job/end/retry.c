/*-------------------------------------------------------------------------
 *
 * retry.c
 *		Retry rules: decide whether a failed attempt is tried again.
 *
 * The operator's rules and the built-in ones are tried in one order. The
 * message comes from the job's own output, so the length of the matched text
 * is bounded (MESSAGE_CHARS). Patterns are bounded as well: they have
 * PATTERN_BYTES at most and no back references, so matching takes linear time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "audit/audit.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/settings.h"
#include "util/sql.h"
#include "api/api.h"
#include "job/end/retry.h"
#include "mb/pg_wchar.h"
#include "regex/regex.h"
#include "utils/rangetypes.h"
#include "utils/typcache.h"

#define PATTERN_BYTES	256
#define MESSAGE_CHARS	"4096"

API_FUNCTION(gpucredit_set_retry_rule, set_retry_rule);

static const char *const classes[] = {"transient", "permanent"};
static const char *const failures[] = {"failed", "out_of_memory"};

/*
 * The last match of this backend, in the present statement of the transaction
 * `xid`.  A sweep settles thousands of attempts that end alike, and matching
 * the patterns takes a tenth of a settlement's time.  A transaction that
 * changed the rules keeps no match.
 */
typedef struct LastMatch
{
	FullTransactionId xid;
	TimestampTz statement;
	Outcome		outcome;
	bool		has_exit_code;
	int32		exit_code;
	char		message[64];	/* a match of a longer message is not kept */
	RetryRule	rule;			/* allocated in the transaction's memory */
} LastMatch;

static LastMatch last;
static FullTransactionId changed_rules;

/* Returns the first rule in order of priority and name that matches. */
SQL_STATEMENT(rule_match, SPI_OK_SELECT, "text, int, text",
			  "SELECT r.rule, r.class, r.advice FROM (SELECT o.*"
			  "  FROM gpucredit.retry_rule o"
			  "  ORDER BY o.priority, o.rule OFFSET 0) r"
			  " WHERE (r.outcome IS NULL OR r.outcome = $1)"
			  " AND (r.exit_codes IS NULL OR r.exit_codes @> $2)"
			  " AND (r.message IS NULL OR pg_catalog.left($3, "
			  MESSAGE_CHARS ") COLLATE pg_catalog.\"C\" ~ r.message)"
			  " ORDER BY r.priority, r.rule LIMIT 1");
SQL_STATEMENT(not_started_count, SPI_OK_SELECT, "text, bigint",
			  "SELECT pg_catalog.count(*)::int FROM gpucredit.attempt a"
			  " WHERE a.org = $1 AND a.job = $2"
			  " AND a.outcome = 'not_started'");
SQL_STATEMENT(rule_upsert, SPI_OK_INSERT,
			  "text, int, text, text, int4range, text, text",
			  "INSERT INTO gpucredit.retry_rule_custom (rule, priority,"
			  " class, outcome, exit_codes, message, advice)"
			  " VALUES ($1, $2, $3, $4, $5, $6, $7)"
			  " ON CONFLICT (rule) DO UPDATE SET"
			  " priority = EXCLUDED.priority, class = EXCLUDED.class,"
			  " outcome = EXCLUDED.outcome,"
			  " exit_codes = EXCLUDED.exit_codes,"
			  " message = EXCLUDED.message, advice = EXCLUDED.advice");
SQL_STATEMENT(rule_delete, SPI_OK_DELETE, "text",
			  "DELETE FROM gpucredit.retry_rule_custom r WHERE r.rule = $1");

static bool is_last(const Settlement *settlement);
static void keep_match(const Settlement *settlement, const RetryRule *rule);
static void check_codes(FunctionCallInfo fcinfo);
static void check_pattern(const char *pattern);
static pg_attribute_noreturn() void refuse_pattern(const char *why,
												   const char *hint);

/* Finds the rule that matches a failed attempt. */
RetryRule
RetryMatch(const Settlement *settlement)
{
	RetryRule	rule = {NULL, false, NULL};
	SqlResult	row;

	if (is_last(settlement))
		return last.rule;
	row = SqlRun(&rule_match,
				 VALUES(TextValue(OutcomeNames[settlement->outcome]),
						settlement->has_exit_code ?
						Int4Value(settlement->exit_code) : NullValue(),
						TextValue(settlement->message)));
	if (row.n > 0)
	{
		rule.rule = SqlText(row, 0, 1);
		rule.permanent = strcmp(SqlText(row, 0, 2), "permanent") == 0;
		rule.advice = SqlText(row, 0, 3);
	}
	keep_match(settlement, &rule);
	return rule;
}

/*
 * Whether the kept match is of an attempt that ended alike in the same
 * statement.
 */
static bool
is_last(const Settlement *settlement)
{
	return settlement->message != NULL && FullTransactionIdIsValid(last.xid) &&
		FullTransactionIdEquals(last.xid, GetTopFullTransactionIdIfAny()) &&
		last.statement == GetCurrentStatementStartTimestamp() &&
		last.outcome == settlement->outcome &&
		last.has_exit_code == settlement->has_exit_code &&
		(!last.has_exit_code || last.exit_code == settlement->exit_code) &&
		strcmp(last.message, settlement->message) == 0;
}

/* Keeps a match for the next attempt of the statement that ends alike. */
static void
keep_match(const Settlement *settlement, const RetryRule *rule)
{
	FullTransactionId xid = GetTopFullTransactionIdIfAny();
	MemoryContext before;

	last.xid = InvalidFullTransactionId;
	if (!FullTransactionIdIsValid(xid) ||
		FullTransactionIdEquals(xid, changed_rules) ||
		settlement->message == NULL ||
		strlen(settlement->message) >= sizeof(last.message))
		return;
	before = MemoryContextSwitchTo(TopTransactionContext);
	last.rule = (RetryRule)
	{
		rule->rule ? pstrdup(rule->rule) : NULL, rule->permanent,
			rule->advice ? pstrdup(rule->advice) : NULL
	};
	MemoryContextSwitchTo(before);
	strlcpy(last.message, settlement->message, sizeof(last.message));
	last.outcome = settlement->outcome;
	last.has_exit_code = settlement->has_exit_code;
	last.exit_code = settlement->exit_code;
	last.statement = GetCurrentStatementStartTimestamp();
	last.xid = xid;
}

/*
 * Returns how many attempts of a job could not be started. They do not count
 * as failures, but each following attempt waits longer than the one before.
 */
int32
RetryNotStarted(const Job *job)
{
	return SqlInt4(SqlRun(&not_started_count,
						  VALUES(TextValue(job->org),
								 Int8Value(job->job))), 0, 1);
}

/*
 * Returns how long a job waits after n failures. The time doubles with each
 * failure, up to a bound.
 */
int64
RetryBackoff(int32 n)
{
	int64		backoff = SettingRetryBackoff();

	for (int i = 1; i < n && backoff < SettingRetryBackoffMax(); i++)
		backoff *= 2;
	return Min(backoff, SettingRetryBackoffMax());
}

Datum
call_set_retry_rule(PG_FUNCTION_ARGS)
{
	char	   *rule = ArgName(fcinfo, 0, "rule");
	char	   *class = ArgNameOrNull(fcinfo, 1, "class");
	int32		priority = ArgInt4(fcinfo, 2, "priority", 0, 1000000);
	char	   *outcome = ArgNameOrNull(fcinfo, 3, "outcome");
	char	   *message = ArgTextOrNull(fcinfo, 5, "message");
	char	   *advice = ArgTextOrNull(fcinfo, 6, "advice");
	Values	   *args;
	AuditRow	audit = {.operation = "set_retry_rule",
		.decision = class ? "set" : "removed"};

	if (class != NULL)
		(void) ArgWord(class, "class", classes, lengthof(classes));
	if (outcome != NULL)
		(void) ArgWord(outcome, "outcome", failures, lengthof(failures));
	check_codes(fcinfo);
	if (message != NULL)
		check_pattern(message);

	SqlConnect();
	last.xid = InvalidFullTransactionId;
	changed_rules = GetTopFullTransactionId();
	args = VALUES(TextValue(rule));
	if (class == NULL)
	{
		if (SqlRun(&rule_delete, args).n == 0)
			audit.decision = "unchanged";
	}
	else
	{
		ValuesAdd(args, Int4Value(priority), TextValue(class),
				  TextValue(outcome), fcinfo->args[4], TextValue(message),
				  TextValue(advice));
		(void) SqlRun(&rule_upsert, args);
	}
	AuditArgs(&audit, fcinfo);
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}

/* Refuses an empty range of exit codes. */
static void
check_codes(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(4) || !RangeIsEmpty(PG_GETARG_RANGE_P(4)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("\"exit_codes\" is empty"),
			 errdetail("The range contains no exit code."),
			 errhint("Write '[137,137]', or NULL for any.")));
}

/*
 * Checks that a pattern compiles, and that no text can make its matching slow.
 */
static void
check_pattern(const char *pattern)
{
	size_t		size = strlen(pattern);
	pg_wchar   *wide;
	int			len;
	regex_t		compiled;

	if (size == 0)
		refuse_pattern("It is empty and would match every message.",
					   "Pass NULL for any message.");
	if (size > PATTERN_BYTES)
		refuse_pattern("It is longer than 256 bytes.", "Shorten it.");
	for (const char *p = pattern; *p != '\0'; p++)
	{
		if (*p != '\\' || *++p == '\0')
		{
			if (*p == '\0')
				break;
			continue;
		}
		if (*p >= '1' && *p <= '9')
			refuse_pattern("It has a back reference.",
						   "Write the expression without a back reference.");
	}
	wide = palloc(sizeof(pg_wchar) * (size + 1));
	len = pg_mb2wchar_with_len(pattern, wide, (int) size);
	if (pg_regcomp(&compiled, wide, len, REG_ADVANCED, C_COLLATION_OID) !=
		REG_OKAY)
		refuse_pattern("It is no regular expression, or too complex.",
					   "Test it with the operator \"~\".");
	pg_regfree(&compiled);
}

static void
refuse_pattern(const char *why, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("malformed \"message\""),
			 errdetail_internal("%s", why),
			 errhint("%s", hint)));
}
