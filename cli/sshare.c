/*-------------------------------------------------------------------------
 *
 * sshare.c
 *		sshare: lists shares and use of accounts as Slurm does.
 *
 * fair_share() shows accounts of all organisations, so only operators may call
 * it. Use is counted for each pool separately, so a line represents an account
 * in a pool.
 *-------------------------------------------------------------------------
 */
#include <getopt.h>
#include <stdlib.h>

#include "cli.h"
#include "fair_rows.h"
#include "field_list.h"

#define FIELDS	"Partition,Org,Account,User,RawShares,NormShares,RawUsage," \
	"EffectvUsage,FairShare"
#define FIELDS_LONG	"Partition,Org,Account,User,RawShares,NormShares,RawUsage," \
	"NormUsage,EffectvUsage,FairShare,Rank,GPUs"
#define USE	"usage: sshare [-a] [-A ACCOUNTS] [-u USERS] [--pool=POOLS]" \
	" [-l | -o FIELDS]\n              [-n] [-p | -P | --json]"

/* Each field, and its SQL for a row "s" of SLURM_FAIR_ROWS. */
static const NamedField fields[] = {
	{"Account", "s.account"},
	{"EffectvUsage", "round(s.used, 6)"},
	{"FairShare", "s.factor"},
	{"GPUs", "round(s.live, 3)"},
	{"NormShares", "round(s.share, 6)"},
	{"NormUsage", "coalesce(round(s.decayed / nullif(s.all_decayed, 0), 6), 0)"},
	{"Org", "s.org"},
	{"Partition", "s.pool"},
	{"Rank", "s.rank"},
	{"RawShares", "trim_scale(s.weight)"},
	{"RawUsage", "round(s.decayed * 3600)::bigint"},
	{"User", "regexp_replace(s.account, '^.*/', '')"},
	{NULL, NULL}
};

/*
 * Selects the pools. Pool "default" is added, as it has no row unless somebody
 * has set its policy.
 */
#define POOLS \
	"(SELECT a.pool FROM (SELECT n.pool FROM gpucredit.pool n" \
	"  UNION SELECT 'default') a WHERE $4::text IS NULL" \
	"  OR a.pool = ANY (string_to_array($4, ',')))"

/* Selects the rows that the options match. */
#define ROWS \
	" FROM" SLURM_FAIR_ROWS(POOLS) "s" \
	" WHERE ($1::text IS NULL OR $1 = '' OR s.org = $1)" \
	" AND ($2::text IS NULL OR $2 = '' OR EXISTS (SELECT" \
	"  FROM unnest(string_to_array($2, ',')) AS a (account)" \
	"  WHERE s.account = a.account" \
	"  OR starts_with(s.account, a.account || '/')))" \
	" AND ($3::text IS NULL OR regexp_replace(s.account, '^.*/', '')" \
	"  = ANY (string_to_array($3, ',')))" \
	" ORDER BY s.pool COLLATE \"C\", s.org COLLATE \"C\"," \
	"  s.account COLLATE \"C\""

/* The options of sshare. */
typedef struct Sshare
{
	const char *format;
	const char *org;			/* NULL for all */
	const char *accounts;
	const char *users;
	const char *pools;
	bool		heading;
	FieldListForm form;
} Sshare;

static void parse_options(Sshare *s, int argc, char **argv);

int
CliSshare(int argc, char **argv)
{
	Sshare		s = {.format = FIELDS, .heading = true, .org = cli_org,
		.accounts = cli_account};
	const char *values[4];
	PGresult   *result;

	parse_options(&s, argc, argv);
	values[0] = s.org;
	values[1] = s.accounts;
	values[2] = s.users;
	values[3] = s.pools;
	result = CliCall(Format("SELECT %s" ROWS,
							FieldListSelect(fields, s.format)), 4, values);
	FieldListPrint(result, s.form, s.heading);
	PQclear(result);
	return CLI_DONE;
}

/*
 * Parse the command line.
 */
static void
parse_options(Sshare *s, int argc, char **argv)
{
	static const char letters[] = ":A:aelmno:pPu:";
	static const struct option options[] = {
		{"accounts", required_argument, NULL, 'A'},
		{"all", no_argument, NULL, 'a'},
		{"format", required_argument, NULL, 'o'},
		{"help", no_argument, NULL, 'H'},
		{"helpformat", no_argument, NULL, 'e'},
		{"json", no_argument, NULL, 'J'},
		{"long", no_argument, NULL, 'l'},
		{"noheader", no_argument, NULL, 'n'},
		{"parsable", no_argument, NULL, 'p'},
		{"parsable2", no_argument, NULL, 'P'},
		{"partition", no_argument, NULL, 'm'},
		{"pool", required_argument, NULL, 'L'},
		{"users", required_argument, NULL, 'u'},
		{NULL, 0, NULL, 0}
	};
	int			option;

	while ((option = CliNextOption(USE, options, letters, argc, argv)) != -1)
	{
		switch (option)
		{
			case 'A':
				s->accounts = optarg;
				break;
			case 'J':
				s->form = FIELDS_JSON;
				break;
			case 'L':
				s->pools = optarg;
				break;
			case 'P':
				s->form = FIELDS_BARS;
				break;
			case 'a':
				s->org = s->accounts = NULL;
				break;
			case 'e':
				FieldListNames(fields);
				exit(CLI_DONE);
			case 'l':
				s->format = FIELDS_LONG;
				break;
			case 'm':
				break;			/* each line names its organisation already */
			case 'n':
				s->heading = false;
				break;
			case 'o':
				s->format = optarg;
				break;
			case 'p':
				s->form = FIELDS_BARS_END;
				break;
			case 'u':
				s->users = optarg;
				break;
		}
	}
}
