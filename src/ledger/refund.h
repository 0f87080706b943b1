/*-------------------------------------------------------------------------
 *
 * refund.h
 *		Spent credit back where it came from.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_REFUND_H
#define GPUCREDIT_REFUND_H

#include "ledger/ledger.h"

/* The holds are locked, the one to refund first comes first. */
extern Returned HoldsRefund(Hold *holds, int n, const Cause *cause,
							Credits amount, TimestampTz *at);

#endif							/* GPUCREDIT_REFUND_H */
