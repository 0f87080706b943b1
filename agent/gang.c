/*-------------------------------------------------------------------------
 *
 * gang.c
 *		An attempt's place among its nodes, and its processes on this one.
 *
 * A job's spec may have "launch": "per_node", the default, is one process on
 * each node, which torchrun multiplies; "per_gpu" is one for each GPU.  "once",
 * which sbatch asks for, is one process on the first node; the other nodes run
 * what it starts there by srun (step_serve.c).  The variables are those of
 * torchrun and of Slurm.
 *
 * All nodes take MASTER_PORT from the numbers of job and attempt, as agents do
 * not talk to each other.  The first node tries it: if it is taken, the attempt
 * is not started, and the next one has another.
 *
 *-------------------------------------------------------------------------
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gang.h"
#include "slurm_environment.h"
#include "util.h"

#define FIRST_PORT	20000
#define PORTS		12000		/* they end before those that the kernel gives
								 * out */

/*
 * A process for each GPU: $1 of them, of which the first has rank $2.  The
 * shells outlive the signals that mean save and leave, as the job may do so.
 * The first process that fails ends all.
 */
static const char each_gpu[] =
"n=$1 rank=$2; shift 2; i=0; trap : TERM USR1 USR2; exec 5>&1\n"
"while [ $i -lt $n ]; do\n"
"	(trap : TERM USR1 USR2; exec 6>&1 >&5\n"
"	export LOCAL_RANK=$i SLURM_LOCALID=$i\n"
"	export RANK=$((rank + i)) SLURM_PROCID=$((rank + i))\n"
"	\"$@\" 5>&- 6>&-; echo $? >&6) &\n"
"	i=$((i + 1))\n"
"done | (trap '' TERM USR1 USR2; while read -r code; do\n"
"	[ \"$code\" = 0 ] || exit \"$code\"\n"
"done)\n";

static bool per_gpu(const Launch *launch);
static int	processes(const Launch *launch, int node);
static int	port_of(const LocalAttempt *attempt, bool *free);
static bool is_free(int port);

/*
 * What starts the program, before its own words.
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
 * Whether the program runs on the attempt's first node alone.
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

/* how many processes a node of the attempt has */
static int
processes(const Launch *launch, int node)
{
	const		json_t *gpus = json_object_get(launch->intent, "node_gpus");
	int			n = json_integer_value(json_array_get(gpus, node));

	return per_gpu(launch) && n > 1 ? n : 1;
}

/*
 * The variables that are the same for all processes of this node, and those
 * of its first.
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
 * Where the processes of an attempt meet.  Alone on its node it may take the
 * next free port.
 */
static int
port_of(const LocalAttempt *attempt, bool *free)
{
	int			at = (attempt->job * 31 + attempt->number) % PORTS;
	int			tries = attempt->nodes > 1 ? 1 : 100;

	*free = attempt->rank > 0;
	for (int i = 0; i < tries && !*free; i++)
	{
		*free = is_free(FIRST_PORT + (at + i) % PORTS);
		if (*free)
			at = (at + i) % PORTS;
	}
	return FIRST_PORT + at;
}

/*
 * Could a process listen there?
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
