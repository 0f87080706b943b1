/*-------------------------------------------------------------------------
 *
 * limits.c
 *		Repeats the limits of an account in the account's own row.
 *
 * A draw reads the account rows of its path in any case.  So each row repeats
 * what a draw must know of the account's budgets and quotas before it counts
 * in them.  Without this, separate tables would have to be read at each level,
 * mostly to find nothing.  Figures that change with each draw (what a budget
 * has counted, the spare of a quota) are not repeated. set_budget and
 * set_quota lock the account's row first, and at last write the present
 * content of the tables into it.
 *
 * Locks: the account's row, before its budgets and quotas.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/sql.h"
#include "limits/limits.h"

/*
 * How long the rows of a path stay valid after they were read, in
 * microseconds. A call that has waited for a quota in between has waited
 * longer, and reads again.
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
			  "   q.max_queued IS NOT NULL, q.max_cpu_milli, q.max_memory_mib,"
			  "   q.max_nonpreemptible_gpus)"
			  "   ORDER BY q.gpu_type)"
			  "   FROM gpucredit.quota q"
			  "   WHERE q.org = $1 AND q.account = $2))),"
			  " '{}'::pg_catalog.jsonb)"
			  " WHERE a.org = $1 AND a.account = $2");

/* The names of both kinds, and the types of their fields. */
typedef enum Field
{
	END, TEXT, AMOUNT, AMOUNT_OR_NULL, YES_OR_NO, AMOUNTS
} Field;

static const struct
{
	const char *name;
	Field		fields[7];
}			kinds[] = {
	[LIMIT_BUDGETS] = {"budgets", {TEXT, AMOUNT, YES_OR_NO, AMOUNT, AMOUNTS}},
	[LIMIT_QUOTAS] = {"quotas", {TEXT, AMOUNT_OR_NULL, YES_OR_NO,
	AMOUNT_OR_NULL, AMOUNT_OR_NULL, AMOUNT_OR_NULL}}
};

static JsonbContainer *array_of(const JsonbValue *value);
static JsonbValue *read_fields(JsonbContainer *limit, const Field *fields);
static bool is_field(const JsonbValue *value, Field field);
static pg_attribute_noreturn() void refuse_limits(void);

/*
 * Locks the account's row, which keeps other calls from changing the account's
 * budgets and quotas.
 */
void
AccountLimitsLock(const char *org, const char *account)
{
	(void) SqlRun(&account_lock, VALUES(TextValue(org), TextValue(account)));
}

/* Copies the account's present budgets and quotas into its locked row. */
void
AccountLimitsKeep(const char *org, const char *account)
{
	(void) SqlRun(&limits_keep, VALUES(TextValue(org), TextValue(account)));
}

/* Whether the limits that were read on a path are still valid. */
bool
AccountLimitsKnown(const AccountPath *path)
{
	return path->looked &&
		ClockSteady() - path->looked_at < LOOK_STAYS;
}

/*
 * Returns the budgets or quotas of one level of a path, each as an array of
 * JsonbValues.
 */
List *
AccountLimitsOf(const AccountPath *path, int level, LimitKind kind)
{
	Jsonb	   *limits = path->limits[level];
	JsonbContainer *all;
	JsonbValue	list;
	List	   *result = NIL;

	if (limits == NULL)
		return NIL;
	if (!JB_ROOT_IS_OBJECT(limits))
		refuse_limits();
	if (getKeyJsonValueFromContainer(&limits->root, kinds[kind].name,
									 strlen(kinds[kind].name), &list) == NULL)
		return NIL;
	all = array_of(&list);
	for (uint32 i = 0; i < JsonContainerSize(all); i++)
	{
		JsonbValue *limit = getIthJsonbValueFromContainer(all, i);

		result = lappend(result, read_fields(array_of(limit),
											 kinds[kind].fields));
	}
	return result;
}

static JsonbContainer *
array_of(const JsonbValue *value)
{
	if (value->type != jbvBinary ||
		!JsonContainerIsArray(value->val.binary.data))
		refuse_limits();
	return value->val.binary.data;
}

/* Reads the fields of a limit, and checks their types. */
static JsonbValue *
read_fields(JsonbContainer *limit, const Field *fields)
{
	uint32		n = JsonContainerSize(limit);
	JsonbValue *values = palloc(sizeof(JsonbValue) * n);

	for (uint32 f = 0; f < n; f++)
	{
		values[f] = *getIthJsonbValueFromContainer(limit, f);
		if (fields[f] == END || !is_field(&values[f], fields[f]))
			refuse_limits();
	}
	if (fields[n] != END)
		refuse_limits();
	return values;
}

/* Whether a value has the type of a field. */
static bool
is_field(const JsonbValue *value, Field field)
{
	switch (field)
	{
		case END:
			break;
		case TEXT:
			return value->type == jbvString;
		case AMOUNT:
			return value->type == jbvNumeric;
		case AMOUNT_OR_NULL:
			return value->type == jbvNumeric || value->type == jbvNull;
		case YES_OR_NO:
			return value->type == jbvBool;
		case AMOUNTS:
			{
				JsonbContainer *all = array_of(value);
				uint32		n = 0;

				while (n < JsonContainerSize(all) &&
					   is_field(getIthJsonbValueFromContainer(all, n), AMOUNT))
					n++;
				return n == JsonContainerSize(all);
			}
	}
	return false;
}

/*
 * Raises an error. Ensure() is not used, because it ends a server with
 * assertions, and a superuser can write the column by hand.
 */
static void
refuse_limits(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("gpucredit found its own data inconsistent"),
			 errdetail("The column \"limits\" of an account is malformed."),
			 errhint("Run gpucredit.verify() to find the account, then "
					 "gpucredit.rebuild() for its organisation.")));
}
