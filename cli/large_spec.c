/*-------------------------------------------------------------------------
 *
 * large_spec.c
 *		Stores the script and the environment of a submission apart from its
 *		spec, if they are too large for it.
 *
 * A spec has at most 8 kB. What is larger is stored by store_file(), once for
 * the account, and the spec names it by its digest. The jobs of an array share
 * one script.
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "submission.h"

/*
 * From this length on, a spec is stored in parts. The database stores JSON in
 * a form of its own, which is a little longer than the text.
 */
#define SPEC_MOST	6000
#define FILE_MOST	(1024 * 1024)
#define TRY_SECONDS	60

static char *text_of(const json_t * json);
static void store(json_t * spec, const char *word, const char *org,
				  const char *account);

/*
 * Returns a spec that the database accepts, and stores the rest.
 */
const char *
LargeSpecStored(const char *text, const char *org, const char *account)
{
	static const char *const words[] = {"script", "env"};
	json_t	   *spec;
	char	   *stored;

	if (strlen(text) <= SPEC_MOST)
		return text;
	spec = json_loads(text, 0, NULL);
	for (int i = 0; i < 2; i++)
	{
		char	   *rest = text_of(spec);

		if (strlen(rest) > SPEC_MOST)
			store(spec, words[i], org, account);
		free(rest);
	}
	stored = text_of(spec);
	json_decref(spec);
	if (strlen(stored) > SPEC_MOST)
		Fail(CLI_USAGE, "the script's arguments and options are longer than"
			 " %d bytes; write them to a file that the script reads",
			 SPEC_MOST);
	return stored;
}

/*
 * Returns a spec for a quote, which stores nothing. The script and the
 * environment do not influence it.
 */
const char *
LargeSpecQuoted(const char *text)
{
	json_t	   *spec;
	char	   *quoted;

	if (strlen(text) <= SPEC_MOST)
		return text;
	spec = json_loads(text, 0, NULL);
	json_object_del(spec, "script");
	json_object_set_new(spec, "env", json_object());
	quoted = text_of(spec);
	json_decref(spec);
	return quoted;
}

static char *
text_of(const json_t * json)
{
	char	   *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);

	if (text == NULL)
		Fail(CLI_REFUSED, "out of memory");
	return text;
}

/*
 * Stores a member of the spec and replaces it by its digest. The variables of
 * an array's tasks are added to "env", so an empty one stays.
 */
static void
store(json_t * spec, const char *word, const char *org, const char *account)
{
	json_t	   *member = json_object_get(spec, word);
	const char *values[] = {org, account, json_is_string(member) ?
	json_string_value(member) : text_of(member)};
	PGresult   *result;
	char	   *name = Format("%s_sha256", word);

	if (strlen(values[2]) > FILE_MOST)
		Fail(CLI_USAGE, "the %s longer than %d bytes%s",
			 json_is_string(member) ? "script is" : "environment is", FILE_MOST,
			 json_is_string(member) ? "" : "; choose variables by --export");
	result = CliRepeat("SELECT gpucredit.store_file($1, $2, $3)", 3, values,
					   TRY_SECONDS);
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		CliRefused(result);
	json_object_set_new(spec, name, json_string(PQgetvalue(result, 0, 0)));
	if (json_is_string(member))
		json_object_del(spec, word);
	else
		json_object_set_new(spec, word, json_object());
	PQclear(result);
	free(name);
}
