/*-------------------------------------------------------------------------
 *
 * call_repeat.c
 *		Decides whether to repeat a database call that failed.
 *
 * All programs use this one table and differ only in how long they repeat a
 * call: a command gives up after a few seconds, because a person waits for it,
 * and an agent repeats the call until it gets an answer.
 *-------------------------------------------------------------------------
 */
#include <stddef.h>
#include <string.h>

#include "call_repeat.h"

/* The first row whose "begins" is a prefix of the SQLSTATE applies. */
static const struct
{
	const char *begins;
	CallRepeat	repeat;
}			rules[] =

{
	{"40", REPEAT_AT_ONCE},		/* a serialization failure or a deadlock */
	{"08", REPEAT_ELSEWHERE},	/* the connection broke */
	{"57014", REPEAT_LATER},	/* the statement was cancelled or exceeded its
								 * time limit */
	{"57", REPEAT_ELSEWHERE},	/* the server starts, stops or recovers */
	{"25006", REPEAT_ELSEWHERE},	/* the server is a standby */
	{"53300", REPEAT_ELSEWHERE},	/* the server has reached max_connections */
	{"53", REPEAT_LATER},		/* the server lacks memory, disk space or
								 * locks */
	{"55", REPEAT_LATER},		/* a lock was not available in time, or the
								 * operator must change a setting first */
	{"58", REPEAT_LATER},		/* the server's operating system reported an
								 * error */
	{"UC202", REPEAT_LATER}		/* the caller is over a rate limit */
};

/*
 * Classifies the result of a call. A result that is NULL or has no SQLSTATE
 * means that no server answered; then it is unknown whether the call took
 * effect.
 */
CallRepeat
CallMayRepeat(const PGresult * result)
{
	ExecStatusType status = PQresultStatus(result);
	const char *sqlstate;

	if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
		return REPEAT_NEVER;
	sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	if (sqlstate == NULL)
		return REPEAT_ELSEWHERE;
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
	{
		if (strncmp(sqlstate, rules[i].begins, strlen(rules[i].begins)) == 0)
			return rules[i].repeat;
	}
	return REPEAT_NEVER;
}
