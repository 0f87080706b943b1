/*-------------------------------------------------------------------------
 *
 * load_told.c
 *		What the cycle before reserved, for this one to reserve again.
 *
 * It is a hint, and taken only where nothing is earlier: what is not there any
 * more (a job that started, a node that is gone) is left out.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/sql.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "sched/sched.h"
#include "utils/array.h"
#include "utils/builtins.h"

SQL_STATEMENT(told_read, SPI_OK_SELECT, "text",
			  "SELECT r.org, r.job, r.at, r.nodes, r.gpu_type, r.on_nodes,"
			  " r.gpus FROM gpucredit.reservation r WHERE r.pool = $1"
			  " ORDER BY r.job, r.org");

static bool add_parts(Cycle *cycle, SqlResult rows, uint64 i,
					  DecideTold *told, int *room);
static void find_jobs(Cycle *cycle, DecideTold *told);

/*
 * Load it, once nodes and queue are.
 */
void
ToldLoad(Cycle *cycle)
{
	SqlArgs		args = {0};
	SqlResult	rows;
	DecideTold *told;
	int			room = 0;

	SqlArgText(&args, cycle->pool);
	rows = CycleRead(cycle, &told_read, &args);
	if (rows.n == 0)
		return;
	cycle->told = palloc(sizeof(ToldRow) * rows.n);
	told = palloc0(sizeof(DecideTold) * rows.n);
	for (uint64 i = 0; i < rows.n; i++)
	{
		char	   *type = SqlText(rows, i, 5);

		CHECK_FOR_INTERRUPTS();
		cycle->told[i] = (ToldRow)
		{
			SqlText(rows, i, 1), SqlInt8(rows, i, 2), SqlTime(rows, i, 3),
				SqlText(rows, i, 4)
		};
		told[i].job = -1;
		told[i].type = type == NULL ? DECIDE_NO_TYPE :
			NameFind(&cycle->set->types, type);
		if (!add_parts(cycle, rows, i, &told[i], &room))
			told[i].n_parts = 0;
	}
	cycle->n_told = (int) rows.n;
	SqlFree(&rows);
	find_jobs(cycle, told);
	cycle->input.told = cycle->input_told = told;
	cycle->input.told_parts = cycle->told_parts;
}

/*
 * The devices of one.  False: a node is not there any more.
 */
static bool
add_parts(Cycle *cycle, SqlResult rows, uint64 i, DecideTold *told, int *room)
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
	if (cycle->input.n_told_parts + n > *room)
	{
		*room = (*room + n) * 2;
		cycle->told_parts = cycle->told_parts == NULL ?
			palloc(sizeof(DecidePart) * *room) :
			repalloc(cycle->told_parts, sizeof(DecidePart) * *room);
	}
	told->first_part = cycle->input.n_told_parts;
	told->n_parts = n;
	for (int p = 0; p < n; p++)
	{
		GpuSet		devices = DatumGetGpuSet(gpus[p]);
		DecidePart *part = &cycle->told_parts[cycle->input.n_told_parts++];

		*part = (DecidePart)
		{
			.node = NodeIndex(cycle->set, TextDatumGetCString(names[p])),
				.gpus = pg_popcount64(devices), .devices = devices
		};
		told->gpus += part->gpus;
		if (part->node < 0)
		{
			cycle->input.n_told_parts = told->first_part;
			return false;
		}
	}
	return true;
}

/*
 * Find their jobs in the queue, and leave out the others.
 */
static void
find_jobs(Cycle *cycle, DecideTold *told)
{
	for (int32 j = 0; j < cycle->input.n_jobs; j++)
	{
		const DecideJob *job = &cycle->jobs[j];
		int			low = 0;
		int			high = cycle->n_told;

		while (low < high)
		{
			int			middle = low + (high - low) / 2;

			if (cycle->told[middle].job < job->id ||
				(cycle->told[middle].job == job->id &&
				 strcmp(cycle->told[middle].org, job->org) < 0))
				low = middle + 1;
			else
				high = middle;
		}
		if (low < cycle->n_told && cycle->told[low].job == job->id &&
			strcmp(cycle->told[low].org, job->org) == 0)
			told[low].job = j;
	}
	for (int i = 0; i < cycle->n_told; i++)
	{
		if (told[i].job >= 0 && told[i].n_parts > 0)
			told[cycle->input.n_told++] = told[i];
	}
}
