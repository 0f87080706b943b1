/*-------------------------------------------------------------------------
 *
 * devices.c
 *		The GPUs of this node, and their last known state.
 *
 * The numbers of devices never change, as running jobs refer to them.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices.h"
#include "log.h"
#include "memory.h"

static Device devices[MOST_DEVICES];
static int	ndevices;
static const DeviceListener *listener;

/*
 * Sets the functions that are called for new devices and for errors.
 */
void
DevicesListen(const DeviceListener *to)
{
	listener = to;
}

/* Reports that this number now belongs to another GPU. */
void
DeviceIsNew(int number)
{
	listener->is_new(number);
}

/* Reports an error of the driver (Xid). */
void
DeviceXid(int number, int code)
{
	devices[number].xid_count++;
	listener->xid(number, code);
}

/*
 * Adds a device, and returns its number.
 */
int
DeviceAdd(const char *uuid)
{
	Device	   *device = &devices[ndevices];

	if (ndevices == MOST_DEVICES)
		Die("there are more than %d devices", MOST_DEVICES);
	memset(device, 0, sizeof(Device));
	snprintf(device->uuid, sizeof(device->uuid), "%s", uuid);
	device->index = device->processes = device->utilization = -1;
	device->used_mib = device->ecc = device->link_mbps = -1;
	device->pcie = device->remap = device->celsius = -1;
	device->milliwatts = device->millijoules = device->corrected_ecc = -1;
	ndevices++;
	DeviceIsNew(ndevices - 1);
	return ndevices - 1;
}

/* Returns the number of the device with this UUID, or -1. */
int
DeviceNamed(const char *uuid)
{
	for (int i = 0; i < ndevices; i++)
	{
		if (strcmp(devices[i].uuid, uuid) == 0)
			return i;
	}
	return -1;
}

int
DeviceCount(void)
{
	return ndevices;
}

/* Returns a device, or NULL if there is no such number. */
Device *
DeviceNumber(int number)
{
	return number >= 0 && number < ndevices ? &devices[number] : NULL;
}

/*
 * Formats a set of devices in the database's syntax, such as {0-3,6}.
 */
char *
SetText(uint64_t set)
{
	char		text[256];
	int			len = 1;

	text[0] = '{';
	for (int i = 0; i < 64; i++)
	{
		int			last = i;

		if ((set >> i & 1) == 0)
			continue;
		while (last < 63 && (set >> (last + 1) & 1) != 0)
			last++;
		len += snprintf(text + len, sizeof(text) - len,
						last > i ? "%s%d-%d" : "%s%d", len > 1 ? "," : "", i,
						last);
		i = last;
	}
	text[len++] = '}';
	text[len] = '\0';
	return Dup(text);
}

bool
SetParse(const char *text, uint64_t *set)
{
	const char *at = text;

	*set = 0;
	if (*at++ != '{')
		return false;
	while (*at != '}')
	{
		char	   *end;
		long		first = strtol(at, &end, 10);
		long		last = first;

		if (end == at)
			return false;
		if (*end == '-')
		{
			at = end + 1;
			last = strtol(at, &end, 10);
			if (end == at)
				return false;
		}
		if (first < 0 || last > 63 || first > last)
			return false;
		for (long i = first; i <= last; i++)
			*set |= UINT64_C(1) << i;
		at = *end == ',' ? end + 1 : end;
		if (*end != ',' && *end != '}')
			return false;
	}
	return at[1] == '\0';
}
