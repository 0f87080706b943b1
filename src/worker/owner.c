/*-------------------------------------------------------------------------
 *
 * owner.c
 *		Transactions of a worker, as the owner of the extension.
 *
 * A worker only does something if the schema gpucredit belongs to the
 * extension: any role with CREATE on the database could create another schema
 * of that name.
 *
 * Each transaction acquires the lock on the database that every new connection
 * acquires.  If the lock is not free, another session wants the database for
 * itself (DROP DATABASE, ALTER DATABASE, CREATE DATABASE ... TEMPLATE).  Such
 * a session waits up to 5 s for others to disconnect, so the worker ends at
 * once. The launcher starts it again if the database still exists.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "commands/extension.h"
#include "util/sql.h"
#include "worker/owner.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

static LOCKTAG database_tag(void);
static Oid	extension_owner(void);
static bool is_member(const char *name, Oid extension);

/*
 * Begins a transaction as the extension's owner, and connects to SPI.  Returns
 * false if the extension does not exist.
 */
bool
OwnerBegin(void)
{
	LOCKTAG		tag = database_tag();
	Oid			owner;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	if (LockAcquire(&tag, RowExclusiveLock, false, true) ==
		LOCKACQUIRE_NOT_AVAIL)
		proc_exit(0);
	PushActiveSnapshot(GetTransactionSnapshot());
	owner = extension_owner();
	if (!OidIsValid(owner))
		return false;
	SetUserIdAndSecContext(owner, SECURITY_LOCAL_USERID_CHANGE);
	SqlConnect();
	return true;
}

/*
 * Commits, and only then switches back to the login: triggers that are
 * deferred to the commit may be other users' code.  An abort switches back by
 * itself.
 */
void
OwnerFinish(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
	SetUserIdAndSecContext(GetAuthenticatedUserId(), 0);
}

/*
 * Ends the process if another session wants the database for itself.  This
 * only reads the lock table and needs no room in it, because any login can
 * fill it.
 */
void
OwnerMakeRoom(void)
{
	LOCKTAG		tag = database_tag();
	int			wanted;

	StartTransactionCommand();
	(void) GetLockConflicts(&tag, RowExclusiveLock, &wanted);
	if (wanted > 0)
		proc_exit(0);
	CommitTransactionCommand();
}

/* Returns the tag of the lock on the database that connections acquire. */
static LOCKTAG
database_tag(void)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, MyDatabaseId, 0);
	return tag;
}

/*
 * Returns the extension's owner, and locks the extension so that it is not
 * dropped before the end of the transaction.  Returns InvalidOid if there is
 * no extension, if it is about to be dropped, or if the schemas are not its
 * own.
 */
static Oid
extension_owner(void)
{
	Oid			extension = get_extension_oid("gpucredit", true);
	Relation	relation;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;
	Oid			owner = InvalidOid;

	/* From here on DROP EXTENSION waits for us, unless it came first. */
	if (!OidIsValid(extension) ||
		!ConditionalLockDatabaseObject(ExtensionRelationId, extension, 0,
									   AccessShareLock) ||
		get_extension_oid("gpucredit", true) != extension)
		return InvalidOid;
	if (!is_member("gpucredit", extension) ||
		!is_member("gpucredit_internal", extension))
		return InvalidOid;
	relation = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_extension_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(extension));
	scan = systable_beginscan(relation, ExtensionOidIndexId, true, NULL, 1,
							  &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		owner = ((Form_pg_extension) GETSTRUCT(tuple))->extowner;
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return owner;
}

/* Whether a schema exists and belongs to the extension. */
static bool
is_member(const char *name, Oid extension)
{
	Oid			schema = get_namespace_oid(name, true);

	return OidIsValid(schema) &&
		getExtensionOfObject(NamespaceRelationId, schema) == extension;
}
