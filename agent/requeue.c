/*-------------------------------------------------------------------------
 *
 * requeue.c
 *		scontrol requeue, inside a job: the job has itself run again.
 *
 * Programs that save a checkpoint when their time limit is near end with this
 * command. It writes a line to the descriptor on which the script reports
 * progress (GPUCREDIT_FD). A program may call it whose own parent has closed
 * that descriptor, as Python's subprocess does, or that is a task of srun. So
 * the descriptor is that of the first process of the job on this node, which
 * is an ancestor of the caller.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "memory.h"
#include "srun.h"

static bool names_this_job(const char *name);
static int	open_descriptor(void);
static bool is_of_job(long pid, const char *attempt);
static long parent_of(long pid);

/*
 * scontrol requeue JOB
 */
int
SrunRequeue(const char *name)
{
	static const char line[] = "requeue\n";
	int			fd;

	if (!names_this_job(name))
	{
		fprintf(stderr, "scontrol: inside a job, only the job itself can be"
				" requeued; \"%s\" is another one\n", name);
		return 1;
	}
	fd = open_descriptor();
	if (fd < 0 || write(fd, line, strlen(line)) != (ssize_t) strlen(line))
	{
		fprintf(stderr, "scontrol: the job could not be requeued: %s\n",
				fd < 0 ? "no process above this one has the job's"
				" descriptor (GPUCREDIT_FD)" : strerror(errno));
		return 1;
	}
	close(fd);
	return 0;
}

/*
 * Whether a name is this job's number, or ARRAY_TASK of the array that it is a
 * task of.
 */
static bool
names_this_job(const char *name)
{
	const char *job = getenv("SLURM_JOB_ID");
	const char *array = getenv("SLURM_ARRAY_JOB_ID");
	const char *task = getenv("SLURM_ARRAY_TASK_ID");
	char	   *as_task = array == NULL || task == NULL ? NULL :
		Format("%s_%s", array, task);
	bool		same = (job != NULL && strcmp(name, job) == 0) ||
		(as_task != NULL && strcmp(name, as_task) == 0);

	free(as_task);
	return same;
}

/*
 * Opens the descriptor of the caller's outermost ancestor in the job, or of
 * the caller itself. Returns -1 if none has it.
 */
static int
open_descriptor(void)
{
	const char *number = getenv("GPUCREDIT_FD");
	const char *attempt = getenv("GPUCREDIT_ATTEMPT");
	int			found = -1;

	if (number == NULL || attempt == NULL)
		return -1;
	for (long pid = getpid(); pid > 0 && is_of_job(pid, attempt);
		 pid = parent_of(pid))
	{
		char	   *name = Format("/proc/%ld/fd/%d", pid, atoi(number));
		int			fd = open(name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		struct stat st;

		free(name);
		if (fd < 0)
			continue;
		if (fstat(fd, &st) != 0 || !S_ISFIFO(st.st_mode))
		{
			close(fd);
			continue;
		}
		if (found >= 0)
			close(found);
		found = fd;
	}
	return found;
}

/* Whether a process was started with the name of this attempt. */
static bool
is_of_job(long pid, const char *attempt)
{
	char	   *name = Format("/proc/%ld/environ", pid);
	char	   *wanted = Format("GPUCREDIT_ATTEMPT=%s", attempt);
	FILE	   *file = fopen(name, "re");
	char	   *variable = NULL;
	size_t		size = 0;
	bool		found = false;

	while (file != NULL && !found && getdelim(&variable, &size, '\0', file) > 0)
		found = strcmp(variable, wanted) == 0;
	if (file != NULL)
		fclose(file);
	free(variable);
	free(wanted);
	free(name);
	return found;
}

/*
 * Returns the parent of a process, or 0 if it is unknown. The name of the
 * program, in parentheses, may itself contain parentheses and spaces.
 */
static long
parent_of(long pid)
{
	char	   *name = Format("/proc/%ld/stat", pid);
	FILE	   *file = fopen(name, "re");
	char		text[512] = "";
	const char *after;
	long		parent = 0;

	if (file != NULL && fgets(text, sizeof(text), file) != NULL &&
		(after = strrchr(text, ')')) != NULL)
		(void) sscanf(after, ") %*c %ld", &parent);
	if (file != NULL)
		fclose(file);
	free(name);
	return parent;
}
