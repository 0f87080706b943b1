/*-------------------------------------------------------------------------
 *
 * options.c
 *		Parses options, prints the help that lists them, and reports unknown
 *		words.
 *
 * The help lists the table that the command's getopt_long() uses, so it
 * contains every option. The shell completion parses the help (completion/).
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static bool is_named(const struct option *options, int value, const char *name,
					 size_t length);

/*
 * Prints how a command is used, and its options. "letters" is the argument of
 * getopt_long(); an option of the table whose value is not in it has no short
 * form.
 */
void
CliHelp(const char *use, const struct option *options, const char *letters)
{
	puts(use);
	puts("Options:");
	for (const struct option *option = options; option->name != NULL; option++)
	{
		int			letter = option->val;

		if (isalnum(letter) && strchr(letters, letter) != NULL)
			printf("  -%c, ", letter);
		else
			printf("      ");
		printf("--%s%s\n", option->name,
			   option->has_arg == required_argument ? "=VALUE" :
			   option->has_arg == optional_argument ? "[=VALUE]" : "");
	}
}

/*
 * Parses the next option of a command that has only options. Returns -1 if
 * there is no more. --help prints the help and ends the command; a word that
 * is not an option also ends it.
 */
int
CliNextOption(const char *use, const struct option *options,
			  const char *letters, int argc, char **argv)
{
	int			option;

	opterr = 0;
	option = getopt_long(argc, argv, letters, options, NULL);
	if (option == -1 && optind < argc)
		Fail(CLI_USAGE, "\"%s\" is no option", argv[optind]);
	if (option == '?' || option == ':')
		CliBadOption(option, options, argv);
	if (is_named(options, option, "help", sizeof("help")))
	{
		CliHelp(use, options, letters);
		exit(CLI_DONE);
	}
	return option;
}

/*
 * Ends a command because of an option that its table does not contain, or that
 * lacks its value (":").
 */
void
CliBadOption(int option, const struct option *options, char **argv)
{
	const char *word = argv[optind - 1];

	/*
	 * The word before optind is the option if it has a long name. If it is a
	 * short option, getopt_long() may still be reading further letters of the
	 * word.
	 */
	if (optopt != 0 && (strncmp(word, "--", 2) != 0 ||
						!is_named(options, optopt, word + 2,
								  strcspn(word + 2, "="))))
		word = Format("-%c", optopt);
	Fail(CLI_USAGE, option == ':' ? "option \"%s\" needs a value" :
		 "option \"%s\" is not supported", word);
}

/*
 * Whether an option of the table has this value, and a name that starts with
 * the first "length" bytes of "name".
 */
static bool
is_named(const struct option *options, int value, const char *name,
		 size_t length)
{
	for (; options->name != NULL; options++)
	{
		if (options->val == value &&
			strncmp(options->name, name, length) == 0)
			return true;
	}
	return false;
}
