/*-------------------------------------------------------------------------
 *
 * poke.h
 *		gpucredit-agent poke: one listener for all agents.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_POKE_H
#define GPUCREDIT_AGENT_POKE_H

extern void PokeRun(void)
			__attribute__((noreturn));

#endif							/* GPUCREDIT_AGENT_POKE_H */
