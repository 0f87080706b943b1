/*-------------------------------------------------------------------------
 *
 * gpucredit_eval.c
 *		The library of extension gpucredit_eval: its initialisation.
 *
 * The library contains its own copy of the core's util/sql.c (companion.mk),
 * so it registers the callbacks of that copy, as src/gpucredit.c does for the
 * core. It calls no function of the core's library.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "notify_number.h"
#include "types/entry.h"
#include "util/sql.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	SqlInit();
	NotifyNumberInit();
}
