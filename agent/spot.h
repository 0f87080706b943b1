/*-------------------------------------------------------------------------
 *
 * spot.h
 *		The process that asks the cloud whether it takes this machine back.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_SPOT_H
#define GPUCREDIT_AGENT_SPOT_H

extern void SpotRun(void) __attribute__((noreturn));

#endif							/* GPUCREDIT_AGENT_SPOT_H */
