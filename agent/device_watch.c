/*-------------------------------------------------------------------------
 *
 * device_watch.c
 *		Reads the node's GPUs, from NVIDIA's library or from a file.
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "config.h"
#include "device_file.h"
#include "device_watch.h"
#include "log.h"
#include "nvml_watch.h"

static bool by_nvml(void);
static void check_file(void);

/*
 * Finds the devices, when the agent starts.
 */
void
DevicesStart(const char *configuration)
{
	if (by_nvml())
		NvmlStart(configuration);
	else
		check_file();
}

/*
 * Checks whether anything has changed.
 */
void
DevicesCheck(void)
{
	if (by_nvml())
		NvmlRead();
	else
		check_file();
}

static bool
by_nvml(void)
{
	return strcmp(config.devices, "nvml") == 0;
}

/*
 * Requests the devices' present state. DevicesAnswered() reaches the returned
 * number once the state has been read.
 */
int
DevicesAsk(void)
{
	if (by_nvml())
		return NvmlAsk();
	check_file();
	return 0;
}

int
DevicesAnswered(void)
{
	return by_nvml() ? NvmlAnswered() : 0;
}

/* Handles a change of the set of devices that need a reset. */
void
DevicesUntilResetChanged(void)
{
	if (by_nvml())
		NvmlAgain();
}

static void
check_file(void)
{
	if (*config.devices == '\0')
		return;
	if (strncmp(config.devices, "file:", 5) != 0)
		Die("devices is \"file:PATH\", \"nvml\" or empty, not \"%s\"",
			config.devices);
	DeviceFileRead(config.devices + 5);
}
