/*-------------------------------------------------------------------------
 *
 * relay_run.h
 *		gpucredit-agent relay: runs the relay of terminals.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_RELAY_RUN_H
#define GPUCREDIT_AGENT_RELAY_RUN_H

extern void RelayRun(int argc, char **argv) __attribute__((noreturn));

#endif							/* GPUCREDIT_AGENT_RELAY_RUN_H */
