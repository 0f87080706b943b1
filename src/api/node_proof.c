/*-------------------------------------------------------------------------
 *
 * node_proof.c
 *		Checks that an agent speaks for the node it names.
 *
 * Agents may share a login.  A node with a key (set_node_key) only accepts
 * agents that know the key: in each transaction the agent sets
 * gpucredit.node_key, and the setting's SHA-256 is compared with the stored
 * one.  For an attempt, the key of any of its nodes suffices.  placed() needs
 * the key of each node that it names, because it spends the credit of
 * another's job on them.  A node without a key accepts any agent, as does an
 * attempt whose nodes have no keys.  A call on several nodes needs the key of
 * each.  Members of gpucredit_agent must prove the key.  Superusers,
 * administrators and operators need not, as they could set a new one anyway.
 *
 * Each backend remembers whether any key exists, so that calls cost nothing
 * extra in a cluster without keys.  It reads this again when the table of keys
 * changes.
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
/*
 * For a call that names several nodes: returns a node whose key does not
 * match, if there is one.
 */
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
 * The show hook: hides the key from other users of the same connection, such
 * as the next one in a pool.
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
 * Raises an error for a call about a node or an attempt whose key is not
 * proven.  If an argument is null, the function itself raises the error.
 */
void
ProofCheckCall(ApiFunction entry, FunctionCallInfo fcinfo)
{
	Definer		definer;

	if (known && !any_key)
		return;

	/*
	 * The statements below need the rights of the function's owner, and the
	 * function may be SECURITY INVOKER.
	 */
	definer = DefinerEnter(fcinfo);
	if (there_are_keys() && CallerIsAgent())
	{
		SqlConnect();
		if (entry == API_heartbeat || entry == API_reclaim ||
			entry == API_report_topology)
			check_node(&node_proven, fcinfo, 0);
		else if (entry == API_part_ended || entry == API_log_put ||
				 entry == API_log_keep)
			check_node(&node_proven, fcinfo, 3);
		else if (entry == API_placed)
			check_node(&nodes_proven, fcinfo, 3);
		else if (entry == API_reclaim_nodes)
			check_node(&nodes_proven, fcinfo, 0);
		else
			check_attempts(entry == API_meter_batch ? &attempts_proven :
						   &attempt_proven, fcinfo);
		SqlFinish();
	}
	DefinerLeave(definer);
}

/* Whether any node has a key. */
static bool
there_are_keys(void)
{
	if (known)
		return any_key;
	known_table = get_relname_relid("node_key",
									get_namespace_oid("gpucredit", false));

	/*
	 * Set this before the read: if the table changes during it, the callback
	 * resets this flag, and the next call reads again.
	 */
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
 * Checks the key of the node, or the keys of the array of nodes, in argument
 * n.
 */
static void
check_node(SqlStatement *statement, FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		return;
	check(statement, VALUES(DatumValue(PG_GETARG_DATUM(n))));
}

/*
 * Checks the key for the attempt, or the array of attempts, in the first three
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
 * Runs a statement that returns a row with whether the key matches and with
 * the node's name, and raises an error if it does not match.  No proof is
 * needed if there is no row, or a null.
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
