/*-------------------------------------------------------------------------
 *
 * balance.c
 *		Reads a balance from the running sums by a kept plan.
 *
 * PL/pgSQL would plan the query at each call, for the values of its
 * parameters. Planning takes eight times as long as the query.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/compat.h"
#include "util/sql.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(gpucredit_balance_kept);

SQL_STATEMENT(balance_read, SPI_OK_SELECT, "text, text, timestamptz",
			  "SELECT r FROM gpucredit_internal.balance_now($1, $2, $3) r");

Datum
gpucredit_balance_kept(PG_FUNCTION_ARGS)
{
	SqlResult	rows;
	bool		isnull;
	Values	   *args = VALUES(TextValue(text_to_cstring(PG_GETARG_TEXT_PP(0))),
							  TextValue(text_to_cstring(PG_GETARG_TEXT_PP(1))),
							  TimeValue(PG_GETARG_TIMESTAMPTZ(2)));

	SqlConnect();
	rows = SqlRead(&balance_read, args);
	return SqlFinishRow(SqlDatum(rows, 0, 1, &isnull));
}
