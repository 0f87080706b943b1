/*-------------------------------------------------------------------------
 *
 * arguments.c
 *		The arguments of a call, in the detail of its audit row.
 *
 * Calls of administrators record them, because such calls are rare and have
 * many arguments, and an auditor may want any of them.  Each argument that is
 * not null becomes a member under its own name; a long text is replaced by its
 * size and SHA-256.  The form depends on no setting of the session: instants
 * are in UTC, durations in ISO 8601.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "audit/audit.h"
#include "catalog/pg_type.h"
#include "util/definer.h"
#include "util/digest.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#define TEXT_MOST	256			/* most bytes of a text; a longer one is
								 * replaced by its digest */

static bool is_column(const char *name);
static void put_argument(AuditRow *row, const char *name, Oid type,
						 Datum value);
static char *interval_text(const Interval *interval);
static void put_text(AuditRow *row, const char *name, const char *value);

/* Adds those arguments of a call for which an audit row has no column. */
void
AuditArgs(AuditRow *row, FunctionCallInfo fcinfo)
{
	HeapTuple	tuple = FunctionRow(fcinfo->flinfo->fn_oid);
	Oid		   *types;
	char	  **names;
	char	   *modes;

	(void) get_func_arg_info(tuple, &types, &names, &modes);
	for (int i = 0; i < PG_NARGS(); i++)
	{
		if (!PG_ARGISNULL(i) && !is_column(names[i]))
			put_argument(row, names[i], types[i], PG_GETARG_DATUM(i));
	}
	ReleaseSysCache(tuple);
}

void
AuditArg(AuditRow *row, FunctionCallInfo fcinfo, int n)
{
	HeapTuple	tuple = FunctionRow(fcinfo->flinfo->fn_oid);
	Oid		   *types;
	char	  **names;
	char	   *modes;

	(void) get_func_arg_info(tuple, &types, &names, &modes);
	put_argument(row, names[n], types[n], PG_GETARG_DATUM(n));
	ReleaseSysCache(tuple);
}

static bool
is_column(const char *name)
{
	return strcmp(name, "org") == 0 || strcmp(name, "account") == 0 ||
		strcmp(name, "reason") == 0;
}

/* Adds one argument: numbers and JSON objects as such, all others as text. */
static void
put_argument(AuditRow *row, const char *name, Oid type, Datum value)
{
	char		buffer[MAXDATELEN + 1];
	int			utc = 0;
	Oid			output;
	bool		varlena;

	switch (type)
	{
		case BOOLOID:
			AuditText(row, name, DatumGetBool(value) ? "true" : "false");
			break;
		case INT4OID:
			AuditInt8(row, name, DatumGetInt32(value));
			break;
		case INT8OID:
			AuditInt8(row, name, DatumGetInt64(value));
			break;
		case TIMESTAMPTZOID:
			AuditText(row, name, JsonEncodeDateTime(buffer, value, type,
													&utc));
			break;
		case INTERVALOID:
			AuditText(row, name, interval_text(DatumGetIntervalP(value)));
			break;
		case JSONBOID:
			{
				Jsonb	   *json = DatumGetJsonbP(value);

				AuditNumber(row, name, JsonbToCString(NULL, &json->root,
													  VARSIZE(json)));
				break;
			}
		case NUMERICOID:
			if (!numeric_is_nan(DatumGetNumeric(value)) &&
				!numeric_is_inf(DatumGetNumeric(value)))
			{
				AuditNumber(row, name,
							DatumGetCString(DirectFunctionCall1(numeric_out,
																value)));
				break;
			}
			/* FALLTHROUGH */
		default:
			getTypeOutputInfo(type, &output, &varlena);
			put_text(row, name, OidOutputFunctionCall(output, value));
	}
}

static char *
interval_text(const Interval *interval)
{
	struct pg_itm parts;
	char	   *text = palloc(MAXDATELEN + 1);

	interval2itm(*interval, &parts);
	EncodeInterval(&parts, INTSTYLE_ISO_8601, text);
	return text;
}

/* Adds a text, or the size and digest of a long one. */
static void
put_text(AuditRow *row, const char *name, const char *value)
{
	StringInfoData text;
	uint8		digest[DIGEST_SIZE];
	char		hex[2 * DIGEST_SIZE];

	if (strlen(value) <= TEXT_MOST)
	{
		AuditText(row, name, value);
		return;
	}
	initStringInfo(&text);
	appendStringInfoString(&text, value);
	DigestOf(&text, digest);
	(void) hex_encode((char *) digest, DIGEST_SIZE, hex);
	AuditNumber(row, name, psprintf("{\"bytes\":%d,\"sha256\":\"%.*s\"}",
									text.len, (int) sizeof(hex), hex));
	pfree(text.data);
}
