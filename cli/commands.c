/*-------------------------------------------------------------------------
 *
 * commands.c
 *		Commands that make one call and print its result as a table.
 *-------------------------------------------------------------------------
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "cli.h"

/* The columns of nodes that operators need. */
#define NODES \
	"SELECT n.pool, n.node, n.gpu_type, n.gpus," \
	" gpucredit.gpu_count(n.healthy) AS healthy, n.state," \
	" date_trunc('second', gpucredit.now() - n.heard_at)::text AS silent," \
	" coalesce(n.reason, '') AS reason FROM gpucredit.nodes n"

static void want_arguments(int argc, int least, int most, const char *use);
static char *job_array(int argc, char **argv);
static void show(const char *sql, int n, const char *const *values, bool json);
static void draw_top(const PGresult * map, const PGresult * queue, bool once);
static void print_top(const PGresult * map, const PGresult * queue);

static void
want_arguments(int argc, int least, int most, const char *use)
{
	if (argc - 1 < least || (most >= 0 && argc - 1 > most))
		Fail(CLI_USAGE, "usage: gpucredit %s", use);
}

/*
 * Returns the arguments as text of a bigint array, or NULL if there are none.
 */
static char *
job_array(int argc, char **argv)
{
	char	   *array;

	if (argc < 2)
		return NULL;
	array = Format("{%lld", (long long) CliNumber(argv[1], 1, INT64_MAX,
												  "a job"));
	for (int i = 2; i < argc; i++)
		array = Format("%s,%lld", array,
					   (long long) CliNumber(argv[i], 1, INT64_MAX,
											 "a job"));
	return Format("%s}", array);
}

static void
show(const char *sql, int n, const char *const *values, bool json)
{
	PGresult   *result = CliCall(sql, n, values);

	CliShow(result, json);
	PQclear(result);
}

/*
 * Lists an organisation's live jobs, or the named ones in any state.
 */
int
CliQueue(int argc, char **argv)
{
	bool		json = CliFlag(&argc, argv, "--json");
	const char *values[3] = {CliOrg(), cli_account, job_array(argc, argv)};

	show("SELECT j.job, j.account, j.state, j.request, j.tier,"
		 " date_trunc('second', coalesce(j.elapsed, '0'))::text AS ran,"
		 " coalesce(j.held, 0) AS held,"
		 " coalesce(j.used, 0) + coalesce(j.billed, 0) AS used,"
		 " to_char(j.submitted_at, 'YYYY-MM-DD HH24:MI:SS') AS submitted"
		 " FROM gpucredit.jobs j WHERE j.org = $1"
		 " AND ($2::text IS NULL OR j.account = $2"
		 "  OR starts_with(j.account, $2 || '/') OR $2 = '')"
		 " AND CASE WHEN $3::bigint[] IS NULL THEN j.ended_at IS NULL"
		 "  ELSE j.job = ANY ($3::bigint[]) END ORDER BY j.job", 3, values, json);
	return CLI_DONE;
}

int
CliExplain(int argc, char **argv)
{
	bool		json = CliFlag(&argc, argv, "--json");
	const char *values[2] = {CliOrg(), argc > 1 ? argv[1] : NULL};

	want_arguments(argc, 1, 1, "explain [--json] JOB");
	(void) CliNumber(argv[1], 1, INT64_MAX, "a job");
	show("SELECT check_name AS check, CASE passes WHEN true THEN 'yes'"
		 " WHEN false THEN 'no' ELSE '' END AS passes, detail"
		 " FROM gpucredit.explain($1, $2::bigint)", 2, values, json);
	return CLI_DONE;
}

int
CliBalance(int argc, char **argv)
{
	bool		json = CliFlag(&argc, argv, "--json");
	const char *values[2] = {CliOrg(), cli_account == NULL ? "" : cli_account};

	want_arguments(argc, 0, 0, "balance [--json]");
	show("SELECT available, spendable, held, used, spent,"
		 " coalesce(to_char(next_expiry_at, 'YYYY-MM-DD HH24:MI'), '') AS"
		 " next_expiry FROM gpucredit.balance($1, $2)", 2, values, json);
	return CLI_DONE;
}

int
CliNodes(int argc, char **argv)
{
	bool		json = CliFlag(&argc, argv, "--json");

	want_arguments(argc, 0, 0, "nodes [--json]");
	show(NODES " ORDER BY n.pool, n.node", 0, NULL, json);
	return CLI_DONE;
}

int
CliDrain(int argc, char **argv)
{
	bool		json = CliFlag(&argc, argv, "--json");
	const char *values[2] = {argc > 1 ? argv[1] : NULL,
	argc > 2 ? argv[2] : NULL};

	want_arguments(argc, 2, 2, "drain [--json] NODE REASON");
	PQclear(CliCall("SELECT gpucredit.drain($1, $2)", 2, values));
	if (json)
		show(NODES " WHERE n.node = $1", 1, values, true);
	return CLI_DONE;
}

int
CliResume(int argc, char **argv)
{
	bool		json = CliFlag(&argc, argv, "--json");
	const char *values[1] = {argc > 1 ? argv[1] : NULL};

	want_arguments(argc, 1, 1, "resume [--json] NODE");
	PQclear(CliCall("SELECT gpucredit.resume($1)", 1, values));
	if (json)
		show(NODES " WHERE n.node = $1", 1, values, true);
	return CLI_DONE;
}

/*
 * Calls verify(). Prints nothing if all is well, as the function returns no
 * row; with --json, an empty list.
 */
int
CliVerify(int argc, char **argv)
{
	bool		json = CliFlag(&argc, argv, "--json");
	PGresult   *result;
	int			found;

	want_arguments(argc, 0, 0, "verify [--json]");
	result = CliCall("SELECT * FROM gpucredit.verify()", 0, NULL);
	found = PQntuples(result);
	if (found > 0 || json)
		CliShow(result, json);
	PQclear(result);
	return found > 0 ? CLI_REFUSED : CLI_DONE;
}

/*
 * Shows the pool's map, waiting jobs and reasons, once a second; with -1 or
 * --json only once.
 */
int
CliTop(int argc, char **argv)
{
	struct winsize window = {.ws_col = 80};
	bool		json = CliFlag(&argc, argv, "--json");
	bool		once = json || !isatty(STDOUT_FILENO);
	int			option;

	while ((option = getopt(argc, argv, "1")) != -1)
	{
		if (option != '1')
			Fail(CLI_USAGE, "usage: gpucredit top [-1 | --json] [POOL]");
		once = true;
	}
	(void) ioctl(STDOUT_FILENO, TIOCGWINSZ, &window);
	for (;;)
	{
		char	   *width = Format("%d", window.ws_col < 40 ? 80 :
								   window.ws_col);
		const char *values[2] = {optind < argc ? argv[optind] : "default",
		width};
		PGresult   *map = CliCall("SELECT * FROM gpucredit.cluster_map("
								  "$1, width => $2::int)", 2, values);
		PGresult   *queue = CliCall(json ? "SELECT * FROM gpucredit.queue($1)" :
									"SELECT org, job, request, waits::text,"
									" reason, coalesce(to_char(expected_at,"
									" 'Mon DD HH24:MI'), '') AS expected"
									" FROM gpucredit.queue($1)", 1, values);

		if (json)
			print_top(map, queue);
		else
			draw_top(map, queue, once);
		PQclear(map);
		PQclear(queue);
		free(width);
		if (once)
			return CLI_DONE;
		sleep(1);
	}
}

/*
 * Prints the map, and the queue below it. Clears the screen before it repeats
 * that.
 */
static void
draw_top(const PGresult * map, const PGresult * queue, bool once)
{
	if (!once)
		fputs("\033[H\033[2J", stdout);
	CliTable(map, false);
	putchar('\n');
	if (PQntuples(queue) > 0)
		CliTable(queue, true);
	else
		puts("nothing waits");
	fflush(stdout);
}

/*
 * Prints map and queue as one document. The map is an array of its lines.
 */
static void
print_top(const PGresult * map, const PGresult * queue)
{
	json_t	   *document = json_object();
	json_t	   *lines = json_array();

	for (int row = 0; row < PQntuples(map); row++)
		json_array_append_new(lines, json_string(PQgetvalue(map, row, 0)));
	json_object_set_new(document, "map", lines);
	json_object_set_new(document, "queue", CliJsonRows(queue));
	CliPrintJson(document);
}
