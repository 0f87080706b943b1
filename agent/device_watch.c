/*-------------------------------------------------------------------------
 *
 * device_watch.c
 *		Where the agent learns of its GPUs: from NVIDIA's library, or a file.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "config.h"
#include "device_file.h"
#include "device_watch.h"
#include "nvml_watch.h"
#include "util.h"

static bool by_nvml(void);
static void check_file(void);

/*
 * At the start: find the devices.
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
 * See whether anything changed.
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
 * Ask for the devices' present state.  DevicesAnswered() reaches the returned
 * number when the answer is there.
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

/* the set of devices that need a reset has changed */
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
