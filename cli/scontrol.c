/*-------------------------------------------------------------------------
 *
 * scontrol.c
 *		scontrol: shows jobs and nodes, holds, releases, requeues and changes jobs.
 *
 * Inside a job, another scontrol comes first in the PATH, which lists the
 * job's nodes and requeues the job itself (agent/step_main.c).
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "job_list.h"
#include "node_rows.h"
#include "scontrol_update.h"

#define USE	"usage: scontrol show job [JOBS] | show node [NODES] | hold JOBS |" \
	" release JOBS | requeue JOBS |" \
	" update JobId=JOBS [JobName=NAME] [Comment=TEXT] [WCKey=KEY] [Nice=N]" \
	" [Priority=0]"
#define INSTANT(instant)	SLURM_INSTANT(instant, "Unknown")

static int	show_jobs(const char *list);
static int	show_nodes(const char *list);
static int	for_each(const char *list, int (*call) (int argc, char **argv));

int
CliScontrol(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--help") == 0)
	{
		puts(USE);
		return CLI_DONE;
	}
	if (argc >= 3 && argc <= 4 && strcmp(argv[1], "show") == 0 &&
		strncmp(argv[2], "job", 3) == 0)
		return show_jobs(argc == 4 ? argv[3] : NULL);
	if (argc >= 3 && argc <= 4 && strcmp(argv[1], "show") == 0 &&
		strncmp(argv[2], "node", 4) == 0)
		return show_nodes(argc == 4 ? argv[3] : NULL);
	if (argc == 3 && (strcmp(argv[1], "hold") == 0 ||
					  strcmp(argv[1], "uhold") == 0))
		return for_each(argv[2], CliHold);
	if (argc == 3 && strcmp(argv[1], "release") == 0)
		return for_each(argv[2], CliRelease);
	if (argc == 3 && strcmp(argv[1], "requeue") == 0)
		return for_each(argv[2], CliRequeue);
	if (argc >= 2 && strcmp(argv[1], "requeuehold") == 0)
		Fail(CLI_USAGE, "requeuehold is not supported; requeue the job, and"
			 " hold it once it waits");
	if (argc >= 2 && strcmp(argv[1], "update") == 0)
		return ScontrolUpdate(argc - 2, argv + 2);
	Fail(CLI_USAGE, "%s", USE);
}

/*
 * Prints the jobs of a list, in the format that tools for Slurm parse.
 */
static int
show_jobs(const char *list)
{
	const char *values[2] = {CliOrg(), list == NULL ? NULL :
	JobListParse(list)};
	PGresult   *result;

	result = CliCall(SLURM_FOUND("j.org = $1 AND CASE WHEN $2::bigint[] IS NULL"
								 "  THEN j.ended_at IS NULL"
								 "  ELSE j.job = ANY ($2::bigint[]) END")
					 "SELECT format(E'JobId=%s JobName=%s\\n"
					 "   UserId=%s Account=%s QOS=%s\\n"
					 "   JobState=%s Reason=%s Dependency=%s\\n"
					 "   Requeue=1 Restarts=%s ExitCode=%s\\n"
					 "   RunTime=%s TimeLimit=%s\\n"
					 "   SubmitTime=%s EligibleTime=%s\\n"
					 "   StartTime=%s EndTime=%s Deadline=%s\\n"
					 "   Partition=%s NodeList=%s\\n"
					 "   Gres=%s Cost=%s Comment=%s',"
					 " concat_ws(' ', j.job, CASE WHEN j.task IS NOT NULL THEN"
					 "  'ArrayJobId=' || j.array_job"
					 "  || ' ArrayTaskId=' || j.task END), j.name,"
					 " regexp_replace(j.account, '^.*/', ''), j.account, j.tier,"
					 " j.long, " SLURM_REASON ","
					 " coalesce(j.after, " SLURM_NOTHING "), GREATEST(j.attempt - 1, 0),"
					 " CASE WHEN j.exit_code > 128 THEN '0:' || j.exit_code - 128"
					 "  ELSE coalesce(j.exit_code, 0) || ':0' END,"
					 " " SLURM_LENGTH("coalesce(j.elapsed, '0')") ", "
					 "coalesce(" SLURM_LENGTH("j.wall_limit")
					 ", 'UNLIMITED'), " INSTANT("j.submitted_at") ", "
					 INSTANT("coalesce(j.not_before, j.submitted_at)") ", "
					 INSTANT("j.started_at") ", " INSTANT("j.ended_at") ", "
					 INSTANT("j.deadline") ", j.pool,"
					 " coalesce(nullif(" SLURM_NODES ", ''), " SLURM_NOTHING "),"
					 " j.request, coalesce(j.billed, 0) + coalesce(j.used, 0),"
					 " j.labels ->> 'comment')"
					 " FROM" SLURM_NUMBERED " ORDER BY j.job", 2, values);
	for (int row = 0; row < PQntuples(result); row++)
		printf("%s\n\n", PQgetvalue(result, row, 0));
	if (PQntuples(result) == 0 && list != NULL)
		Fail(CLI_REFUSED, "Invalid job id specified");
	PQclear(result);
	return CLI_DONE;
}

/*
 * Prints nodes, named with commas between them, or all.
 */
static int
show_nodes(const char *list)
{
	const char *values[1] = {list};
	PGresult   *result;

	result = CliCall("SELECT format(E'NodeName=%s CPUAlloc=%s CPUTot=%s\\n"
					 "   AvailableFeatures=%s\\n"
					 "   Gres=%s\\n"
					 "   NodeAddr=%s Version=%s\\n"
					 "   RealMemory=%s AllocMem=%s\\n"
					 "   State=%s Partitions=%s\\n"
					 "   CfgTRES=cpu=%s,mem=%sM,gres/gpu=%s\\n"
					 "   AllocTRES=cpu=%s,mem=%sM,gres/gpu=%s\\n"
					 "   Reason=%s LastHeard=%s',"
					 " n.node, ceil(u.cpu_milli / 1000.0), n.cpu_milli / 1000,"
					 " " SLURM_FEATURES ", " SLURM_GRES ","
					 " coalesce(n.about ->> 'address', n.node),"
					 " coalesce(n.about ->> 'version', " SLURM_NOTHING "),"
					 " n.memory_mib, u.memory_mib, upper(w.long) || w.mark,"
					 " n.pool, n.cpu_milli / 1000, n.memory_mib, n.gpus,"
					 " ceil(u.cpu_milli / 1000.0), u.memory_mib,"
					 " trim_scale(coalesce(c.allocated, 0)),"
					 " coalesce(s.reason, " SLURM_NOTHING "), "
					 INSTANT("s.heard_at") ")"
					 " FROM" SLURM_NODE_ROWS
					 " WHERE $1::text IS NULL"
					 " OR n.node = ANY (string_to_array($1, ','))"
					 " ORDER BY n.node", 1, values);
	for (int row = 0; row < PQntuples(result); row++)
		printf("%s\n\n", PQgetvalue(result, row, 0));
	if (PQntuples(result) == 0 && list != NULL)
		Fail(CLI_REFUSED, "Node %s not found", list);
	PQclear(result);
	return CLI_DONE;
}

/*
 * Makes a command's call for each job of a list.
 */
static int
for_each(const char *list, int (*call) (int argc, char **argv))
{
	char	   *jobs = JobListParse(list);
	char	  **words = Alloc(sizeof(char *) * (strlen(jobs) + 2));
	char	   *save = NULL;
	int			n = 0;

	words[n++] = (char *) cli_program;
	for (char *word = strtok_r(jobs, "{},", &save); word != NULL;
		 word = strtok_r(NULL, "{},", &save))
		words[n++] = word;
	return call(n, words);
}
