/*-------------------------------------------------------------------------
 *
 * exclusive.c
 *		Option --exclusive of sbatch: a job gets whole nodes.
 *
 * What a job keeps from others it pays for, so it asks for all GPUs, cpus and
 * memory of its nodes, and the placement allows no larger ones. Which nodes
 * these are depends on the pool: of the sizes that have what the other options
 * ask for, and by which the pool could run the job, it gets the one by which it
 * has fewest GPUs, then fewest cpus and least memory.
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"
#include "submission.h"

#define TRY_SECONDS	60
#define MILLI		1000		/* a core, in thousandths */

static PGresult * read_sizes(const StoredSubmission *s);
static bool of_type(const StoredSubmission *s, const char *type);
static bool suits(const StoredSubmission *s, const JobCounts *counts,
				  WholeNode *size);
static int	compare_sizes(const void *a, const void *b);

/*
 * Handles the option. Its values are about sharing nodes with other jobs of
 * the same user, or of the same label.
 */
void
ExclusiveSet(StoredSubmission *s, const char *value, const char *where)
{
	if (value != NULL)
		Fail(CLI_USAGE, "%s: --exclusive=%s is not supported, as nodes are"
			 " whole or shared with all; use --exclusive alone", where, value);
	free(s->exclusive_place);
	s->exclusive_place = Format("%s", where);
}

/*
 * Determines which nodes the job gets. Its counts are then those of these
 * nodes (counts.c). could_run asks the database whether the pool could run the
 * job with them; it is needed if there are several sizes.
 */
void
ExclusiveApply(StoredSubmission *s, bool (*could_run) (const StoredSubmission *))
{
	JobCounts	counts = SubmissionCounts(s);
	PGresult   *rows;
	WholeNode  *sizes;
	int			n = 0;
	int			at = 0;

	if (s->request != NULL)
		Fail(CLI_USAGE, "%s: --exclusive and --request exclude each other;"
			 " use --gpus-per-node", s->exclusive_place);
	if (counts.gpus == 0)
		Fail(CLI_USAGE, "%s: --exclusive is for jobs with GPUs; use --gpus or"
			 " --gres=gpu:N, or name cpus and memory without --exclusive",
			 s->exclusive_place);
	rows = read_sizes(s);
	sizes = Alloc(sizeof(WholeNode) * (PQntuples(rows) + 1));
	for (int i = 0; i < PQntuples(rows); i++)
	{
		sizes[n] = (WholeNode)
		{
			.gpus = strtoll(PQgetvalue(rows, i, 1), NULL, 10),
				.cpus = strtoll(PQgetvalue(rows, i, 2), NULL, 10) / MILLI,
				.memory_mib = strtoll(PQgetvalue(rows, i, 3), NULL, 10)
		};
		if (of_type(s, PQgetvalue(rows, i, 0)) &&
			suits(s, &counts, &sizes[n]))
			n++;
	}
	PQclear(rows);
	if (n == 0)
		Fail(CLI_REFUSED, "%s: --exclusive: no node of pool \"%s\" has the"
			 " GPUs, cpus and memory that the job asks for on each node; ask"
			 " for fewer, or for more nodes", s->exclusive_place,
			 s->pool != NULL ? s->pool : "default");
	qsort(sizes, n, sizeof(WholeNode), compare_sizes);
	do
		s->whole = sizes[at];
	while (n > 1 && !could_run(s) && ++at < n);
	/* The database says why the pool could not run it. */
	if (at == n)
		s->whole = sizes[0];
	free(sizes);
}

/*
 * Returns the sizes of the pool's nodes that have GPUs. A job asks for whole
 * cpus, so it cannot use up a node with a part of one.
 */
static PGresult *
read_sizes(const StoredSubmission *s)
{
	const char *values[] = {s->pool != NULL ? s->pool : "default"};
	PGresult   *sizes = CliRepeat("SELECT n.gpu_type, n.gpus, n.cpu_milli,"
								  " n.memory_mib"
								  " FROM gpucredit.node_sizes($1) n"
								  " WHERE n.gpus > 0 AND n.cpu_milli % 1000 = 0",
								  1, values, TRY_SECONDS);

	if (PQresultStatus(sizes) != PGRES_TUPLES_OK)
		CliRefused(sizes);
	return sizes;
}

/*
 * Whether the job accepts this type of GPUs. Its types are written as
 * "A100@40GB|H100"; whether the memory suffices is checked when the job is
 * submitted.
 */
static bool
of_type(const StoredSubmission *s, const char *type)
{
	const char *at = s->gpu_type;
	size_t		length;

	if (at == NULL || strcmp(at, "*") == 0)
		return true;
	for (; *at != '\0'; at += length + (at[length] != '\0'))
	{
		size_t		name = strcspn(at, "@|");

		length = strcspn(at, "|");
		if (name == strlen(type) && strncasecmp(at, type, name) == 0)
			return true;
	}
	return false;
}

/*
 * Determines how many nodes of a size the job gets. Returns false if these do
 * not have what it asks for.
 */
static bool
suits(const StoredSubmission *s, const JobCounts *counts, WholeNode *size)
{
	bool		counted = counts->counts_nodes || s->nodes > 0;

	size->nodes = counted ? counts->nodes :
		(counts->gpus + size->gpus - 1) / size->gpus;
	return size->gpus * size->nodes >= counts->gpus &&
		(!counts->counts_cpus || size->cpus == 0 ||
		 size->cpus * size->nodes >= counts->cpus) &&
		(size->memory_mib == 0 ||
		 size->memory_mib * size->nodes >= counts->memory_mib);
}

/* Sorts sizes by what a job with such nodes has in all. */
static int
compare_sizes(const void *a, const void *b)
{
	const WholeNode *x = a;
	const WholeNode *y = b;
	int64_t		more[] = {
		x->nodes * x->gpus - y->nodes * y->gpus,
		x->nodes * x->cpus - y->nodes * y->cpus,
		x->nodes * x->memory_mib - y->nodes * y->memory_mib
	};

	for (int i = 0; i < 3; i++)
	{
		if (more[i] != 0)
			return more[i] < 0 ? -1 : 1;
	}
	return 0;
}
