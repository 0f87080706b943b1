/*-------------------------------------------------------------------------
 *
 * calls.h
 *		Decides which call of the database to make next.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_CALLS_H
#define GPUCREDIT_AGENT_CALLS_H

extern void BeatSoon(void);
extern void CallsMake(void);
extern int	CallsWaitMs(void);

#endif							/* GPUCREDIT_AGENT_CALLS_H */
