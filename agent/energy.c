/*-------------------------------------------------------------------------
 *
 * energy.c
 *		How much energy the GPUs and the attempts of this node have used.
 *
 * Each reading of a GPU says how much energy it has used since the reading
 * before: the difference of its counter, or its mean power times the time if
 * it has no counter or the counter began again. Each attempt that had the GPU
 * between the two readings is given its part: its share of the device, and of
 * the time. The energy of a part of a device that no attempt has is counted for
 * no attempt.
 *
 * The file <state>/energy has the last reading of each GPU and the sums of the
 * attempts, all of one instant. So an agent that is started again continues
 * where the file ends: the counters have gone on meanwhile. After a boot, only
 * the sums are valid.
 *
 * A GPU without sensors is never read. The energy of an attempt is unknown
 * until each of its devices was read while the attempt had it. If a device is
 * lost later, the attempt keeps the sum up to then.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent.h"
#include "clock.h"
#include "config.h"
#include "devices.h"
#include "energy.h"
#include "file.h"
#include "log.h"
#include "memory.h"

#define MOST_WATTS	2000		/* no GPU uses more */
#define POLLS		6			/* longest time between two readings of the
								 * power, in intervals of reading */
#define KEEPER_LATE	(5 * NS_PER_S)	/* a keeper whose last check is longer ago
									 * has ended */
#define SAVE_EVERY	(10 * NS_PER_S)
#define MOST_FILE	(1000 * 1000)	/* FileGet() reads no larger files */

/* The last reading of a device. */
typedef struct Meter
{
	int64_t		at_ns;			/* CLOCK_MONOTONIC; 0 if there was none */
	int64_t		millijoules;
	int64_t		milliwatts;
	int64_t		used_mj;		/* energy since the agent's start */
	bool		known;			/* used_mj has something */
} Meter;

static Meter meters[MOST_DEVICES];
static int64_t began_ns;		/* when the attempts were loaded; 0 before */
static bool changed;			/* the file is older than the sums */
static bool written;			/* the file has attempts */

static void load(void);
static void load_line(const char *line, bool same_boot);
static int64_t used_since(const Meter *meter, const Device *device,
						  int64_t now);
static void credit(LocalAttempt *attempt, int number, int64_t used,
				   int64_t from, int64_t until);
static int64_t had_until(const LocalAttempt *attempt, int64_t from,
						 int64_t until);

/*
 * Reads the sums of an earlier agent. The attempts must be loaded.
 */
void
EnergyStart(void)
{
	memset(meters, 0, sizeof(meters));
	load();
	began_ns = MonotonicNs();
}

/* Reads the file. */
static void
load(void)
{
	int			state = open(config.state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char	   *text = FileGet(state, "energy", NULL);
	char	   *rest = text;
	char	   *line = strsep(&rest, "\n");
	bool		same_boot = line != NULL && strcmp(line, boot_id) == 0;

	while (line != NULL && (line = strsep(&rest, "\n")) != NULL)
		load_line(line, same_boot);
	free(text);
	close(state);
}

/*
 * Parses a line of the file. A malformed line, which a full disk cannot cause,
 * is ignored.
 */
static void
load_line(const char *line, bool same_boot)
{
	char		name[256];
	Meter		meter = {0};
	uint64_t	set;
	int64_t		sum;

	if (same_boot &&
		sscanf(line, "gpu %95s %" SCNd64 " %" SCNd64 " %" SCNd64, name,
			   &meter.at_ns, &meter.millijoules, &meter.milliwatts) == 4)
	{
		int			number = DeviceNamed(name);

		if (number >= 0 && meter.at_ns <= MonotonicNs())
			meters[number] = meter;
	}
	else if (sscanf(line, "attempt %255s %" SCNd64 " %" SCNx64, name, &sum,
					&set) == 3)
	{
		for (LocalAttempt *a = attempts; a != NULL; a = a->next)
		{
			if (strcmp(a->name, name) == 0 && a->phase != PHASE_SETTLED)
			{
				a->energy_mj = sum;
				a->energy_of = set;
			}
		}
	}
}

/*
 * Handles a reading of a device.
 */
void
EnergyRead(int number)
{
	const Device *device = DeviceNumber(number);
	Meter	   *meter = &meters[number];
	int64_t		now = MonotonicNs();
	int64_t		used;

	if (began_ns == 0 || (device->millijoules < 0 && device->milliwatts < 0))
		return;
	used = used_since(meter, device, now);
	if (used >= 0)
	{
		meter->used_mj += used;
		meter->known = true;
		for (LocalAttempt *a = attempts; a != NULL; a = a->next)
		{
			if ((a->gpus >> number & 1) != 0 && AttemptHolds(a) && !a->lost)
				credit(a, number, used, meter->at_ns, now);
		}
	}
	meter->at_ns = now;
	meter->millijoules = device->millijoules;
	meter->milliwatts = device->milliwatts;
	changed = true;
}

/*
 * Returns the millijoules that a device used since its last reading, or -1 if
 * they are not known. A counter that jumps further than any GPU can is not
 * believed. One that went backwards began again when the driver was loaded
 * again, and then has at least what was used since.
 */
static int64_t
used_since(const Meter *meter, const Device *device, int64_t now)
{
	double		seconds = (double) (now - meter->at_ns) / NS_PER_S;
	double		most = (seconds + 1) * MOST_WATTS * 1000;
	int64_t		counted = device->millijoules;

	if (meter->at_ns == 0 || seconds <= 0)
		return -1;
	if (counted >= 0 && meter->millijoules >= 0)
	{
		int64_t		used = counted - meter->millijoules;

		if (used >= 0 && (double) used <= most)
			return used;
	}
	if (device->milliwatts >= 0 && meter->milliwatts >= 0 &&
		seconds * NS_PER_S <= (double) config.device_poll_ms * NS_PER_MS * POLLS)
	{
		double		used = ((double) device->milliwatts +
							(double) meter->milliwatts) / 2 * seconds;

		if (used <= most)
			return (int64_t) used;
	}
	if (counted >= 0 && counted < meter->millijoules &&
		(double) counted <= most)
		return counted;
	return -1;
}

/*
 * Adds an attempt's part of what a device used between two readings.
 */
static void
credit(LocalAttempt *attempt, int number, int64_t used, int64_t from,
	   int64_t until)
{
	int64_t		since = attempt->taken_ns > from ? attempt->taken_ns : from;
	int64_t		to = had_until(attempt, from, until);

	if (to <= since)
		return;
	attempt->energy_mj += (int64_t) ((double) used * attempt->share / 1000 *
									 ((double) (to - since) / (until - from)));
	attempt->energy_of |= UINT64_C(1) << number;
}

/*
 * Returns until when an attempt had its devices, at most "until". If it ended
 * while no agent ran, its keeper's last check says when.
 */
static int64_t
had_until(const LocalAttempt *attempt, int64_t from, int64_t until)
{
	const KeeperState *state;

	if (attempt->phase == PHASE_GONE && attempt->gone_ns < until)
		until = attempt->gone_ns;
	if (from >= began_ns || attempt->dir < 0)
		return until;
	state = FileMap(attempt->dir, "state", sizeof(KeeperState), false);
	if (state == NULL)
		return until;
	if (state->magic == KEEPER_MAGIC && state->exec_ns != 0 &&
		state->seen_ns > from && state->seen_ns < until - KEEPER_LATE)
		until = state->seen_ns;
	munmap((void *) state, sizeof(KeeperState));
	return until;
}

/*
 * Writes the sums to the file while attempts have devices. If that fails, a
 * restarted agent continues from an older file.
 */
void
EnergySave(void)
{
	static int64_t saved_ns;
	char	   *text;
	size_t		len;
	FILE	   *out;
	bool		any = false;
	int			state;

	if (!changed || (saved_ns != 0 && MonotonicNs() - saved_ns < SAVE_EVERY))
		return;
	out = open_memstream(&text, &len);
	if (out == NULL)
		Die("out of memory");
	fprintf(out, "%s\n", boot_id);
	for (int i = 0; i < DeviceCount(); i++)
	{
		if (meters[i].at_ns != 0)
			fprintf(out, "gpu %s %" PRId64 " %" PRId64 " %" PRId64 "\n",
					DeviceNumber(i)->uuid, meters[i].at_ns,
					meters[i].millijoules, meters[i].milliwatts);
	}
	for (const LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (a->phase == PHASE_SETTLED || a->gpus == 0 ||
			ftell(out) > MOST_FILE)
			continue;
		fprintf(out, "attempt %s %" PRId64 " %" PRIx64 "\n", a->name,
				a->energy_mj, a->energy_of);
		any = true;
	}
	fclose(out);
	state = open(config.state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if ((any || written) && !FilePut(state, "energy", text, len))
		LogLine("event=energy_not_written error=\"%s\"", strerror(errno));
	close(state);
	free(text);
	written = any;
	changed = false;
	saved_ns = MonotonicNs();
}

/*
 * Returns the joules that an attempt's devices on this node used for it, or -1
 * if they are not known.
 */
int64_t
EnergyJoules(const LocalAttempt *attempt)
{
	if (attempt->gpus == 0 ||
		(attempt->energy_of & attempt->gpus) != attempt->gpus)
		return -1;
	return (attempt->energy_mj + 500) / 1000;
}

/*
 * Returns the millijoules that a device used since the agent's start, or -1 if
 * they are not known.
 */
int64_t
EnergyDeviceMj(int number)
{
	return meters[number].known ? meters[number].used_mj : -1;
}
