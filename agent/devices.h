/*-------------------------------------------------------------------------
 *
 * devices.h
 *		The GPUs of this node, and what was last seen of them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_DEVICES_H
#define GPUCREDIT_AGENT_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#define MOST_DEVICES	64

/* -1: not told */
typedef struct Device
{
	char		uuid[96];
	char		path[256];		/* its device file; empty: none */
	int64_t		memory_mib;
	int			index;			/* NVML's, of this boot */
	bool		lost;			/* it does not work, by what was last seen */
	bool		events;			/* NVML tells when something happens to it */
	int64_t		seen_ns;		/* when that was; 0: not yet */
	int64_t		used_mib;
	int			processes;
	int			utilization;	/* percent */
	int64_t		ecc;			/* uncorrected errors since the boot */
	char		xids[128];		/* of the file: those that were heard */
} Device;

extern void DevicesStart(const char *configuration);
extern void DevicesLook(void);
extern int	DeviceCount(void);
extern Device *DeviceNumber(int number);
extern int	DeviceAdd(const char *uuid);
extern int	DeviceNamed(const char *uuid);
extern int	DevicesAsk(void);
extern int	DevicesAnswered(void);
extern void DevicesHeldAnew(void);

extern char *SetText(uint64_t set);
extern bool SetParse(const char *text, uint64_t *set);

#endif							/* GPUCREDIT_AGENT_DEVICES_H */
