/*-------------------------------------------------------------------------
 *
 * job_list.c
 *		Parses lists of jobs as Slurm writes them.
 *
 *     12                a job, or the whole array whose first job is 12
 *     12_3, 12_[1,3-5]  tasks of the array of job 12
 *     12_*              all tasks of the array
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "job_list.h"
#include "submission.h"

static char *find_jobs(const char *job, const char *tasks, bool all);
static char *parse_one(char *word);

/*
 * Returns the numbers of the jobs as text of a bigint array. A job that does
 * not exist stays in the list, so that the call with its number reports that.
 */
char *
JobListParse(const char *text)
{
	char	   *copy = Format("%s", text);
	char	   *list = Format("{");
	char	   *word = copy;
	int			depth = 0;

	if (*text == '\0')
		Fail(CLI_USAGE, "\"%s\" is not a list of jobs", text);
	for (char *at = copy;; at++)
	{
		bool		last = *at == '\0';

		depth += *at == '[' ? 1 : *at == ']' ? -1 : 0;
		if (!last && (*at != ',' || depth > 0))
			continue;
		*at = '\0';
		list = Format("%s%s%s", list, list[1] == '\0' ? "" : ",",
					  parse_one(word));
		if (last)
			break;
		word = at + 1;
	}
	free(copy);
	return Format("%s}", list);
}

/*
 * Parses one word of the list. Returns the numbers of its jobs, separated by
 * commas.
 */
static char *
parse_one(char *word)
{
	char	   *task = strchr(word, '_');
	size_t		length;
	ArraySpec	tasks;

	if (task != NULL)
		*task++ = '\0';
	(void) CliNumber(word, 1, INT64_MAX, "a job");
	if (task == NULL)
		return find_jobs(word, NULL, false);
	if (strcmp(task, "*") == 0)
		return find_jobs(word, NULL, true);
	length = strlen(task);
	if (*task == '[' && task[length - 1] == ']')
	{
		task[length - 1] = '\0';
		task++;
	}
	ArrayParse(&tasks, task, "a list of jobs");
	return find_jobs(word, tasks.indexes, true);
}

/*
 * Finds a job, or the jobs of its array: all of them, or those with some
 * indexes. The first job of an array without indexes also means all.
 */
static char *
find_jobs(const char *job, const char *tasks, bool all)
{
	const char *values[4] = {CliOrg(), job, tasks, all ? "t" : "f"};
	PGresult   *result;
	char	   *list;

	result = CliCall("WITH named AS MATERIALIZED (SELECT j.job, j.account,"
					 "  j.array_key, $4::boolean OR j.job = (SELECT f.job"
					 "   FROM gpucredit.jobs f WHERE f.org = $1"
					 "   AND f.account = j.account AND f.array_key = j.array_key"
					 "   ORDER BY f.job LIMIT 1) AS array_meant"
					 "  FROM gpucredit.jobs j WHERE j.org = $1"
					 "  AND j.job = $2::bigint)"
					 " SELECT string_agg(u.job::text, ',' ORDER BY u.job)"
					 " FROM (SELECT n.job FROM named n WHERE NOT $4::boolean"
					 " UNION SELECT k.job FROM named n, gpucredit.jobs k"
					 "  WHERE n.array_meant AND k.org = $1"
					 "  AND k.account = n.account AND k.array_key = n.array_key"
					 "  AND ($3::bigint[] IS NULL"
					 "   OR k.task = ANY ($3::bigint[]))) u", 4, values);
	list = PQgetisnull(result, 0, 0) ? Format("%s", job) :
		Format("%s", PQgetvalue(result, 0, 0));
	PQclear(result);
	return list;
}
