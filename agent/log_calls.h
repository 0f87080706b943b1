/*-------------------------------------------------------------------------
 *
 * log_calls.h
 *		Answers requests for a job's output.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_LOG_CALLS_H
#define GPUCREDIT_AGENT_LOG_CALLS_H

#include <stdbool.h>

#include "attempts.h"

extern void LogWishesForget(void);
extern void LogWishAdd(const Order *order, const char *log);
extern bool LogWishesWait(void);
extern bool LogAnswer(void);

#endif							/* GPUCREDIT_AGENT_LOG_CALLS_H */
