/*-------------------------------------------------------------------------
 *
 * metrics.c
 *		Writes metrics of the node's GPUs and jobs to a file for Prometheus.
 *
 * The setting metrics_file names a file in a folder that node_exporter's
 * textfile collector reads. So the agent needs no port and no client can keep
 * it waiting. The file is replaced as a whole after each reading of the
 * devices, and removed when the agent ends. Only root and the folder's group
 * may read it, as a job must not see the names of others' jobs.
 *
 * Tenants choose what organisations, accounts and labels are called. A label
 * becomes one of a metric only if metrics_labels names its key. Values are
 * escaped and cut, and each metric of jobs has at most MOST_LINES lines. The
 * names of the labels of metrics come from the configuration alone.
 *
 * A job that has a share of a device is given that share of its utilization,
 * power and used memory, whatever the device is doing for others.
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attempts.h"
#include "clock.h"
#include "config.h"
#include "devices.h"
#include "energy.h"
#include "file.h"
#include "health.h"
#include "log.h"
#include "memory.h"
#include "metrics.h"
#include "utf8.h"

#define MOST_LABELS		8		/* most keys that metrics_labels names */
#define MOST_KEY		64		/* bytes of such a key */
#define MOST_VALUE		64		/* bytes of a label's value */
#define MOST_NAME		255		/* bytes of the name of an organisation,
								 * account or node */
#define MOST_LINES		2000	/* most lines of one metric of jobs */

/*
 * A metric. What its function value returns, divided by scale, is in the unit
 * that the name ends with.
 */
typedef struct Metric
{
	const char *name;
	const char *type;
	const char *help;
	double		scale;
	bool		is_shared;		/* of a job that has a share: so much of it */
	int64_t		(*value) (int number);	/* -1 if it is not known */
} Metric;

static int64_t in_service(int number);
static int64_t utilization(int number);
static int64_t memory_used(int number);
static int64_t memory_total(int number);
static int64_t milliwatts(int number);
static int64_t celsius(int number);
static int64_t uncorrected(int number);
static int64_t corrected(int number);
static int64_t xids(int number);
static int64_t whole(int number);

static const Metric of_devices[] = {
	{"gpucredit_gpu_in_service", "gauge", "Whether the GPU may have jobs.", 1, false, in_service},
	{"gpucredit_gpu_utilization_ratio", "gauge", "How busy the GPU is, 0 to 1.", 100, false, utilization},
	{"gpucredit_gpu_memory_used_bytes", "gauge", "Memory of the GPU that is in use.", 1.0 / 1048576, false, memory_used},
	{"gpucredit_gpu_memory_bytes", "gauge", "Memory of the GPU.", 1.0 / 1048576, false, memory_total},
	{"gpucredit_gpu_power_watts", "gauge", "Power that the GPU draws.", 1000, false, milliwatts},
	{"gpucredit_gpu_temperature_celsius", "gauge", "Temperature of the GPU.", 1, false, celsius},
	{"gpucredit_gpu_energy_joules_total", "counter", "Energy that the GPU has used since the agent's start.", 1000, false, EnergyDeviceMj},
	{"gpucredit_gpu_ecc_uncorrected_errors_total", "counter", "Memory errors since the boot that were not corrected.", 1, false, uncorrected},
	{"gpucredit_gpu_ecc_corrected_errors_total", "counter", "Memory errors since the boot that were corrected.", 1, false, corrected},
	{"gpucredit_gpu_xids_total", "counter", "Errors that the driver reported since the agent's start (Xids).", 1, false, xids},
};

static const Metric of_jobs[] = {
	{"gpucredit_job_gpu_share", "gauge", "The job's share of the GPU.", 1, true, whole},
	{"gpucredit_job_gpu_utilization_ratio", "gauge", "How busy the GPU is, 0 to 1, times the job's share.", 100, true, utilization},
	{"gpucredit_job_gpu_memory_used_bytes", "gauge", "Memory of the GPU that is in use, times the job's share.", 1.0 / 1048576, true, memory_used},
	{"gpucredit_job_gpu_power_watts", "gauge", "Power that the GPU draws, times the job's share.", 1000, true, milliwatts},
	{"gpucredit_job_gpu_temperature_celsius", "gauge", "Temperature of a GPU of the job.", 1, false, celsius},
};

#define COUNT(metrics)	(sizeof(metrics) / sizeof((metrics)[0]))

static char *keys[MOST_LABELS];
static int	nkeys;
static bool failed;				/* the last try to write the file failed */

static void add_key(const char *key, const char *path);
static char *metric_key(const char *key);
static void write_devices(FILE *out);
static void write_jobs(FILE *out);
static void write_sums(FILE *out);
static bool is_shown(const LocalAttempt *attempt);
static void write_head(FILE *out, const char *name, const char *type,
					   const char *help);
static const char *labels_of(LocalAttempt *attempt);
static void write_label(FILE *out, const char *name, const char *value,
						size_t most);
static bool replace(const char *text, size_t len);
static bool answers(int number);

/*
 * Checks the settings, when the agent starts.
 */
void
MetricsCheckSettings(const char *path)
{
	size_t		len = strlen(config.metrics_file);
	char	   *list = Dup(config.metrics_labels);
	char	   *rest = list;
	char	   *key;

	if (len != 0 && (*config.metrics_file != '/' || len < 7 ||
					 strcmp(config.metrics_file + len - 5, ".prom") != 0))
		Die("%s: metrics_file is the path of a file *.prom, not \"%s\"", path,
			config.metrics_file);
	while ((key = strsep(&rest, ", \t")) != NULL)
	{
		if (*key != '\0')
			add_key(key, path);
	}
	free(list);
}

/* Adds a key to those that become labels of metrics. */
static void
add_key(const char *key, const char *path)
{
	char	   *name = metric_key(key);

	if (nkeys == MOST_LABELS)
		Die("%s: metrics_labels names %d labels at most", path, MOST_LABELS);
	if (strlen(key) > MOST_KEY)
		Die("%s: metrics_labels: \"%s\" is longer than %d bytes", path, key,
			MOST_KEY);
	for (int i = 0; i < nkeys; i++)
	{
		char	   *other = metric_key(keys[i]);

		if (strcmp(name, other) == 0)
			Die("%s: metrics_labels: \"%s\" and \"%s\" would both be %s", path,
				keys[i], key, name);
		free(other);
	}
	keys[nkeys++] = Dup(key);
	free(name);
}

/*
 * Returns the label of metrics for the key of a job's label. The prefix keeps
 * it apart from other labels.
 */
static char *
metric_key(const char *key)
{
	char	   *name = Format("label_%s", key);

	for (char *at = name; *at != '\0'; at++)
	{
		if (!isalnum((unsigned char) *at) || (*at & 0x80) != 0)
			*at = '_';
	}
	return name;
}

/*
 * Writes the file if that is due.
 */
void
MetricsWrite(void)
{
	static int64_t due_ns;
	int64_t		pause = config.device_poll_ms < 1000 ? 1000 :
		config.device_poll_ms;
	char	   *text;
	size_t		len;
	FILE	   *out;
	bool		ok;

	if (*config.metrics_file == '\0' || MonotonicNs() < due_ns)
		return;
	due_ns = MonotonicNs() + pause * NS_PER_MS;
	out = open_memstream(&text, &len);
	if (out == NULL)
		Die("out of memory");
	write_devices(out);
	write_jobs(out);
	write_sums(out);
	fclose(out);
	ok = replace(text, len);
	if (!ok && !failed)
		LogLine("event=metrics_not_written path=%s error=\"%s\"",
				config.metrics_file, strerror(errno));
	failed = !ok;
	free(text);
}

/* Removes the file, when the agent ends. */
void
MetricsEnd(void)
{
	if (*config.metrics_file != '\0')
		(void) unlink(config.metrics_file);
}

/* Writes the metrics of each device. */
static void
write_devices(FILE *out)
{
	for (size_t m = 0; m < COUNT(of_devices); m++)
	{
		const Metric *metric = &of_devices[m];

		write_head(out, metric->name, metric->type, metric->help);
		for (int i = 0; i < DeviceCount(); i++)
		{
			int64_t		value = metric->value(i);

			if (value < 0)
				continue;
			fprintf(out, "%s{", metric->name);
			write_label(out, "node", config.node, MOST_NAME);
			fprintf(out, ",gpu=\"%d\",", i);
			write_label(out, "uuid", DeviceNumber(i)->uuid, MOST_NAME);
			fprintf(out, "} %.15g\n", (double) value / metric->scale);
		}
	}
}

/* Writes the metrics of each device of each job. */
static void
write_jobs(FILE *out)
{
	for (size_t m = 0; m < COUNT(of_jobs); m++)
	{
		const Metric *metric = &of_jobs[m];
		int			lines = 0;

		write_head(out, metric->name, metric->type, metric->help);
		for (LocalAttempt *a = attempts; a != NULL; a = a->next)
		{
			for (int i = 0; is_shown(a) && i < DeviceCount(); i++)
			{
				int64_t		value = metric->value(i);
				double		share = metric->is_shared ? a->share / 1000.0 : 1;

				if ((a->gpus >> i & 1) != 0 && value >= 0 &&
					lines++ < MOST_LINES)
					fprintf(out, "%s{%s,gpu=\"%d\"} %.15g\n", metric->name,
							labels_of(a), i,
							(double) value / metric->scale * share);
			}
		}
	}
}

/* Writes what is counted for each job as a whole. */
static void
write_sums(FILE *out)
{
	int			left_out = 0;
	int			lines = 0;

	write_head(out, "gpucredit_job_energy_joules_total", "counter",
			   "Energy that the job's GPUs on this node have used, by its shares.");
	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (is_shown(a) && EnergyJoules(a) >= 0 && lines++ < MOST_LINES)
			fprintf(out, "gpucredit_job_energy_joules_total{%s} %.15g\n",
					labels_of(a), (double) a->energy_mj / 1000);
	}
	lines = 0;
	write_head(out, "gpucredit_job_xids_total", "counter",
			   "Errors of the job's GPUs that the driver reported since the agent's start (Xids).");
	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (!is_shown(a))
			continue;
		if (lines++ < MOST_LINES)
			fprintf(out, "gpucredit_job_xids_total{%s} %" PRId64 "\n",
					labels_of(a), a->xids);
		else
			left_out++;
	}
	write_head(out, "gpucredit_agent_jobs_left_out", "gauge",
			   "Jobs that this file leaves out because it has too many.");
	fprintf(out, "gpucredit_agent_jobs_left_out{");
	write_label(out, "node", config.node, MOST_NAME);
	fprintf(out, "} %d\n", left_out);
}

/* Whether an attempt has GPUs. */
static bool
is_shown(const LocalAttempt *attempt)
{
	return attempt->gpus != 0 && AttemptHolds(attempt);
}

static void
write_head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/*
 * Returns an attempt's labels, which do not change.
 */
static const char *
labels_of(LocalAttempt *attempt)
{
	json_t	   *intent;
	const		json_t *labels;
	size_t		len;
	char		number[32];
	FILE	   *out;

	if (attempt->metric_labels != NULL)
		return attempt->metric_labels;
	out = open_memstream(&attempt->metric_labels, &len);
	if (out == NULL)
		Die("out of memory");
	write_label(out, "node", config.node, MOST_NAME);
	fputc(',', out);
	write_label(out, "org", attempt->org, MOST_NAME);
	fputc(',', out);
	write_label(out, "account", attempt->account, MOST_NAME);
	snprintf(number, sizeof(number), "%" PRId64, attempt->job);
	fprintf(out, ",job=\"%s\",attempt=\"%d\"", number, attempt->number);
	intent = attempt->dir < 0 ? NULL : AttemptIntent(attempt->dir);
	labels = json_object_get(json_object_get(intent, "spec"), "labels");
	for (int i = 0; i < nkeys; i++)
	{
		const char *value = json_string_value(json_object_get(labels,
															  keys[i]));
		char	   *name = metric_key(keys[i]);

		if (value != NULL)
		{
			fputc(',', out);
			write_label(out, name, value, MOST_VALUE);
		}
		free(name);
	}
	json_decref(intent);
	fclose(out);
	return attempt->metric_labels;
}

/*
 * Writes a label. A value is cut between two characters, and control
 * characters in it become question marks.
 */
static void
write_label(FILE *out, const char *name, const char *value, size_t most)
{
	char	   *text = Dup(value);

	Utf8Mend(text);
	if (strlen(text) > most)
	{
		while (most > 0 && (text[most] & 0xc0) == 0x80)
			most--;
		text[most] = '\0';
	}
	fprintf(out, "%s=\"", name);
	for (const char *at = text; *at != '\0'; at++)
	{
		unsigned char c = (unsigned char) *at;

		if (c == '"' || c == '\\')
			fputc('\\', out);
		fputc(c < 0x20 || c == 0x7f ? '?' : c, out);
	}
	fputc('"', out);
	free(text);
}

/*
 * Replaces the file. Its group is that of its folder.
 */
static bool
replace(const char *text, size_t len)
{
	char	   *temporary = Format("%s.new", config.metrics_file);
	char	   *copy = Dup(config.metrics_file);
	struct stat folder;
	int			fd;
	bool		ok;

	(void) unlink(temporary);
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ok = fd >= 0 && stat(dirname(copy), &folder) == 0 &&
		fchown(fd, (uid_t) -1, folder.st_gid) == 0 && fchmod(fd, 0640) == 0 &&
		WriteAll(fd, text, len) && rename(temporary, config.metrics_file) == 0;
	if (fd >= 0)
	{
		int			error = errno;

		close(fd);
		if (!ok)
			(void) unlink(temporary);
		errno = error;
	}
	free(temporary);
	free(copy);
	return ok;
}

/* Whether the last reading of a device is recent. */
static bool
answers(int number)
{
	const Device *device = DeviceNumber(number);

	return !device->lost && MonotonicNs() - device->seen_ns <
		(3 * config.device_poll_ms + config.nvml_timeout_ms) * NS_PER_MS;
}

/* The values of metrics */

static int64_t
in_service(int number)
{
	return (int64_t) (HealthSet() >> number & 1);
}

static int64_t
utilization(int number)
{
	return answers(number) ? DeviceNumber(number)->utilization : -1;
}

static int64_t
memory_used(int number)
{
	return answers(number) ? DeviceNumber(number)->used_mib : -1;
}

static int64_t
memory_total(int number)
{
	return DeviceNumber(number)->memory_mib;
}

static int64_t
milliwatts(int number)
{
	return answers(number) ? DeviceNumber(number)->milliwatts : -1;
}

static int64_t
celsius(int number)
{
	return answers(number) ? DeviceNumber(number)->celsius : -1;
}

static int64_t
uncorrected(int number)
{
	return DeviceNumber(number)->ecc;
}

static int64_t
corrected(int number)
{
	return DeviceNumber(number)->corrected_ecc;
}

static int64_t
xids(int number)
{
	return DeviceNumber(number)->xid_count;
}

static int64_t
whole(int number)
{
	(void) number;
	return 1;
}
