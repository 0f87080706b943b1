/*-------------------------------------------------------------------------
 *
 * topology_conf.c
 *		Parses Slurm's topology.conf.
 *
 * Its lines are "SwitchName=leaf1 Nodes=gpu[01-16]", "SwitchName=spine1
 * Switches=leaf[1-4]", "BlockName=rack1 Nodes=gpu[01-18]" and "BlockSizes=18".
 * Words have any case, "#" begins a comment, and "\" at the end of a line joins
 * the next one. A file that does not end with a line's end was not written to
 * its end.
 *-------------------------------------------------------------------------
 */
#include <string.h>
#include <strings.h>

#include "slurm_tree.h"
#include "topology.h"

#define MOST_LINE	65536

static const char *parse_lines(const char *text, size_t size,
							   SlurmTree *tree);
static const char *parse_line(const char *at, const char *end,
							  SlurmTree *tree);
static const char *store(Span word, Span value, bool first,
						 SlurmEntry *entry);
static bool word_is(Span word, const char *text);
static bool is_space(char c);

const char *
TopologyConfParse(const char *text, size_t size, const TopologySelf *self,
				  Topology *found)
{
	SlurmTree	tree = {0};
	const char *why;

	memset(found, 0, sizeof(*found));
	if (size > 0 && text[size - 1] != '\n')
		return "the file does not end with a line's end";
	why = parse_lines(text, size, &tree);
	if (why == NULL)
		why = SlurmTreeFind(&tree, self->node, found);
	SlurmTreeFree(&tree);
	if (why != NULL)
		memset(found, 0, sizeof(*found));
	return why;
}

/* Parses each line, with those that a "\" joins to it. */
static const char *
parse_lines(const char *text, size_t size, SlurmTree *tree)
{
	const char *end = text + size;
	const char *why = NULL;

	while (text < end && why == NULL)
	{
		const char *stop = text;
		bool		comment = false;
		bool		joined = false;

		for (; stop < end && (*stop != '\n' || joined); stop++)
		{
			if (*stop != '\n' && *stop != '\t' && *stop != '\r' &&
				(*stop < ' ' || *stop == 0x7f))
				return "the file has a character that is not printable";
			comment |= *stop == '#';
			joined = *stop == '\\' && !comment;
		}
		if (stop - text > MOST_LINE)
			return "a line is too long";
		why = parse_line(text, stop, tree);
		text = stop + 1;
	}
	return why;
}

/* Parses the words of one line, each with its value. */
static const char *
parse_line(const char *at, const char *end, SlurmTree *tree)
{
	SlurmEntry *entry = NULL;
	bool		first = true;
	const char *comment = memchr(at, '#', (size_t) (end - at));

	if (comment != NULL)
		end = comment;
	for (;;)
	{
		Span		word;
		Span		value;
		bool		quoted;
		const char *why;

		while (at < end && is_space(*at))
			at++;
		if (at == end)
			return NULL;
		word.at = at;
		while (at < end && *at != '=' && !is_space(*at))
			at++;
		word.size = (size_t) (at - word.at);
		if (at == end || *at++ != '=')
			return "a word has no value";
		quoted = at < end && *at == '"';
		value.at = at += quoted;
		while (at < end && (quoted ? *at != '"' : !is_space(*at)))
			at++;
		value.size = (size_t) (at - value.at);
		if (quoted && at++ == end)
			return "a quotation has no end";
		if (first && word_is(word, "BlockSizes"))
			return NULL;
		if (first && (entry = SlurmTreeAdd(tree)) == NULL)
			return "the file describes too many switches";
		why = store(word, value, first, entry);
		if (why != NULL)
			return why;
		first = false;
	}
}

/* Puts a value into its entry. */
static const char *
store(Span word, Span value, bool first, SlurmEntry *entry)
{
	Span	   *to = word_is(word, "Nodes") ? &entry->nodes :
		word_is(word, "Switches") ? &entry->children : NULL;

	if (first)
	{
		if (!word_is(word, "SwitchName") && !word_is(word, "BlockName"))
			return "a line begins with neither SwitchName, BlockName nor BlockSizes";
		entry->block = word_is(word, "BlockName");
		entry->name = value;
		return NULL;
	}
	if (to == NULL)
		return word_is(word, "LinkSpeed") ? NULL : "a word is not known";
	if (to->at != NULL)
		return "a word occurs twice in a line";
	*to = value;
	return NULL;
}

static bool
word_is(Span word, const char *text)
{
	return word.size == strlen(text) &&
		strncasecmp(word.at, text, word.size) == 0;
}

/* A "\" joins lines, so it separates words. */
static bool
is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\\';
}
