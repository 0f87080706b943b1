/*-------------------------------------------------------------------------
 *
 * owner.h
 *		Transactions of a worker, as the owner of the extension.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_OWNER_H
#define GPUCREDIT_OWNER_H

extern bool OwnerBegin(void);
extern void OwnerFinish(void);
extern void OwnerMakeRoom(void);

#endif							/* GPUCREDIT_OWNER_H */
