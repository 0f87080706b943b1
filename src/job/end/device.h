/*-------------------------------------------------------------------------
 *
 * device.h
 *		Settles attempts whose devices failed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_DEVICE_H
#define GPUCREDIT_DEVICE_H

#include "job/attempt.h"
#include "job/sweep.h"
#include "types/gpuset.h"

extern SqlResult DevicesBroken(void);
extern SweepResult DeviceSettle(const char *org, int64 id, int32 number,
								const void *context);
extern void DeviceFailed(const Attempt *attempt, const char *node,
						 TimestampTz now);

#endif							/* GPUCREDIT_DEVICE_H */
