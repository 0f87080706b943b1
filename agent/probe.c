/*-------------------------------------------------------------------------
 *
 * probe.c
 *		Tests a device before its first job, and after it has failed.
 *
 * The setting "probe" names the test: "builtin" is gpucredit-gpu-probe, "dcgm"
 * is NVIDIA's dcgmi diag, and a path is a program of the operator's. A device
 * is tested once in each boot of the machine, and again after it was lost,
 * silent or held for an error. It is out of service until the test has passed,
 * so no job ever gets a device that was not tested or that failed its test.
 *
 * The test runs as a process group of its own, with only this device visible.
 * It has failed if it ends with another status than 0, if it does not end
 * within probe_timeout_s, or if afterwards the driver counts memory errors, a
 * memory row that is to be remapped, or NVLinks that carry less than
 * probe_nvlink_mbps. The last line that the program wrote is the reason. A
 * process that the kernel cannot kill stays the only one of its device: other
 * devices go on, and this one is not tested again before the process is gone.
 *
 * Tests of several devices run at the same time, but not those of dcgm, which
 * refuses to run twice at once.
 *
 * The result is a file, <state>/probes/UUID, with a line: BOOT_ID RESULT
 * REASON. So a restart of the agent repeats no test, and forgets no failure.
 * "gpucredit-agent reset" removes the file, and the device is tested again.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"
#include "clock.h"
#include "config.h"
#include "device_watch.h"
#include "devices.h"
#include "file.h"
#include "health.h"
#include "log.h"
#include "memory.h"
#include "probe.h"

#define REASON_MOST		160		/* most bytes of a reason */
#define READ_AT_ONCE	65536	/* most bytes of output that are read in one
								 * turn of the agent's loop */
#define ROW_REMAP_PENDING	1	/* values of Device.remap, as nvml.c has them */
#define ROW_REMAP_FAILED	2

typedef enum ProbeState
{
	PROBE_PASSED,				/* also if no test is configured */
	PROBE_DUE,					/* to be tested once nothing uses the device */
	PROBE_RUNS,					/* the program runs */
	PROBE_COUNTS,				/* it has passed; the driver's counters are
								 * being read */
	PROBE_FAILED
} ProbeState;

typedef struct Probe
{
	ProbeState	state;
	bool		written;		/* the result's file was written; if it is
								 * missing then, the operator removed it */
	pid_t		pid;			/* the program, or 0; it may outlive a test
								 * that took too long */
	int			out;			/* pipe from the program, or -1 */
	int64_t		since_ns;		/* when the program was started, or its
								 * counters were asked for */
	int			ticket;			/* number of the device readings that
								 * PROBE_COUNTS waits for */
	char		why[32];		/* why the device is tested */
	char		line[256];		/* the line that the program is writing */
	size_t		length;
	char		last[256];		/* the last line that it has written */
	char		reason[REASON_MOST + 32];	/* why the device does not serve */
} Probe;

static Probe probes[MOST_DEVICES];

static bool configured(void);
static int	folder(void);
static void set_due(int number, const char *why);
static bool another_runs(void);
static void start(int number);
static void run_program(int number, int out) __attribute__((noreturn));
static void read_output(Probe *probe);
static void end_line(Probe *probe);
static void check_time(int number);
static void check_counters(int number);
static void finish(int number, bool passed, const char *format,...)
			__attribute__((format(printf, 3, 4)));
static void write_result(int number);

static bool
configured(void)
{
	return strcmp(config.probe, "no") != 0;
}

/* Returns a descriptor of the folder of the results, or -1. */
static int
folder(void)
{
	static int	dir = -1;
	char	   *path;

	if (dir >= 0)
		return dir;
	path = Format("%s/probes", config.state);
	(void) mkdir(path, 0700);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(path);
	return dir;
}

/*
 * Reads the result of an earlier test, for a device that has appeared. A result
 * of another boot says nothing about this one.
 */
void
ProbeLoad(int number)
{
	Probe	   *probe = &probes[number];
	char	   *name = HealthFileName(DeviceNumber(number)->uuid);
	char	   *line = configured() ? FileGet(folder(), name, NULL) : NULL;
	char		boot[64];
	char		result[16];
	int			at = 0;

	memset(probe, 0, sizeof(Probe));
	probe->out = -1;
	if (line == NULL || sscanf(line, "%63s %15s %n", boot, result, &at) < 2 ||
		strcmp(boot, boot_id) != 0)
		set_due(number, "boot");
	else
	{
		probe->written = true;
		probe->state = strcmp(result, "passed") == 0 ? PROBE_PASSED :
			PROBE_FAILED;
		snprintf(probe->reason, sizeof(probe->reason), "%.*s",
				 (int) strcspn(line + at, "\n"), line + at);
	}
	free(line);
	free(name);
}

/*
 * Makes a device's test due again, as the device has failed. While the device
 * has a job, the job goes on; the test follows it. A device that has failed
 * its test stays out of service until the operator decides.
 */
void
ProbeAgain(int number, const char *why)
{
	if (probes[number].state == PROBE_PASSED)
		set_due(number, why);
}

/*
 * Makes a device's test due, and forgets the result of the last one. Without a
 * configured test every device passes.
 */
static void
set_due(int number, const char *why)
{
	Probe	   *probe = &probes[number];
	char	   *name = HealthFileName(DeviceNumber(number)->uuid);

	probe->state = configured() ? PROBE_DUE : PROBE_PASSED;
	probe->written = false;
	if (configured())
	{
		(void) unlinkat(folder(), name, 0);
		snprintf(probe->why, sizeof(probe->why), "%s", why);
		snprintf(probe->reason, sizeof(probe->reason),
				 "it waits for its test");
	}
	free(name);
}

bool
ProbePassed(int number)
{
	return probes[number].state == PROBE_PASSED;
}

/* Returns why a device that has not passed its test does not serve. */
const char *
ProbeReason(int number)
{
	return probes[number].reason;
}

/*
 * Advances the test of a device; may_start says whether nothing else uses the
 * device, so that its test may begin. Returns whether the reason why it does
 * not serve has changed.
 */
bool
ProbeCheck(int number, bool may_start)
{
	Probe	   *probe = &probes[number];
	ProbeState	before = probe->state;

	if (!configured())
		return false;
	read_output(probe);
	if (probe->state == PROBE_PASSED || probe->state == PROBE_FAILED)
	{
		char	   *name = HealthFileName(DeviceNumber(number)->uuid);

		if (!probe->written)
			write_result(number);
		else if (!FileThere(folder(), name))
			set_due(number, "operator");
		free(name);
	}
	if (probe->state == PROBE_DUE && may_start && probe->pid == 0 &&
		!(strcmp(config.probe, "dcgm") == 0 && another_runs()))
		start(number);
	if (probe->state == PROBE_RUNS)
		check_time(number);
	if (probe->state == PROBE_COUNTS)
		check_counters(number);
	return probe->state != before;
}

static bool
another_runs(void)
{
	for (int i = 0; i < DeviceCount(); i++)
	{
		if (probes[i].pid != 0)
			return true;
	}
	return false;
}

/*
 * Starts the program. If that fails, the next check tries again.
 */
static void
start(int number)
{
	Probe	   *probe = &probes[number];
	int			out[2];

	if (pipe2(out, O_CLOEXEC) != 0)
		return;
	probe->pid = fork();
	if (probe->pid == 0)
		run_program(number, out[1]);
	close(out[1]);
	if (probe->pid < 0)
	{
		probe->pid = 0;
		close(out[0]);
		return;
	}
	(void) setpgid(probe->pid, probe->pid);
	probe->out = out[0];
	fcntl(probe->out, F_SETFL, O_NONBLOCK);
	probe->state = PROBE_RUNS;
	probe->since_ns = MonotonicNs();
	probe->length = 0;
	probe->last[0] = '\0';
	snprintf(probe->reason, sizeof(probe->reason), "it is being tested");
	LogLine("event=probe_start device=%d uuid=%s why=%s", number,
			DeviceNumber(number)->uuid, probe->why);
}

/*
 * Runs the program, in the new process. It ends with the agent, which repeats
 * the test when it starts again.
 */
static void
run_program(int number, int out)
{
	const Device *device = DeviceNumber(number);
	bool		builtin = strcmp(config.probe, "builtin") == 0;
	bool		dcgm = strcmp(config.probe, "dcgm") == 0;
	char	   *bandwidth = Format("%ld", config.probe_bandwidth_gb_s);
	char	   *index = Format("%d", device->index);
	char	   *builtin_argv[] = {config.probe_program, "health", bandwidth, NULL};
	char	   *dcgm_argv[] = {config.dcgmi, "diag", "-r", "1", "-i", index, NULL};
	char	   *own_argv[] = {config.probe, (char *) device->uuid, NULL};
	char	  **argv = builtin ? builtin_argv : dcgm ? dcgm_argv : own_argv;
	int			nothing = open("/dev/null", O_RDONLY);
	sigset_t	none;

	(void) setpgid(0, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setenv("CUDA_VISIBLE_DEVICES", device->uuid, 1);
	setenv("NVIDIA_VISIBLE_DEVICES", device->uuid, 1);
	setenv("GPUCREDIT_DEVICE_INDEX", index, 1);
	setenv("GPUCREDIT_DEVICE_FILE", device->path, 1);
	setenv("GPUCREDIT_PROBE_REASON", probes[number].why, 1);
	if (nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 &&
		dup2(out, STDOUT_FILENO) >= 0 && dup2(out, STDERR_FILENO) >= 0)
	{
		execvp(argv[0], argv);
		dprintf(STDOUT_FILENO, "could not run %s: %s\n", argv[0],
				strerror(errno));
	}
	_exit(127);
}

/*
 * Reads what the program wrote, and keeps its last line that is not empty. One
 * that writes without end is read piece by piece, so that it keeps nobody
 * waiting.
 */
static void
read_output(Probe *probe)
{
	char		bytes[4096];

	for (int done = 0; probe->out >= 0 && done < READ_AT_ONCE;)
	{
		ssize_t		n = read(probe->out, bytes, sizeof(bytes));

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0)
		{
			end_line(probe);
			close(probe->out);
			probe->out = -1;
			return;
		}
		for (ssize_t i = 0; i < n; i++)
		{
			if (bytes[i] == '\n')
				end_line(probe);
			else if (probe->length < sizeof(probe->line) - 1)
				probe->line[probe->length++] = bytes[i];
		}
		done += (int) n;
	}
}

/* Keeps the line that the program has ended, unless it is empty. */
static void
end_line(Probe *probe)
{
	if (probe->length == 0)
		return;
	probe->line[probe->length] = '\0';
	strcpy(probe->last, probe->line);
	probe->length = 0;
}

/*
 * Handles the end of a child. Returns whether it was a test's program.
 */
bool
ProbeChildGone(pid_t pid, int status)
{
	for (int i = 0; i < DeviceCount(); i++)
	{
		Probe	   *probe = &probes[i];

		if (probe->pid != pid)
			continue;
		probe->pid = 0;
		read_output(probe);
		end_line(probe);
		if (probe->out >= 0)
			close(probe->out);
		probe->out = -1;
		if (probe->state != PROBE_RUNS)
			return true;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		{
			probe->state = PROBE_COUNTS;
			probe->since_ns = MonotonicNs();
			probe->ticket = DevicesAsk();
		}
		else if (probe->last[0] != '\0')
			finish(i, false, "%s", probe->last);
		else if (WIFSIGNALED(status))
			finish(i, false, "signal %d ended it", WTERMSIG(status));
		else
			finish(i, false, "it ended with status %d", WEXITSTATUS(status));
		return true;
	}
	return false;
}

/*
 * Ends a test that takes too long. The process is not waited for.
 */
static void
check_time(int number)
{
	Probe	   *probe = &probes[number];

	if (MonotonicNs() - probe->since_ns < config.probe_timeout_s * NS_PER_S)
		return;
	(void) kill(-probe->pid, SIGKILL);
	(void) kill(probe->pid, SIGKILL);
	finish(number, false, "it did not end within %ld s",
		   config.probe_timeout_s);
}

/*
 * Compares the driver's counters once they were read after the test. If the
 * driver does not answer in time, the device has failed.
 */
static void
check_counters(int number)
{
	Probe	   *probe = &probes[number];
	const Device *device = DeviceNumber(number);
	int64_t		limit = (2 * config.nvml_timeout_ms + 1000) * NS_PER_MS;

	if (DevicesAnswered() < probe->ticket ||
		device->seen_ns < probe->since_ns)
	{
		if (MonotonicNs() - probe->since_ns >= limit)
			finish(number, false, "the driver did not answer after it");
	}
	else if (device->lost)
		finish(number, false, "the driver lost the device during it");
	else if (device->ecc > 0)
		finish(number, false, "the driver counts %lld uncorrected memory"
			   " errors", (long long) device->ecc);
	else if (device->remap == ROW_REMAP_FAILED)
		finish(number, false, "the driver could not remap a row of memory");
	else if (device->remap == ROW_REMAP_PENDING)
		finish(number, false, "a row of memory is to be remapped: reset the"
			   " device");
	else if (config.probe_nvlink_mbps > 0 && device->link_mbps < 0)
		finish(number, false, "what its NVLinks carry is not known");
	else if (device->link_mbps < config.probe_nvlink_mbps)
		finish(number, false, "its NVLinks carry %lld Mb/s, and are to carry"
			   " %ld", (long long) device->link_mbps,
			   config.probe_nvlink_mbps);
	else
		finish(number, true, "%s", probe->last);
}

/*
 * Ends a test with its result. "format" is the reason of a failure, or what
 * the program wrote last.
 */
static void
finish(int number, bool passed, const char *format,...)
{
	Probe	   *probe = &probes[number];
	char		text[sizeof(probe->last)];
	va_list		args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	text[REASON_MOST] = '\0';

	/*
	 * The database refuses the heartbeat of an agent that reports control
	 * characters or invalid text, so only ASCII is passed on.
	 */
	for (char *at = text; *at != '\0'; at++)
	{
		if (*at == '"' || *at == '\\')
			*at = '\'';
		else if (*at < ' ' || *at > '~')
			*at = '?';
	}
	probe->state = passed ? PROBE_PASSED : PROBE_FAILED;
	snprintf(probe->reason, sizeof(probe->reason), "%s%.*s",
			 passed ? "" : "its test failed: ", REASON_MOST, text);
	probe->written = false;
	write_result(number);
	LogLine("event=%s device=%d uuid=%s why=%s detail=\"%s\"",
			passed ? "probe_passed" : "probe_failed", number,
			DeviceNumber(number)->uuid, probe->why, text);
	if (passed)
		HealthHoldUntilClean(number);
}

/*
 * Writes the result to its file. If the disk is full, each check tries again.
 */
static void
write_result(int number)
{
	Probe	   *probe = &probes[number];
	char	   *name = HealthFileName(DeviceNumber(number)->uuid);
	char	   *line = Format("%s %s %s\n", boot_id,
							  probe->state == PROBE_PASSED ? "passed" :
							  "failed", probe->reason);

	probe->written = FilePut(folder(), name, line, strlen(line));
	free(line);
	free(name);
}

/*
 * Removes a result on behalf of the operator, so that the device is tested
 * again. Returns whether there was one.
 */
bool
ProbeForget(const char *file)
{
	return folder() >= 0 && unlinkat(folder(), file, 0) == 0;
}
