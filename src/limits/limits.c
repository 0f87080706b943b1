/*-------------------------------------------------------------------------
 *
 * limits.c
 *		The limits of an account, copied into its own row.
 *
 * A draw reads the rows of its path in any case.  So each has the parts of its
 * budgets and quotas that a draw needs before it counts in them.  Separate
 * tables would be read at each level, mostly for nothing.  Figures that change
 * with each draw (a budget's count, a quota's spare) are not copied.
 * set_budget and set_quota lock the account's row first, and last write the
 * tables' present content into it.
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
 * A path's rows stay valid so long. A call that waited for a quota since then
 * waited longer, and reads again.
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
			  "   q.max_queued IS NOT NULL, q.max_cpu_milli, q.max_memory_mib)"
			  "   ORDER BY q.gpu_type)"
			  "   FROM gpucredit.quota q"
			  "   WHERE q.org = $1 AND q.account = $2))),"
			  " '{}'::pg_catalog.jsonb)"
			  " WHERE a.org = $1 AND a.account = $2");

/*
 * The kinds, and the types of their fields.
 */
typedef enum Field
{
	END, TEXT, AMOUNT, AMOUNT_OR_NULL, YES_OR_NO, AMOUNTS
} Field;

static const struct
{
	const char *name;
	Field		fields[6];
}			kinds[] = {
	[LIMIT_BUDGETS] = {"budgets", {TEXT, AMOUNT, YES_OR_NO, AMOUNT, AMOUNTS}},
	[LIMIT_QUOTAS] = {"quotas", {TEXT, AMOUNT_OR_NULL, YES_OR_NO,
	AMOUNT_OR_NULL, AMOUNT_OR_NULL}}
};

static JsonbContainer *array_of(const JsonbValue *value);
static JsonbValue *read_fields(JsonbContainer *limit, const Field *fields);
static bool is_field(const JsonbValue *value, Field field);
static pg_attribute_noreturn() void refuse_limits(void);

/*
 * Lock out other changes of the account's budgets and quotas.
 */
void
AccountLimitsLock(const char *org, const char *account)
{
	(void) SqlRun(&account_lock, VALUES(TextValue(org), TextValue(account)));
}

/*
 * Copy the account's present budgets and quotas into its locked row.
 */
void
AccountLimitsKeep(const char *org, const char *account)
{
	(void) SqlRun(&limits_keep, VALUES(TextValue(org), TextValue(account)));
}

/*
 * Are the limits seen on a path still valid?
 */
bool
AccountLimitsKnown(const AccountPath *path)
{
	return path->looked &&
		ClockSteady() - path->looked_at < LOOK_STAYS;
}

/*
 * The budgets or quotas of a level, each as an array of JsonbValues.
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

/*
 * A limit's fields, each of which is what it must be.
 */
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

/*
 * Is a value what a field must be?
 */
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
 * Not Ensure(), which ends a server with assertions: a superuser can write the
 * column by hand.
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
