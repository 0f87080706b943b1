/*-------------------------------------------------------------------------
 *
 * health.h
 *		Decides which devices are in service.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_HEALTH_H
#define GPUCREDIT_AGENT_HEALTH_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

extern void HealthStart(void);
extern bool HealthCheck(void);
extern bool HealthAllows(uint64_t gpus);
extern uint64_t HealthSet(void);
extern json_t * HealthReasons(void);
extern void HealthHoldUntilClean(int number);
extern char *HealthFileName(const char *uuid);
extern void HealthReset(const char *uuid) __attribute__((noreturn));

#endif							/* GPUCREDIT_AGENT_HEALTH_H */
