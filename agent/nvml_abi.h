/*-------------------------------------------------------------------------
 *
 * nvml_abi.h
 *		What of NVIDIA's management library (NVML) the agent calls.
 *
 * These declarations are our own.  The library's interface is fixed by the
 * names of its functions: a layout that changes gets another name.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_NVML_ABI_H
#define GPUCREDIT_AGENT_NVML_ABI_H

/* what its functions return */
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

/* kinds of events */
#define NVML_EVENT_DOUBLE_BIT_ECC	UINT64_C(0x2)
#define NVML_EVENT_XID				UINT64_C(0x8)

/* of nvmlDeviceGetTotalEccErrors */
#define NVML_ECC_UNCORRECTED	1
#define NVML_ECC_VOLATILE		0

typedef struct NvmlOpaqueDevice *NvmlDevice;
typedef struct NvmlOpaqueSet *NvmlEventSet;

/* used: with what the driver keeps for itself */
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

/* in percent */
typedef struct NvmlUtilization
{
	unsigned int gpu;
	unsigned int memory;
} NvmlUtilization;

/* of an Xid, data is its number */
typedef struct NvmlEvent
{
	NvmlDevice	device;
	unsigned long long type;
	unsigned long long data;
	unsigned int gpu_instance;
	unsigned int compute_instance;
} NvmlEvent;

#endif							/* GPUCREDIT_AGENT_NVML_ABI_H */
