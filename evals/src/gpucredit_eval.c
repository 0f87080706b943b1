/*-------------------------------------------------------------------------
 *
 * gpucredit_eval.c
 *		The library of extension gpucredit_eval: what happens when it is
 *		loaded.
 *
 * The library has a copy of the core's util/sql.c of its own (companion.mk), so
 * it registers that copy's callbacks, as src/gpucredit.c does for the core.  It
 * calls nothing of the core's library.
 *
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
