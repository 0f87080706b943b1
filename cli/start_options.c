/*-------------------------------------------------------------------------
 *
 * start_options.c
 *		Parses the options for when a job may start, for the signal before its
 *		end, and for its labels, and builds the argument "options" of reserve()
 *		from them.
 *
 * As in Slurm, "now+1hour" counts from the submission. If the answer to a
 * submission was lost, the repeated submission counts from the first attempt,
 * so that it is the same call (submit.c).
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"
#include "instant.h"
#include "submission.h"

#define NICE_MOST	2147483645	/* as in Slurm */

static void set_instant(char **option, const char *name, const char *value,
						const char *where);
static void set_dependency(StoredSubmission *s, const char *value,
						   const char *where);
static void set_signal(StoredSubmission *s, const char *value,
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
 * Handles an option, if it is one of this file. Returns whether it is.
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
		case OPT_NICE:
			s->nice = value == NULL ? 100 :
				CliNumber(value, -NICE_MOST, NICE_MOST,
						  Format("%s: --nice", where));
			return true;
		case OPT_EXCLUSIVE:
			ExclusiveSet(s, value, where);
			return true;
		case OPT_SIGNAL:
			set_signal(s, value, where);
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
	*option = Format("%s", value);
}

static void
set_dependency(StoredSubmission *s, const char *value, const char *where)
{
	const char *problem;

	free(s->after);
	s->after = Alloc(sizeof(Dependency));
	problem = DependencyParse(value, s->after);
	if (problem != NULL)
		Fail(CLI_USAGE, "%s: \"%s\" is no dependency, as afterok:12:13: %s",
			 where, value, problem);
}

/*
 * Parses a signal that the job gets before its wall limit, as "B:USR1@120".
 */
static void
set_signal(StoredSubmission *s, const char *value, const char *where)
{
	static const struct
	{
		const char *name;
		const char *number;
	}			signals[] = {
		{"HUP", "1"}, {"INT", "2"}, {"QUIT", "3"}, {"USR1", "10"},
		{"USR2", "12"}, {"TERM", "15"}, {"CONT", "18"}
	};
	bool		batch = strncasecmp(value, "B:", 2) == 0;
	const char *text = value + (batch ? 2 : 0);
	const char *at = strchr(text, '@');
	char	   *name = Format("%.*s", (int) strcspn(text, "@"), text);
	const char *word = strncasecmp(name, "SIG", 3) == 0 ? name + 3 : name;
	size_t		n = 0;

	while (n < sizeof(signals) / sizeof(signals[0]) &&
		   strcasecmp(word, signals[n].name) != 0 &&
		   strcmp(name, signals[n].number) != 0)
		n++;
	if (n == sizeof(signals) / sizeof(signals[0]))
		Fail(CLI_USAGE, "%s: --signal=%s is not supported; use one of HUP,"
			 " INT, QUIT, USR1, USR2, TERM and CONT, as USR1@60, or B:USR1@60"
			 " for the script itself", where, value);
	json_decref(s->signal);
	s->signal = json_pack("{s:s, s:I, s:b}", "name", signals[n].name,
						  "before", (json_int_t)
						  (at == NULL ? 60 :
						   CliNumber(at + 1, 0, 65535, Format("%s: the time of --signal",
															  where))),
						  "batch", (int) batch);
	free(name);
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
 * Adds a label such as "model=llama".
 */
static void
set_label(StoredSubmission *s, const char *value, const char *where)
{
	const char *equals = strchr(value, '=');
	char	   *key;

	if (equals == NULL || equals == value || equals[1] == '\0')
		Fail(CLI_USAGE, "%s: \"%s\" is no label, as model=llama", where,
			 value);
	key = Format("%.*s", (int) (equals - value), value);
	put_label(s, key, equals + 1);
	free(key);
}

static void
put_label(StoredSubmission *s, const char *key, const char *value)
{
	if (s->labels == NULL)
		s->labels = json_object();
	/* As in Slurm, an empty comment counts as none. */
	if (*value != '\0')
		set_member(s->labels, key, json_string(value));
}

/*
 * Sets a member to a text from the command line. A text that is not UTF-8
 * cannot be stored in JSON; it ends the command, because the job must not
 * silently lack the label.
 */
static void
set_member(json_t * object, const char *key, json_t * text)
{
	if (text == NULL || json_object_set_new(object, key, text) != 0)
		Fail(CLI_USAGE, "a label or the name is not UTF-8");
}

/*
 * Builds the argument "options", without what differs between the jobs of an
 * array. "base" is the time of the first attempt to submit. If it is 0,
 * instants stay as they were written, which makes it possible to compare
 * submissions.
 */
char *
SubmissionReserveOptions(const StoredSubmission *s, time_t base)
{
	json_t	   *options = json_object();
	json_t	   *placement = PlacementOption(s);
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
	if (s->nice != 0)
		json_object_set_new(options, "priority", json_integer(-s->nice));
	if (s->hold)
		json_object_set_new(options, "hold", json_true());
	if (s->name != NULL)
		set_member(options, "name", json_string(s->name));
	if (s->array.at_most > 0)
		json_object_set_new(options, "at_most",
							json_integer(s->array.at_most));
	if (s->labels != NULL)
		json_object_set(options, "labels", s->labels);
	if (placement != NULL)
		json_object_set_new(options, "placement", placement);
	text = json_dumps(options, JSON_COMPACT | JSON_SORT_KEYS);
	if (text == NULL)
		Fail(CLI_REFUSED, "out of memory");
	json_decref(options);
	return text;
}

/*
 * Returns a dependency in the database's syntax.
 */
static char *
dependency_text(const Dependency *after)
{
	char	   *text = Format("%s", "");

	for (int i = 0; i < after->n; i++)
	{
		char		term[DEPENDENCY_TERM_SIZE];
		char	   *more;

		(void) DependencyTermPrint(&after->terms[i], term);
		more = Format("%s%s%s", text, i == 0 ? "" : after->any ? "?" : ",",
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
