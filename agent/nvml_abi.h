/*-------------------------------------------------------------------------
 *
 * nvml_abi.h
 *		The parts of NVIDIA's management library (NVML) that the agent calls.
 *
 * These declarations are not copied from NVIDIA's header. The names of the
 * library's functions fix its interface: a structure whose layout changes gets
 * another name.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_NVML_ABI_H
#define GPUCREDIT_AGENT_NVML_ABI_H

/* Return values of its functions */
#define NVML_OK					0
#define NVML_INVALID_ARGUMENT	2
#define NVML_NOT_SUPPORTED		3
#define NVML_INSUFFICIENT_SIZE	7
#define NVML_TIMED_OUT			10
#define NVML_GPU_IS_LOST		15
#define NVML_RESET_REQUIRED		16
#define NVML_UNKNOWN			999

#define NVML_UUID_SIZE			96
#define NVML_NAME_SIZE			96

/* Kinds of events */
#define NVML_EVENT_DOUBLE_BIT_ECC	UINT64_C(0x2)
#define NVML_EVENT_XID				UINT64_C(0x8)

/* The sensor of nvmlDeviceGetTemperature that is in the GPU itself */
#define NVML_SENSOR_GPU			0

/* Arguments of nvmlDeviceGetTotalEccErrors */
#define NVML_ECC_CORRECTED		0
#define NVML_ECC_UNCORRECTED	1
#define NVML_ECC_VOLATILE		0

/* NVLink, and the fabric of NVSwitches that several machines share */
#define NVML_MOST_LINKS			18
#define NVML_FABRIC_COMPLETED	3	/* a GPU's state once it is part of one */
#define NVML_CLUSTER_SIZE		16	/* bytes of the fabric's UUID */

/* Two GPUs are at most this far apart if they share a PCIe host bridge. */
#define NVML_TOPOLOGY_HOSTBRIDGE	30

typedef struct NvmlOpaqueDevice *NvmlDevice;
typedef struct NvmlOpaqueSet *NvmlEventSet;

/* A GPU's fabric. It is all zeros for the NVSwitches of a single machine. */
typedef struct NvmlFabric
{
	unsigned char cluster[NVML_CLUSTER_SIZE];
	int			status;
	unsigned int clique;		/* the GPUs of a fabric that reach each other */
	unsigned char state;
} NvmlFabric;

/* "used" includes memory that the driver reserves. */
typedef struct NvmlMemory
{
	unsigned long long total;
	unsigned long long free;
	unsigned long long used;
} NvmlMemory;

typedef struct NvmlMemoryV2
{
	unsigned int version;
	unsigned long long total;
	unsigned long long reserved;
	unsigned long long free;
	unsigned long long used;
} NvmlMemoryV2;

#define NVML_MEMORY_V2	((unsigned int) sizeof(NvmlMemoryV2) | 2u << 24)

/* Values are in percent. */
typedef struct NvmlUtilization
{
	unsigned int gpu;
	unsigned int memory;
} NvmlUtilization;

/* "data" of an Xid event is the Xid's number. */
typedef struct NvmlEvent
{
	NvmlDevice	device;
	unsigned long long type;
	unsigned long long data;
	unsigned int gpu_instance;
	unsigned int compute_instance;
} NvmlEvent;

#endif							/* GPUCREDIT_AGENT_NVML_ABI_H */
