/*-------------------------------------------------------------------------
 *
 * forget.h
 *		Starts a node anew whose agent has lost its folder.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_FORGET_H
#define GPUCREDIT_AGENT_FORGET_H

extern void ForgetNode(const char *node)
			__attribute__((noreturn));

#endif							/* GPUCREDIT_AGENT_FORGET_H */
