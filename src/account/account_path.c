/*-------------------------------------------------------------------------
 *
 * account_path.c
 *		account_path(): an account and all accounts above it.
 *
 * Reports, the folding of audit rows and verify() call it for each account, so
 * it is not written in SQL, which would take longer.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "types/entry.h"

PG_FUNCTION_INFO_V1(gpucredit_account_path);

/*
 * Returns an array of the account and the accounts above it: the account
 * first, the organisation ('') last.
 */
Datum
gpucredit_account_path(PG_FUNCTION_ARGS)
{
	text	   *account = PG_GETARG_TEXT_PP(0);
	const char *path = VARDATA_ANY(account);
	int			size = VARSIZE_ANY_EXHDR(account);
	int			levels = size > 0 ? 2 : 1;
	Datum	   *paths;
	int			n = 0;

	for (int i = 0; i < size; i++)
		levels += path[i] == '/';
	paths = palloc(sizeof(Datum) * levels);
	for (int end = size; end > 0; end--)
	{
		if (end == size || path[end] == '/')
			paths[n++] = PointerGetDatum(cstring_to_text_with_len(path, end));
	}
	paths[n++] = PointerGetDatum(cstring_to_text(""));
	PG_RETURN_ARRAYTYPE_P(construct_array(paths, n, TEXTOID, -1, false,
										  TYPALIGN_INT));
}
