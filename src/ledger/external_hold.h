/*-------------------------------------------------------------------------
 *
 * external_hold.h
 *		Holds of callers with a scheduler of their own: inside the ledger only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_OWN_HOLD_H
#define GPUCREDIT_OWN_HOLD_H

#include "ledger/uncollected.h"

/* The result of a late call. */
#define TAKE_ANOTHER "Take a new hold by gpucredit.hold()."

/* external_hold.c */
extern void OwnHoldLock(const char *org, int64 id, Hold *hold);
extern pg_attribute_noreturn() void OwnHoldRefuse(int64 id, const char *why,
												  const char *hint);
extern void OwnHoldSetEnd(const Hold *hold, Credits uncollected);

/* hold_more.c */
extern Returned OwnHoldOverrun(Hold *hold, const Cause *cause,
							   Credits *amount, bool final,
							   Uncollected *owed);

#endif							/* GPUCREDIT_OWN_HOLD_H */
