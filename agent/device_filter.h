/*-------------------------------------------------------------------------
 *
 * device_filter.h
 *		Restricts which device files the processes of a cgroup may open.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_DEVICE_FILTER_H
#define GPUCREDIT_AGENT_DEVICE_FILTER_H

#include <stdbool.h>
#include <stdint.h>

extern const char *const DriverFiles[];

extern bool DeviceFilter(const char *cgroup, uint64_t gpus);

#endif							/* GPUCREDIT_AGENT_DEVICE_FILTER_H */
