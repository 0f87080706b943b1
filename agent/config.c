/*-------------------------------------------------------------------------
 *
 * config.c
 *		The agent's configuration file: lines "name = value".
 *
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "util.h"
#include "xid.h"

Config		config = {
	.database = "",
	.state = "/var/lib/gpucredit",
	.devices = "",
	.nvml_library = "libnvidia-ml.so.1",
	.device_poll_ms = 10000,
	.nvml_timeout_ms = 10000,
	.leftover_mib = 256,
	.cgroup = "",
	.keeper = "/usr/lib/gpucredit/gpucredit-keeper",
	.isolation = "plain",
	.seccomp = "yes",
	.node_key = "",
	.key = "",
	.address = "",
	.poke = "",
	.podman = "podman",
	.image_mounts = "",
	.listen = "no",
	.heartbeat_ms = 5000,
	.meter_ms = 60000,
	.stop_grace_ms = 10000,
	.most_processes = 32768,
	.uids = 65536,
};

/* A setting: a text, or a number within bounds. */
static const struct
{
	const char *name;
	char	  **text;
	long	   *number;
	long		least;
	long		most;
}			settings[] = {
	{"node", &config.node, NULL, 0, 0},
	{"database", &config.database, NULL, 0, 0},
	{"state", &config.state, NULL, 0, 0},
	{"devices", &config.devices, NULL, 0, 0},
	{"nvml_library", &config.nvml_library, NULL, 0, 0},
	{"cgroup", &config.cgroup, NULL, 0, 0},
	{"keeper", &config.keeper, NULL, 0, 0},
	{"isolation", &config.isolation, NULL, 0, 0},
	{"seccomp", &config.seccomp, NULL, 0, 0},
	{"node_key", &config.node_key, NULL, 0, 0},
	{"address", &config.address, NULL, 0, 0},
	{"poke", &config.poke, NULL, 0, 0},
	{"podman", &config.podman, NULL, 0, 0},
	{"image_mounts", &config.image_mounts, NULL, 0, 0},
	{"listen", &config.listen, NULL, 0, 0},
	{"heartbeat_ms", NULL, &config.heartbeat_ms, 50, 20000},
	{"meter_ms", NULL, &config.meter_ms, 100, 300000},
	{"device_poll_ms", NULL, &config.device_poll_ms, 100, 600000},
	{"nvml_timeout_ms", NULL, &config.nvml_timeout_ms, 100, 600000},
	{"leftover_mib", NULL, &config.leftover_mib, 0, 1000000},
	{"stop_grace_ms", NULL, &config.stop_grace_ms, 0, 600000},
	{"most_processes", NULL, &config.most_processes, 16, 4194304},
	{"uids", NULL, &config.uids, 1, 1000000000},
};

#define SETTINGS	((int) (sizeof(settings) / sizeof(settings[0])))

static void take_line(char *line, const char *path, int number);
static void set(const char *name, const char *value, const char *path,
				int number);
static long whole_number(const char *value, long least, long most,
						 const char *name, const char *path, int line);
static char *trim(char *text);

/*
 * Read the file.  Any mistake ends the agent: a guess could run jobs on the
 * wrong node.
 */
void
ConfigRead(const char *path, bool of_node)
{
	FILE	   *file = fopen(path, "r");
	char		line[4096];

	if (file == NULL)
		Die("could not read %s: %s", path, strerror(errno));
	for (int number = 1; fgets(line, sizeof(line), file) != NULL; number++)
		take_line(line, path, number);
	fclose(file);
	if (of_node && (config.node == NULL || *config.node == '\0'))
		Die("%s names no node", path);
	if (strcmp(config.isolation, "plain") != 0 &&
		strcmp(config.isolation, "bwrap") != 0)
		Die("%s: isolation is plain or bwrap, not \"%s\"", path,
			config.isolation);
	if (strcmp(config.listen, "yes") != 0 &&
		strcmp(config.listen, "no") != 0)
		Die("%s: listen is yes or no, not \"%s\"", path, config.listen);
	if (strcmp(config.seccomp, "yes") != 0 &&
		strcmp(config.seccomp, "no") != 0)
		Die("%s: seccomp is yes or no, not \"%s\"", path, config.seccomp);
	if (*config.node_key != '\0')
	{
		config.key = FileGet(AT_FDCWD, config.node_key, NULL);
		if (config.key == NULL)
			Die("could not read %s: %s", config.node_key, strerror(errno));
		config.key[strcspn(config.key, "\r\n")] = '\0';
	}
}

static void
take_line(char *line, const char *path, int number)
{
	char	   *name = trim(line);
	char	   *value = strchr(name, '=');

	if (*name == '\0' || *name == '#')
		return;
	if (value == NULL)
		Die("%s:%d: not \"name = value\"", path, number);
	*value++ = '\0';
	set(trim(name), trim(value), path, number);
}

/*
 * Set one setting; an unknown name ends the agent.
 */
static void
set(const char *name, const char *value, const char *path, int number)
{
	if (strcmp(name, "first_uid") == 0)
	{
		config.first_uid = whole_number(value, 1000, 4000000000L, name, path,
										number);
		return;
	}
	if (strncmp(name, "xid.", 4) == 0)
	{
		if (!XidConfigure(name + 4, value))
			Die("%s:%d: an Xid is xid.N = hardware, after_job, application or"
				" log", path, number);
		return;
	}
	for (int i = 0; i < SETTINGS; i++)
	{
		if (strcmp(name, settings[i].name) != 0)
			continue;
		if (settings[i].text != NULL)
			*settings[i].text = Dup(value);
		else
			*settings[i].number = whole_number(value, settings[i].least,
											   settings[i].most, name, path,
											   number);
		return;
	}
	Die("%s:%d: there is no setting \"%s\"", path, number, name);
}

static long
whole_number(const char *value, long least, long most, const char *name,
			 const char *path, int line)
{
	char	   *end;
	long		number;

	errno = 0;
	number = strtol(value, &end, 10);
	if (end == value || *end != '\0' || errno != 0 || number < least ||
		number > most)
		Die("%s:%d: %s is a number from %ld to %ld", path, line, name, least,
			most);
	return number;
}

static char *
trim(char *text)
{
	char	   *end;

	while (isspace((unsigned char) *text))
		text++;
	end = text + strlen(text);
	while (end > text && isspace((unsigned char) end[-1]))
		*--end = '\0';
	return text;
}
