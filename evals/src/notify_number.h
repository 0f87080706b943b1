/*-------------------------------------------------------------------------
 *
 * notify_number.h
 *		Sends notifications at commit, if the server's queue has room.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_EVAL_NOTIFY_NUMBER_H
#define GPUCREDIT_EVAL_NOTIFY_NUMBER_H

extern void NotifyNumberInit(void);

#endif							/* GPUCREDIT_EVAL_NOTIFY_NUMBER_H */
