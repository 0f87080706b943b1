/*
 * cuda_fake.c
 *		A libcuda.so.1 for tests: GPUs whose memory is good, wrong, slow, or
 *		never answers, as a file says at each start of a program.
 *
 * The environment's GPUCREDIT_FAKE_CUDA names the file, with lines "UUID HOW";
 * CUDA_VISIBLE_DEVICES names the GPU.  HOW is good; wrong: a bit of a word is
 * stuck; slow: a copy takes 0.3 s; or hang.  The GPU says that it has 10 GB of
 * memory, of which only the first words exist: its programs write and verify
 * no others.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOTAL	UINT64_C(10000000000)
#define WORDS	(1 << 18)		/* words of memory that exist */

static uint32_t *memory;
static char how[16] = "absent";

int
cuInit(unsigned int flags)
{
	const char *path = getenv("GPUCREDIT_FAKE_CUDA");
	const char *gpu = getenv("CUDA_VISIBLE_DEVICES");
	FILE	   *file = fopen(path == NULL ? "" : path, "r");
	char		uuid[128];
	char		word[16];

	(void) flags;
	while (file != NULL && fscanf(file, "%127s %15s", uuid, word) == 2)
	{
		if (gpu != NULL && strcmp(uuid, gpu) == 0)
			strcpy(how, word);
	}
	if (file != NULL)
		fclose(file);
	memory = calloc(WORDS, sizeof(uint32_t));
	return strcmp(how, "absent") == 0 ? 100 : 0;
}

int
cuDeviceGet(int *device, int number)
{
	*device = number;
	return 0;
}

int
cuDeviceGetName(char *name, int size, int device)
{
	(void) device;
	snprintf(name, size, "NVIDIA Fake 10GB");
	return 0;
}

int
cuDeviceGetAttribute(int *value, int attribute, int device)
{
	(void) attribute;
	(void) device;
	*value = 2;
	return 0;
}

int
cuCtxCreate_v2(void **context, unsigned int flags, int device)
{
	(void) flags;
	(void) device;
	*context = memory;
	return 0;
}

int
cuModuleLoadDataEx(void **module, const void *text, unsigned int n,
				   int *options, void **values)
{
	(void) text;
	(void) n;
	(void) options;
	(void) values;
	*module = memory;
	return 0;
}

int
cuModuleGetFunction(const char **function, void *module, const char *name)
{
	(void) module;
	*function = name;
	return 0;
}

int
cuMemGetInfo_v2(size_t *available, size_t *total)
{
	*available = *total = TOTAL;
	return 0;
}

/* The last word is that of a small allocation, the counter of wrong words. */
int
cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
	*address = bytes > 4 ? 0 : (WORDS - 1) * sizeof(uint32_t);
	return 0;
}

int
cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes)
{
	(void) to;
	(void) from;
	(void) bytes;
	if (strcmp(how, "slow") == 0)
		usleep(300000);
	return 0;
}

int
cuMemsetD32_v2(uint64_t address, unsigned int value, size_t n)
{
	if (n == 1)
		memory[address / 4] = value;
	return 0;
}

int
cuMemcpyDtoH_v2(void *to, uint64_t address, size_t bytes)
{
	memcpy(to, memory + address / 4, bytes);
	return 0;
}

int
cuLaunchKernel(const char *function, unsigned int x, unsigned int y,
			   unsigned int z, unsigned int a, unsigned int b, unsigned int c,
			   unsigned int shared, void *stream, void **arguments, void **more)
{
	uint32_t	with = *(unsigned int *) arguments[2];
	uint32_t   *wrong = memory + WORDS - 1;

	(void) x, (void) y, (void) z, (void) a, (void) b, (void) c;
	(void) shared, (void) stream, (void) more;
	for (uint32_t i = 0; i < WORDS - 1; i++)
	{
		uint32_t	value = (i * 0x9e3779b9u) ^ with;

		if (strcmp(function, "fill") == 0)
			memory[i] = value & (i == 77 && strcmp(how, "wrong") == 0 ?
								 ~16u : ~0u);
		else if (memory[i] != value)
			*wrong += 1;
	}
	return 0;
}

int
cuCtxSynchronize(void)
{
	while (strcmp(how, "hang") == 0)
		sleep(1);
	return 0;
}

int
cuGetErrorName(int code, const char **name)
{
	*name = code == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
	return 0;
}
