/*-------------------------------------------------------------------------
 *
 * balance.c
 *		A balance from the running figures, by a plan that is kept.
 *
 * PL/pgSQL would plan such a query again at each call, by the values it is
 * given, which takes eight times what the query does.
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
	SqlArgs		args = {0};
	SqlResult	rows;
	bool		isnull;

	SqlArgText(&args, text_to_cstring(PG_GETARG_TEXT_PP(0)));
	SqlArgText(&args, text_to_cstring(PG_GETARG_TEXT_PP(1)));
	SqlArgTime(&args, PG_GETARG_TIMESTAMPTZ(2));
	SqlConnect();
	rows = SqlRead(&balance_read, &args);
	return SqlFinishRow(SqlDatum(rows, 0, 1, &isnull));
}
