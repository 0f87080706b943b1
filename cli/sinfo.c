/*-------------------------------------------------------------------------
 *
 * sinfo.c
 *		sinfo: lists pools and nodes as Slurm lists partitions and nodes.
 *
 * A line represents all nodes whose displayed fields are equal.
 *-------------------------------------------------------------------------
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "job_list.h"
#include "node_rows.h"
#include "slurm_format.h"

#define USE	"usage: sinfo [-N] [-l | -R | -s | -o FORMAT | --json] [-h]" \
	" [-n NODES]\n             [-p PARTITIONS] [-t STATES]"
#define FORMAT	"%9P %.5a %.10l %.6D %.6t %N"
#define FORMAT_NODES	"%12N %.6D %.9P %6t"
#define FORMAT_LONG	"%9P %.5a %.10l %.6D %.11T %N"
#define FORMAT_NODES_LONG	"%12N %.6D %.9P %.11T %4c %.8m %12G %20f %20E"
#define FORMAT_REASONS	"%20E %.6D %.6t %N"
#define FORMAT_SUMMARY	"%9P %.5a %.10l %.16F %N"

#define BUSY	"count(*) FILTER (WHERE w.long IN ('allocated', 'mixed'))"
#define IDLE	"count(*) FILTER (WHERE w.long = 'idle')"

/* The fields and their SQL, for nodes of SLURM_NODE_ROWS. */
static const SlurmField fields[] = {
	{'A', true, "NODES(A/I)", BUSY " || '/' || " IDLE},
	{'D', true, "NODES", "count(*)"},
	{'E', false, "REASON", "coalesce(s.reason, 'none')"},
	{'F', true, "NODES(A/I/O/T)", BUSY " || '/' || " IDLE " || '/' ||"
	" count(*) - " BUSY " - " IDLE " || '/' || count(*)"},
	{'G', false, "GRES", SLURM_GRES},
	{'N', true, "NODELIST", "string_agg(n.node, ',' ORDER BY n.node)"},
	{'P', false, "PARTITION", "n.pool || CASE n.pool WHEN 'default' THEN '*'"
	" ELSE '' END"},
	{'R', false, "PARTITION", "n.pool"},
	{'T', false, "STATE", "w.long || w.mark"},
	{'a', false, "AVAIL", "'up'::text"},
	{'c', false, "CPUS", "n.cpu_milli / 1000"},
	{'f', false, "AVAIL_FEATURES", SLURM_FEATURES},
	{'l', false, "TIMELIMIT", "'infinite'::text"},
	{'m', false, "MEMORY", "n.memory_mib"},
	{'n', true, "HOSTNAMES", "string_agg(n.node, ',' ORDER BY n.node)"},
	{'t', false, "STATE", "w.short || w.mark"},
	{'\0', false, NULL, NULL}
};

/* The options of sinfo. */
typedef struct Sinfo
{
	const char *format;			/* NULL if the following two fields select it */
	bool		long_form;
	bool		by_node;
	const char *nodes;
	const char *pools;
	const char *states;
	bool		with_reason;	/* only nodes that have a reason */
	bool		heading;
	bool		json;
} Sinfo;

static void parse_options(Sinfo *q, int argc, char **argv);
static char *group_by(const SlurmFormat *format, bool by_node);

/*
 * Runs sinfo with one call. As in Slurm, "drain" matches both draining and
 * drained nodes.
 */
int
CliSinfo(int argc, char **argv)
{
	Sinfo		q = {.heading = true};
	SlurmFormat format;
	const char *values[4];
	PGresult   *result;
	char	   *sql;

	parse_options(&q, argc, argv);
	if (q.format == NULL)
		q.format = q.by_node ? q.long_form ? FORMAT_NODES_LONG : FORMAT_NODES :
			q.long_form ? FORMAT_LONG : FORMAT;
	SlurmFormatParse(fields, q.format, &format);
	sql = Format("SELECT %s FROM" SLURM_NODE_ROWS
				 " WHERE ($1::text IS NULL"
				 "  OR n.node = ANY (string_to_array($1, ',')))"
				 " AND ($2::text IS NULL"
				 "  OR n.pool = ANY (string_to_array($2, ',')))"
				 " AND ($3::text IS NULL OR ARRAY[w.long, w.short,"
				 "   CASE WHEN w.long = 'draining' THEN 'drain' END] &&"
				 "  string_to_array(lower($3), ','))"
				 " AND (NOT $4::boolean OR s.reason IS NOT NULL)"
				 "%s HAVING count(*) > 0"
				 " ORDER BY min(n.pool), min(w.long), min(n.node)",
				 SlurmFormatSelect(&format),
				 group_by(&format, q.by_node));
	values[0] = q.nodes;
	values[1] = q.pools;
	values[2] = q.states;
	values[3] = q.with_reason ? "t" : "f";
	result = CliCall(sql, 4, values);
	if (q.json)
		CliPrintJson(CliJsonRows(result));
	else
		SlurmFormatPrint(&format, result, 0, q.heading);
	PQclear(result);
	return CLI_DONE;
}

/*
 * Returns the GROUP BY clause, which groups nodes whose fields are equal.
 */
static char *
group_by(const SlurmFormat *format, bool by_node)
{
	char	   *sql = Format("%s", by_node ? " GROUP BY n.node" : "");

	for (int i = 0; i < format->n; i++)
	{
		if (!format->columns[i].field->counts)
			sql = Format("%s%s%d", sql, *sql == '\0' ? " GROUP BY " : ", ",
						 i + 1);
	}
	return sql;
}

/*
 * Parse the command line.
 */
static void
parse_options(Sinfo *q, int argc, char **argv)
{
	static const char letters[] = ":NRahln:o:p:st:";
	static const struct option options[] = {
		{"Node", no_argument, NULL, 'N'},
		{"all", no_argument, NULL, 'a'},
		{"format", required_argument, NULL, 'o'},
		{"help", no_argument, NULL, 'H'},
		{"json", no_argument, NULL, 'J'},
		{"list-reasons", no_argument, NULL, 'R'},
		{"long", no_argument, NULL, 'l'},
		{"nodes", required_argument, NULL, 'n'},
		{"noheader", no_argument, NULL, 'h'},
		{"partition", required_argument, NULL, 'p'},
		{"states", required_argument, NULL, 't'},
		{"summarize", no_argument, NULL, 's'},
		{NULL, 0, NULL, 0}
	};
	int			option;

	while ((option = CliNextOption(USE, options, letters, argc, argv)) != -1)
	{
		switch (option)
		{
			case 'J':
				q->json = true;
				break;
			case 'N':
				q->by_node = true;
				break;
			case 'R':
				q->with_reason = true;
				q->format = FORMAT_REASONS;
				break;
			case 'a':
				break;			/* no pool is hidden, so this option has no
								 * effect */
			case 'h':
				q->heading = false;
				break;
			case 'l':
				q->long_form = true;
				break;
			case 'n':
				q->nodes = NodeListCheck(optarg);
				break;
			case 'o':
				q->format = optarg;
				break;
			case 'p':
				q->pools = optarg;
				break;
			case 's':
				q->format = FORMAT_SUMMARY;
				break;
			case 't':
				q->states = NodeStateListCheck(optarg);
				break;
		}
	}
}
