/*-------------------------------------------------------------------------
 *
 * devices.c
 *		The GPUs of this node, and what was last seen of them.
 *
 * "devices = nvml" asks NVIDIA's library (nvml_watch.c).  "devices =
 * file:PATH" is an inventory in a file, for tests and for nodes whose GPUs no
 * library lists, one per line:
 *
 *	UUID MEMORY_MIB ok|broken [DEVICE_FILE] [xid=N,...] [used=MIB]
 *		[processes=N] [utilization=PERCENT]
 *
 * The agent reads it again when it changes; each Xid added to the list is a new
 * event.  A device that is missing or not "ok" does not work.  The numbers
 * never change, as running jobs hold them.
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
#include "health.h"
#include "nvml_watch.h"
#include "util.h"

static Device devices[MOST_DEVICES];
static int	ndevices;
static struct timespec read_at;
static ino_t read_inode;

static bool by_nvml(void);
static void look_at_file(void);
static void read_file(const char *path);
static bool read_line(char *line, Device *device);
static bool read_word(const char *word, Device *device);
static void take_seen(int number, const Device *found);

/*
 * At the start: which devices there are.
 */
void
DevicesStart(const char *configuration)
{
	if (by_nvml())
		NvmlStart(configuration);
	else
		look_at_file();
}

/*
 * See whether anything changed.
 */
void
DevicesLook(void)
{
	if (by_nvml())
		NvmlLook();
	else
		look_at_file();
}

static bool
by_nvml(void)
{
	return strcmp(config.devices, "nvml") == 0;
}

/*
 * Asks how the devices are now; DevicesAnswered() says once that is known.
 */
int
DevicesAsk(void)
{
	if (by_nvml())
		return NvmlAsk();
	look_at_file();
	return 0;
}

int
DevicesAnswered(void)
{
	return by_nvml() ? NvmlAnswered() : 0;
}

/* devices went out of service until a reset, or came back from one */
void
DevicesHeldAnew(void)
{
	if (by_nvml())
		NvmlAgain();
}

/*
 * Looks at the file; what is read off it holds until it changes.
 */
static void
look_at_file(void)
{
	const char *path = config.devices;
	struct stat st;

	if (*path == '\0')
		return;
	if (strncmp(path, "file:", 5) != 0)
		Die("devices is \"file:PATH\", \"nvml\" or empty, not \"%s\"", path);
	path += 5;
	if (stat(path, &st) != 0)
	{
		if (ndevices == 0)
			Die("could not read %s: %s", path, strerror(errno));
		if (read_inode != 0)
			Say("event=devices_unreadable path=%s", path);
		for (int i = 0; i < ndevices; i++)
			devices[i].lost = true;
		read_inode = 0;
		return;
	}
	if (st.st_ino != read_inode || st.st_mtim.tv_sec != read_at.tv_sec ||
		st.st_mtim.tv_nsec != read_at.tv_nsec)
	{
		read_at = st.st_mtim;
		read_inode = st.st_ino;
		read_file(path);
	}
	for (int i = 0; i < ndevices; i++)
		devices[i].seen_ns = MonotonicNs();
}

/*
 * Read the inventory; later reads only change the devices' health.
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
		for (int f = 0; f < n; f++)
			devices[DeviceAdd(found[f].uuid)] = found[f];
		return;
	}
	/* matched by UUID, not by position */
	for (int i = 0; i < ndevices; i++)
	{
		const Device *seen = NULL;

		for (int f = 0; f < n; f++)
		{
			if (strcmp(found[f].uuid, devices[i].uuid) == 0)
				seen = &found[f];
		}
		take_seen(i, seen);
	}
}

/*
 * One device of the file; false: the line is malformed.
 */
static bool
read_line(char *line, Device *device)
{
	char		state[16];
	long long	memory;
	int			at = 0;

	memset(device, 0, sizeof(Device));
	device->index = device->processes = device->utilization = -1;
	device->used_mib = device->ecc = -1;
	if (sscanf(line, "%95s %lld %15s%n", device->uuid, &memory, state, &at) < 3)
		return false;
	device->memory_mib = memory;
	device->lost = strcmp(state, "ok") != 0;
	for (char *word = strtok(line + at, " \t\r\n"); word != NULL;
		 word = strtok(NULL, " \t\r\n"))
	{
		if (!read_word(word, device))
			return false;
	}
	return !device->lost || strcmp(state, "broken") == 0;
}

/*
 * What stands behind a device's state.
 */
static bool
read_word(const char *word, Device *device)
{
	const char *value = strchr(word, '=');

	if (*word == '/' && device->path[0] == '\0' &&
		strlen(word) < sizeof(device->path))
		strcpy(device->path, word);
	else if (strncmp(word, "xid=", 4) == 0 &&
			 strlen(value + 1) < sizeof(device->xids))
		strcpy(device->xids, value + 1);
	else if (strncmp(word, "used=", 5) == 0)
		device->used_mib = atoll(value + 1);
	else if (strncmp(word, "processes=", 10) == 0)
		device->processes = atoi(value + 1);
	else if (strncmp(word, "utilization=", 12) == 0)
		device->utilization = atoi(value + 1);
	else
		return false;
	return true;
}

/*
 * Takes what the file says now of a device; NULL: it is missing.
 */
static void
take_seen(int number, const Device *found)
{
	Device	   *device = &devices[number];
	size_t		heard = strlen(device->xids);

	device->lost = found == NULL || found->lost;
	if (found == NULL)
		return;
	device->used_mib = found->used_mib;
	device->processes = found->processes;
	device->utilization = found->utilization;
	if (strncmp(found->xids, device->xids, heard) == 0)
	{
		const char *more = found->xids + heard;

		while (*more != '\0')
		{
			more += *more == ',';
			HealthXid(number, atoi(more));
			more += strcspn(more, ",");
		}
	}
	strcpy(device->xids, found->xids);
}

/*
 * One more; what is remembered of it is remembered.
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
	HealthLoad(ndevices++);
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
