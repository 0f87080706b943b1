/*-------------------------------------------------------------------------
 *
 * subtransaction.h
 *		Work that takes effect as a whole or not at all.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SUBTRANSACTION_H
#define GPUCREDIT_SUBTRANSACTION_H

extern bool SubtransactionTry(bool (*work) (void *context), void *context,
							  ErrorData **failed);

#endif							/* GPUCREDIT_SUBTRANSACTION_H */
