/*-------------------------------------------------------------------------
 *
 * running.c
 *		Parses the argument "running" of heartbeat(): the attempts that an
 *		agent reports as running.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "job/run/running.h"
#include "miscadmin.h"
#include "types/clip.h"
#include "util/compat.h"
#include "utils/array.h"
#include "utils/builtins.h"

static void parse_running(char *text, Running *running);
static int64 parse_number(const char *digits, int64 most, const char *text);
static pg_attribute_noreturn() void refuse_running(const char *text);

/*
 * Parses the argument: NULL if nothing is reported, or else an array of
 * 'org/job/attempt'.
 */
void
ParseRunning(FunctionCallInfo fcinfo, int arg, Running *running)
{
	ArrayType  *array;
	Datum	   *elems;
	bool	   *nulls;
	int			n;

	memset(running, 0, sizeof(Running));
	if (PG_ARGISNULL(arg))
		return;
	array = PG_GETARG_ARRAYTYPE_P(arg);
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elems, &nulls,
					  &n);
	*running = RunningRoom(n);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (nulls[i])
			refuse_running("NULL");
		parse_running(TextDatumGetCString(elems[i]), running);
	}
}

/* Returns an empty list with room for n attempts. */
Running
RunningRoom(uint64 n)
{
	return (Running)
	{
		0, palloc(sizeof(char *) * (n + 1)), palloc(sizeof(int64) * (n + 1)),
			palloc(sizeof(int32) * (n + 1))
	};
}

/*
 * Parses 'org/job/attempt'. The name of the organisation may contain slashes.
 */
static void
parse_running(char *text, Running *running)
{
	char	   *copy = pstrdup(text);
	char	   *attempt = strrchr(copy, '/');
	char	   *job = NULL;

	if (attempt != NULL)
	{
		*attempt++ = '\0';
		job = strrchr(copy, '/');
	}
	if (job == NULL || job == copy)
		refuse_running(text);
	else
	{
		*job++ = '\0';
		running->jobs[running->n] = parse_number(job, PG_INT64_MAX, text);
	}
	running->attempts[running->n] = (int32) parse_number(attempt, PG_INT32_MAX,
														 text);
	running->orgs[running->n++] = copy;
}

/*
 * Parses a number in the form in which heartbeat writes it: digits only, and
 * no leading 0.
 */
static int64
parse_number(const char *digits, int64 most, const char *text)
{
	int64		number = 0;

	if (*digits < '1' || *digits > '9')
		refuse_running(text);
	for (; *digits != '\0'; digits++)
	{
		if (*digits < '0' || *digits > '9' ||
			number > (most - (*digits - '0')) / 10)
			refuse_running(text);
		number = number * 10 + (*digits - '0');
	}
	return number;
}

static void
refuse_running(const char *text)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("malformed element \"%s\" of \"running\"",
					ClipForMessage(text)),
			 errdetail("Each element names an attempt."),
			 errhint("Write 'org/job/attempt', as heartbeat() returned "
					 "them.")));
}
