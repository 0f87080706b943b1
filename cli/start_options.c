/*-------------------------------------------------------------------------
 *
 * start_options.c
 *		When a job may start, and its labels: members of reserve()'s options.
 *
 * As in Slurm, "now+1hour" counts from the submission.  A submission whose answer
 * was lost counts from its first try, so it stays the same call (submit.c).
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"
#include "instant.h"
#include "submission.h"

static void set_instant(char **option, const char *name, const char *value,
						const char *where);
static void set_dependency(StoredSubmission *s, const char *value,
						   const char *where);
static bool yes_or_no(const char *value, const char *where);
static void set_label(StoredSubmission *s, const char *value,
					  const char *where);
static void put_label(StoredSubmission *s, const char *key,
					  const char *value);
static void set_member(json_t * object, const char *key, json_t * text);
static char *dependency_text(const Dependency *after);
static const char *instant_text(const char *option, time_t base);

/*
 * Read an option, if it is one of these.
 */
bool
SubmissionStartOption(StoredSubmission *s, int option, const char *value,
					  const char *where)
{
	switch (option)
	{
		case 'b':
			set_instant(&s->begin, "--begin", value, where);
			return true;
		case OPT_DEADLINE:
			set_instant(&s->deadline, "--deadline", value, where);
			return true;
		case 'd':
			set_dependency(s, value, where);
			return true;
		case OPT_KILL:
			s->kills = yes_or_no(value, where);
			return true;
		case 'H':
			s->hold = true;
			return true;
		case 'W':
			s->waits = true;
			return true;
		case OPT_LABEL:
			set_label(s, value, where);
			return true;
		case OPT_COMMENT:
			put_label(s, "comment", value);
			return true;
		case OPT_WCKEY:
			put_label(s, "wckey", value);
			return true;
		default:
			return false;
	}
}

static void
set_instant(char **option, const char *name, const char *value,
			const char *where)
{
	time_t		instant;

	if (!InstantParse(value, time(NULL), false, &instant))
		Fail(CLI_USAGE, "%s: \"%s\" of %s is no instant, as"
			 " 2030-01-20T12:34:00, 16:00 or now+1hour", where, value, name);
	free(*option);
	*option = CliFormat("%s", value);
}

static void
set_dependency(StoredSubmission *s, const char *value, const char *where)
{
	const char *problem;

	free(s->after);
	s->after = CliAlloc(sizeof(Dependency));
	problem = DependencyParse(value, s->after);
	if (problem != NULL)
		Fail(CLI_USAGE, "%s: \"%s\" is no dependency, as afterok:12:13: %s",
			 where, value, problem);
}

static bool
yes_or_no(const char *value, const char *where)
{
	if (strcasecmp(value, "yes") != 0 && strcasecmp(value, "no") != 0)
		Fail(CLI_USAGE, "%s: --kill-on-invalid-dep is yes or no, not \"%s\"",
			 where, value);
	return strcasecmp(value, "yes") == 0;
}

/*
 * "model=llama"
 */
static void
set_label(StoredSubmission *s, const char *value, const char *where)
{
	const char *equals = strchr(value, '=');
	char	   *key;

	if (equals == NULL || equals == value || equals[1] == '\0')
		Fail(CLI_USAGE, "%s: \"%s\" is no label, as model=llama", where,
			 value);
	key = CliFormat("%.*s", (int) (equals - value), value);
	put_label(s, key, equals + 1);
	free(key);
}

static void
put_label(StoredSubmission *s, const char *key, const char *value)
{
	if (s->labels == NULL)
		s->labels = json_object();
	/* as Slurm has it, an empty comment is none */
	if (*value != '\0')
		set_member(s->labels, key, json_string(value));
}

/*
 * Set a member to a text that somebody typed.  JSON knows UTF-8 alone, and a job
 * must not lack a label because it is written otherwise.
 */
static void
set_member(json_t * object, const char *key, json_t * text)
{
	if (text == NULL || json_object_set_new(object, key, text) != 0)
		Fail(CLI_USAGE, "a label or the name is not UTF-8");
}

/*
 * The options of reserve(), without what differs between an array's jobs.
 * base: when the submission was first tried; 0: instants stay as they were
 * written, which tells equal submissions from others.
 */
char *
SubmissionReserveOptions(const StoredSubmission *s, time_t base)
{
	json_t	   *options = json_object();
	char	   *text;

	if (s->after != NULL)
		json_object_set_new(options, "after",
							json_string(dependency_text(s->after)));
	if (s->after != NULL && s->kills)
		json_object_set_new(options, "kill_on_invalid_dep", json_true());
	if (s->begin != NULL)
		json_object_set_new(options, "begin",
							json_string(instant_text(s->begin, base)));
	if (s->deadline != NULL)
		json_object_set_new(options, "deadline",
							json_string(instant_text(s->deadline, base)));
	if (s->hold)
		json_object_set_new(options, "hold", json_true());
	if (s->name != NULL)
		set_member(options, "name", json_string(s->name));
	if (s->array.at_most > 0)
		json_object_set_new(options, "at_most",
							json_integer(s->array.at_most));
	if (s->labels != NULL)
		json_object_set(options, "labels", s->labels);
	text = json_dumps(options, JSON_COMPACT | JSON_SORT_KEYS);
	if (text == NULL)
		Fail(CLI_REFUSED, "out of memory");
	json_decref(options);
	return text;
}

/*
 * As the database reads it.
 */
static char *
dependency_text(const Dependency *after)
{
	char	   *text = CliFormat("%s", "");

	for (int i = 0; i < after->n; i++)
	{
		char		term[DEPENDENCY_TERM_SIZE];
		char	   *more;

		(void) DependencyTermPrint(&after->terms[i], term);
		more = CliFormat("%s%s%s", text, i == 0 ? "" : after->any ? "?" : ",",
						 term);
		free(text);
		text = more;
	}
	return text;
}

static const char *
instant_text(const char *option, time_t base)
{
	time_t		instant;

	if (base == 0 || !InstantParse(option, base, false, &instant))
		return option;
	return InstantPrint(instant);
}
