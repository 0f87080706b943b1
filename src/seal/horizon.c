/*-------------------------------------------------------------------------
 *
 * horizon.c
 *		The ids up to which all transactions have ended.
 *
 * Ids come from sequences, so rows do not commit in their order: below the
 * last id there may be open transactions.  A writer holds ROW EXCLUSIVE on the
 * table from before it takes an id until it ends.  So this reads the
 * sequences, then lists the holders of such locks.  Once they have ended,
 * every id up to the ones read is either visible to a new snapshot, or never
 * comes.  Nothing waits longer than a moment, and nobody waits for us.  The
 * next call asks again for holders that are left.
 *
 * A sequence is read under its lock.  Without it, a query sees the row up to
 * 32 ids ahead while nextval() writes to the log.  The later takers of these
 * ids would then be missed.
 *
 * Others hold such a table for hours and take no ids: VACUUM, ANALYZE, CREATE
 * INDEX CONCURRENTLY.  They use other lock modes, so the mode of each holder
 * is checked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "util/clock.h"
#include "util/compat.h"
#include "util/errors.h"
#include "util/log.h"
#include "miscadmin.h"
#include "seal/seal.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#define PATIENCE_MS		50
#define NAP_US			1000
#define STALLED_S		600		/* the log reports a longer wait */

SQL_STATEMENT(sequences_read, SPI_OK_SELECT, "",
			  "SELECT COALESCE(pg_catalog.pg_sequence_last_value("
			  "  'gpucredit.entry_entry_seq'::pg_catalog.regclass), 0),"
			  " COALESCE(pg_catalog.pg_sequence_last_value("
			  "  'gpucredit.audit_audit_seq'::pg_catalog.regclass), 0)");
SQL_STATEMENT(pending_read, SPI_OK_SELECT, "timestamptz",
			  "SELECT p.entry_to, p.audit_to, p.waiting, p.since"
			  " FROM gpucredit.seal_pending p WHERE p.server_start = $1");
SQL_STATEMENT(pending_clear, SPI_OK_DELETE, "",
			  "DELETE FROM gpucredit.seal_pending p");
SQL_STATEMENT(pending_write, SPI_OK_INSERT,
			  "bigint, bigint, text[], timestamptz, timestamptz",
			  "INSERT INTO gpucredit.seal_pending (entry_to, audit_to,"
			  " waiting, since, server_start) SELECT $1, $2,"
			  " ARRAY(SELECT DISTINCT u FROM pg_catalog.unnest($3) u),"
			  " $4, $5");

typedef struct Holders
{
	int			n;
	VirtualTransactionId *ids;
} Holders;

static bool pending_decided(Horizon *horizon, bool *pending);
static void read_sequences(Horizon *horizon);
static Holders find_holders(void);
static bool writes(const LockInstanceData *lock, const Oid tables[SEAL_KINDS]);
static bool wait_for(const Holders *holders);
static void log_stalled(const Holders *holders, TimestampTz since);
static void note_pending(const Horizon *horizon, const Holders *holders);
static Holders parse_holders(Datum list);

/*
 * Set the ids up to which all have ended.  False: no new ones.
 */
bool
HorizonDecided(Horizon *horizon)
{
	Holders		holders;
	bool		pending;

	if (pending_decided(horizon, &pending))
		return true;
	if (pending)
		return false;
	read_sequences(horizon);
	holders = find_holders();
	if (wait_for(&holders))
		return true;
	note_pending(horizon, &holders);
	return false;
}

/*
 * Have the holders noted by an earlier call ended?  pending: some are noted.
 * Holders from before the server's last start ended with it.
 */
static bool
pending_decided(Horizon *horizon, bool *pending)
{
	Holders		holders;
	bool		isnull;
	SqlResult	row = SqlRun(&pending_read, VALUES(TimeValue(PgStartTime)));

	*pending = row.n > 0;
	if (row.n == 0)
	{
		(void) SqlRun(&pending_clear, NULL);
		return false;
	}
	horizon->to[SEAL_ENTRY] = SqlInt8(row, 0, 1);
	horizon->to[SEAL_AUDIT] = SqlInt8(row, 0, 2);
	holders = parse_holders(SqlDatum(row, 0, 3, &isnull));
	if (!wait_for(&holders))
	{
		log_stalled(&holders, SqlTime(row, 0, 4));
		return false;
	}
	(void) SqlRun(&pending_clear, NULL);
	return true;
}

/*
 * Log that sealing has waited for long, and for whom, in pg_locks' terms.
 */
static void
log_stalled(const Holders *holders, TimestampTz since)
{
	int64		waited = (GetCurrentTimestamp() - since) / USECS_PER_SEC;
	StringInfo	line;

	if (waited < STALLED_S)
		return;
	line = LogBegin("seal_stalled");
	LogNumber(line, "waited_s", waited);
	LogNumber(line, "transactions", holders->n);
	if (holders->n > 0)
		LogText(line, "first", psprintf("%d/%u", VxidProcess(holders->ids[0]),
										holders->ids[0].localTransactionId));
	LogAtCommit(line);
}

static void
read_sequences(Horizon *horizon)
{
	SqlResult	row = SqlRun(&sequences_read, NULL);

	horizon->to[SEAL_ENTRY] = SqlInt8(row, 0, 1);
	horizon->to[SEAL_AUDIT] = SqlInt8(row, 0, 2);
}

/*
 * All other transactions that may have taken an id and not ended.  Later ones
 * take later ids than those read.
 */
static Holders
find_holders(void)
{
	LockData   *locks = GetLockStatusData();
	Oid			schema = get_namespace_oid("gpucredit", false);
	Oid			tables[SEAL_KINDS];
	Holders		holders = {0, palloc(sizeof(VirtualTransactionId) *
									 (locks->nelements + 1))};

	for (int k = 0; k < SEAL_KINDS; k++)
		tables[k] = get_relname_relid(SealKindNames[k], schema);
	for (int i = 0; i < locks->nelements; i++)
	{
		const LockInstanceData *lock = &locks->locks[i];
		VirtualTransactionId *id = &holders.ids[holders.n];

		*id = LockHolder(lock);
		if (writes(lock, tables) && VirtualTransactionIdIsValid(*id))
			holders.n++;
	}
	return holders;
}

/*
 * Is it another's lock on one of the tables, in a writer's mode?
 */
static bool
writes(const LockInstanceData *lock, const Oid tables[SEAL_KINDS])
{
	const LOCKTAG *tag = &lock->locktag;

	return tag->locktag_type == LOCKTAG_RELATION &&
		tag->locktag_field1 == MyDatabaseId &&
		(tag->locktag_field2 == tables[SEAL_ENTRY] ||
		 tag->locktag_field2 == tables[SEAL_AUDIT]) &&
		(lock->holdMask & LOCKBIT_ON(RowExclusiveLock)) != 0 &&
		lock->pid != MyProcPid;
}

/*
 * Give them a moment to end.  False: some have not.
 */
static bool
wait_for(const Holders *holders)
{
	TimestampTz until = TimestampTzPlusMilliseconds(ClockSteady(),
													PATIENCE_MS);

	for (int i = 0; i < holders->n; i++)
	{
		while (!VirtualXactLock(holders->ids[i], false))
		{
			CHECK_FOR_INTERRUPTS();
			if (ClockSteady() >= until)
				return false;
			pg_usleep(NAP_US);
		}
	}
	return true;
}

/*
 * Note the holders for the next call.
 */
static void
note_pending(const Horizon *horizon, const Holders *holders)
{
	char	  **texts = palloc(sizeof(char *) * holders->n);

	for (int i = 0; i < holders->n; i++)
		texts[i] = psprintf("%d/%u", VxidProcess(holders->ids[i]),
							holders->ids[i].localTransactionId);
	(void) SqlRun(&pending_write,
				  VALUES(Int8Value(horizon->to[SEAL_ENTRY]),
						 Int8Value(horizon->to[SEAL_AUDIT]),
						 TextArrayValue((const char *const *) texts,
										holders->n),
						 TimeValue(GetCurrentTimestamp()),
						 TimeValue(PgStartTime)));
}

/*
 * Read the noted holders back from the array.
 */
static Holders
parse_holders(Datum list)
{
	Holders		holders;
	Datum	   *elems;

	deconstruct_array(DatumGetArrayTypeP(list), TEXTOID, -1, false,
					  TYPALIGN_INT, &elems, NULL, &holders.n);
	holders.ids = palloc(sizeof(VirtualTransactionId) * Max(holders.n, 1));
	for (int i = 0; i < holders.n; i++)
	{
		VirtualTransactionId *id = &holders.ids[i];

		EnsureStored(sscanf(TextDatumGetCString(elems[i]), "%d/%u",
							&VxidProcess(*id), &id->localTransactionId) == 2 &&
					 VirtualTransactionIdIsValid(*id),
					 "A transaction that sealing waits for has no such name.");
	}
	return holders;
}
