/*-------------------------------------------------------------------------
 *
 * record.c
 *		Records of runs that began or ended, written by slurmctld's scripts.
 *
 * squeue forgets a job after a while, a run once its job runs again, and the
 * last seconds before slurmctld is killed.  The script "record" writes a file
 * for each run, named as the run, with a line
 *
 *	NAME JOB ACCOUNT NODES START END DEVICES
 *
 * before it begins (END is 0), and again when it has ended.  It stays until
 * the run is settled.  So a run that no sweep saw is billed, too.
 *
 *-------------------------------------------------------------------------
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record.h"
#include "slurm.h"
#include "util.h"

static bool parse_record(const char *line, SlurmJob *job);

/*
 * slurmctld's user, in whose group the bridge is, writes there.
 */
void
RecordsPrepare(void)
{
	if (*slurm.records != '\0' &&
		((mkdir(slurm.records, 0770) != 0 && errno != EEXIST) ||
		 chmod(slurm.records, 0770) != 0))
		Die("could not make %s: %s", slurm.records, strerror(errno));
}

/*
 * Show each record to "handle", and remove those that are done with.
 */
void
RecordsRead(RecordHandler handle)
{
	DIR		   *dir = *slurm.records == '\0' ? NULL :
		opendir(slurm.records);
	struct dirent *entry;

	while (dir != NULL && (entry = readdir(dir)) != NULL)
	{
		SlurmJob	job = {0};
		char	   *line = entry->d_name[0] == '.' ? NULL :
			FileGet(dirfd(dir), entry->d_name, NULL);

		if (line != NULL && (!parse_record(line, &job) || handle(&job)))
			(void) unlinkat(dirfd(dir), entry->d_name, 0);
		SlurmJobFree(&job);
		free(line);
	}
	if (dir != NULL)
		closedir(dir);
}

/*
 * How many devices a run had, as its record tells; -1: it does not.
 */
long
RecordDevices(const char *name)
{
	int			dir = *slurm.records == '\0' ? -1 :
		open(slurm.records, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char	   *line = dir < 0 ? NULL : FileGet(dir, name, NULL);
	SlurmJob	job = {.devices = -1};

	if (line != NULL)
		(void) parse_record(line, &job);
	SlurmJobFree(&job);
	free(line);
	if (dir >= 0)
		close(dir);
	return job.devices;
}

/*
 * False: it is no record.
 */
static bool
parse_record(const char *line, SlurmJob *job)
{
	char		name[128];
	char		id[64];
	char		account[256];
	char		nodes[4096];

	job->devices = -1;
	if (sscanf(line, "%127s %63s %255s %4095s %lld %lld %ld", name, id, account,
			   nodes, &job->start, &job->end, &job->devices) < 6)
	{
		LogLine("event=bad_record line=\"%.200s\"", line);
		return false;
	}
	job->state = SLURM_ENDED;
	job->ran = true;
	job->name = Dup(name);
	job->id = Dup(id);
	job->account = job->payer = Dup(account);
	job->nodes = job->node_list = Dup(nodes);
	job->gpus = Dup("");
	return true;
}
