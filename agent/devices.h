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
	char		path[256];		/* of its device file; empty: none */
	int64_t		memory_mib;
	int			index;			/* NVML's, of this boot */
	bool		lost;			/* by the last look it does not work */
	bool		events;			/* NVML sends its errors */
	int64_t		seen_ns;		/* time of the last look; 0: none yet */
	int64_t		used_mib;
	int			processes;
	int			utilization;	/* percent */
	int64_t		ecc;			/* uncorrected errors since the boot */
	char		xids[128];		/* from the file, already handled */
	bool		until_reset;	/* out of service, and not to be opened */
} Device;

/* Who hears what happens to devices. */
typedef struct DeviceListener
{
	void		(*is_new) (int number);
	void		(*xid) (int number, int code);
} DeviceListener;

extern void DevicesTell(const DeviceListener *to);
extern void DeviceIsNew(int number);
extern void DeviceXid(int number, int code);
extern int	DeviceCount(void);
extern Device *DeviceNumber(int number);
extern int	DeviceAdd(const char *uuid);
extern int	DeviceNamed(const char *uuid);

extern char *SetText(uint64_t set);
extern bool SetParse(const char *text, uint64_t *set);

#endif							/* GPUCREDIT_AGENT_DEVICES_H */
