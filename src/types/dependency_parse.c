/*-------------------------------------------------------------------------
 *
 * dependency_parse.c
 *		The text of a dependency, as Slurm's option --dependency has it, without a
 *		server.
 *
 *	afterok:12:13,afterany:14	all of these; with "?" instead of ",", one
 *	after:12+5					five minutes after job 12 has begun
 *	afterok:12_3, afterok:12_*	a task, and all tasks, of job 12's array
 *	aftercorr:12				the task of job 12's array with the same number
 *	singleton					no earlier job of its account and name is open
 *
 * A job refers to jobs that exist when it is submitted, and of arrays and names
 * only earlier jobs count.  So no dependencies form a cycle.
 *
 * The column job.after has the same text with each task replaced by its job.
 *
 *-------------------------------------------------------------------------
 */
#include "types/dependency_parse.h"

#include <stdio.h>
#include <string.h>

#define MINUTES_MOST	(366 * 24 * 60)
#define WORDS			((int) (sizeof(words) / sizeof(words[0])))

static const char *const words[] = {
	[AFTER_BEGUN] = "after",
	[AFTER_ANY] = "afterany",
	[AFTER_OK] = "afterok",
	[AFTER_NOT_OK] = "afternotok",
	[AFTER_CORRESPONDING] = "aftercorr",
	[AFTER_SINGLETON] = "singleton"
};

static const char *parse_condition(const char **at, Dependency *dependency);
static const char *parse_jobs(const char **at, DependencyKind kind,
							  Dependency *dependency);
static const char *parse_term(const char **at, DependencyTerm *term);
static bool parse_number(const char **at, int64_t *number);

/*
 * Parses the text of a dependency.  Returns NULL, or a sentence for the caller
 * that says what is wrong with the text.
 */
const char *
DependencyParse(const char *text, Dependency *dependency)
{
	const char *at = text;
	char		separator = '\0';
	const char *problem;

	dependency->any = false;
	dependency->n = 0;
	for (;;)
	{
		problem = parse_condition(&at, dependency);
		if (problem != NULL)
			return problem;
		if (*at == '\0')
			break;
		if (separator != '\0' && *at != separator)
			return "It has both \",\", for all, and \"?\", for any.";
		separator = *at++;
	}
	dependency->any = separator == '?';
	return NULL;
}

/* Parses one condition, which ends at the next separator or at the end. */
static const char *
parse_condition(const char **at, Dependency *dependency)
{
	size_t		length = strcspn(*at, ":,?");
	int			kind = 0;

	while (kind < WORDS &&
		   (strlen(words[kind]) != length ||
			strncmp(words[kind], *at, length) != 0))
		kind++;
	if (kind == WORDS)
		return "A condition is after, afterany, afterok, afternotok or "
			"aftercorr with jobs, or singleton.";
	*at += length;
	if (kind != AFTER_SINGLETON)
		return parse_jobs(at, (DependencyKind) kind, dependency);
	if (**at == ':')
		return "The condition singleton names no jobs.";
	if (dependency->n == DEPENDENCY_MOST)
		return "It names more than 64 jobs.";
	dependency->terms[dependency->n++] = (DependencyTerm)
	{
		.kind = AFTER_SINGLETON
	};
	return NULL;
}

/* Parses the jobs of a condition, such as ":12:13". */
static const char *
parse_jobs(const char **at, DependencyKind kind, Dependency *dependency)
{
	if (**at != ':')
		return "A condition names its jobs, as afterok:12:13.";
	while (**at == ':')
	{
		DependencyTerm *term = &dependency->terms[dependency->n];
		const char *problem;

		if (dependency->n == DEPENDENCY_MOST)
			return "It names more than 64 jobs.";
		(*at)++;
		*term = (DependencyTerm)
		{
			.kind = kind
		};
		problem = parse_term(at, term);
		if (problem != NULL)
			return problem;
		dependency->n++;
	}
	return **at == '\0' || **at == ',' || **at == '?' ? NULL :
		"A job is a number, or a number with \"_\" and a task or \"*\".";
}

/* Parses one job of a condition: "12", "12_3", "12_*", and "12+5". */
static const char *
parse_term(const char **at, DependencyTerm *term)
{
	int64_t		minutes;

	if (!parse_number(at, &term->job) || term->job == 0)
		return "A job is a number, or a number with \"_\" and a task or \"*\".";
	if (**at == '_')
	{
		(*at)++;
		term->scope = **at == '*' ? DEPENDENCY_ARRAY : DEPENDENCY_TASK;
		if (term->kind == AFTER_CORRESPONDING)
			return "The condition aftercorr names an array by one of its "
				"jobs.";
		if (term->scope == DEPENDENCY_ARRAY)
			(*at)++;
		else if (!parse_number(at, &term->task))
			return "After \"_\" comes a task's number, or \"*\".";
	}
	if (**at != '+')
		return NULL;
	(*at)++;
	if (term->kind != AFTER_BEGUN || term->scope == DEPENDENCY_ARRAY)
		return "Only the condition after, of one job, has minutes to wait.";
	if (!parse_number(at, &minutes) || minutes > MINUTES_MOST)
		return "After \"+\" come minutes, a year at most.";
	term->minutes = (int32_t) minutes;
	return NULL;
}

/*
 * Parses digits.  Returns false if there are none, or the number does not fit.
 */
static bool
parse_number(const char **at, int64_t *number)
{
	const char *begin = *at;

	*number = 0;
	while (**at >= '0' && **at <= '9')
	{
		int			digit = *(*at)++ - '0';

		if (*number > (INT64_MAX - digit) / 10)
			return false;
		*number = *number * 10 + digit;
	}
	return *at > begin;
}

/*
 * Writes the text of a term, in the form that DependencyParse() accepts, and
 * returns its length.
 */
size_t
DependencyTermPrint(const DependencyTerm *term, char *buf)
{
	char	   *at = buf;

	at += sprintf(at, "%s", words[term->kind]);
	if (term->kind == AFTER_SINGLETON)
		return (size_t) (at - buf);
	at += sprintf(at, ":%lld", (long long) term->job);
	if (term->scope == DEPENDENCY_ARRAY)
		at += sprintf(at, "_*");
	else if (term->scope == DEPENDENCY_TASK)
		at += sprintf(at, "_%lld", (long long) term->task);
	if (term->minutes > 0)
		at += sprintf(at, "+%d", (int) term->minutes);
	return (size_t) (at - buf);
}
