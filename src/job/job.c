/*-------------------------------------------------------------------------
 *
 * job.c
 *		Locks and reads a job's row, and changes its state.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/clock.h"
#include "util/compat.h"
#include "util/errors.h"
#include "util/sql.h"
#include "util/not_found.h"
#include "api/tenant.h"
#include "job/job.h"
#include "utils/array.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(gpucredit_require_job);

const char *const TopologyNames[4] = {"any", "node", "nvlink", "leaf"};

#define JOB_READ \
	"SELECT j.account, j.pool, j.tier, j.request, j.topology," \
	" j.preemptible, j.priority, j.cpu_milli, j.memory_mib, j.wall_limit," \
	" j.hold_window, j.max_retries, j.offer_types, j.offer_memory," \
	" j.offer_prices, j.offer_spot_prices, j.state, j.hold, j.attempt," \
	" j.failures, j.cancelled, j.not_before, j.waits_from, j.waited," \
	" j.traceparent, j.price_factor, j.resources" \
	" FROM gpucredit.job j" \
	" WHERE j.org = $1 AND j.job = $2 FOR NO KEY UPDATE"

SQL_STATEMENT(job_lock, SPI_OK_SELECT, "text, bigint", JOB_READ);
SQL_STATEMENT(job_lock_free, SPI_OK_SELECT, "text, bigint",
			  JOB_READ " SKIP LOCKED");
SQL_STATEMENT(job_exists, SPI_OK_SELECT, "text, bigint",
			  "SELECT 1 FROM gpucredit.job j"
			  " WHERE j.org = $1 AND j.job = $2");
SQL_STATEMENT(job_state, SPI_OK_UPDATE,
			  "text, bigint, text, bigint, int, timestamptz, timestamptz,"
			  " timestamptz, interval",
			  "UPDATE gpucredit.job j SET state = $3, hold = $4,"
			  " failures = $5, not_before = $6, ended_at = $7,"
			  " waits_from = $8, waited = $9"
			  " WHERE j.org = $1 AND j.job = $2");

SQL_STATEMENT(claim_drop, SPI_OK_DELETE, "text, text, bigint",
			  "DELETE FROM gpucredit.claim c"
			  " WHERE c.pool = $1 AND c.org = $2 AND c.job = $3");
SQL_STATEMENT(claim_gpu_drop, SPI_OK_DELETE, "text, text, bigint",
			  "DELETE FROM gpucredit.claim_gpu c"
			  " WHERE c.pool = $1 AND c.org = $2 AND c.job = $3");

static int	read_array(SqlResult rows, uint64 i, int column, int len,
					   bool byval, char align, Datum **elems);

/*
 * Locks a job's row and reads it.  Returns false if the job does not exist or,
 * with wait = false, if another transaction has locked it.
 */
bool
JobLock(const char *org, int64 id, bool wait, Job *job)
{
	bool		isnull;
	SqlResult	row = SqlRun(wait ? &job_lock : &job_lock_free,
							 VALUES(TextValue(org), Int8Value(id)));

	if (row.n == 0)
		return false;
	job->org = org;
	job->job = id;
	job->account = SqlText(row, 0, 1);
	job->pool = SqlText(row, 0, 2);
	job->tier = SqlText(row, 0, 3);
	job->request = (GpuReq *)
		PG_DETOAST_DATUM_COPY(SqlDatum(row, 0, 4, &isnull));
	job->topology = (DecideTopology) ArgWord(SqlText(row, 0, 5), "topology",
											 TopologyNames,
											 lengthof(TopologyNames));
	job->preemptible = (Preemptible) ArgWord(SqlText(row, 0, 6),
											 "preemptible", PreemptibleNames,
											 lengthof(PreemptibleNames));
	job->priority = SqlInt4(row, 0, 7);
	job->cpu_milli = SqlInt8(row, 0, 8);
	job->memory_mib = SqlInt8(row, 0, 9);
	job->wall_limit = SqlIsNull(row, 0, 10) ? -1 : SqlDuration(row, 0, 10);
	job->hold_window = SqlIsNull(row, 0, 11) ? -1 : SqlDuration(row, 0, 11);
	job->max_retries = SqlInt4(row, 0, 12);
	JobReadOffers(row, 0, 13, 14, 15, 16, &job->offers);
	job->state = SqlText(row, 0, 17);
	job->hold = SqlInt8(row, 0, 18);
	job->attempt = SqlInt4(row, 0, 19);
	job->failures = SqlInt4(row, 0, 20);
	job->cancelled = SqlBool(row, 0, 21);
	job->not_before = SqlTimeOr(row, 0, 22, DT_NOBEGIN);
	job->waits_from = SqlTimeOr(row, 0, 23, DT_NOBEGIN);
	job->waited = SqlDuration(row, 0, 24);
	job->trace = TraceOfParent(SqlText(row, 0, 25));
	job->price_factor = SqlInt4(row, 0, 26);
	job->resources = SqlCredits(row, 0, 27);
	job->stored_offers = job->offers;
	job->stored_resources = job->resources;
	SqlFree(&row);
	return true;
}

static int
read_array(SqlResult rows, uint64 i, int column, int len, bool byval,
		   char align, Datum **elems)
{
	bool		isnull;
	int			n;
	ArrayType  *array = DatumGetArrayTypePCopy(SqlDatum(rows, i, column,
														&isnull));

	deconstruct_array(array, ARR_ELEMTYPE(array), len, byval, align, elems,
					  NULL, &n);
	return n;
}

/* Reads a job's offers from four array columns of a row. */
void
JobReadOffers(SqlResult rows, uint64 i, int types, int memory, int prices,
			  int spot_prices, Offers *offers)
{
	Datum	   *names;
	int			columns[3] = {memory, prices, spot_prices};
	Datum	   *numbers[3];

	offers->n = read_array(rows, i, types, -1, false, TYPALIGN_INT, &names);
	for (int c = 0; c < 3; c++)
	{
		if (read_array(rows, i, columns[c], 8, true, TYPALIGN_DOUBLE,
					   &numbers[c]) != offers->n)
			Ensure(false, "A job's offers are of unequal length.");
	}
	offers->types = palloc(sizeof(char *) * (offers->n + 1));
	for (int o = 0; o < offers->n; o++)
		offers->types[o] = TextDatumGetCString(names[o]);
	/* An element of type bigint or credits is stored in the datum itself. */
	offers->memory = (int64 *) numbers[0];
	offers->prices = (Credits *) numbers[1];
	offers->spot_prices = (Credits *) numbers[2];
	offers->shares = NULL;
}

/*
 * Adds the arguments that store a job's waiting time as the job enters or
 * leaves the queue. Time before not_before does not count as waiting.
 */
static void
arg_waiting(Values *args, const Job *job, bool queued,
			TimestampTz not_before)
{
	TimestampTz now = ClockNow();
	int64		waited = job->waited;

	if (job->waits_from != DT_NOBEGIN)
		waited = Max(waited, now - job->waits_from);
	ValuesAdd(args,
			  queued ? TimeValue(ClockAdd(Max(now, not_before), -waited)) :
			  NullValue(), DurationValue(waited));
}

/*
 * Changes the state of a locked job. An instant of DT_NOBEGIN is stored as
 * null.
 */
void
JobSetState(const Job *job, const char *state, int64 hold, int32 failures,
			TimestampTz not_before, TimestampTz ended_at)
{
	Values	   *args = VALUES(TextValue(job->org), Int8Value(job->job),
							  TextValue(state), Int8Value(hold),
							  Int4Value(failures), TimeValueOrNull(not_before),
							  TimeValueOrNull(ended_at));

	arg_waiting(args, job, strcmp(state, "queued") == 0, not_before);
	Ensure(SqlRun(&job_state, args).n == 1, "A job is missing.");
}

/*
 * Deletes the claim of a job that has ended. The next cycle then lets the
 * claim's victims run on.
 */
void
JobDropClaim(const Job *job)
{
	Values	   *args = VALUES(TextValue(job->pool), TextValue(job->org),
							  Int8Value(job->job));

	if (SqlRun(&claim_drop, args).n > 0)
		(void) SqlRun(&claim_gpu_drop, args);
}

/*
 * SQL function for the reading functions: raises UC301 if the job does not
 * exist or the caller may not see it.
 */
Datum
gpucredit_require_job(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	int64		id = ArgInt8(fcinfo, 1, "job", PG_INT64_MIN, PG_INT64_MAX);

	TenantCheckJob(org, id);
	SqlConnect();
	if (SqlRead(&job_exists, VALUES(TextValue(org), Int8Value(id))).n == 0)
		NotFoundJob(id);
	SqlFinish();
	PG_RETURN_VOID();
}

/*
 * Returns what the ledger must know of a job to choose buckets that may pay
 * for it.
 */
Purpose
JobPurpose(const Job *job)
{
	Purpose		purpose = {
		.job = job->job,
		.ntypes = job->offers.n,
		.gpu_types = job->offers.types,
		.tier = job->tier,
		.pool = job->pool,
		.trace = job->trace
	};

	return purpose;
}

void
AttemptRefuseUnknown(int64 job, int32 attempt)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_NO_ATTEMPT),
			 errmsg("attempt %d of job %lld does not exist", attempt,
					(long long) job),
			 errdetail("The job has fewer attempts."),
			 errhint("Pass the number gpucredit.heartbeat() or "
					 "gpucredit.place() returned.")));
}
