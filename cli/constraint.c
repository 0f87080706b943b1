/*-------------------------------------------------------------------------
 *
 * constraint.c
 *		Option --constraint of sbatch: features that nodes need.
 *
 * A feature is a type of GPUs, or a label of nodes as "key" or "key=value".
 * Clusters with Slurm often name a node's type of GPU as a feature, so that
 * --gres=gpu:4 --constraint="a100|h100" chooses the type. Here the request
 * names types. All other features are labels, which placement requires.
 *
 * As in Slurm, "&" and "," mean and, "|" means or, and operators apply from
 * left to right except for what stands in parentheses. A placement has lists
 * of alternatives, each of which a node must satisfy, so the constraint is
 * converted to that form. In "[a|b]" all nodes must have the same one of
 * them, which is always so for types; labels must leave the job on one node.
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"
#include "submission.h"

#define TRY_SECONDS	60
#define DEPTH_MOST	8

/* A constraint that is being parsed. */
typedef struct Parser
{
	const StoredSubmission *s;
	const char *at;
	int			depth;			/* of parentheses */
	bool		matching;		/* it has brackets */
} Parser;

static json_t * parse_all(Parser *parser, char end);
static json_t * parse_one(Parser *parser);
static json_t * either(Parser *parser, json_t * a, json_t * b);
static void unclear(const Parser *parser) __attribute__((noreturn));
static void too_many(const Parser *parser) __attribute__((noreturn));
static json_t * types_named(const StoredSubmission *s, const json_t * types,
							const json_t * words);
static void restrict_types(StoredSubmission *s, const json_t * named);
static json_t * pool_types(const StoredSubmission *s);
static const char *type_named(const json_t * types, const char *word);
static bool has_text(const json_t * list, const char *text);

/*
 * Applies the constraint of a submission: types of GPUs become part of its
 * request, and labels part of its placement.
 */
void
ConstraintApply(StoredSubmission *s)
{
	Parser		parser = {.s = s, .at = s->constraint};
	json_t	   *types = pool_types(s);
	json_t	   *choices = parse_all(&parser, '\0');
	json_t	   *choice;
	size_t		i;

	s->features = json_array();
	json_array_foreach(choices, i, choice)
	{
		json_t	   *named = types_named(s, types, choice);

		if (named != NULL)
			restrict_types(s, named);
		else if (parser.matching && json_array_size(choice) > 1 &&
				 !SubmissionOnOneNode(s))
			Fail(CLI_USAGE, "%s: --constraint=%s: all nodes of a job have the"
				 " same feature in brackets if it has one node; use --nodes=1,"
				 " or name one feature", s->constraint_place, s->constraint);
		else
			json_array_append(s->features, json_array_size(choice) > 1 ?
							  choice : json_array_get(choice, 0));
		json_decref(named);
	}
	json_decref(choices);
	json_decref(types);
}

/*
 * Parses features with operators until a character. Returns an array of
 * alternatives, each an array of words of which a node needs one.
 */
static json_t *
parse_all(Parser *parser, char end)
{
	json_t	   *all = parse_one(parser);

	while (*parser->at != end)
	{
		char		operator = *parser->at;
		json_t	   *more;

		if (operator == '\0' || strchr("&,|", operator) == NULL ||
			(end == ']' && operator != '|'))
			unclear(parser);
		parser->at++;
		more = parse_one(parser);
		if (operator == '|')
			all = either(parser, all, more);
		else
		{
			json_array_extend(all, more);
			json_decref(more);
		}
		if (json_array_size(all) > PLACEMENT_LABELS_MOST)
			too_many(parser);
	}
	return all;
}

/*
 * Parses one feature, or features in parentheses or brackets.
 */
static json_t *
parse_one(Parser *parser)
{
	size_t		length = strcspn(parser->at, "&,|()[]* \t");
	bool		brackets = *parser->at == '[';
	json_t	   *word;

	if (length == 0 && (brackets || *parser->at == '('))
	{
		json_t	   *inside;

		if (++parser->depth > DEPTH_MOST)
			unclear(parser);
		parser->matching |= brackets;
		parser->at++;
		inside = parse_all(parser, brackets ? ']' : ')');
		parser->at++;
		parser->depth--;
		return inside;
	}
	word = json_stringn(parser->at, length);
	if (length == 0 || word == NULL)
		unclear(parser);
	parser->at += length;
	return json_pack("[[o]]", word);
}

/*
 * Combines two constraints of which one is enough: each alternative of one
 * with each of the other.
 */
static json_t *
either(Parser *parser, json_t * a, json_t * b)
{
	json_t	   *both = json_array();
	json_t	   *x;
	json_t	   *y;
	size_t		i;
	size_t		j;

	if (json_array_size(a) * json_array_size(b) > PLACEMENT_LABELS_MOST)
		too_many(parser);
	json_array_foreach(a, i, x)
	{
		json_array_foreach(b, j, y)
		{
			json_t	   *choice = json_copy(x);
			json_t	   *word;
			size_t		k;

			json_array_foreach(y, k, word)
			{
				if (!has_text(choice, json_string_value(word)))
					json_array_append(choice, word);
			}
			if (json_array_size(choice) > PLACEMENT_LABELS_MOST)
				too_many(parser);
			json_array_append_new(both, choice);
		}
	}
	json_decref(a);
	json_decref(b);
	return both;
}

static void
unclear(const Parser *parser)
{
	Fail(CLI_USAGE, "%s: --constraint=%s is not supported at \"%s\"; use"
		 " features with & and |, as a100 or \"nvme&(a100|h100)\", and submit"
		 " a job for each number of nodes", parser->s->constraint_place,
		 parser->s->constraint, parser->at);
}

static void
too_many(const Parser *parser)
{
	Fail(CLI_USAGE, "%s: --constraint=%s has too many features; use fewer",
		 parser->s->constraint_place, parser->s->constraint);
}

/*
 * Returns the types of GPUs among which words choose, or NULL if the words are
 * labels. Ends the command if they are both.
 */
static json_t *
types_named(const StoredSubmission *s, const json_t * types,
			const json_t * words)
{
	json_t	   *named = json_array();
	size_t		labels = 0;
	json_t	   *word;
	size_t		i;

	json_array_foreach(words, i, word)
	{
		const char *type = type_named(types, json_string_value(word));

		if (type == NULL)
			labels++;
		else if (!has_text(named, type))
			json_array_append_new(named, json_string(type));
	}
	if (labels == 0)
		return named;
	if (json_array_size(named) > 0)
		Fail(CLI_USAGE, "%s: --constraint=%s: a type of GPUs (%s) and another"
			 " feature are no alternatives; use & between them, or name types"
			 " alone", s->constraint_place, s->constraint,
			 json_string_value(json_array_get(named, 0)));
	json_decref(named);
	return NULL;
}

/*
 * Restricts the types of the request to these.
 */
static void
restrict_types(StoredSubmission *s, const json_t * named)
{
	char	   *wanted = Format("%s", "");
	json_t	   *type;
	size_t		i;

	if (SubmissionCounts(s).gpus == 0 || s->request != NULL)
		Fail(CLI_USAGE, "%s: --constraint=%s chooses a type of GPUs, and the"
			 " job asks for none by --gpus or --gres; remove it",
			 s->constraint_place, s->constraint);
	json_array_foreach(named, i, type)
	{
		const char *name = json_string_value(type);
		char	   *before = wanted;
		char	   *list = Format("|%s|", s->gpu_type == NULL ? name :
								  s->gpu_type);

		if (strcasestr(list, Format("|%s|", name)) != NULL)
			wanted = Format("%s|%s", before, name);
		free(list);
		if (wanted != before)
			free(before);
	}
	if (*wanted == '\0')
		Fail(CLI_USAGE, "%s: --constraint=%s contradicts the GPUs of type"
			 " \"%s\"; remove one of them", s->constraint_place,
			 s->constraint, s->gpu_type);
	free(s->gpu_type);
	s->gpu_type = Format("%s", wanted + 1);
	free(wanted);
}

/*
 * Returns the names of the types of GPUs that have a price in the pool.
 */
static json_t *
pool_types(const StoredSubmission *s)
{
	const char *values[] = {s->pool != NULL ? s->pool : "default"};
	PGresult   *rows = CliRepeat("SELECT DISTINCT p.gpu_type"
								 " FROM gpucredit.prices p"
								 " WHERE p.pool IN ('', $1) AND p.gpu_type <> ''"
								 " ORDER BY 1", 1, values, TRY_SECONDS);
	json_t	   *types = json_array();

	if (PQresultStatus(rows) != PGRES_TUPLES_OK)
		CliRefused(rows);
	for (int i = 0; i < PQntuples(rows); i++)
		json_array_append_new(types, json_string(PQgetvalue(rows, i, 0)));
	PQclear(rows);
	return types;
}

static const char *
type_named(const json_t * types, const char *word)
{
	json_t	   *type;
	size_t		i;

	json_array_foreach(types, i, type)
	{
		if (strcasecmp(json_string_value(type), word) == 0)
			return json_string_value(type);
	}
	return NULL;
}

static bool
has_text(const json_t * list, const char *text)
{
	json_t	   *element;
	size_t		i;

	json_array_foreach(list, i, element)
	{
		if (strcmp(json_string_value(element), text) == 0)
			return true;
	}
	return false;
}
