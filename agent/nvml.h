/*-------------------------------------------------------------------------
 *
 * nvml.h
 *		The process that calls NVIDIA's library, and the memory it shares with
 *		the agent.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_NVML_H
#define GPUCREDIT_AGENT_NVML_H

#include <stdint.h>

#define NVML_CALL_FD	3		/* descriptor from which NvmlCall is mapped */
#define NVML_NO_GPU		(-1)

/* The library call that is under way, for the agent that waits for its end. */
typedef struct NvmlCall
{
	volatile int64_t since_ns;	/* CLOCK_MONOTONIC of its start, or 0 if none
								 * is under way */
	volatile int index;			/* NVML's index of the GPU, or NVML_NO_GPU for
								 * a call of the whole driver */
} NvmlCall;

extern void NvmlRun(int nskips, char **skips) __attribute__((noreturn));

#endif							/* GPUCREDIT_AGENT_NVML_H */
