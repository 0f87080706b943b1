/*-------------------------------------------------------------------------
 *
 * device_file.c
 *		Reads GPUs from an inventory file: "devices = file:PATH".
 *
 * The file is for tests, and for nodes whose GPUs no library lists. Each
 * device has a line:
 *     UUID MEMORY_MIB ok|broken [DEVICE_FILE] [xid=N,...] [used=MIB]
 *         [processes=N] [utilization=PERCENT]
 * The agent reads the file again when it changes; each Xid that is added to
 * the list is a new event. A device that is missing or not "ok" does not work.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "device_file.h"
#include "devices.h"
#include "log.h"

static struct timespec read_at;
static ino_t read_inode;

static void read_file(const char *path);
static bool read_line(char *line, Device *device);
static bool read_word(const char *word, Device *device);
static void update_device(int number, const Device *found);

/*
 * Reads the file if it has changed.
 */
void
DeviceFileRead(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
	{
		if (DeviceCount() == 0)
			Die("could not read %s: %s", path, strerror(errno));
		if (read_inode != 0)
			LogLine("event=devices_unreadable path=%s", path);
		for (int i = 0; i < DeviceCount(); i++)
			DeviceNumber(i)->lost = true;
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
	for (int i = 0; i < DeviceCount(); i++)
		DeviceNumber(i)->seen_ns = MonotonicNs();
}

/*
 * Reads the inventory. Later reads only change the health of the devices.
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
			LogLine("event=devices_malformed path=%s line=\"%.60s\"", path, line);
			n = -1;
			break;
		}
		n++;
	}
	if (file != NULL)
		fclose(file);
	if (n <= 0 && DeviceCount() == 0)
		Die("%s has no devices", path);
	if (DeviceCount() == 0)
	{
		for (int f = 0; f < n; f++)
			*DeviceNumber(DeviceAdd(found[f].uuid)) = found[f];
		return;
	}
	/* Devices are matched by UUID, not by position. */
	for (int i = 0; i < DeviceCount(); i++)
	{
		const Device *seen = NULL;

		for (int f = 0; f < n; f++)
		{
			if (strcmp(found[f].uuid, DeviceNumber(i)->uuid) == 0)
				seen = &found[f];
		}
		update_device(i, seen);
	}
}

/*
 * Parses one device's line. Returns false if it is malformed.
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
	device->remap = device->celsius = -1;
	device->milliwatts = device->millijoules = device->corrected_ecc = -1;
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
 * Parses a word that follows the state.
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
 * Sets a device to what the file contains now; "found" is NULL if the device
 * is missing there.
 */
static void
update_device(int number, const Device *found)
{
	Device	   *device = DeviceNumber(number);
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
			DeviceXid(number, atoi(more));
			more += strcspn(more, ",");
		}
	}
	strcpy(device->xids, found->xids);
}
