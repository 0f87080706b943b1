/*-------------------------------------------------------------------------
 *
 * scontrol_update.h
 *		scontrol update.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_SCONTROL_UPDATE_H
#define GPUCREDIT_CLI_SCONTROL_UPDATE_H

extern int	ScontrolUpdate(int argc, char **argv);

#endif							/* GPUCREDIT_CLI_SCONTROL_UPDATE_H */
