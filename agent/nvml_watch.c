/*-------------------------------------------------------------------------
 *
 * nvml_watch.c
 *		The agent's side of the process that calls NVML (nvml.c).
 *
 * The agent itself never calls the library. A call that takes longer than
 * nvml_timeout_ms counts as hanging: the agent kills the process and starts
 * another one, which does not open that GPU. A process that the kernel cannot
 * kill remains. At most one remains for each GPU, and one for the driver, as
 * the agent does not try a GPU again before its last process has ended.
 *
 * The process does not open a GPU that needs a reset either, because the
 * operator could not reset a GPU that is open. The agent tries a lost or hung
 * GPU again, at growing intervals, with a new process.
 *
 * GPUs keep their numbers: <state>/inventory has the boot, and a line UUID
 * INDEX ECC for each number.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent.h"
#include "clock.h"
#include "config.h"
#include "devices.h"
#include "energy.h"
#include "file.h"
#include "log.h"
#include "memory.h"
#include "nvml.h"
#include "nvml_watch.h"

#define START_LIMIT		(5 * NS_PER_S)	/* how long to wait at the start if
										 * the disk has the devices */
#define RETRY_MOST		(1800 * NS_PER_S)
#define INIT_TIMES		6		/* factor by which the time limit is longer
								 * while the driver loads */
#define XID_DOUBLE_BIT	48

static const char *configuration;
static pid_t child;				/* the process, or 0 */
static int	from_child = -1;
static int	to_child = -1;
static NvmlCall *call;
static bool ready;				/* it has written the line of each GPU */
static bool starting;
static int64_t again_ns;		/* when to start another process, or 0 to keep
								 * this one */
static int	asked;
static int	answered;
static char lines[4096];
static size_t nlines;
static int64_t respawn_ns;
static int64_t retry_ns;
static int64_t retry_pause_ns;
static char failure[256];		/* the failure that was logged last */
static bool hung[MOST_DEVICES]; /* GPUs that hung, by NVML's index */
static pid_t stuck[MOST_DEVICES];	/* killed processes that have not ended,
									 * by NVML's index */
static pid_t driver_stuck;
static bool named[MOST_DEVICES];	/* whether the present process listed the
									 * GPU, by device number */
static bool other_boot;
static char *newcomers[MOST_DEVICES];
static int	nnewcomers;

static void read_inventory(void);
static void write_inventory(void);
static void spawn(void);
static void run_child(int in, int out, int shared) __attribute__((noreturn));
static void drop_child(void);
static void check_hang(void);
static void check_restart(void);
static bool any_to_retry(void);
static void read_lines(void);
static void parse_line(char *line);
static void parse_gpu(char *line);
static void know(int number, int index, int minor, long long memory,
				 bool events);
static void number_new_gpus(void);
static void parse_ready(void);
static void parse_state(const char *line);
static void parse_remap(const char *line);
static void parse_sensors(const char *line);
static void parse_xid(const char *line);
static void parse_link(const char *line);
static void parse_pcie(const char *line);
static int	number_of(int index);

/*
 * Waits until the GPUs are known, when the agent starts. If the disk has them,
 * it waits only briefly, as jobs may run on them.
 */
void
NvmlStart(const char *path)
{
	int64_t		until;

	configuration = path;
	starting = true;
	retry_pause_ns = INIT_TIMES * config.nvml_timeout_ms * NS_PER_MS;
	read_inventory();
	until = MonotonicNs() + (DeviceCount() == 0 ? 2 * retry_pause_ns :
							 retry_pause_ns < START_LIMIT ? retry_pause_ns :
							 START_LIMIT);
	spawn();
	while (!ready && MonotonicNs() < until)
	{
		struct pollfd in = {from_child, POLLIN, 0};

		(void) poll(&in, 1, 100);
		NvmlRead();
		if (*failure != '\0' && DeviceCount() == 0)
			Die("devices = nvml: %s", failure);
	}
	if (!ready && DeviceCount() == 0)
		Die("devices = nvml: the driver does not answer");
	starting = false;
	if (DeviceCount() == 0)
		Die("devices = nvml: there is no GPU");
}

/*
 * Reads the numbers that GPUs had before.
 */
static void
read_inventory(void)
{
	int			state = open(config.state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char	   *text = FileGet(state, "inventory", NULL);
	char	   *rest = text;
	char	   *line = strsep(&rest, "\n");

	close(state);
	other_boot = line == NULL || strcmp(line, boot_id) != 0;
	while (line != NULL && (line = strsep(&rest, "\n")) != NULL)
	{
		char		uuid[96];
		int			index;
		long long	ecc;
		Device	   *device;

		if (sscanf(line, "%95s %d %lld", uuid, &index, &ecc) != 3)
			continue;
		device = DeviceNumber(DeviceAdd(uuid));
		device->index = other_boot ? -1 : index;
		device->ecc = other_boot ? 0 : ecc;
	}
	free(text);
}

/*
 * Writes the inventory. If that fails, a restarted agent may miss an ECC error
 * that was counted.
 */
static void
write_inventory(void)
{
	int			state = open(config.state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char	   *text = Format("%s\n", boot_id);

	for (int i = 0; i < DeviceCount(); i++)
	{
		const Device *device = DeviceNumber(i);
		char	   *more = Format("%s%s %d %lld\n", text, device->uuid,
								  device->index, (long long) device->ecc);

		free(text);
		text = more;
	}
	if (!FilePut(state, "inventory", text, strlen(text)))
		LogLine("event=inventory_not_written error=\"%s\"", strerror(errno));
	free(text);
	close(state);
}

/*
 * Starts the process.
 */
static void
spawn(void)
{
	int			in[2];
	int			out[2];
	int			shared = memfd_create("gpucredit-nvml", MFD_CLOEXEC);

	again_ns = 0;
	respawn_ns = MonotonicNs() + config.device_poll_ms * NS_PER_MS;
	if (shared < 0 || ftruncate(shared, sizeof(NvmlCall)) != 0 ||
		pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
		Die("could not start to ask NVML: %s", strerror(errno));
	if (call != NULL)
		munmap(call, sizeof(NvmlCall));
	call = mmap(NULL, sizeof(NvmlCall), PROT_READ | PROT_WRITE, MAP_SHARED,
				shared, 0);
	if (call == MAP_FAILED)
		Die("could not start to ask NVML: %s", strerror(errno));
	child = fork();
	if (child == 0)
		run_child(in[0], out[1], shared);
	close(shared);
	close(in[0]);
	close(out[1]);
	to_child = in[1];
	from_child = out[0];
	fcntl(from_child, F_SETFL, O_NONBLOCK);
	fcntl(to_child, F_SETFL, O_NONBLOCK);
	ready = false;
	nlines = 0;
	memset(named, 0, sizeof(named));
	if (child < 0)
		drop_child();
}

/*
 * Runs in the new process, which ends when the agent does.
 */
static void
run_child(int in, int out, int shared)
{
	char	   *argv[MOST_DEVICES + 4] = {"gpucredit-agent", "nvml",
	(char *) configuration};
	int			n = 3;
	sigset_t	none;

	for (int index = 0; index < MOST_DEVICES; index++)
	{
		int			number = number_of(index);

		if (hung[index] || stuck[index] != 0 ||
			(number >= 0 && DeviceNumber(number)->until_reset))
			argv[n++] = Format("%d", index);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);

	/*
	 * Move the descriptors above their final numbers first, so that no dup2
	 * closes one of them.
	 */
	in = fcntl(in, F_DUPFD_CLOEXEC, NVML_CALL_FD + 1);
	out = fcntl(out, F_DUPFD_CLOEXEC, NVML_CALL_FD + 1);
	shared = fcntl(shared, F_DUPFD_CLOEXEC, NVML_CALL_FD + 1);
	if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
		dup2(shared, NVML_CALL_FD) >= 0)
		execv("/proc/self/exe", argv);
	_exit(127);
}

/*
 * Ends the process.
 */
static void
drop_child(void)
{
	if (child > 0)
		kill(child, SIGKILL);
	child = 0;
	ready = false;
	close(to_child);
	close(from_child);
	to_child = from_child = -1;
}

/* Returns the descriptor to wait for, or -1. */
int
NvmlFd(void)
{
	return from_child;
}

/*
 * Requests a check of all GPUs now. Returns the number of the request.
 */
int
NvmlAsk(void)
{
	char		word[32];
	int			len = snprintf(word, sizeof(word), "look %d\n", ++asked);

	if (ready && write(to_child, word, len) != len)
		NvmlAgain();
	return asked;
}

int
NvmlAnswered(void)
{
	return answered;
}

/*
 * Handles a change of the list of GPUs not to open: another process is
 * started, but not at once. An error of one GPU often comes with errors of
 * others, and between two processes nobody reads them.
 */
void
NvmlAgain(void)
{
	again_ns = MonotonicNs() + config.device_poll_ms * NS_PER_MS;
}

/*
 * Handles the end of a child. Returns whether it was a process of this file.
 * If it had hung in a GPU, that GPU may be tried again.
 */
bool
NvmlChildGone(pid_t pid)
{
	bool		ours = pid == child || pid == driver_stuck;

	if (pid == child)
	{
		child = 0;				/* the process id may be reused from now on */
		read_lines();
		if (from_child >= 0)
			drop_child();
	}
	if (pid == driver_stuck)
		driver_stuck = 0;
	for (int i = 0; i < MOST_DEVICES; i++)
	{
		if (stuck[i] == pid)
		{
			stuck[i] = 0;
			ours = true;
		}
	}
	return ours;
}

/*
 * Reads what the process wrote, and checks whether it hangs.
 */
void
NvmlRead(void)
{
	read_lines();
	check_hang();
	check_restart();
}

/*
 * Handles each complete line. At the end of the pipe, the process is gone.
 */
static void
read_lines(void)
{
	while (from_child >= 0)
	{
		ssize_t		n = read(from_child, lines + nlines,
							 sizeof(lines) - 1 - nlines);
		char	   *line = lines;
		char	   *end;

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0)
		{
			drop_child();
			return;
		}
		nlines += n;
		lines[nlines] = '\0';
		while ((end = strchr(line, '\n')) != NULL)
		{
			*end = '\0';
			parse_line(line);
			line = end + 1;
		}
		nlines -= line - lines;
		memmove(lines, line, nlines);
		if (nlines == sizeof(lines) - 1)
			nlines = 0;
	}
}

/*
 * Continues without a GPU if a call about it does not return.
 */
static void
check_hang(void)
{
	int64_t		since;
	int64_t		limit = config.nvml_timeout_ms * NS_PER_MS;
	int			index;

	if (child == 0)
		return;
	since = call->since_ns;
	index = call->index;
	if (!ready)
		limit *= INIT_TIMES;
	if (since == 0 || MonotonicNs() - since < limit)
		return;
	LogLine("event=nvml_hung index=%d", index);
	if (index >= 0 && index < MOST_DEVICES)
	{
		hung[index] = true;
		stuck[index] = child;
		retry_ns = MonotonicNs() + retry_pause_ns;
	}
	else
		driver_stuck = child;
	drop_child();
	if (index >= 0)
		spawn();
	else
		respawn_ns = MonotonicNs() + retry_pause_ns;
}

/*
 * Starts another process, if that is due.
 */
static void
check_restart(void)
{
	int64_t		now = MonotonicNs();

	if (again_ns != 0 && now >= again_ns && child != 0)
	{
		drop_child();
		spawn();
	}
	else if (child == 0 && now >= respawn_ns && driver_stuck == 0)
		spawn();
	else if (ready && !any_to_retry())
	{
		retry_pause_ns = INIT_TIMES * config.nvml_timeout_ms * NS_PER_MS;
		retry_ns = now + retry_pause_ns;
	}
	else if (ready && now >= retry_ns)
	{
		for (int i = 0; i < MOST_DEVICES; i++)
			hung[i] = hung[i] && stuck[i] != 0;
		retry_pause_ns = retry_pause_ns * 2 > RETRY_MOST ? RETRY_MOST :
			retry_pause_ns * 2;
		retry_ns = now + retry_pause_ns;
		drop_child();
		spawn();
	}
}

static bool
any_to_retry(void)
{
	for (int i = 0; i < MOST_DEVICES; i++)
	{
		const Device *device = DeviceNumber(i);

		if (hung[i] || (device != NULL && device->lost &&
						!device->until_reset))
			return true;
	}
	return false;
}

/*
 * Parses a line of the process. A failure is logged only if it differs from
 * the last one.
 */
static void
parse_line(char *line)
{
	int			number;

	if (strncmp(line, "gpu ", 4) == 0)
		parse_gpu(line);
	else if (strncmp(line, "sight ", 6) == 0)
		parse_state(line);
	else if (strncmp(line, "remap ", 6) == 0)
		parse_remap(line);
	else if (strncmp(line, "sensor ", 7) == 0)
		parse_sensors(line);
	else if (strncmp(line, "xid ", 4) == 0)
		parse_xid(line);
	else if (strncmp(line, "link ", 5) == 0)
		parse_link(line);
	else if (strncmp(line, "pcie ", 5) == 0)
		parse_pcie(line);
	else if (strcmp(line, "ready") == 0)
		parse_ready();
	else if (sscanf(line, "done %d", &number) == 1)
		answered = number;
	else if (strncmp(line, "none ", 5) == 0)
		LogLine("event=gpu_unreadable detail=\"%s\"", line + 5);
	else if (strncmp(line, "failed ", 7) == 0 &&
			 strncmp(line + 7, failure, sizeof(failure) - 1) != 0)
	{
		LogLine("event=nvml_failed error=\"%s\"", line + 7);
		snprintf(failure, sizeof(failure), "%s", line + 7);
	}
}

/*
 * Parses the line of a GPU. A new GPU gets its number once all GPUs are known.
 */
static void
parse_gpu(char *line)
{
	int			index;
	int			minor;
	long long	memory;
	int			events;
	char		uuid[96];
	int			number;

	if (sscanf(line, "gpu %d %d %lld %d %95s", &index, &minor, &memory,
			   &events, uuid) != 5)
		return;
	number = DeviceNamed(uuid);
	if (number >= 0)
		know(number, index, minor, memory, events != 0);
	else if (starting && nnewcomers < MOST_DEVICES)
		newcomers[nnewcomers++] = Dup(line);
	else
		LogLine("event=gpu_unknown uuid=%s detail=\"restart the agent\"", uuid);
}

static void
know(int number, int index, int minor, long long memory, bool events)
{
	Device	   *device = DeviceNumber(number);

	named[number] = true;
	device->index = index;
	device->memory_mib = memory;
	device->events = events;
	if (minor >= 0)
		snprintf(device->path, sizeof(device->path), "/dev/nvidia%d", minor);
	LogLine("event=gpu device=%d index=%d uuid=%s memory_mib=%lld events=%d",
			number, index, device->uuid, memory, events);
}

/*
 * Assigns numbers to new GPUs: the number of a GPU that is gone since an
 * earlier boot, or otherwise the next number.
 */
static void
number_new_gpus(void)
{
	for (int n = 0; n < nnewcomers; n++)
	{
		char		uuid[96] = "";
		int			number = -1;

		(void) sscanf(newcomers[n], "gpu %*d %*d %*d %*d %95s", uuid);
		for (int i = 0; other_boot && i < DeviceCount() && number < 0; i++)
		{
			if (!named[i])
				number = i;
		}
		if (number < 0)
			number = DeviceAdd(uuid);
		else
		{
			LogLine("event=gpu_replaced device=%d uuid=%s was=%s", number, uuid,
					DeviceNumber(number)->uuid);
			snprintf(DeviceNumber(number)->uuid, sizeof(uuid), "%s", uuid);
			DeviceIsNew(number);
		}
		parse_gpu(newcomers[n]);
		free(newcomers[n]);
	}
	nnewcomers = 0;
}

/*
 * Handles "ready": all GPUs have their line. A GPU without a line is lost,
 * unless the process was told not to open it.
 */
static void
parse_ready(void)
{
	number_new_gpus();
	for (int i = 0; i < DeviceCount(); i++)
	{
		Device	   *device = DeviceNumber(i);
		bool		alone = device->until_reset || (device->index >= 0 &&
													hung[device->index]);

		if (!named[i] && !alone)
			device->lost = true;
	}
	ready = true;
	*failure = '\0';
	write_inventory();

	/*
	 * The state lines before had no number to refer to, and requests before
	 * got no answer.
	 */
	(void) NvmlAsk();
}

/*
 * Parses the state of one GPU. If NVML reports no events, an increased count
 * of errors replaces one.
 */
static void
parse_state(const char *line)
{
	int			index;
	char		how[16];
	long long	used;
	int			processes;
	int			utilization;
	long long	ecc;
	Device	   *device;

	if (sscanf(line, "sight %d %15s %lld %d %d %lld", &index, how, &used,
			   &processes, &utilization, &ecc) != 6)
		return;
	device = DeviceNumber(number_of(index));
	if (device == NULL || strcmp(how, "error") == 0)
		return;
	device->lost = strcmp(how, "lost") == 0;
	device->seen_ns = MonotonicNs();
	if (device->lost)
		return;
	device->used_mib = used;
	device->processes = processes;
	device->utilization = utilization;
	if (ecc >= 0 && ecc != device->ecc)
	{
		bool		more = device->ecc >= 0 && ecc > device->ecc;

		device->ecc = ecc;
		write_inventory();
		if (more && !device->events)
			DeviceXid(number_of(index), XID_DOUBLE_BIT);
	}
}

/* Parses whether rows of a GPU's memory are to be remapped. */
static void
parse_remap(const char *line)
{
	int			index;
	int			remap;

	if (sscanf(line, "remap %d %d", &index, &remap) == 2 &&
		number_of(index) >= 0)
		DeviceNumber(number_of(index))->remap = remap;
}

/* Parses what a GPU measures of itself. */
static void
parse_sensors(const char *line)
{
	int			index;
	int			celsius;
	long long	values[3];
	Device	   *device;

	if (sscanf(line, "sensor %d %d %lld %lld %lld", &index, &celsius,
			   &values[0], &values[1], &values[2]) != 5)
		return;
	device = DeviceNumber(number_of(index));
	if (device == NULL)
		return;
	device->celsius = celsius;
	device->milliwatts = values[0];
	device->millijoules = values[1];
	device->corrected_ecc = values[2];
	EnergyRead(number_of(index));
}

static void
parse_xid(const char *line)
{
	int			index;
	int			code;

	if (sscanf(line, "xid %d %d", &index, &code) == 2 &&
		number_of(index) >= 0)
		DeviceXid(number_of(index), code);
}

/* Parses a GPU's NVLinks. */
static void
parse_link(const char *line)
{
	int			index;
	long long	mbps;
	char		fabric[64];
	Device	   *device;

	if (sscanf(line, "link %d %lld %63s", &index, &mbps, fabric) != 3)
		return;
	device = DeviceNumber(number_of(index));
	if (device == NULL)
		return;
	device->link_mbps = mbps;
	snprintf(device->fabric, sizeof(device->fabric), "%s",
			 strcmp(fabric, "-") == 0 ? "" : fabric);
}

/* Parses with which GPU another one shares a PCIe host bridge. */
static void
parse_pcie(const char *line)
{
	int			index;
	int			first;
	Device	   *device;

	if (sscanf(line, "pcie %d %d", &index, &first) != 2)
		return;
	device = DeviceNumber(number_of(index));
	if (device != NULL)
		device->pcie = number_of(first);
}

/* Returns the device number of an NVML index, or -1. */
static int
number_of(int index)
{
	for (int i = 0; i < DeviceCount(); i++)
	{
		if (DeviceNumber(i)->index == index)
			return i;
	}
	return -1;
}
