/*-------------------------------------------------------------------------
 *
 * options.c
 *		What commands print about their options: the help, and what is none.
 *
 * The help lists the table that the command's getopt_long() reads, so it has each
 * option.  The completion of shells reads it (completion/).
 *
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

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
 * End a command at an option that its table does not have, or that lacks its
 * value (":").
 */
void
CliBadOption(int option, char **argv)
{
	const char *word = argv[optind - 1];

	/* of letters that stand together getopt_long() names the one */
	if (isgraph(optopt) && strncmp(word, "--", 2) != 0)
		word = CliFormat("-%c", optopt);
	Fail(CLI_USAGE, option == ':' ? "option \"%s\" needs a value" :
		 "option \"%s\" is not supported", word);
}
