/*-------------------------------------------------------------------------
 *
 * hold_opening.h
 *		Credit on its way into a hold: inside hold_*.c only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_HOLD_OPENING_H
#define GPUCREDIT_HOLD_OPENING_H

#include "ledger/budget.h"
#include "ledger/post.h"

typedef struct HoldOpening
{
	HoldDraw	draw;			/* of it hold: the one to extend; NULL: new */
	Purpose		purpose;		/* the draw's */
	LockedBuckets locked;		/* with dead holds */
	BudgetSet	budgets;
	Hold	   *hold;
	const Cause *cause;
	int64		ttl;			/* of a caller's own, new hold */
	const Granting *granting;	/* NULL: the caller writes nothing with it */
} HoldOpening;

/* hold_at_once.c */
extern bool HoldAtOnce(HoldOpening *opening);
extern void HoldAtOnceEnd(void);

/* hold_in_slice.c */
extern bool HoldInSlice(HoldOpening *opening);

/* hold_locked.c */
extern void HoldLockWithDead(HoldOpening *opening);
extern LedgerStatus HoldLocked(HoldOpening *opening);

/* hold_write.c */
extern int64 HoldNextId(void);
extern void HoldWrite(HoldOpening *opening, bool taken);

#endif							/* GPUCREDIT_HOLD_OPENING_H */
