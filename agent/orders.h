/*-------------------------------------------------------------------------
 *
 * orders.h
 *		Executes the database's answers about an attempt.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_ORDERS_H
#define GPUCREDIT_AGENT_ORDERS_H

#include "attempts.h"

extern void AttemptObey(const Order *order);
extern void AttemptWarnIdle(LocalAttempt *attempt, const char *ends);
extern bool AttemptCommand(LocalAttempt *attempt, const char *format,...)
			__attribute__((format(printf, 2, 3)));
extern void AttemptsPullAgain(void);
extern void AttemptPulled(LocalAttempt *attempt);
extern void AttemptResume(LocalAttempt *attempt, bool good,
						  json_t * checkpoint);

#endif							/* GPUCREDIT_AGENT_ORDERS_H */
