/*-------------------------------------------------------------------------
 *
 * array_spec.c
 *		Parses the tasks of an array, as sbatch's --array has them.
 *
 *     0-15, 1,3,5-7, 0-15:4    indexes
 *     0-15%4                   at most 4 tasks at once
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "submission.h"

#define INDEX_MOST	4000000
#define TASKS_MOST	100000
#define AT_MOST_MOST	1000000

/* A range of indexes. */
typedef struct Range
{
	long		first;
	long		last;
	long		step;
} Range;

static bool parse_range(const char **at, Range *range);
static bool parse_index(const char **at, long *index);
static int	compare(const void *a, const void *b);
static void refuse(const char *where, const char *text)
			__attribute__((noreturn));
static void put_indexes(ArraySpec *array, long *indexes, int n);

/*
 * Parses the value of --array to the indexes in ascending order, without
 * duplicates. Ends the command if the value is malformed.
 */
void
ArrayParse(ArraySpec *array, const char *text, const char *where)
{
	const char *at = text;
	long	   *indexes = Alloc(sizeof(long) * TASKS_MOST);
	int			n = 0;
	Range		range;

	*array = (ArraySpec)
	{
		.step = 1
	};
	for (;;)
	{
		if (!parse_range(&at, &range))
			refuse(where, text);
		for (long i = range.first; i <= range.last; i += range.step)
		{
			if (n == TASKS_MOST)
				Fail(CLI_USAGE, "%s: more than %d jobs", where, TASKS_MOST);
			indexes[n++] = i;
		}
		if (*at != ',')
			break;
		at++;
	}
	if (*at == '%' && parse_index((at++, &at), &range.first) &&
		range.first >= 1 && range.first <= AT_MOST_MOST)
		array->at_most = range.first;
	if (*at != '\0' || (strchr(text, '%') != NULL && array->at_most == 0))
		refuse(where, text);
	if (strchr(text, ',') == NULL)
		array->step = range.step;
	put_indexes(array, indexes, n);
	free(indexes);
}

/*
 * Parses a range such as "3", "0-15" or "0-15:4".
 */
static bool
parse_range(const char **at, Range *range)
{
	if (!parse_index(at, &range->first))
		return false;
	range->last = range->first;
	range->step = 1;
	if (**at == '-')
	{
		(*at)++;
		if (!parse_index(at, &range->last))
			return false;
	}
	if (**at == ':')
	{
		(*at)++;
		if (!parse_index(at, &range->step))
			return false;
	}
	return range->last >= range->first && range->last <= INDEX_MOST &&
		range->step >= 1 && range->step <= INDEX_MOST;
}

static bool
parse_index(const char **at, long *index)
{
	char	   *end;

	if (**at < '0' || **at > '9')
		return false;
	errno = 0;
	*index = strtol(*at, &end, 10);
	*at = end;
	return errno == 0;
}

static int
compare(const void *a, const void *b)
{
	long		x = *(const long *) a;
	long		y = *(const long *) b;

	return x < y ? -1 : x > y;
}

static void
refuse(const char *where, const char *text)
{
	Fail(CLI_USAGE, "%s: \"%s\" are no indexes, as 0-15 or 1,3,5, with %%4 for"
		 " four at once", where, text);
}

/*
 * Stores the sorted indexes as text, without duplicates.
 */
static void
put_indexes(ArraySpec *array, long *indexes, int n)
{
	size_t		size;
	FILE	   *out = open_memstream(&array->indexes, &size);

	if (out == NULL)
		Fail(CLI_REFUSED, "out of memory");
	qsort(indexes, n, sizeof(long), compare);
	for (int i = 0; i < n; i++)
	{
		if (i > 0 && indexes[i] == indexes[i - 1])
			continue;
		fprintf(out, "%c%ld", array->n++ == 0 ? '{' : ',', indexes[i]);
	}
	fputc('}', out);
	fclose(out);
	array->lowest = indexes[0];
	array->highest = indexes[n - 1];
}
