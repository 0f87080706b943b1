/*-------------------------------------------------------------------------
 *
 * slurm_environment.c
 *		Sets the variables that Slurm sets for a batch script, and writes the
 *		files that srun reads.
 *
 * What was known at submission (the script's name, the requested number of
 * tasks) is in the spec's "env" already. This file adds what depends on the
 * nodes that the job got.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "devices.h"
#include "file.h"
#include "memory.h"
#include "slurm_environment.h"

static const char *asked(const Launch *launch, const char *name);
static void put_numbers(Writer *writer, const Launch *launch);
static char *repeated(int n, int times);
static void put_user(Writer *writer, const Launch *launch);
static bool write_file(const Launch *launch, int folder, const char *name,
					   const char *text);
static char *device_lines(uint64_t gpus);
static char *node_lines(const Launch *launch);

/*
 * Writes the variables. "nodes" has the names of the nodes, separated by
 * commas.
 */
void
SlurmPutEnvironment(Writer *writer, const Launch *launch, const char *nodes)
{
	const LocalAttempt *attempt = launch->attempt;
	long long	cpu = json_integer_value(json_object_get(launch->intent,
														 "cpu_milli"));
	int			cpus = cpu < 1000 ? 1 : (int) (cpu / 1000);
	char	   *each = repeated(cpus, attempt->nodes);

	StartPut(writer, "env", "SLURM_JOB_ID=%lld", (long long) attempt->job);
	StartPut(writer, "env", "SLURM_JOBID=%lld", (long long) attempt->job);
	StartPut(writer, "env", "SLURM_NNODES=%d", attempt->nodes);
	StartPut(writer, "env", "SLURM_JOB_NUM_NODES=%d", attempt->nodes);
	StartPut(writer, "env", "SLURM_JOB_NODELIST=%s", nodes);
	StartPut(writer, "env", "SLURM_NODELIST=%s", nodes);
	StartPut(writer, "env", "SLURMD_NODENAME=%s", config.node);
	StartPut(writer, "env", "SLURM_CLUSTER_NAME=gpucredit");
	StartPut(writer, "env", "SLURM_NODEID=%d", attempt->rank);
	StartPut(writer, "env", "SLURM_PROCID=0");
	StartPut(writer, "env", "SLURM_LOCALID=0");
	StartPut(writer, "env", "SLURM_GTIDS=0");
	StartPut(writer, "env", "SLURM_RESTART_COUNT=%d", attempt->number - 1);
	StartPut(writer, "env", "SLURM_CPUS_ON_NODE=%d", cpus);
	StartPut(writer, "env", "SLURM_JOB_CPUS_PER_NODE=%s", each);
	StartPut(writer, "env", "SLURM_GPUS_ON_NODE=%d",
			 __builtin_popcountll(launch->gpus));
	StartPut(writer, "env", "ENVIRONMENT=BATCH");

	/*
	 * The first job of an array has the array's number, which was not known
	 * at submission.
	 */
	if (asked(launch, "SLURM_ARRAY_TASK_ID") != NULL &&
		asked(launch, "SLURM_ARRAY_JOB_ID") == NULL)
		StartPut(writer, "env", "SLURM_ARRAY_JOB_ID=%lld",
				 (long long) launch->attempt->job);
	put_numbers(writer, launch);
	put_user(writer, launch);
	StartPut(writer, "env", "GPUCREDIT_STEPS=%s/.steps", launch->work);
	free(each);
}

/* Returns a variable that was set at submission, or NULL. */
static const char *
asked(const Launch *launch, const char *name)
{
	return json_string_value(json_object_get(json_object_get(launch->spec,
															 "env"), name));
}

/*
 * Writes the number of tasks per node, and the indexes of the devices.
 */
static void
put_numbers(Writer *writer, const Launch *launch)
{
	const char *tasks = asked(launch, "SLURM_NTASKS");
	int			nodes = launch->attempt->nodes;
	int			n = tasks == NULL ? nodes : atoi(tasks);
	char	   *many = repeated(n / nodes + 1, n % nodes);
	char	   *few = repeated(n / nodes, nodes - n % nodes);
	char	   *devices = Dup("");

	if (tasks == NULL)
		StartPut(writer, "env", "SLURM_NTASKS=%d", n);
	StartPut(writer, "env", "SLURM_NPROCS=%d", n);
	StartPut(writer, "env", "SLURM_TASKS_PER_NODE=%s%s%s", many,
			 *many != '\0' && *few != '\0' ? "," : "", few);
	for (int i = 0; i < 64; i++)
	{
		char	   *more;

		if ((launch->gpus >> i & 1) == 0)
			continue;
		more = Format("%s%s%d", devices, *devices == '\0' ? "" : ",", i);
		free(devices);
		devices = more;
	}
	if (*devices != '\0')
		StartPut(writer, "env", "SLURM_JOB_GPUS=%s", devices);
	free(many);
	free(few);
	free(devices);
}

/*
 * Formats a number that several nodes have in common, as Slurm does: "4(x2)".
 */
static char *
repeated(int n, int times)
{
	return times == 0 ? Dup("") : times == 1 ? Format("%d", n) :
		Format("%d(x%d)", n, times);
}

/*
 * Writes the user that the script runs as: its name on this machine, or else
 * the last part of the account.
 */
static void
put_user(Writer *writer, const Launch *launch)
{
	const struct passwd *user = getpwuid(launch->user.uid != 0 ?
										 launch->user.uid : geteuid());
	const char *account = strrchr(launch->attempt->account, '/');
	const char *name = user != NULL ? user->pw_name : account != NULL ?
		account + 1 : launch->attempt->account;

	StartPut(writer, "env", "SLURM_JOB_UID=%u", (unsigned)
			 (launch->user.uid != 0 ? launch->user.uid : geteuid()));
	StartPut(writer, "env", "SLURM_JOB_GID=%u", (unsigned)
			 (launch->user.uid != 0 ? launch->user.gid : getegid()));
	StartPut(writer, "env", "SLURM_JOB_USER=%s", name);
	if (asked(launch, "USER") == NULL)
		StartPut(writer, "env", "USER=%s", name);
	if (asked(launch, "LOGNAME") == NULL)
		StartPut(writer, "env", "LOGNAME=%s", name);
	if (asked(launch, "TMPDIR") == NULL)
		StartPut(writer, "env", "TMPDIR=/tmp");
}

/*
 * Writes what srun reads: the nodes, and the secret that proves to them that a
 * step belongs to the job. Only the job's user can read the files.
 */
void
SlurmPutStepFiles(Writer *writer, const Launch *launch)
{
	const char *key = json_string_value(json_object_get(launch->spec,
														"step_key"));
	int			work = openat(launch->attempt->dir, "work",
							  O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int			folder = -1;
	char	   *nodes = node_lines(launch);
	char	   *devices = device_lines(launch->gpus);

	if (work >= 0 && (mkdirat(work, ".steps", 0700) == 0 || errno == EEXIST))
		folder = openat(work, ".steps", O_RDONLY | O_DIRECTORY | O_CLOEXEC |
						O_NOFOLLOW);
	if (folder < 0 || !write_file(launch, folder, "nodes", nodes) ||
		!write_file(launch, folder, "key", key == NULL ? "" : key) ||
		!write_file(launch, folder, "devices", devices) ||
		!write_file(launch, folder, "taken", "") ||
		(launch->user.uid != 0 &&
		 fchown(folder, launch->user.uid, launch->user.gid) != 0))
		StartRefuse(writer, EXIT_NOT_STARTED, errno, "no folder for steps: %s",
					strerror(errno));
	if (folder >= 0)
		close(folder);
	if (work >= 0)
		close(work);
	free(nodes);
	free(devices);
}

/* Returns a line for each device: its UUID and its device file. */
static char *
device_lines(uint64_t gpus)
{
	char	   *lines = Dup("");

	for (int i = 0; i < 64; i++)
	{
		const Device *device = DeviceNumber(i);
		char	   *more;

		if ((gpus >> i & 1) == 0 || device == NULL)
			continue;
		more = Format("%s%s %s\n", lines, device->uuid, device->path);
		free(lines);
		lines = more;
	}
	return lines;
}

static bool
write_file(const Launch *launch, int folder, const char *name,
		   const char *text)
{
	int			fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC |
							O_CLOEXEC | O_NOFOLLOW, 0600);
	bool		good = fd >= 0 && WriteAll(fd, text, strlen(text)) &&
		(launch->user.uid == 0 ||
		 fchown(fd, launch->user.uid, launch->user.gid) == 0);

	if (fd >= 0)
		close(fd);
	return good;
}

/*
 * Returns the index of this node, then a line for each node: its name, its
 * address, and how many GPUs the job has there.
 */
static char *
node_lines(const Launch *launch)
{
	const		json_t *nodes = json_object_get(launch->intent, "nodes");
	const		json_t *addresses = json_object_get(launch->intent,
													"addresses");
	const		json_t *gpus = json_object_get(launch->intent, "node_gpus");
	char	   *lines = Format("%d\n", launch->attempt->rank);

	for (int i = 0; i < launch->attempt->nodes; i++)
	{
		const char *name = json_string_value(json_array_get(nodes, i));
		const char *address = json_string_value(json_array_get(addresses, i));
		char	   *more = Format("%s%s %s %lld\n", lines, name,
								  address == NULL || *address == '\0' ? name :
								  address, launch->attempt->nodes == 1 ?
								  (long long) __builtin_popcountll(launch->gpus) :
								  json_integer_value(json_array_get(gpus, i)));

		free(lines);
		lines = more;
	}
	return lines;
}
