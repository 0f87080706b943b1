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

/* in numbers, -1 means unknown */
typedef struct Device
{
	char		uuid[96];
	char		path[256];		/* of its device file; empty: none */
	int64_t		memory_mib;
	int			index;			/* NVML's, of this boot */
	bool		lost;			/* at the last check it did not work */
	bool		events;			/* NVML sends its errors */
	int64_t		seen_ns;		/* time of the last check; 0: none yet */
	int64_t		used_mib;
	int			processes;
	int			utilization;	/* percent */
	int64_t		ecc;			/* uncorrected errors since the boot */
	char		xids[128];		/* of the file, already handled */
	bool		until_reset;	/* out of service, and not to be opened */
} Device;

/* The functions to call when a device appears or reports an error. */
typedef struct DeviceListener
{
	void		(*is_new) (int number);
	void		(*xid) (int number, int code);
} DeviceListener;

extern void DevicesListen(const DeviceListener *to);
extern void DeviceIsNew(int number);
extern void DeviceXid(int number, int code);
extern int	DeviceCount(void);
extern Device *DeviceNumber(int number);
extern int	DeviceAdd(const char *uuid);
extern int	DeviceNamed(const char *uuid);

extern char *SetText(uint64_t set);
extern bool SetParse(const char *text, uint64_t *set);

#endif							/* GPUCREDIT_AGENT_DEVICES_H */
