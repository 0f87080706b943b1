/*-------------------------------------------------------------------------
 *
 * compat.c
 *		The differences between PostgreSQL versions that need code.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_namespace.h"
#include "util/compat.h"
#include "utils/guc.h"

/*
 * Sets the search path to pg_catalog, then pg_temp, as SET search_path does
 * for a function.  The caller passes the result to CompatUnpinSearchPath() at
 * the end; if an error is raised, the abort of the transaction restores the
 * path.
 *
 * Up to PostgreSQL 16 a path can be pushed without the settings, which saves
 * parsing it.  PostgreSQL 17 has no such stack, but it caches the path of a
 * text.
 */
int
CompatPinSearchPath(void)
{
#if PG_VERSION_NUM < 170000
	OverrideSearchPath path = {0};
	Oid			temp;
	Oid			temp_toast;

	/* The path contains pg_temp only if the session has temporary objects. */
	GetTempNamespaceState(&temp, &temp_toast);
	path.schemas = list_make1_oid(PG_CATALOG_NAMESPACE);
	if (OidIsValid(temp))
		path.schemas = lappend_oid(path.schemas, temp);
	PushOverrideSearchPath(&path);
	list_free(path.schemas);
	return 0;
#else
	int			level = NewGUCNestLevel();

	(void) set_config_option("search_path", "pg_catalog, pg_temp",
							 PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
	return level;
#endif
}

void
CompatUnpinSearchPath(int level)
{
#if PG_VERSION_NUM < 170000
	PopOverrideSearchPath();
#else
	AtEOXact_GUC(true, level);
#endif
}
