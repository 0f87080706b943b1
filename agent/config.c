/*-------------------------------------------------------------------------
 *
 * config.c
 *		Reads the agent's configuration file.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "file.h"
#include "log.h"
#include "metrics.h"
#include "network_address.h"
#include "settings.h"
#include "topology_read.h"
#include "users.h"
#include "xid.h"

Config		config = {
	.database = "",
	.state = "/var/lib/gpucredit",
	.devices = "",
	.nvml_library = "libnvidia-ml.so.1",
	.device_poll_ms = 10000,
	.metrics_file = "",
	.metrics_labels = "",
	.nvml_timeout_ms = 10000,
	.leftover_mib = 256,
	.cgroup = "",
	.keeper = "/usr/lib/gpucredit/gpucredit-keeper",
	.steps = "/usr/lib/gpucredit/steps",
	.isolation = "plain",
	.seccomp = "yes",
	.node_key = "",
	.key = "",
	.address = "",
	.poke = "",
	.podman = "podman",
	.network = "",
	.network_deny = "",
	.network_allow = "",
	.slirp4netns = "slirp4netns",
	.image_mounts = "",
	.spot = "no",
	.spot_url = "http://169.254.169.254",
	.topology = "",
	.infiniband = "/sys/class/infiniband",
	.foreign_stop = "",
	.log_folder = "",
	.listen = "no",
	.probe = "no",
	.probe_program = "/usr/lib/gpucredit/gpucredit-gpu-probe",
	.dcgmi = "dcgmi",
	.probe_timeout_s = 300,
	.spot_poll_ms = 5000,
	.topology_poll_ms = 60000,
	.heartbeat_ms = 5000,
	.meter_ms = 60000,
	.stop_grace_ms = 10000,
	.most_processes = 32768,
	.log_folder_kib = 1024,
	.image_pull_s = 3600,
	.uids = 65536,
};

static const Setting settings[] = {
	{"node", &config.node, NULL, 0, 0},
	{"database", &config.database, NULL, 0, 0},
	{"state", &config.state, NULL, 0, 0},
	{"devices", &config.devices, NULL, 0, 0},
	{"nvml_library", &config.nvml_library, NULL, 0, 0},
	{"cgroup", &config.cgroup, NULL, 0, 0},
	{"keeper", &config.keeper, NULL, 0, 0},
	{"steps", &config.steps, NULL, 0, 0},
	{"isolation", &config.isolation, NULL, 0, 0},
	{"seccomp", &config.seccomp, NULL, 0, 0},
	{"node_key", &config.node_key, NULL, 0, 0},
	{"address", &config.address, NULL, 0, 0},
	{"poke", &config.poke, NULL, 0, 0},
	{"podman", &config.podman, NULL, 0, 0},
	{"network", &config.network, NULL, 0, 0},
	{"network_deny", &config.network_deny, NULL, 0, 0},
	{"network_allow", &config.network_allow, NULL, 0, 0},
	{"slirp4netns", &config.slirp4netns, NULL, 0, 0},
	{"image_mounts", &config.image_mounts, NULL, 0, 0},
	{"spot", &config.spot, NULL, 0, 0},
	{"spot_url", &config.spot_url, NULL, 0, 0},
	{"topology", &config.topology, NULL, 0, 0},
	{"infiniband", &config.infiniband, NULL, 0, 0},
	{"foreign_stop", &config.foreign_stop, NULL, 0, 0},
	{"log_folder", &config.log_folder, NULL, 0, 0},
	{"listen", &config.listen, NULL, 0, 0},
	{"probe", &config.probe, NULL, 0, 0},
	{"probe_program", &config.probe_program, NULL, 0, 0},
	{"dcgmi", &config.dcgmi, NULL, 0, 0},
	{"probe_timeout_s", NULL, &config.probe_timeout_s, 1, 86400},
	{"probe_bandwidth_gb_s", NULL, &config.probe_bandwidth_gb_s, 0, 1000000},
	{"probe_nvlink_mbps", NULL, &config.probe_nvlink_mbps, 0, 100000000},
	{"metrics_file", &config.metrics_file, NULL, 0, 0},
	{"metrics_labels", &config.metrics_labels, NULL, 0, 0},
	{"heartbeat_ms", NULL, &config.heartbeat_ms, 50, 20000},
	{"spot_poll_ms", NULL, &config.spot_poll_ms, 100, 60000},
	{"topology_poll_ms", NULL, &config.topology_poll_ms, 100, 3600000},
	{"meter_ms", NULL, &config.meter_ms, 100, 300000},
	{"device_poll_ms", NULL, &config.device_poll_ms, 100, 600000},
	{"nvml_timeout_ms", NULL, &config.nvml_timeout_ms, 100, 600000},
	{"leftover_mib", NULL, &config.leftover_mib, 0, 1000000},
	{"stop_grace_ms", NULL, &config.stop_grace_ms, 0, 600000},
	{"most_processes", NULL, &config.most_processes, 16, 4194304},
	{"log_folder_kib", NULL, &config.log_folder_kib, 0, 32768},
	{"image_pull_s", NULL, &config.image_pull_s, 1, 86400},
	{"uids", NULL, &config.uids, 1, 1000000000},
};

#define SETTINGS	((int) (sizeof(settings) / sizeof(settings[0])))

static bool has_option(const char *conninfo, const char *name);
static void check_network(const char *path);
static void refuse_if_read(const char *path);
static bool other_setting(const char *name, const char *value,
						  const char *path, int line);

/*
 * Reads the file. Any mistake in it ends the agent, because a guess could run
 * jobs on the wrong node.
 */
void
ConfigRead(const char *path, bool of_node)
{
	SettingsRead(path, settings, SETTINGS, other_setting);
	if (of_node && (config.node == NULL || *config.node == '\0'))
		Die("%s names no node", path);
	/* With foreign_stop set, another scheduler starts the jobs. */
	if (of_node && geteuid() == 0 && config.first_uid == 0 &&
		*config.foreign_stop == '\0')
		Die("%s: jobs would run as root: set first_uid", path);
	if (strcmp(config.isolation, "plain") != 0 &&
		strcmp(config.isolation, "bwrap") != 0)
		Die("%s: isolation is plain or bwrap, not \"%s\"", path,
			config.isolation);
	if (strcmp(config.listen, "yes") != 0 &&
		strcmp(config.listen, "no") != 0)
		Die("%s: listen is yes or no, not \"%s\"", path, config.listen);
	check_network(path);
	if (strcmp(config.spot, "no") != 0 && strcmp(config.spot, "aws") != 0 &&
		strcmp(config.spot, "gcp") != 0 && strcmp(config.spot, "azure") != 0)
		Die("%s: spot is no, aws, gcp or azure, not \"%s\"", path, config.spot);
	if (*config.topology != '\0' && strcmp(config.topology, "none") != 0 &&
		!TopologyFileKnown(config.topology))
		Die("%s: topology is none, or a file as conf:PATH, yaml:PATH or"
			" ibnetdiscover:PATH, not \"%s\"", path, config.topology);
	if (strcmp(config.probe, "no") != 0 &&
		strcmp(config.probe, "builtin") != 0 &&
		strcmp(config.probe, "dcgm") != 0 && *config.probe != '/')
		Die("%s: probe is no, builtin, dcgm or the path of a program, not"
			" \"%s\"", path, config.probe);
	if (strcmp(config.probe, "dcgm") == 0 &&
		strcmp(config.devices, "nvml") != 0)
		Die("%s: probe = dcgm needs devices = nvml", path);
	MetricsCheckSettings(path);
	if (strncmp(config.spot_url, "http://", 7) != 0)
		Die("%s: spot_url begins with http://, not \"%s\"", path,
			config.spot_url);
	if (strcmp(config.seccomp, "yes") != 0 &&
		strcmp(config.seccomp, "no") != 0)
		Die("%s: seccomp is yes or no, not \"%s\"", path, config.seccomp);
	if (has_option(config.database, "password"))
		refuse_if_read(path);
	if (*config.node_key != '\0')
	{
		refuse_if_read(config.node_key);
		config.key = FileGet(AT_FDCWD, config.node_key, NULL);
		if (config.key == NULL)
			Die("could not read %s: %s", config.node_key, strerror(errno));
		config.key[strcspn(config.key, "\r\n")] = '\0';
	}
}

/*
 * Checks the settings for jobs' network. Only root can create a namespace for
 * jobs, so "private" is the default only for root, and "node" otherwise.
 */
static void
check_network(const char *path)
{
	if (*config.network == '\0')
		config.network = geteuid() == 0 ? "private" : "node";
	if (strcmp(config.network, "private") != 0 &&
		strcmp(config.network, "outbound") != 0 &&
		strcmp(config.network, "node") != 0)
		Die("%s: network is private, outbound or node, not \"%s\"", path,
			config.network);
	if (strcmp(config.network, "node") != 0 && geteuid() != 0)
		Die("%s: network is node where the agent is not root", path);

	/*
	 * The database's hosts are denied to jobs. They must therefore be named
	 * in the connection string.
	 */
	if (strcmp(config.network, "outbound") == 0 &&
		(!(has_option(config.database, "host") ||
		   has_option(config.database, "hostaddr")) ||
		 has_option(config.database, "service") ||
		 getenv("PGSERVICE") != NULL || getenv("PGHOSTADDR") != NULL))
		Die("%s: network = outbound needs the hosts in database, and no"
			" service", path);
	if (!AreNetworks(config.network_allow))
		Die("%s: network_allow has networks A.B.C.D/BITS, not \"%s\"", path,
			config.network_allow);
}

/*
 * Whether a connection string has an option, such as a password.
 */
static bool
has_option(const char *conninfo, const char *name)
{
	PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
	bool		has = false;

	for (PQconninfoOption * o = options; o != NULL && o->keyword != NULL; o++)
	{
		if (strcmp(o->keyword, name) == 0 && o->val != NULL)
			has = true;
	}
	PQconninfoFree(options);
	return has;
}

/*
 * Ends the agent if users of this machine can read a file that contains a
 * secret, because jobs run as users of the machine. The file's group may read
 * it if it is root's or the agent's own.
 */
static void
refuse_if_read(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		Die("could not read %s: %s", path, strerror(errno));
	if ((st.st_mode & S_IROTH) != 0 ||
		((st.st_mode & S_IRGRP) != 0 && st.st_gid != 0 &&
		 st.st_gid != getegid()))
		Die("%s has a secret, and others can read it: chmod 600 %s", path,
			path);
}

/*
 * Sets a setting that is neither a plain text nor a number. Returns false if
 * there is no such setting.
 */
static bool
other_setting(const char *name, const char *value, const char *path, int line)
{
	if (strcmp(name, "first_uid") == 0)
	{
		config.first_uid = SettingNumber(value, 1000, 4000000000L, name, path,
										 line);
		return true;
	}
	if (strncmp(name, "user.", 5) == 0)
	{
		if (!UsersMap(name + 5, value))
			Die("%s:%d: \"%s\" is no user of this machine but root", path,
				line, value);
		return true;
	}
	if (strncmp(name, "xid.", 4) != 0)
		return false;
	if (!XidConfigure(name + 4, value))
		Die("%s:%d: an Xid is xid.N = hardware, after_job, application or"
			" log", path, line);
	return true;
}
