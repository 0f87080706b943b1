/*-------------------------------------------------------------------------
 *
 * reservation_report.c
 *		The last cycle's reservations, and audit rows of their changes.
 *
 * Every cycle makes its reservations again, from the present state.  The table
 * has those last audited.  So the audit log gets a row when a reservation is
 * made, gets other devices, or moves by more than MOVED.  The next cycle
 * reserves the same devices if they are as early as any.  A cycle that changes
 * nothing writes nothing.
 *
 * Locks: rows that only cycles of this pool touch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/sql.h"
#include "audit/audit.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "sched/sched.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/*
 * The previous reservations, which this cycle makes again.
 *
 * They are hints, used only if nothing is earlier.  Reservations of started
 * jobs or lost nodes are left out.
 */

SQL_STATEMENT(previous_read, SPI_OK_SELECT, "text",
			  "SELECT r.org, r.job, r.at, r.nodes, r.gpu_type, r.on_nodes,"
			  " r.gpus FROM gpucredit.reservation r WHERE r.pool = $1"
			  " ORDER BY r.job, r.org");

static bool add_parts(SchedCycle *cycle, SqlResult rows, uint64 i,
					  DecidePreviousReservation *previous, int *room);
static void find_jobs(SchedCycle *cycle, DecidePreviousReservation *previous);

/*
 * Load them, after nodes and queue.
 */
void
PreviousLoad(SchedCycle *cycle)
{
	SqlResult	rows;
	DecidePreviousReservation *previous;
	int			room = 0;

	rows = CycleRead(cycle, &previous_read, VALUES(TextValue(cycle->pool)));
	if (rows.n == 0)
		return;
	cycle->previous = palloc(sizeof(PreviousRow) * rows.n);
	previous = palloc0(sizeof(DecidePreviousReservation) * rows.n);
	for (uint64 i = 0; i < rows.n; i++)
	{
		char	   *type = SqlText(rows, i, 5);

		CHECK_FOR_INTERRUPTS();
		cycle->previous[i] = (PreviousRow)
		{
			SqlText(rows, i, 1), SqlInt8(rows, i, 2), SqlTime(rows, i, 3),
				SqlText(rows, i, 4)
		};
		previous[i].job = -1;
		previous[i].type = type == NULL ? DECIDE_NO_TYPE :
			NameFind(&cycle->set->types, type);
		if (!add_parts(cycle, rows, i, &previous[i], &room))
			previous[i].n_parts = 0;
	}
	cycle->n_previous = (int) rows.n;
	SqlFree(&rows);
	find_jobs(cycle, previous);
	cycle->input.previous = cycle->input_previous = previous;
	cycle->input.previous_parts = cycle->previous_parts;
}

/*
 * Read the devices of a reservation.  False: a node is gone.
 */
static bool
add_parts(SchedCycle *cycle, SqlResult rows, uint64 i,
		  DecidePreviousReservation *previous, int *room)
{
	bool		isnull;
	ArrayType  *nodes = DatumGetArrayTypeP(SqlDatum(rows, i, 6, &isnull));
	ArrayType  *sets = DatumGetArrayTypeP(SqlDatum(rows, i, 7, &isnull));
	Datum	   *names;
	Datum	   *gpus;
	int			n;
	int			n_sets;

	deconstruct_array(nodes, TEXTOID, -1, false, TYPALIGN_INT, &names, NULL,
					  &n);
	deconstruct_array(sets, ARR_ELEMTYPE(sets), 8, true, TYPALIGN_DOUBLE,
					  &gpus, NULL, &n_sets);
	if (n == 0 || n != n_sets)
		return false;
	if (cycle->input.n_previous_parts + n > *room)
	{
		*room = (*room + n) * 2;
		cycle->previous_parts = cycle->previous_parts == NULL ?
			palloc(sizeof(DecidePart) * *room) :
			repalloc(cycle->previous_parts, sizeof(DecidePart) * *room);
	}
	previous->first_part = cycle->input.n_previous_parts;
	previous->n_parts = n;
	for (int p = 0; p < n; p++)
	{
		GpuSet		devices = DatumGetGpuSet(gpus[p]);
		DecidePart *part = &cycle->previous_parts[cycle->input.n_previous_parts++];

		*part = (DecidePart)
		{
			.node = NodeIndex(cycle->set, TextDatumGetCString(names[p])),
				.gpus = pg_popcount64(devices), .devices = devices
		};
		previous->gpus += part->gpus;
		if (part->node < 0)
		{
			cycle->input.n_previous_parts = previous->first_part;
			return false;
		}
	}
	return true;
}

/*
 * Find their jobs in the queue, and leave out the others.
 */
static void
find_jobs(SchedCycle *cycle, DecidePreviousReservation *previous)
{
	for (int32 j = 0; j < cycle->input.n_jobs; j++)
	{
		const DecideJob *job = &cycle->jobs[j];
		int			low = 0;
		int			high = cycle->n_previous;

		while (low < high)
		{
			int			middle = low + (high - low) / 2;

			if (cycle->previous[middle].job < job->id ||
				(cycle->previous[middle].job == job->id &&
				 strcmp(cycle->previous[middle].org, job->org) < 0))
				low = middle + 1;
			else
				high = middle;
		}
		if (low < cycle->n_previous && cycle->previous[low].job == job->id &&
			strcmp(cycle->previous[low].org, job->org) == 0)
			previous[low].job = j;
	}
	for (int i = 0; i < cycle->n_previous; i++)
	{
		if (previous[i].job >= 0 && previous[i].n_parts > 0)
			previous[cycle->input.n_previous++] = previous[i];
	}
}

#define MOVED	(60 * USECS_PER_SEC)

SQL_STATEMENT(previous_delete, SPI_OK_DELETE, "text, text[], bigint[]",
			  "DELETE FROM gpucredit.reservation r"
			  " USING ROWS FROM (pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3)) AS u (org, job)"
			  " WHERE r.org = u.org AND r.job = u.job AND r.pool = $1");
SQL_STATEMENT(previous_insert, SPI_OK_INSERT,
			  "text, text[], bigint[], timestamptz[], text[], timestamptz,"
			  " text[], int[], text[], gpucredit.gpuset[]",
			  "INSERT INTO gpucredit.reservation (org, job, pool, at, nodes,"
			  " told_at, gpu_type, on_nodes, gpus)"
			  " SELECT u.org, u.job, $1, u.at, u.nodes, $6, u.gpu_type,"
			  " p.nodes, p.gpus"
			  " FROM ROWS FROM (pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3), pg_catalog.unnest($4),"
			  "  pg_catalog.unnest($5), pg_catalog.unnest($7))"
			  "  WITH ORDINALITY AS u (org, job, at, nodes, gpu_type, n)"
			  " JOIN (SELECT g.n, pg_catalog.array_agg(g.node ORDER BY g.i)"
			  "  AS nodes, pg_catalog.array_agg(g.gpus ORDER BY g.i) AS gpus"
			  "  FROM ROWS FROM (pg_catalog.unnest($8),"
			  "   pg_catalog.unnest($9), pg_catalog.unnest($10))"
			  "   WITH ORDINALITY AS g (n, node, gpus, i) GROUP BY g.n) p"
			  "  ON p.n = u.n");

static int64 expected_at(const SchedCycle *cycle,
						 const DecideReservation *reservation);
static const DecideReservation *find_reservation(const SchedCycle *cycle,
												 const char *org, int64 job);
static void forget(const SchedCycle *cycle, const PreviousRow **old, int n);
static bool write_reservations(const SchedCycle *cycle, const bool *known);
static void arg_parts(const SchedCycle *cycle, const bool *known,
					  Values *args);

/*
 * Audit reservations that changed since the last audit row.  True: some did.
 */
bool
ReservationsReport(const SchedCycle *cycle)
{
	const DecideResult *result = &cycle->result;
	bool	   *known = palloc0(sizeof(bool) * (result->n_reservations + 1));
	const PreviousRow **old = palloc(sizeof(PreviousRow *) * (cycle->n_previous + 1));
	int			n = 0;

	for (int i = 0; i < cycle->n_previous; i++)
	{
		const PreviousRow *previous = &cycle->previous[i];
		const DecideReservation *r = find_reservation(cycle, previous->org,
													  previous->job);

		CHECK_FOR_INTERRUPTS();
		if (r != NULL && expected_at(cycle, r) <= previous->at + MOVED &&
			expected_at(cycle, r) >= previous->at - MOVED &&
			strcmp(previous->nodes,
				   CycleNodes(cycle, &result->reserved_parts[r->first_part],
							  r->n_parts)) == 0)
			known[r - result->reservations] = true;
		else
			old[n++] = previous;
	}
	if (n > 0)
		forget(cycle, old, n);
	return write_reservations(cycle, known) || n > 0;
}

/*
 * When a reservation is expected to begin.
 */
static int64
expected_at(const SchedCycle *cycle, const DecideReservation *reservation)
{
	return cycle->expected_at[reservation - cycle->result.reservations];
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

/*
 * Delete reservations that no longer exist.
 */
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
 * Insert an audit row for each new or changed reservation.  True: there are
 * some.
 */
static bool
write_reservations(const SchedCycle *cycle, const bool *known)
{
	const DecideResult *result = &cycle->result;
	int			room = result->n_reservations;
	const char **texts = palloc(sizeof(char *) * 3 * (room + 1));
	int64	   *jobs = palloc(sizeof(int64) * (room + 1));
	TimestampTz *times = palloc(sizeof(TimestampTz) * (room + 1));
	AuditRow   *rows = palloc0(sizeof(AuditRow) * (room + 1));
	Values	   *args;
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
		texts[2 * room + n] = r->type == DECIDE_NO_TYPE ? NULL :
			cycle->set->types.names[r->type];
		jobs[n] = job->id;
		times[n] = expected_at(cycle, r);
		row->org = job->org;
		row->account = cycle->queued[r->job].account;
		row->operation = "place";
		row->decision = "reserve";
		row->reason = DecideReasonName(result->waits[job->request].reason);
		row->hold = cycle->queued[r->job].hold;
		row->job = job->id;
		row->at = cycle->now;
		AuditText(row, "nodes", texts[room + n]);
		AuditText(row, "gpu_type", texts[2 * room + n]);
		AuditInt8(row, "gpus", r->gpus);
		AuditTime(row, "expected_start", times[n]);
		if (r->limit_at != DECIDE_NEVER)
			AuditTime(row, "start_by_limit", r->limit_at);
		AuditInt8(row, "turn", i + 1);
		n++;
	}
	if (n == 0)
		return false;
	args = VALUES(TextValue(cycle->pool), TextArrayValue(texts, n),
				  Int8ArrayValue(jobs, n), TimeArrayValue(times, n),
				  TextArrayValue(texts + room, n), TimeValue(cycle->now),
				  TextArrayValue(texts + 2 * room, n));
	arg_parts(cycle, known, args);
	(void) SqlRun(&previous_insert, args);
	JobTraces(rows, n);
	AuditWriteMany(rows, n);
	return true;
}

/*
 * The parts of all new or changed reservations: job, node, devices.
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
