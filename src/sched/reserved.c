/*-------------------------------------------------------------------------
 *
 * reserved.c
 *		What the last cycle reserved, and telling the trail what changed.
 *
 * Reservations are made anew in every cycle, from what there is.  The table
 * only remembers what was told last, so that the trail hears of a reservation
 * when it is made, gets other devices, or moves by more than MOVED; a cycle
 * that changes nothing writes nothing.
 *
 * Locks: rows that only cycles of this pool touch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "common/args.h"
#include "common/sql.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "utils/timestamp.h"

#define MOVED	(60 * USECS_PER_SEC)

SQL_STATEMENT(told_read, SPI_OK_SELECT, "text",
			  "SELECT r.org, r.job, r.at, r.nodes"
			  " FROM gpucredit.reservation r WHERE r.pool = $1");
SQL_STATEMENT(told_delete, SPI_OK_DELETE, "text, text[], bigint[]",
			  "DELETE FROM gpucredit.reservation r"
			  " USING ROWS FROM (pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3)) AS u (org, job)"
			  " WHERE r.org = u.org AND r.job = u.job AND r.pool = $1");
SQL_STATEMENT(told_insert, SPI_OK_INSERT,
			  "text, text[], bigint[], timestamptz[], text[], timestamptz",
			  "INSERT INTO gpucredit.reservation (org, job, pool, at, nodes,"
			  " told_at)"
			  " SELECT u.org, u.job, $1, u.at, u.nodes, $6"
			  " FROM ROWS FROM (pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3), pg_catalog.unnest($4),"
			  "  pg_catalog.unnest($5)) AS u (org, job, at, nodes)");

static const DecideReservation *find_reservation(const Cycle *cycle,
												 const char *org, int64 job);
static void forget(const Cycle *cycle, SqlResult rows, const uint64 *old,
				   int n);
static void tell(const Cycle *cycle, const bool *known);

/*
 * Tell the trail of reservations that are not what it was told last.
 */
void
ReservedTell(const Cycle *cycle)
{
	const DecideResult *result = &cycle->result;
	SqlArgs		args = {0};
	SqlResult	rows;
	bool	   *known = palloc0(sizeof(bool) * (result->n_reservations + 1));
	uint64	   *old;
	int			n = 0;

	SqlArgText(&args, cycle->pool);
	rows = SqlRun(&told_read, &args);
	old = palloc(sizeof(uint64) * (rows.n + 1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		const DecideReservation *r =
		find_reservation(cycle, SqlText(rows, i, 1), SqlInt8(rows, i, 2));
		TimestampTz at = SqlTime(rows, i, 3);

		CHECK_FOR_INTERRUPTS();
		if (r != NULL && r->at <= at + MOVED && r->at >= at - MOVED &&
			strcmp(SqlText(rows, i, 4),
				   CycleNodes(cycle, &result->reserved_parts[r->first_part],
							  r->n_parts)) == 0)
			known[r - result->reservations] = true;
		else
			old[n++] = i;
	}
	if (n > 0)
		forget(cycle, rows, old, n);
	tell(cycle, known);
	SqlFree(&rows);
}

static const DecideReservation *
find_reservation(const Cycle *cycle, const char *org, int64 job)
{
	for (int i = 0; i < cycle->result.n_reservations; i++)
	{
		const DecideReservation *r = &cycle->result.reservations[i];

		if (cycle->jobs[r->job].id == job &&
			strcmp(cycle->jobs[r->job].org, org) == 0)
			return r;
	}
	return NULL;
}

/*
 * Forget what was told before and is not so now.
 */
static void
forget(const Cycle *cycle, SqlResult rows, const uint64 *old, int n)
{
	const char **orgs = palloc(sizeof(char *) * n);
	int64	   *jobs = palloc(sizeof(int64) * n);
	SqlArgs		args = {0};

	for (int i = 0; i < n; i++)
	{
		orgs[i] = SqlText(rows, old[i], 1);
		jobs[i] = SqlInt8(rows, old[i], 2);
	}
	SqlArgText(&args, cycle->pool);
	SqlArgTextArray(&args, orgs, n);
	SqlArgInt8Array(&args, jobs, n);
	(void) SqlRun(&told_delete, &args);
}

/*
 * A row of the trail for each reservation that it does not know.
 */
static void
tell(const Cycle *cycle, const bool *known)
{
	const DecideResult *result = &cycle->result;
	int			room = result->n_reservations;
	const char **texts = palloc(sizeof(char *) * 2 * (room + 1));
	int64	   *jobs = palloc(sizeof(int64) * (room + 1));
	TimestampTz *times = palloc(sizeof(TimestampTz) * (room + 1));
	AuditRow   *rows = palloc0(sizeof(AuditRow) * (room + 1));
	SqlArgs		args = {0};
	int			n = 0;

	for (int i = 0; i < room; i++)
	{
		const DecideReservation *r = &result->reservations[i];
		const DecideJob *job = &cycle->jobs[r->job];
		AuditRow   *row = &rows[n];

		if (known[i])
			continue;
		texts[n] = job->org;
		texts[room + n] = CycleNodes(cycle,
									 &result->reserved_parts[r->first_part],
									 r->n_parts);
		jobs[n] = job->id;
		times[n] = r->at;
		row->org = job->org;
		row->account = cycle->queued[r->job].account;
		row->operation = "place";
		row->decision = "reserve";
		row->reason = DecideReasonName(result->waits[job->ask].reason);
		row->hold = cycle->queued[r->job].hold;
		row->job = job->id;
		row->at = cycle->now;
		AuditText(row, "nodes", texts[room + n]);
		AuditText(row, "gpu_type", r->type == DECIDE_NO_TYPE ? NULL :
				  cycle->set->types.names[r->type]);
		AuditInt8(row, "gpus", r->gpus);
		AuditText(row, "expected_start", timestamptz_to_str(r->at));
		AuditText(row, "start_by_limit", r->limit_at == DECIDE_NEVER ? NULL :
				  timestamptz_to_str(r->limit_at));
		AuditInt8(row, "turn", i + 1);
		n++;
	}
	if (n == 0)
		return;
	SqlArgText(&args, cycle->pool);
	SqlArgTextArray(&args, texts, n);
	SqlArgInt8Array(&args, jobs, n);
	SqlArgTimeArray(&args, times, n);
	SqlArgTextArray(&args, texts + room, n);
	SqlArgTime(&args, cycle->now);
	(void) SqlRun(&told_insert, &args);
	AuditWriteMany(rows, n);
}
