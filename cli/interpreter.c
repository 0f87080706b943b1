/*-------------------------------------------------------------------------
 *
 * interpreter.c
 *		Checks the first line of a script, which names the interpreter.
 *
 * A script that no node can run is refused, since the job would fail and still
 * be billed. An interpreter that is missing on this machine may exist on the
 * nodes, so it only causes a warning.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "submission.h"

#define BLANKS	" \t"

/* The words of the first line that follow "#!". */
typedef struct FirstLine
{
	char	   *interpreter;
	char	   *argument;		/* all words after the interpreter, which the
								 * kernel passes as one argument */
} FirstLine;

static FirstLine first_line(const char *script);
static bool runs_env(const FirstLine *line);
static char *program_of_env(const FirstLine *line);
static bool executable(const char *path);
static bool in_path(const char *program);

/*
 * Refuses a script that cannot run on any node.
 */
void
InterpreterCheck(const char *path, const char *script)
{
	FirstLine	line;

	if (strncmp(script, "\xef\xbb\xbf#!", 5) == 0)
		Fail(CLI_USAGE, "%s begins with a byte order mark, as Windows writes"
			 " it, before its #!, and no shell runs it; run:"
			 " sed -i '1s/^\\xef\\xbb\\xbf//' %s", path, path);
	if (strncmp(script, "#!", 2) != 0)
		Fail(CLI_USAGE, "%s does not begin with #! and an interpreter",
			 path);
	if (strstr(script, "\r\n") != NULL)
		Fail(CLI_USAGE, "%s has lines that end with CR LF, as Windows writes"
			 " them, and no shell runs it; run: sed -i 's/\\r$//' %s", path,
			 path);
	line = first_line(script);
	if (*line.interpreter == '\0')
		Fail(CLI_USAGE, "%s names no interpreter after #!", path);
	if (strchr(line.interpreter, '/') == NULL)
		Fail(CLI_USAGE, "%s:1: the interpreter \"%s\" has no path, and is"
			 " searched nowhere; write #!/usr/bin/env %s", path,
			 line.interpreter, line.interpreter);
	if (runs_env(&line) && *line.argument != '-' &&
		strpbrk(line.argument, BLANKS) != NULL)
		Fail(CLI_USAGE, "%s:1: env gets \"%s\" as one word, and finds no such"
			 " program; write #!%s -S %s", path, line.argument,
			 line.interpreter, line.argument);
	free(line.interpreter);
	free(line.argument);
}

/*
 * Warns about an interpreter that this machine does not have.
 */
void
InterpreterWarn(const char *path, const char *script)
{
	FirstLine	line = first_line(script);
	char	   *program;

	if (*line.interpreter != '/')
		return;					/* a relative path is relative to the job's
								 * folder */
	if (!executable(line.interpreter))
		fprintf(stderr, "gpucredit: %s:1: this machine cannot run the"
				" interpreter \"%s\": %s; on a node like it the job fails with"
				" exit code %d\n", path, line.interpreter, strerror(errno),
				errno == ENOENT || errno == ENOTDIR ? 127 : 126);
	else if (runs_env(&line))
	{
		program = program_of_env(&line);
		if (*program != '\0' && !in_path(program))
			fprintf(stderr, "gpucredit: %s:1: the PATH has no program \"%s\""
					" on this machine; on a node like it the job fails\n", path,
					program);
		free(program);
	}
	free(line.interpreter);
	free(line.argument);
}

/*
 * Parses the first line of a script that begins with "#!".
 */
static FirstLine
first_line(const char *script)
{
	const char *at = script + 2 + strspn(script + 2, BLANKS);
	size_t		length = strcspn(at, BLANKS "\n");
	FirstLine	line;
	const char *rest = at + length + strspn(at + length, BLANKS);
	size_t		left = strcspn(rest, "\n");

	while (left > 0 && strchr(BLANKS, rest[left - 1]) != NULL)
		left--;
	line.interpreter = Format("%.*s", (int) length, at);
	line.argument = Format("%.*s", (int) left, rest);
	return line;
}

static bool
runs_env(const FirstLine *line)
{
	return strcmp(strrchr(line->interpreter, '/') == NULL ? "" :
				  strrchr(line->interpreter, '/'), "/env") == 0;
}

/*
 * Returns the program that env starts: the first word, or after -S the first
 * word that sets no variable. Returns an empty string if it cannot be
 * determined, as with other options.
 */
static char *
program_of_env(const FirstLine *line)
{
	const char *at = line->argument;

	if (strncmp(at, "-S", 2) == 0)
		at += 2;
	for (;;)
	{
		size_t		length;

		at += strspn(at, BLANKS);
		length = strcspn(at, BLANKS);
		if (memchr(at, '=', length) == NULL)
			return Format("%.*s", *at == '-' || strpbrk(at, "\"'\\$") != NULL ?
						  0 : (int) length, at);
		at += length;
	}
}

/*
 * Whether a file can be executed. Otherwise sets errno.
 */
static bool
executable(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0 || access(path, X_OK) != 0)
		return false;
	errno = EACCES;
	return S_ISREG(st.st_mode);
}

/*
 * Whether the caller's PATH contains a program. The job has the same PATH
 * unless --export changes it. A relative path is relative to the job's folder
 * and is not checked.
 */
static bool
in_path(const char *program)
{
	const char *path = getenv("PATH");
	char	   *copy;
	char	   *save = NULL;
	bool		found = false;

	if (strchr(program, '/') != NULL)
		return *program != '/' || executable(program);
	copy = Format("%s", path == NULL ? "/usr/bin:/bin" : path);
	for (char *folder = strtok_r(copy, ":", &save);
		 folder != NULL && !found; folder = strtok_r(NULL, ":", &save))
	{
		char	   *file = Format("%s/%s", folder, program);

		found = executable(file);
		free(file);
	}
	free(copy);
	return found;
}
