/*-------------------------------------------------------------------------
 *
 * output.h
 *		Writes a program's output to a file that its job names, and keeps the
 *		last bytes.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_OUTPUT_H
#define GPUCREDIT_AGENT_OUTPUT_H

#include "keeper.h"

extern void OutputStart(Keeper *keeper);
extern bool OutputOpen(const Start *start, int pipe, int socket);
extern void OutputEnd(Keeper *keeper);

#endif							/* GPUCREDIT_AGENT_OUTPUT_H */
