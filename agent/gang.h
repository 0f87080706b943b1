/*-------------------------------------------------------------------------
 *
 * gang.h
 *		An attempt's place among its nodes, and its processes on this one.
 *
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
