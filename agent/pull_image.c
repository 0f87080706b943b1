/*-------------------------------------------------------------------------
 *
 * pull_image.c
 *		Pulls jobs' images that the node does not have.
 *
 * There is one pull for each image, however many attempts wait for it. An
 * attempt that waits has its devices: it is metered, so it pays for them, and
 * the time counts towards its wall limit. The agent reports to the database
 * that it pulls (calls.c).
 *
 * The pool's policy limits how long devices wait ("image_wait"). After that
 * the attempt returns its devices, and the pull continues without it for the
 * next attempt. The node's setting image_pull_s ends a pull that never ends by
 * itself.
 *
 * The message of such an attempt's end begins with "image: ". If there is no
 * such image, the attempt has failed, and the retry rules decide; if it only
 * returned its devices, it is "not_started".
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "clock.h"
#include "config.h"
#include "file.h"
#include "log.h"
#include "memory.h"
#include "podman.h"
#include "pull_image.h"

#define IMAGE_FOUND_S	3		/* seconds within which podman has determined
								 * whether the node has an image */
#define OUTPUT_MOST		(64 * 1024) /* bytes of podman's output, the last of
									 * which are used */

/* One image that is being pulled. */
typedef struct Pull
{
	char	   *image;
	pid_t		pid;
	int			out;			/* descriptor of podman's output, in memory */
	int64_t		began_ns;
	bool		late;			/* it was killed because it took too long */
	struct Pull *next;
} Pull;

static Pull *pulls;

static const char *name_refused(const char *image);
static Pull *pull_begin(const char *image);
static bool waits_for(const LocalAttempt *attempt, const Pull *pull);
static void fail_attempt(LocalAttempt *attempt, const char *kind,
						 const char *reason);
static void pull_free(Pull **link);
static char *last_line(const Pull *pull);

/*
 * Makes an attempt wait for its image. Returns false if it cannot get the
 * image; then its end is recorded.
 */
bool
PullImage(LocalAttempt *attempt, const json_t * intent)
{
	const char *image = AttemptImage(intent);
	const		json_t *wait = json_object_get(json_object_get(intent, "spec"),
											   "image_wait");
	const char *why = name_refused(image);
	Pull	   *pull = pulls;

	if (geteuid() != 0)
	{
		AttemptWriteExit(attempt, Format("%s 0 0 image: %s\n",
										 EXIT_NOT_STARTED,
										 "the node's agent is not root"));
		return false;
	}
	if (why != NULL)
	{
		AttemptWriteExit(attempt, Format("%s 0 0 image: %s\n", EXIT_NO_IMAGE,
										 why));
		return false;
	}
	while (pull != NULL && strcmp(pull->image, image) != 0)
		pull = pull->next;
	if (pull == NULL)
		pull = pull_begin(image);
	/* The file shows a later agent that the attempt waits. */
	if (pull == NULL || !FilePut(attempt->dir, "pull", "", 0))
	{
		AttemptWriteExit(attempt, Format("%s 0 0 image: %s\n",
										 EXIT_NOT_STARTED, strerror(errno)));
		return false;
	}
	attempt->pull = pull->pid;
	attempt->pull_until_ns = !json_is_integer(wait) ||
		json_integer_value(wait) > 1000000 ? INT64_MAX :
		MonotonicNs() + (json_integer_value(wait) + IMAGE_FOUND_S) * NS_PER_S;
	return true;
}

/*
 * Starts a child that pulls an image, if the node does not have it. Returns
 * NULL on failure. The child ends with the agent, and the next agent begins
 * again.
 */
static Pull *
pull_begin(const char *image)
{
	Pull	   *pull = Alloc(sizeof(Pull));

	pull->out = memfd_create("pull", MFD_CLOEXEC);
	pull->pid = pull->out < 0 ? -1 : fork();
	if (pull->pid == 0)
	{
		(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
		PodmanRun("\"$1\" image exists \"$2\" ||"
				  " exec \"$1\" pull --quiet \"docker://$2\"", image,
				  pull->out);
	}
	if (pull->pid < 0)
	{
		if (pull->out >= 0)
			close(pull->out);
		free(pull);
		return NULL;
	}
	pull->image = Dup(image);
	pull->began_ns = MonotonicNs();
	pull->next = pulls;
	pulls = pull;
	return pull;
}

/*
 * Returns why a name is refused, or NULL if it names an image of a store or
 * registry. Podman would read an image such as "dir:/root/x" from that path.
 */
static const char *
name_refused(const char *image)
{
	static const char *const transports[] = {
		"atomic:", "containers-storage:", "dir:", "docker:",
		"docker-archive:", "docker-daemon:", "oci:", "oci-archive:",
		"ostree:", "sif:", "tarball:",
	};

	if (!isalnum((unsigned char) *image) || strlen(image) > 255)
		return "its name begins with a letter or digit";
	for (const char *at = image; *at != '\0'; at++)
	{
		if (!isalnum((unsigned char) *at) && strchr("._-/:@", *at) == NULL)
			return "its name has other characters than letters, digits and ._-/:@";
	}
	for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++)
	{
		if (strncasecmp(image, transports[i], strlen(transports[i])) == 0)
			return "its name has to be one of a registry";
	}
	return NULL;
}

static bool
waits_for(const LocalAttempt *attempt, const Pull *pull)
{
	return attempt->phase == PHASE_RUNS && attempt->pull == pull->pid;
}

/*
 * Ends attempts whose devices have waited too long for their images, and kills
 * pulls that take longer than the configuration allows.
 */
void
PullExpire(void)
{
	int64_t		now = MonotonicNs();

	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (a->phase == PHASE_RUNS && a->pull != 0 && now >= a->pull_until_ns)
			fail_attempt(a, EXIT_NOT_STARTED,
						 "it is still being pulled, and devices do not wait for it"
						 " longer");
	}
	for (Pull *p = pulls; p != NULL; p = p->next)
	{
		if (!p->late && now - p->began_ns > config.image_pull_s * NS_PER_S)
		{
			p->late = true;
			(void) kill(-p->pid, SIGKILL);
		}
	}
}

/*
 * Ends an attempt that waited for its image, and records the reason for its
 * settlement.
 */
static void
fail_attempt(LocalAttempt *attempt, const char *kind, const char *reason)
{
	LogLine("event=no_image attempt=%s error=\"%s\"", attempt->tag, reason);
	attempt->pull = 0;
	AttemptWriteExit(attempt, Format("%s 0 %lld image: %s\n", kind,
									 (long long) AttemptElapsedUs(attempt),
									 reason));
	AttemptGone(attempt);
}

/*
 * Handles an attempt that ends before its image is present. A pull that no
 * attempt waits for is ended, too.
 */
void
PullLeave(LocalAttempt *attempt)
{
	pid_t		pid = attempt->pull;
	Pull	  **link = &pulls;

	attempt->pull = 0;
	for (const LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (a->phase == PHASE_RUNS && a->pull == pid)
			return;
	}
	while (*link != NULL && (*link)->pid != pid)
		link = &(*link)->next;
	if (*link == NULL)
		return;
	(void) kill(-pid, SIGKILL);
	pull_free(link);
}

/*
 * Removes a pull from the list.
 */
static void
pull_free(Pull **link)
{
	Pull	   *pull = *link;

	*link = pull->next;
	close(pull->out);
	free(pull->image);
	free(pull);
}

/*
 * Handles the end of a child. Returns whether it was one that pulled. Calls
 * pulled() for each attempt that has its image now.
 */
bool
PullChildGone(pid_t pid, int status, void (*pulled) (LocalAttempt *))
{
	Pull	  **link = &pulls;
	Pull	   *pull;
	char	   *reason;

	while (*link != NULL && (*link)->pid != pid)
		link = &(*link)->next;
	pull = *link;
	if (pull == NULL)
		return false;
	reason = pull->late ? Format("it was not pulled within %ld s",
								 config.image_pull_s) : last_line(pull);
	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (!waits_for(a, pull))
			continue;
		if (status == 0)
		{
			a->pull = 0;
			pulled(a);
		}
		else
			fail_attempt(a, EXIT_NO_IMAGE, *reason == '\0' ? "podman failed" :
						 reason);
	}
	while (*link != pull)
		link = &(*link)->next;
	pull_free(link);
	free(reason);
	return true;
}

/*
 * Returns podman's last line without quotes, which would end a text in the
 * agent's log.
 */
static char *
last_line(const Pull *pull)
{
	char	   *text = Alloc(OUTPUT_MOST + 1);
	off_t		size = lseek(pull->out, 0, SEEK_END);
	char	   *line;

	if (pread(pull->out, text, OUTPUT_MOST,
			  size > OUTPUT_MOST ? size - OUTPUT_MOST : 0) < 0)
		*text = '\0';
	while (*text != '\0' && text[strlen(text) - 1] == '\n')
		text[strlen(text) - 1] = '\0';
	line = strrchr(text, '\n');
	line = Format("%.400s", line == NULL ? text : line + 1);
	for (char *at = line; *at != '\0'; at++)
	{
		if (*at == '"')
			*at = '\'';
	}
	free(text);
	return line;
}
