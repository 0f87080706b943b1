/*-------------------------------------------------------------------------
 *
 * devices.c
 *		The GPUs of this node, and what was last seen of them.
 *
 * Their numbers never change, as running jobs hold them.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices.h"
#include "util.h"

static Device devices[MOST_DEVICES];
static int	ndevices;
static const DeviceListener *listener;

/*
 * Set who is called for new devices and for errors.
 */
void
DevicesListen(const DeviceListener *to)
{
	listener = to;
}

/* another GPU has this number from now on */
void
DeviceIsNew(int number)
{
	listener->is_new(number);
}

/* the driver reported an error */
void
DeviceXid(int number, int code)
{
	listener->xid(number, code);
}

/*
 * Add a device, and return its number.
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
	device->used_mib = device->ecc = -1;
	ndevices++;
	DeviceIsNew(ndevices - 1);
	return ndevices - 1;
}

/* -1: there is none of that name */
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

/* NULL: no such number */
Device *
DeviceNumber(int number)
{
	return number >= 0 && number < ndevices ? &devices[number] : NULL;
}

/*
 * A set in the database's syntax: {0-3,6}.
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
