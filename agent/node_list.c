/*-------------------------------------------------------------------------
 *
 * node_list.c
 *		Slurm's lists of hosts, such as "gpu[01-16,20],login1".
 *
 * A list is never expanded, because "n[0-999999999]" names more hosts than
 * memory holds. A name is compared with the list instead. A number in brackets
 * has at least as many digits as the lower bound of its range: "[08-11]" is
 * 08, 09, 10 and 11, and "[8-11]" is 8, 9, 10 and 11.
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "node_list.h"

#define MOST_BRACKETS	4		/* in one element of a list */
#define MOST_DIGITS		9

/* The range of a bracket that a call of range_next() has read. */
typedef struct NumberRange
{
	uint64_t	low;
	uint64_t	high;
	size_t		width;			/* least number of digits */
} NumberRange;

static size_t element_size(const char *list, size_t size);
static bool element_count(const char *at, size_t size, uint64_t *count);
static bool element_has(const char *at, size_t size, const char *name);
static bool range_next(const char **at, const char *end, NumberRange *range);
static bool number_read(const char **at, const char *end, uint64_t *number);

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Whether a character may stand in a host's name, outside of brackets. */
static bool
is_plain(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		c == '-' || c == '_' || c == '.' || c == ':';
}

/*
 * Checks the form of a list, and counts its hosts, up to UINT64_MAX. Returns
 * false if the list is malformed or empty.
 */
bool
NodeListCount(const char *list, size_t size, uint64_t *count)
{
	const char *end = list + size;

	*count = 0;
	for (;;)
	{
		size_t		length = element_size(list, (size_t) (end - list));
		uint64_t	more;

		if (!element_count(list, length, &more))
			return false;
		if (__builtin_add_overflow(*count, more, count))
			*count = UINT64_MAX;
		list += length;
		if (list == end)
			return true;
		list++;					/* the comma */
	}
}

/* Whether a list that NodeListCount() accepts names this host. */
bool
NodeListHas(const char *list, size_t size, const char *name)
{
	const char *end = list + size;

	for (;;)
	{
		size_t		length = element_size(list, (size_t) (end - list));

		if (element_has(list, length, name))
			return true;
		list += length;
		if (list == end)
			return false;
		list++;
	}
}

/* Returns the size of the first element: up to a comma outside of brackets. */
static size_t
element_size(const char *list, size_t size)
{
	bool		inside = false;
	size_t		i;

	for (i = 0; i < size && (inside || list[i] != ','); i++)
	{
		if (list[i] == '[')
			inside = true;
		else if (list[i] == ']')
			inside = false;
	}
	return i;
}

/*
 * Checks one element and counts its hosts. Returns false if it is malformed.
 */
static bool
element_count(const char *at, size_t size, uint64_t *count)
{
	const char *end = at + size;
	int			brackets = 0;

	*count = 1;
	if (size == 0)
		return false;
	while (at < end)
	{
		uint64_t	sum = 0;
		NumberRange range;

		if (is_plain(*at))
		{
			at++;
			continue;
		}
		if (*at != '[' || ++brackets > MOST_BRACKETS)
			return false;
		do
		{
			at++;				/* the bracket, or a comma */
			if (!range_next(&at, end, &range))
				return false;
			sum += range.high - range.low + 1;
		} while (at < end && *at == ',');
		if (at == end || *at++ != ']')
			return false;
		if (__builtin_mul_overflow(*count, sum, count))
			*count = UINT64_MAX;
	}
	return true;
}

/*
 * Whether a well-formed element names a host. Each number of digits that a
 * bracket may stand for is tried; the limits of both bound how often.
 */
static bool
element_has(const char *at, size_t size, const char *name)
{
	const char *end = at + size;
	const char *close;
	uint64_t	value = 0;

	for (; at < end && *at != '['; at++, name++)
	{
		if (*at != *name)
			return false;
	}
	if (at == end)
		return *name == '\0';
	close = memchr(at, ']', (size_t) (end - at));
	for (size_t digits = 1; digits <= MOST_DIGITS && is_digit(name[digits - 1]);
		 digits++)
	{
		const char *in = at;
		bool		fits = false;
		uint64_t	smallest = 1;
		NumberRange range;

		value = value * 10 + (uint64_t) (name[digits - 1] - '0');
		for (size_t i = 1; i < digits; i++)
			smallest *= 10;
		do
		{
			in++;
			if (!range_next(&in, end, &range))
				return false;
			fits = value >= range.low && value <= range.high &&
				(digits == range.width ||
				 (digits > range.width && value >= smallest));
		} while (!fits && *in == ',');
		if (fits && element_has(close + 1, (size_t) (end - close - 1),
								name + digits))
			return true;
	}
	return false;
}

/*
 * Reads "LOW-HIGH", or a single number. Returns false if it is malformed.
 */
static bool
range_next(const char **at, const char *end, NumberRange *range)
{
	const char *begin = *at;

	if (!number_read(at, end, &range->low))
		return false;
	range->width = (size_t) (*at - begin);
	range->high = range->low;
	if (*at == end || **at != '-')
		return true;
	(*at)++;
	return number_read(at, end, &range->high) && range->high >= range->low;
}

/* Reads a number of at most MOST_DIGITS digits. */
static bool
number_read(const char **at, const char *end, uint64_t *number)
{
	const char *begin = *at;

	for (*number = 0; *at < end && is_digit(**at); (*at)++)
	{
		if (*at - begin == MOST_DIGITS)
			return false;
		*number = *number * 10 + (uint64_t) (**at - '0');
	}
	return *at > begin;
}
