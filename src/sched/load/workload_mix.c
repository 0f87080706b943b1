/*-------------------------------------------------------------------------
 *
 * workload_mix.c
 *		Counts the pool's typical jobs, for the packing policy fgd.
 *
 * Jobs are counted by request, cpu and memory, each job once, at its first
 * start. The typical jobs are those of the last LEARN_DAYS days and the
 * waiting jobs.
 *
 * Only the pool's cycle writes the table, under the pool's lock. Older rows
 * have no effect, and cycles that start jobs delete them. At most
 * REQUESTS_OF_DAY different requests are counted on a day, and the
 * REQUESTS_READ most frequent requests are used.
 *
 * Locks: none beyond the pool's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/sql.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "types/gpureq.h"

#define REQUESTS_OF_DAY	"1000"
#define REQUESTS_READ	"256"

SQL_STATEMENT(workload_read, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT t.request, t.cpu_milli, t.memory_mib,"
			  " pg_catalog.sum(t.jobs)::bigint"
			  " FROM gpucredit.workload_mix t"
			  " WHERE t.pool = $1 AND t.day > $2 - interval '" LEARN_DAYS " days'"
			  " GROUP BY t.request, t.cpu_milli, t.memory_mib"
			  " ORDER BY 4 DESC, 1, 2, 3 LIMIT " REQUESTS_READ);
/*
 * Requests that the day has a row for are always counted. The most frequent
 * new requests get new rows, up to REQUESTS_OF_DAY.
 */
SQL_STATEMENT(workload_count, SPI_OK_INSERT,
			  "text, timestamptz, text[], bigint[], bigint[]",
			  "INSERT INTO gpucredit.workload_mix AS t (pool, day, request,"
			  " cpu_milli, memory_mib, jobs)"
			  " SELECT $1, k.day, k.request, k.cpu, k.memory, k.jobs"
			  " FROM (SELECT c.*, o.pool IS NOT NULL AS known,"
			  "   pg_catalog.row_number() OVER (PARTITION BY o.pool"
			  "    ORDER BY c.jobs DESC, c.request, c.cpu, c.memory) AS nth"
			  "  FROM (SELECT d.day, u.request::gpucredit.gpureq, u.cpu,"
			  "    u.memory, pg_catalog.count(*) AS jobs"
			  "   FROM ROWS FROM (pg_catalog.unnest($3),"
			  "    pg_catalog.unnest($4), pg_catalog.unnest($5))"
			  "    AS u (request, cpu, memory),"
			  "    (SELECT pg_catalog.date_trunc('day', $2, 'UTC') AS day) d"
			  "   GROUP BY d.day, 2, u.cpu, u.memory) c"
			  "  LEFT JOIN gpucredit.workload_mix o ON o.pool = $1"
			  "   AND o.day = c.day"
			  "   AND o.request OPERATOR(gpucredit.=) c.request"
			  "   AND o.cpu_milli = c.cpu AND o.memory_mib = c.memory) k"
			  " WHERE k.known OR k.nth <= " REQUESTS_OF_DAY " -"
			  " (SELECT pg_catalog.count(*) FROM gpucredit.workload_mix o"
			  "  WHERE o.pool = $1 AND o.day = k.day)"
			  " ON CONFLICT (pool, day, request, cpu_milli, memory_mib)"
			  " DO UPDATE SET jobs = t.jobs + EXCLUDED.jobs");
SQL_STATEMENT(workload_forget, SPI_OK_DELETE, "text, timestamptz",
			  "DELETE FROM gpucredit.workload_mix t WHERE t.pool = $1"
			  " AND t.day <= $2 - interval '" LEARN_DAYS " days'");
static DecideRequestClass workload_ask(const SchedCycle *cycle,
									   const GpuReq *request);
static bool same_kind(const DecideRequestClass *a,
					  const DecideRequestClass *b);
static int	add_waiting(const SchedCycle *cycle, DecideWorkload *workloads,
						int n);

/* Loads the pool's typical jobs, if its packing policy is fgd. */
void
WorkloadMixLoad(SchedCycle *cycle)
{
	SqlResult	rows;
	DecideWorkload *workloads;
	bool		isnull;
	int			n = 0;

	if (cycle->input.policy.packing != DECIDE_PACKING_FGD)
		return;
	rows = CycleRead(cycle, &workload_read,
					 VALUES(TextValue(cycle->pool), TimeValue(cycle->now)));
	workloads = palloc(sizeof(DecideWorkload) *
					   (rows.n + cycle->input.n_requests + 1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		DecideRequestClass class = workload_ask(cycle,
												(GpuReq *) PG_DETOAST_DATUM_COPY
												(SqlDatum(rows, i, 1, &isnull)));

		if (class.n_offers == 0)
			continue;
		class.cpu_milli = SqlInt8(rows, i, 2);
		class.memory_mib = SqlInt8(rows, i, 3);
		workloads[n].request = class;
		workloads[n++].jobs = SqlInt8(rows, i, 4);
	}
	SqlFree(&rows);
	cycle->input.workloads = workloads;
	cycle->input.n_workloads = add_waiting(cycle, workloads, n);
}

/*
 * Builds the request class of a request, with the accepted types of the pool.
 * The alternative "*" accepts all types that no other alternative names.
 */
static DecideRequestClass
workload_ask(const SchedCycle *cycle, const GpuReq *request)
{
	const NameTable *types = &cycle->set->types;
	DecideOffer *offers = palloc(sizeof(DecideOffer) * (types->n + 1));
	DecideRequestClass class = {.min_gpus = request->min_gpus,
		.max_gpus = request->max_gpus, .share = request->share_milli,
		.offers = offers, .wall_limit = DECIDE_NEVER};
	bool	   *taken = palloc0(sizeof(bool) * (types->n + 1));

	for (int a = 0; a < request->nalternatives; a++)
	{
		const GpuReqAlternative *alternative = &request->alternatives[a];
		bool		any = GpuReqAlternativeIsAny(alternative);
		int32		named = any ? -1 : NameFind(types, alternative->name);

		for (int t = any ? 0 : Max(named, 0);
			 t < (any ? types->n : named + 1); t++)
		{
			if (taken[t])
				continue;
			taken[t] = true;
			offers[class.n_offers++] = (DecideOffer)
			{
				t, alternative->min_memory, false, 0
			};
		}
	}
	return class;
}

/* Whether two requests are the same as far as fragmentation is concerned. */
static bool
same_kind(const DecideRequestClass *a, const DecideRequestClass *b)
{
	if (a->min_gpus != b->min_gpus || a->max_gpus != b->max_gpus ||
		a->share != b->share || a->cpu_milli != b->cpu_milli ||
		a->memory_mib != b->memory_mib || a->n_offers != b->n_offers)
		return false;
	for (int i = 0; i < a->n_offers; i++)
	{
		int			j = 0;

		while (j < b->n_offers && (a->offers[i].type != b->offers[j].type ||
								   a->offers[i].min_memory !=
								   b->offers[j].min_memory))
			j++;
		if (j == b->n_offers)
			return false;
	}
	return true;
}

/*
 * Adds the jobs that wait for their first start to the typical jobs. Returns
 * the new number of entries.
 */
static int
add_waiting(const SchedCycle *cycle, DecideWorkload *workloads, int n)
{
	int64	   *waiting = palloc0(sizeof(int64) * (cycle->input.n_requests +
												   1));

	for (int32 j = 0; j < cycle->input.n_jobs; j++)
		waiting[cycle->jobs[j].request] += cycle->queued[j].attempt == 0;
	for (int32 a = 0; a < cycle->input.n_requests; a++)
	{
		int			t = 0;

		CHECK_FOR_INTERRUPTS();
		if (waiting[a] == 0)
			continue;
		while (t < n && !same_kind(&workloads[t].request, &cycle->requests[a]))
			t++;
		if (t == n)
			workloads[n++] = (DecideWorkload)
		{
			cycle->requests[a], 0
		};
		workloads[t].jobs += waiting[a];
	}
	return n;
}

/* Counts the jobs that this cycle starts for the first time. */
void
WorkloadMixCount(const SchedCycle *cycle)
{
	int			most = cycle->result.n_starts;
	const char **requests = palloc(sizeof(char *) * (most + 1));
	int64	   *amounts = palloc(sizeof(int64) * 2 * (most + 1));
	Values	   *args;
	int			n = 0;

	for (int i = 0; i < most; i++)
	{
		int32		job = cycle->result.starts[i].job;
		const DecideRequestClass *class = &cycle->requests[cycle->jobs[job].request];

		if (cycle->queued[job].attempt > 0 || class->max_gpus == 0)
			continue;
		requests[n] = cycle->queued[job].asked->request;
		amounts[n] = class->cpu_milli;
		amounts[most + n++] = class->memory_mib;
	}
	if (n == 0)
		return;
	args = VALUES(TextValue(cycle->pool), TimeValue(cycle->now));
	(void) SqlRun(&workload_forget, args);
	ValuesAdd(args, TextArrayValue(requests, n), Int8ArrayValue(amounts, n),
			  Int8ArrayValue(amounts + most, n));
	(void) SqlRun(&workload_count, args);
}
