/*-------------------------------------------------------------------------
 *
 * checks.h
 *		Reads the checks and the usage in a worker's report on a case.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_EVAL_CHECKS_H
#define GPUCREDIT_EVAL_CHECKS_H

#include "utils/jsonb.h"

typedef struct Checks
{
	bool		passed;			/* every check passes */
	Datum		score;			/* weighted mean, a numeric from 0 to 1 */
} Checks;

typedef struct Usage
{
	NullableDatum tokens_in;	/* numeric; null if not known */
	NullableDatum tokens_out;
	NullableDatum embedded;		/* tokens that the embedding model read */
} Usage;

extern Checks ChecksRead(Jsonb *checks);
extern Usage UsageRead(Jsonb *usage);

#endif							/* GPUCREDIT_EVAL_CHECKS_H */
