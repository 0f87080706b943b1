/*-------------------------------------------------------------------------
 *
 * slurm.c
 *		sbatch, squeue and scancel, for programs that submit jobs by them.
 *
 * The name of the call selects the command.  An unknown option or format
 * letter ends it: a tool that got something else than it asked for would draw
 * wrong conclusions.
 *
 * A user is the last part of an account's path.
 *
 *-------------------------------------------------------------------------
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define FORMAT	"%.18i %.9P %.8j %.8u %.2t %.10M %R"
#define MOST	65536			/* bytes of a list of jobs */

/* Each letter of a format: its heading, and its SQL about a job "j". */
static const struct
{
	char		letter;
	const char *heading;
	const char *sql;
}			fields[] = {
	{'A', "JOBID", "j.job::text"},
	{'M', "TIME", "s.ran"},
	{'P', "PARTITION", "j.pool"},
	{'R', "NODELIST(REASON)", "CASE WHEN s.long = 'PENDING' THEN"
		" '(' || CASE j.state WHEN 'unfunded' THEN 'AssocGrpBillingMinutes'"
	" ELSE 'Resources' END || ')' ELSE '' END"},
	{'S', "START_TIME", "coalesce(to_char(j.started_at, 'YYYY-MM-DD\"T\""
	"HH24:MI:SS'), 'N/A')"},
	{'T', "STATE", "s.long"},
	{'V', "SUBMIT_TIME", "to_char(j.submitted_at, 'YYYY-MM-DD\"T\""
	"HH24:MI:SS')"},
	{'a', "ACCOUNT", "j.account"},
	{'i', "JOBID", "j.job::text"},
	{'j', "NAME", "(SELECT coalesce(k.spec ->> 'name', 'sbatch')"
	" FROM gpucredit.job k WHERE k.org = j.org AND k.job = j.job)"},
	{'q', "QOS", "j.tier"},
	{'r', "REASON", "CASE WHEN s.long <> 'PENDING' THEN 'None'"
		" WHEN j.state = 'unfunded' THEN 'AssocGrpBillingMinutes'"
	" ELSE 'Resources' END"},
	{'t', "ST", "s.short"},
	{'u', "USER", "regexp_replace(j.account, '^.*/', '')"},
};

/* Slurm's words for states and endings */
#define STATES \
	" (VALUES ('queued', 'PENDING', 'PD'), ('unfunded', 'PENDING', 'PD')," \
	" ('starting', 'CONFIGURING', 'CF'), ('running', 'RUNNING', 'R')," \
	" ('stopping', 'COMPLETING', 'CG'), ('completed', 'COMPLETED', 'CD')," \
	" ('failed', 'FAILED', 'F'), ('timeout', 'TIMEOUT', 'TO')," \
	" ('cancelled', 'CANCELLED', 'CA')) AS w (state, long, short)"

/* The options of squeue. */
typedef struct Squeue
{
	const char *format;
	char	   *jobs;			/* a bigint array; NULL: all */
	const char *states;			/* NULL: live jobs */
	const char *account;
	const char *user;
	const char *pool;
	bool		heading;
} Squeue;

/* One field of a format, and the text before it. */
typedef struct FormatField
{
	char	   *before;
	int			which;
	int			width;			/* 0: as wide as its content */
	bool		right;
} FormatField;

static void parse_options(Squeue *q, int argc, char **argv);
static int	read_format(const char *format, FormatField *fields_of, int most);
static int	field_of(char letter);
static char *job_list(const char *text);
static void put_line(const FormatField *format, int n, const PGresult * result,
					 int row, const char *rest);
static void put_text(const FormatField *field, const char *text);

/*
 * squeue: one call, one line per job.
 */
int
CliSqueue(int argc, char **argv)
{
	Squeue		q = {.format = FORMAT, .heading = true,
		.account = cli_account};
	FormatField format[64];
	int			n;
	char	   *sql;
	const char *values[6];
	PGresult   *result;

	parse_options(&q, argc, argv);
	n = read_format(q.format, format, 64);
	sql = CliFormat("SELECT j.job");
	for (int i = 0; i < n; i++)
		sql = CliFormat("%s, %s", sql, fields[format[i].which].sql);
	sql = CliFormat("%s FROM gpucredit.jobs j"
					" CROSS JOIN LATERAL (SELECT w.long, w.short,"
					"  to_char(coalesce(j.elapsed, '0'), 'HH24:MI:SS') AS ran"
					"  FROM" STATES " WHERE w.state = j.state) s"
					" WHERE j.org = $1 AND ($2::bigint[] IS NULL"
					"  OR j.job = ANY ($2::bigint[]))"
					" AND CASE WHEN $3::text IS NULL THEN j.ended_at IS NULL"
					"  WHEN lower($3) = 'all' THEN $2::bigint[] IS NOT NULL"
					"   OR j.ended_at IS NULL"
					"   OR j.ended_at > gpucredit.now() - interval '5 min'"
					"  ELSE ARRAY[s.long, s.short] &&"
					"   string_to_array(upper($3), ',') END"
					" AND ($4::text IS NULL OR $4 = '' OR j.account = $4"
					"  OR starts_with(j.account, $4 || '/'))"
					" AND ($5::text IS NULL OR"
					"  regexp_replace(j.account, '^.*/', '') = ANY"
					"  (string_to_array($5, ',')))"
					" AND ($6::text IS NULL"
					"  OR j.pool = ANY (string_to_array($6, ',')))"
					" ORDER BY j.job", sql);
	values[0] = CliOrg();
	values[1] = q.jobs;
	values[2] = q.states;
	values[3] = q.account;
	values[4] = q.user;
	values[5] = q.pool;
	result = CliCall(sql, 6, values);
	if (q.heading)
		put_line(format, n, NULL, 0, format[n].before);
	for (int row = 0; row < PQntuples(result); row++)
		put_line(format, n, result, row, format[n].before);
	PQclear(result);
	return CLI_DONE;
}

/*
 * Parse the command line; an unknown word ends the command.
 */
static void
parse_options(Squeue *q, int argc, char **argv)
{
	static const struct option options[] = {
		{"account", required_argument, NULL, 'A'},
		{"format", required_argument, NULL, 'o'},
		{"jobs", required_argument, NULL, 'j'},
		{"me", no_argument, NULL, 'm'},
		{"noheader", no_argument, NULL, 'h'},
		{"partition", required_argument, NULL, 'p'},
		{"states", required_argument, NULL, 't'},
		{"user", required_argument, NULL, 'u'},
		{NULL, 0, NULL, 0}
	};
	int			option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "A:hj:o:p:t:u:", options,
								 NULL)) != -1)
	{
		switch (option)
		{
			case 'A':
				q->account = optarg;
				break;
			case 'h':
				q->heading = false;
				break;
			case 'j':
				q->jobs = job_list(optarg);
				break;
			case 'm':
				break;			/* GPUCREDIT_ACCOUNT, as in all commands */
			case 'o':
				q->format = optarg;
				break;
			case 'p':
				q->pool = optarg;
				break;
			case 't':
				q->states = optarg;
				break;
			case 'u':
				q->user = optarg;
				break;
			default:
				Fail(CLI_USAGE, "option \"%s\" is not supported",
					 argv[optind - 1]);
		}
	}
	if (optind < argc)
		Fail(CLI_USAGE, "\"%s\" is no option", argv[optind]);
}

/*
 * scancel: silent if the job was cancelled, or is over.
 */
int
CliScancel(int argc, char **argv)
{
	static const struct option options[] = {
		{"quiet", no_argument, NULL, 'Q'},
		{NULL, 0, NULL, 0}
	};
	bool		quiet = false;
	int			status = CLI_DONE;
	int			option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "Q", options, NULL)) != -1)
	{
		if (option != 'Q')
			Fail(CLI_USAGE, "option \"%s\" is not supported",
				 argv[optind - 1]);
		quiet = true;
	}
	if (optind >= argc)
		Fail(CLI_USAGE, "usage: scancel [-Q] JOB...");
	for (int i = optind; i < argc; i++)
		(void) CliNumber(argv[i], 1, INT64_MAX, "a job");
	for (int i = optind; i < argc; i++)
	{
		char	   *key = CliFormat("gpucredit-cancel-%s", argv[i]);
		const char *values[3] = {CliOrg(), argv[i], key};
		PGresult   *result = CliTry("SELECT gpucredit.cancel($1, $2::bigint,"
									" $3)", 3, values);

		for (int try = 0; try < 3 && CliRetries(result); try++)
		{
			PQclear(result);
			result = CliTry("SELECT gpucredit.cancel($1, $2::bigint, $3)", 3,
							values);
		}
		if (PQresultStatus(result) != PGRES_TUPLES_OK)
		{
			const char *message = PQresultErrorField(result,
													 PG_DIAG_MESSAGE_PRIMARY);

			if (!quiet)
				fprintf(stderr, "scancel: error: Kill job error on job id %s:"
						" %s\n", argv[i],
						message == NULL ? "no connection" : message);
			status = CLI_REFUSED;
		}
		PQclear(result);
		free(key);
	}
	return status;
}

/*
 * Parse a format: "%", maybe "." for right-aligned, maybe a width, a letter.
 * The text after the last field makes one more.
 */
static int
read_format(const char *format, FormatField *fields_of, int most)
{
	int			n = 0;
	const char *text = format;

	for (const char *at = format; *at != '\0';)
	{
		FormatField *field = &fields_of[n];

		if (*at != '%')
		{
			at++;
			continue;
		}
		if (n == most - 1)
			Fail(CLI_USAGE, "the format is too long");
		field->before = CliFormat("%.*s", (int) (at - text), text);
		at++;
		field->right = *at == '.';
		at += field->right;
		field->width = (int) strtol(at, (char **) &at, 10);
		if (field->width < 0 || field->width > 1000)
			Fail(CLI_USAGE, "a width of the format is not supported");
		field->which = field_of(*at);
		if (field->which < 0)
			Fail(CLI_USAGE, "\"%%%c\" of the format is not supported",
				 *at == '\0' ? ' ' : *at);
		text = ++at;
		n++;
	}
	fields_of[n].before = CliFormat("%s", text);
	return n;
}

static int
field_of(char letter)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
	{
		if (fields[i].letter == letter)
			return (int) i;
	}
	return -1;
}

/* "1,2,3" as an array */
static char *
job_list(const char *text)
{
	char	   *copy = CliFormat("%s", text);
	char	   *list = CliFormat("{%s}", text);
	char	   *save = NULL;

	if (strlen(text) > MOST || *text == '\0')
		Fail(CLI_USAGE, "\"%.40s\" is not a list of job numbers", text);
	for (char *word = strtok_r(copy, ",", &save); word != NULL;
		 word = strtok_r(NULL, ",", &save))
		(void) CliNumber(word, 1, INT64_MAX, "a job");
	free(copy);
	return list;
}

/* one line; result NULL: the headings */
static void
put_line(const FormatField *format, int n, const PGresult * result, int row,
		 const char *rest)
{
	for (int i = 0; i < n; i++)
	{
		fputs(format[i].before, stdout);
		put_text(&format[i], result == NULL ?
				 fields[format[i].which].heading :
				 PQgetvalue(result, row, i + 1));
	}
	puts(rest);
}

/* cut longer values, as squeue does */
static void
put_text(const FormatField *field, const char *text)
{
	if (field->width == 0)
		fputs(text, stdout);
	else if (field->right)
		printf("%*.*s", field->width, field->width, text);
	else
		printf("%-*.*s", field->width, field->width, text);
}
