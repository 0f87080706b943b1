/*-------------------------------------------------------------------------
 *
 * hold.h
 *		A hold's row, and the result of an attempt to hold credit.
 *
 * Both budgets and the ledger work on a hold that is locked, but only the
 * ledger writes its row.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_HOLD_H
#define GPUCREDIT_HOLD_H

#include "util/trace.h"
#include "datatype/timestamp.h"
#include "types/credits.h"

typedef enum LedgerStatus
{
	LEDGER_DONE,
	LEDGER_SHORT,				/* not enough credit */
	LEDGER_OVER_BUDGET,			/* a hard budget would be exceeded */
	LEDGER_BUSY					/* a row is locked, and the caller did not
								 * want to wait */
} LedgerStatus;

/* A hold's row, as it was read when it was locked. */
typedef struct Hold
{
	const char *org;
	int64		hold;
	char	   *account;
	int64		job;			/* 0 for a hold that a caller opened without a
								 * job */
	Credits		drawn;
	Credits		held;
	Credits		captured;
	Credits		released;
	Credits		lapsed;
	TimestampTz expires_at;		/* DT_NOEND if it never expires */
	TimestampTz closed_at;		/* DT_NOBEGIN if it is open */
	bool		sliced;			/* whether released credit returns to slices */
	Trace		trace;			/* the trace that all its entries get */
	bool		counted;		/* whether budgets count it, or did */
	bool		leased;			/* whether another cell spends it */
} Hold;

#define HoldIsOpen(h)	((h)->closed_at == DT_NOBEGIN)

#endif							/* GPUCREDIT_HOLD_H */
