/*-------------------------------------------------------------------------
 *
 * load_elastic.c
 *		Loads the requests of running jobs that may move or grow, and the
 *		devices that were idle long enough to grow into.
 *
 * Both are read only if some job could use them: jobs with a range of devices
 * and, if the pool consolidates, all jobs that may be preempted for capacity.
 * A device is idle since its last attempt was gone and its node was
 * registered. After a fence it is idle since the fence ended. If a fence has
 * run out but is still stored, its device is idle since now.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/sql.h"
#include "miscadmin.h"
#include "sched/sched.h"

SQL_STATEMENT(elastic_read, SPI_OK_SELECT, "text[], bigint[]",
			  "SELECT u.n, j.priority, j.submitted_at, NULL, NULL, NULL,"
			  " NULL, NULL, NULL," REQUEST_COLUMNS
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  " pg_catalog.unnest($2)) WITH ORDINALITY AS u (org, job, n)"
			  " JOIN gpucredit.job j ON j.org = u.org AND j.job = u.job");
SQL_STATEMENT(freed_read, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT g.node, g.gpus FROM gpucredit.attempt_gpu g"
			  " WHERE g.pool = $1 AND g.free"
			  " AND GREATEST(g.ended_at, g.seen_at) > $2"
			  " UNION ALL"
			  " SELECT g.node, g.gpus FROM gpucredit.attempt_gpu g"
			  " WHERE g.pool = $1 AND NOT g.free AND g.ended_at IS NOT NULL");
SQL_STATEMENT(new_nodes, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT n.node FROM gpucredit.node n"
			  " WHERE n.pool = $1 AND n.registered_at > $2");

static void load_elastic(SchedCycle *cycle, const int32 *which, int n);
static void load_idle(SchedCycle *cycle);

/*
 * Loads requests and idle devices, if some running job could use them. The
 * running jobs must be loaded before.
 */
void
ElasticLoad(SchedCycle *cycle)
{
	int32	   *which = palloc(sizeof(int32) * (cycle->input.n_running + 1));
	bool		growing = false;
	int			n = 0;

	for (int32 r = 0; r < cycle->input.n_running; r++)
	{
		const DecideRunning *running = &cycle->running[r];
		bool		elastic = running->min_gpus < running->max_gpus;

		if (running->over || running->leaving)
			continue;
		if (elastic || (cycle->input.policy.consolidate &&
						running->preemptible == DECIDE_PREEMPT_CAPACITY))
			which[n++] = r;
		growing |= elastic && running->gpus < running->max_gpus &&
			cycle->input.policy.elastic_idle_delay != DECIDE_NEVER;
	}
	if (n > 0)
		load_elastic(cycle, which, n);
	if (growing)
		load_idle(cycle);
	pfree(which);
}

/* Loads the requests of the running jobs whose indexes are in which. */
static void
load_elastic(SchedCycle *cycle, const int32 *which, int n)
{
	const char **orgs = palloc(sizeof(char *) * n);
	int64	   *jobs = palloc(sizeof(int64) * n);
	SqlResult	rows;

	for (int i = 0; i < n; i++)
	{
		orgs[i] = cycle->running[which[i]].org;
		jobs[i] = cycle->running[which[i]].id;
	}
	rows = CycleRead(cycle, &elastic_read,
					 VALUES(TextArrayValue(orgs, n), Int8ArrayValue(jobs, n)));
	for (uint64 i = 0; i < rows.n; i++)
	{
		DecideRunning *running =
		&cycle->running[which[SqlInt8(rows, i, 1) - 1]];
		DecideRequestClass request;
		Job			job;

		CHECK_FOR_INTERRUPTS();
		RequestRead(rows, i, &job);
		request = OffersRequest(&job, cycle->set);
		running->priority = SqlInt4(rows, i, 2);
		running->submitted = SqlTime(rows, i, 3);
		running->request = CycleAddRequest(cycle, &request);
	}
	SqlFree(&rows);
}

/* Loads which devices have been idle for elastic_idle_delay. */
static void
load_idle(SchedCycle *cycle)
{
	Values	   *args;
	SqlResult	rows;

	for (int32 i = 0; i < cycle->set->n; i++)
		cycle->set->nodes[i].idle = cycle->set->nodes[i].usable;
	args = VALUES(TextValue(cycle->pool),
				  TimeValue(ClockAdd(cycle->now,
									 -cycle->input.policy.elastic_idle_delay)));
	rows = CycleRead(cycle, &freed_read, args);
	for (uint64 i = 0; i < rows.n; i++)
	{
		char	   *name = SqlText(rows, i, 1);
		int32		node = NodeIndex(cycle->set, name);
		bool		isnull;

		CHECK_FOR_INTERRUPTS();
		pfree(name);
		if (node >= 0)
			cycle->set->nodes[node].idle &=
				~DatumGetGpuSet(SqlDatum(rows, i, 2, &isnull));
	}
	SqlFree(&rows);
	rows = CycleRead(cycle, &new_nodes, args);
	for (uint64 i = 0; i < rows.n; i++)
	{
		int32		node = NodeIndex(cycle->set, SqlText(rows, i, 1));

		if (node >= 0)
			cycle->set->nodes[node].idle = 0;
	}
	SqlFree(&rows);
	HypotheticalAreNew(cycle);
}
