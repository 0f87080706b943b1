/*-------------------------------------------------------------------------
 *
 * health.c
 *		Decides which devices are in service.
 *
 * A device is out of service while it is lost, and until it has passed its
 * test (probe.c). It is also out of service while it has a hold:
 *
 *     leftover   an attempt left processes or memory on it; until these are
 *                gone
 *     after_job  an Xid that the job survives; the hold becomes effective
 *                when the job ends
 *     reset      an Xid that requires a reset; until the next boot, or until
 *                a lost device works again, or until the operator removes
 *                the hold
 *
 * Each hold is a file, <state>/devices/UUID, so it survives a restart of the
 * agent. "gpucredit-agent reset" removes the file. Its line is: BOOT_ID HOLD
 * XID LOST.
 *
 * A device about which the library gives no answer goes out of service only if
 * no attempt has it: a library that hangs does not mean that the job's device
 * is broken. An attempt has its devices until it is settled, as the database
 * ends an attempt whose device is out of service.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent.h"
#include "attempts.h"
#include "clock.h"
#include "config.h"
#include "device_watch.h"
#include "devices.h"
#include "file.h"
#include "health.h"
#include "log.h"
#include "memory.h"
#include "probe.h"
#include "xid.h"

#define DRIVER_FREES	(3 * NS_PER_S)	/* time within which the driver frees
										 * the memory of a dead process */
#define ASK_AGAIN		(200 * NS_PER_MS)

/* A hold replaces one that precedes it in this list. */
typedef enum DeviceHold
{
	HOLD_NONE, HOLD_LEFTOVER, HOLD_AFTER_JOB, HOLD_RESET
} DeviceHold;

static const char *const hold_names[] = {
	"none", "leftover", "after_job", "reset"
};

typedef struct Health
{
	DeviceHold	hold;
	int			xid;			/* the Xid that caused the hold, or 0 */
	bool		was_lost;		/* the device was lost during the hold */
	bool		written;		/* the file was written; if it is missing
								 * then, the operator removed it */
	bool		served;			/* it was in service at the last check */
	int64_t		since_ns;
} Health;

static Health healths[MOST_DEVICES];
static int64_t began_ns;

static int	folder(void);
static void load(int number);
static void set_hold(int number, DeviceHold how);
static void hold(int number, DeviceHold how, int xid);
static void release(int number, const char *why);
static void write_down(int number);
static bool check_hold(int number);
static bool check(LocalAttempt *attempt);
static void record_xid(int number, int code);
static bool serves(int number);
static char *reason(int number);
static bool silent(const Device *device);
static bool clean(const Device *device);
static bool in_use(int number);
static bool others_hold(int number, const LocalAttempt *but);
static bool has_leftovers(const LocalAttempt *attempt, int number);

/*
 * Registers for new devices and errors, when the agent starts.
 */
void
HealthStart(void)
{
	static const DeviceListener listener = {.is_new = load, .xid = record_xid};

	DevicesListen(&listener);
}

/* Returns a descriptor of the folder of the holds, or -1. */
static int
folder(void)
{
	static int	dir = -1;
	char	   *path;

	if (dir >= 0)
		return dir;
	path = Format("%s/devices", config.state);
	(void) mkdir(path, 0700);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(path);
	return dir;
}

/*
 * Returns the name of a device's file, also for its test. An inventory may use any characters in
 * a UUID, so a slash or a leading dot is replaced.
 */
char *
HealthFileName(const char *uuid)
{
	char	   *name = Format("%s%s", *uuid == '.' ? "_" : "", uuid);

	for (char *at = name; *at != '\0'; at++)
	{
		if (*at == '/')
			*at = '_';
	}
	return name;
}

/*
 * Reads the hold that an earlier agent wrote. If the machine has booted since,
 * the boot has reset the device.
 */
static void
load(int number)
{
	Health	   *health = &healths[number];
	char	   *name = HealthFileName(DeviceNumber(number)->uuid);
	char	   *line = FileGet(folder(), name, NULL);
	char		boot[64];
	char		how[16];
	int			lost;

	memset(health, 0, sizeof(Health));
	set_hold(number, HOLD_NONE);
	health->served = true;
	health->since_ns = began_ns = MonotonicNs();
	if (line != NULL &&
		sscanf(line, "%63s %15s %d %d", boot, how, &health->xid, &lost) == 4)
	{
		for (int i = HOLD_LEFTOVER; i <= HOLD_RESET; i++)
		{
			if (strcmp(how, hold_names[i]) == 0)
				set_hold(number, (DeviceHold) i);
		}
		health->was_lost = lost != 0;
		health->written = true;
		if (health->hold >= HOLD_AFTER_JOB && strcmp(boot, boot_id) != 0)
			release(number, "boot");
		else
			LogLine("event=device_held device=%d uuid=%s hold=%s xid=%d", number,
					DeviceNumber(number)->uuid, how, health->xid);
	}
	free(line);
	free(name);
	ProbeLoad(number);
}

static void
set_hold(int number, DeviceHold how)
{
	healths[number].hold = how;
	DeviceNumber(number)->until_reset = how == HOLD_RESET;
}

/*
 * Takes a device out of service, unless it has a stronger hold already.
 */
static void
hold(int number, DeviceHold how, int xid)
{
	Health	   *health = &healths[number];

	if (health->hold >= how)
		return;
	set_hold(number, how);
	health->since_ns = MonotonicNs();
	if (xid != 0)
		health->xid = xid;
	LogLine("event=device_held device=%d uuid=%s hold=%s xid=%d", number,
			DeviceNumber(number)->uuid, hold_names[how], health->xid);
	write_down(number);
	if (how == HOLD_RESET)
		DevicesUntilResetChanged();
}

/*
 * Ends a hold. The device may still be lost.
 */
static void
release(int number, const char *why)
{
	Health	   *health = &healths[number];
	DeviceHold	was = health->hold;
	char	   *name = HealthFileName(DeviceNumber(number)->uuid);

	LogLine("event=device_released device=%d uuid=%s hold=%s by=%s", number,
			DeviceNumber(number)->uuid, hold_names[was], why);
	(void) unlinkat(folder(), name, 0);
	set_hold(number, HOLD_NONE);
	health->was_lost = health->written = false;
	health->xid = 0;
	if (was >= HOLD_AFTER_JOB)
		ProbeAgain(number, "failure");
	if (was == HOLD_RESET)
		DevicesUntilResetChanged();
	free(name);
}

/*
 * Writes a device's hold to its file. If the disk is full, each check tries
 * again.
 */
static void
write_down(int number)
{
	Health	   *health = &healths[number];
	char	   *name = HealthFileName(DeviceNumber(number)->uuid);
	char	   *line = Format("%s %s %d %d\n", boot_id,
							  hold_names[health->hold], health->xid,
							  health->was_lost);

	health->written = FilePut(folder(), name, line, strlen(line));
	free(line);
	free(name);
}

/*
 * Checks each device, and the devices of each attempt that just ended. Returns
 * true if the agent must report to the database at once.
 */
bool
HealthCheck(void)
{
	bool		news = false;

	for (int i = 0; i < DeviceCount(); i++)
		news |= check_hold(i);
	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (a->phase == PHASE_GONE && !a->checked)
			news |= check(a);
	}
	return news;
}

/*
 * Ends or changes a hold if its condition is met, and advances the device's
 * test. Returns true if the device went out of service, or came back, or is out
 * of service for another reason.
 */
static bool
check_hold(int number)
{
	Health	   *health = &healths[number];
	const Device *device = DeviceNumber(number);
	bool		news;
	bool		now;

	if (health->hold != HOLD_NONE)
	{
		char	   *name = HealthFileName(device->uuid);

		if (!health->written)
			write_down(number);
		else if (!FileThere(folder(), name))
			release(number, "operator");
		free(name);
	}
	if (health->hold >= HOLD_AFTER_JOB && device->lost && !health->was_lost)
	{
		health->was_lost = true;
		write_down(number);
	}
	if (health->hold >= HOLD_AFTER_JOB && health->was_lost && !device->lost)
		release(number, "reset");
	if (health->hold == HOLD_AFTER_JOB && !in_use(number))
		hold(number, HOLD_RESET, health->xid);
	if (health->hold == HOLD_LEFTOVER && device->seen_ns > health->since_ns &&
		clean(device))
		release(number, "clean");
	if (device->lost || silent(device))
		ProbeAgain(number, "failure");
	news = ProbeCheck(number, health->hold == HOLD_NONE && !device->lost &&
					  !silent(device) && !in_use(number));
	now = serves(number);
	if (now == health->served)
		return news;
	health->served = now;
	LogLine("event=%s device=%d uuid=%s reason=%s xid=%d",
			now ? "device_back" : "device_broken", number, device->uuid,
			now ? "-" : device->lost ? "lost" :
			health->hold != HOLD_NONE ? hold_names[health->hold] :
			silent(device) ? "silent" : "probe",
			health->xid);
	return true;
}

static bool
serves(int number)
{
	const Device *device = DeviceNumber(number);
	DeviceHold	how = healths[number].hold;

	if (device->lost || how == HOLD_RESET)
		return false;
	return (how == HOLD_NONE && !silent(device) && ProbePassed(number)) ||
		in_use(number);
}

/*
 * Returns why each device that is out of service is, by its number, for the
 * node's description.
 */
json_t *
HealthReasons(void)
{
	json_t	   *reasons = json_object();

	for (int i = 0; i < DeviceCount(); i++)
	{
		char	   *number = Format("%d", i);
		char	   *why = serves(i) ? NULL : reason(i);

		if (why != NULL)
			json_object_set_new(reasons, number, json_string(why));
		free(number);
		free(why);
	}
	return reasons;
}

/* Returns why a device that does not serve is out of service. */
static char *
reason(int number)
{
	const Health *health = &healths[number];
	const char *meaning = XidMeaning(health->xid);

	if (DeviceNumber(number)->lost)
		return Dup("the driver does not reach it");
	if (health->hold >= HOLD_AFTER_JOB)
		return Format("Xid %d%s%s: it needs a reset", health->xid,
					  *meaning == '\0' ? "" : ": ", meaning);
	if (health->hold == HOLD_LEFTOVER)
		return Dup("memory or processes were left on it");
	if (silent(DeviceNumber(number)))
		return Dup("the driver does not answer about it");
	return Dup(ProbeReason(number));
}

/*
 * Keeps a device that was tested out of service while something is left on it.
 */
void
HealthHoldUntilClean(int number)
{
	if (!clean(DeviceNumber(number)))
		hold(number, HOLD_LEFTOVER, 0);
}

/*
 * Whether the library has given no answer about a device for longer than its
 * time limits allow.
 */
static bool
silent(const Device *device)
{
	int64_t		seen = device->seen_ns > began_ns ? device->seen_ns : began_ns;

	return MonotonicNs() - seen >
		(config.device_poll_ms + 2 * config.nvml_timeout_ms) * NS_PER_MS;
}

static bool
clean(const Device *device)
{
	return device->processes <= 0 && device->used_mib <= config.leftover_mib;
}

/* Returns the set of devices in service. */
uint64_t
HealthSet(void)
{
	uint64_t	set = 0;

	for (int i = 0; i < DeviceCount(); i++)
	{
		if (serves(i))
			set |= UINT64_C(1) << i;
	}
	return set;
}

/* Whether an attempt may start on these devices. */
bool
HealthAllows(uint64_t gpus)
{
	for (int i = 0; i < DeviceCount(); i++)
	{
		if ((gpus >> i & 1) != 0 &&
			(healths[i].hold != HOLD_NONE || !serves(i) || !ProbePassed(i)))
			return false;
	}
	return true;
}

/*
 * Handles an error that the driver reported: records it for the attempts that
 * have the device.
 */
static void
record_xid(int number, int code)
{
	XidAction	action = XidActionOf(code);
	const char *uuid = DeviceNumber(number)->uuid;
	const char *meaning = XidMeaning(code);
	char	   *note = Format("Xid %d on %s%s%s", code, uuid,
							  *meaning == '\0' ? "" : ": ", meaning);

	LogLine("event=xid device=%d uuid=%s code=%d action=%s", number, uuid, code,
			XidActionName(action));
	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if ((a->gpus >> number & 1) == 0 || !AttemptHolds(a))
			continue;
		a->xids++;
		if (action != XID_LOG)
			AttemptNote(a, note);
	}
	if (action == XID_HARDWARE)
		hold(number, HOLD_RESET, code);
	else if (action == XID_AFTER_JOB)
		hold(number, HOLD_AFTER_JOB, code);
	free(note);
}

/* Whether the database may still count an attempt on the device as live. */
static bool
in_use(int number)
{
	for (const LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (a->phase != PHASE_SETTLED && !a->forgotten &&
			(a->gpus >> number & 1) != 0)
			return true;
	}
	return false;
}

static bool
others_hold(int number, const LocalAttempt *but)
{
	for (const LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (a != but && (a->gpus >> number & 1) != 0 && AttemptHolds(a))
			return true;
	}
	return false;
}

/*
 * Checks the devices of an attempt that has ended, before the agent reports
 * its end: whether it left memory or processes on them, and which errors they
 * had. Returns true if the end can be reported.
 */
static bool
check(LocalAttempt *attempt)
{
	int64_t		now = MonotonicNs();
	int64_t		limit = (2 * config.nvml_timeout_ms + 1000) * NS_PER_MS;
	uint64_t	left = 0;

	if (attempt->gpus != 0 && attempt->asked_ns == 0)
	{
		attempt->asked_ns = now;
		attempt->ticket = DevicesAsk();
	}
	if (DevicesAnswered() < attempt->ticket && now - attempt->asked_ns < limit)
		return false;
	for (int i = 0; i < DeviceCount(); i++)
	{
		if (has_leftovers(attempt, i))
			left |= UINT64_C(1) << i;
	}
	if (left != 0 && now - attempt->gone_ns < DRIVER_FREES)
	{
		if (now - attempt->asked_ns > ASK_AGAIN)
		{
			attempt->asked_ns = now;
			attempt->ticket = DevicesAsk();
		}
		return false;
	}
	for (int i = 0; i < DeviceCount(); i++)
	{
		if ((left >> i & 1) != 0)
			hold(i, HOLD_LEFTOVER, 0);
	}
	attempt->checked = true;
	return true;
}

/*
 * Whether the attempt left something on a device. A device without an answer
 * in time counts as not clean.
 */
static bool
has_leftovers(const LocalAttempt *attempt, int number)
{
	const Device *device = DeviceNumber(number);

	return (attempt->gpus >> number & 1) != 0 && !device->lost &&
		healths[number].hold != HOLD_RESET &&
		!others_hold(number, attempt) &&
		(device->seen_ns < attempt->asked_ns || !clean(device));
}

/*
 * Ends a device's hold because the operator has reset or cleaned the device.
 * If devices are tested, it is tested again.
 */
void
HealthReset(const char *uuid)
{
	char	   *name = HealthFileName(uuid);
	bool		tested = ProbeForget(name);

	if (folder() < 0)
		Die("could not open %s/devices: %s", config.state, strerror(errno));
	if (unlinkat(folder(), name, 0) != 0 && !tested)
		Die("nothing holds %s out of service: %s", uuid, strerror(errno));
	printf("%s may serve again\n", uuid);
	exit(0);
}
