/*-------------------------------------------------------------------------
 *
 * verify_audit.c
 *		verify_audit(): finds the first batch and row that is not as it
 *		was sealed.
 *
 * It checks every seal of the chain from the first one, whatever period the
 * caller asks for, because a seal is good only if all seals before it are.
 * Then it reads and hashes the rows of each batch sealed since the given
 * instant.  It reports the first finding only, since nothing after it is
 * reliable.  If rows were archived during the call, it begins again, because
 * their absence may be all that it found.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/compat.h"
#include "util/errors.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "seal/archived_batch.h"
#include "seal/row_digest.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(gpucredit_verify_audit);

SQL_STATEMENT(traces_read, SPI_OK_SELECT, "bigint",
			  "SELECT t.entries, t.audits FROM gpucredit.seal_row t"
			  " WHERE t.batch = $1");

SQL_STATEMENT(traces_last, SPI_OK_SELECT, "",
			  "SELECT COALESCE(pg_catalog.max(t.batch), 0)"
			  " FROM gpucredit.seal_row t");

SQL_STATEMENT(archive_batches_check, SPI_OK_SELECT, "",
			  "SELECT c.subject, c.detail"
			  " FROM gpucredit_internal.check_archive_batches(NULL, NULL) c LIMIT 1");

/* What is wrong, and where. */
typedef struct Finding
{
	const char *problem;		/* NULL if nothing is wrong */
	int64		batch;
	const char *row;			/* such as "entry 17", or NULL if it is the
								 * seal itself */
	const char *detail;
} Finding;

static const char *const problems[] = {NULL, "changed", "vanished",
"inserted"};

static Finding check_chain(const ArchivedUpTo *left, SqlResult rows,
						   TimestampTz since, int64 last);
static Finding check_link(const Seal *before, const Seal *seal);
static Finding check_rows(const ArchivedUpTo *left, const Seal *seal);
static Finding name_row(const ArchivedUpTo *left, const Seal *seal,
						const Leaves *leaves);
static Finding check_archive_batches(void);
static Finding check_traces(const ArchivedUpTo *left, const Seal *seal,
							const Leaves *leaves);
static Finding check_head(const bytea *head, SqlResult rows);
static void put_finding(ReturnSetInfo *rsinfo, const Finding *finding);

Datum
gpucredit_verify_audit(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	TimestampTz since = ArgTimeOrNull(fcinfo, 0, "since");
	Finding		finding;
	ArchivedUpTo left;
	SqlResult	rows = {0};
	int64		last;

	InitMaterializedSRF(fcinfo, 0);
	SqlConnect();
	do
	{
		SqlFree(&rows);
		left = ArchivedRead();
		/* Read before the seals, to which concurrent calls may add. */
		last = SqlInt8(SqlRun(&traces_last, NULL), 0, 1);
		rows = SealsAll();
		finding = check_chain(&left, rows, since, last);
	} while (finding.problem != NULL && ArchivedMore(&left));
	if (finding.problem == NULL)
		finding = check_archive_batches();
	if (finding.problem == NULL && !PG_ARGISNULL(1))
		finding = check_head(PG_GETARG_BYTEA_PP(1), rows);
	if (finding.problem != NULL)
		put_finding(rsinfo, &finding);
	SqlFinish();
	return (Datum) 0;
}

/*
 * Returns the first seal, or the first row of a batch sealed since an instant,
 * that is not as it was sealed.  If seal_row has a later batch than the chain,
 * the end of the chain was removed.
 */
static Finding
check_chain(const ArchivedUpTo *left, SqlResult rows, TimestampTz since,
			int64 last)
{
	Finding		finding = {0};
	Seal		before = SealNone();
	MemoryContext outer = CurrentMemoryContext;
	MemoryContext each = AllocSetContextCreate(outer, "gpucredit seal",
											   ALLOCSET_DEFAULT_SIZES);

	for (uint64 i = 0; i < rows.n && finding.problem == NULL; i++)
	{
		Seal		seal = SealFrom(rows, i);

		CHECK_FOR_INTERRUPTS();
		finding = check_link(&before, &seal);
		if (finding.problem == NULL && seal.sealed_at >= since)
		{
			MemoryContextSwitchTo(each);
			finding = check_rows(left, &seal);
			MemoryContextSwitchTo(outer);
			if (finding.problem == NULL)
				MemoryContextReset(each);
		}
		before = seal;
	}
	if (finding.problem == NULL && before.batch < last)
	{
		finding.problem = "vanished";
		finding.batch = before.batch + 1;
		finding.detail = "The chain has no such batch.";
	}
	return finding;
}

/*
 * Checks that a seal is the digest of its header, and that it follows the one
 * before.
 */
static Finding
check_link(const Seal *before, const Seal *seal)
{
	Finding		finding = {NULL, seal->batch, NULL, NULL};
	Digest		digest = SealDigest(seal);

	if (seal->batch != before->batch + 1)
	{
		finding.batch = before->batch + 1;
		finding.problem = "vanished";
		finding.detail = "The chain has no such batch.";
	}
	else if (memcmp(&digest, &seal->seal, sizeof(Digest)) != 0)
	{
		finding.problem = "changed";
		finding.detail = "The seal is not the digest of its own row.";
	}
	else if (memcmp(&seal->previous, &before->seal, sizeof(Digest)) != 0 ||
			 memcmp(seal->from, before->to, sizeof(seal->from)) != 0 ||
			 seal->sealed_at < before->sealed_at)
	{
		finding.problem = "changed";
		finding.detail = "It does not follow the seal before it.";
	}
	return finding;
}

/*
 * Checks that a batch's rows are the sealed ones.  While the rows of one kind
 * exist, the kept digests of the other kind must match; removed rows must not
 * exist again.
 */
static Finding
check_rows(const ArchivedUpTo *left, const Seal *seal)
{
	Leaves		leaves[SEAL_KINDS];

	BatchLeaves(left, seal, leaves);
	if (ArchivedAll(left, seal) ?
		leaves[SEAL_ENTRY].n + leaves[SEAL_AUDIT].n == 0 :
		BatchIsSealed(seal, leaves))
		return check_traces(left, seal, leaves);
	return name_row(left, seal, leaves);
}

/*
 * Checks that seal_row has the short digests of a batch's rows.  They are used
 * to name a changed row, so they must be right before one is changed.
 */
static Finding
check_traces(const ArchivedUpTo *left, const Seal *seal, const Leaves *leaves)
{
	Finding		finding = {NULL, seal->batch, NULL, NULL};
	SqlResult	row;

	if (ArchivedAll(left, seal))
		return finding;
	row = SqlRun(&traces_read, VALUES(Int8Value(seal->batch)));
	if (row.n == 0)
	{
		finding.problem = problems[TRACE_VANISHED];
		finding.row = "seal_row";
		finding.detail = "Table seal_row has no row of the batch.";
	}
	for (int k = 0; row.n > 0 && k < SEAL_KINDS; k++)
	{
		int64		id;
		bool		isnull;

		if (TracesCompare(SqlDatum(row, 0, k + 1, &isnull), &leaves[k],
						  &id) == TRACE_NONE)
			continue;
		finding.problem = problems[TRACE_CHANGED];
		finding.row = "seal_row";
		finding.detail = "Its digests in table seal_row are not those of its "
			"rows.";
	}
	return finding;
}

/* Finds the first row of a batch that differs from the sealed one. */
static Finding
name_row(const ArchivedUpTo *left, const Seal *seal, const Leaves *leaves)
{
	Finding		finding = {"changed", seal->batch, NULL,
		"Its rows do not give the root that was sealed."};
	SqlResult	row;

	for (int k = 0; k < SEAL_KINDS; k++)
	{
		if (!ArchivedHas(left, (SealKind) k, seal) || leaves[k].n == 0 ||
			leaves[k].ids[0] == 0)
			continue;
		finding.problem = "inserted";
		finding.row = psprintf("%s " INT64_FORMAT, SealKindNames[k],
							   leaves[k].ids[0]);
		finding.detail = "The rows of its batch were removed.";
		return finding;
	}
	row = SqlRun(&traces_read, VALUES(Int8Value(seal->batch)));
	for (int k = 0; row.n > 0 && k < SEAL_KINDS; k++)
	{
		int64		id;
		bool		isnull;
		TraceProblem problem = ArchivedHas(left, (SealKind) k, seal) ?
			TRACE_NONE : TracesCompare(SqlDatum(row, 0, k + 1, &isnull),
									   &leaves[k], &id);

		if (problem == TRACE_NONE)
			continue;
		finding.problem = problems[problem];
		finding.row = psprintf("%s " INT64_FORMAT, SealKindNames[k], id);
		finding.detail = "The row differs from what was sealed.";
		return finding;
	}
	return finding;
}

/* Checks the digests of the archived batches and their closings. */
static Finding
check_archive_batches(void)
{
	Finding		finding = {NULL, 0, NULL, NULL};
	SqlResult	rows = SqlRun(&archive_batches_check, NULL);

	if (rows.n > 0)
	{
		finding.problem = "changed";
		finding.row = SqlText(rows, 0, 1);
		finding.detail = SqlText(rows, 0, 2);
	}
	return finding;
}

/* Checks that a published seal is in the chain. */
static Finding
check_head(const bytea *head, SqlResult rows)
{
	Finding		finding = {"vanished", 0, NULL,
		"No seal of the chain is the one that was published."};

	if (VARSIZE_ANY_EXHDR(head) != DIGEST_SIZE)
	{
		finding.detail = psprintf("What was passed is no seal: it has %zu "
								  "bytes, a seal %d. Pass decode('...', "
								  "'hex') of the hex in view seals.",
								  (size_t) VARSIZE_ANY_EXHDR(head),
								  DIGEST_SIZE);
		return finding;
	}
	for (uint64 i = 0; i < rows.n; i++)
	{
		Seal		seal = SealFrom(rows, i);

		if (memcmp(VARDATA_ANY(head), seal.seal.bytes, DIGEST_SIZE) == 0)
			finding.problem = NULL;
	}
	return finding;
}

static void
put_finding(ReturnSetInfo *rsinfo, const Finding *finding)
{
	RowPut(rsinfo,
		   VALUES(TextValue(finding->problem),
				  finding->batch == 0 ? NullValue() :
				  Int8Value(finding->batch), TextValue(finding->row),
				  TextValue(finding->detail)));
}
