/*-------------------------------------------------------------------------
 *
 * devices.c
 *		The GPUs of this node, and which of them work.
 *
 * "devices = file:PATH" is an inventory in a file, for tests and for nodes
 * whose GPUs no library tells of: a line each, in order:
 *
 *	UUID MEMORY_MIB ok|broken [DEVICE_FILE]
 *
 * It is read again when it changes.  A device that is missing from it, or is
 * not "ok", does not work; which numbers there are never changes, as running
 * jobs have them.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"
#include "devices.h"
#include "util.h"

#define MOST_DEVICES	64

static Device devices[MOST_DEVICES];
static int	ndevices;
static struct timespec read_at;
static ino_t read_inode;

static void read_file(const char *path);
static bool read_line(const char *line, Device *device);

/*
 * Looks whether anything changed.
 */
void
DevicesLook(void)
{
	const char *path = config.devices;
	struct stat st;

	if (*path == '\0')
		return;
	if (strncmp(path, "file:", 5) != 0)
		Die("devices is \"file:PATH\" or empty, not \"%s\"", path);
	path += 5;
	if (stat(path, &st) != 0)
	{
		if (ndevices == 0)
			Die("could not read %s: %s", path, strerror(errno));
		if (read_inode != 0)
			Say("event=devices_unreadable path=%s", path);
		for (int i = 0; i < ndevices; i++)
			devices[i].works = false;
		read_inode = 0;
		return;
	}
	if (st.st_ino == read_inode && st.st_mtim.tv_sec == read_at.tv_sec &&
		st.st_mtim.tv_nsec == read_at.tv_nsec)
		return;
	read_at = st.st_mtim;
	read_inode = st.st_ino;
	read_file(path);
}

/*
 * Reads the inventory; after the first time only whether devices work counts.
 */
static void
read_file(const char *path)
{
	FILE	   *file = fopen(path, "r");
	char		line[1024];
	Device		found[MOST_DEVICES];
	int			n = 0;

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
	{
		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (n == MOST_DEVICES || !read_line(line, &found[n]))
		{
			Say("event=devices_malformed path=%s line=\"%.60s\"", path, line);
			n = -1;
			break;
		}
		n++;
	}
	if (file != NULL)
		fclose(file);
	if (n <= 0 && ndevices == 0)
		Die("%s has no devices", path);
	if (ndevices == 0)
	{
		memcpy(devices, found, sizeof(Device) * n);
		ndevices = n;
		return;
	}
	/* found by what they are, not by where they stand */
	for (int i = 0; i < ndevices; i++)
	{
		bool		works = false;

		for (int f = 0; f < n; f++)
			works = works || (found[f].works &&
							  strcmp(found[f].uuid, devices[i].uuid) == 0);
		if (works != devices[i].works)
			Say("event=%s device=%d uuid=%s",
				works ? "device_back" : "device_broken", i, devices[i].uuid);
		devices[i].works = works;
	}
}

static bool
read_line(const char *line, Device *device)
{
	char		state[16];
	long long	memory;

	memset(device, 0, sizeof(Device));
	if (sscanf(line, "%95s %lld %15s %255s", device->uuid, &memory, state,
			   device->path) < 3)
		return false;
	device->memory_mib = memory;
	device->works = strcmp(state, "ok") == 0;
	return device->works || strcmp(state, "broken") == 0;
}

int
DeviceCount(void)
{
	return ndevices;
}

/* NULL where there is none of that number */
const Device *
DeviceNumber(int number)
{
	return number >= 0 && number < ndevices ? &devices[number] : NULL;
}

uint64_t
DevicesWorking(void)
{
	uint64_t	set = 0;

	for (int i = 0; i < ndevices; i++)
	{
		if (devices[i].works)
			set |= UINT64_C(1) << i;
	}
	return set;
}

/*
 * A set as the database writes it: {0-3,6}.
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
