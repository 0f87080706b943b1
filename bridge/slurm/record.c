/*-------------------------------------------------------------------------
 *
 * record.c
 *		Reads the records that slurmctld's scripts write when a run begins or
 *		ends.
 *
 * squeue no longer lists a job some time after its end, nor an earlier run
 * once the job runs again, and slurmctld forgets its last seconds when it is
 * killed. Therefore the script "record" writes a file for each run, named
 * after the run, with a line
 *     NAME JOB ACCOUNT NODES START END DEVICES
 * before the run begins (END is 0), and again when the run has ended. The file
 * stays until the run is settled. So a run that no sweep saw is billed, too.
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

#include "file.h"
#include "log.h"
#include "memory.h"
#include "record.h"
#include "slurm.h"

static bool parse_record(const char *line, SlurmJob *job);

/*
 * Creates the folder of the records. It is writable for the group, since
 * slurmctld's user writes there and the bridge belongs to that user's group.
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
 * Passes each record to handle(), and removes the file if it is malformed or
 * if handle() returns true.
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
 * Returns how many devices a run had according to its record, or -1 if the
 * record does not contain the number.
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
 * Parses a record's line. Returns false if it is malformed.
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
