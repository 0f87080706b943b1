/*-------------------------------------------------------------------------
 *
 * node_proof.c
 *		Does an agent speak for the node it names?
 *
 * Agents may share a login.  A node with a key (set_node_key) only accepts
 * agents that know it: each transaction proves that by the setting
 * gpucredit.node_key, whose SHA-256 is compared.  For an attempt, the key of
 * any of its nodes counts; placed() needs that of each node it names, because it
 * binds another's credit to them.  A node without a key accepts any agent, as does an
 * attempt whose nodes have none.  Members of gpucredit_agent must prove; roles
 * that could set a key need not: superusers, administrators, operators.
 *
 * Each backend remembers whether any key exists, so that calls cost nothing
 * without keys; it asks again when the table changes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "util/args.h"
#include "util/definer.h"
#include "util/sql.h"
#include "api/node_proof.h"
#include "types/clip.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"

#define PROVEN(key) \
	"k.sha256 = pg_catalog.sha256(pg_catalog.convert_to(" key ", 'UTF8'))"
#define ATTEMPT_PROVEN(org, job, attempt, key) \
	"SELECT pg_catalog.bool_or(" PROVEN(key) ")," \
	" pg_catalog.min(g.node) FROM gpucredit.attempt_gpu g" \
	" JOIN gpucredit.node_key k ON k.node = g.node" \
	" WHERE g.org = " org " AND g.job = " job " AND g.attempt = " attempt
SQL_STATEMENT(keys_any, SPI_OK_SELECT, "",
			  "SELECT 1 FROM gpucredit.node_key k LIMIT 1");
SQL_STATEMENT(node_proven, SPI_OK_SELECT, "text, text",
			  "SELECT " PROVEN("$2") ", k.node FROM gpucredit.node_key k"
			  " WHERE k.node = $1");
/* of a call that names several nodes, each must be proven */
SQL_STATEMENT(nodes_proven, SPI_OK_SELECT, "text[], text",
			  "SELECT " PROVEN("$2") ", k.node FROM gpucredit.node_key k"
			  " WHERE k.node = ANY ($1) AND NOT " PROVEN("$2")
			  " ORDER BY k.node LIMIT 1");
SQL_STATEMENT(attempt_proven, SPI_OK_SELECT, "text, bigint, int, text",
			  ATTEMPT_PROVEN("$1", "$2", "$3", "$4"));
SQL_STATEMENT(attempts_proven, SPI_OK_SELECT,
			  "text[], bigint[], int[], text",
			  "SELECT p.proven, p.node"
			  " FROM (SELECT pg_catalog.unnest($1) AS org,"
			  "  pg_catalog.unnest($2) AS job,"
			  "  pg_catalog.unnest($3) AS attempt) u"
			  " CROSS JOIN LATERAL (" ATTEMPT_PROVEN("u.org", "u.job",
													 "u.attempt", "$4")
			  "  OFFSET 0) p (proven, node)"
			  " WHERE NOT p.proven LIMIT 1");

static char *node_key = NULL;
static bool known = false;
static bool any_key;
static Oid	known_table = InvalidOid;

static const char *show_key(void);
static void table_changed(Datum arg, Oid relid);
static bool there_are_keys(void);
static void check_node(SqlStatement *statement, FunctionCallInfo fcinfo,
					   int n);
static void check_attempts(SqlStatement *statement, FunctionCallInfo fcinfo);
static void check(SqlStatement *statement, Values *args);

void
ProofInit(void)
{
	DefineCustomStringVariable("gpucredit.node_key",
							   "The key of the node that an agent speaks for.",
							   "Set in each transaction, as "
							   "set_config('gpucredit.node_key', $1, true). "
							   "Nobody can read it.",
							   &node_key, "", PGC_USERSET, 0,
							   NULL, NULL, show_key);
	CacheRegisterRelcacheCallback(table_changed, (Datum) 0);
}

/*
 * Hide the key from other users of the connection.
 */
static const char *
show_key(void)
{
	return *node_key == '\0' ? "" : "********";
}

static void
table_changed(Datum arg, Oid relid)
{
	if (!OidIsValid(relid) || relid == known_table)
		known = false;
}

/*
 * Refuse a call about a node or an attempt without proof.  An argument that
 * names nothing is left to the function.
 */
void
ProofCheckCall(ApiFunction entry, FunctionCallInfo fcinfo)
{
	Definer		definer;

	if (known && !any_key)
		return;
	/* the function may not yet have its owner's rights */
	definer = DefinerEnter(fcinfo);
	if (there_are_keys() && CallerHasRole("gpucredit_agent") &&
		!CallerHasRole("gpucredit_operator") &&
		!CallerHasRole("gpucredit_admin"))
	{
		SqlConnect();
		if (entry == API_heartbeat)
			check_node(&node_proven, fcinfo, 0);
		else if (entry == API_part_ended || entry == API_log_put)
			check_node(&node_proven, fcinfo, 3);
		else if (entry == API_placed)
			check_node(&nodes_proven, fcinfo, 3);
		else
			check_attempts(entry == API_meter_batch ? &attempts_proven :
						   &attempt_proven, fcinfo);
		SqlFinish();
	}
	DefinerLeave(definer);
}

/*
 * Has any node a key?
 */
static bool
there_are_keys(void)
{
	if (known)
		return any_key;
	known_table = get_relname_relid("node_key",
									get_namespace_oid("gpucredit", false));
	/* a change during the read makes it unknown again */
	known = true;
	PG_TRY();
	{
		SqlConnect();
		any_key = SqlReadLatest(&keys_any, NULL).n > 0;
		SqlFinish();
	}
	PG_CATCH();
	{
		known = false;
		PG_RE_THROW();
	}
	PG_END_TRY();
	return any_key;
}

/*
 * Check the key of the node, or the keys of the nodes, that an argument names.
 */
static void
check_node(SqlStatement *statement, FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		return;
	check(statement, VALUES(DatumValue(PG_GETARG_DATUM(n))));
}

/*
 * Check the key for the attempt, or the arrays of attempts, in the first three
 * arguments.
 */
static void
check_attempts(SqlStatement *statement, FunctionCallInfo fcinfo)
{
	Values		args = {0};

	for (int i = 0; i < 3; i++)
	{
		if (PG_ARGISNULL(i))
			return;
		ValuesAdd(&args, DatumValue(PG_GETARG_DATUM(i)));
	}
	check(statement, &args);
}

/*
 * Run a statement whose row says whether the proof holds, and for which node;
 * no row, or NULL: no proof is needed.
 */
static void
check(SqlStatement *statement, Values *args)
{
	SqlResult	row;

	ValuesAdd(args, TextValue(node_key));
	row = SqlReadLatest(statement, args);
	if (row.n == 0 || SqlIsNull(row, 0, 1) || SqlBool(row, 0, 1))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("not allowed without the key of node \"%s\"",
					ClipForMessage(SqlText(row, 0, 2))),
			 errdetail("The node has a key, and this transaction has not "
					   "proved that it knows the key."),
			 errhint("Call set_config('gpucredit.node_key', key, true) first, "
					 "in the same transaction.")));
}
