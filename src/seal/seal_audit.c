/*-------------------------------------------------------------------------
 *
 * seal_audit.c
 *		seal_audit(): seals new entries and audit rows, in batches.
 *
 * Writers are not disturbed, as sealing reads what they have committed.  For
 * each batch, seal_row keeps the ids of its rows and the first bytes of their
 * leaves' digests.  They only serve to name a row that was changed; whether
 * one was is decided by the root alone.
 *
 * A call ends after gpucredit.upkeep_time, or after MOST_BATCHES batches, and
 * the next call continues there.
 *
 * Locks: the chain.  A concurrent call does not wait for the lock and seals
 * nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/settings.h"
#include "api/api.h"
#include "miscadmin.h"
#include "seal/seal.h"
#include "seal/row_digest.h"
#include "shmem/notify.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

API_FUNCTION(gpucredit_seal_audit, seal_audit);

#define MOST_BATCHES	64		/* most batches that a call seals */

SQL_STATEMENT(chain_lock, SPI_OK_SELECT, "",
			  "SELECT gpucredit_internal.lock_chain()");
SQL_STATEMENT(seal_insert, SPI_OK_INSERT,
			  "bigint, bigint, bigint, bigint, bigint, bigint, bigint,"
			  " timestamptz, bytea, bytea, bytea",
			  "INSERT INTO gpucredit.seal (batch, entry_from, entry_to,"
			  " entries, audit_from, audit_to, audits, sealed_at, previous,"
			  " root, seal) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,"
			  " $11)");
SQL_STATEMENT(traces_insert, SPI_OK_INSERT, "bigint, bytea, bytea",
			  "INSERT INTO gpucredit.seal_row (batch, entries, audits)"
			  " VALUES ($1, $2, $3)");
SQL_STATEMENT(seal_text, SPI_OK_SELECT, "bigint, bytea",
			  "SELECT pg_catalog.json_build_object('batch', $1, 'seal',"
			  " pg_catalog.encode($2, 'hex'))::text");

static bool may_seal(int batches, TimestampTz until);
static void require_read_committed(void);
static bool seal_batch(Seal *last, const Horizon *horizon,
					   int64 sealed[SEAL_KINDS]);
static void write_seal(const Seal *seal, const Leaves *leaves);

Datum
call_seal_audit(PG_FUNCTION_ARGS)
{
	static const char *const tasks[] = {"seal_entries", "seal_audits"};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	int64		sealed[SEAL_KINDS] = {0, 0};
	MemoryContext each;
	MemoryContext before = CurrentMemoryContext;
	Horizon		horizon;
	TimestampTz until = TimestampTzPlusMilliseconds(ClockSteady(),
													SettingUpkeepTime());
	int			batches = 0;

	InitMaterializedSRF(fcinfo, 0);
	require_read_committed();
	SqlConnect();
	each = AllocSetContextCreate(CurrentMemoryContext, "gpucredit seal",
								 ALLOCSET_DEFAULT_SIZES);
	if (SqlBool(SqlRun(&chain_lock, NULL), 0, 1))
	{
		Seal		last;
		bool		any = SealLast(&last);
		Digest		first = last.seal;

		while (may_seal(batches, until) && HorizonDecided(&horizon))
		{
			bool		more = true;
			int			before_round = batches;

			while (more && may_seal(batches, until))
			{
				MemoryContextSwitchTo(each);
				more = seal_batch(&last, &horizon, sealed);
				batches += more;
				MemoryContextSwitchTo(before);
				MemoryContextReset(each);
			}
			if (batches == before_round)
				break;
		}
		if (!any ? last.batch > 0 :
			memcmp(&first, &last.seal, sizeof(Digest)) != 0)
		{
			SqlResult	text = SqlRun(&seal_text,
									  VALUES(Int8Value(last.batch),
											 DatumValue(DigestDatum(&last.seal))));

			NotifyAtCommit("gpucredit_seal", SqlText(text, 0, 1));
		}
	}
	for (int k = 0; k < SEAL_KINDS; k++)
	{
		RowPut(rsinfo, VALUES(TextValue(tasks[k]), Int8Value(sealed[k])));
	}
	SqlFinish();
	return (Datum) 0;
}

/* Whether a call that has sealed so many batches may seal another one. */
static bool
may_seal(int batches, TimestampTz until)
{
	return batches == 0 || (batches < MOST_BATCHES && ClockSteady() < until);
}

/*
 * Sealing must see everything that is committed, so a transaction with an old
 * snapshot is refused.  A standby is refused here as well, because it would
 * refuse the lock with an error that tells the caller nothing.
 */
static void
require_read_committed(void)
{
	PreventCommandIfReadOnly("seal_audit()");
	if (!IsolationUsesXactSnapshot())
		return;
	ereport(ERROR,
			(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
			 errmsg("sealing needs READ COMMITTED"),
			 errdetail("This transaction does not see what others committed "
					   "after it began."),
			 errhint("Call gpucredit.seal_audit() in a transaction of its "
					 "own at READ COMMITTED.")));
}

/*
 * Seals the next batch and stores its seal in *last.  Returns false if there
 * is nothing more to seal.
 */
static bool
seal_batch(Seal *last, const Horizon *horizon, int64 sealed[SEAL_KINDS])
{
	Seal		seal = {.batch = last->batch + 1, .previous = last->seal};
	Leaves		leaves[SEAL_KINDS];

	CHECK_FOR_INTERRUPTS();
	for (int k = 0; k < SEAL_KINDS; k++)
	{
		seal.from[k] = last->to[k];
		seal.to[k] = LeavesRead((SealKind) k, seal.from[k],
								Max(horizon->to[k], seal.from[k]),
								SEAL_BATCH_ROWS, &leaves[k]);
		seal.rows[k] = leaves[k].n;
	}
	if (leaves[SEAL_ENTRY].n + leaves[SEAL_AUDIT].n == 0)
		return false;
	seal.sealed_at = Max(ClockNow(), last->sealed_at);
	seal.root = MerkleRoot(leaves, SEAL_KINDS);
	seal.seal = SealDigest(&seal);
	write_seal(&seal, leaves);
	for (int k = 0; k < SEAL_KINDS; k++)
		sealed[k] += leaves[k].n;
	*last = seal;
	return true;
}

/* Writes the row of a seal, and the short digests of its batch's rows. */
static void
write_seal(const Seal *seal, const Leaves *leaves)
{
	Values	   *traces;
	Values	   *args = VALUES(Int8Value(seal->batch));

	for (int k = 0; k < SEAL_KINDS; k++)
	{
		ValuesAdd(args, Int8Value(seal->from[k]), Int8Value(seal->to[k]),
				  Int8Value(seal->rows[k]));
	}
	ValuesAdd(args, TimeValue(seal->sealed_at),
			  DatumValue(DigestDatum(&seal->previous)),
			  DatumValue(DigestDatum(&seal->root)),
			  DatumValue(DigestDatum(&seal->seal)));
	(void) SqlRun(&seal_insert, args);

	traces = VALUES(Int8Value(seal->batch));
	for (int k = 0; k < SEAL_KINDS; k++)
		ValuesAdd(traces, DatumValue(TracesPack(&leaves[k])));
	(void) SqlRun(&traces_insert, traces);
}
