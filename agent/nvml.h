/*-------------------------------------------------------------------------
 *
 * nvml.h
 *		The process that asks NVIDIA's library, and what it shares.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_NVML_H
#define GPUCREDIT_AGENT_NVML_H

#include <stdint.h>

#define NVML_CALL_FD	3		/* where NvmlCall is mapped from */
#define NVML_NO_GPU		(-1)

/* The call that is under way, for the agent that waits for its end. */
typedef struct NvmlCall
{
	volatile int64_t since_ns;	/* CLOCK_MONOTONIC; 0: none */
	volatile int index;			/* of the GPU; NVML_NO_GPU: of the driver */
} NvmlCall;

extern void NvmlRun(int nskips, char **skips) __attribute__((noreturn));

#endif							/* GPUCREDIT_AGENT_NVML_H */
