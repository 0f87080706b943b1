/*-------------------------------------------------------------------------
 *
 * checks.h
 *		What a worker's report says of a case: its checks, and its usage.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_EVAL_CHECKS_H
#define GPUCREDIT_EVAL_CHECKS_H

#include "utils/jsonb.h"

typedef struct Checks
{
	bool		passed;			/* each of them */
	Datum		score;			/* numeric 0 to 1, by weight */
} Checks;

typedef struct Usage
{
	NullableDatum tokens_in;	/* numeric; null: not known */
	NullableDatum tokens_out;
} Usage;

extern Checks ChecksRead(Jsonb *checks);
extern Usage UsageRead(Jsonb *usage);

#endif							/* GPUCREDIT_EVAL_CHECKS_H */
