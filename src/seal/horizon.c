/*-------------------------------------------------------------------------
 *
 * horizon.c
 *		The ids up to which all transactions have ended.
 *
 * Ids come from sequences, so rows do not become visible in the order of their
 * ids: a transaction with a lower id may still be open when one with a higher
 * id has committed.  A writer holds ROW EXCLUSIVE on the table from before it
 * gets an id until it ends.  So this code reads the sequences, and then lists
 * the holders of such locks.  When these have ended, every id up to the
 * sequences' values is either visible to a new snapshot or will never be.  A
 * call waits for the holders only for a moment, and nobody waits for the call.
 * If some holders have not ended, they are recorded, and the next call checks
 * them again.
 *
 * A sequence is read under its lock.  Without the lock, a query would read the
 * sequence's row up to 32 ids ahead of the values given out while nextval()
 * writes to the log, and transactions that get these ids later would be
 * missed.
 *
 * VACUUM, ANALYZE and CREATE INDEX CONCURRENTLY lock such a table for hours
 * and get no ids.  They use other lock modes, so the mode of each holder is
 * checked.
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
#define STALLED_S		600		/* a longer wait is reported in the log */

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
 * Sets the ids up to which all transactions have ended.  Returns false if
 * there are no new ones.
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
 * Whether the holders that an earlier call recorded have ended.  *pending is
 * set if any are recorded.  Holders from before the server's last start ended
 * with the server, so they are ignored.
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
 * Logs that sealing has waited for long, and names the transactions it waits
 * for as pg_locks does.
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
 * Returns all other transactions that may have got an id and have not ended. A
 * transaction that begins to write later gets an id above those that were
 * read.
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
 * Whether this is another session's lock on one of the tables, in a writer's
 * mode.
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

/* Waits a moment for the holders to end.  Returns false if some have not. */
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

/* Records the holders for the next call. */
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

/* Parses the recorded holders. */
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
