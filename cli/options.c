/*-------------------------------------------------------------------------
 *
 * options.c
 *		Parsing of options, the help that lists them, and what is no option.
 *
 * The help lists the table that the command's getopt_long() reads, so it has each
 * option.  The completion of shells reads it (completion/).
 *
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
 * Print how a command is called, and its options.  letters: as getopt_long()
 * gets them; other values of the table have no letter.
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
 * Parse the next option of a command that has options alone; -1: there is none.
 * --help prints the help and ends the command, as anything else does that is no
 * option.
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
 * End a command at an option that its table does not have, or that lacks its
 * value (":").
 */
void
CliBadOption(int option, const struct option *options, char **argv)
{
	const char *word = argv[optind - 1];

	/*
	 * The word before optind is the option if that has a name.  If it has a
	 * letter, getopt_long() may still be reading the letters after it.
	 */
	if (optopt != 0 && (strncmp(word, "--", 2) != 0 ||
						!is_named(options, optopt, word + 2,
								  strcspn(word + 2, "="))))
		word = CliFormat("-%c", optopt);
	Fail(CLI_USAGE, option == ':' ? "option \"%s\" needs a value" :
		 "option \"%s\" is not supported", word);
}

/*
 * Whether an option of the table has this value, and a name whose first "length"
 * bytes are those of "name".
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
