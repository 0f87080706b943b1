/*-------------------------------------------------------------------------
 *
 * capacity_needed.c
 *		capacity_needed(): how many devices of a type a pool needs.
 *
 * sql/gpucredit/87_capacity.sql collects the work that was submitted to the
 * pool, and src/decide/capacity computes the result.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "decide/capacity/capacity.h"
#include "miscadmin.h"
#include "types/entry.h"
#include "util/args.h"
#include "utils/array.h"
#include "utils/memutils.h"

#define WORK_COLUMNS	6		/* number of columns of a CapacityWork */

PG_FUNCTION_INFO_V1(gpucredit_capacity_needed);

static void *arena_alloc(void *context, size_t size);
static void arena_poll(void *context);
static CapacityWork *works_read(ArrayType *array, CapacityQuestion *question);

/*
 * The array of works has rows of six numbers: account, thousandths of a
 * device, and the instants of arrival, start and end and the wall limit.
 * Instants are in microseconds since the period began, the wall limit in
 * microseconds.  A work that has not started or ended has NULL there.
 */
Datum
gpucredit_capacity_needed(PG_FUNCTION_ARGS)
{
	DecideArena arena = {arena_alloc, arena_poll, CurrentMemoryContext};
	CapacityQuestion question = {
		.until = ArgInt8(fcinfo, 1, "period", 0, PG_INT64_MAX),
		.utilisation = ArgInt4(fcinfo, 2, "utilisation", 1, 1000000),
		.wait = PG_GETARG_INT64(3) < 0 ? DECIDE_NEVER : PG_GETARG_INT64(3)
	};
	CapacityAnswer answer;
	const char *error;
	Values		row = {0};

	question.works = works_read(PG_GETARG_ARRAYTYPE_P(0), &question);
	error = DecideCapacity(&question, &arena, &answer);
	if (error != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("could not compute how many devices are needed"),
				 errdetail("The reason is: %s.", error),
				 errhint("Call capacity_advice() with a period of a second or more and a utilisation above 0.")));
	ValuesAdd(&row, Int8Value(answer.load));
	ValuesAdd(&row, Int8Value(answer.load_high));
	ValuesAdd(&row, Int8Value(answer.unproven));
	ValuesAdd(&row, Int8Value(answer.needed));
	ValuesAdd(&row, Int8Value(answer.needed_low));
	ValuesAdd(&row, Int8Value(answer.needed_high));
	ValuesAdd(&row, Int8Value(answer.wait_p95));
	ValuesAdd(&row, Int4Value(answer.runs));
	ValuesAdd(&row, BoolValue(answer.enough));
	return RowReturnRecord(fcinfo, &row);
}

/* Reads the works from the array, and stores their number in the question. */
static CapacityWork *
works_read(ArrayType *array, CapacityQuestion *question)
{
	CapacityWork *works;
	Datum	   *items;
	bool	   *nulls;
	int			n;

	deconstruct_array(array, INT8OID, 8, FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
					  &items, &nulls, &n);
	if (n % WORK_COLUMNS != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"works\" is not a list of whole rows"),
				 errdetail("It has %d numbers, and a row has %d.", n,
						   WORK_COLUMNS),
				 errhint("Call capacity_advice(), which passes whole rows.")));
	question->n_works = n / WORK_COLUMNS;
	works = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(CapacityWork) *
								   Max(question->n_works, 1));
	for (int i = 0; i < question->n_works; i++)
	{
		const Datum *item = &items[i * WORK_COLUMNS];
		const bool *null = &nulls[i * WORK_COLUMNS];
		int64		account = DatumGetInt64(item[0]);

		CHECK_FOR_INTERRUPTS();
		if (null[0] || null[1] || null[2] || account < 0 ||
			account >= question->n_works)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("row %d of \"works\" lacks its account, devices or arrival",
							i + 1),
					 errdetail("Accounts are numbered from 0, and there are no more of them than rows."),
					 errhint("Call capacity_advice(), which passes whole rows.")));
		question->n_accounts = Max(question->n_accounts, (int32) account + 1);
		works[i] = (CapacityWork){
									.account = (int32) account,
									.devices = DatumGetInt64(item[1]),
									.arrived = DatumGetInt64(item[2]),
									.started = null[3] ? DECIDE_NEVER : DatumGetInt64(item[3]),
									.ended = null[4] ? DECIDE_NEVER : DatumGetInt64(item[4]),
									.limit = null[5] ? DECIDE_NEVER : DatumGetInt64(item[5])
			};
	}
	return works;
}

static void *
arena_alloc(void *context, size_t size)
{
	return MemoryContextAllocHuge((MemoryContext) context, Max(size, 1));
}

static void
arena_poll(void *context)
{
	CHECK_FOR_INTERRUPTS();
}
