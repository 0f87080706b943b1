/*-------------------------------------------------------------------------
 *
 * alert.h
 *		Alerts for the owner of an account.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ALERT_H
#define GPUCREDIT_ALERT_H

#include "limits/budget.h"
#include "ledger/post.h"

/* Defined in alert.c. */
extern void AlertBalance(const AccountPath *path, TimestampTz at);
extern void AlertBalanceDrawn(const AccountPath *path, const HoldDraw *draw);
extern void AlertBalanceDebited(const AccountPath *path, TimestampTz at,
								int64 bucket, Credits amount);
extern void AlertDrawn(const HoldDraw *draw);

/* Defined in spend_alert.c. */
extern void AlertSpend(const char *org, const char *account, TimestampTz at,
					   int64 settling);

#endif							/* GPUCREDIT_ALERT_H */
