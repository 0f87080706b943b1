/*-------------------------------------------------------------------------
 *
 * hostnames.c
 *		scontrol show hostnames: prints the nodes of a host list, one per
 *		line.
 *
 * Scripts use it to find their first node.
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "srun.h"

static void print_names(const char *before, const char *list);

/*
 * scontrol show hostnames [LIST]; without a list, those of the job
 */
int
SrunHostnames(const char *list)
{
	const char *from;
	int			depth = 0;

	if (list == NULL)
		list = getenv("SLURM_JOB_NODELIST");
	if (list == NULL)
	{
		fputs("scontrol: error: host list is empty\n", stderr);
		return 1;
	}
	from = list;
	for (const char *at = list;; at++)
	{
		char	   *one;

		depth += (*at == '[') - (*at == ']');
		if (*at != '\0' && (*at != ',' || depth > 0))
			continue;
		one = Format("%.*s", (int) (at - from), from);
		if (*one != '\0')
			print_names("", one);
		free(one);
		from = at + 1;
		if (*at == '\0')
			return 0;
	}
}

/*
 * Prints every name that a list such as "rack[1-2]n[01-03,7]" contains.
 */
static void
print_names(const char *before, const char *list)
{
	const char *open = strchr(list, '[');
	const char *close = open == NULL ? NULL : strchr(open, ']');

	if (close == NULL)
	{
		printf("%s%s\n", before, list);
		return;
	}
	for (const char *at = open + 1; at < close;)
	{
		char	   *end;
		int			width = (int) strspn(at, "0123456789");
		long		first = strtol(at, &end, 10);
		long		last = first;

		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		for (long n = first; n <= last && n - first < 100000; n++)
		{
			char	   *start = Format("%s%.*s%0*ld", before,
									   (int) (open - list), list, width, n);

			print_names(start, close + 1);
			free(start);
		}
		if (end == at)
			return;
		at = *end == ',' ? end + 1 : end;
	}
}
