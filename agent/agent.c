/*-------------------------------------------------------------------------
 *
 * agent.c
 *		State that all parts of the agent share: its folder on disk, and the
 *		boot.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent.h"
#include "config.h"
#include "file.h"
#include "log.h"
#include "memory.h"
#include "trash.h"

int			run_dir;
int			watches;
char		boot_id[64];
int64_t		incarnation;
Lease	   *lease;
const char *containment = "none";

/* how often and how long an agent waits for a lock that another process has */
#define LOCK_TRIES		50
#define LOCK_PAUSE_US	100000

static bool lock_soon(int lock);
static void count_start(int state);

/*
 * Opens the agent's folder, which persists across restarts, and locks it, so
 * that only one agent uses it.
 */
void
AgentOpen(void)
{
	int			state;
	int			lock;

	if (mkdir(config.state, 0711) != 0 && errno != EEXIST)
		Die("could not make %s: %s", config.state, strerror(errno));
	state = open(config.state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (state < 0)
		Die("could not open %s: %s", config.state, strerror(errno));
	lock = openat(state, "agent.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock < 0 || !lock_soon(lock))
		Die("another agent has %s", config.state);
	mkdirat(state, "run", 0711);
	run_dir = openat(state, "run", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	lease = FileMap(state, "lease", sizeof(Lease), true);
	watches = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (run_dir < 0 || lease == NULL || watches < 0)
		Die("could not set up %s: %s", config.state, strerror(errno));
	count_start(state);
	TrashOpen(state);
	close(state);
}

/*
 * Locks a file that another process may still have locked for a moment: a
 * child that an agent forked just before it was killed has the agent's lock
 * until it closes the file or executes a program.
 */
static bool
lock_soon(int lock)
{
	for (int i = 0; flock(lock, LOCK_EX | LOCK_NB) != 0; i++)
	{
		if (i >= LOCK_TRIES || (errno != EWOULDBLOCK && errno != EINTR))
			return false;
		(void) usleep(LOCK_PAUSE_US);
	}
	return true;
}

/*
 * Increments the number of this node's agent starts on disk, before any call.
 */
static void
count_start(int state)
{
	char	   *text = FileGet(state, "incarnation", NULL);

	incarnation = (text == NULL ? 0 : strtoll(text, NULL, 10)) + 1;
	free(text);
	text = Format("%lld\n", (long long) incarnation);
	if (!FilePut(state, "incarnation", text, strlen(text)))
		Die("could not write %s/incarnation: %s", config.state,
			strerror(errno));
	free(text);
}

/*
 * Reads the boot's id, which distinguishes this boot from earlier ones.
 */
void
AgentReadBootId(void)
{
	const char *given = getenv("GPUCREDIT_BOOT_ID");	/* set by tests */
	FILE	   *file;

	if (given != NULL && *given != '\0')
	{
		snprintf(boot_id, sizeof(boot_id), "%s", given);
		return;
	}
	file = fopen("/proc/sys/kernel/random/boot_id", "r");
	if (file == NULL || fscanf(file, "%60s", boot_id) != 1)
		Die("could not read the boot id");
	fclose(file);
}
