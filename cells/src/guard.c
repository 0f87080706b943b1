/*-------------------------------------------------------------------------
 *
 * guard.c
 *		guard(), at_home() and lock_moving(): ensure that no row of an
 *		organisation changes in a cell that is not its home.
 *
 * guard() is a trigger on every table of gpucredit that has a column org. When
 * a transaction changes the first row of an organisation, the trigger takes
 * the organisation's lock, shared, until the transaction ends, and then reads
 * whether the cell is the organisation's home. A move first records that the
 * organisation is moving, commits, and then takes the lock exclusively. By
 * then every transaction that read "home" has ended, and none begins.
 *
 * Locks: the organisation's, shared and without waiting, so it needs no place
 * in the lock order. It has its own lock class (util/lock_class.h), which
 * SQL's pg_advisory_lock() cannot use.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "commands/trigger.h"
#include "common/hashfn.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "lookup.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "tcop/pquery.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "util/compat.h"
#include "util/lock_class.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(gpucredit_cells_guard);
PG_FUNCTION_INFO_V1(gpucredit_cells_at_home);
PG_FUNCTION_INFO_V1(gpucredit_cells_lock_moving);

/* Columns of gpucredit_cells.resident, counted from 0 */
#define RESIDENT_EPOCH	1
#define RESIDENT_STATE	2

#define ERRCODE_NOT_HOME	MAKE_SQLSTATE('U','C','7','0','1')
#define ERRCODE_MOVING		MAKE_SQLSTATE('U','C','7','0','2')

static bool is_restored(Relation rel);
static bool tenant_calls(void);
static void require_home(const char *org, const int64 *epoch);
static LOCKTAG lock_of(const char *org);
static const char *state_of(const char *org, int64 *epoch);
static void refuse(const char *org, const char *state);

/*
 * guard(): the trigger function, for each row BEFORE INSERT and AFTER UPDATE
 * OR DELETE.
 */
Datum
gpucredit_cells_guard(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	HeapTuple	row;
	TupleDesc	desc;
	bool		isnull;
	Datum		org;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("guard must be called as a trigger")));
	row = trigger->tg_trigtuple;
	if (is_restored(trigger->tg_relation))
		return PointerGetDatum(row);
	desc = trigger->tg_relation->rd_att;
	org = heap_getattr(row, SPI_fnumber(desc, "org"), desc, &isnull);
	if (!isnull)
		require_home(TextDatumGetCString(org), NULL);
	return PointerGetDatum(row);
}

/*
 * Whether COPY is loading the table. The rows of a dump come in any order, and
 * those of table resident may come last, so they are not checked. Only the
 * table's owner may load it.
 */
static bool
is_restored(Relation rel)
{
	PlannedStmt *planned;
	CopyStmt   *copy;

	if (ActivePortal == NULL || ActivePortal->stmts == NIL)
		return false;
	planned = linitial_node(PlannedStmt, ActivePortal->stmts);
	if (planned->utilityStmt == NULL || !IsA(planned->utilityStmt, CopyStmt))
		return false;
	copy = (CopyStmt *) planned->utilityStmt;
	return copy->is_from && copy->relation != NULL &&
		copy->relation->schemaname != NULL &&
		strcmp(copy->relation->relname, RelationGetRelationName(rel)) == 0 &&
		strcmp(copy->relation->schemaname,
			   get_namespace_name(RelationGetNamespace(rel))) == 0;
}

/*
 * at_home(org, epoch): returns the organisation, if the cell is its home at
 * that epoch. A null epoch or organisation is not checked, because the called
 * function refuses it.
 */
Datum
gpucredit_cells_at_home(PG_FUNCTION_ARGS)
{
	int64		epoch;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	if (!PG_ARGISNULL(1))
	{
		epoch = PG_GETARG_INT64(1);
		require_home(text_to_cstring(PG_GETARG_TEXT_PP(0)), &epoch);
	}
	PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}

/*
 * lock_moving(org): waits for all transactions that have changed rows of the
 * organisation.
 */
Datum
gpucredit_cells_lock_moving(PG_FUNCTION_ARGS)
{
	LOCKTAG		tag = lock_of(text_to_cstring(PG_GETARG_TEXT_PP(0)));

	(void) LockAcquire(&tag, ExclusiveLock, false, false);
	PG_RETURN_VOID();
}

/*
 * Whether the caller is a tenant. A tenant may call at_home() for any
 * organisation, so its transaction must not keep the lock: an organisation
 * could not move while that transaction is open. If the tenant then changes a
 * row, the trigger takes the lock.
 */
static bool
tenant_calls(void)
{
	Oid			role = get_role_oid("gpucredit_tenant", true);

	return OidIsValid(role) &&
		is_member_of_role_nosuper(GetOuterUserId(), role);
}

/*
 * Refuses an organisation whose home (at the epoch, if given) is elsewhere. If
 * the transaction has the lock already, it has made this check before.
 */
static void
require_home(const char *org, const int64 *epoch)
{
	LOCKTAG		tag = lock_of(org);
	int64		now;
	const char *state;

	/* The transaction that moves the organisation may change its rows. */
	if (epoch == NULL && CompatLockHeldByMe(&tag, ExclusiveLock))
		return;
	if (epoch == NULL || !tenant_calls())
	{
		switch (LockAcquire(&tag, ShareLock, false, true))
		{
			case LOCKACQUIRE_NOT_AVAIL:
				refuse(org, "moving");
				break;
			case LOCKACQUIRE_ALREADY_HELD:
				if (epoch == NULL)
					return;
				break;
			default:
				break;
		}
	}
	state = state_of(org, &now);
	if (strcmp(state, "home") != 0 && strcmp(state, "guest") != 0)
		refuse(org, state);
	if (epoch != NULL && *epoch != now)
		refuse(org, "gone");
}

static LOCKTAG
lock_of(const char *org)
{
	LOCKTAG		tag;
	uint64		key = hash_bytes_extended((const unsigned char *) org,
										  strlen(org), 0);

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (key >> 32),
						 (uint32) key, LOCK_ORGANISATION);
	return tag;
}

/* Returns the cell's state for the organisation, as it is committed now. */
static const char *
state_of(const char *org, int64 *epoch)
{
	Datum		row[LOOKUP_COLUMNS];

	*epoch = 0;
	if (!LookupRow("resident", 1, &org, row))
		return "gone";
	*epoch = DatumGetInt64(row[RESIDENT_EPOCH]);
	return TextDatumGetCString(row[RESIDENT_STATE]);
}

static void
refuse(const char *org, const char *state)
{
	if (strcmp(state, "moving") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_MOVING),
				 errmsg("organisation \"%s\" is moving to another cell", org),
				 errdetail("Nothing of it changes until it has moved."),
				 errhint("Call again with the same key in a second.")));
	ereport(ERROR,
			(errcode(ERRCODE_NOT_HOME),
			 errmsg("this cell is not the home of organisation \"%s\"", org),
			 errdetail("The directory of the router says where its home is."),
			 errhint("Call through a router.")));
}
