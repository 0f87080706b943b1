/*
 * nvml_fake.c
 *		A libnvidia-ml.so.1 for tests: it has what a file says, at each call.
 *
 * The environment's GPUCREDIT_FAKE_NVML names the file, with lines:
 *
 *	init ok|hang|CODE
 *	gpu INDEX UUID MEMORY_MIB USED_MIB PROCESSES UTILIZATION ECC HOW
 *	place INDEX LINKS VERSION CLUSTER CLIQUE BRIDGE
 *							NVLinks that are up, and of which version; the byte
 *							that a fabric's UUID repeats, 0 for none, and the
 *							clique; which PCIe host bridge
 *	rows INDEX PENDING FAILED	whether rows of its memory are to be remapped, or
 *							could not be
 *	sensors INDEX CELSIUS MILLIWATTS MILLIJOULES CORRECTED_ECC
 *							without this line it has no sensors; a value of -1
 *							is not supported
 *	xid INDEX CODE			an event, which each event set that was there hears
 *
 * HOW is ok, lost, hang, or noevents.  Compiled with -DOLD it has none of the
 * functions that an agent can do without.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../agent/nvml_abi.h"

#define RESERVED_MIB	600		/* of each GPU, by the driver */

/* A GPU as the file has it. */
typedef struct FakeGpu
{
	int			index;
	char		uuid[NVML_UUID_SIZE];
	long long	memory;
	long long	used;
	int			processes;
	int			utilization;
	long long	ecc;
	char		how[16];
	int			links;
	int			version;
	int			cluster;
	int			clique;
	int			bridge;
	int			pending;
	int			failed;
	long long	sensor[4];
} FakeGpu;

/* An event set is of one GPU here. */
struct NvmlOpaqueSet
{
	int			index;
	int			heard;
};

static int	codes[1024];

static int
hang(void)
{
	for (;;)
		sleep(1);
}

/*
 * Reads the file: one GPU, and how many events it had.
 */
static int
read_gpu(int index, FakeGpu *gpu, int *events)
{
	const char *path = getenv("GPUCREDIT_FAKE_NVML");
	FILE	   *file = fopen(path == NULL ? "" : path, "r");
	char		line[512];
	int			n = 0;

	memset(gpu, 0, sizeof(FakeGpu));
	if (events != NULL)
		*events = 0;
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
	{
		FakeGpu		one;
		int			which;
		int			code;
		long long	sensor[4];

		if (sscanf(line, "gpu %d %95s %lld %lld %d %d %lld %15s", &one.index,
				   one.uuid, &one.memory, &one.used, &one.processes,
				   &one.utilization, &one.ecc, one.how) == 8)
		{
			n++;
			one.links = one.version = one.cluster = one.clique = 0;
			one.bridge = -1;
			one.pending = one.failed = 0;
			one.sensor[0] = one.sensor[1] = one.sensor[2] = one.sensor[3] = -1;
			if (one.index == index)
				*gpu = one;
		}
		else if (sscanf(line, "rows %d %d %d", &which, &one.pending,
						&one.failed) == 3)
		{
			if (which != index)
				continue;
			gpu->pending = one.pending;
			gpu->failed = one.failed;
		}
		else if (sscanf(line, "sensors %d %lld %lld %lld %lld", &which,
						&sensor[0], &sensor[1], &sensor[2], &sensor[3]) == 5)
		{
			if (which == index)
				memcpy(gpu->sensor, sensor, sizeof(sensor));
		}
		else if (sscanf(line, "place %d %d %d %d %d %d", &which, &one.links,
						&one.version, &one.cluster, &one.clique,
						&one.bridge) == 6)
		{
			if (which != index)
				continue;
			gpu->links = one.links;
			gpu->version = one.version;
			gpu->cluster = one.cluster;
			gpu->clique = one.clique;
			gpu->bridge = one.bridge;
		}
		else if (events != NULL && *events < 1024 &&
				 sscanf(line, "xid %d %d", &which, &code) == 2 &&
				 which == index)
			codes[(*events)++] = code;
	}
	if (file != NULL)
		fclose(file);
	return n;
}

/*
 * The same for who has a handle; what it returns is what the call returns.
 */
static int
of_handle(NvmlDevice device, FakeGpu *gpu)
{
	(void) read_gpu((int) (intptr_t) device - 1, gpu, NULL);
	if (strcmp(gpu->how, "hang") == 0)
		return hang();
	if (strcmp(gpu->how, "lost") == 0)
		return NVML_GPU_IS_LOST;
	return *gpu->how == '\0' ? NVML_INVALID_ARGUMENT : NVML_OK;
}

int
nvmlInit_v2(void)
{
	const char *path = getenv("GPUCREDIT_FAKE_NVML");
	FILE	   *file = fopen(path == NULL ? "" : path, "r");
	char		line[512];
	char		how[16] = "ok";

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		(void) sscanf(line, "init %15s", how);
	if (file == NULL)
		return NVML_UNKNOWN;
	fclose(file);
	return strcmp(how, "hang") == 0 ? hang() : atoi(how);
}

int
nvmlDeviceGetCount_v2(unsigned int *count)
{
	FakeGpu		gpu;

	*count = read_gpu(-1, &gpu, NULL);
	return NVML_OK;
}

int
nvmlDeviceGetHandleByIndex_v2(unsigned int index, NvmlDevice *device)
{
	*device = (NvmlDevice) (intptr_t) (index + 1);
	return NVML_OK;
}

int
nvmlDeviceGetUUID(NvmlDevice device, char *uuid, unsigned int size)
{
	FakeGpu		gpu;
	int			code = of_handle(device, &gpu);

	snprintf(uuid, size, "%s", gpu.uuid);
	return code;
}

int
nvmlDeviceGetMemoryInfo(NvmlDevice device, NvmlMemory *memory)
{
	FakeGpu		gpu;
	int			code = of_handle(device, &gpu);

	memory->total = gpu.memory << 20;
	memory->used = gpu.used << 20;
	memory->free = memory->total - memory->used;
	return code;
}

#ifndef OLD
int
nvmlDeviceGetMemoryInfo_v2(NvmlDevice device, NvmlMemoryV2 *memory)
{
	FakeGpu		gpu;
	int			code = of_handle(device, &gpu);

	if (memory->version != NVML_MEMORY_V2)
		return NVML_INVALID_ARGUMENT;
	memory->total = gpu.memory << 20;
	memory->reserved = (long long) RESERVED_MIB << 20;
	memory->used = (gpu.used + RESERVED_MIB) << 20;
	memory->free = memory->total - memory->used;
	return code;
}

const char *
nvmlErrorString(int code)
{
	return code == 18 ? "Driver/library version mismatch" : "Unknown Error";
}

int
nvmlDeviceGetComputeRunningProcesses_v3(NvmlDevice device,
										unsigned int *n, void *infos)
{
	FakeGpu		gpu;
	int			code = of_handle(device, &gpu);

	(void) infos;
	*n = gpu.processes;
	return code == NVML_OK && gpu.processes > 0 ? NVML_INSUFFICIENT_SIZE :
		code;
}

int
nvmlDeviceGetUtilizationRates(NvmlDevice device, NvmlUtilization *busy)
{
	FakeGpu		gpu;
	int			code = of_handle(device, &gpu);

	busy->gpu = gpu.utilization;
	busy->memory = 0;
	return code;
}

/* One number of the line "sensors". */
static int
with_sensor(NvmlDevice device, int n, unsigned long long *value)
{
	FakeGpu		gpu;
	int			code = of_handle(device, &gpu);

	*value = (unsigned long long) gpu.sensor[n];
	return code == NVML_OK && gpu.sensor[n] < 0 ? NVML_NOT_SUPPORTED : code;
}

int
nvmlDeviceGetTotalEccErrors(NvmlDevice device, int type, int counter,
							unsigned long long *errors)
{
	FakeGpu		gpu;
	int			code = of_handle(device, &gpu);

	(void) counter;
	if (type == NVML_ECC_CORRECTED)
		return with_sensor(device, 3, errors);
	*errors = gpu.ecc;
	return code;
}

int
nvmlDeviceGetTemperature(NvmlDevice device, int sensor, unsigned int *celsius)
{
	unsigned long long value;
	int			code = with_sensor(device, 0, &value);

	*celsius = (unsigned int) value;
	return sensor == NVML_SENSOR_GPU ? code : NVML_INVALID_ARGUMENT;
}

int
nvmlDeviceGetPowerUsage(NvmlDevice device, unsigned int *milliwatts)
{
	unsigned long long value;
	int			code = with_sensor(device, 1, &value);

	*milliwatts = (unsigned int) value;
	return code;
}

int
nvmlDeviceGetTotalEnergyConsumption(NvmlDevice device,
									unsigned long long *millijoules)
{
	return with_sensor(device, 2, millijoules);
}

int
nvmlDeviceGetRemappedRows(NvmlDevice device, unsigned int *corrected,
						  unsigned int *uncorrected, unsigned int *pending,
						  unsigned int *failed)
{
	FakeGpu		gpu;
	int			code = of_handle(device, &gpu);

	*corrected = *uncorrected = 0;
	*pending = (unsigned int) gpu.pending;
	*failed = (unsigned int) gpu.failed;
	return code;
}

int
nvmlEventSetCreate(NvmlEventSet *set)
{
	*set = calloc(1, sizeof(**set));
	return NVML_OK;
}

int
nvmlDeviceRegisterEvents(NvmlDevice device, unsigned long long types,
						 NvmlEventSet set)
{
	FakeGpu		gpu;
	int			code = of_handle(device, &gpu);

	(void) types;
	set->index = gpu.index;
	(void) read_gpu(gpu.index, &gpu, &set->heard);
	return strcmp(gpu.how, "noevents") == 0 ? NVML_NOT_SUPPORTED : code;
}

int
nvmlEventSetWait_v2(NvmlEventSet set, NvmlEvent *event, unsigned int ms)
{
	FakeGpu		gpu;
	int			events;

	(void) ms;
	(void) read_gpu(set->index, &gpu, &events);
	if (strcmp(gpu.how, "lost") == 0)
		return NVML_GPU_IS_LOST;
	if (strcmp(gpu.how, "hang") == 0)
		return hang();
	if (set->heard >= events)
		return NVML_TIMED_OUT;
	event->type = NVML_EVENT_XID;
	event->data = codes[set->heard++];
	return NVML_OK;
}

int
nvmlDeviceGetNvLinkState(NvmlDevice device, unsigned int link, int *up)
{
	FakeGpu		gpu;
	int			code = of_handle(device, &gpu);

	*up = (int) link < gpu.links;
	return code;
}

int
nvmlDeviceGetNvLinkVersion(NvmlDevice device, unsigned int link,
						   unsigned int *version)
{
	FakeGpu		gpu;
	int			code = of_handle(device, &gpu);

	(void) link;
	*version = (unsigned int) gpu.version;
	return code;
}

int
nvmlDeviceGetGpuFabricInfo(NvmlDevice device, NvmlFabric *fabric)
{
	FakeGpu		gpu;
	int			code = of_handle(device, &gpu);

	memset(fabric->cluster, gpu.cluster, sizeof(fabric->cluster));
	fabric->clique = (unsigned int) gpu.clique;
	fabric->status = NVML_OK;
	fabric->state = NVML_FABRIC_COMPLETED;
	return code;
}

int
nvmlDeviceGetTopologyCommonAncestor(NvmlDevice a, NvmlDevice b, int *level)
{
	FakeGpu		one;
	FakeGpu		other;
	int			code = of_handle(a, &one);

	if (code == NVML_OK)
		code = of_handle(b, &other);
	*level = code == NVML_OK && one.bridge == other.bridge ?
		NVML_TOPOLOGY_HOSTBRIDGE : NVML_TOPOLOGY_HOSTBRIDGE + 20;
	return code;
}

int
nvmlEventSetFree(NvmlEventSet set)
{
	free(set);
	return NVML_OK;
}
#endif
