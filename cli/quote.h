/*-------------------------------------------------------------------------
 *
 * quote.h
 *		What a submission would cost, and when it would start.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_QUOTE_H
#define GPUCREDIT_CLI_QUOTE_H

#include <stdbool.h>
#include <stdint.h>

/* The parameters: arguments of quote(), and of an array one task. */
enum
{
	QUOTE_ORG, QUOTE_ACCOUNT, QUOTE_REQUEST, QUOTE_WALL_LIMIT, QUOTE_TIER,
	QUOTE_POOL, QUOTE_TOPOLOGY, QUOTE_RETRIES, QUOTE_SIZES,
	QUOTE_HOLD_WINDOW, QUOTE_SPEC, QUOTE_OPTIONS, QUOTE_TASK, QUOTE_TASKS,
	QUOTE_VALUES
};

extern int	QuoteStart(const char *const *values, int64_t cpu_milli);
extern int	QuoteShow(const char *const *values, bool json);

#endif							/* GPUCREDIT_CLI_QUOTE_H */
