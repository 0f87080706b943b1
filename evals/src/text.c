/*-------------------------------------------------------------------------
 *
 * text.c
 *		Converts the answers of models to text.
 *
 * Reading the results of a large run calls this for each case. Therefore it is
 * in C: an error handler in PL/pgSQL would start a subtransaction each time.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "types/entry.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(gpucredit_eval_as_text);

/*
 * Returns bytes as text, or null if they are not valid text.
 */
Datum
gpucredit_eval_as_text(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(0);
	const char *data = VARDATA_ANY(bytes);
	int			len = VARSIZE_ANY_EXHDR(bytes);

	if (!pg_verify_mbstr(PG_UTF8, data, len, true))
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text_with_len(data, len));
}
