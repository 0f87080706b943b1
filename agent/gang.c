/*-------------------------------------------------------------------------
 *
 * gang.c
 *		Determines an attempt's processes on this node, and their ranks.
 *
 * "launch" in a job's spec has these values: "per_node", the default, is one
 * process on each node, which torchrun multiplies; "per_gpu" is one process
 * for each GPU; "once", which sbatch uses, is one process on the first node,
 * and the other nodes run what that process starts there by srun
 * (step_serve.c). The variables are those of torchrun and of Slurm.
 *
 * All nodes derive MASTER_PORT from the numbers of job and attempt, because
 * agents do not communicate with each other. The first node checks the port:
 * if it is in use, the attempt is not started, and the next attempt has
 * another port.
 *-------------------------------------------------------------------------
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gang.h"
#include "launch_network.h"
#include "memory.h"
#include "slurm_environment.h"

#define FIRST_PORT	20000
#define PORTS		12000		/* the range ends below the ports that the
								 * kernel assigns by itself */

/*
 * Starts a process for each GPU: $1 processes, the first of which has rank $2.
 * The shells ignore the signals that mean save and leave, as the job may
 * handle them. The first process that fails ends all, unless it was told to
 * leave: then the others were told, too, and may take as long as they have.
 */
static const char each_gpu[] =
"n=$1 rank=$2; shift 2; i=0; trap : TERM USR1 USR2; exec 5>&1\n"
"while [ $i -lt $n ]; do\n"
"	(told=; trap : USR1 USR2; trap told=told TERM; exec 6>&1 >&5\n"
"	export LOCAL_RANK=$i SLURM_LOCALID=$i\n"
"	export RANK=$((rank + i)) SLURM_PROCID=$((rank + i))\n"
"	\"$@\" 5>&- 6>&-; echo $? $told >&6) &\n"
"	i=$((i + 1))\n"
"done | (trap '' TERM USR1 USR2; first=0; while read -r code told; do\n"
"	[ \"$code\" = 0 ] || [ -n \"$told\" ] || exit \"$code\"\n"
"	[ $first != 0 ] || first=$code\n"
"done; exit $first)\n";

static bool per_gpu(const Launch *launch);
static int	processes(const Launch *launch, int node);
static int	port_of(const LocalAttempt *attempt, bool *free);
static bool is_free(int port);

/*
 * Writes the words that start the program, before its own arguments.
 */
void
GangPutArguments(Writer *writer, const Launch *launch)
{
	const		json_t *how = json_object_get(launch->spec, "launch");
	const char *name = json_string_value(how);
	int			rank = 0;

	if (how != NULL && (name == NULL || (strcmp(name, "per_node") != 0 &&
										 strcmp(name, "per_gpu") != 0 &&
										 strcmp(name, "once") != 0)))
		StartRefuse(writer, EXIT_EXITED, 127,
					"\"launch\" is once, per_node or per_gpu");
	if (!per_gpu(launch))
		return;
	for (int node = 0; node < launch->attempt->rank; node++)
		rank += processes(launch, node);
	StartPut(writer, "arg", "/bin/sh");
	StartPut(writer, "arg", "-c");
	StartPut(writer, "arg", "%s", each_gpu);
	StartPut(writer, "arg", "gpucredit");
	StartPut(writer, "arg", "%d", processes(launch, launch->attempt->rank));
	StartPut(writer, "arg", "%d", rank);
}

/*
 * Whether the program runs only on the attempt's first node.
 */
bool
GangRunsOnce(const Launch *launch)
{
	const char *how = json_string_value(json_object_get(launch->spec,
														"launch"));

	return how != NULL && strcmp(how, "once") == 0;
}

/*
 * Whether this node runs only what the program on the first node starts here.
 */
bool
GangServesSteps(const Launch *launch)
{
	return GangRunsOnce(launch) && launch->attempt->rank > 0;
}

static bool
per_gpu(const Launch *launch)
{
	const char *how = json_string_value(json_object_get(launch->spec,
														"launch"));

	return how != NULL && strcmp(how, "per_gpu") == 0;
}

/* Returns how many processes a node of the attempt has. */
static int
processes(const Launch *launch, int node)
{
	const		json_t *gpus = json_object_get(launch->intent, "node_gpus");
	int			n = json_integer_value(json_array_get(gpus, node));

	return per_gpu(launch) && n > 1 ? n : 1;
}

/*
 * Writes the variables that are the same for all processes of this node, and
 * those of its first process.
 */
void
GangPutEnvironment(Writer *writer, const Launch *launch)
{
	const LocalAttempt *attempt = launch->attempt;
	const		json_t *nodes = json_object_get(launch->intent, "nodes");
	const		json_t *addresses = json_object_get(launch->intent,
													"addresses");
	const char *master = json_string_value(json_array_get(addresses, 0));
	bool		free_port;
	int			port = port_of(attempt, &free_port);
	int			all = 0;
	char	   *list = Dup("");

	if (!free_port)
		StartRefuse(writer, EXIT_NOT_STARTED, 0,
					"MASTER_PORT %d of this node is taken", port);
	if (NetworkIsOwn(attempt))
		master = "127.0.0.1";
	if (master == NULL || *master == '\0')
		master = json_string_value(json_array_get(nodes, 0));
	for (int node = 0; node < attempt->nodes; node++)
	{
		char	   *more = Format("%s%s%s", list, node == 0 ? "" : ",",
								  json_string_value(json_array_get(nodes,
																   node)));

		free(list);
		list = more;
		all += processes(launch, node);
	}
	StartPut(writer, "env", "MASTER_ADDR=%s", master == NULL ? "" : master);
	StartPut(writer, "env", "MASTER_PORT=%d", port);
	if (GangRunsOnce(launch))
	{
		SlurmPutEnvironment(writer, launch, list);
		free(list);
		return;
	}
	StartPut(writer, "env", "NNODES=%d", attempt->nodes);
	StartPut(writer, "env", "NODE_RANK=%d", attempt->rank);
	StartPut(writer, "env", "WORLD_SIZE=%d", all);
	StartPut(writer, "env", "LOCAL_WORLD_SIZE=%d",
			 processes(launch, attempt->rank));
	StartPut(writer, "env", "RANK=%d", attempt->rank);
	StartPut(writer, "env", "LOCAL_RANK=0");
	StartPut(writer, "env", "SLURM_JOB_ID=%lld", (long long) attempt->job);
	StartPut(writer, "env", "SLURM_NNODES=%d", attempt->nodes);
	StartPut(writer, "env", "SLURM_NTASKS=%d", all);
	StartPut(writer, "env", "SLURM_NODEID=%d", attempt->rank);
	StartPut(writer, "env", "SLURM_PROCID=%d", attempt->rank);
	StartPut(writer, "env", "SLURM_LOCALID=0");
	StartPut(writer, "env", "SLURM_JOB_NODELIST=%s", list);
	StartPut(writer, "env", "SLURM_RESTART_COUNT=%d", attempt->number - 1);
	StartPut(writer, "env", "SLURM_GPUS_ON_NODE=%d",
			 __builtin_popcountll(launch->gpus));
	free(list);
}

/*
 * Returns the port at which the processes of an attempt meet. If the attempt
 * has a single node, the next free port can be used.
 */
static int
port_of(const LocalAttempt *attempt, bool *free)
{
	int			at = (attempt->job * 31 + attempt->number) % PORTS;
	int			tries = attempt->nodes > 1 ? 1 : 100;

	*free = attempt->rank > 0 || NetworkIsOwn(attempt);
	for (int i = 0; i < tries && !*free; i++)
	{
		*free = is_free(FIRST_PORT + (at + i) % PORTS);
		if (*free)
			at = (at + i) % PORTS;
	}
	return FIRST_PORT + at;
}

/*
 * Whether a process could listen at this port.
 */
static bool
is_free(int port)
{
	int			fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int			yes = 1;
	struct sockaddr_in any = {.sin_family = AF_INET,
		.sin_port = htons(port)};
	bool		bound = fd >= 0 &&
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
		bind(fd, (struct sockaddr *) &any, sizeof(any)) == 0;

	if (fd >= 0)
		close(fd);
	return bound;
}
