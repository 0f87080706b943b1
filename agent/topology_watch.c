/*-------------------------------------------------------------------------
 *
 * topology_watch.c
 *		Reports where this node is in the cluster.
 *
 * Every topology_poll_ms a process of its own reads the file that the setting
 * topology names (topology_read.c); what NVML says about NVLink and PCIe comes
 * from nvml_watch.c. What both say together is reported to the database once
 * it was the same twice in a row, and only if it differs from what the
 * database has: a file that is being written, or that changes to and fro,
 * moves nothing. A file that is refused, or that does not name this node,
 * leaves the last report as it is.
 *
 * With topology = none the agent reports that nothing is known, which takes
 * back what it reported before.
 *-------------------------------------------------------------------------
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "config.h"
#include "db.h"
#include "devices.h"
#include "line_process.h"
#include "log.h"
#include "memory.h"
#include "node_proof.h"
#include "topology.h"
#include "topology_watch.h"

#define REPEAT_AFTER	(60 * NS_PER_S)

static const char *configuration;
static int64_t read_due_ns;
static bool said;				/* the process has written a line */
static char last_event[256];	/* what was logged last about the file */

static bool placed;				/* the file has named this node */
static Topology place;			/* where it did */
static char *last_seen;			/* the report that the last reading would make */
static char *report;			/* the report that two readings agreed on */
static char *told;				/* the report that the database has */
static int	told_on;			/* the connection that told it */
static char *telling;			/* the report in the call under way */
static int64_t repeat_ns;		/* when a call that failed is repeated */

static bool has_file(void);
static void parse_line(const char *line);
static void note(const char *event, const char *detail);
static void reading_done(void);
static char *report_text(void);
static void add_name(json_t * object, const char *key, const char *name);
static void add_number(json_t * object, const char *key, int64_t number);
static void add_nvlink(json_t * object);
static void add_pcie(json_t * object);
static void report_answered(PGresult * result, void *context);

static LineProcess process = {.command = "topology", .parse = parse_line, .fd = -1};

/* Begins at the start of the agent. */
void
TopologyStart(const char *path)
{
	configuration = path;
}

static bool
has_file(void)
{
	return *config.topology != '\0' && strcmp(config.topology, "none") != 0;
}

/* Returns the descriptor to wait for, or -1. */
int
TopologyFd(void)
{
	return process.fd;
}

/*
 * Handles the end of a child. Returns whether it was the process of this file.
 * One that a limit has ended wrote no line.
 */
bool
TopologyChildGone(pid_t pid)
{
	if (!LineProcessGone(&process, pid))
		return false;
	if (!said)
		note("topology_refused", "it took too long, or too much memory");
	reading_done();
	return true;
}

/*
 * Reads what the process wrote, and starts the next one when it is due. If that
 * fails, it is tried again with the next reading.
 */
void
TopologyCheck(void)
{
	LineProcessRead(&process);
	if (process.pid != 0 || MonotonicNs() < read_due_ns)
		return;
	read_due_ns = MonotonicNs() + config.topology_poll_ms * NS_PER_MS;
	said = false;
	if (has_file())
		LineProcessStart(&process, configuration);
	else
		reading_done();
}

/* Parses the process's line. */
static void
parse_line(const char *line)
{
	Topology	found = {0};
	long long	leaf_mbps;
	long long	spine_mbps;

	said = true;

	if (sscanf(line, "place %255s %255s %255s %lld %lld", found.leaf,
			   found.spine, found.nvlink_domain, &leaf_mbps,
			   &spine_mbps) == 5)
	{
		found.leaf_mbps = leaf_mbps;
		found.spine_mbps = spine_mbps;
		if (strcmp(found.leaf, "-") == 0)
			*found.leaf = '\0';
		if (strcmp(found.spine, "-") == 0)
			*found.spine = '\0';
		if (strcmp(found.nvlink_domain, "-") == 0)
			*found.nvlink_domain = '\0';
		place = found;
		placed = true;
		if (*last_event != '\0')
			note("topology_read", "");
	}
	else if (strcmp(line, "absent") == 0)
		note("topology_absent", "the file does not name this node");
	else if (strncmp(line, "failed ", 7) == 0)
		note("topology_refused", line + 7);
}

/* Logs what happened with the file, if it differs from the last time. */
static void
note(const char *event, const char *detail)
{
	char		text[sizeof(last_event)];

	snprintf(text, sizeof(text), "%s %s", event, detail);
	if (strcmp(text, last_event) == 0)
		return;
	LogLine("event=%s node=%s file=%s detail=\"%s\"", event, config.node,
			config.topology, detail);
	snprintf(last_event, sizeof(last_event), "%s",
			 strcmp(event, "topology_read") == 0 ? "" : text);
}

/*
 * Handles the end of a reading: a report that two readings agree on is made.
 */
static void
reading_done(void)
{
	char	   *seen = report_text();

	if (last_seen != NULL && strcmp(seen, last_seen) == 0)
	{
		free(report);
		report = strcmp(seen, "{}") == 0 &&
			strcmp(config.topology, "none") != 0 ? NULL : Dup(seen);
	}
	free(last_seen);
	last_seen = seen;
}

/* Writes what is known now, as the database reads it. */
static char *
report_text(void)
{
	json_t	   *object = json_object();
	char	   *text;

	if (placed && has_file())
	{
		add_name(object, "leaf", place.leaf);
		add_name(object, "spine", place.spine);
		add_name(object, "nvlink_domain", place.nvlink_domain);
		add_number(object, "leaf_mbps", place.leaf_mbps);
		add_number(object, "spine_mbps", place.spine_mbps);
		add_name(object, "source", config.topology);
	}
	if (strcmp(config.topology, "none") != 0)
	{
		add_nvlink(object);
		add_pcie(object);
	}
	text = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(object);
	return text;
}

static void
add_name(json_t * object, const char *key, const char *name)
{
	if (*name != '\0' && strlen(name) < TOPOLOGY_NAME)
		json_object_set_new(object, key, json_string(name));
}

static void
add_number(json_t * object, const char *key, int64_t number)
{
	if (number > 0)
		json_object_set_new(object, key, json_integer(number));
}

/*
 * Adds what NVML says of NVLink. A fabric counts only if all GPUs are part of
 * the same one; the slowest GPU is the node's bandwidth.
 */
static void
add_nvlink(json_t * object)
{
	bool		same = DeviceCount() > 0;
	int64_t		least = INT64_MAX;

	for (int i = 0; i < DeviceCount(); i++)
	{
		const Device *device = DeviceNumber(i);

		same &= *device->fabric != '\0' &&
			strcmp(device->fabric, DeviceNumber(0)->fabric) == 0;
		if (device->link_mbps < least)
			least = device->link_mbps;
	}
	if (same)
		add_name(object, "nvlink_domain", DeviceNumber(0)->fabric);
	if (DeviceCount() > 0)
		add_number(object, "nvlink_mbps", least);
}

/* Adds the sets of devices that share a PCIe host bridge. */
static void
add_pcie(json_t * object)
{
	uint64_t	sets[MOST_DEVICES] = {0};
	json_t	   *array = json_array();

	for (int i = 0; i < DeviceCount(); i++)
	{
		if (DeviceNumber(i)->pcie >= 0)
			sets[DeviceNumber(i)->pcie] |= UINT64_C(1) << i;
	}
	for (int i = 0; i < DeviceCount(); i++)
	{
		char	   *text;

		if (sets[i] == 0)
			continue;
		text = SetText(sets[i]);
		json_array_append_new(array, json_string(text));
		free(text);
	}
	if (json_array_size(array) > 0)
		json_object_set(object, "pcie", array);
	json_decref(array);
}

/*
 * Calls report_topology(), if the database has to be told. Returns whether it
 * made the call.
 */
bool
TopologyReport(void)
{
	const char *values[3] = {config.key, config.node, report};

	if (report == NULL || telling != NULL || MonotonicNs() < repeat_ns ||
		(told != NULL && told_on == DbConnects() &&
		 strcmp(told, report) == 0))
		return false;
	telling = Dup(report);
	told_on = DbConnects();
	repeat_ns = MonotonicNs() + REPEAT_AFTER;
	DbCall("SELECT report_topology"
		   FROM_PROVEN("report_topology", "$2::pg_catalog.text")
		   ", $3::pg_catalog.jsonb) AS report_topology", 3, values,
		   report_answered, NULL);
	return true;
}

/*
 * Handles the answer. The database answers false if the node's place changed
 * less than a minute ago.
 */
static void
report_answered(PGresult * result, void *context)
{
	bool		in_force = PQresultStatus(result) == PGRES_TUPLES_OK &&
		PQntuples(result) == 1 && *PQgetvalue(result, 0, 0) == 't';

	(void) context;
	free(told);
	told = in_force ? telling : NULL;
	if (in_force)
	{
		LogLine("event=topology_reported node=%s topology=%s", config.node,
				told);
		repeat_ns = 0;
	}
	else
	{
		free(telling);
		if (result != NULL && PQresultStatus(result) != PGRES_TUPLES_OK)
			LogLine("event=topology_not_reported state=%s error=\"%s\"",
					DbState(result),
					PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
	}
	telling = NULL;
}
