/*-------------------------------------------------------------------------
 *
 * verdict.c
 *		Parses the verdict of a judge model.
 *
 * A verdict is one JSON object with exactly two members: "score", a number
 * written 1 to 5, and "reason", a string. It may be surrounded by white space
 * and one Markdown fence, and a reasoning model's thoughts may come before it,
 * from "<think>" at the beginning of the answer to the first "</think>". Every
 * other answer counts as score 1, so that a judge that was manipulated into
 * writing prose lets nothing pass.
 *
 * PostgreSQL's parser reads the JSON. It is recursive, so text that is nested
 * too deep is refused first.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/jsonapi.h"
#include "json_depth.h"
#include "mb/pg_wchar.h"
#include "types/entry.h"
#include "util/args.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(gpucredit_eval_parse_verdict);

#define MAX_BYTES	(1024 * 1024)

/* Callbacks return void before PostgreSQL 16. */
#if PG_VERSION_NUM >= 160000
#define CALLBACK		static JsonParseErrorType
#define CALLBACK_END	return JSON_SUCCESS
#else
#define CALLBACK		static void
#define CALLBACK_END	return
#endif

typedef struct Verdict
{
	int			depth;			/* nesting depth of the object that is being
								 * read */
	int			nscores;		/* how often the member "score" occurred */
	int			nreasons;
	bool		bad;			/* the text is not a verdict */
	int			score;
	char	   *reason;
	const char *field;			/* name of the member whose value comes next */
} Verdict;

static bool is_space(char c);
static void trim(char **text, int *len);
static void strip_thoughts(char **text, int *len);
static void strip_fence(char **text, int *len);
static bool read_verdict(char *text, int len, Verdict *verdict);

Datum
gpucredit_eval_parse_verdict(PG_FUNCTION_ARGS)
{
	bytea	   *raw = PG_GETARG_BYTEA_PP(0);
	char	   *text = VARDATA_ANY(raw);
	int			len = VARSIZE_ANY_EXHDR(raw);
	Verdict		verdict = {0};
	bool		parsed;

	parsed = len <= MAX_BYTES &&
		pg_verify_mbstr(PG_UTF8, text, len, true) &&
		read_verdict(text, len, &verdict);
	return RowReturnRecord(fcinfo,
						   VALUES(Int4Value(parsed ? verdict.score : 1),
								  TextValue(parsed ? verdict.reason : NULL),
								  BoolValue(parsed)));
}

CALLBACK
object_start(void *state)
{
	Verdict    *verdict = state;

	verdict->bad |= verdict->depth > 0;
	verdict->depth++;
	CALLBACK_END;
}

CALLBACK
object_end(void *state)
{
	Verdict    *verdict = state;

	verdict->depth--;
	CALLBACK_END;
}

CALLBACK
array_start(void *state)
{
	Verdict    *verdict = state;

	verdict->bad = true;
	CALLBACK_END;
}

/*
 * Handles a member of the outermost object; a nested object has set "bad"
 * before.
 */
CALLBACK
field_start(void *state, char *name, bool isnull)
{
	Verdict    *verdict = state;

	if (strcmp(name, "score") == 0)
		verdict->nscores++;
	else if (strcmp(name, "reason") == 0)
		verdict->nreasons++;
	else
		verdict->bad = true;
	verdict->field = name;
	CALLBACK_END;
}

CALLBACK
scalar(void *state, char *token, JsonTokenType type)
{
	Verdict    *verdict = state;

	if (verdict->depth != 1 || verdict->field == NULL)
		verdict->bad = true;
	else if (strcmp(verdict->field, "score") == 0 &&
			 type == JSON_TOKEN_NUMBER &&
			 token[0] >= '1' && token[0] <= '5' && token[1] == '\0')
		verdict->score = token[0] - '0';
	else if (strcmp(verdict->field, "reason") == 0 &&
			 type == JSON_TOKEN_STRING)
		verdict->reason = token;
	else
		verdict->bad = true;
	CALLBACK_END;
}

/*
 * Parses a verdict. Returns false if the text is not one.
 */
static bool
read_verdict(char *text, int len, Verdict *verdict)
{
	JsonSemAction actions = {0};
	JsonLexContext *lex;

	trim(&text, &len);
	strip_thoughts(&text, &len);
	trim(&text, &len);
	strip_fence(&text, &len);
	if (JsonIsTooDeep(text, len))
		return false;
#if PG_VERSION_NUM >= 170000
	lex = makeJsonLexContextCstringLen(NULL, text, len, PG_UTF8, true);
#else
	lex = makeJsonLexContextCstringLen(text, len, PG_UTF8, true);
#endif
	actions.semstate = verdict;
	actions.object_start = object_start;
	actions.object_end = object_end;
	actions.array_start = array_start;
	actions.object_field_start = field_start;
	actions.scalar = scalar;
	return pg_parse_json(lex, &actions) == JSON_SUCCESS && !verdict->bad &&
		verdict->nscores == 1 && verdict->nreasons == 1;
}

static bool
is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void
trim(char **text, int *len)
{
	while (*len > 0 && is_space((*text)[0]))
		(*text)++, (*len)--;
	while (*len > 0 && is_space((*text)[*len - 1]))
		(*len)--;
}

/*
 * Removes a model's thoughts from the beginning of its answer. They end at the
 * first mark: whatever the thoughts quote behind an earlier one makes the
 * answer malformed.
 */
static void
strip_thoughts(char **text, int *len)
{
	static const char begin[] = "<think>";
	static const char end[] = "</think>";
	const int	begin_len = sizeof(begin) - 1;
	const int	end_len = sizeof(end) - 1;

	if (*len < begin_len || strncmp(*text, begin, begin_len) != 0)
		return;
	for (int i = begin_len; i + end_len <= *len; i++)
	{
		if (strncmp(*text + i, end, end_len) == 0)
		{
			*text += i + end_len;
			*len -= i + end_len;
			return;
		}
	}
}

/*
 * Removes a fence of three back quotes, with "json" after the first.
 */
static void
strip_fence(char **text, int *len)
{
	if (*len < 6 || strncmp(*text, "```", 3) != 0 ||
		strncmp(*text + *len - 3, "```", 3) != 0)
		return;
	*text += 3;
	*len -= 6;
	if (*len >= 4 && pg_strncasecmp(*text, "json", 4) == 0)
	{
		*text += 4;
		*len -= 4;
	}
}
