/*-------------------------------------------------------------------------
 *
 * bridge.h
 *		The commands of gpucredit-bridge.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_BRIDGE_H
#define GPUCREDIT_BRIDGE_H

/*
 * Each command gets the arguments that follow its name, and returns the exit
 * status.
 */
extern int	KubernetesMain(int argc, char **argv);
extern int	SlurmMain(int argc, char **argv);

#endif							/* GPUCREDIT_BRIDGE_H */
