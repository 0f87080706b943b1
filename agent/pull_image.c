/*-------------------------------------------------------------------------
 *
 * pull_image.c
 *		Pull a job's image, where the node does not have it.
 *
 * An attempt without its image never starts: its end is "not_started", with a
 * message that begins "image: ".
 *
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "podman.h"
#include "pull_image.h"
#include "util.h"

static const char *name_refused(const char *image);
static char *last_line(int dir, const char *file);

/*
 * Begin to pull the image, if the node does not have it.  False: it cannot, and
 * the attempt's end is written.
 */
bool
PullImage(LocalAttempt *attempt, const char *image)
{
	const char *why = geteuid() != 0 ? "the node's agent is not root" :
		name_refused(image);
	int			out = -1;

	if (why == NULL)
	{
		out = openat(attempt->dir, "pull", O_WRONLY | O_CREAT | O_TRUNC |
					 O_CLOEXEC, 0600);
		attempt->pull = out < 0 ? -1 : fork();
		if (attempt->pull == 0)
			PodmanRun("\"$1\" image exists \"$2\" ||"
					  " exec \"$1\" pull --quiet \"docker://$2\"", image,
					  out);
		if (attempt->pull < 0)
		{
			attempt->pull = 0;
			why = strerror(errno);
		}
		if (out >= 0)
			close(out);
	}
	if (why != NULL)
		AttemptWriteExit(attempt, Format("%s 0 0 image: %s\n",
										 EXIT_NOT_STARTED, why));
	return why == NULL;
}

/*
 * Why we refuse a name; NULL: it names an image of a store or registry.  Podman
 * would read "dir:/root/x" from that path.
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

/*
 * A child ended: was it one that pulled?  The caller starts what has its image.
 */
bool
PullChildGone(pid_t pid, int status, void (*pulled) (LocalAttempt *))
{
	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		char	   *reason;

		if (a->pull != pid)
			continue;
		a->pull = 0;
		if (status == 0)
		{
			pulled(a);
			return true;
		}
		reason = last_line(a->dir, "pull");
		LogLine("event=no_image attempt=%s error=\"%s\"", a->tag, reason);
		AttemptWriteExit(a, Format("%s 0 0 image: %s\n", EXIT_NOT_STARTED,
								   *reason == '\0' ? "podman failed" : reason));
		free(reason);
		AttemptGone(a);
		return true;
	}
	return false;
}

/* podman's last line, without quotes, which would end a text of our log */
static char *
last_line(int dir, const char *file)
{
	char	   *text = FileGet(dir, file, NULL);
	char	   *line;

	if (text == NULL)
		return Dup("");
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
