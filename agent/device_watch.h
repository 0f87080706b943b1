/*-------------------------------------------------------------------------
 *
 * device_watch.h
 *		Reads the node's GPUs, from NVIDIA's library or from a file.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_DEVICE_WATCH_H
#define GPUCREDIT_AGENT_DEVICE_WATCH_H

#include <stdbool.h>

extern void DevicesStart(const char *configuration);
extern void DevicesCheck(void);
extern int	DevicesAsk(void);
extern int	DevicesAnswered(void);
extern void DevicesUntilResetChanged(void);

#endif							/* GPUCREDIT_AGENT_DEVICE_WATCH_H */
