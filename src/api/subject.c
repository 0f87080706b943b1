/*-------------------------------------------------------------------------
 *
 * subject.c
 *		Finds the account of a job, hold or bucket, which never changes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/sql.h"
#include "api/api.h"

SQL_STATEMENT(job_account, SPI_OK_SELECT, "text, bigint",
			  "SELECT j.account FROM gpucredit.job j"
			  " WHERE j.org = $1 AND j.job = $2");
SQL_STATEMENT(hold_account, SPI_OK_SELECT, "text, bigint",
			  "SELECT h.account FROM gpucredit.hold h"
			  " WHERE h.org = $1 AND h.hold = $2");
SQL_STATEMENT(bucket_account, SPI_OK_SELECT, "text, bigint",
			  "SELECT b.account FROM gpucredit.bucket b"
			  " WHERE b.org = $1 AND b.bucket = $2");

/*
 * Returns the account, or NULL if the job, hold or bucket does not exist.  The
 * caller has connected to SPI.
 */
char *
ApiAccountOf(ApiSubject kind, const char *org, int64 id)
{
	SqlStatement *statement =
	kind == API_SUBJECT_JOB ? &job_account :
	kind == API_SUBJECT_HOLD ? &hold_account : &bucket_account;
	SqlResult	row;

	row = SqlReadLatest(statement, VALUES(TextValue(org), Int8Value(id)));
	return row.n > 0 ? SqlText(row, 0, 1) : NULL;
}
