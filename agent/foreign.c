/*-------------------------------------------------------------------------
 *
 * foreign.c
 *		Attempts that another scheduler starts and ends on this node.
 *
 *     gpucredit-agent foreign CONFIG begin TOKEN   (prints TOKEN.N)
 *     gpucredit-agent foreign CONFIG name TOKEN.N NAME
 *     gpucredit-agent foreign CONFIG end TOKEN [EXIT_CODE]
 *     gpucredit-agent foreign CONFIG missed TOKEN NAME RAN_S [over]
 *     gpucredit-agent foreign CONFIG adopt TOKEN NAME
 *
 * The other scheduler's node daemon runs these commands before and after a
 * job. They write this node's time into the agent's folder, so the agent need
 * not be running at that moment:
 *
 *     <state>/foreign/TOKEN.N/begin  BOOT_ID MONOTONIC_NS [missed]
 *     <state>/foreign/TOKEN.N/name   the run's name in the job's spec
 *                                    ("foreign")
 *     <state>/foreign/TOKEN.N/end    BOOT_ID MONOTONIC_NS EXIT_CODE
 *
 * The other scheduler may use a token again; N counts its runs. A name is used
 * once. An attempt whose spec has that name is metered and settled by these
 * times instead of a keeper's. To end a run early, the agent runs the program
 * "foreign_stop". If the other scheduler no longer has the run, nobody will
 * report its end; then the program creates a file "forgotten" in the run's
 * folder, and the run counts as ended.
 *
 * If nobody reported a begin, the agent makes the program search for the run.
 * If the other scheduler has the run, the program calls "missed" with the time
 * that the run has lasted. If it does not, the program calls "adopt", which
 * gives the name to a run without one. If there is no such run, it creates
 * "forgotten" in the attempt's folder: an attempt that must stop then counts
 * as not started.
 *-------------------------------------------------------------------------
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "clock.h"
#include "config.h"
#include "file.h"
#include "foreign.h"
#include "log.h"
#include "memory.h"

#define BEGIN_WAIT		(15 * 60 * NS_PER_S)	/* how long to wait for the
												 * begin of a placed job */
#define STOP_PAUSE		(5 * NS_PER_S)	/* time between two runs of
										 * foreign_stop */
#define LOOK_PAUSE		(5 * NS_PER_S)	/* time between two searches for a run */
#define KEPT_S			(7 * 24 * 3600) /* how many seconds records of ended
										 * runs are kept */

extern char **environ;

static int	folder(void);
static int	last_run(int records, const char *token);
static int	open_run(int records, const char *token, int n, bool make);
static void forget_old(int records);
static bool put(int run, const char *name, const char *more);
static bool put_at(int run, const char *name, int64_t ns, const char *more);
static bool put_missed(int records, const char *token, int n, char **argv,
					   bool over);
static bool adopt(int records, const char *token, int n, const char *name);
static int	named_run(int records, const char *token, int n, const char *name);
static bool end_missed(int records, const char *token, int n, int64_t ran);
static void search_run(LocalAttempt *attempt);
static bool run_program(LocalAttempt *attempt, const char *token,
						const char *word, const char *ms, const char *folder);
static bool find_run(LocalAttempt *attempt);
static bool read_instant(int run, const char *name, char *boot, int64_t *ns,
						 int *status);
static void follow(LocalAttempt *attempt, int run);

/*
 * Runs one of the commands. It does not connect to the database.
 */
void
ForeignRun(int argc, char **argv)
{
	const char *word = argc > 0 ? argv[0] : "";
	const char *token = argc > 1 ? argv[1] : "";
	int			records = folder();
	int			n;
	int			run;
	bool		good = false;

	if (*token == '\0' || strchr(token, '/') != NULL ||
		strlen(token) > 100)
		Die("usage: gpucredit-agent foreign CONFIG begin|name|end|missed|adopt TOKEN ...");
	if (records < 0 || flock(records, LOCK_EX) != 0)
		Die("could not open %s/foreign: %s", config.state, strerror(errno));
	n = last_run(records, token);
	if (strcmp(word, "begin") == 0)
	{
		forget_old(records);
		run = open_run(records, token, n + 1, true);
		good = run >= 0 && put(run, "begin", "");
		printf("%s.%d\n", token, n + 1);
	}
	else if (strcmp(word, "name") == 0 && argc == 3)
	{
		run = openat(records, token, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		good = run >= 0 && (FileThere(run, "name") ||
							FilePut(run, "name", argv[2], strlen(argv[2])));
	}
	else if (strcmp(word, "end") == 0)
	{
		run = open_run(records, token, n, false);
		good = run >= 0 && (FileThere(run, "end") ||
							put(run, "end", argc > 2 ? argv[2] : "0"));
	}
	else if (strcmp(word, "missed") == 0 && argc >= 4)
		good = put_missed(records, token, n, argv + 2, argc > 4);
	else if (strcmp(word, "adopt") == 0 && argc == 3)
		good = adopt(records, token, n, argv[2]);
	else
		Die("foreign takes begin, name, end, missed or adopt, not \"%s\"", word);
	if (!good)
		Die("could not note %s of %s: %s", word, token, strerror(errno));
	exit(0);
}

/*
 * Opens the folder of all records.
 */
static int
folder(void)
{
	char	   *path = Format("%s/foreign", config.state);
	int			dir;

	(void) mkdir(config.state, 0711);
	(void) mkdir(path, 0700);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(path);
	return dir;
}

/*
 * Returns the number of a token's last run, or 0 if it has none.
 */
static int
last_run(int records, const char *token)
{
	DIR		   *dir = fdopendir(dup(records));
	struct dirent *entry;
	size_t		len = strlen(token);
	int			last = 0;

	if (dir == NULL)
		return 0;
	rewinddir(dir);
	while ((entry = readdir(dir)) != NULL)
	{
		if (strncmp(entry->d_name, token, len) == 0 &&
			entry->d_name[len] == '.' &&
			atoi(entry->d_name + len + 1) > last)
			last = atoi(entry->d_name + len + 1);
	}
	closedir(dir);
	return last;
}

static int
open_run(int records, const char *token, int n, bool make)
{
	char	   *name = Format("%s.%d", token, n);
	int			run;

	if (make)
		(void) mkdirat(records, name, 0700);
	run = openat(records, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(name);
	return run;
}

/*
 * Removes the records of runs that ended a week ago.
 */
static void
forget_old(int records)
{
	static const char *const files[] = {"begin", "name", "end", "forgotten"};
	DIR		   *dir = fdopendir(dup(records));
	struct dirent *entry;

	if (dir == NULL)
		return;
	rewinddir(dir);
	while ((entry = readdir(dir)) != NULL)
	{
		struct stat ended;
		int			run;

		if (entry->d_name[0] == '.')
			continue;
		run = openat(records, entry->d_name, O_RDONLY | O_DIRECTORY |
					 O_CLOEXEC);
		if (run >= 0 && fstatat(run, "end", &ended, 0) == 0 &&
			time(NULL) - ended.st_mtime > KEPT_S)
		{
			for (int i = 0; i < 4; i++)
				(void) unlinkat(run, files[i], 0);
			(void) unlinkat(records, entry->d_name, AT_REMOVEDIR);
		}
		if (run >= 0)
			close(run);
	}
	closedir(dir);
}

/*
 * Records a run whose begin nobody reported. "argv" has its name, and for how
 * many seconds it has run; "over" states that it has ended. A run whose begin
 * and name were reported while the other scheduler was asked is left as it is:
 * its own times are exact, and a second record would never get an end.
 */
static bool
put_missed(int records, const char *token, int n, char **argv, bool over)
{
	int64_t		ran = atoll(argv[1]) * NS_PER_S;
	int64_t		now = MonotonicNs();
	int			named = named_run(records, token, n, argv[0]);
	int			run;

	if (named > 0)
		return !over || end_missed(records, token, named, ran);
	if (adopt(records, token, n, argv[0]))
		return true;
	run = open_run(records, token, n + 1, true);
	return run >= 0 && put_at(run, "begin", now - ran, "missed") &&
		(!over || put_at(run, "end", now, "0")) &&
		FilePut(run, "name", argv[0], strlen(argv[0]));
}

/*
 * Writes the end of a run that "ran" for so long, unless it has an end, or its
 * begin was reported: then its end will be reported, too.
 */
static bool
end_missed(int records, const char *token, int n, int64_t ran)
{
	char	   *path = Format("%s.%d/begin", token, n);
	char	   *line = FileGet(records, path, NULL);
	int			run = open_run(records, token, n, false);
	char		boot[64];
	int64_t		began;
	int			status = 0;
	bool		good = run >= 0 && line != NULL;

	if (good && strstr(line, " missed") != NULL && !FileThere(run, "end") &&
		read_instant(run, "begin", boot, &began, &status))
		good = put_at(run, "end", began + ran, "0");
	free(line);
	free(path);
	return good;
}

/*
 * Gives this name to the token's last run, if that run has none. Returns
 * whether it did.
 */
static bool
adopt(int records, const char *token, int n, const char *name)
{
	int			run = open_run(records, token, n, false);

	return run >= 0 && !FileThere(run, "name") &&
		FilePut(run, "name", name, strlen(name));
}

/*
 * Returns the number of the token's run with this name, up to n, or 0 if none
 * has it.
 */
static int
named_run(int records, const char *token, int n, const char *name)
{
	for (; n > 0; n--)
	{
		char	   *path = Format("%s.%d/name", token, n);
		char	   *stored = FileGet(records, path, NULL);
		bool		found = stored != NULL && strcmp(stored, name) == 0;

		free(stored);
		free(path);
		if (found)
			break;
	}
	return n;
}

/*
 * Writes the present time of this boot to a file.
 */
static bool
put(int run, const char *name, const char *more)
{
	return put_at(run, name, MonotonicNs(), more);
}

static bool
put_at(int run, const char *name, int64_t ns, const char *more)
{
	char	   *line;
	bool		good;

	AgentReadBootId();
	line = Format("%s %lld %s\n", boot_id, (long long) ns, more);
	good = FilePut(run, name, line, strlen(line));
	free(line);
	return good;
}

/*
 * Advances an attempt of another scheduler, by that scheduler's records
 * instead of a keeper's.
 */
void
ForeignAdvance(LocalAttempt *attempt)
{
	int			records = folder();
	int			run = -1;

	if (records >= 0 && (attempt->run_record != NULL || find_run(attempt)))
		run = openat(records, attempt->run_record, O_RDONLY | O_DIRECTORY |
					 O_CLOEXEC);
	if (run >= 0)
		follow(attempt, run);
	else if (attempt->lost || MonotonicNs() - attempt->gone_ns > BEGIN_WAIT ||
			 (attempt->stop_reason != NULL && FileThere(attempt->dir, "forgotten")))
	{
		AttemptWriteLost(attempt, false);
		AttemptGone(attempt);
	}
	else
		search_run(attempt);
	if (run >= 0)
		close(run);
	if (records >= 0)
		close(records);
}

/*
 * Makes the program ask the other scheduler for a run whose begin nobody
 * reported.
 */
static void
search_run(LocalAttempt *attempt)
{
	int64_t		since = attempt->stop_ns != 0 ? attempt->stop_ns :
		attempt->gone_ns;
	json_t	   *intent;
	const char *job;
	char	   *path;

	if (MonotonicNs() - since < LOOK_PAUSE || *config.foreign_stop == '\0' ||
		FileThere(attempt->dir, "forgotten"))
		return;
	intent = AttemptIntent(attempt->dir);
	job = json_string_value(json_object_get(json_object_get(intent, "spec"),
											"foreign_job"));
	path = Format("%s/run/%s", config.state, attempt->name);
	if (job != NULL)
		(void) run_program(attempt, job, "look", "0", path);
	free(path);
	attempt->stop_ns = MonotonicNs();
	json_decref(intent);
}

/*
 * Finds the record of the run with the attempt's name.
 */
static bool
find_run(LocalAttempt *attempt)
{
	int			records = folder();
	DIR		   *dir = fdopendir(records);
	struct dirent *entry;

	while (dir != NULL && attempt->run_record == NULL &&
		   (entry = readdir(dir)) != NULL)
	{
		char	   *path = Format("%s/name", entry->d_name);
		char	   *name = entry->d_name[0] == '.' ? NULL :
			FileGet(records, path, NULL);

		if (name != NULL && strcmp(name, attempt->foreign) == 0)
			attempt->run_record = Dup(entry->d_name);
		free(name);
		free(path);
	}
	if (dir != NULL)
		closedir(dir);
	else if (records >= 0)
		close(records);
	return attempt->run_record != NULL;
}

static bool
read_instant(int run, const char *name, char *boot, int64_t *ns, int *status)
{
	char	   *line = FileGet(run, name, NULL);
	long long	instant = 0;
	bool		good = line != NULL &&
		sscanf(line, "%63s %lld %d", boot, &instant, status) >= 2;

	free(line);
	*ns = instant;
	return good;
}

/*
 * Writes the measurements that a keeper would write once the run has begun,
 * and how the run ended once it has ended.
 */
static void
follow(LocalAttempt *attempt, int run)
{
	char		boot[64];
	int64_t		began;
	int64_t		ended;
	int			status = 0;
	KeeperState *state;

	if (!read_instant(run, "begin", boot, &began, &status))
		return;
	if (attempt->state == NULL)
	{
		state = FileMap(attempt->dir, "state", sizeof(KeeperState), true);
		if (state == NULL)
			return;
		if (state->magic != KEEPER_MAGIC)
		{
			state->progress = -1;
			state->exec_ns = began;
			state->seen_ns = began;
			state->magic = KEEPER_MAGIC;
			LogLine("event=start attempt=%s run=%s", attempt->tag,
					attempt->run_record);
		}
		attempt->state = state;
	}
	state = (KeeperState *) attempt->state;
	if (FileThere(run, "forgotten") && !FileThere(run, "end"))
		(void) put(run, "end", "143");
	if (read_instant(run, "end", boot, &ended, &status) &&
		ended >= state->exec_ns)
	{
		AttemptWriteExit(attempt, Format("%s %d %lld \n", EXIT_EXITED, status,
										 (long long) (ended -
													  state->exec_ns) / 1000));
		AttemptGone(attempt);
	}
	else if (attempt->lost || strcmp(boot, boot_id) != 0)
	{
		/* The run belongs to an earlier boot. */
		AttemptWriteLost(attempt, true);
		AttemptGone(attempt);
	}
	else
		state->seen_ns = MonotonicNs();
}

/*
 * Passes a keeper's command to the program "foreign_stop", with the arguments
 * TOKEN save|leave|stop MS NAME FOLDER. To search for a run, the arguments are
 * JOB look 0 NAME FOLDER, where JOB is "foreign_job" of the spec, and FOLDER
 * the attempt's folder.
 */
bool
ForeignStop(LocalAttempt *attempt, const char *line)
{
	char		word[16];
	char		ms[32] = "";
	char	   *token;
	char	   *path;
	bool		good;

	if (*config.foreign_stop == '\0' || attempt->run_record == NULL ||
		sscanf(line, "%15s %31s", word, ms) < 1 || strcmp(word, "thaw") == 0)
		return false;
	if (strcmp(word, "save") != 0 && attempt->stop_ns != 0 &&
		MonotonicNs() - attempt->stop_ns < STOP_PAUSE &&
		attempt->stop_word == word[0])
		return true;
	token = Dup(attempt->run_record);
	*strrchr(token, '.') = '\0';
	path = Format("%s/foreign/%s", config.state, attempt->run_record);
	good = run_program(attempt, token, word, ms, path);
	attempt->stop_ns = MonotonicNs();
	attempt->stop_word = word[0];
	free(token);
	free(path);
	return good;
}

/*
 * Starts foreign_stop without waiting for its end.
 */
static bool
run_program(LocalAttempt *attempt, const char *token, const char *word,
			const char *ms, const char *folder)
{
	char	   *argv[7] = {config.foreign_stop, (char *) token, (char *) word,
	(char *) ms, attempt->foreign, (char *) folder, NULL};
	posix_spawnattr_t attr;
	sigset_t	none;
	pid_t		pid;
	bool		good;

	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	good = posix_spawn(&pid, config.foreign_stop, NULL, &attr, argv,
					   environ) == 0;
	posix_spawnattr_destroy(&attr);
	LogLine("event=foreign_%s attempt=%s token=%s%s", word, attempt->tag, token,
			good ? "" : " error=\"could not run foreign_stop\"");
	return good;
}
