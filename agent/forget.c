/*-------------------------------------------------------------------------
 *
 * forget.c
 *		gpucredit-agent forget NODE [CONFIG]: starts a node anew whose agent
 *		has lost its folder.
 *
 * An agent without its folder does not know which attempts run, and counts its
 * starts from 1. The database has a higher count, and refuses the agent, as it
 * would refuse the older of two agents. With this command, an operator who
 * knows that no other agent runs confirms it. The command first ends every
 * process that an earlier agent of the node has started. Then it reports to
 * the database a node without a working device and without a count, so that
 * the attempts there end. The agent's next start reports its devices.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent.h"
#include "clock.h"
#include "config.h"
#include "contain.h"
#include "db.h"
#include "forget.h"
#include "launch.h"
#include "log.h"
#include "memory.h"
#include "node_proof.h"

static void refuse_kept_folder(void);
static void end_processes(void);
static void report(void);

void
ForgetNode(const char *node)
{
	if (config.node == NULL || strcmp(node, config.node) != 0)
		Die("the configuration is of node \"%s\", not \"%s\"",
			config.node == NULL ? "" : config.node, node);
	refuse_kept_folder();
	end_processes();
	AgentReadBootId();
	report();
	printf("node %s is forgotten: start its agent\n", node);
	exit(0);
}

/*
 * Refuses to run if the folder still exists: that agent needs no help.
 */
static void
refuse_kept_folder(void)
{
	char	   *path = Format("%s/incarnation", config.state);

	if (access(path, F_OK) == 0)
		Die("%s is there: start the agent, which knows what runs", config.state);
	free(path);
}

/*
 * Ends all processes that earlier agents of this node have started, keepers
 * first.
 */
static void
end_processes(void)
{
	int64_t		until = MonotonicNs() + 30 * NS_PER_S;
	char	   *marks = LaunchMarks();

	while (ContainKillNode(config.cgroup, LaunchKeepers(), marks))
	{
		if (MonotonicNs() > until)
			Die("processes of node %s cannot be killed: restart the machine",
				config.node);
		(void) usleep(100000);
	}
	free(marks);
}

/*
 * Reports a node without devices to the database.
 */
static void
report(void)
{
	PGconn	   *conn = PQconnectdb(config.database);
	PGresult   *result;
	json_t	   *about = json_pack("{s:s}", "boot_id", boot_id);
	char	   *text = json_dumps(about, JSON_COMPACT);
	const char *values[3] = {config.key, config.node, text};

	if (PQstatus(conn) != CONNECTION_OK)
		Die("could not connect: %s", PQerrorMessage(conn));
	result = PQexecParams(conn, "SELECT 1" FROM_PROVEN("heartbeat",
													   "$2::pg_catalog.text")
						  ", '{}'::gpucredit.gpuset, NULL,"
						  " $3::pg_catalog.jsonb)", 3, NULL, values, NULL, NULL,
						  0);
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		Die("the database refused it: %s", PQerrorMessage(conn));
	PQclear(result);
	PQfinish(conn);
	json_decref(about);
	free(text);
}
