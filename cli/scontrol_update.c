/*-------------------------------------------------------------------------
 *
 * scontrol_update.c
 *		scontrol update: changes what a job is called and its place among its
 *		owner's jobs.
 *
 * Each key of Slurm's that the database does not let change is refused by its
 * name, with the reason. All keys are checked before the first call, so a
 * command that is refused has changed nothing. Several jobs are several calls.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"
#include "job_list.h"
#include "scontrol_update.h"
#include "submission.h"

#define NICE_MOST	2147483645	/* as in Slurm */
#define KEYS	"JobName, Comment, WCKey, Nice and Priority=0"
#define ADVICE	"; cancel the job and submit it again"
#define PRICED	"what a job gets was checked, priced and paid for when it was" \
	" submitted" ADVICE
#define STARTS	"what a job waits for was decided when it was submitted;" \
	" use scontrol hold and release, or cancel the job and submit it again"
#define WRITES	"the job keeps the files and folder of its submission" ADVICE
#define NODES	"nodes are changed by operators in SQL, as" \
	" \"SELECT gpucredit.drain('n1')\" and gpucredit.resume('n1')"

/* What a command changes. */
typedef struct Update
{
	char	   *jobs;			/* an array of their numbers; NULL if it names
								 * none */
	json_t	   *changes;		/* for update_job() */
	bool		hold;
} Update;

/* Keys that are refused, and why. */
static const struct
{
	const char *key;
	const char *why;
}			refused[] = {

	{"TimeLimit", "the credit of a job is held, and other jobs are planned, for"
	" its limit" ADVICE},
	{"Partition", PRICED}, {"QOS", PRICED},
	{"Account", "a job is paid by the account of its submission" ADVICE},
	{"NumNodes", PRICED}, {"NumCPUs", PRICED}, {"NumTasks", PRICED},
	{"MinNodes", PRICED}, {"MinCPUsNode", PRICED}, {"CPUsPerTask", PRICED},
	{"MinMemoryNode", PRICED}, {"MinMemoryCPU", PRICED},
	{"MinTmpDiskNode", PRICED}, {"Gres", PRICED}, {"TresPerNode", PRICED},
	{"TresPerJob", PRICED}, {"TresPerTask", PRICED}, {"TresPerSocket", PRICED},
	{"ReqCores", PRICED}, {"CoreSpec", PRICED}, {"ThreadSpec", PRICED},
	{"OverSubscribe", PRICED}, {"Shared", PRICED}, {"Licenses", PRICED},
	{"Reservation", PRICED}, {"ReservationName", PRICED},
	{"Features", PRICED}, {"Constraint", PRICED}, {"NodeList", PRICED},
	{"ReqNodeList", PRICED}, {"ReqNodes", PRICED}, {"ExcNodeList", PRICED},
	{"Contiguous", PRICED}, {"Switches", PRICED}, {"TimeMin", PRICED},
	{"Dependency", STARTS}, {"StartTime", STARTS}, {"EligibleTime", STARTS},
	{"Deadline", STARTS}, {"DelayBoot", STARTS},
	{"ArrayTaskThrottle", STARTS}, {"ArrayTaskId", STARTS},
	{"EndTime", "a job ends at its limit" ADVICE},
	{"Requeue", "how often a job is tried again was decided when it was"
	" submitted" ADVICE},
	{"StdIn", WRITES}, {"StdOut", WRITES}, {"StdErr", WRITES},
	{"WorkDir", WRITES}, {"BurstBuffer", WRITES},
	{"MailType", "no mail is sent; gpucredit wait waits for the end of a job"},
	{"MailUser", "no mail is sent; gpucredit wait waits for the end of a job"},
	{"SiteFactor", "there is none; Nice orders the jobs of an account"},
	{"AdminComment", "there is none; Comment is a label of the job"},
	{"UserId", "a job belongs to the account of its submission" ADVICE},
	{"StepId", "a step has the limit of its job"},
	{"PartitionName", "pools are changed by administrators in SQL, by"
	" gpucredit.create_pool()"},
	{"NodeName", NODES}, {"State", NODES}, {"Reason", NODES},
};

static void add(Update *update, char *word);
static void set_text(Update *update, const char *key, const char *name,
					 const char *value);
static void set_label(Update *update, const char *label, const char *value);
static void set_priority(Update *update, const char *value);
static void refuse(const char *key) __attribute__((noreturn));
static bool change(const Update *update, const char *job);

/* Carries out the words that follow "scontrol update". */
int
ScontrolUpdate(int argc, char **argv)
{
	Update		update = {.changes = json_object()};
	char	   *save = NULL;
	int			status = CLI_DONE;

	for (int i = 0; i < argc; i++)
		add(&update, argv[i]);
	if (update.jobs == NULL)
		Fail(CLI_USAGE, "scontrol update needs JobId=JOBS");
	if (json_object_size(update.changes) == 0 && !update.hold)
		Fail(CLI_USAGE, "scontrol update needs what is to change: " KEYS);
	for (char *job = strtok_r(update.jobs, "{},", &save); job != NULL;
		 job = strtok_r(NULL, "{},", &save))
	{
		if (!change(&update, job))
			status = CLI_REFUSED;
	}
	free(update.jobs);
	json_decref(update.changes);
	return status;
}

/*
 * Adds a word KEY=VALUE to what the command changes. As in Slurm, the case of
 * the key does not matter, and Nice may stand alone.
 */
static void
add(Update *update, char *word)
{
	char	   *value = strchr(word, '=');

	if (value == NULL && strcasecmp(word, "Nice") != 0)
		Fail(CLI_USAGE, "\"%s\" of scontrol update is not KEY=VALUE", word);
	if (value != NULL)
		*value++ = '\0';
	if (strcasecmp(word, "JobId") == 0 || strcasecmp(word, "Job") == 0)
	{
		if (update->jobs != NULL)
			Fail(CLI_USAGE, "scontrol update has JobId twice; separate jobs by"
				 " commas");
		update->jobs = JobListParse(value);
	}
	else if (strcasecmp(word, "JobName") == 0 || strcasecmp(word, "Name") == 0)
		set_text(update, word, "name", value);
	else if (strcasecmp(word, "Comment") == 0)
		set_label(update, "comment", value);
	else if (strcasecmp(word, "WCKey") == 0)
		set_label(update, "wckey", value);
	else if (strcasecmp(word, "Nice") == 0)
		json_object_set_new(update->changes, "priority",
							json_integer(value == NULL ? -100 :
										 -CliNumber(value, -NICE_MOST,
													NICE_MOST, "Nice")));
	else if (strcasecmp(word, "Priority") == 0)
		set_priority(update, value);
	else
		refuse(word);
}

static void
set_text(Update *update, const char *key, const char *name, const char *value)
{
	json_t	   *text = json_string(value);

	if (*value == '\0')
		Fail(CLI_USAGE, "%s of scontrol update is empty", key);
	if (text == NULL)
		Fail(CLI_USAGE, "%s of scontrol update is not UTF-8", key);
	json_object_set_new(update->changes, name, text);
}

/* Sets a label, or removes it if the value is empty. */
static void
set_label(Update *update, const char *label, const char *value)
{
	json_t	   *labels = json_object_get(update->changes, "labels");
	json_t	   *text = *value == '\0' ? json_null() : json_string(value);

	if (text == NULL)
		Fail(CLI_USAGE, "%s of scontrol update is not UTF-8", label);
	if (labels == NULL)
	{
		labels = json_object();
		json_object_set_new(update->changes, "labels", labels);
	}
	json_object_set_new(labels, label, text);
}

/*
 * Slurm holds a job whose priority is set to 0; another number has no
 * meaning here.
 */
static void
set_priority(Update *update, const char *value)
{
	if (strcmp(value, "0") != 0)
		Fail(CLI_USAGE, "Priority=%s is not supported: the order of jobs"
			 " follows from tier, fair share and age; Nice orders the jobs of"
			 " one account, and Priority=0 holds a job", value);
	update->hold = true;
}

/* Refuses a key, with the reason if it is one of Slurm's. */
static void
refuse(const char *key)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
	{
		if (strcasecmp(key, refused[i].key) == 0)
			Fail(CLI_USAGE, "%s cannot be changed: %s", refused[i].key,
				 refused[i].why);
	}
	Fail(CLI_USAGE, "\"%s\" is no key of scontrol update; what can change is "
		 KEYS, key);
}

/*
 * Makes the calls for one job. Each is repeated with its key while the database
 * cannot be reached. Returns whether all of them were done.
 */
static bool
change(const Update *update, const char *job)
{
	char	   *changes = json_dumps(update->changes, JSON_COMPACT);
	const char *calls[2] = {
		json_object_size(update->changes) == 0 ? NULL :
		"SELECT u.job_state FROM gpucredit.update_job($1, $2::bigint, $3,"
		" $4::jsonb) u",
		update->hold ?
		"SELECT h.job_state FROM gpucredit.hold_job($1, $2::bigint, $3) h" :
		NULL
	};
	bool		done = true;

	for (int i = 0; i < 2 && done; i++)
	{
		char	   *key = CliKey();
		const char *values[4] = {CliOrg(), job, key, changes};
		PGresult   *result = calls[i] == NULL ? NULL :
			CliRepeat(calls[i], i == 0 ? 4 : 3, values, 0);

		if (calls[i] != NULL && PQresultStatus(result) != PGRES_TUPLES_OK)
		{
			CliPrintRefusal(job, result);
			done = false;
		}
		PQclear(result);
		free(key);
	}
	free(changes);
	return done;
}
