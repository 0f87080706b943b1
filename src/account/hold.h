/*-------------------------------------------------------------------------
 *
 * hold.h
 *		A hold's row, and what became of a try to hold credit.
 *
 * Budgets and the ledger both work on a hold that is locked; only the ledger
 * writes it.
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
	LEDGER_OVER_BUDGET,			/* a hard budget would be passed */
	LEDGER_BUSY					/* a row is locked, and wait was false */
} LedgerStatus;

/* A hold's row, as locked. */
typedef struct Hold
{
	const char *org;
	int64		hold;
	char	   *account;
	int64		job;			/* 0: a caller's own */
	Credits		drawn;
	Credits		held;
	Credits		captured;
	Credits		released;
	Credits		lapsed;
	TimestampTz expires_at;		/* DT_NOEND: never */
	TimestampTz closed_at;		/* DT_NOBEGIN: open */
	bool		sliced;			/* what returns goes to slices */
	Trace		trace;			/* of all its entries */
	bool		counted;		/* in budgets, or was */
	bool		leased;			/* spent elsewhere */
} Hold;

#define HoldIsOpen(h)	((h)->closed_at == DT_NOBEGIN)

#endif							/* GPUCREDIT_HOLD_H */
