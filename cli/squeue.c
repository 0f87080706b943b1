/*-------------------------------------------------------------------------
 *
 * squeue.c
 *		squeue: lists the queue as Slurm does, for people and for programs.
 *
 * An unknown option or format letter ends the command, because a tool that got
 * something else than it requested would draw wrong conclusions. A user is the
 * last part of an account's path.
 *-------------------------------------------------------------------------
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"
#include "job_list.h"
#include "slurm_format.h"

#define USE	"usage: squeue [-l | -o FORMAT | -O NAMES | --start | --json] [-h]\n" \
	"              [-j JOBS] [-A ACCOUNT] [-u USERS] [-p PARTITIONS]\n" \
	"              [-t STATES] [-n NAMES] [-w NODES] [-S FIELD]"
#define FORMAT	"%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
#define FORMAT_LONG	"%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
#define FORMAT_START	"%.18i %.9P %.8j %.8u %.2t %.19S %.6D %R"

/*
 * The time left, which is NULL for a job without a limit. The CASE is needed
 * because GREATEST ignores nulls.
 */
#define LEFT \
	"(CASE WHEN j.wall_limit IS NOT NULL THEN GREATEST(j.wall_limit" \
	" - coalesce(j.elapsed, '0'), '0') END)"

/* The fields, and their SQL for a job "j". */
static const SlurmField fields[] = {
	{'A', false, "JOBID", "j.job::text"},
	/* The number of nodes is decided only when the job starts. */
	{'D', false, "NODES", "CASE WHEN j.nodes IS NULL THEN 'N/A' ELSE"
	" cardinality(string_to_array(" SLURM_NODES ", ','))::text END"},
	{'E', false, "DEPENDENCY", "coalesce(j.after, " SLURM_NOTHING ")"},
	{'F', false, "ARRAY_JOB_ID", "j.array_job::text"},
	{'K', false, "ARRAY_TASK_ID", "coalesce(j.task::text, 'N/A')"},
	{'L', false, "TIME_LEFT", "coalesce(" SLURM_LENGTH(LEFT) ", 'UNLIMITED')"},
	{'M', false, "TIME", SLURM_LENGTH("coalesce(j.elapsed, '0')")},
	{'N', false, "NODELIST", SLURM_NODES},
	{'P', false, "PARTITION", "j.pool"},
	{'R', false, "NODELIST(REASON)", "CASE WHEN j.long = 'PENDING' THEN"
	" '(' || " SLURM_REASON " || ')' ELSE " SLURM_NODES " END"},
	{'S', false, "START_TIME",
	SLURM_INSTANT("coalesce(j.started_at, q.expected_at)", "N/A")},
	{'T', false, "STATE", "j.long"},
	{'V', false, "SUBMIT_TIME", SLURM_INSTANT("j.submitted_at", "N/A")},
	{'a', false, "ACCOUNT", "j.account"},
	{'b', false, "TRES_PER_NODE", "j.request"},
	{'e', false, "END_TIME",
	SLURM_INSTANT("coalesce(j.ended_at, j.started_at + j.wall_limit)", "N/A")},
	{'i', false, "JOBID", SLURM_JOB_ID},
	{'j', false, "NAME", "coalesce(j.name, 'sbatch')"},
	{'k', false, "COMMENT", "coalesce(j.labels ->> 'comment', " SLURM_NOTHING ")"},
	{'l', false, "TIME_LIMIT", "coalesce(" SLURM_LENGTH("j.wall_limit") ", 'UNLIMITED')"},
	{'q', false, "QOS", "j.tier"},
	{'r', false, "REASON", SLURM_REASON},
	{'t', false, "ST", "j.short"},
	{'u', false, "USER", "regexp_replace(j.account, '^.*/', '')"},
	{'\0', false, NULL, NULL}
};

/* Long names of the letters, for -O. */
static const SlurmFieldName names[] = {
	{"Account", 'a'}, {"ArrayJobID", 'F'}, {"ArrayTaskID", 'K'},
	{"Comment", 'k'}, {"Dependency", 'E'}, {"EndTime", 'e'},
	{"JobArrayID", 'F'}, {"JobID", 'A'}, {"Name", 'j'}, {"NodeList", 'N'},
	{"NumNodes", 'D'}, {"Partition", 'P'}, {"QOS", 'q'}, {"Reason", 'r'}, {"ReasonList", 'R'},
	{"StartTime", 'S'}, {"State", 'T'}, {"StateCompact", 't'},
	{"SubmitTime", 'V'}, {"TimeLeft", 'L'}, {"TimeLimit", 'l'},
	{"TimeUsed", 'M'}, {"tres-per-node", 'b'}, {"UserName", 'u'}, {NULL, 0}
};

/* Selects the jobs that the options match. */
#define FOUND SLURM_FOUND( \
	"j.org = $1 AND ($2::bigint[] IS NULL OR j.job = ANY ($2::bigint[]))" \
	" AND CASE WHEN $3::text IS NULL THEN j.ended_at IS NULL" \
	"  WHEN lower($3) = 'all' THEN $2::bigint[] IS NOT NULL" \
	"   OR j.ended_at IS NULL" \
	"   OR j.ended_at > gpucredit.now() - interval '5 min'" \
	"  ELSE ARRAY[s.long, s.short] && string_to_array(upper($3), ',') END" \
	" AND " SLURM_OF_ACCOUNT("$4") " AND " SLURM_OF_USERS("$5") \
	" AND ($6::text IS NULL OR j.pool = ANY (string_to_array($6, ',')))" \
	" AND ($7::text IS NULL OR j.name = ANY (string_to_array($7, ',')))" \
	" AND ($8::text IS NULL OR string_to_array(" SLURM_NODES ", ',')" \
	"  && string_to_array($8, ','))" \
	" AND (NOT $9::boolean OR s.long = 'PENDING')")

/* The options of squeue. */
typedef struct Squeue
{
	const char *format;
	const char *names;			/* list of names to use instead of the format,
								 * or NULL */
	char	   *jobs;			/* text of a bigint array, or NULL for all */
	const char *states;			/* NULL for live jobs */
	const char *account;
	const char *user;
	const char *pool;
	const char *name;
	const char *nodes;
	const char *order;			/* SQL of ORDER BY */
	bool		start;			/* show when waiting jobs are expected to
								 * start */
	bool		heading;
	bool		json;
} Squeue;

static const char letters[] = ":A:ahj:ln:O:o:p:rS:t:u:w:";
static const struct option options[] = {
	{"Format", required_argument, NULL, 'O'},
	{"account", required_argument, NULL, 'A'},
	{"all", no_argument, NULL, 'a'},
	{"array", no_argument, NULL, 'r'},
	{"format", required_argument, NULL, 'o'},
	{"help", no_argument, NULL, 'H'},
	{"jobs", required_argument, NULL, 'j'},
	{"json", no_argument, NULL, 'J'},
	{"long", no_argument, NULL, 'l'},
	{"name", required_argument, NULL, 'n'},
	{"nodelist", required_argument, NULL, 'w'},
	{"sort", required_argument, NULL, 'S'},
	{"start", no_argument, NULL, 's'},
	{"me", no_argument, NULL, 'm'},
	{"noheader", no_argument, NULL, 'h'},
	{"partition", required_argument, NULL, 'p'},
	{"states", required_argument, NULL, 't'},
	{"user", required_argument, NULL, 'u'},
	{NULL, 0, NULL, 0}
};

static void parse_options(Squeue *q, int argc, char **argv);
static const char *sort_order(const char *text);

/*
 * Runs squeue with one call. Each job has a line.
 */
int
CliSqueue(int argc, char **argv)
{
	Squeue		q = {.format = FORMAT, .heading = true,
		.account = cli_account, .order = "j.job"};
	SlurmFormat format;
	char	   *sql;
	const char *values[9];
	PGresult   *result;

	parse_options(&q, argc, argv);
	if (q.names != NULL)
		SlurmFormatParseNames(fields, names, q.names, &format);
	else
		SlurmFormatParse(fields, q.format, &format);
	sql = SlurmFormatSelect(&format);
	sql = Format(FOUND "SELECT j.job%s%s FROM" SLURM_NUMBERED
				 "%s ORDER BY %s, j.job", format.n == 0 ? "" : ", ", sql,
				 q.start ? SLURM_JOIN_QUEUE :
				 " CROSS JOIN (SELECT NULL::timestamptz AS expected_at) q",
				 q.order);
	values[0] = CliOrg();
	values[1] = q.jobs;
	values[2] = q.states;
	values[3] = q.account;
	values[4] = q.user;
	values[5] = q.pool;
	values[6] = q.name;
	values[7] = q.nodes;
	values[8] = q.start ? "t" : "f";
	result = CliCall(sql, 9, values);
	if (q.json)
		CliPrintJson(CliJsonRows(result));
	else
		SlurmFormatPrint(&format, result, 1, q.heading);
	PQclear(result);
	return CLI_DONE;
}

/*
 * Parse the command line.
 */
static void
parse_options(Squeue *q, int argc, char **argv)
{
	int			option;

	while ((option = CliNextOption(USE, options, letters, argc, argv)) != -1)
	{
		switch (option)
		{
			case 'A':
				q->account = optarg;
				break;
			case 'J':
				q->json = true;
				break;
			case 'O':
				q->names = optarg;
				break;
			case 'S':
				q->order = sort_order(optarg);
				break;
			case 'a':
			case 'r':
				break;			/* each task has its own line already */
			case 'h':
				q->heading = false;
				break;
			case 'j':
				q->jobs = JobListParse(optarg);
				break;
			case 'l':
				q->format = FORMAT_LONG;
				break;
			case 'n':
				q->name = optarg;
				break;
			case 's':
				q->start = true;
				q->format = FORMAT_START;
				break;
			case 'w':
				q->nodes = NodeListCheck(optarg);
				break;
			case 'm':
				break;			/* the account of GPUCREDIT_ACCOUNT is the
								 * default, as in all commands */
			case 'o':
				q->format = optarg;
				q->names = NULL;
				break;
			case 'p':
				q->pool = optarg;
				break;
			case 't':
				q->states = strcasecmp(optarg, "all") == 0 ? optarg :
					StateListCheck(optarg);
				break;
			case 'u':
				q->user = optarg;
				break;
		}
	}
}

/*
 * Parses a sort order such as "-i" or "u,-M": letters of a format, with "-"
 * for descending order. Returns SQL.
 */
static const char *
sort_order(const char *text)
{
	char	   *copy = Format("%s", text);
	char	   *order = Format("%s", "");
	char	   *save = NULL;

	for (char *word = strtok_r(copy, ",", &save); word != NULL;
		 word = strtok_r(NULL, ",", &save))
	{
		bool		down = *word == '-';
		const SlurmField *field;

		word += *word == '-' || *word == '+';
		field = SlurmFieldFind(fields, *word);
		if (field == NULL || word[1] != '\0')
			Fail(CLI_USAGE, "\"%s\" of --sort is not supported", word);
		order = Format("%s%s%s%s", order, *order == '\0' ? "" : ", ",
					   *word == 'i' || *word == 'A' ? "j.job" :
					   field->sql, down ? " DESC" : "");
	}
	free(copy);
	return *order == '\0' ? "j.job" : order;
}
