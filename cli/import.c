/*-------------------------------------------------------------------------
 *
 * import.c
 *		gpucredit import slurm: accounts, users, shares and limits from a
 *		file that "sacctmgr dump" has written.
 *
 * Slurm's tree below root becomes the accounts of one organisation: an account
 * is a path of its parents, a user is a part below his account.  A fair share is
 * a weight, and limits of a group are quotas.  A user without a limit of his own
 * has that of his account, as in Slurm.
 *
 * What has no equal here is not left out in silence: each such field is a row
 * of the answer, with what to do about it.  Without --apply nothing is written.
 * The same file again changes nothing.
 *
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"

#define USE_PARENT	2147483647	/* Fairshare=parent */
#define FIELDS		64			/* most fields of a line */

/* A line of the file that is an account or a user. */
typedef struct Association
{
	int			line;
	const char *path;			/* the account here, empty for the
								 * organisation itself */
	const char *name;			/* the name in Slurm */
	bool		is_user;
	bool		ignored;		/* it becomes no account: the user root, or a
								 * user's second line */
	double		weight;
	int64_t		max_running;	/* limits of the group, or of the user
								 * himself; -1 for none */
	int64_t		max_queued;
	int64_t		user_running;	/* limits of each user below an account; -1
								 * for none */
	int64_t		user_queued;
	struct Association *next;
} Association;

/* The state of reading the file. */
typedef struct Dump
{
	const char *path;			/* path of the file */
	int			line;			/* number of the line that is read */
	Association *all;			/* the newest first */
	Association *parent;		/* parent of the lines that follow, or NULL
								 * before the first */
	json_t	   *accounts;		/* the accounts, quotas and notes that the
								 * file asks for, as rows of the query */
	json_t	   *quotas;
	json_t	   *notes;
} Dump;

/* Fields that need somebody's decision, and advice on it. */
static const struct
{
	const char *field;
	const char *advice;
}			decisions[] = {
	{"GrpTRESMins", "credit limits use over time: issue() or set_budget() so many credits"},
	{"GrpTRESRunMins", "credit limits use over time: set_budget()"},
	{"GrpWall", "credit limits use over time: set_budget()"},
	{"GrpJobsAccrue", "jobs grow older without such a limit"},
	{"MaxJobsAccrue", "jobs grow older without such a limit"},
	{"MaxTRESMinsPerJob", "a policy of credit limits a job: issue(policy => '{\"max_per_job\": ...}')"},
	{"MaxTRESRunMins", "credit limits use over time: set_budget()"},
	{"MaxTRESPerJob", "a quota (set_quota) limits all jobs of an account together"},
	{"MaxTRESPerNode", "nothing limits what a job takes of a node"},
	{"MaxWallDurationPerJob", "a tier limits wall time: set_tier(max_wall)"},
	{"Priority", "tiers order jobs: set_tier(), grant_tier()"},
	{"MinPrioThresh", "jobs that wait for devices reserve them by their tier"},
	{"QOS", "tiers are here what QOS are there: set_tier(), grant_tier()"},
	{"DefaultQOS", "a submission names its tier; standard_training is the default"},
	{"AdminLevel", "grant a role: gpucredit_admin or gpucredit_operator"},
	{"Coordinator", "bind a login to the account: bind_tenant()"},
	{"Partition", "quotas and weights are the same in all pools"},
};

/* Fields that limit nothing and grant nothing, and are left out. */
static const char *const silent[] = {
	"DefaultAccount", "DefaultWCKey", "WCKeys", "Description",
	"Organization", "Classification", "ParentName"
};

static void read_file(Dump *dump);
static void read_line(Dump *dump, char *line);
static int	split(Dump *dump, char *at, char **fields);
static char *unquote(const char *text);
static void add_association(Dump *dump, const char *name, bool is_user,
							char **fields, int n);
static int64_t least(int64_t a, int64_t b);
static void read_field(Dump *dump, Association *a, char *field);
static void read_share(Dump *dump, Association *a, const char *value);
static void read_tres(Dump *dump, Association *a, char *value);
static int64_t number(Dump *dump, const char *field, const char *value);
static int64_t memory_mib(Dump *dump, const char *value);
static Association *find(Dump *dump, const char *name);
static void add_row(const Dump *dump, json_t * rows, json_t * row);
static void add_limit(Dump *dump, const Association *a, const char *gpu_type,
					  const char *limit, int64_t value);
static void add_note(Dump *dump, const Association *a, const char *what,
					 const char *advice);
static void refuse(const Dump *dump, const char *format,...)
			__attribute__((format(printf, 2, 3), noreturn));
static int	answer(Dump *dump, bool apply, bool json);

/*
 * Compares the accounts and quotas that the file asks for with those of the
 * organisation, and returns the differences.  A limit of a quota that the file
 * does not name keeps its value.
 */
#define WANTED \
	"WITH wa AS MATERIALIZED (SELECT w.line, w.account, w.weight," \
	"  a.weight AS has, a.account IS NULL AS is_new" \
	"  FROM jsonb_to_recordset($2::jsonb) AS w (line int, account text," \
	"   weight numeric)" \
	"  LEFT JOIN gpucredit.accounts a ON a.org = $1" \
	"   AND a.account = w.account)," \
	" wq AS MATERIALIZED (SELECT min(w.line) AS line, w.account," \
	"  coalesce((SELECT min(p.gpu_type) FROM gpucredit.price p" \
	"   WHERE lower(p.gpu_type) = lower(w.gpu_type)), w.gpu_type) AS gpu_type," \
	"  max(w.max_gpus) AS max_gpus, max(w.max_running) AS max_running," \
	"  max(w.max_queued) AS max_queued, max(w.max_cpu_milli) AS max_cpu_milli," \
	"  max(w.max_memory_mib) AS max_memory_mib" \
	"  FROM jsonb_to_recordset($3::jsonb) AS w (line int, account text," \
	"   gpu_type text, max_gpus int, max_running int, max_queued int," \
	"   max_cpu_milli bigint, max_memory_mib bigint)" \
	"  GROUP BY w.account, 3)," \
	" cq AS MATERIALIZED (SELECT w.line, w.account, w.gpu_type," \
	"  coalesce(w.max_gpus, q.max_gpus) AS max_gpus," \
	"  coalesce(w.max_running, q.max_running) AS max_running," \
	"  coalesce(w.max_queued, q.max_queued) AS max_queued," \
	"  coalesce(w.max_cpu_milli, q.max_cpu_milli) AS max_cpu_milli," \
	"  coalesce(w.max_memory_mib, q.max_memory_mib) AS max_memory_mib," \
	"  q.max_nonpreemptible_gpus," \
	"  concat_ws(' ', 'gpus ' || q.max_gpus, 'running ' || q.max_running," \
	"   'queued ' || q.max_queued, 'cpu_milli ' || q.max_cpu_milli," \
	"   'memory_mib ' || q.max_memory_mib) AS has" \
	"  FROM wq w LEFT JOIN gpucredit.quota q ON q.org = $1" \
	"   AND q.account = w.account AND q.gpu_type = w.gpu_type)," \
	" dq AS MATERIALIZED (SELECT c.*, concat_ws(' ', 'gpus ' || c.max_gpus," \
	"   'running ' || c.max_running, 'queued ' || c.max_queued," \
	"   'cpu_milli ' || c.max_cpu_milli, 'memory_mib ' || c.max_memory_mib)" \
	"  AS wants FROM cq c)"
#define DIFFERENCES \
	" SELECT r.line, r.action, r.account, r.was, r.becomes FROM (" \
	"  SELECT 1 AS part, line, CASE WHEN is_new THEN 'create account'" \
	"   ELSE 'set weight' END AS action, account," \
	"   coalesce(has::text, '') AS was, weight::text AS becomes" \
	"  FROM wa WHERE is_new OR has <> weight AND account <> ''" \
	"  UNION ALL SELECT 2, line, 'set quota', account, concat_ws(' '," \
	"   nullif(gpu_type, ''), has), concat_ws(' ', nullif(gpu_type, '')," \
	"   wants) FROM dq WHERE wants <> has" \
	"  UNION ALL SELECT 3, n.line, 'decide', n.account, n.what, n.advice" \
	"  FROM jsonb_to_recordset($4::jsonb) AS n (line int, account text," \
	"   what text, advice text)) r ORDER BY r.part, r.line, r.was"

int
CliImport(int argc, char **argv)
{
	static const struct option options[] = {
		{"apply", no_argument, NULL, 'a'},
		{"json", no_argument, NULL, 'j'},
		{NULL, 0, NULL, 0}
	};
	Dump		dump = {.accounts = json_array(), .quotas = json_array(),
		.notes = json_array()};
	bool		apply = false;
	bool		json = false;
	int			option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
	{
		if (option == '?')
			optind = argc + 1;
		apply |= option == 'a';
		json |= option == 'j';
	}
	if (optind != argc - 2 || strcmp(argv[optind], "slurm") != 0)
		Fail(CLI_USAGE, "usage: gpucredit import [--apply] [--json] slurm FILE\n"
			 "FILE is what \"sacctmgr dump CLUSTER file=FILE\" has written");
	dump.path = argv[optind + 1];
	read_file(&dump);
	return answer(&dump, apply, json);
}

/*
 * Reads the dump line by line.  Ends the program at the first line that is not
 * in the form of sacctmgr.
 */
static void
read_file(Dump *dump)
{
	FILE	   *file = fopen(dump->path, "r");
	char	   *line = NULL;
	size_t		size = 0;
	ssize_t		n;

	if (file == NULL)
		Fail(CLI_USAGE, "could not read %s: %s", dump->path, strerror(errno));
	while ((n = getline(&line, &size, file)) >= 0)
	{
		dump->line++;
		if (memchr(line, '\0', n) != NULL)
			refuse(dump, "there is a zero byte");
		line[strcspn(line, "\r\n")] = '\0';
		if (line[strspn(line, " \t")] != '\0' && *line != '#')
			read_line(dump, line);
	}
	free(line);
	fclose(file);
	if (dump->all == NULL)
		Fail(CLI_USAGE, "%s has no account: it is not what sacctmgr dump"
			 " writes", dump->path);
}

/*
 * Parses a line KIND - 'name':Field=value:Field='value'.
 */
static void
read_line(Dump *dump, char *line)
{
	char	   *fields[FIELDS];
	int			n;
	char	   *at = strstr(line, " - ");
	char	   *name;

	if (at == NULL)
		refuse(dump, "it is no \"KIND - 'NAME'\"");
	*at = '\0';
	n = split(dump, at + 3, fields);
	name = unquote(fields[0]);
	if (*name == '\0')
		refuse(dump, "it has no name");
	if (strcmp(line, "Cluster") == 0)
	{
		if (dump->all != NULL)
			refuse(dump, "there are two clusters: import one at a time");
		add_association(dump, "root", false, fields + 1, n - 1);
		dump->parent = dump->all;
	}
	else if (strcmp(line, "Parent") == 0)
	{
		dump->parent = find(dump, name);
		if (dump->parent == NULL)
			refuse(dump, "the file has no account \"%s\" above it", name);
	}
	else if (strcmp(line, "Account") == 0 || strcmp(line, "User") == 0)
		add_association(dump, name, *line == 'U', fields + 1, n - 1);
	else
		refuse(dump, "\"%s\" is neither Cluster, Parent, Account nor User",
			   line);
}

/*
 * Splits a text at the colons outside of quotes, and returns the number of
 * parts.  A colon before a small letter separates nothing, as in
 * "GrpTRES=cpu=8,gres/gpu:a100=4".
 */
static int
split(Dump *dump, char *at, char **fields)
{
	bool		quoted = false;
	int			n = 0;

	fields[n++] = at;
	for (; *at != '\0'; at++)
	{
		quoted ^= *at == '\'';
		if (*at != ':' || quoted || (n > 1 && islower((unsigned char) at[1])))
			continue;
		if (n == FIELDS)
			refuse(dump, "it has more than %d fields", FIELDS);
		*at = '\0';
		fields[n++] = at + 1;
	}
	if (quoted)
		refuse(dump, "a quote has no end");
	return n;
}

/* Returns a text without the quotes around it, if there are any, allocated. */
static char *
unquote(const char *text)
{
	size_t		n = strlen(text);

	return n >= 2 && *text == '\'' && text[n - 1] == '\'' ?
		Format("%.*s", (int) n - 2, text + 1) : Format("%s", text);
}

/*
 * Adds an account, or a user, below the account that the last line "Parent"
 * names.  Slurm has a line for each partition of a user, of which the first
 * counts here.  The user root is Slurm's administrator, and no account.
 */
static void
add_association(Dump *dump, const char *name, bool is_user, char **fields,
				int n)
{
	Association *a = Alloc(sizeof(Association));
	bool		root = dump->all == NULL;
	bool		again = false;

	if (root && strcmp(name, "root") != 0)
		refuse(dump, "there is no line of a cluster before it");
	if (strchr(name, '/') != NULL)
		refuse(dump, "the name \"%s\" has a slash, which separates accounts"
			   " here: rename it", name);
	if (!is_user && !root && find(dump, name) != NULL)
		refuse(dump, "there are two accounts \"%s\"", name);
	a->line = dump->line;
	a->name = Format("%s", name);
	a->is_user = is_user;
	a->path = root ? "" : *dump->parent->path == '\0' ? a->name :
		Format("%s/%s", dump->parent->path, name);
	a->ignored = is_user && strcmp(name, "root") == 0;
	for (const Association *other = dump->all; other != NULL && is_user;
		 other = other->next)
		again |= strcmp(other->path, a->path) == 0;
	a->ignored |= again;
	a->weight = 1;
	a->max_running = a->max_queued = a->user_running = a->user_queued = -1;
	if (!root)
	{
		a->user_running = dump->parent->user_running;
		a->user_queued = dump->parent->user_queued;
	}
	for (int i = 0; i < n; i++)
		read_field(dump, a, fields[i]);
	if (again)
		add_note(dump, a, "a second line of the user",
				 "the first one counts");
	if (a->ignored)
		return;
	a->next = dump->all;
	dump->all = a;
	add_row(dump, dump->accounts,
			json_pack("{s:i, s:s, s:s}", "line", a->line, "account", a->path,
					  "weight", Format("%.15g", a->weight)));
	if (is_user)
	{
		add_limit(dump, a, "", "max_running", least(a->max_running,
													a->user_running));
		add_limit(dump, a, "", "max_queued", least(a->max_queued,
												   a->user_queued));
	}
	else
	{
		add_limit(dump, a, "", "max_running", a->max_running);
		add_limit(dump, a, "", "max_queued", a->max_queued);
	}
}

/* Returns the smaller of two limits; a limit below 0 is none. */
static int64_t
least(int64_t a, int64_t b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

/*
 * Reads one FIELD=VALUE of an association.
 */
static void
read_field(Dump *dump, Association *a, char *field)
{
	char	   *value = strchr(field, '=');

	if (value == NULL)
		refuse(dump, "\"%s\" is no \"FIELD=VALUE\"", field);
	*value++ = '\0';
	value = unquote(value);
	for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++)
	{
		if (strcasecmp(field, silent[i]) == 0)
			return;
	}
	if (strcasecmp(field, "AdminLevel") == 0 && strcasecmp(value, "None") == 0)
		return;
	if (strcasecmp(field, "Fairshare") == 0 ||
		strcasecmp(field, "Shares") == 0)
		read_share(dump, a, value);
	else if (strcasecmp(field, "GrpTRES") == 0)
		read_tres(dump, a, value);
	else if (strcasecmp(field, "GrpJobs") == 0)
		a->max_running = number(dump, field, value);
	else if (strcasecmp(field, "GrpSubmitJobs") == 0)
		a->max_queued = number(dump, field, value);
	else if (strcasecmp(field, "MaxJobs") == 0)
		a->user_running = number(dump, field, value);
	else if (strcasecmp(field, "MaxSubmitJobs") == 0)
		a->user_queued = number(dump, field, value);
	else
	{
		const char *advice = "this command does not know the field";

		for (size_t i = 0; i < sizeof(decisions) / sizeof(decisions[0]); i++)
		{
			if (strcasecmp(field, decisions[i].field) == 0)
				advice = decisions[i].advice;
		}
		add_note(dump, a, Format("%s=%s", field, value), advice);
	}
}

/*
 * Reads a fair share.  A weight here is above 0, and a user has one of his own.
 */
static void
read_share(Dump *dump, Association *a, const char *value)
{
	int64_t		share = strcasecmp(value, "parent") == 0 ? USE_PARENT :
		number(dump, "Fairshare", value);

	if (share == USE_PARENT)
		add_note(dump, a, "Fairshare=parent",
				 "each user has a share of his own: the weight is 1");
	else if (share == 0)
	{
		a->weight = 0.001;
		add_note(dump, a, "Fairshare=0", "a weight is above 0: it is 0.001");
	}
	else
		a->weight = share;
}

/*
 * Reads the value of GrpTRES, such as
 * "cpu=8,mem=100G,gres/gpu=4,gres/gpu:a100=2".
 */
static void
read_tres(Dump *dump, Association *a, char *value)
{
	char	   *save = NULL;

	for (char *word = strtok_r(value, ",", &save); word != NULL;
		 word = strtok_r(NULL, ",", &save))
	{
		char	   *count = strchr(word, '=');

		if (count == NULL)
			refuse(dump, "\"%s\" in GrpTRES is no \"NAME=COUNT\"", word);
		*count++ = '\0';
		if (strcmp(word, "cpu") == 0)
			add_limit(dump, a, "", "max_cpu_milli",
					  1000 * number(dump, "cpu", count));
		else if (strcmp(word, "mem") == 0)
			add_limit(dump, a, "", "max_memory_mib", memory_mib(dump, count));
		else if (strcmp(word, "gres/gpu") == 0)
			add_limit(dump, a, "", "max_gpus", number(dump, word, count));
		else if (strncmp(word, "gres/gpu:", 9) == 0 && word[9] != '\0')
			add_limit(dump, a, word + 9, "max_gpus",
					  number(dump, word, count));
		else
			add_note(dump, a, Format("GrpTRES=%s=%s", word, count),
					 "quotas are of GPUs, cpu, memory and jobs");
	}
}

static int64_t
number(Dump *dump, const char *field, const char *value)
{
	char	   *end;
	long long	n = strtoll(value, &end, 10);

	if (end == value || *end != '\0' || n < 0 || n > INT32_MAX)
		refuse(dump, "%s=%s is no number from 0 to %d", field, value,
			   INT32_MAX);
	return n;
}

/*
 * Returns a size in MiB, which Slurm writes in MiB or with a unit.
 */
static int64_t
memory_mib(Dump *dump, const char *value)
{
	char	   *end;
	double		n = strtod(value, &end);
	static const char units[] = "MGTP";
	const char *unit = *end == '\0' ? units :
		strchr(units, toupper((unsigned char) *end));

	if (end == value || unit == NULL || (*end != '\0' && end[1] != '\0') ||
		!(n >= 0 && n < 1e9))
		refuse(dump, "mem=%s is no size", value);
	for (; unit > units; unit--)
		n *= 1024;
	return (int64_t) (n + 0.5);
}

/*
 * Returns the account of that name, or NULL if no line before has it.
 */
static Association *
find(Dump *dump, const char *name)
{
	for (Association *a = dump->all; a != NULL; a = a->next)
	{
		if (!a->is_user && strcmp(a->name, name) == 0)
			return a;
	}
	return NULL;
}

/*
 * Adds a row for the query.  Text that is not UTF-8 makes no row, and must not
 * be left out in silence.
 */
static void
add_row(const Dump *dump, json_t * rows, json_t * row)
{
	if (row == NULL || json_array_append_new(rows, row) != 0)
		refuse(dump, "it is not UTF-8");
}

/*
 * Adds a limit of a quota.  There is none if the value is below 0.
 */
static void
add_limit(Dump *dump, const Association *a, const char *gpu_type,
		  const char *limit, int64_t value)
{
	if (value >= 0 && !a->ignored)
		add_row(dump, dump->quotas,
				json_pack("{s:i, s:s, s:s, s:I}", "line", a->line, "account",
						  a->path, "gpu_type", gpu_type, limit,
						  (json_int_t) value));
}

static void
add_note(Dump *dump, const Association *a, const char *what,
		 const char *advice)
{
	add_row(dump, dump->notes,
			json_pack("{s:i, s:s, s:s, s:s}", "line", a->line, "account",
					  a->path, "what", what, "advice", advice));
}

static void
refuse(const Dump *dump, const char *format,...)
{
	va_list		args;
	char	   *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		Fail(CLI_REFUSED, "out of memory");
	va_end(args);
	Fail(CLI_USAGE, "%s, line %d: %s", dump->path, dump->line, text);
}

/*
 * Prints the differences, or applies and prints them.  All of them are applied
 * in one statement, so it happens as a whole or not at all.
 */
static int
answer(Dump *dump, bool apply, bool json)
{
	const char *values[4] = {
		CliOrg(), json_dumps(dump->accounts, JSON_COMPACT),
		json_dumps(dump->quotas, JSON_COMPACT),
		json_dumps(dump->notes, JSON_COMPACT)
	};

	if (!apply)
	{
		CliShow(CliCall(WANTED DIFFERENCES, 4, values), json);
		fprintf(stderr, "gpucredit: nothing is written; with --apply it is\n");
		return CLI_DONE;
	}
	CliShow(CliCall(WANTED ","
					" made AS MATERIALIZED (SELECT count(*) AS n FROM"
					"  (SELECT * FROM wa WHERE is_new OR has <> weight"
					"   AND account <> '' ORDER BY line OFFSET 0) w"
					"  CROSS JOIN LATERAL gpucredit.create_account($1, w.account,"
					"   w.weight)),"
					" limited AS MATERIALIZED (SELECT count(*) AS n FROM"
					"  (SELECT dq.* FROM dq CROSS JOIN made WHERE wants <> has"
					"   AND made.n >= 0 ORDER BY line OFFSET 0) q"
					"  CROSS JOIN LATERAL gpucredit.set_quota($1, q.account,"
					"   nullif(q.gpu_type, ''), q.max_gpus, q.max_running,"
					"   q.max_queued, q.max_cpu_milli, q.max_memory_mib,"
					"   q.max_nonpreemptible_gpus)),"
					" answer AS (" DIFFERENCES ")"
					" SELECT a.* FROM answer a CROSS JOIN limited"
					" WHERE limited.n >= 0", 4, values), json);
	return CLI_DONE;
}
