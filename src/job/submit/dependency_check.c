/*-------------------------------------------------------------------------
 *
 * dependency_check.c
 *		Checks that the jobs a submission waits for exist and that its
 *		caller may see them.
 *
 * Only jobs of the submission's own organisation can be named.  For a job that
 * a tenant may not see, the same statement raises the same error as for a job
 * that does not exist.  References to tasks of arrays are replaced by the
 * tasks' jobs, so that a cycle need not search for tasks.
 *
 * A repeated call gets the stored answer without these checks.
 *
 * Locks: none.  Jobs are never deleted, and a job that is waited for may
 * change its state at any time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "job/submit/submission.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/not_found.h"
#include "util/sql.h"
#include "utils/timestamp.h"

#define BEGIN_MOST	(366 * USECS_PER_DAY)

SQL_STATEMENT(named_read, SPI_OK_SELECT, "text, bigint",
			  "SELECT j.array_key FROM gpucredit.job j"
			  " WHERE j.org = $1 AND j.job = $2"
			  " AND gpucredit_internal.may_read(j.org, j.account)");
SQL_STATEMENT(task_read, SPI_OK_SELECT, "text, bigint, bigint",
			  "SELECT t.job FROM gpucredit.job j JOIN gpucredit.job t"
			  " ON t.org = $1 AND t.account = j.account"
			  " AND t.array_key = j.array_key AND t.task = $3"
			  " WHERE j.org = $1 AND j.job = $2 ORDER BY t.job LIMIT 1");

static void check_times(const Submission *submission);
static void resolve_term(const Submission *submission, DependencyTerm *term);
static void resolve_task(const Submission *submission, DependencyTerm *term,
						 int64 task);

/*
 * Checks what a submission waits for, and replaces references to tasks by the
 * tasks' jobs.
 */
void
SubmissionResolve(Submission *submission)
{
	Dependency *after = submission->wishes.after;

	for (int i = 0; after != NULL && i < after->n; i++)
	{
		if (after->terms[i].kind != AFTER_SINGLETON)
			resolve_term(submission, &after->terms[i]);
	}
	check_times(submission);
}

/*
 * Checks one term of a dependency: its job exists, and belongs to an array if
 * the term refers to an array.
 */
static void
resolve_term(const Submission *submission, DependencyTerm *term)
{
	SqlResult	row = SqlRun(&named_read,
							 VALUES(TextValue(submission->job.org),
									Int8Value(term->job)));
	bool		in_array;

	if (row.n == 0)
		NotFoundJob(term->job);
	in_array = !SqlIsNull(row, 0, 1);
	SqlFree(&row);
	if (!in_array && (term->scope != DEPENDENCY_JOB ||
					  term->kind == AFTER_CORRESPONDING))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("job %lld is of no array", (long long) term->job),
				 errdetail("\"after\" in \"options\" refers to its array."),
				 errhint("Name the job alone, or one that was submitted with "
						 "\"array\" in \"options\".")));
	if (term->kind == AFTER_CORRESPONDING)
		resolve_task(submission, term, submission->wishes.task);
	else if (term->scope == DEPENDENCY_TASK)
		resolve_task(submission, term, term->task);
}

/*
 * Replaces a reference to a task of an array by the task's job. An array
 * belongs to one account, so a caller who may see one of its jobs may see all
 * of them.
 */
static void
resolve_task(const Submission *submission, DependencyTerm *term, int64 task)
{
	SqlResult	row = SqlRun(&task_read,
							 VALUES(TextValue(submission->job.org),
									Int8Value(term->job), Int8Value(task)));

	if (row.n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_GPUCREDIT_NO_JOB),
				 errmsg("task %lld of job %lld's array does not exist",
						(long long) task, (long long) term->job),
				 errdetail("No job of the array was submitted with that "
						   "number."),
				 errhint("Submit the array before what waits for it.")));
	term->job = SqlInt8(row, 0, 1);
	term->scope = DEPENDENCY_JOB;
	if (term->kind == AFTER_CORRESPONDING)
		term->kind = AFTER_OK;
	SqlFree(&row);
}

/*
 * Checks the options "begin" and "deadline" against the clock. Only the first
 * call of a key comes here, so a replay is not refused because time has
 * passed.
 */
static void
check_times(const Submission *submission)
{
	const JobOptions *wishes = &submission->wishes;
	TimestampTz now = ClockNow();

	if (wishes->begin > now && wishes->begin - now > BEGIN_MOST)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"begin\" in \"options\" is too late"),
				 errdetail("The credit of a job is held for 366 days at most "
						   "before it begins."),
				 errhint("Submit the job later.")));
	if (wishes->deadline != DT_NOEND && (wishes->deadline <= now ||
										 wishes->deadline <= wishes->begin))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"deadline\" in \"options\" is too early"),
				 errdetail("It is not after \"begin\", or not in the future."),
				 errhint("Pass a later instant.")));
}
