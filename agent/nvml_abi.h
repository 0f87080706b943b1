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

/* Arguments of nvmlDeviceGetTotalEccErrors */
#define NVML_ECC_UNCORRECTED	1
#define NVML_ECC_VOLATILE		0

typedef struct NvmlOpaqueDevice *NvmlDevice;
typedef struct NvmlOpaqueSet *NvmlEventSet;

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
