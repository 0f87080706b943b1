/*-------------------------------------------------------------------------
 *
 * reservation_report.c
 *		Stores the last cycle's reservations, and writes audit rows when
 *		they change.
 *
 * Every cycle makes its reservations anew, from the present state. The table
 * holds each reservation as it was last audited. So the audit log gets a row
 * when a reservation is made, gets other devices or another guaranteed start,
 * or moves by more than MOVED. The next cycle reserves the same devices if no
 * other devices allow an earlier start. A cycle that changes nothing writes
 * nothing.
 *
 * A job keeps its row, and so the guarantee in it, while it has a claim, is
 * left out of a cycle because another transaction has locked it, or has no
 * turn because max_starts is reached. So neither such a lock nor a claim that
 * times out ends a guarantee.
 *
 * Locks: rows that only cycles of this pool change.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "util/sql.h"
#include "audit/audit.h"
#include "miscadmin.h"
#include "sched/sched.h"

#define MOVED	(60 * USECS_PER_SEC)

SQL_STATEMENT(previous_delete, SPI_OK_DELETE, "text, text[], bigint[]",
			  "DELETE FROM gpucredit.reservation r"
			  " USING ROWS FROM (pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3)) AS u (org, job)"
			  " WHERE r.org = u.org AND r.job = u.job AND r.pool = $1");
SQL_STATEMENT(previous_insert, SPI_OK_INSERT,
			  "text, text[], bigint[], timestamptz[], text[], timestamptz,"
			  " text[], timestamptz[], timestamptz[],"
			  " int[], text[], gpucredit.gpuset[]",
			  "INSERT INTO gpucredit.reservation (org, job, pool, at, nodes,"
			  " told_at, gpu_type, limit_at, latest_at, on_nodes, gpus)"
			  " SELECT u.org, u.job, $1, u.at, u.nodes, $6, u.gpu_type,"
			  " NULLIF(u.limit_at, 'infinity'),"
			  " NULLIF(u.latest_at, 'infinity'), p.nodes, p.gpus"
			  " FROM ROWS FROM (pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3), pg_catalog.unnest($4),"
			  "  pg_catalog.unnest($5), pg_catalog.unnest($7),"
			  "  pg_catalog.unnest($8), pg_catalog.unnest($9))"
			  "  WITH ORDINALITY AS u (org, job, at, nodes, gpu_type, limit_at,"
			  "   latest_at, n)"
			  " JOIN (SELECT g.n, pg_catalog.array_agg(g.node ORDER BY g.i)"
			  "  AS nodes, pg_catalog.array_agg(g.gpus ORDER BY g.i) AS gpus"
			  "  FROM ROWS FROM (pg_catalog.unnest($10),"
			  "   pg_catalog.unnest($11), pg_catalog.unnest($12))"
			  "   WITH ORDINALITY AS g (n, node, gpus, i) GROUP BY g.n) p"
			  "  ON p.n = u.n");

static int64 expected_at(const SchedCycle *cycle,
						 const DecideReservation *reservation);
static const DecideReservation *find_reservation(const SchedCycle *cycle,
												 const char *org, int64 job);
static bool is_as_before(const SchedCycle *cycle, const PreviousRow *previous,
						 const DecideReservation *r);
static bool keeps_row(const SchedCycle *cycle, const PreviousRow *previous);
static void forget(const SchedCycle *cycle, const PreviousRow **old, int n);
static bool write_reservations(const SchedCycle *cycle, const bool *known);
static void audit_reservation(AuditRow *row, const SchedCycle *cycle, int i,
							  const char *nodes);
static void arg_parts(const SchedCycle *cycle, const bool *known,
					  Values *args);

/*
 * Audits the reservations that changed since their last audit row. Returns
 * true if some did.
 */
bool
ReservationsReport(const SchedCycle *cycle)
{
	const DecideReservation *made = cycle->result.reservations;
	bool	   *known = palloc0(sizeof(bool) *
								(cycle->result.n_reservations + 1));
	const PreviousRow **old = palloc(sizeof(PreviousRow *) * (cycle->n_previous + 1));
	int			n = 0;

	for (int i = 0; i < cycle->n_previous; i++)
	{
		const PreviousRow *previous = &cycle->previous[i];
		const DecideReservation *r = find_reservation(cycle, previous->org,
													  previous->job);

		CHECK_FOR_INTERRUPTS();
		if (r != NULL && is_as_before(cycle, previous, r))
			known[r - made] = true;
		else if (r != NULL || !keeps_row(cycle, previous))
			old[n++] = previous;
	}
	if (n > 0)
		forget(cycle, old, n);
	return write_reservations(cycle, known) || n > 0;
}

/* Returns when a reservation is expected to begin. */
static int64
expected_at(const SchedCycle *cycle, const DecideReservation *reservation)
{
	return cycle->expected_at[reservation - cycle->result.reservations];
}

/*
 * Whether two instants are at most MOVED apart, or both DECIDE_NEVER.
 */
static bool
is_near(int64 a, int64 b)
{
	if (a == DECIDE_NEVER || b == DECIDE_NEVER)
		return a == b;
	return a <= b + MOVED && a >= b - MOVED;
}

/* Whether the last audit row of a job still describes its reservation. */
static bool
is_as_before(const SchedCycle *cycle, const PreviousRow *previous,
			 const DecideReservation *r)
{
	return is_near(expected_at(cycle, r), previous->at) &&
		is_near(r->limit_at, previous->limit_at) &&
		r->latest == previous->latest &&
		strcmp(previous->nodes,
			   CycleNodes(cycle, &cycle->result.reserved_parts[r->first_part],
						  r->n_parts)) == 0;
}

/*
 * Whether a job without a reservation keeps its row: it still waits, and the
 * cycle has not broken its guarantee.
 */
static bool
keeps_row(const SchedCycle *cycle, const PreviousRow *previous)
{
	const DecideInput *input = &cycle->input;
	const DecideResult *result = &cycle->result;
	int32		job = -1;

	if (previous->latest == 0 || previous->put_off)
		return previous->latest > 0;
	for (int i = 0; i < input->n_previous && job < 0; i++)
	{
		const DecideJob *other = &cycle->jobs[input->previous[i].job];

		if (other->id == previous->job &&
			strcmp(other->org, previous->org) == 0)
			job = input->previous[i].job;
	}
	for (int i = 0; i < result->n_starts && job >= 0; i++)
	{
		if (result->starts[i].job == job)
			return false;
	}
	for (int i = 0; i < result->n_broken && job >= 0; i++)
	{
		if (result->broken[i].job == job)
			return false;
	}
	return job >= 0;
}

static const DecideReservation *
find_reservation(const SchedCycle *cycle, const char *org, int64 job)
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

/* Deletes the rows of reservations that no longer exist. */
static void
forget(const SchedCycle *cycle, const PreviousRow **old, int n)
{
	const char **orgs = palloc(sizeof(char *) * n);
	int64	   *jobs = palloc(sizeof(int64) * n);

	for (int i = 0; i < n; i++)
	{
		orgs[i] = old[i]->org;
		jobs[i] = old[i]->job;
	}
	(void) SqlRun(&previous_delete,
				  VALUES(TextValue(cycle->pool), TextArrayValue(orgs, n),
						 Int8ArrayValue(jobs, n)));
}

/*
 * Inserts a row and an audit row for each new or changed reservation. Returns
 * true if there are some.
 */
static bool
write_reservations(const SchedCycle *cycle, const bool *known)
{
	const DecideResult *result = &cycle->result;
	int			room = result->n_reservations;
	const char **texts = palloc(sizeof(char *) * 3 * (room + 1));
	int64	   *jobs = palloc(sizeof(int64) * (room + 1));
	TimestampTz *times = palloc(sizeof(TimestampTz) * 3 * (room + 1));
	AuditRow   *rows = palloc0(sizeof(AuditRow) * (room + 1));
	Values	   *args;
	int			n = 0;

	for (int i = 0; i < room; i++)
	{
		const DecideReservation *r = &result->reservations[i];
		const DecideJob *job = &cycle->jobs[r->job];

		if (known[i])
			continue;
		texts[n] = job->org;
		texts[room + n] = CycleNodes(cycle,
									 &result->reserved_parts[r->first_part],
									 r->n_parts);
		texts[2 * room + n] = r->type == DECIDE_NO_TYPE ? NULL :
			cycle->set->types.names[r->type];
		jobs[n] = job->id;
		times[n] = expected_at(cycle, r);
		times[room + n] = r->limit_at;
		times[2 * room + n] = r->latest == 0 ? DT_NOEND : r->latest;
		audit_reservation(&rows[n], cycle, i, texts[room + n]);
		n++;
	}
	if (n == 0)
		return false;
	args = VALUES(TextValue(cycle->pool), TextArrayValue(texts, n),
				  Int8ArrayValue(jobs, n), TimeArrayValue(times, n),
				  TextArrayValue(texts + room, n), TimeValue(cycle->now),
				  TextArrayValue(texts + 2 * room, n),
				  TimeArrayValue(times + room, n),
				  TimeArrayValue(times + 2 * room, n));
	arg_parts(cycle, known, args);
	(void) SqlRun(&previous_insert, args);
	JobTraces(rows, n);
	AuditWriteMany(rows, n);
	return true;
}

/* Fills in the audit row of the i-th reservation. */
static void
audit_reservation(AuditRow *row, const SchedCycle *cycle, int i,
				  const char *nodes)
{
	const DecideReservation *r = &cycle->result.reservations[i];
	const DecideJob *job = &cycle->jobs[r->job];

	row->org = job->org;
	row->account = cycle->queued[r->job].account;
	row->operation = "place";
	row->decision = "reserve";
	row->reason = DecideReasonName(cycle->result.waits[job->request].reason);
	row->hold = cycle->queued[r->job].hold;
	row->job = job->id;
	row->at = cycle->now;
	AuditText(row, "nodes", nodes);
	AuditText(row, "gpu_type", r->type == DECIDE_NO_TYPE ? NULL :
			  cycle->set->types.names[r->type]);
	AuditInt8(row, "gpus", r->gpus);
	AuditTime(row, "expected_start", expected_at(cycle, r));
	if (r->limit_at != DECIDE_NEVER)
		AuditTime(row, "start_by_limit", r->limit_at);
	if (r->latest > 0)
		AuditTime(row, "latest_start", r->latest);
	AuditInt8(row, "turn", i + 1);
}

/*
 * Adds the parts of all new or changed reservations to the arguments of a
 * statement: number of the reservation, node, devices.
 */
static void
arg_parts(const SchedCycle *cycle, const bool *known, Values *args)
{
	const DecideResult *result = &cycle->result;
	int			room = result->n_reserved_parts;
	int32	   *numbers = palloc(sizeof(int32) * room);
	const char **nodes = palloc(sizeof(char *) * room);
	Datum	   *sets = palloc(sizeof(Datum) * room);
	int			n = 0;
	int			number = 0;

	for (int i = 0; i < result->n_reservations; i++)
	{
		const DecideReservation *r = &result->reservations[i];

		if (known[i])
			continue;
		number++;
		for (int p = r->first_part; p < r->first_part + r->n_parts; p++)
		{
			const DecidePart *part = &result->reserved_parts[p];

			numbers[n] = number;
			nodes[n] = cycle->set->nodes[part->node].name;
			sets[n++] = GpuSetGetDatum(part->devices);
		}
	}
	ValuesAdd(args, Int4ArrayValue(numbers, n), TextArrayValue(nodes, n),
			  ArrayValue(sets, NULL, n, SqlTypeOid("gpucredit.gpuset")));
}
