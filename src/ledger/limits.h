/*-------------------------------------------------------------------------
 *
 * limits.h
 *		What limits an account, in its own row.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_LIMITS_H
#define GPUCREDIT_LIMITS_H

#include "ledger/ledger.h"
#include "nodes/pg_list.h"

extern void AccountLimitsLock(const char *org, const char *account);
extern void AccountLimitsKeep(const char *org, const char *account);
extern bool AccountLimitsKnown(const AccountPath *path);
extern List *AccountLimitsOf(const AccountPath *path, int level,
							 const char *kind);

#endif							/* GPUCREDIT_LIMITS_H */
