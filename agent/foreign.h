/*-------------------------------------------------------------------------
 *
 * foreign.h
 *		Attempts that another scheduler starts and ends on this node.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_FOREIGN_H
#define GPUCREDIT_AGENT_FOREIGN_H

#include "attempts.h"

extern void ForeignRun(int argc, char **argv)
			__attribute__((noreturn));
extern void ForeignAdvance(LocalAttempt *attempt);
extern bool ForeignStop(LocalAttempt *attempt, const char *line);

#endif							/* GPUCREDIT_AGENT_FOREIGN_H */
