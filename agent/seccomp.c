/*-------------------------------------------------------------------------
 *
 * seccomp.c
 *		Restricts which system calls a job may make.
 *
 * A BPF program refuses (EPERM) the calls that container runtimes refuse by
 * default. They change the machine (mounts, modules, clocks, swap, another
 * kernel), inspect other processes, or are often used to attack the kernel
 * (bpf, keyrings, userfaultfd, io_uring). It allows all other calls, so no
 * program fails because of a call newer than this list. A call of another
 * architecture, where numbers differ, ends the process.
 *
 * bubblewrap makes namespaces and mounts before the job runs, so it receives
 * the program and loads it last (SeccompPass).
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "file.h"
#include "seccomp.h"

#if defined(__x86_64__)
#define OUR_ARCH	AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH	AUDIT_ARCH_AARCH64
#else
#error "no list of system calls for this architecture"
#endif

#define X32_BIT		0x40000000	/* bit of calls of the x32 ABI on x86-64 */

/*
 * Flags of the namespaces that clone may create; the time namespace has no
 * flag there.
 */
#define CLONE_NEW	0x7e020000

#define DENY(error)	(SECCOMP_RET_ERRNO | (error))

static const int denied[] = {
	SYS_acct,
	SYS_add_key,
	SYS_bpf,
	SYS_clock_adjtime,
	SYS_clock_settime,
	SYS_delete_module,
	SYS_fanotify_init,
	SYS_finit_module,
	SYS_fsconfig,
	SYS_fsmount,
	SYS_fsopen,
	SYS_fspick,
	SYS_init_module,
	SYS_io_uring_enter,
	SYS_io_uring_register,
	SYS_io_uring_setup,
#ifdef SYS_ioperm
	SYS_ioperm,
#endif
#ifdef SYS_iopl
	SYS_iopl,
#endif
#ifdef SYS_kexec_file_load
	SYS_kexec_file_load,
#endif
	SYS_kexec_load,
	SYS_keyctl,
#ifdef SYS_lookup_dcookie
	SYS_lookup_dcookie,
#endif
	SYS_mount,
	SYS_mount_setattr,
	SYS_move_mount,
	SYS_name_to_handle_at,
#ifdef SYS_nfsservctl
	SYS_nfsservctl,
#endif
	SYS_open_by_handle_at,
	SYS_open_tree,
	SYS_perf_event_open,
	SYS_pidfd_getfd,
	SYS_pivot_root,
	SYS_quotactl,
	SYS_reboot,
	SYS_request_key,
	SYS_setns,
	SYS_settimeofday,
	SYS_swapoff,
	SYS_swapon,
#ifdef SYS_sysfs
	SYS_sysfs,
#endif
	SYS_syslog,
	SYS_umount2,
	SYS_unshare,
	SYS_userfaultfd,
#ifdef SYS_uselib
	SYS_uselib,
#endif
	SYS_vhangup,
};

#define DENIED		((int) (sizeof(denied) / sizeof(denied[0])))
#define MOST		(2 * DENIED + 32)

static int	write_program(struct sock_filter *program);
static struct sock_filter load(size_t offset);
static struct sock_filter jump(int test, unsigned value, int yes, int no);
static struct sock_filter leave(unsigned verdict);

/*
 * Filters this process and all its children from now on.
 */
bool
SeccompLoad(void)
{
	struct sock_filter program[MOST];
	struct sock_fprog all = {.filter = program};

	all.len = write_program(program);
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) == 0;
}

/*
 * Leaves the program at SECCOMP_FD, for bubblewrap to load.
 */
bool
SeccompPass(void)
{
	struct sock_filter program[MOST];
	int			n = write_program(program);
	int			file = memfd_create("seccomp", MFD_CLOEXEC);

	return file >= 0 && WriteAll(file, program, n * sizeof(program[0])) &&
		lseek(file, 0, SEEK_SET) == 0 && dup2(file, SECCOMP_FD) >= 0;
}

/*
 * Ensures that no program executed later gets a capability, not even as root.
 */
bool
CapabilitiesBound(void)
{
	for (int i = 0; prctl(PR_CAPBSET_READ, i) >= 0; i++)
	{
		if (prctl(PR_CAPBSET_DROP, i) != 0 && errno != EPERM)
			return false;
	}
	return true;
}

/* Drops the capabilities of this process. */
bool
CapabilitiesClear(void)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct none[2];

	memset(none, 0, sizeof(none));
	return syscall(SYS_capset, &head, none) == 0;
}

/*
 * Writes the program, which checks the architecture, then each refused call,
 * and allows all other calls. Returns its length.
 */
static int
write_program(struct sock_filter *program)
{
	int			at = 0;

	program[at++] = load(offsetof(struct seccomp_data, arch));
	program[at++] = jump(BPF_JEQ, OUR_ARCH, 1, 0);
	program[at++] = leave(SECCOMP_RET_KILL_PROCESS);
	program[at++] = load(offsetof(struct seccomp_data, nr));
	program[at++] = jump(BPF_JGE, X32_BIT, 0, 1);
	program[at++] = leave(DENY(EPERM));
	for (int i = 0; i < DENIED; i++)
	{
		program[at++] = jump(BPF_JEQ, denied[i], 0, 1);
		program[at++] = leave(DENY(EPERM));
	}

	/*
	 * A filter cannot read the flags of clone3. With ENOSYS, the C library
	 * uses clone instead.
	 */
	program[at++] = jump(BPF_JEQ, SYS_clone3, 0, 1);
	program[at++] = leave(DENY(ENOSYS));
	program[at++] = jump(BPF_JEQ, SYS_clone, 0, 4);
	program[at++] = load(offsetof(struct seccomp_data, args[0]));
	program[at++] = jump(BPF_JSET, CLONE_NEW, 0, 1);
	program[at++] = leave(DENY(EPERM));
	program[at++] = leave(SECCOMP_RET_ALLOW);

	/*
	 * A debugger may trace the program that it starts, but may not attach to
	 * other processes.
	 */
	program[at++] = jump(BPF_JEQ, SYS_ptrace, 0, 4);
	program[at++] = load(offsetof(struct seccomp_data, args[0]));
	program[at++] = jump(BPF_JEQ, PTRACE_ATTACH, 1, 0);
	program[at++] = jump(BPF_JEQ, PTRACE_SEIZE, 0, 1);
	program[at++] = leave(DENY(EPERM));
	program[at++] = leave(SECCOMP_RET_ALLOW);
	return at;
}

static struct sock_filter
load(size_t offset)
{
	return (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset);
}

/*
 * Builds a jump: how many instructions to skip if the test is true, and if it
 * is false.
 */
static struct sock_filter
jump(int test, unsigned value, int yes, int no)
{
	return (struct sock_filter) BPF_JUMP(BPF_JMP | test | BPF_K, value, yes,
										 no);
}

static struct sock_filter
leave(unsigned verdict)
{
	return (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, verdict);
}
