/*-------------------------------------------------------------------------
 *
 * gang.h
 *		Determines an attempt's processes on this node, and their ranks.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_GANG_H
#define GPUCREDIT_AGENT_GANG_H

#include "launch.h"
#include "start_file.h"

extern bool GangRunsOnce(const Launch *launch);
extern bool GangServesSteps(const Launch *launch);
extern void GangPutArguments(Writer *writer, const Launch *launch);
extern void GangPutEnvironment(Writer *writer, const Launch *launch);

#endif							/* GPUCREDIT_AGENT_GANG_H */
