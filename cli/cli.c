/*-------------------------------------------------------------------------
 *
 * cli.c
 *		The connection to the database, error messages, and tables.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "call_repeat.h"
#include "cli.h"

const char *cli_program = "gpucredit";
const char *cli_database;
const char *cli_org;
const char *cli_account;

static PGconn * conn;

static bool numeric(Oid type);
static void cell(const char *text, int width, bool right, bool last);

void
Fail(int status, const char *format,...)
{
	va_list		args;

	va_start(args, format);
	fprintf(stderr, "%s: ", cli_program);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(status);
}

/*
 * Parses a whole number, or ends the command with a message that "what" is not
 * one.
 */
int64_t
CliNumber(const char *text, int64_t least, int64_t most, const char *what)
{
	char	   *end;
	long long	number;

	errno = 0;
	number = strtoll(text, &end, 10);
	if (end == text || *end != '\0' || errno != 0 || number < least ||
		number > most)
		Fail(CLI_USAGE, "%s is a number from %lld to %lld, not \"%s\"", what,
			 (long long) least, (long long) most, text);
	return number;
}

const char *
CliOrg(void)
{
	if (cli_org == NULL || *cli_org == '\0')
		Fail(CLI_USAGE, "whose? Say -O ORG, or set GPUCREDIT_ORG");
	return cli_org;
}

/*
 * Makes a call, and connects first if needed. The caller checks the result.
 */
PGresult *
CliTry(const char *sql, int n, const char *const *values)
{
	if (conn != NULL && PQstatus(conn) != CONNECTION_OK)
	{
		PQfinish(conn);
		conn = NULL;
	}
	if (conn == NULL)
		conn = PQconnectdb(cli_database == NULL ? "" : cli_database);
	return PQexecParams(conn, sql, n, NULL, values, NULL, NULL, 0);
}

/*
 * Whether the same call may succeed if it is repeated soon.
 */
bool
CliRetries(const PGresult * result)
{
	CallRepeat	repeat = CallMayRepeat(result);

	return repeat == REPEAT_AT_ONCE || repeat == REPEAT_ELSEWHERE;
}

/*
 * Makes a call and repeats it if that can help: three times at once, and then
 * with pauses for "patience" seconds.
 */
PGresult *
CliRepeat(const char *sql, int n, const char *const *values, int patience)
{
	time_t		until = time(NULL) + patience;

	for (int repeats = 0;; repeats++)
	{
		PGresult   *result = CliTry(sql, n, values);

		if (!CliRetries(result) || (repeats >= 3 && time(NULL) >= until))
			return result;
		if (CallMayRepeat(result) == REPEAT_ELSEWHERE)
		{
			PQfinish(conn);
			conn = NULL;
		}
		PQclear(result);
		if (repeats >= 3)
			usleep(300000);
	}
}

PGresult *
CliCall(const char *sql, int n, const char *const *values)
{
	PGresult   *result = CliRepeat(sql, n, values, 0);

	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		CliRefused(result);
	return result;
}

/*
 * Prints the database's error with its detail and hint, and ends the command.
 */
void
CliRefused(const PGresult * result)
{
	const char *message = PQresultErrorField(result,
											 PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = PQresultErrorField(result,
											PG_DIAG_MESSAGE_DETAIL);
	const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	if (message == NULL)
	{
		message = PQerrorMessage(conn);
		Fail(CLI_REFUSED, "%.*s", (int) strcspn(message, "\n"), message);
	}
	fprintf(stderr, "%s: %s: %s\n", cli_program,
			state == NULL ? "" : state, message);
	if (detail != NULL)
		fprintf(stderr, "%s\n", detail);
	if (hint != NULL)
		fprintf(stderr, "%s\n", hint);
	exit(CLI_REFUSED);
}

/*
 * Prints the database's error in one line, for a command that continues with
 * other jobs.
 */
void
CliPrintRefusal(const char *job, const PGresult * result)
{
	const char *message = PQresultErrorField(result,
											 PG_DIAG_MESSAGE_PRIMARY);

	fprintf(stderr, "%s: job %s: %s\n", cli_program, job,
			message == NULL ? "no connection" : message);
}

/*
 * Generates an idempotency key that nobody has used: a random UUID.
 */
char *
CliKey(void)
{
	unsigned char b[16];

	if (getrandom(b, sizeof(b), 0) != (ssize_t) sizeof(b))
		Fail(CLI_REFUSED, "no random numbers: %s", strerror(errno));
	b[6] = (b[6] & 0x0f) | 0x40;
	b[8] = (b[8] & 0x3f) | 0x80;
	return Format("%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
				  "%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3], b[4],
				  b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
				  b[14], b[15]);
}

/*
 * Prints a table. Columns are as wide as their content; numbers are
 * right-aligned.
 */
void
CliTable(const PGresult * result, bool heading)
{
	int			columns = PQnfields(result);
	int		   *widths = Alloc(sizeof(int) * (columns + 1));

	for (int c = 0; c < columns; c++)
	{
		if (heading)
			widths[c] = strlen(PQfname(result, c));
		for (int r = 0; r < PQntuples(result); r++)
		{
			int			width = 0;
			const char *text = PQgetvalue(result, r, c);

			for (const char *at = text; *at != '\0';
				 at += PQmblenBounded(at, PQclientEncoding(conn)))
				width += PQdsplen(at, PQclientEncoding(conn));
			widths[c] = width > widths[c] ? width : widths[c];
		}
	}
	for (int r = heading ? -1 : 0; r < PQntuples(result); r++)
	{
		for (int c = 0; c < columns; c++)
			cell(r < 0 ? PQfname(result, c) : PQgetvalue(result, r, c),
				 widths[c], numeric(PQftype(result, c)), c == columns - 1);
	}
	free(widths);
}

/* Whether a type is one of int8, int4, int2, numeric, float8 and float4. */
static bool
numeric(Oid type)
{
	return type == 20 || type == 23 || type == 21 || type == 1700 ||
		type == 701 || type == 700;
}

static void
cell(const char *text, int width, bool right, bool last)
{
	int			used = 0;

	for (const char *at = text; *at != '\0';
		 at += PQmblenBounded(at, PQclientEncoding(conn)))
		used += PQdsplen(at, PQclientEncoding(conn));
	if (right)
		printf("%*s", width - used, "");
	fputs(text, stdout);
	if (!right && !last)
		printf("%*s", width - used, "");
	fputs(last ? "\n" : "  ", stdout);
}
