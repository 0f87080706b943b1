/*-------------------------------------------------------------------------
 *
 * podman.c
 *		The agent's own calls of podman.
 *-------------------------------------------------------------------------
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "memory.h"
#include "podman.h"

/*
 * Turns a child into a shell that runs a script, with podman's command as $1
 * and a name as $2.
 */
void
PodmanRun(const char *script, const char *name, int out)
{
	char	   *argv[] = {"sh", "-c", (char *) script, "sh", config.podman,
	(char *) name, NULL};
	char	   *env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
	NULL};
	sigset_t	none;
	int			null = open("/dev/null", O_RDONLY);

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	if (dup2(null, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
		dup2(out, STDERR_FILENO) >= 0)
		execvpe(argv[0], argv, env);
	_exit(127);
}

/*
 * Returns the name of an attempt's container. It never changes, and no other
 * attempt of this machine has the same.
 */
char *
PodmanContainer(const LocalAttempt *attempt)
{
	struct stat st = {0};

	(void) fstat(attempt->dir, &st);
	return Format("gpucredit-%s-%llu", attempt->name,
				  (unsigned long long) st.st_ino);
}

/*
 * Makes podman remove the container of an attempt that is gone, in a child
 * that nobody waits for. After a kill, podman first refuses, until it has
 * noticed the end; therefore the removal is tried several times.
 */
void
PodmanRemove(const LocalAttempt *attempt)
{
	char	   *name = PodmanContainer(attempt);

	if (fork() == 0)
		PodmanRun("for i in 1 2 3; do"
				  " \"$1\" rm --force --ignore --time=0 \"$2\" && exit;"
				  " sleep 1; done 2>/dev/null", name, open("/dev/null", O_RDWR));
	free(name);
}
