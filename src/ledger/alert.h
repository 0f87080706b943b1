/*-------------------------------------------------------------------------
 *
 * alert.h
 *		What an account's owner should know.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ALERT_H
#define GPUCREDIT_ALERT_H

#include "ledger/budget.h"

extern void AlertBudget(const char *org, const BudgetCount *count,
						Credits taken, TimestampTz at);

#endif							/* GPUCREDIT_ALERT_H */
