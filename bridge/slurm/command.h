/*-------------------------------------------------------------------------
 *
 * command.h
 *		Runs Slurm's commands, each under a time limit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_BRIDGE_COMMAND_H
#define GPUCREDIT_BRIDGE_COMMAND_H

#include <stdbool.h>

extern char *CommandOutput(char *const argv[]);
extern bool CommandSlurm(const char *program, const char *a, const char *b);
extern bool CommandSlurm3(const char *program, const char *a, const char *b,
						  const char *c);
extern void CommandGateLives(void);

#endif							/* GPUCREDIT_BRIDGE_COMMAND_H */
