/*-------------------------------------------------------------------------
 *
 * instant.c
 *		Parses instants as sbatch's --begin and --deadline have them.
 *
 *     now, now+30 (seconds), now+2minutes, now+1hour, now+3days, now+1week
 *     now-2days                only where past instants are allowed
 *     today, tomorrow, midnight, noon, fika (15:00), teatime (16:00)
 *     16:00, 16:00:30, 4:00pm  today, or tomorrow if the time has passed
 *     2030-01-20, 2030-01-20T12:34, 2030-01-20T12:34:56
 *     0120, 012030, 01/20, 01/20/30, each optionally followed by a time
 *
 * Instants are in the time zone of the caller.
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"
#include "instant.h"

#define DAY_SECONDS 86400

/* The parts of an instant that were parsed so far. */
typedef struct InstantParts
{
	struct tm	tm;
	bool		has_date;
	bool		has_year;
	bool		has_time;
} InstantParts;

static bool parse_relative(const char *text, time_t now, bool past,
						   time_t *instant);
static bool parse_part(const char **at, InstantParts *parts);
static bool parse_word(const char **at, InstantParts *parts);
static bool parse_date(const char **at, InstantParts *parts);
static bool parse_time(const char **at, InstantParts *parts);
static bool parse_digits(const char **at, int least, int most, int *number);
static bool is_date(const InstantParts *parts);
static void normalize(struct tm *date);

/*
 * Parses an instant. Returns false if the text is not one. As in sbatch, a
 * time without a day, or a day without a year, means the next such instant. If
 * "past" is true, for sacct, it means that of today, or of this year.
 */
bool
InstantParse(const char *text, time_t now, bool past, time_t *instant)
{
	InstantParts parts = {0};
	const char *at = text;
	struct tm	today;

	if (strncasecmp(text, "now", 3) == 0)
		return parse_relative(text + 3, now, past, instant);
	localtime_r(&now, &today);
	parts.tm = (struct tm)
	{
		.tm_year = today.tm_year, .tm_mon = today.tm_mon,
			.tm_mday = today.tm_mday, .tm_isdst = -1
	};
	if (*text == '\0')
		return false;
	while (*at != '\0')
	{
		if (!parse_part(&at, &parts))
			return false;
		if (*at == 'T' || *at == '-' || *at == ' ')
			at++;
	}
	if (parts.has_date && !is_date(&parts))
		return false;
	*instant = mktime(&parts.tm);
	if (!past && *instant < now && !parts.has_date)
	{
		parts.tm.tm_mday++;
		parts.tm.tm_isdst = -1;
		*instant = mktime(&parts.tm);
	}
	else if (!past && *instant < now - DAY_SECONDS && !parts.has_year)
	{
		parts.tm.tm_year++;
		parts.tm.tm_isdst = -1;
		if (!is_date(&parts))
			return false;		/* next year has no February 29 */
		*instant = mktime(&parts.tm);
	}
	return *instant != (time_t) -1;
}

/*
 * Parses a word, a date or a time. Each parser starts at the same character,
 * and one that does not match leaves "parts" unchanged.
 */
static bool
parse_part(const char **at, InstantParts *parts)
{
	static bool (*const parsers[]) (const char **at, InstantParts *parts) = {
		parse_word, parse_date, parse_time
	};

	for (size_t i = 0; i < sizeof(parsers) / sizeof(parsers[0]); i++)
	{
		const char *next = *at;
		InstantParts more = *parts;

		if (!parsers[i] (&next, &more))
			continue;
		*at = next;
		*parts = more;
		return true;
	}
	return false;
}

/*
 * Parses what follows "now": nothing, or "+", a number and a unit. The default
 * unit is seconds. If "past" is true, "-" is allowed as well.
 */
static bool
parse_relative(const char *text, time_t now, bool past, time_t *instant)
{
	static const struct
	{
		const char *name;
		long		seconds;
	}			units[] = {
		{"", 1}, {"second", 1}, {"minute", 60}, {"hour", 3600},
		{"day", DAY_SECONDS}, {"week", 7 * DAY_SECONDS}
	};
	char	   *end;
	long		number;
	size_t		length;

	*instant = now;
	if (*text == '\0')
		return true;
	if ((*text != '+' && !(past && *text == '-')) ||
		!isdigit((unsigned char) text[1]))
		return false;
	number = strtol(text + 1, &end, 10);
	length = strlen(end);
	if (length > 1 && (end[length - 1] == 's' || end[length - 1] == 'S'))
		length--;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
	{
		if (length != strlen(units[i].name) ||
			strncasecmp(end, units[i].name, length) != 0)
			continue;
		if (number > 366L * DAY_SECONDS / units[i].seconds)
			return false;
		number *= units[i].seconds;
		*instant = *text == '-' ? now - number : now + number;
		return true;
	}
	return false;
}

/*
 * Parses a word that means a day, or a time of day.
 */
static bool
parse_word(const char **at, InstantParts *parts)
{
	static const struct
	{
		const char *name;
		int			days;		/* -1 for a time of day */
		int			hour;
	}			words[] = {
		{"today", 0, 0}, {"tomorrow", 1, 0}, {"midnight", -1, 0},
		{"noon", -1, 12}, {"fika", -1, 15}, {"teatime", -1, 16}
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
	{
		size_t		length = strlen(words[i].name);

		if (strncasecmp(*at, words[i].name, length) != 0 ||
			isalnum((unsigned char) (*at)[length]))
			continue;
		if (words[i].days < 0 ? parts->has_time : parts->has_date)
			return false;
		*at += length;
		if (words[i].days < 0)
		{
			parts->has_time = true;
			parts->tm.tm_hour = words[i].hour;
			return true;
		}
		parts->has_date = parts->has_year = true;
		parts->tm.tm_mday += words[i].days;
		normalize(&parts->tm);
		return true;
	}
	return false;
}

/*
 * Parses YYYY-MM-DD, MMDD, MMDDYY, MM/DD, MM/DD/YY or MM/DD/YYYY.
 */
static bool
parse_date(const char **at, InstantParts *parts)
{
	size_t		digits = strspn(*at, "0123456789");
	const char *next = *at + digits;
	int			year = -1;
	int			month;
	int			day;

	if (parts->has_date)
		return false;
	if (digits == 4 && *next == '-')
	{
		if (!parse_digits(at, 4, 4, &year) || *(*at)++ != '-' ||
			!parse_digits(at, 2, 2, &month) || *(*at)++ != '-' ||
			!parse_digits(at, 2, 2, &day) || isdigit((unsigned char) **at))
			return false;
	}
	else if ((digits == 4 || digits == 6) && *next != ':')
	{
		(void) parse_digits(at, 2, 2, &month);
		(void) parse_digits(at, 2, 2, &day);
		if (digits == 6)
			(void) parse_digits(at, 2, 2, &year);
	}
	else if (*next == '/' || (*next == '.' && digits <= 2))
	{
		char		separator = *next;

		if (!parse_digits(at, 1, 2, &month) || *(*at)++ != separator ||
			!parse_digits(at, 1, 2, &day))
			return false;
		if (**at == separator)
		{
			(*at)++;
			digits = strspn(*at, "0123456789");
			if ((digits != 2 && digits != 4) ||
				!parse_digits(at, 2, 4, &year))
				return false;
		}
	}
	else
		return false;
	parts->has_date = true;
	parts->has_year = year >= 0;
	if (year >= 0)
		parts->tm.tm_year = year < 100 ? year + 100 : year - 1900;
	parts->tm.tm_mon = month - 1;
	parts->tm.tm_mday = day;
	return month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

/*
 * Parses HH:MM or HH:MM:SS, optionally followed by AM or PM.
 */
static bool
parse_time(const char **at, InstantParts *parts)
{
	int			hour;
	int			minute;
	int			second = 0;

	if (parts->has_time || !parse_digits(at, 1, 2, &hour) ||
		*(*at)++ != ':' || !parse_digits(at, 2, 2, &minute))
		return false;
	if (**at == ':')
	{
		(*at)++;
		if (!parse_digits(at, 2, 2, &second))
			return false;
	}
	if (strncasecmp(*at, "am", 2) == 0 || strncasecmp(*at, "pm", 2) == 0)
	{
		if (hour < 1 || hour > 12)
			return false;
		hour = hour % 12 + (tolower((unsigned char) **at) == 'p' ? 12 : 0);
		*at += 2;
	}
	parts->has_time = true;
	parts->tm.tm_hour = hour;
	parts->tm.tm_min = minute;
	parts->tm.tm_sec = second;
	return hour <= 23 && minute <= 59 && second <= 59;
}

/*
 * Parses a number that has between "least" and "most" digits. Returns false if
 * it has fewer or more.
 */
static bool
parse_digits(const char **at, int least, int most, int *number)
{
	int			n = 0;

	*number = 0;
	while (n < most && isdigit((unsigned char) **at))
	{
		*number = *number * 10 + *(*at)++ - '0';
		n++;
	}
	return n >= least;
}

/*
 * Whether the date exists. mktime() accepts February 30 and turns it into
 * another day, so the result is compared.
 */
static bool
is_date(const InstantParts *parts)
{
	struct tm	date = parts->tm;

	normalize(&date);
	return date.tm_mday == parts->tm.tm_mday;
}

/*
 * Turns a day past a month's end into the next month's day: the day after
 * January 31 is February 1.
 */
static void
normalize(struct tm *date)
{
	struct tm	noon = {.tm_year = date->tm_year, .tm_mon = date->tm_mon,
		.tm_mday = date->tm_mday, .tm_hour = 12, .tm_isdst = -1};

	(void) mktime(&noon);
	date->tm_year = noon.tm_year;
	date->tm_mon = noon.tm_mon;
	date->tm_mday = noon.tm_mday;
}

/*
 * Formats an instant so that PostgreSQL parses it independently of the time
 * zone.
 */
char *
InstantPrint(time_t instant)
{
	struct tm	utc;
	char		text[32];

	gmtime_r(&instant, &utc);
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S+00", &utc);
	return Format("%s", text);
}
