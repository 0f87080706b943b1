/*-------------------------------------------------------------------------
 *
 * sessions.c
 *		Terminals and forwarded ports in this node's jobs.
 *
 * A heartbeat's answer names each session that somebody has opened, until the
 * node report names it. The agent starts a process for each (session_outside.c)
 * and reports those that live. It never touches a byte of a session itself, so
 * no session can delay a heartbeat. The processes end with the agent. The
 * agent remembers one that has ended for longer than the database repeats it.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent.h"
#include "calls.h"
#include "clock.h"
#include "config.h"
#include "file.h"
#include "log.h"
#include "memory.h"
#include "session_inside.h"
#include "sessions.h"

#define SESSIONS_MOST	256		/* most sessions at once */
#define REMEMBER_NS		(120 * NS_PER_S)
#define TYPED_NS		(60 * NS_PER_S) /* how long a key press is reported */

/* A session whose process lives, or has ended a moment ago. */
typedef struct LiveSession
{
	char		digest[65];
	char	   *folder;			/* name of the attempt's folder */
	char	   *tag;			/* the attempt, as org/job/attempt */
	pid_t		pid;			/* 0 once it has ended */
	int64_t		ended_ns;
	struct LiveSession *next;
} LiveSession;

static LiveSession *sessions;
static int	nsessions;			/* how many of them live */

static void forget_ended(void);
static bool begin(const LocalAttempt *attempt, const json_t * spec,
				  const char *digest);
static char *typed_path(const LiveSession *session);
static void execute(const LocalAttempt *attempt, const char *name,
					const char *port, const char *relay, int digest)
			__attribute__((noreturn));

/*
 * Starts the session that a row of a heartbeat's answer describes, unless it
 * lives already. If the attempt has ended, the session's process tells the user
 * so, who would wait for a minute otherwise. A session that cannot be started is
 * not reported, and becomes void.
 */
void
SessionStart(const Order *order)
{
	const LocalAttempt *attempt = AttemptFind(order->org, order->job,
											  order->number);
	json_t	   *spec = order->spec == NULL ? NULL :
		json_loads(order->spec, 0, NULL);
	const char *digest = json_string_value(json_object_get(spec, "digest"));
	bool		known = digest == NULL || strlen(digest) != 64 ||
		strspn(digest, "0123456789abcdef") != 64;

	forget_ended();
	for (const LiveSession *s = sessions; s != NULL && !known; s = s->next)
		known = strcmp(s->digest, digest) == 0;
	if (!known && attempt != NULL && attempt->on_disk &&
		attempt->foreign == NULL && nsessions < SESSIONS_MOST &&
		begin(attempt, spec, digest))
		BeatSoon();
	json_decref(spec);
}

/* Frees sessions that ended long ago. */
static void
forget_ended(void)
{
	int64_t		now = MonotonicNs();
	LiveSession **link = &sessions;

	while (*link != NULL)
	{
		LiveSession *session = *link;

		if (session->pid != 0 || now - session->ended_ns < REMEMBER_NS)
		{
			link = &session->next;
			continue;
		}
		*link = session->next;
		free(session->folder);
		free(session->tag);
		free(session);
	}
}

/*
 * Starts the process of a session. It reads the digest from a pipe, because
 * other users of the machine can read the arguments of a process.
 */
static bool
begin(const LocalAttempt *attempt, const json_t * spec, const char *digest)
{
	const char *relay = json_string_value(json_object_get(spec, "relay"));
	json_int_t	number = json_integer_value(json_object_get(spec, "port"));
	char	   *port = Format("%lld", (long long) number);
	char	   *name = Format("%.*s", SESSION_NAME, digest);
	int			ends[2];
	pid_t		pid;
	LiveSession *session;

	if (relay == NULL || pipe(ends) != 0)
		return false;
	pid = fork();
	if (pid == 0)
		execute(attempt, name, port, relay, ends[0]);
	(void) WriteAll(ends[1], digest, 64);
	close(ends[0]);
	close(ends[1]);
	free(name);
	free(port);
	if (pid < 0)
		return false;
	session = Alloc(sizeof(LiveSession));
	snprintf(session->digest, sizeof(session->digest), "%s", digest);
	session->folder = Dup(attempt->name);
	session->tag = Dup(attempt->tag);
	session->pid = pid;
	session->next = sessions;
	sessions = session;
	nsessions++;
	return true;
}

/* Runs in the child. */
static void
execute(const LocalAttempt *attempt, const char *name, const char *port,
		const char *relay, int digest)
{
	char	   *folder = Format("%s/run/%s", config.state, attempt->name);
	sigset_t	none;

	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(digest, STDIN_FILENO) == STDIN_FILENO)
		execl("/proc/self/exe", "gpucredit-agent", "session", folder, name,
			  port, relay, (char *) NULL);
	LogLine("event=no_session session=%s error=\"%s\"", name,
			strerror(errno));
	_exit(127);
}

/*
 * Notes that a session's process has ended. Returns false if the process was
 * none of a session.
 */
bool
SessionChildGone(pid_t pid)
{
	for (LiveSession *s = sessions; s != NULL; s = s->next)
	{
		char	   *path;

		if (s->pid != pid)
			continue;
		/* The socket is still there if no keeper has connected to it. */
		path = Format("%s/session-%.*s", s->folder, SESSION_NAME, s->digest);
		(void) unlinkat(run_dir, path, 0);
		free(path);
		path = typed_path(s);
		(void) unlinkat(run_dir, path, 0);
		free(path);
		s->pid = 0;
		s->ended_ns = MonotonicNs();
		nsessions--;
		BeatSoon();
		return true;
	}
	return false;
}

/* Returns the digests of the sessions that live, for the node report. */
json_t *
SessionsOpen(void)
{
	json_t	   *list = json_array();

	for (const LiveSession *s = sessions; s != NULL; s = s->next)
	{
		if (s->pid != 0)
			json_array_append_new(list, json_string(s->digest));
	}
	return list;
}

/*
 * Returns the attempts in whose terminals somebody typed a moment ago, for the
 * node report, or NULL if there are none.
 */
json_t *
SessionsTyped(void)
{
	json_t	   *list = NULL;
	int64_t		now = MonotonicNs();

	for (const LiveSession *s = sessions; s != NULL; s = s->next)
	{
		char	   *path = typed_path(s);
		size_t		len = 0;
		char	   *text = s->pid == 0 ? NULL : FileGet(run_dir, path, &len);
		int64_t		at = 0;

		if (text != NULL && len == sizeof(at))
			memcpy(&at, text, sizeof(at));
		if (at > 0 && at <= now && now - at < TYPED_NS)
		{
			if (list == NULL)
				list = json_array();
			json_array_append_new(list, json_string(s->tag));
		}
		free(text);
		free(path);
	}
	return list;
}

/* Returns the file in which a terminal's process notes key presses. */
static char *
typed_path(const LiveSession *session)
{
	char		name[SESSION_NAME + 1];

	snprintf(name, sizeof(name), "%.*s", SESSION_NAME, session->digest);
	return Format("%s/" SESSION_TYPED, session->folder, name);
}
