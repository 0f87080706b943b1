/*-------------------------------------------------------------------------
 *
 * gpu_probe.c
 *		gpucredit-gpu-probe: runs small programs on a GPU.
 *
 *	check [MIB]			writes patterns to MIB of memory (default: nine tenths
 *						of the free memory), reads and compares them, and
 *						measures the speed of copies on the device
 *	health [GB_S]		does the same, and has failed if copies are slower; its
 *						last line says what it found
 *	work SECONDS		keeps the whole GPU busy, and measures how many times a
 *						second a program runs
 *	hold MIB SECONDS	allocates MIB of memory, and frees it after SECONDS
 *	fault				reads an address that is not allocated (Xid 31)
 *
 * It prints lines "name value".  Its exit status is 0 for success, 1 if a call
 * of the driver failed or a check found an error, and 2 if it could not begin.
 * It uses the first GPU that CUDA_VISIBLE_DEVICES names.
 *
 * The programs are in PTX, which the driver compiles for its GPU, and are run
 * through the driver's interface (libcuda).  So a node needs no CUDA toolkit.
 *
 *-------------------------------------------------------------------------
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

#define MULTIPROCESSORS	16		/* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
#define ERROR_LOG		5		/* CU_JIT_ERROR_LOG_BUFFER, and its size */
#define ERROR_LOG_SIZE	6
#define THREADS			256
#define COPIES			10
#define SEED			0x9e3779b9u

typedef int CudaDevice;
typedef uint64_t CudaAddress;
typedef struct CudaOpaqueContext *CudaContext;
typedef struct CudaOpaqueModule *CudaModule;
typedef struct CudaOpaqueFunction *CudaFunction;

/*
 * The functions of libcuda that this program calls.  Those whose names end in
 * _v2 take sizes of 64 bits.
 */
static struct
{
	int			(*init) (unsigned int);
	int			(*get) (CudaDevice *, int);
	int			(*name) (char *, int, CudaDevice);
	int			(*attribute) (int *, int, CudaDevice);
	int			(*context) (CudaContext *, unsigned int, CudaDevice);
	int			(*load) (CudaModule *, const void *, unsigned int, int *,
						 void **);
	int			(*function) (CudaFunction *, CudaModule, const char *);
	int			(*memory) (size_t *, size_t *);
	int			(*allocate) (CudaAddress *, size_t);
	int			(*copy) (CudaAddress, CudaAddress, size_t);
	int			(*set) (CudaAddress, unsigned int, size_t);
	int			(*read) (void *, CudaAddress, size_t);
	int			(*launch) (CudaFunction, unsigned int, unsigned int,
						   unsigned int, unsigned int, unsigned int,
						   unsigned int, unsigned int, void *, void **,
						   void **);
	int			(*wait) (void);
	int			(*error) (int, const char **);
}			cuda;

static const struct
{
	void	   *at;
	const char *name;
}			functions[] = {
	{&cuda.init, "cuInit"},
	{&cuda.get, "cuDeviceGet"},
	{&cuda.name, "cuDeviceGetName"},
	{&cuda.attribute, "cuDeviceGetAttribute"},
	{&cuda.context, "cuCtxCreate_v2"},
	{&cuda.load, "cuModuleLoadDataEx"},
	{&cuda.function, "cuModuleGetFunction"},
	{&cuda.memory, "cuMemGetInfo_v2"},
	{&cuda.allocate, "cuMemAlloc_v2"},
	{&cuda.copy, "cuMemcpyDtoD_v2"},
	{&cuda.set, "cuMemsetD32_v2"},
	{&cuda.read, "cuMemcpyDtoH_v2"},
	{&cuda.launch, "cuLaunchKernel"},
	{&cuda.wait, "cuCtxSynchronize"},
	{&cuda.error, "cuGetErrorName"},
};

/*
 * The programs.  "work" makes "rounds" multiplications in each thread.  "fill"
 * sets word i to i x SEED xor "with".  "verify" counts the words that have
 * another value.  "fault" reads the address "at".
 */
static const char ptx[] =
".version 6.3\n.target sm_70\n.address_size 64\n"
".visible .entry work(.param .u32 rounds, .param .u64 out)\n"
"{	.reg .pred p; .reg .u32 i, n; .reg .f32 a; .reg .u64 o;\n"
"	ld.param.u32 n, [rounds]; ld.param.u64 o, [out];\n"
"	mov.u32 i, 0; mov.f32 a, 0f3F800000;\n"
"next: fma.rn.f32 a, a, 0f3F000000, 0f3F800000;\n"
"	add.u32 i, i, 1; setp.lt.u32 p, i, n; @p bra next;\n"
"	setp.lt.f32 p, a, 0f00000000; @!p bra done; st.global.f32 [o], a;\n"
"done: ret; }\n"
".visible .entry fill(.param .u64 at, .param .u64 words, .param .u32 with)\n"
"{	.reg .pred p; .reg .u32 t, b, w, v, x; .reg .u64 i, n, a, s;\n"
"	ld.param.u64 a, [at]; ld.param.u64 n, [words]; ld.param.u32 x, [with];\n"
"	mov.u32 t, %tid.x; mov.u32 b, %ctaid.x; mov.u32 w, %ntid.x;\n"
"	mul.wide.u32 i, b, w; cvt.u64.u32 s, t; add.u64 i, i, s;\n"
"	mov.u32 b, %nctaid.x; mul.wide.u32 s, b, w;\n"
"next: setp.ge.u64 p, i, n; @p bra done;\n"
"	{ .reg .u64 c; cvt.u32.u64 v, i; mul.lo.u32 v, v, 0x9e3779b9; xor.b32 v, v, x;\n"
"	shl.b64 c, i, 2; add.u64 c, c, a; st.global.u32 [c], v; }\n"
"	add.u64 i, i, s; bra next;\n"
"done: ret; }\n"
".visible .entry verify(.param .u64 at, .param .u64 words, .param .u32 with, .param .u64 wrong)\n"
"{	.reg .pred p; .reg .u32 t, b, w, v, x, g; .reg .u64 i, n, a, s, o;\n"
"	ld.param.u64 a, [at]; ld.param.u64 n, [words]; ld.param.u32 x, [with]; ld.param.u64 o, [wrong];\n"
"	mov.u32 t, %tid.x; mov.u32 b, %ctaid.x; mov.u32 w, %ntid.x;\n"
"	mul.wide.u32 i, b, w; cvt.u64.u32 s, t; add.u64 i, i, s;\n"
"	mov.u32 b, %nctaid.x; mul.wide.u32 s, b, w;\n"
"next: setp.ge.u64 p, i, n; @p bra done;\n"
"	{ .reg .u64 c; cvt.u32.u64 v, i; mul.lo.u32 v, v, 0x9e3779b9; xor.b32 v, v, x;\n"
"	shl.b64 c, i, 2; add.u64 c, c, a; ld.global.u32 g, [c]; }\n"
"	setp.ne.u32 p, g, v; @p red.global.add.u32 [o], 1;\n"
"	add.u64 i, i, s; bra next;\n"
"done: ret; }\n"
".visible .entry fault(.param .u64 at)\n"
"{	.reg .u64 a; .reg .u32 v; ld.param.u64 a, [at]; ld.global.u32 v, [a];\n"
"	add.u32 v, v, 1; st.global.u32 [a], v; ret; }\n";

static CudaModule module;
static int	multiprocessors;

static void open_gpu(void);
static void load(void);
static void must(int code, const char *what);
static int	check(long long mib, double *bandwidth);
static int	health(double least);
static int	work(double seconds);
static int	hold(long long mib, unsigned int seconds);
static int	fault(void);
static CudaFunction function(const char *name);
static CudaAddress allocate(size_t bytes);
static void launch(CudaFunction kernel, unsigned int blocks, void **arguments);

int
main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";
	bool		known = (strcmp(command, "check") == 0 && argc <= 3) ||
		(strcmp(command, "health") == 0 && argc <= 3) ||
		(strcmp(command, "work") == 0 && argc == 3) ||
		(strcmp(command, "hold") == 0 && argc == 4) ||
		(strcmp(command, "fault") == 0 && argc == 2);

	if (!known)
	{
		fputs("usage: gpucredit-gpu-probe check [MIB] | health [GB_S] |"
			  " work SECONDS | hold MIB SECONDS | fault\n", stderr);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	open_gpu();
	if (*command == 'c')
		return check(argc > 2 ? atoll(argv[2]) : 0, NULL);
	if (strcmp(command, "health") == 0)
		return health(argc > 2 ? atof(argv[2]) : 0);
	if (*command == 'w')
		return work(atof(argv[2]));
	if (strcmp(command, "hold") == 0)
		return hold(atoll(argv[2]), atoi(argv[3]));
	return fault();
}

/*
 * Loads libcuda, and creates a context on the first GPU.
 */
static void
open_gpu(void)
{
	const char *name = getenv("GPUCREDIT_CUDA_LIBRARY");
	void	   *library = dlopen(name == NULL ? "libcuda.so.1" : name,
								 RTLD_NOW | RTLD_LOCAL);
	CudaDevice	device;
	CudaContext context;
	char		model[96];

	if (library == NULL)
	{
		printf("error %s\n", dlerror());
		exit(2);
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
	{
		void	   *found = dlsym(library, functions[i].name);

		if (found == NULL)
		{
			printf("error libcuda has no %s\n", functions[i].name);
			exit(2);
		}
		memcpy(functions[i].at, &found, sizeof(found));
	}
	must(cuda.init(0), "init");
	must(cuda.get(&device, 0), "device");
	must(cuda.name(model, sizeof(model), device), "name");
	must(cuda.context(&context, 0, device), "context");
	must(cuda.attribute(&multiprocessors, MULTIPROCESSORS, device),
		 "multiprocessors");
	load();
	printf("model %s\nmultiprocessors %d\n", model, multiprocessors);
}

/*
 * Makes the driver compile the programs.
 */
static void
load(void)
{
	static char log[4096];
	int			options[] = {ERROR_LOG, ERROR_LOG_SIZE};
	void	   *values[] = {log, (void *) sizeof(log)};
	int			code = cuda.load(&module, ptx, 2, options, values);

	if (code != 0)
		printf("log %s\n", log);
	must(code, "program");
}

/*
 * Ends the program if a call of the driver failed.  The exit status is 2 until
 * the programs are compiled, because until then the GPU has not been tested.
 */
static void
must(int code, const char *what)
{
	const char *name = "unknown";

	if (code == 0)
		return;
	(void) cuda.error(code, &name);
	printf("error %s %d %s\n", what, code, name);
	exit(module == NULL ? 2 : 1);
}

/*
 * Fills and verifies memory with two patterns, of which each is the complement
 * of the other.  Then measures the speed of copies, in GB/s.
 */
static int
check(long long mib, double *bandwidth)
{
	CudaFunction fill = function("fill");
	CudaFunction verify = function("verify");
	size_t		available;
	size_t		total;
	size_t		bytes;
	uint64_t	words;
	CudaAddress counter = allocate(4);
	CudaAddress memory;
	unsigned int wrong = 0;
	int64_t		since;
	double		seconds;

	must(cuda.memory(&available, &total), "memory");
	bytes = mib > 0 ? (size_t) mib << 20 : available / 10 * 9;
	bytes &= ~(size_t) 0xfffff;
	words = bytes / 4;
	memory = allocate(bytes);
	must(cuda.set(counter, 0, 1), "set");
	for (int round = 0; round < 2; round++)
	{
		unsigned int with = round == 0 ? 0 : ~0u;
		void	   *filled[] = {&memory, &words, &with};
		void	   *verified[] = {&memory, &words, &with, &counter};

		launch(fill, multiprocessors * 8, filled);
		launch(verify, multiprocessors * 8, verified);
	}
	must(cuda.wait(), "pattern");
	must(cuda.read(&wrong, counter, 4), "read");
	printf("memory_mib %zu\nmemory_wrong_words %u\n", bytes >> 20, wrong);

	since = MonotonicNs();
	for (int i = 0; i < COPIES; i++)
		must(cuda.copy(memory, memory + bytes / 2, bytes / 2), "copy");
	must(cuda.wait(), "copy");
	seconds = (double) (MonotonicNs() - since) / NS_PER_S;
	/* A copy of half the memory reads and writes each of its bytes once. */
	printf("bandwidth_gb_s %.1f\n", bytes * (double) COPIES / seconds / 1e9);
	if (bandwidth != NULL)
		*bandwidth = bytes * (double) COPIES / seconds / 1e9;
	return wrong == 0 ? 0 : 1;
}

/*
 * Checks the memory for the agent, which keeps the last line as the reason.
 */
static int
health(double least)
{
	double		bandwidth;

	if (check(0, &bandwidth) != 0)
	{
		printf("memory does not keep what is written to it\n");
		return 1;
	}
	if (bandwidth < least)
	{
		printf("copies run at %.1f GB/s, and are to run at %.1f\n", bandwidth,
			   least);
		return 1;
	}
	printf("memory is good, and copies run at %.1f GB/s\n", bandwidth);
	return 0;
}

/*
 * Runs a kernel that has threads for the whole GPU again and again, and
 * measures how many times a second it runs.
 */
static int
work(double seconds)
{
	CudaFunction kernel = function("work");
	CudaAddress out = allocate(4);
	unsigned int rounds = 20000;
	void	   *arguments[] = {&rounds, &out};
	int64_t		since;
	int64_t		now;
	long long	n = 0;

	launch(kernel, 4096, arguments);
	must(cuda.wait(), "work");
	since = now = MonotonicNs();
	while (now - since < (int64_t) (seconds * NS_PER_S))
	{
		launch(kernel, 4096, arguments);
		must(cuda.wait(), "work");
		n++;
		now = MonotonicNs();
	}
	printf("work_per_s %.2f\n", n / ((double) (now - since) / NS_PER_S));
	return 0;
}

static int
hold(long long mib, unsigned int seconds)
{
	CudaAddress memory = allocate((size_t) mib << 20);

	must(cuda.set(memory, SEED, (size_t) mib << 18), "set");
	must(cuda.wait(), "set");
	printf("took_mib %lld\n", mib);
	sleep(seconds);
	return 0;
}

/*
 * Reads an address that is not allocated.  Returns 0 if the driver reports an
 * error.
 */
static int
fault(void)
{
	CudaAddress nowhere = 16;
	void	   *arguments[] = {&nowhere};
	int			code;

	launch(function("fault"), 1, arguments);
	code = cuda.wait();
	printf("fault %d\n", code);
	return code == 0 ? 1 : 0;
}

static CudaFunction
function(const char *name)
{
	CudaFunction found;

	must(cuda.function(&found, module, name), name);
	return found;
}

static CudaAddress
allocate(size_t bytes)
{
	CudaAddress memory;

	must(cuda.allocate(&memory, bytes), "allocate");
	return memory;
}

static void
launch(CudaFunction kernel, unsigned int blocks, void **arguments)
{
	must(cuda.launch(kernel, blocks, 1, 1, THREADS, 1, 1, 0, NULL, arguments,
					 NULL), "launch");
}
