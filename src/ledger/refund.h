/*-------------------------------------------------------------------------
 *
 * refund.h
 *		Refunds spent credit to the buckets from which it came.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_REFUND_H
#define GPUCREDIT_REFUND_H

#include "ledger/ledger.h"

/* The caller has locked the holds. The hold to refund first comes first. */
extern Returned HoldsRefund(Hold *holds, int n, const Cause *cause,
							Credits amount, TimestampTz *at);

#endif							/* GPUCREDIT_REFUND_H */
