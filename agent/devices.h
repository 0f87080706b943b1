/*-------------------------------------------------------------------------
 *
 * devices.h
 *		The GPUs of this node, and which of them work.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_DEVICES_H
#define GPUCREDIT_AGENT_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Device
{
	char		uuid[96];
	char		path[256];		/* its device file; empty: none */
	int64_t		memory_mib;
	bool		works;
} Device;

extern void DevicesLook(void);
extern int	DeviceCount(void);
extern const Device *DeviceNumber(int number);
extern uint64_t DevicesWorking(void);

extern char *SetText(uint64_t set);
extern bool SetParse(const char *text, uint64_t *set);

#endif							/* GPUCREDIT_AGENT_DEVICES_H */
