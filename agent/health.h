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

extern void HealthStart(void);
extern bool HealthCheck(void);
extern bool HealthAllows(uint64_t gpus);
extern uint64_t HealthSet(void);
extern void HealthReset(const char *uuid) __attribute__((noreturn));

#endif							/* GPUCREDIT_AGENT_HEALTH_H */
