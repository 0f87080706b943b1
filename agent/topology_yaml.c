/*-------------------------------------------------------------------------
 *
 * topology_yaml.c
 *		Parses Slurm's topology.yaml.
 *
 * The file is a list of topologies, of which each has a tree of switches, a
 * list of blocks, or neither:
 *
 *     - topology: fabric
 *       cluster_default: true
 *       tree:
 *         switches:
 *           - switch: spine1
 *             children: leaf[1-2]
 *           - switch: leaf1
 *             nodes: gpu[01-16]
 *     - topology: racks
 *       block:
 *         block_sizes:
 *           - 18
 *         blocks:
 *           - block: rack1
 *             nodes: gpu[01-18]
 *
 * This is a parser of that form and not of YAML: each line has one key and one
 * plain or quoted scalar. Tabs, anchors, tags, lists in brackets and texts over
 * several lines are refused. Indentation says what a line belongs to.
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "slurm_tree.h"
#include "topology.h"

/* What a list below a topology has. */
typedef enum YamlList
{
	LIST_NONE, LIST_SWITCHES, LIST_BLOCKS, LIST_SIZES
} YamlList;

/* A line, without its comment. */
typedef struct YamlLine
{
	int			dash;			/* column of its dash, or -1 */
	int			column;			/* column of its key or value */
	Span		key;			/* at is NULL if it has a value alone */
	Span		value;			/* size is 0 if it has none */
} YamlLine;

/*
 * Where the parser is: the columns of the dashes and keys of each level, or -1
 * before the first of that level.
 */
typedef struct YamlState
{
	SlurmTree  *tree;
	int			topology;		/* number of the present one, or -1 */
	bool		has_default;
	bool		named;			/* the present topology has its name */
	Span		section;		/* tree or block */
	YamlList	list;
	int			top_dash;
	int			top_column;
	int			section_column;
	int			list_dash;
	int			entry_column;
	SlurmEntry *entry;
} YamlState;

static const char *parse_lines(const char *text, size_t size,
							   YamlState *state);
static const char *split_line(const char *at, const char *end,
							  YamlLine *line, bool *empty);
static const char *split_value(const char *at, const char *end, Span *value);
static const char *apply_line(YamlState *state, const YamlLine *line);
static const char *apply_topology(YamlState *state, const YamlLine *line);
static const char *apply_section(YamlState *state, const YamlLine *line);
static const char *apply_entry(YamlState *state, const YamlLine *line);
static bool span_is(Span span, const char *text);

const char *
TopologyYamlParse(const char *text, size_t size, const TopologySelf *self,
				  Topology *found)
{
	SlurmTree	tree = {0};
	YamlState	state = {.tree = &tree, .topology = -1, .top_dash = -1};
	const char *why;

	memset(found, 0, sizeof(*found));
	if (size > 0 && text[size - 1] != '\n')
		return "the file does not end with a line's end";
	why = parse_lines(text, size, &state);
	if (why == NULL)
		why = SlurmTreeFind(&tree, self->node, found);
	SlurmTreeFree(&tree);
	if (why != NULL)
		memset(found, 0, sizeof(*found));
	return why;
}

/* Parses each line of a text that ends with a line's end. */
static const char *
parse_lines(const char *text, size_t size, YamlState *state)
{
	const char *end = text + size;
	const char *why = NULL;

	for (int number = 0; text < end && why == NULL; number++)
	{
		const char *stop = memchr(text, '\n', (size_t) (end - text));
		const char *next = stop + 1;
		YamlLine	line;
		bool		empty;

		if (stop > text && stop[-1] == '\r')
			stop--;
		if (!(number == 0 && stop - text == 3 && memcmp(text, "---", 3) == 0))
		{
			why = split_line(text, stop, &line, &empty);
			if (why == NULL && !empty)
				why = apply_line(state, &line);
		}
		text = next;
	}
	return why;
}

/* Splits a line into its dash, key and value. */
static const char *
split_line(const char *at, const char *end, YamlLine *line, bool *empty)
{
	const char *begin = at;
	const char *colon;

	*line = (YamlLine)
	{
		.dash = -1
	};
	for (const char *c = at; c < end; c++)
	{
		if (*c < ' ' || *c == 0x7f)
			return "the file has a tab or a character that is not printable";
	}
	while (at < end && *at == ' ')
		at++;
	*empty = at == end || *at == '#';
	if (*empty)
		return NULL;
	if (at - begin > 1000)
		return "a line is indented too far";
	if (*at == '-')
	{
		line->dash = (int) (at - begin);
		for (at++; at < end && *at == ' ';)
			at++;
		if (at == end || at == begin + line->dash + 1 || *at == '-' ||
			at - begin > 1000)
			return "a dash is not followed by one word";
	}
	line->column = (int) (at - begin);
	colon = memchr(at, ':', (size_t) (end - at));
	if (colon != NULL && (colon + 1 == end || colon[1] == ' '))
	{
		line->key = (Span)
		{
			at, (size_t) (colon - at)
		};
		at = colon + 1;
	}
	return split_value(at, end, &line->value);
}

/* Finds a scalar, without quotation marks and the comment behind it. */
static const char *
split_value(const char *at, const char *end, Span *value)
{
	const char *stop;

	while (at < end && *at == ' ')
		at++;
	if (at < end && *at == '#')
		end = at;
	if (at < end && (*at == '"' || *at == '\''))
	{
		const char *close = memchr(at + 1, *at, (size_t) (end - at - 1));

		if (close == NULL || memchr(at, '\\', (size_t) (close - at)) != NULL)
			return "a quotation has no end or a backslash";
		*value = (Span)
		{
			at + 1, (size_t) (close - at - 1)
		};
		for (at = close + 1; at < end && *at == ' ';)
			at++;
		return at == end || *at == '#' ? NULL : "a quotation is followed by text";
	}
	if (at < end && strchr("[{&*|>!%@`?,]}", *at) != NULL)
		return "a value is no plain text";
	for (stop = at; stop < end && !(*stop == '#' && stop[-1] == ' ');)
		stop++;
	while (stop > at && stop[-1] == ' ')
		stop--;
	*value = (Span)
	{
		at, (size_t) (stop - at)
	};
	return NULL;
}

/* Finds out by its indentation what a line belongs to. */
static const char *
apply_line(YamlState *state, const YamlLine *line)
{
	if (line->dash >= 0 && (state->top_dash < 0 ||
							line->dash == state->top_dash))
	{
		state->top_dash = line->dash;
		state->top_column = line->column;
		state->topology++;
		state->named = false;
		state->section.at = NULL;
		state->list = LIST_NONE;
		return apply_topology(state, line);
	}
	if (state->topology < 0)
		return "the file is no list of topologies";
	if (line->dash < 0 && line->column == state->top_column)
	{
		state->section.at = NULL;
		state->list = LIST_NONE;
		return apply_topology(state, line);
	}
	if (state->section.at != NULL && line->dash < 0 &&
		(state->section_column < 0 ? line->column > state->top_column :
		 line->column == state->section_column))
		return apply_section(state, line);
	if (state->list != LIST_NONE && line->dash >= 0 &&
		(state->list_dash < 0 ? line->dash >= state->section_column :
		 line->dash == state->list_dash))
	{
		state->list_dash = line->dash;
		state->entry_column = line->column;
		if (state->list == LIST_SIZES)
			return line->key.at == NULL ? NULL : "a block size is no number";
		state->entry = SlurmTreeAdd(state->tree);
		if (state->entry == NULL)
			return "the file describes too many switches";
		state->entry->block = state->list == LIST_BLOCKS;
		state->entry->topology = state->topology;
		return apply_entry(state, line);
	}
	if ((state->list == LIST_SWITCHES || state->list == LIST_BLOCKS) &&
		state->list_dash >= 0 && line->dash < 0 &&
		line->column == state->entry_column)
		return apply_entry(state, line);
	return "a line is indented as no other";
}

/* A key of a topology. */
static const char *
apply_topology(YamlState *state, const YamlLine *line)
{
	if (span_is(line->key, "topology"))
	{
		if (state->named || line->value.size == 0)
			return "a topology has no name or two";
		state->named = true;
		return NULL;
	}
	if (span_is(line->key, "cluster_default"))
	{
		if (!span_is(line->value, "true"))
			return span_is(line->value, "false") ? NULL :
				"cluster_default is neither true nor false";
		if (state->has_default)
			return "two topologies are the default";
		state->has_default = true;
		state->tree->preferred = state->topology;
		return NULL;
	}
	if (span_is(line->key, "flat"))
		return NULL;
	if (!(span_is(line->key, "tree") || span_is(line->key, "block")) ||
		line->value.size > 0)
		return "a key of a topology is not known";
	state->section = line->key;
	state->section_column = -1;
	return NULL;
}

/* A key of a tree, or of blocks. */
static const char *
apply_section(YamlState *state, const YamlLine *line)
{
	bool		tree = span_is(state->section, "tree");

	state->section_column = line->column;
	state->list = tree && span_is(line->key, "switches") ? LIST_SWITCHES :
		!tree && span_is(line->key, "blocks") ? LIST_BLOCKS :
		!tree && span_is(line->key, "block_sizes") ? LIST_SIZES : LIST_NONE;
	state->list_dash = -1;
	return state->list == LIST_NONE || line->value.size > 0 ?
		"a tree has switches alone, and a block blocks and block_sizes" : NULL;
}

/* A key of a switch or a block. */
static const char *
apply_entry(YamlState *state, const YamlLine *line)
{
	SlurmEntry *entry = state->entry;
	Span	   *to = span_is(line->key, "nodes") ? &entry->nodes :
		span_is(line->key, "children") ? &entry->children :
		span_is(line->key, entry->block ? "block" : "switch") ? &entry->name :
		NULL;

	if (to == NULL || to->at != NULL || line->value.size == 0)
		return "a switch or block has a key that is not known, occurs twice or is empty";
	*to = line->value;
	return NULL;
}

static bool
span_is(Span span, const char *text)
{
	return span.at != NULL && span.size == strlen(text) &&
		memcmp(span.at, text, span.size) == 0;
}
