/*-------------------------------------------------------------------------
 *
 * health.h
 *		Which devices are in service, and why the others are not.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_HEALTH_H
#define GPUCREDIT_AGENT_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "attempts.h"

extern void HealthLoad(int number);
extern void HealthLook(void);
extern void HealthXid(int number, int code);
extern bool HealthUntilReset(int number);
extern bool HealthAllows(uint64_t gpus);
extern uint64_t HealthSet(void);
extern void HealthCheck(LocalAttempt *attempt);
extern void HealthReset(const char *uuid) __attribute__((noreturn));

#endif							/* GPUCREDIT_AGENT_HEALTH_H */
