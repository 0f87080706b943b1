/*-------------------------------------------------------------------------
 *
 * report_topology.c
 *		SQL function report_topology: where an agent found its node.
 *
 * The report is stored beside what register_node() named, which goes before it
 * wherever nodes are loaded.  A report that says what the last one said takes
 * no lock and writes nothing, so agents may repeat it.  A change makes each
 * backend load the pool's nodes again; an agent whose reports alternate is
 * therefore answered with false for a minute after each change.
 *
 * Locks: pool, then the node's row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/json_value.h"
#include "util/not_found.h"
#include "util/sql.h"
#include "api/api.h"
#include "inventory/inventory.h"
#include "types/control.h"
#include "types/gpuset_parse.h"

API_FUNCTION(gpucredit_report_topology, report_topology);

#define CHANGE_EVERY	INT64CONST(60000000)	/* microseconds between two
												 * changes of a node */

static const char *const names[] = {"leaf", "nvlink_domain", "source", "spine"};
const char *const TopologyMbpsWords[DECIDE_LEVELS] = {"nvlink_mbps",
"leaf_mbps", "spine_mbps"};

/* Whether a report is news, and whether it comes too soon for that. */
#define TOPOLOGY_READ \
	"SELECT n.topology IS NOT DISTINCT FROM $2," \
	" COALESCE(n.topology_at > $3, false) FROM gpucredit.node n" \
	" WHERE n.node = $1"
SQL_STATEMENT(topology_read, SPI_OK_SELECT, "text, jsonb, timestamptz",
			  TOPOLOGY_READ);
SQL_STATEMENT(topology_write, SPI_OK_UPDATE, "text, jsonb, timestamptz",
			  "UPDATE gpucredit.node n SET topology = $2, topology_at = $3"
			  " WHERE n.node = $1");

static bool is_settled(const char *node, Jsonb *topology, bool *in_force);
static Jsonb *parse_topology(FunctionCallInfo fcinfo, int n);
static JsonbValue *find(const Jsonb *json, const char *word);
static bool is_name(const JsonbValue *value);
static void check_pcie(JsonbValue *value);
static void push(JsonbParseState **state, const char *word, JsonbValue *value);
static pg_attribute_noreturn() void refuse(const char *word,
										   const char *hint);

Datum
call_report_topology(PG_FUNCTION_ARGS)
{
	char	   *node = ArgName(fcinfo, 0, "node");
	Jsonb	   *topology = parse_topology(fcinfo, 1);
	char	   *pool;
	bool		in_force;

	SqlConnect();
	if (!is_settled(node, topology, &in_force))
	{
		pool = NodeLockPool(node, true);
		if (!is_settled(node, topology, &in_force))
		{
			(void) SqlRun(&topology_write,
						  VALUES(TextValue(node), JsonValue(topology),
								 TimeValue(ClockNow())));
			NodeAudit(fcinfo, "report_topology", "discovered", pool, NULL);
			in_force = true;
		}
	}
	SqlFinish();
	PG_RETURN_BOOL(in_force);
}

/*
 * Whether a report changes nothing: because it is in force already, or because
 * the node changed a moment ago.
 */
static bool
is_settled(const char *node, Jsonb *topology, bool *in_force)
{
	SqlResult	row = SqlRun(&topology_read,
							 VALUES(TextValue(node), JsonValue(topology),
									TimeValue(ClockAdd(ClockNow(),
													   -CHANGE_EVERY))));

	if (row.n == 0)
		NotFoundNode(node);
	*in_force = SqlBool(row, 0, 1);
	return *in_force || SqlBool(row, 0, 2);
}

/* Checks a report, and copies it without unknown words. */
static Jsonb *
parse_topology(FunctionCallInfo fcinfo, int n)
{
	Jsonb	   *json = ArgObject(fcinfo, n, "topology");
	JsonbParseState *state = NULL;
	JsonbValue *value;
	int64		number;

	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < (int) lengthof(names); i++)
	{
		value = find(json, names[i]);
		if (value != NULL && !is_name(value))
			refuse(names[i], "Write a text of 1 to 255 bytes without control "
				   "characters.");
		push(&state, names[i], value);
	}
	for (int i = 0; i < DECIDE_LEVELS; i++)
	{
		value = find(json, TopologyMbpsWords[i]);
		if (value != NULL && (!JsonWhole(value, &number) || number < 0 ||
							  number > MOST_MBPS))
			refuse(TopologyMbpsWords[i],
				   "Write a whole number of Mb/s, from 0 to 1000000000.");
		push(&state, TopologyMbpsWords[i], value);
	}
	value = find(json, "pcie");
	if (value != NULL)
		check_pcie(value);
	push(&state, "pcie", value);
	value = pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	return JsonbValueToJsonb(value);
}

/* Adds a word to the copy, if the report has it. */
static void
push(JsonbParseState **state, const char *word, JsonbValue *value)
{
	JsonbValue	key = {.type = jbvString};

	if (value == NULL)
		return;
	key.val.string.val = unconstify(char *, word);
	key.val.string.len = (int) strlen(word);
	(void) pushJsonbValue(state, WJB_KEY, &key);
	(void) pushJsonbValue(state, WJB_VALUE, value);
}

static JsonbValue *
find(const Jsonb *json, const char *word)
{
	return getKeyJsonValueFromContainer((JsonbContainer *) &json->root, word,
										(int) strlen(word), NULL);
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

/* Refuses a value that is not an array of sets of devices. */
static void
check_pcie(JsonbValue *value)
{
	const char *hint = "Write an array of 64 sets of devices at most, each as "
		"\"{0-3}\".";
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	v;
	int			n = 0;

	if (value->type != jbvBinary ||
		!JsonContainerIsArray(value->val.binary.data))
		refuse("pcie", hint);
	it = JsonbIteratorInit(value->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		GpuSet		set;
		size_t		where;

		if (token == WJB_ELEM &&
			(++n > DECIDE_MAX_DEVICES || !is_name(&v) ||
			 GpuSetParse(v.val.string.val, (size_t) v.val.string.len, &set,
						 &where) != GPUSET_PARSE_OK))
			refuse("pcie", hint);
	}
}

static void
refuse(const char *word, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("bad value of \"%s\" in \"topology\"", word),
			 errdetail("The word does not accept this value."),
			 errhint("%s", hint)));
}
