/*-------------------------------------------------------------------------
 *
 * file_pattern.c
 *		Expands the pattern of an output file's name, as sbatch does.
 *
 *     %j %J  the job               %A  the job, or the number of its array
 *     %a     its index in the array
 *     %x     its name              %u  its user
 *     %N     this node's name      %n  this node's index
 *     %t     the task's index, which is 0
 *     %s     the step, which is "batch"
 *     %%     a percent sign
 *
 * A number between the percent sign and the letter is the width to which
 * numbers are padded with zeros. If the pattern contains a backslash, it is
 * not expanded.
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "file_pattern.h"
#include "gang.h"
#include "log.h"
#include "memory.h"

#define NO_INDEX	INT64_C(4294967294) /* what sbatch writes for %a of a job
										 * without an array */

static char *without_backslashes(const char *pattern);
static void put_field(FILE *out, const Launch *launch, char letter, int width);
static const char *text_of(const Launch *launch, const char *member);
static int64_t number_of(const Launch *launch, const char *variable,
						 int64_t none);
static const char *user_of(const Launch *launch);

char *
FilePattern(const Launch *launch, const char *pattern)
{
	char	   *name;
	size_t		len;
	FILE	   *out;

	if (strchr(pattern, '\\') != NULL)
		return without_backslashes(pattern);
	out = open_memstream(&name, &len);
	if (out == NULL)
		Die("out of memory");
	for (const char *at = pattern; *at != '\0'; at++)
	{
		const char *field = at;
		int			width = 0;

		if (*at == '%')
		{
			while (isdigit((unsigned char) at[1]) && width < 10)
				width = width * 10 + *++at - '0';
		}
		if (*field == '%' && at[1] != '\0' &&
			strchr("jJAaxuNnts%", at[1]) != NULL)
			put_field(out, launch, *++at, width > 10 ? 10 : width);
		else
			fwrite(field, 1, at - field + 1, out);
	}
	fclose(out);
	return name;
}

static char *
without_backslashes(const char *pattern)
{
	char	   *name = Dup(pattern);
	char	   *to = name;

	for (const char *at = pattern; *at != '\0'; at++)
	{
		if (*at != '\\')
			*to++ = *at;
	}
	*to = '\0';
	return name;
}

/*
 * Writes what a letter stands for. "width" pads numbers.
 */
static void
put_field(FILE *out, const Launch *launch, char letter, int width)
{
	const LocalAttempt *attempt = launch->attempt;

	switch (letter)
	{
		case 'j':
		case 'J':
			fprintf(out, "%0*lld", width, (long long) attempt->job);
			break;
		case 'A':
			fprintf(out, "%0*lld", width, (long long)
					number_of(launch, "SLURM_ARRAY_JOB_ID", attempt->job));
			break;
		case 'a':
			fprintf(out, "%0*lld", width, (long long)
					number_of(launch, "SLURM_ARRAY_TASK_ID", NO_INDEX));
			break;
		case 'n':
			fprintf(out, "%0*d", width, attempt->rank);
			break;
		case 't':
			fprintf(out, "%0*d", width, GangRunsOnce(launch) ? 0 :
					attempt->rank);
			break;
		case 'x':
			fputs(text_of(launch, "name"), out);
			break;
		case 'u':
			fputs(user_of(launch), out);
			break;
		case 'N':
			fputs(config.node, out);
			break;
		case 's':
			fputs("batch", out);
			break;
		default:
			fputc('%', out);
	}
}

static const char *
text_of(const Launch *launch, const char *member)
{
	const char *text = json_string_value(json_object_get(launch->spec,
														 member));

	return text == NULL ? "" : text;
}

static int64_t
number_of(const Launch *launch, const char *variable, int64_t none)
{
	const char *text =
	json_string_value(json_object_get(json_object_get(launch->spec, "env"),
									  variable));

	return text == NULL ? none : strtoll(text, NULL, 10);
}

/*
 * Returns the user's name on this machine, or else the last part of the
 * account.
 */
static const char *
user_of(const Launch *launch)
{
	const struct passwd *user = getpwuid(launch->user.uid != 0 ?
										 launch->user.uid : geteuid());
	const char *slash = strrchr(launch->attempt->account, '/');

	return user != NULL ? user->pw_name : slash != NULL ? slash + 1 :
		launch->attempt->account;
}
