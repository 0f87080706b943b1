/*-------------------------------------------------------------------------
 *
 * trash.c
 *		Removes the folders of attempts in the background.
 *
 * A job may leave millions of files in its folder, and removing them takes
 * minutes. The agent must not wait for that, because it would miss its
 * heartbeats and all its jobs would be frozen. So it only renames a folder
 * into <state>/trash, and one process at idle priority removes the contents of
 * that. What an earlier agent left there is removed at the next start.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent.h"
#include "config.h"
#include "log.h"
#include "memory.h"
#include "trash.h"

static int	trash = -1;			/* descriptor of <state>/trash */
static pid_t remover;			/* the process that removes its contents, or 0 */
static bool pending = true;		/* something was added since that process
								 * began */

static void run_remover(void);

/*
 * Opens the trash; "state" is a descriptor of the agent's folder.
 */
void
TrashOpen(int state)
{
	if (mkdirat(state, "trash", 0700) != 0 && errno != EEXIST)
		Die("could not make %s/trash: %s", config.state, strerror(errno));
	trash = openat(state, "trash", O_RDONLY | O_DIRECTORY | O_CLOEXEC |
				   O_NOFOLLOW);
	if (trash < 0)
		Die("could not open %s/trash: %s", config.state, strerror(errno));
}

/*
 * Moves a file or folder to the trash.
 */
void
TrashPut(int folder, const char *name)
{
	static int	count;
	char	   *to = Format("%lld-%d", (long long) incarnation, ++count);

	if (renameat(folder, name, trash, to) != 0 && errno != ENOENT)
		LogLine("event=not_removed name=%s error=\"%s\"", name,
				strerror(errno));
	pending = true;
	free(to);
}

/*
 * Starts the process that removes what was moved here, unless one is running.
 */
void
TrashCollect(void)
{
	if (!pending || remover != 0)
		return;
	remover = fork();
	if (remover == 0)
		run_remover();
	if (remover < 0)
		remover = 0;			/* tried again by the next call */
	else
		pending = false;
}

/*
 * Runs in the child. find follows no symbolic link that a job has left.
 */
static void
run_remover(void)
{
	char	   *argv[] = {"ionice", "-c3", "nice", "-n19", "find", ".",
	"-mindepth", "1", "-xdev", "-delete", NULL};
	char	   *env[] = {"PATH=/usr/bin:/bin", NULL};
	sigset_t	none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (fchdir(trash) == 0)
		execvpe(argv[0], argv, env);
	_exit(127);
}

/*
 * Handles the end of a child. Returns whether it was the process that removes.
 */
bool
TrashChildGone(pid_t pid)
{
	if (pid != remover)
		return false;
	remover = 0;
	return true;
}
