/*-------------------------------------------------------------------------
 *
 * log_part.c
 *		Reads a job's output on one node, and prints it.
 *
 * The command requests the output from the node piece by piece (log_wish),
 * and requests a few pieces ahead while there are more.  The database may have
 * the answer to an earlier request for the same piece.  Therefore an answer
 * counts as new only if there was none when the piece was requested.  If the
 * database keeps the output of a job that is over, it answers itself.
 *
 * No step waits, so that one process can read the parts of many jobs in turn.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "job_list.h"
#include "log_part.h"

#define PIECE		65536
#define AHEAD		4			/* pieces requested at once */
#define ASK_AGAIN	5.0			/* seconds after which a piece is requested
								 * again */
#define AWAY		15.0		/* seconds without an answer after which the
								 * node counts as away */
#define LOOK_AGAIN	0.5			/* seconds between checks of a job that has
								 * not started */
#define PATIENCE	60			/* seconds without a database after which the
								 * command fails */

int			log_status = CLI_DONE;

static bool step(LogPart *part, LogStream *s);
static void add_nodes(LogPart *part);
static void name_part(LogPart *part);
static bool print_piece(const LogPart *part, LogStream *s, PGresult * row,
						bool fresh);
static void print_file(const LogPart *part, LogStream *s, const char *path);
static void not_yet(LogPart *part, LogStream *s, const char *state);
static void stream_over(LogStream *s);
static bool job_ended(const LogPart *part, long *newest);
static void next_attempt(LogPart *part);
static PGresult * ask(const LogPart *part, const LogStream *s, bool wish);
static PGresult * call(const char *sql, int n, const char *const *values);
static double now(void);

/*
 * Prepares to read an attempt from its beginning, or from where the command
 * line says.
 */
void
LogPartBegin(LogPart *part)
{
	for (int i = 0; i < 2; i++)
	{
		LogStream  *s = &part->streams[i];

		s->over = !s->wanted;
		s->at = part->tail >= 0 ? -1 : part->from;
		s->written = s->dropped = 0;
		s->until = -1;
		s->asked = s->since = 0;
	}
}

/*
 * Continues with both streams.  Returns whether anything has come.  Once both
 * are over, it continues with the next attempt of a job that is followed.
 */
bool
LogPartStep(LogPart *part)
{
	bool		any = false;

	if (now() < part->due)
		return false;
	for (int i = 0; i < 2 && !part->over; i++)
		any |= !part->streams[i].over && step(part, &part->streams[i]);
	if (!part->over && part->streams[0].over && part->streams[1].over)
	{
		if (part->follow && part->any_attempt)
			next_attempt(part);
		else
			part->over = true;
	}
	return any;
}

/*
 * Requests a stream's next piece, or reads the answer.  Returns whether there
 * is one.
 */
static bool
step(LogPart *part, LogStream *s)
{
	bool		wish = s->asked == 0 || now() - s->asked > ASK_AGAIN;
	PGresult   *row = ask(part, s, wish);
	const char *state = PQgetvalue(row, 0, 0);
	bool		came = strcmp(state, "answered") == 0;

	if (part->attempt == NULL && !PQgetisnull(row, 0, 1))
	{
		part->attempt = Format("%s", PQgetvalue(row, 0, 1));
		part->node = Format("%s", PQgetvalue(row, 0, 2));
		name_part(part);
		if (part->all_nodes)
			add_nodes(part);
	}
	if (came)
	{
		part->said_silent = false;
		came = print_piece(part, s, row, s->asked != 0);
		if (s->over)
			stream_over(s);
	}
	else
	{
		if (s->since == 0)
			s->since = now();
		if (wish)
			s->asked = now();
		not_yet(part, s, state);
		if (strcmp(state, "unasked") == 0 ||
			strcmp(state, "not_started") == 0)
			s->asked = 0;
	}
	PQclear(row);
	return came;
}

/*
 * Prints a piece.  fresh: the node answered a request of this command.
 * Returns whether the piece moved the stream on.
 */
static bool
print_piece(const LogPart *part, LogStream *s, PGresult * row, bool fresh)
{
	int64_t		first = strtoll(PQgetvalue(row, 0, 3), NULL, 10);
	bool		over = strcmp(PQgetvalue(row, 0, 7), "t") == 0;
	size_t		len = 0;
	unsigned char *body;

	s->written = strtoll(PQgetvalue(row, 0, 5), NULL, 10);
	s->dropped = strtoll(PQgetvalue(row, 0, 6), NULL, 10);
	s->asked = s->since = 0;
	if (fresh && s->until < 0)
		s->until = s->written;
	if (!PQgetisnull(row, 0, 9))
	{
		print_file(part, s, PQgetvalue(row, 0, 9));
		s->over = true;
		return true;
	}
	if (!PQgetisnull(row, 0, 8))
	{
		fprintf(stderr, "gpucredit: %s\n", PQgetvalue(row, 0, 8));
		log_status = CLI_REFUSED;
		s->over = true;
		return true;
	}
	if (s->at < 0)
	{
		s->at = s->written > part->tail ? s->written - part->tail : 0;
		return true;
	}
	if (first > s->at)
		fprintf(stderr, "gpucredit: %lld bytes of %s are gone: a node keeps"
				" the first MiB and the last 64 for a day, the site the head"
				" and the tail\n", (long long) (first - s->at), s->name);
	body = PQunescapeBytea((unsigned char *) PQgetvalue(row, 0, 4), &len);
	if (body == NULL)
		Fail(CLI_REFUSED, "could not read the answer");
	LogLinesPrint(&s->lines, body, len);
	PQfreemem(body);
	s->at = first + len;
	s->over = over || (!part->follow &&
					   (len == 0 || (s->until >= 0 && s->at >= s->until)));
	return len > 0;
}

/*
 * Prints the file of the site's folder that has the stream's head and tail.  A
 * node named it, so it is only read if it is a plain file: a pipe would never
 * end.
 */
static void
print_file(const LogPart *part, LogStream *s, const char *path)
{
	int			fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY |
						  O_CLOEXEC);
	struct stat st;
	FILE	   *file = NULL;
	char		chunk[65536];
	size_t		n;

	if (fd >= 0 && fstat(fd, &st) == 0)
	{
		errno = EINVAL;
		if (S_ISREG(st.st_mode))
			file = fdopen(fd, "r");
	}
	if (file == NULL)
	{
		if (fd >= 0)
			close(fd);
		fprintf(stderr, "gpucredit: %s is kept in %s, which cannot be read"
				" here: %s\n", s->name, path, strerror(errno));
		log_status = CLI_REFUSED;
		return;
	}
	if (s->at < 0 && fseeko(file, -part->tail, SEEK_END) != 0)
		rewind(file);
	else if (s->at > 0)
		(void) fseeko(file, s->at, SEEK_SET);
	while ((n = fread(chunk, 1, sizeof(chunk), file)) > 0)
		LogLinesPrint(&s->lines, chunk, n);
	fclose(file);
}

/*
 * Adds a part for each other node of a gang's newest attempt.
 */
static void
add_nodes(LogPart *part)
{
	const char *values[4] = {CliOrg(), part->job, part->attempt, part->node};
	PGresult   *rows = call("SELECT n FROM gpucredit.jobs j CROSS JOIN LATERAL"
							" unnest(string_to_array(" SLURM_NODES ", ',')) n"
							" WHERE j.org = $1 AND j.job = $2::bigint"
							" AND j.attempt = $3::int AND n <> $4"
							" ORDER BY n DESC", 4, values);

	for (int i = 0; i < PQntuples(rows); i++)
	{
		LogPart    *other = Alloc(sizeof(LogPart));

		*other = *part;
		other->node = Format("%s", PQgetvalue(rows, i, 0));
		other->any_attempt = other->all_nodes = false;
		for (int s = 0; s < 2; s++)
		{
			other->streams[s].lines.begun = NULL;
			other->streams[s].lines.len = 0;
		}
		LogPartBegin(other);
		name_part(other);
		part->next = other;
	}
	PQclear(rows);
}

/*
 * Sets the prefix of the part's lines: the job and, with a gang, the node.
 */
static void
name_part(LogPart *part)
{
	for (int i = 0; i < 2 && part->prefixed; i++)
		part->streams[i].lines.prefix = part->all_nodes || !part->any_attempt ?
			Format("%s %s: ", part->job, part->node) :
			Format("%s: ", part->job);
}

/*
 * Reports once why there is no answer yet.  If there will be none, the part is
 * over.
 */
static void
not_yet(LogPart *part, LogStream *s, const char *state)
{
	char	   *failure = NULL;
	long		newest;

	if (strcmp(state, "unserved") == 0)
		failure = Format("the agent of node %s serves no output", part->node);
	else if (strcmp(state, "not_started") == 0 && !part->follow)
		failure = Format("job %s has not started; see: gpucredit explain %s",
						 part->job, part->job);
	else if (strcmp(state, "not_started") == 0)
	{
		if (!part->said_waits)
			fprintf(stderr, "gpucredit: job %s has not started yet\n",
					part->job);
		part->said_waits = true;
		part->due = now() + LOOK_AGAIN;
		if (job_ended(part, &newest) && newest == 0)
			part->over = true;
	}
	else if (!part->follow && now() - s->since > AWAY)
		failure = Format("node %s does not answer", part->node);
	else if (strcmp(state, "silent") == 0 && !part->said_silent)
	{
		fprintf(stderr, "gpucredit: node %s has not been heard of for a"
				" while; what it has of job %s comes once it is back\n",
				part->node, part->job);
		part->said_silent = true;
	}
	if (failure != NULL)
	{
		fprintf(stderr, "gpucredit: %s\n", failure);
		log_status = CLI_REFUSED;
		part->over = true;
		free(failure);
	}
}

static void
stream_over(LogStream *s)
{
	LogLinesEnd(&s->lines);
	if (s->dropped > 0)
		fprintf(stderr, "gpucredit: %lld bytes of %s are lost: the"
				" node's disk was full\n", (long long) s->dropped, s->name);
}

/*
 * Whether the job will have no further attempt.  *newest is set to the number
 * of its last one.
 */
static bool
job_ended(const LogPart *part, long *newest)
{
	const char *values[2] = {CliOrg(), part->job};
	PGresult   *row = call("SELECT j.ended_at IS NOT NULL, j.attempt"
						   " FROM gpucredit.jobs j"
						   " WHERE j.org = $1 AND j.job = $2::bigint", 2,
						   values);
	bool		ended = PQntuples(row) == 0 ||
		strcmp(PQgetvalue(row, 0, 0), "t") == 0;

	*newest = PQntuples(row) == 0 ? 0 : atol(PQgetvalue(row, 0, 1));
	PQclear(row);
	return ended;
}

/*
 * Continues with the next attempt of a followed job, if there is one.
 */
static void
next_attempt(LogPart *part)
{
	long		newest;
	bool		ended = job_ended(part, &newest);

	if (newest > atol(part->attempt))
	{
		fprintf(stderr, part->prefixed ? "gpucredit: attempt %ld of job %s\n" :
				"gpucredit: attempt %ld\n", newest, part->job);
		part->attempt = part->node = NULL;
		part->from = 0;
		part->tail = -1;
		LogPartBegin(part);
	}
	else if (ended)
		part->over = true;
	else
		part->due = now() + 1;
}

/*
 * Reads the next piece from the database.  wish: requests it from the node
 * first, together with some pieces after it.
 */
static PGresult *
ask(const LogPart *part, const LogStream *s, bool wish)
{
	int64_t		at = s->at < 0 ? INT64_MAX : s->at;
	int64_t		last = at;
	const char *values[8] = {CliOrg(), part->job, NULL, s->name,
		part->attempt, part->node, part->follow && s->at >= 0 ? "t" : "f",
	NULL};
	PGresult   *result;

	for (int i = 1; s->at >= 0 && i < AHEAD && last + PIECE < s->written; i++)
		last += PIECE;
	values[2] = Format("%lld", (long long) at);
	values[7] = Format("%lld", (long long) (last - at));
	if (wish)
		result = call("SELECT l.state, l.attempt, l.node, l.first_byte,"
					  " CASE WHEN p.i = 0 THEN l.body END, l.written,"
					  " l.dropped, l.over, l.message, l.uri"
					  " FROM generate_series(0, $8::bigint, 65536) AS p (i)"
					  " CROSS JOIN LATERAL gpucredit.log_wish($1, $2::bigint,"
					  "  $3::bigint + p.i, $4, $5::int, $6, $7::boolean) l"
					  " ORDER BY p.i", 8, values);
	else
		result = call("SELECT l.state, l.attempt, l.node, l.first_byte,"
					  " l.body, l.written, l.dropped, l.over, l.message, l.uri"
					  " FROM gpucredit.log_get($1, $2::bigint, $3::bigint, $4,"
					  "  $5::int, $6) l", 6, values);
	free((char *) values[2]);
	free((char *) values[7]);
	return result;
}

/*
 * Makes a call, and repeats it during a short absence of the database.  An
 * error ends the command.
 */
static PGresult *
call(const char *sql, int n, const char *const *values)
{
	PGresult   *result = CliRepeat(sql, n, values, PATIENCE);

	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		CliRefused(result);
	return result;
}

static double
now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec + at.tv_nsec / 1e9;
}
