/*-------------------------------------------------------------------------
 *
 * device_filter.c
 *		Restricts which device files the processes of a cgroup may open.
 *
 * A BPF program on the cgroup allows the attempt's GPUs, the other files of
 * their driver, and devices that any program needs (null, random, its
 * terminal). It refuses every other device, including other attempts' GPUs,
 * under any file name.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "device_filter.h"
#include "devices.h"

#define ALLOWED_MOST	128
#define ANY_MINOR		(-1)

/* A character device, by its device numbers in Linux. */
typedef struct Allowed
{
	int			major;
	int			minor;			/* ANY_MINOR allows all devices of that major */
} Allowed;

/*
 * null, zero, full, random, urandom, tty, console, ptmx, and pseudo terminals
 */
static const Allowed for_all[] = {
	{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, {5, 0}, {5, 1}, {5, 2},
	{136, ANY_MINOR},
};

/* Files of the driver that every GPU of its kind needs. */
const char *const DriverFiles[] = {
	"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
	"/dev/nvidia-modeset", "/dev/kfd", NULL
};

static int	collect(uint64_t gpus, Allowed *allowed);
static bool add_file(Allowed *allowed, int *n, const char *path);
static int	write_program(const Allowed *allowed, int n,
						  struct bpf_insn *program);
static struct bpf_insn insn(int code, int dst, int src, int off, int imm);
static int	bpf(int command, union bpf_attr *attr);

/*
 * Attaches the filter to a cgroup. Returns false if the machine or the agent's
 * rights do not allow it.
 */
bool
DeviceFilter(const char *cgroup, uint64_t gpus)
{
	Allowed		allowed[ALLOWED_MOST];
	struct bpf_insn program[ALLOWED_MOST * 5 + 8];
	union bpf_attr attr;
	int			dir = open(cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int			loaded;
	int			status = -1;

	if (dir < 0)
		return false;
	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
	attr.insn_cnt = write_program(allowed, collect(gpus, allowed), program);
	attr.insns = (uint64_t) (uintptr_t) program;
	attr.license = (uint64_t) (uintptr_t) "PostgreSQL";
	loaded = bpf(BPF_PROG_LOAD, &attr);
	if (loaded >= 0)
	{
		memset(&attr, 0, sizeof(attr));
		attr.target_fd = dir;
		attr.attach_bpf_fd = loaded;
		attr.attach_type = BPF_CGROUP_DEVICE;
		attr.attach_flags = BPF_F_ALLOW_MULTI;
		status = bpf(BPF_PROG_ATTACH, &attr);
		close(loaded);
	}
	close(dir);
	return status == 0;
}

/*
 * Lists the devices that the attempt may open, and returns their number.
 */
static int
collect(uint64_t gpus, Allowed *allowed)
{
	int			n = sizeof(for_all) / sizeof(for_all[0]);
	bool		any = false;

	memcpy(allowed, for_all, sizeof(for_all));
	for (int i = 0; i < DeviceCount(); i++)
	{
		if ((gpus >> i & 1) != 0)
			any = add_file(allowed, &n, DeviceNumber(i)->path) || any;
	}
	for (int i = 0; any && DriverFiles[i] != NULL; i++)
		(void) add_file(allowed, &n, DriverFiles[i]);
	return n;
}

static bool
add_file(Allowed *allowed, int *n, const char *path)
{
	struct stat st;

	if (*path == '\0' || stat(path, &st) != 0 || !S_ISCHR(st.st_mode) ||
		*n == ALLOWED_MOST)
		return false;
	allowed[*n].major = major(st.st_rdev);
	allowed[(*n)++].minor = minor(st.st_rdev);
	return true;
}

/*
 * Writes the program: for each allowed device, it returns 1 if this is the
 * device to be opened; at the end it returns 0.
 */
static int
write_program(const Allowed *allowed, int n, struct bpf_insn *program)
{
	int			at = 0;

	/*
	 * r2 is the type (block or character), r3 the major and r4 the minor
	 * number.
	 */
	program[at++] = insn(BPF_LDX | BPF_W | BPF_MEM, 2, 1, 0, 0);
	program[at++] = insn(BPF_ALU | BPF_AND | BPF_K, 2, 0, 0, 0xffff);
	program[at++] = insn(BPF_LDX | BPF_W | BPF_MEM, 3, 1, 4, 0);
	program[at++] = insn(BPF_LDX | BPF_W | BPF_MEM, 4, 1, 8, 0);
	program[at++] = insn(BPF_JMP | BPF_JNE | BPF_K, 2, 0, n * 4,
						 BPF_DEVCG_DEV_CHAR);
	for (int i = 0; i < n; i++)
	{
		program[at++] = insn(BPF_JMP | BPF_JNE | BPF_K, 3, 0, 3,
							 allowed[i].major);
		if (allowed[i].minor == ANY_MINOR)
			program[at++] = insn(BPF_JMP | BPF_JA, 0, 0, 0, 0);
		else
			program[at++] = insn(BPF_JMP | BPF_JNE | BPF_K, 4, 0, 2,
								 allowed[i].minor);
		program[at++] = insn(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 1);
		program[at++] = insn(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	}
	program[at++] = insn(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
	program[at++] = insn(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	return at;
}

static struct bpf_insn
insn(int code, int dst, int src, int off, int imm)
{
	struct bpf_insn one = {.code = code, .dst_reg = dst, .src_reg = src,
		.off = off, .imm = imm};

	return one;
}

static int
bpf(int command, union bpf_attr *attr)
{
	return (int) syscall(SYS_bpf, command, attr, sizeof(*attr));
}
