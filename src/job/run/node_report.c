/*-------------------------------------------------------------------------
 *
 * node_report.c
 *		Parses an agent's report about its node and itself.
 *
 * A new boot_id means that the machine was restarted, and that no process from
 * before runs any more. incarnation counts the starts of the agent: if two
 * agents of one machine run, the older one is refused, and exits. address,
 * version and devices (the devices' UUIDs, in order) are for readers. logs is
 * whether the agent serves jobs' output (log_wish.c). poke is the port on
 * which the agent receives datagrams.  containment is the mechanism that keeps
 * a job's processes together: cgroup, cgroup_no_memory (a cgroup that does not
 * limit their memory) or none.  pulling lists attempts that wait for their
 * image.  out_of_service says, by the number of each device that the agent keeps
 * out of service, why it does.  sessions lists the terminals and forwarded ports that are open
 * (open_session.c).  signals lists the signals to jobs that were delivered
 * (signal_job.c).  typed lists attempts in whose terminals somebody typed a
 * moment ago (job/idle.c).  Unknown members are dropped, so that an agent may be newer
 * than the server.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/errors.h"
#include "util/json_value.h"
#include "decide/decide.h"
#include "job/run/node_report.h"
#include "job/job.h"
#include "types/clip.h"
#include "types/control.h"

static const char *const known[] = {"address", "boot_id", "containment",
	"devices", "incarnation", "logs", "out_of_service", "poke", "pulling", "sessions",
"signals", "typed", "version"};

#define MOST_SESSIONS	1000
#define MOST_SIGNALS	1000
#define MOST_PULLING	1000	/* largest number of attempts that a report
								 * names */

static JsonbValue *find(const Jsonb *json, const char *word);
static char *text_of(const JsonbValue *value);
static bool is_name(const JsonbValue *value);
static void check_names(JsonbValue *value, const char *word, int most,
						const char *hint);
static void check_reasons(JsonbValue *value);
static bool is_device(const JsonbValue *key);
static Jsonb *known_words(const Jsonb *json);
static pg_attribute_noreturn() void refuse(const char *word,
										   const char *hint);
static pg_attribute_noreturn() void refuse_older(const char *node,
												 const char *why,
												 const char *hint);

/* Parses and checks the argument "about". */
About
ParseNodeReport(FunctionCallInfo fcinfo, int n)
{
	static const char *const names[] = {"address", "boot_id", "containment",
	"poke", "version"};
	Jsonb	   *json;
	JsonbValue *value;
	int64		number;

	if (PG_ARGISNULL(n))
		return (About)
	{
		.incarnation = -1
	};
	json = ArgObject(fcinfo, n, "about");
	for (int i = 0; i < (int) lengthof(names); i++)
	{
		value = find(json, names[i]);
		if (value != NULL && !is_name(value))
			refuse(names[i], "Write a text of 1 to 255 bytes without control "
				   "characters.");
	}
	value = find(json, "incarnation");
	if (value != NULL && !JsonWhole(value, &number))
		refuse("incarnation", "Write a whole number that grows with each "
			   "start of the agent.");
	value = find(json, "logs");
	if (value != NULL && value->type != jbvBool)
		refuse("logs", "Write true if the agent serves jobs' output.");
	value = find(json, "devices");
	if (value != NULL)
		check_names(value, "devices", DECIDE_MAX_DEVICES, "Write an array of one "
					"UUID per device, in their order, for 64 devices at most.");
	value = find(json, "pulling");
	if (value != NULL)
		check_names(value, "pulling", MOST_PULLING, "Write an array of "
					"'org/job/attempt', of 1000 attempts at most.");
	value = find(json, "out_of_service");
	if (value != NULL)
		check_reasons(value);
	value = find(json, "sessions");
	if (value != NULL)
		check_names(value, "sessions", MOST_SESSIONS, "Write an array of the "
					"digests of sessions that are open, of 1000 at most.");
	value = find(json, "signals");
	if (value != NULL)
		check_names(value, "signals", MOST_SIGNALS, "Write an array of the "
					"ids of signals that were delivered, of 1000 at most.");
	value = find(json, "typed");
	if (value != NULL)
		check_names(value, "typed", MOST_SESSIONS, "Write an array of "
					"'org/job/attempt', of 1000 attempts at most.");
	return AboutOf(known_words(json));
}

/*
 * Reads the fields of a report from an object that was checked. json is NULL
 * if nothing was reported.
 */
About
AboutOf(Jsonb *json)
{
	About		about = {json, NULL, NULL, -1};
	JsonbValue *value;

	if (json == NULL)
		return about;
	about.boot_id = text_of(find(json, "boot_id"));
	about.address = text_of(find(json, "address"));
	value = find(json, "incarnation");
	if (value != NULL)
		(void) JsonWhole(value, &about.incarnation);
	return about;
}

/*
 * Refuses the report of an agent that is older than the agent of the last
 * report. Returns whether the machine was restarted since the last report.
 * boot_before is the boot_id before the last one.
 */
bool
AboutFollows(const char *node, const About *reported, const About *before,
			 const char *boot_before)
{
	bool		rebooted = reported->boot_id != NULL &&
		before->boot_id != NULL &&
		strcmp(reported->boot_id, before->boot_id) != 0;

	if (rebooted && boot_before != NULL &&
		strcmp(reported->boot_id, boot_before) == 0)
		refuse_older(node, "The machine was restarted after that "
					 "\"boot_id\", or two machines use one name.",
					 "Give each machine a node of its own.");
	if (!rebooted && reported->incarnation >= 0 &&
		reported->incarnation < before->incarnation)
		refuse_older(node,
					 "An agent with a higher \"incarnation\" speaks for the "
					 "node.", "End this agent, but not the jobs that it runs.");
	return rebooted;
}

static JsonbValue *
find(const Jsonb *json, const char *word)
{
	return getKeyJsonValueFromContainer((JsonbContainer *) &json->root, word,
										(int) strlen(word), NULL);
}

static char *
text_of(const JsonbValue *value)
{
	return value == NULL ? NULL :
		pnstrdup(value->val.string.val, value->val.string.len);
}

/* Whether a value is a text that can be shown unchanged. */
static bool
is_name(const JsonbValue *value)
{
	int			size;
	pg_wchar	code;

	return value->type == jbvString && value->val.string.len > 0 &&
		value->val.string.len <= ARG_NAME_MAX &&
		ControlCharIn(value->val.string.val, value->val.string.len, &size,
					  &code) == NULL;
}

/*
 * Refuses a value that is not an array of names, or has more than `most` of
 * them.
 */
static void
check_names(JsonbValue *value, const char *word, int most, const char *hint)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	v;
	int			n = 0;

	if (value->type != jbvBinary ||
		!JsonContainerIsArray(value->val.binary.data))
		refuse(word, hint);
	it = JsonbIteratorInit(value->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token == WJB_ELEM && (!is_name(&v) || ++n > most))
			refuse(word, hint);
	}
}

/*
 * Refuses a value that is not an object with a text for each device that it
 * names.
 */
static void
check_reasons(JsonbValue *value)
{
	const char *hint = "Write an object that names devices by their numbers, "
		"0 to 63, and says of each, as a text of 1 to 255 bytes, why it is "
		"out of service.";
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	v;

	if (value->type != jbvBinary ||
		!JsonContainerIsObject(value->val.binary.data))
		refuse("out_of_service", hint);
	it = JsonbIteratorInit(value->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if ((token == WJB_KEY && !is_device(&v)) ||
			(token == WJB_VALUE && !is_name(&v)))
			refuse("out_of_service", hint);
	}
}

/* Whether a key is the number of a device that a node may have. */
static bool
is_device(const JsonbValue *key)
{
	const char *text = key->val.string.val;
	int			length = key->val.string.len;

	if (length == 1)
		return text[0] >= '0' && text[0] <= '9';
	return length == 2 && text[0] >= '1' && text[0] <= '6' &&
		text[1] >= '0' && text[1] <= (text[0] == '6' ? '3' : '9');
}

/*
 * Returns why devices are out of service, as the report says: a JSON object, or
 * NULL if it names none.
 */
char *
AboutOutOfService(const About *about)
{
	JsonbValue *value = about->json == NULL ? NULL :
		find(about->json, "out_of_service");

	if (value == NULL || JsonContainerSize(value->val.binary.data) == 0)
		return NULL;
	return JsonbToCString(NULL, value->val.binary.data,
						  value->val.binary.len);
}

/* Copies a report without its unknown members. */
static Jsonb *
known_words(const Jsonb *json)
{
	JsonbParseState *state = NULL;
	JsonbValue *result;

	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < (int) lengthof(known); i++)
	{
		JsonbValue *value = find(json, known[i]);
		JsonbValue	key = {.type = jbvString};

		if (value == NULL)
			continue;
		key.val.string.val = unconstify(char *, known[i]);
		key.val.string.len = (int) strlen(known[i]);
		(void) pushJsonbValue(&state, WJB_KEY, &key);
		(void) pushJsonbValue(&state, WJB_VALUE, value);
	}
	result = pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	return JsonbValueToJsonb(result);
}

static void
refuse(const char *word, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("bad value of \"%s\" in \"about\"", word),
			 errdetail("The word does not accept this value."),
			 errhint("%s", hint)));
}

static void
refuse_older(const char *node, const char *why, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_BAD_STATE),
			 errmsg("another agent speaks for node \"%s\"",
					ClipForMessage(node)),
			 errdetail("%s", why),
			 errhint("%s", hint)));
}
