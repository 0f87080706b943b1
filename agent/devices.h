/*-------------------------------------------------------------------------
 *
 * devices.h
 *		The GPUs of this node, and their last known state.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_DEVICES_H
#define GPUCREDIT_AGENT_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#define MOST_DEVICES	64

/* A GPU. In a number, -1 means unknown. */
typedef struct Device
{
	char		uuid[96];
	char		path[256];		/* path of its device file; empty if there is
								 * none */
	int64_t		memory_mib;
	int			index;			/* NVML's index of the device in this boot */
	bool		lost;			/* it did not work at the last check */
	bool		events;			/* NVML reports its errors as events */
	int64_t		seen_ns;		/* when it was last checked; 0 if not yet */
	int64_t		used_mib;
	int			processes;
	int			utilization;	/* percent */
	int64_t		ecc;			/* uncorrected memory errors since the boot */
	int64_t		corrected_ecc;	/* corrected memory errors since the boot */
	int64_t		xid_count;		/* Xids since the agent's start */
	int			celsius;
	int64_t		milliwatts;
	int64_t		millijoules;	/* energy since the driver was loaded */
	int			remap;			/* rows of memory: 0 none to remap, 1 to be
								 * remapped at the next reset, 2 could not be
								 * remapped; -1 unknown */
	char		xids[128];		/* Xids in the inventory file that were
								 * handled already */
	char		fabric[64];		/* NVLink fabric of several machines; empty if
								 * it is part of none */
	int64_t		link_mbps;		/* what its NVLinks carry; -1 unknown */
	int			pcie;			/* number of the first device below the same
								 * PCIe host bridge; -1 unknown */
	bool		until_reset;	/* it is out of service until a reset, and
								 * must not be opened */
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
