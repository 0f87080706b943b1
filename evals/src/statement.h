/*-------------------------------------------------------------------------
 *
 * statement.h
 *		Statements by SPI, prepared at their first use and kept.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_EVAL_STATEMENT_H
#define GPUCREDIT_EVAL_STATEMENT_H

#include "executor/spi.h"
#include "fmgr.h"
#include "types/entry.h"

#define STATEMENT_MAX_ARGS	16

typedef struct Statement
{
	const char *text;
	int			nargs;
	Oid			types[STATEMENT_MAX_ARGS];
	SPIPlanPtr	plan;
	uint64		uses;
	int			running;
} Statement;

/* A statement with parameters of these types. */
#define STATEMENT(name, text, ...) \
	static Statement name = {text, lengthof(((Oid[]){__VA_ARGS__})), \
		{__VA_ARGS__}, NULL, 0, 0}

/* Values in order, which live until the end of the block. */
#define VALUES(...)	((NullableDatum[]) {__VA_ARGS__})

extern uint64 StatementRun(Statement *statement, const NullableDatum *args);
extern NullableDatum StatementValue(uint64 row, int column);
extern NullableDatum StatementKept(MemoryContext context, int column);
extern Datum RowOf(FunctionCallInfo fcinfo, const NullableDatum *columns);

static inline NullableDatum
ValueOf(Datum value)
{
	return (NullableDatum)
	{
		value, false
	};
}

#endif							/* GPUCREDIT_EVAL_STATEMENT_H */
