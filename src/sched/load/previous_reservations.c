/*-------------------------------------------------------------------------
 *
 * previous_reservations.c
 *		Loads the reservations of the previous cycle, which this cycle
 *		makes again.
 *
 * Their devices are hints, used only if no other devices allow an earlier
 * start. The latest starts that they guarantee bind the cycle. Reservations of
 * jobs that have started are not loaded. If a node of a reservation is gone,
 * only the guarantee is loaded.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "port/pg_bitutils.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "util/sql.h"
#include "miscadmin.h"
#include "sched/sched.h"

SQL_STATEMENT(previous_read, SPI_OK_SELECT, "text",
			  "SELECT r.org, r.job, r.at, r.nodes, r.gpu_type, r.on_nodes,"
			  " r.gpus, r.limit_at, r.latest_at"
			  " FROM gpucredit.reservation r WHERE r.pool = $1"
			  " ORDER BY r.job, r.org");

static bool add_parts(SchedCycle *cycle, SqlResult rows, uint64 i,
					  DecidePreviousReservation *previous, int *room);
static int	find_row(const SchedCycle *cycle, const char *org, int64 job);
static void find_jobs(SchedCycle *cycle, DecidePreviousReservation *previous);

/* Loads the previous reservations. Nodes and queue must be loaded before. */
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
				SqlText(rows, i, 4), SqlTimeOr(rows, i, 8, DECIDE_NEVER),
				SqlTimeOr(rows, i, 9, 0), false
		};
		previous[i].job = -1;
		previous[i].type = type == NULL ? DECIDE_NO_TYPE :
			NameFind(&cycle->set->types, type);
		previous[i].limit_at = cycle->previous[i].limit_at;
		previous[i].latest = cycle->previous[i].latest;
		if (!add_parts(cycle, rows, i, &previous[i], &room))
			previous[i].n_parts = previous[i].gpus = 0;
	}
	cycle->n_previous = (int) rows.n;
	SqlFree(&rows);
	find_jobs(cycle, previous);
	cycle->input.previous = cycle->input_previous = previous;
	cycle->input.previous_parts = cycle->previous_parts;
}

/*
 * Reads the devices of a reservation. Returns false if one of its nodes is
 * gone.
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
 * Sets the queue index of each reservation's job. Drops the reservations whose
 * jobs are not in the queue.
 */
static void
find_jobs(SchedCycle *cycle, DecidePreviousReservation *previous)
{
	for (int32 j = 0; j < cycle->input.n_jobs; j++)
	{
		int			row = find_row(cycle, cycle->jobs[j].org,
								   cycle->jobs[j].id);

		if (row >= 0)
			previous[row].job = j;
	}
	for (int i = 0; i < cycle->n_previous; i++)
	{
		if (previous[i].job >= 0 &&
			(previous[i].n_parts > 0 || previous[i].latest > 0))
			previous[cycle->input.n_previous++] = previous[i];
	}
}

/* Returns the index of a job's reservation, or -1 if it has none. */
static int
find_row(const SchedCycle *cycle, const char *org, int64 job)
{
	int			low = 0;
	int			high = cycle->n_previous;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (cycle->previous[middle].job < job ||
			(cycle->previous[middle].job == job &&
			 strcmp(cycle->previous[middle].org, org) < 0))
			low = middle + 1;
		else
			high = middle;
	}
	return low < cycle->n_previous && cycle->previous[low].job == job &&
		strcmp(cycle->previous[low].org, org) == 0 ? low : -1;
}

/*
 * Marks the reservation of a queued job that is left out of this cycle, so
 * that the job keeps its guaranteed start.
 */
void
PreviousPutOff(SchedCycle *cycle, const DecideJob *job)
{
	int			row = find_row(cycle, job->org, job->id);

	if (row >= 0)
		cycle->previous[row].put_off = true;
}
