/*-------------------------------------------------------------------------
 *
 * faults.c
 *		Faults that a sanitized server must report: tools/test sanitize makes
 *		each once, so that a watch that sleeps is no good news.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(past_the_end);
extern PGDLLEXPORT Datum past_the_end(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(after_pfree);
extern PGDLLEXPORT Datum after_pfree(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(overflow);
extern PGDLLEXPORT Datum overflow(PG_FUNCTION_ARGS);

Datum
past_the_end(PG_FUNCTION_ARGS)
{
	char	   *volatile chunk = palloc0(5);

	PG_RETURN_INT32(chunk[PG_GETARG_INT32(0)]);
}

Datum
after_pfree(PG_FUNCTION_ARGS)
{
	char	   *volatile chunk = palloc0(5);

	pfree(chunk);
	PG_RETURN_INT32(chunk[PG_GETARG_INT32(0)]);
}

Datum
overflow(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(PG_INT32_MAX + PG_GETARG_INT32(0));
}
