/*-------------------------------------------------------------------------
 *
 * energy.h
 *		How much energy the GPUs and the attempts of this node have used.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_ENERGY_H
#define GPUCREDIT_AGENT_ENERGY_H

#include "attempts.h"

extern void EnergyStart(void);
extern void EnergyRead(int number);
extern void EnergySave(void);
extern int64_t EnergyJoules(const LocalAttempt *attempt);
extern int64_t EnergyDeviceMj(int number);

#endif							/* GPUCREDIT_AGENT_ENERGY_H */
