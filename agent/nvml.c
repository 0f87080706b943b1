/*-------------------------------------------------------------------------
 *
 * nvml.c
 *		gpucredit-agent nvml CONFIG [INDEX...]: reads the GPUs' state from
 *		NVML.
 *
 * If a driver hangs, a call of NVML never returns. Therefore a separate
 * process makes the calls, which nvml_watch.c starts. It writes the present
 * call into shared memory, so that the agent can detect which GPU hangs. It
 * does not open the GPUs whose INDEX is given. It writes lines:
 *
 *     gpu INDEX MINOR MEMORY_MIB EVENTS UUID NAME
 *     none INDEX ERROR  NVML refuses even the GPU's UUID.
 *     ready             All GPUs have their line.
 *     link INDEX MBPS DOMAIN   Its NVLinks, and its fabric or "-"; each minute.
 *     pcie INDEX FIRST  The first GPU with which it shares a host bridge.
 *     sight INDEX ok|lost|error USED_MIB PROCESSES UTILIZATION ECC
 *     remap INDEX REMAP
 *     sensor INDEX CELSIUS MILLIWATTS MILLIJOULES CORRECTED_ECC
 *     xid INDEX CODE
 *     done N            The answer to "look N" is complete.
 *     failed WHY        The process ends.
 *
 * A value of -1 means that NVML does not report it. REMAP is 1 if a row of
 * memory is to be remapped at the next reset, and 2 if one could not be
 * remapped. MILLIJOULES counts from when the driver was loaded. The process
 * reads lines "look N". Each GPU has its own event set, so that a lost GPU does not
 * suppress the events of others.
 *-------------------------------------------------------------------------
 */
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"
#include "config.h"
#include "nvml.h"
#include "nvml_abi.h"

#define MOST_GPUS		64
#define EVENTS_MS		100		/* interval of reading events */
#define EVENTS_AT_ONCE	64
#define LINKS_EVERY		(60 * NS_PER_S)
#define XID_DOUBLE_BIT	48		/* the Xid of a double-bit ECC error */

/* A GPU that this process has open. */
typedef struct NvmlGpu
{
	NvmlDevice	device;			/* NULL if it is not opened */
	NvmlEventSet set;			/* NULL if it has no events */
} NvmlGpu;

/*
 * Functions of the library. A pointer is NULL if the library lacks the
 * function.
 */
static struct
{
	int			(*init) (void);
	const char *(*error) (int);
	int			(*count) (unsigned int *);
	int			(*handle) (unsigned int, NvmlDevice *);
	int			(*uuid) (NvmlDevice, char *, unsigned int);
	int			(*name) (NvmlDevice, char *, unsigned int);
	int			(*minor) (NvmlDevice, unsigned int *);
	int			(*memory) (NvmlDevice, NvmlMemory *);
	int			(*memory_v2) (NvmlDevice, NvmlMemoryV2 *);
	int			(*utilization) (NvmlDevice, NvmlUtilization *);
	int			(*processes) (NvmlDevice, unsigned int *, void *);
	int			(*ecc) (NvmlDevice, int, int, unsigned long long *);
	int			(*remapped) (NvmlDevice, unsigned int *, unsigned int *,
							 unsigned int *, unsigned int *);
	int			(*temperature) (NvmlDevice, int, unsigned int *);
	int			(*power) (NvmlDevice, unsigned int *);
	int			(*energy) (NvmlDevice, unsigned long long *);
	int			(*supported) (NvmlDevice, unsigned long long *);
	int			(*set_create) (NvmlEventSet *);
	int			(*set_register) (NvmlDevice, unsigned long long, NvmlEventSet);
	int			(*set_wait) (NvmlEventSet, NvmlEvent *, unsigned int);
	int			(*set_free) (NvmlEventSet);
	int			(*link_state) (NvmlDevice, unsigned int, int *);
	int			(*link_version) (NvmlDevice, unsigned int, unsigned int *);
	int			(*fabric) (NvmlDevice, NvmlFabric *);
	int			(*ancestor) (NvmlDevice, NvmlDevice, int *);
}			nvml;

/* Names of the functions, the newest version first. */
static const struct
{
	void	   *at;
	bool		needed;
	const char *names[3];
}			functions[] = {
	{&nvml.init, true, {"nvmlInit_v2"}},
	{&nvml.error, false, {"nvmlErrorString"}},
	{&nvml.count, true, {"nvmlDeviceGetCount_v2"}},
	{&nvml.handle, true, {"nvmlDeviceGetHandleByIndex_v2"}},
	{&nvml.uuid, true, {"nvmlDeviceGetUUID"}},
	{&nvml.name, false, {"nvmlDeviceGetName"}},
	{&nvml.minor, false, {"nvmlDeviceGetMinorNumber"}},
	{&nvml.memory, true, {"nvmlDeviceGetMemoryInfo"}},
	{&nvml.memory_v2, false, {"nvmlDeviceGetMemoryInfo_v2"}},
	{&nvml.utilization, false, {"nvmlDeviceGetUtilizationRates"}},
	{&nvml.processes, false, {"nvmlDeviceGetComputeRunningProcesses_v3",
			"nvmlDeviceGetComputeRunningProcesses_v2",
	"nvmlDeviceGetComputeRunningProcesses"}},
	{&nvml.ecc, false, {"nvmlDeviceGetTotalEccErrors"}},
	{&nvml.remapped, false, {"nvmlDeviceGetRemappedRows"}},
	{&nvml.temperature, false, {"nvmlDeviceGetTemperature"}},
	{&nvml.power, false, {"nvmlDeviceGetPowerUsage"}},
	{&nvml.energy, false, {"nvmlDeviceGetTotalEnergyConsumption"}},
	{&nvml.supported, false, {"nvmlDeviceGetSupportedEventTypes"}},
	{&nvml.set_create, false, {"nvmlEventSetCreate"}},
	{&nvml.set_register, false, {"nvmlDeviceRegisterEvents"}},
	{&nvml.set_wait, false, {"nvmlEventSetWait_v2", "nvmlEventSetWait"}},
	{&nvml.set_free, false, {"nvmlEventSetFree"}},
	{&nvml.link_state, false, {"nvmlDeviceGetNvLinkState"}},
	{&nvml.link_version, false, {"nvmlDeviceGetNvLinkVersion"}},
	{&nvml.fabric, false, {"nvmlDeviceGetGpuFabricInfo"}},
	{&nvml.ancestor, false, {"nvmlDeviceGetTopologyCommonAncestor"}},
};

static NvmlGpu gpus[MOST_GPUS];
static int	ngpus;
static NvmlCall own_call;
static NvmlCall *call = &own_call;

static void load(void);
static void fail(const char *what, int code) __attribute__((noreturn));
static const char *error_text(int code);
static void enter(int index);
static void leave(void);
static void open_gpu(int index);
static bool open_events(NvmlGpu *gpu);
static void write_events(int index);
static void write_state(int index);
static void write_remap(int index);
static void write_sensors(int index);
static int	used_mib(NvmlDevice device, long long *used);
static void write_states(void);
static void write_links(int index);
static long long link_mbps(NvmlDevice device);
static void write_pcie(int index);
static void read_commands(void);

/*
 * Runs until the agent closes the pipe.
 */
void
NvmlRun(int nskips, char **skips)
{
	int64_t		due_ns = MonotonicNs() + config.device_poll_ms * NS_PER_MS;
	unsigned int count = 0;
	int			code;
	void	   *map = mmap(NULL, sizeof(NvmlCall), PROT_READ | PROT_WRITE,
						   MAP_SHARED, NVML_CALL_FD, 0);

	if (map != MAP_FAILED)
		call = map;
	setvbuf(stdout, NULL, _IOLBF, 0);
	load();
	enter(NVML_NO_GPU);
	code = nvml.init();
	if (code == NVML_OK)
		code = nvml.count(&count);
	leave();
	if (code != NVML_OK)
		fail("NVML", code);
	ngpus = count > MOST_GPUS ? MOST_GPUS : (int) count;
	for (int i = 0; i < ngpus; i++)
	{
		bool		skipped = false;

		for (int s = 0; s < nskips; s++)
			skipped |= atoi(skips[s]) == i;
		if (!skipped)
			open_gpu(i);
	}
	write_states();
	printf("ready\n");
	for (;;)
	{
		if (MonotonicNs() >= due_ns)
		{
			write_states();
			due_ns = MonotonicNs() + config.device_poll_ms * NS_PER_MS;
		}
		for (int i = 0; i < ngpus; i++)
			write_events(i);
		read_commands();
	}
}

/*
 * Loads the library and its functions. An older library may lack some; the
 * values that those would return stay -1.
 */
static void
load(void)
{
	void	   *library;

	enter(NVML_NO_GPU);
	library = dlopen(config.nvml_library, RTLD_NOW | RTLD_LOCAL);
	leave();
	if (library == NULL)
	{
		printf("failed no NVIDIA library: %s\n", dlerror());
		exit(1);
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
	{
		void	   *found = NULL;

		for (int n = 0; n < 3 && found == NULL; n++)
		{
			if (functions[i].names[n] != NULL)
				found = dlsym(library, functions[i].names[n]);
		}
		if (found == NULL && functions[i].needed)
		{
			printf("failed %s has no %s\n", config.nvml_library,
				   functions[i].names[0]);
			exit(1);
		}
		memcpy(functions[i].at, &found, sizeof(found));
	}
}

static void
fail(const char *what, int code)
{
	printf("failed %s: %s\n", what, error_text(code));
	exit(1);
}

static const char *
error_text(int code)
{
	static char number[32];
	const char *text = nvml.error == NULL ? NULL : nvml.error(code);

	snprintf(number, sizeof(number), "error %d", code);
	return text == NULL ? number : text;
}

/* Records for the agent that the next calls are about this GPU. */
static void
enter(int index)
{
	call->index = index;
	call->since_ns = MonotonicNs();
}

static void
leave(void)
{
	call->since_ns = 0;
}

/*
 * Opens a GPU and writes its line.
 */
static void
open_gpu(int index)
{
	NvmlGpu    *gpu = &gpus[index];
	char		uuid[NVML_UUID_SIZE] = "";
	char		name[NVML_NAME_SIZE] = "";
	unsigned int minor = 0;
	bool		numbered;
	NvmlMemory	memory = {0};
	int			code;
	bool		events;

	enter(index);
	code = nvml.handle(index, &gpu->device);
	if (code == NVML_OK)
		code = nvml.uuid(gpu->device, uuid, sizeof(uuid));
	if (code != NVML_OK || *uuid == '\0' || strchr(uuid, ' ') != NULL)
	{
		leave();
		printf("none %d %s\n", index, error_text(code));
		gpu->device = NULL;
		return;
	}
	if (nvml.name != NULL)
		(void) nvml.name(gpu->device, name, sizeof(name));
	numbered = nvml.minor != NULL && nvml.minor(gpu->device, &minor) == NVML_OK;
	(void) nvml.memory(gpu->device, &memory);
	events = open_events(gpu);
	leave();
	printf("gpu %d %d %lld %d %s %s\n", index, numbered ? (int) minor : -1,
		   (long long) (memory.total >> 20), events, uuid, name);
}

/*
 * Subscribes to Xids and double-bit ECC errors. Returns false if NVML does not
 * report any.
 */
static bool
open_events(NvmlGpu *gpu)
{
	unsigned long long wanted = NVML_EVENT_XID | NVML_EVENT_DOUBLE_BIT_ECC;
	unsigned long long known = wanted;

	if (nvml.set_create == NULL || nvml.set_register == NULL ||
		nvml.set_wait == NULL)
		return false;
	if (nvml.supported != NULL &&
		nvml.supported(gpu->device, &known) != NVML_OK)
		return false;
	wanted &= known;
	if ((wanted & NVML_EVENT_XID) == 0 ||
		nvml.set_create(&gpu->set) != NVML_OK)
		return false;
	if (nvml.set_register(gpu->device, wanted, gpu->set) == NVML_OK)
		return true;
	if (nvml.set_free != NULL)
		(void) nvml.set_free(gpu->set);
	gpu->set = NULL;
	return false;
}

/*
 * Writes the events of a GPU since the last read. A lost GPU has none; its
 * next "sight" line reports that it is lost.
 */
static void
write_events(int index)
{
	NvmlGpu    *gpu = &gpus[index];

	for (int i = 0; i < EVENTS_AT_ONCE && gpu->set != NULL; i++)
	{
		NvmlEvent	event = {0};
		int			code;

		enter(index);
		code = nvml.set_wait(gpu->set, &event, 0);
		leave();
		if (code == NVML_TIMED_OUT)
			return;
		if (code != NVML_OK)
		{
			gpu->set = NULL;
			write_state(index);
			return;
		}
		if ((event.type & NVML_EVENT_XID) != 0)
			printf("xid %d %llu\n", index, event.data);
		else if ((event.type & NVML_EVENT_DOUBLE_BIT_ECC) != 0)
			printf("xid %d %d\n", index, XID_DOUBLE_BIT);
	}
}

/*
 * Writes the state of a GPU.
 */
static void
write_state(int index)
{
	NvmlDevice	device = gpus[index].device;
	NvmlUtilization utilization;
	unsigned int n = 0;
	unsigned long long errors;
	long long	used = -1;
	long long	ecc = -1;
	int			processes = -1;
	int			busy = -1;
	int			code;

	if (device == NULL)
		return;
	enter(index);
	code = used_mib(device, &used);
	if (code != NVML_GPU_IS_LOST && code != NVML_RESET_REQUIRED)
	{
		int			counted = nvml.processes == NULL ? NVML_NOT_SUPPORTED :
			nvml.processes(device, &n, NULL);

		if (counted == NVML_OK || counted == NVML_INSUFFICIENT_SIZE)
			processes = (int) n;
		if (nvml.utilization != NULL &&
			nvml.utilization(device, &utilization) == NVML_OK)
			busy = (int) utilization.gpu;
		if (nvml.ecc != NULL &&
			nvml.ecc(device, NVML_ECC_UNCORRECTED, NVML_ECC_VOLATILE,
					 &errors) == NVML_OK)
			ecc = (long long) errors;
		if (counted == NVML_GPU_IS_LOST || counted == NVML_RESET_REQUIRED)
			code = counted;
	}
	leave();
	printf("sight %d %s %lld %d %d %lld\n", index,
		   code == NVML_OK || code == NVML_NOT_SUPPORTED ? "ok" :
		   code == NVML_GPU_IS_LOST || code == NVML_RESET_REQUIRED ? "lost" :
		   "error", used, processes, busy, ecc);
	if (code == NVML_OK || code == NVML_NOT_SUPPORTED)
	{
		write_remap(index);
		write_sensors(index);
	}
}

/* Writes whether rows of a GPU's memory are to be remapped, or were not. */
static void
write_remap(int index)
{
	unsigned int corrected = 0;
	unsigned int uncorrected = 0;
	unsigned int pending = 0;
	unsigned int failed = 0;
	int			remap = -1;

	enter(index);
	if (nvml.remapped != NULL &&
		nvml.remapped(gpus[index].device, &corrected, &uncorrected, &pending,
					  &failed) == NVML_OK)
		remap = failed != 0 ? 2 : pending != 0 ? 1 : 0;
	leave();
	printf("remap %d %d\n", index, remap);
}

/* Writes what a GPU that works measures of itself. */
static void
write_sensors(int index)
{
	NvmlDevice	device = gpus[index].device;
	unsigned int celsius;
	unsigned int milliwatts;
	unsigned long long millijoules;
	unsigned long long errors;
	long long	values[] = {-1, -1, -1, -1};

	enter(index);
	if (nvml.temperature != NULL &&
		nvml.temperature(device, NVML_SENSOR_GPU, &celsius) == NVML_OK)
		values[0] = celsius;
	if (nvml.power != NULL && nvml.power(device, &milliwatts) == NVML_OK)
		values[1] = milliwatts;
	if (nvml.energy != NULL && nvml.energy(device, &millijoules) == NVML_OK)
		values[2] = (long long) millijoules;
	if (nvml.ecc != NULL &&
		nvml.ecc(device, NVML_ECC_CORRECTED, NVML_ECC_VOLATILE,
				 &errors) == NVML_OK)
		values[3] = (long long) errors;
	leave();
	printf("sensor %d %lld %lld %lld %lld\n", index, values[0], values[1],
		   values[2], values[3]);
}

/*
 * Determines the memory in use, without what the driver reserves if the
 * library reports that. Versions differ in whether "used" includes the
 * reserved memory, so the value is computed from the total.
 */
static int
used_mib(NvmlDevice device, long long *used)
{
	NvmlMemoryV2 newer = {.version = NVML_MEMORY_V2};
	NvmlMemory	memory = {0};
	int			code;

	if (nvml.memory_v2 != NULL &&
		nvml.memory_v2(device, &newer) == NVML_OK)
	{
		*used = (long long) (newer.total >> 20) -
			(long long) (newer.free >> 20) - (long long) (newer.reserved >> 20);
		if (*used < 0)
			*used = 0;
		return NVML_OK;
	}
	code = nvml.memory(device, &memory);
	if (code == NVML_OK)
		*used = (long long) (memory.used >> 20);
	return code;
}

/*
 * Writes the state of each GPU, and once a minute how it is connected. The
 * agent has numbers for new GPUs only after it has read "ready", so what is
 * written before that is written once more.
 */
static void
write_states(void)
{
	static int64_t links_due_ns;
	static int	written;

	for (int i = 0; i < ngpus; i++)
		write_state(i);
	if (written >= 2 && MonotonicNs() < links_due_ns)
		return;
	written += written < 2;
	links_due_ns = MonotonicNs() + LINKS_EVERY;
	for (int i = 0; i < ngpus; i++)
	{
		write_links(i);
		write_pcie(i);
	}
}

/*
 * Writes a GPU's NVLinks: what those that are up carry together in one
 * direction, and the fabric of several machines that the GPU is part of.
 */
static void
write_links(int index)
{
	static const unsigned char none[NVML_CLUSTER_SIZE];
	NvmlDevice	device = gpus[index].device;
	NvmlFabric	fabric = {.status = NVML_UNKNOWN};
	long long	mbps;

	if (device == NULL)
		return;
	enter(index);
	mbps = link_mbps(device);
	if (nvml.fabric == NULL || nvml.fabric(device, &fabric) != NVML_OK)
		fabric.status = NVML_UNKNOWN;
	leave();
	printf("link %d %lld ", index, mbps);
	if (fabric.status != NVML_OK || fabric.state != NVML_FABRIC_COMPLETED ||
		memcmp(fabric.cluster, none, sizeof(none)) == 0)
		printf("-");
	else
	{
		for (int i = 0; i < NVML_CLUSTER_SIZE; i++)
			printf("%02x", fabric.cluster[i]);
		printf(".%u", fabric.clique);
	}
	printf("\n");
}

/*
 * Returns what a GPU's NVLinks carry together, in Mb/s; -1 if that cannot be
 * read, as of a version that is newer than this list.
 */
static long long
link_mbps(NvmlDevice device)
{
	static const long long speeds[] = {0, 160000, 200000, 200000, 200000,
	200000, 200000, 400000};
	long long	sum = 0;

	if (nvml.link_state == NULL || nvml.link_version == NULL)
		return -1;
	for (unsigned int i = 0; i < NVML_MOST_LINKS; i++)
	{
		unsigned int version = 0;
		int			up = 0;

		if (nvml.link_state(device, i, &up) != NVML_OK || up == 0)
			continue;
		if (nvml.link_version(device, i, &version) != NVML_OK ||
			version == 0 || version >= sizeof(speeds) / sizeof(speeds[0]))
			return -1;
		sum += speeds[version];
	}
	return sum;
}

/* Writes the first GPU that is below the same PCIe host bridge as this one. */
static void
write_pcie(int index)
{
	if (gpus[index].device == NULL || nvml.ancestor == NULL)
		return;
	for (int first = 0; first <= index; first++)
	{
		int			level = NVML_TOPOLOGY_HOSTBRIDGE + 1;
		int			code = NVML_OK;

		if (gpus[first].device == NULL)
			continue;
		enter(index);
		if (first < index)
			code = nvml.ancestor(gpus[first].device, gpus[index].device,
								 &level);
		leave();
		if (first < index && (code != NVML_OK ||
							  level > NVML_TOPOLOGY_HOSTBRIDGE))
			continue;
		printf("pcie %d %d\n", index, first);
		return;
	}
}

/*
 * Waits a moment for lines of the agent. Events are written before the answer,
 * so that after a job's end the agent knows the error that ended the job.
 */
static void
read_commands(void)
{
	static char words[256];
	static size_t used;
	struct pollfd in = {STDIN_FILENO, POLLIN, 0};
	ssize_t		n;
	char	   *end;

	if (poll(&in, 1, EVENTS_MS) <= 0)
		return;
	n = read(STDIN_FILENO, words + used, sizeof(words) - 1 - used);
	if (n <= 0)
		exit(0);
	used += n;
	words[used] = '\0';
	while ((end = strchr(words, '\n')) != NULL)
	{
		int			number;

		if (sscanf(words, "look %d", &number) == 1)
		{
			for (int i = 0; i < ngpus; i++)
				write_events(i);
			write_states();
			printf("done %d\n", number);
		}
		used -= end + 1 - words;
		memmove(words, end + 1, used + 1);
	}
	if (used == sizeof(words) - 1)
		used = 0;
}
