/*-------------------------------------------------------------------------
 *
 * quote.h
 *		Prints what a submission would cost, and when the job would start.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_QUOTE_H
#define GPUCREDIT_CLI_QUOTE_H

#include <jansson.h>
#include <stdint.h>

/*
 * The parameters of the query: the arguments of quote(), and one task of an
 * array.
 */
enum
{
	QUOTE_ORG, QUOTE_ACCOUNT, QUOTE_REQUEST, QUOTE_WALL_LIMIT, QUOTE_TIER,
	QUOTE_POOL, QUOTE_TOPOLOGY, QUOTE_RETRIES, QUOTE_SIZES,
	QUOTE_HOLD_WINDOW, QUOTE_SPEC, QUOTE_OPTIONS, QUOTE_TASK, QUOTE_TASKS,
	QUOTE_ASKS,
	QUOTE_VALUES
};

extern int	QuoteStart(const char *const *values, int64_t processors);
extern int	QuoteShow(const char *const *values, json_t * asks);

#endif							/* GPUCREDIT_CLI_QUOTE_H */
