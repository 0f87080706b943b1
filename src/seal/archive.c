/*-------------------------------------------------------------------------
 *
 * archive.c
 *		Removal of old entries and audit rows, by whole sealed batches.
 *
 * The rows of a batch may be removed once its seal is older than the retention
 * of their kind, and only if they still are the rows that were sealed: a batch
 * that was changed stays as evidence.  Before entries are removed, their sums
 * are written as closings.  Then a row of archived_batch is added, with a
 * digest of the closings and of the archived_batch row before, and an audit
 * row, which will be sealed like any other.  All of this is one transaction.
 *
 * Locks: the chain, as for sealing, so that only one call works on it; a call
 * never waits for the lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "audit/audit.h"
#include "util/append_only.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/compat.h"
#include "util/errors.h"
#include "util/settings.h"
#include "miscadmin.h"
#include "seal/archived_batch.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(gpucredit_archive);

/* Entries are compared with spend_day, which keeps 32 days. */
#define ENTRY_LEAST		(40 * USECS_PER_DAY)

SQL_STATEMENT(chain_lock, SPI_OK_SELECT, "",
			  "SELECT gpucredit_internal.lock_chain()");

#define SUM(what) \
	" gpucredit.sum(e.amount) FILTER (WHERE " what ")"
#define MOVE(source, target) \
	SUM("e.source = '" source "' AND e.target = '" target "'")
SQL_STATEMENT(closings_write, SPI_OK_INSERT, "bigint, bigint, bigint",
			  "INSERT INTO gpucredit.closing (archive_batch, org, account,"
			  " bucket, hold, part, job, attempt, entries, drawn_first,"
			  " drawn_last, issued, drawn, spent, returned, held_expired,"
			  " held_revoked, refunded, given_back, spent_expired,"
			  " spent_revoked, expired, revoked, moved)"
			  " SELECT $1, e.org, e.account, e.bucket, coalesce(e.hold, 0),"
			  " coalesce(e.part, 0), max(e.job), max(e.attempt),"
			  " count(*)::int,"
			  " min(e.at) FILTER (WHERE e.target = 'held'),"
			  " max(e.at) FILTER (WHERE e.target = 'held'),"
			  MOVE("issued", "available") ","
			  MOVE("available", "held") ","
			  MOVE("held", "spent") ","
			  MOVE("held", "available") ","
			  MOVE("held", "expired") ","
			  MOVE("held", "revoked") ","
			  MOVE("spent", "available") ","
			  SUM("e.source = 'spent' AND e.target = 'available'"
				  " AND e.attempt IS NOT NULL") ","
			  MOVE("spent", "expired") ","
			  MOVE("spent", "revoked") ","
			  MOVE("available", "expired") ","
			  MOVE("available", "revoked") ","
			  MOVE("available", "moved")
			  " FROM gpucredit.entry e WHERE e.entry > $2 AND e.entry <= $3"
			  " GROUP BY e.org, e.account, e.bucket, e.hold, e.part");
SQL_STATEMENT(entries_until, SPI_OK_SELECT, "bigint, bigint",
			  "SELECT max(e.at) FROM gpucredit.entry e"
			  " WHERE e.entry > $1 AND e.entry <= $2");
SQL_STATEMENT(audits_until, SPI_OK_SELECT, "bigint, bigint",
			  "SELECT max(a.at) FROM gpucredit.audit a"
			  " WHERE a.audit > $1 AND a.audit <= $2");
SQL_STATEMENT(entries_delete, SPI_OK_DELETE, "bigint, bigint",
			  "DELETE FROM gpucredit.entry e"
			  " WHERE e.entry > $1 AND e.entry <= $2");
SQL_STATEMENT(audits_delete, SPI_OK_DELETE, "bigint, bigint",
			  "DELETE FROM gpucredit.audit a"
			  " WHERE a.audit > $1 AND a.audit <= $2");
SQL_STATEMENT(archive_batch_write, SPI_OK_INSERT_RETURNING,
			  "bigint, text, bigint, bigint, bigint, timestamptz,"
			  " timestamptz",
			  "INSERT INTO gpucredit.archive_batch (archive_batch, kind, batch_from,"
			  " batch_to, rows, until, at, closings, previous, digest)"
			  " SELECT w.archive_batch, w.kind, w.batch_from, w.batch_to, w.rows,"
			  " w.until, w.at, w.closings, w.previous,"
			  " gpucredit_internal.archive_batch_digest(ROW(w.*, NULL::bytea)::"
			  "gpucredit.archive_batch)"
			  " FROM (SELECT $1::bigint AS archive_batch, $2::text AS kind,"
			  " $3::bigint AS batch_from, $4::bigint AS batch_to,"
			  " $5::bigint AS rows, $6::timestamptz AS until,"
			  " $7::timestamptz AS at,"
			  " gpucredit_internal.closings_digest($1) AS closings,"
			  " coalesce((SELECT d.digest FROM gpucredit.archive_batch d"
			  " WHERE d.archive_batch = $1 - 1),"
			  " pg_catalog.decode(pg_catalog.repeat('00', 32), 'hex'))"
			  " AS previous) w"
			  " RETURNING pg_catalog.encode(digest, 'hex')");

/* The batches that one call archives. */
typedef struct Batches
{
	int			n;
	Seal		first;
	Seal		last;
	int64		rows;
} Batches;

static TimestampTz horizon_of(SealKind kind);
static Batches choose_batches(const ArchivedUpTo *left, SealKind kind,
							  TimestampTz before, int64 most);
static bool choose_batch(const ArchivedUpTo *left, SealKind kind,
						 const Seal *seal);
static void remove_rows(SealKind kind, const Batches *batches,
						int64 archive_batch, TimestampTz *until);
static void write_archive_batch(SealKind kind, const Batches *batches,
								int64 archive_batch, TimestampTz until);

/*
 * archive(kind, most): archives at most so many batches, and returns the
 * number of removed rows.
 */
Datum
gpucredit_archive(PG_FUNCTION_ARGS)
{
	SealKind	kind = (SealKind) ArgWord(ArgText(fcinfo, 0, "kind"), "kind",
										  SealKindNames, SEAL_KINDS);
	int64		most = ArgInt8(fcinfo, 1, "most", 1, PG_INT32_MAX);
	TimestampTz before = horizon_of(kind);
	Batches		batches = {0};

	/* An older snapshot would not see what concurrent calls have removed. */
	if (before == DT_NOBEGIN || IsolationUsesXactSnapshot())
		PG_RETURN_INT64(0);
	SqlConnect();
	if (SqlBool(SqlRun(&chain_lock, NULL), 0, 1))
	{
		ArchivedUpTo left = ArchivedRead();

		batches = choose_batches(&left, kind, before, most);
		if (batches.n > 0)
		{
			TimestampTz until = batches.last.sealed_at;

			remove_rows(kind, &batches, left.archive_batch + 1, &until);
			write_archive_batch(kind, &batches, left.archive_batch + 1,
								until);
		}
	}
	SqlFinish();
	PG_RETURN_INT64(batches.rows);
}

/*
 * Returns the instant before which a batch must be sealed to be archived, or
 * DT_NOBEGIN if none may be.
 */
static TimestampTz
horizon_of(SealKind kind)
{
	int64		kept = kind == SEAL_ENTRY ? SettingEntryRetention() :
		SettingAuditRetention();

	if (kept == 0)
		return DT_NOBEGIN;

	/*
	 * verify() compares idempotency keys and counted denials with the audit
	 * log.
	 */
	kept = Max(kept, kind == SEAL_ENTRY ? ENTRY_LEAST :
			   Max(SettingKeyRetention(), SettingDenialWindow()) +
			   USECS_PER_DAY);
	return ClockNow() - kept;
}

/*
 * Returns the next batches to archive, up to the first one with changed rows,
 * and keeps or removes the digests of each (choose_batch).
 */
static Batches
choose_batches(const ArchivedUpTo *left, SealKind kind, TimestampTz before,
			   int64 most)
{
	Batches		batches = {0};
	SqlResult	rows = SealsBefore(left->to[kind], before, most);
	MemoryContext outer = CurrentMemoryContext;
	MemoryContext each = AllocSetContextCreate(outer,
											   "gpucredit archive_batch",
											   ALLOCSET_DEFAULT_SIZES);

	for (uint64 i = 0; i < rows.n; i++)
	{
		Seal		seal = SealFrom(rows, i);
		bool		taken;

		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(each);
		taken = choose_batch(left, kind, &seal);
		MemoryContextSwitchTo(outer);
		MemoryContextReset(each);
		if (!taken)
			break;
		if (batches.n++ == 0)
			batches.first = seal;
		batches.last = seal;
		batches.rows += seal.rows[kind];
	}
	MemoryContextDelete(each);
	return batches;
}

/*
 * Prepares one batch for the removal of its rows of one kind: keeps the
 * digests of their leaves if the other kind's rows still exist, and otherwise
 * removes the kept digests.  Returns false if the rows are not the sealed
 * ones; then they stay.
 */
static bool
choose_batch(const ArchivedUpTo *left, SealKind kind, const Seal *seal)
{
	SealKind	other = kind == SEAL_ENTRY ? SEAL_AUDIT : SEAL_ENTRY;
	Leaves		leaves[SEAL_KINDS];

	BatchLeaves(left, seal, leaves);
	if (!BatchIsSealed(seal, leaves))
	{
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("batch " INT64_FORMAT " is not what was sealed",
						seal->batch),
				 errdetail("Its rows and all later ones are kept."),
				 errhint("Call gpucredit.verify_audit() to find the row.")));
		return false;
	}
	if (ArchivedHas(left, other, seal))
		LeavesForget(seal->batch);
	else
		LeavesKeep(seal, kind, &leaves[kind]);
	return true;
}

/*
 * Writes the closings, deletes the rows, and raises *until to their latest
 * instant.
 */
static void
remove_rows(SealKind kind, const Batches *batches, int64 archive_batch,
			TimestampTz *until)
{
	int64		from = batches->first.from[kind];
	int64		to = batches->last.to[kind];

	if (kind == SEAL_ENTRY)
	{
		(void) SqlRun(&closings_write,
					  VALUES(Int8Value(archive_batch), Int8Value(from),
							 Int8Value(to)));
	}
	*until = SqlTimeOr(SqlRun(kind == SEAL_ENTRY ? &entries_until :
							  &audits_until,
							  VALUES(Int8Value(from),
									 Int8Value(to))), 0, 1, *until);
	Ensure(AppendOnlyDelete(SealKindNames[kind], kind == SEAL_ENTRY ?
							&entries_delete : &audits_delete,
							VALUES(Int8Value(from), Int8Value(to))) ==
		   (uint64) batches->rows,
		   "Not as many rows leave as were sealed.");
}

/* Adds a link to the chain of archived batches, and its audit row. */
static void
write_archive_batch(SealKind kind, const Batches *batches, int64 archive_batch,
					TimestampTz until)
{
	AuditRow	audit = {.operation = "maintain", .decision = "departed",
		.reason = SealKindNames[kind], .at = ClockNow()};
	SqlResult	link = SqlRun(&archive_batch_write,
							  VALUES(Int8Value(archive_batch),
									 TextValue(SealKindNames[kind]),
									 Int8Value(batches->first.batch - 1),
									 Int8Value(batches->last.batch),
									 Int8Value(batches->rows),
									 TimeValue(until), TimeValue(audit.at)));

	AuditText(&audit, "digest", SqlText(link, 0, 1));
	AuditInt8(&audit, "archive_batch", archive_batch);
	AuditInt8(&audit, "batch_from", batches->first.batch - 1);
	AuditInt8(&audit, "batch_to", batches->last.batch);
	AuditInt8(&audit, "rows", batches->rows);
	AuditWrite(&audit);
}
