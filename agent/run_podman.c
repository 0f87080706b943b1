/*-------------------------------------------------------------------------
 *
 * run_podman.c
 *		Runs jobs in an image: spec.image.
 *
 * The agent first pulls the image (pull_image.c). Then the keeper runs "podman
 * run" as it runs any program. Podman creates no cgroup of its own, so the
 * whole container is in the attempt's cgroup, where it is ended, frozen and
 * limited. The container's processes run as the job's user without
 * capabilities. "--network=host" means that podman adds no network of its own:
 * the container has that in which podman is started (network.c).
 *
 * GPUs are added by the Container Device Interface: the agent writes a file
 * that names the node's devices and the driver's files.
 *
 * A tenant names the image, and podman runs as root. Therefore an image is
 * only ever read from the node's store or from a registry, never from a path,
 * and podman's own environment contains nothing of the job's.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "device_filter.h"
#include "devices.h"
#include "file.h"
#include "launch_network.h"
#include "log.h"
#include "memory.h"
#include "network.h"
#include "podman.h"
#include "run_podman.h"
#include "start_file.h"

#define CDI_FOLDER		"/run/cdi"	/* folder that podman reads */
#define CDI_KIND		"gpucredit/gpu"
#define CDI_LIBRARIES	"/usr/local/nvidia/lib64"	/* folder where CUDA
													 * images search for
													 * libraries */
#define MOST_PROCESSES	32768	/* podman's own default limit */

static void put_words(Writer *writer, const char *const *words);
static void put_limits(Writer *writer);
static void put_mounts(Writer *writer, const Launch *launch);
static bool cdi_write(void);
static json_t * cdi_edits(const char *path);
static json_t * cdi_driver(void);
static void add_libraries(json_t * mounts, const char *pattern);
static json_t * mount_of(const char *host, const char *inside,
						 const char *access);

/*
 * Writes podman's arguments, which precede those of the program.
 */
void
PodmanPut(Writer *writer, const Launch *launch)
{
	static const char *const words[] = {
		"--cgroup-manager=cgroupfs", "--runtime=crun", "run",
		"--cgroups=disabled", "--pull=never", "--init", "--sig-proxy=false",
		"--log-driver=none", "--network=host", "--shm-size=0",
		"--preserve-fds=1", "--cap-drop=all",
		"--security-opt=no-new-privileges", NULL
	};
	char	   *name = PodmanContainer(launch->attempt);

	if (!cdi_write())
		StartRefuse(writer, EXIT_NOT_STARTED, errno, CDI_FOLDER ": %s",
					strerror(errno));
	StartPut(writer, "caps", "keep");
	StartPut(writer, "nested", "yes");
	StartPut(writer, "made", "%s/run/%s/container", config.state,
			 launch->attempt->name);
	StartPut(writer, "env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin");
	StartPut(writer, "env", "HOME=/root");
	StartPut(writer, "env", "GPUCREDIT_ATTEMPT=%s", launch->attempt->tag);
	StartPut(writer, "env", "GPUCREDIT_MARK=%s", launch->mark);
	StartPut(writer, "arg", "%s", config.podman);
	put_words(writer, words);
	StartPut(writer, "arg", "--name=%s", name);
	StartPut(writer, "arg", "--pidfile=%s/run/%s/container", config.state,
			 launch->attempt->name);
	StartPut(writer, "arg", "--env-file=%s/run/%s/environment", config.state,
			 launch->attempt->name);
	StartPut(writer, "arg", "--user=%u:%u",
			 (unsigned) launch->user.uid, (unsigned) launch->user.gid);
	if (strcmp(config.seccomp, "yes") != 0)
		StartPut(writer, "arg", "--security-opt=seccomp=unconfined");
	if (NetworkIsOwn(launch->attempt) &&
		strcmp(config.network, "outbound") == 0)
		StartPut(writer, "arg", "--dns=" NETWORK_RESOLVER);
	put_limits(writer);
	put_mounts(writer, launch);
	for (int i = 0; i < DeviceCount(); i++)
	{
		if ((launch->gpus >> i & 1) != 0 && *DeviceNumber(i)->path != '\0')
			StartPut(writer, "arg", "--device=%s=%s", CDI_KIND,
					 DeviceNumber(i)->uuid);
	}
	StartPut(writer, "arg", "--workdir=%s", launch->workdir);

	/*
	 * Without this, the image's own entry point would run instead of the
	 * spec's program.
	 */
	StartPut(writer, "arg", "--entrypoint=");
	StartPut(writer, "arg", "--");
	StartPut(writer, "arg", "%s", launch->image);
	free(name);
}

static void
put_words(Writer *writer, const char *const *words)
{
	for (; *words != NULL; words++)
		StartPut(writer, "arg", "%s", *words);
}

/*
 * Sets limits no higher than the agent's own. By default, podman would request
 * more and be refused.
 */
static void
put_limits(Writer *writer)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		StartPut(writer, "arg", "--ulimit=nofile=%llu:%llu",
				 (unsigned long long) limit.rlim_max,
				 (unsigned long long) limit.rlim_max);
	if (getrlimit(RLIMIT_NPROC, &limit) == 0)
	{
		unsigned long long most = limit.rlim_max > MOST_PROCESSES ?
			MOST_PROCESSES : limit.rlim_max;

		StartPut(writer, "arg", "--ulimit=nproc=%llu:%llu", most, most);
	}
}

/*
 * Mounts the attempt's own folder and those of image_mounts. A path that a job
 * names is never mounted, because podman is root and can access what the job's
 * user may not.
 */
static void
put_mounts(Writer *writer, const Launch *launch)
{
	char	   *shared = Dup(config.image_mounts);
	char	   *rest = shared;
	char	   *one;

	StartPut(writer, "arg", "--volume=%s:%s", launch->work, launch->work);
	while ((one = strsep(&rest, " \t")) != NULL)
	{
		if (*one != '\0')
			StartPut(writer, "arg", "--volume=%s:%s", one, one);
	}
	free(shared);
}

/*
 * Redirects "env" to a file for podman from here on, because other users could
 * read variables among podman's arguments.
 */
void
PodmanEnvironmentBegin(Writer *writer)
{
	writer->env = open_memstream(&writer->env_text, &writer->env_len);
	if (writer->env == NULL)
		Die("out of memory");
}

void
PodmanEnvironmentEnd(Writer *writer, const Launch *launch)
{
	fclose(writer->env);
	writer->env = NULL;
	if (!FilePut(launch->attempt->dir, "environment", writer->env_text,
				 writer->env_len))
		StartRefuse(writer, EXIT_NOT_STARTED, errno,
					"could not write it down: %s", strerror(errno));
	free(writer->env_text);
}

/*
 * Writes the file that names the node's devices to podman. Returns false with
 * errno set on failure.
 */
static bool
cdi_write(void)
{
	json_t	   *devices = json_array();
	json_t	   *all = json_pack("{s:s, s:s, s:o, s:o}", "cdiVersion", "0.3.0",
								"kind", CDI_KIND, "devices", devices,
								"containerEdits", cdi_driver());
	char	   *name = Format("gpucredit-%s.json", config.node);
	char	   *text;
	int			dir;
	bool		good;

	for (int i = 0; i < DeviceCount(); i++)
	{
		const Device *device = DeviceNumber(i);

		if (*device->path != '\0')
			json_array_append_new(devices,
								  json_pack("{s:s, s:o}", "name", device->uuid,
											"containerEdits",
											cdi_edits(device->path)));
	}
	text = json_dumps(all, JSON_INDENT(1));
	good = mkdir(CDI_FOLDER, 0755) == 0 || errno == EEXIST;
	dir = open(CDI_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	good = good && dir >= 0 && (json_array_size(devices) == 0 ||
								FilePut(dir, name, text, strlen(text)));
	if (dir >= 0)
		close(dir);
	free(text);
	free(name);
	json_decref(all);
	return good;
}

/*
 * Describes a device file, or another file that represents a GPU in tests.
 */
static json_t *
cdi_edits(const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0 && S_ISCHR(st.st_mode))
		return json_pack("{s:[{s:s}]}", "deviceNodes", "path", path);
	return json_pack("{s:[o]}", "mounts", mount_of(path, path, "rw"));
}

/*
 * Describes what each container with a GPU needs: the driver's device files,
 * and the libraries of the driver's version.
 */
static json_t *
cdi_driver(void)
{
	static const char *const patterns[] = {
		"/usr/lib/*-linux-gnu/libcuda.so*",
		"/usr/lib/*-linux-gnu/libcudadebugger.so*",
		"/usr/lib/*-linux-gnu/libnvcuvid.so*",
		"/usr/lib/*-linux-gnu/libnvidia-*.so*",
		"/usr/lib64/libcuda.so*",
		"/usr/lib64/libcudadebugger.so*",
		"/usr/lib64/libnvcuvid.so*",
		"/usr/lib64/libnvidia-*.so*",
		NULL
	};
	json_t	   *nodes = json_array();
	json_t	   *mounts = json_array();

	for (int i = 0; DriverFiles[i] != NULL; i++)
	{
		if (access(DriverFiles[i], F_OK) == 0)
			json_array_append_new(nodes, json_pack("{s:s}", "path",
												   DriverFiles[i]));
	}
	for (int i = 0; patterns[i] != NULL; i++)
		add_libraries(mounts, patterns[i]);
	if (access("/usr/bin/nvidia-smi", X_OK) == 0)
		json_array_append_new(mounts, mount_of("/usr/bin/nvidia-smi",
											   "/usr/bin/nvidia-smi", "ro"));
	return json_pack("{s:o, s:o}", "deviceNodes", nodes, "mounts", mounts);
}

/*
 * Mounts each library where CUDA images search for it.
 */
static void
add_libraries(json_t * mounts, const char *pattern)
{
	glob_t		found;

	if (glob(pattern, 0, NULL, &found) == 0)
	{
		for (size_t i = 0; i < found.gl_pathc; i++)
		{
			char	   *inside = Format("%s/%s", CDI_LIBRARIES,
										strrchr(found.gl_pathv[i], '/') + 1);

			json_array_append_new(mounts, mount_of(found.gl_pathv[i], inside,
												   "ro"));
			free(inside);
		}
	}
	globfree(&found);
}

static json_t *
mount_of(const char *host, const char *inside, const char *access)
{
	return json_pack("{s:s, s:s, s:[s, s]}", "hostPath", host,
					 "containerPath", inside, "options", "bind", access);
}
