/*-------------------------------------------------------------------------
 *
 * number.h
 *		Exact arithmetic on SQL's numeric.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_EVAL_NUMBER_H
#define GPUCREDIT_EVAL_NUMBER_H

#include "fmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#define NUMERIC(n)			NumericGetDatum(int64_to_numeric(n))
#define CALCULATE(f, a, b)	DirectFunctionCall2(numeric_##f, a, b)
#define COMPARE(f, a, b)	DatumGetBool(CALCULATE(f, a, b))
#define ROUND(a, decimals) \
	DirectFunctionCall2(numeric_round, a, Int32GetDatum(decimals))
#define TRUNCATE(a, decimals) \
	DirectFunctionCall2(numeric_trunc, a, Int32GetDatum(decimals))

/* Whether a number is between 0 and "highest". */
static inline bool
NumberIsUpTo(Datum number, int64 highest)
{
	return COMPARE(ge, number, NUMERIC(0)) &&
		COMPARE(le, number, NUMERIC(highest));
}

#endif							/* GPUCREDIT_EVAL_NUMBER_H */
