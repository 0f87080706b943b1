/*-------------------------------------------------------------------------
 *
 * node_key.c
 *		set_node_key(): after it, an agent must know a node's key.
 *
 * The row has the key's SHA-256 (api/node_proof.c compares).  It stays when
 * the node is removed: a new node of that name has the same key.
 *
 * Locks: its one row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/sql.h"
#include "util/not_found.h"
#include "api/api.h"

API_FUNCTION(set_node_key);

SQL_STATEMENT(node_exists, SPI_OK_SELECT, "text",
			  "SELECT 1 FROM gpucredit.node n WHERE n.node = $1");
SQL_STATEMENT(key_upsert, SPI_OK_INSERT, "text, bytea, timestamptz",
			  "INSERT INTO gpucredit.node_key (node, sha256, set_at)"
			  " VALUES ($1, $2, $3) ON CONFLICT (node)"
			  " DO UPDATE SET sha256 = EXCLUDED.sha256,"
			  " set_at = EXCLUDED.set_at");
SQL_STATEMENT(key_delete, SPI_OK_DELETE, "text",
			  "DELETE FROM gpucredit.node_key k WHERE k.node = $1");

Datum
call_set_node_key(PG_FUNCTION_ARGS)
{
	char	   *node = ArgName(fcinfo, 0, "node");
	bytea	   *sha256 = PG_ARGISNULL(1) ? NULL :
		ArgSha256(fcinfo, 1, "sha256");
	AuditRow	audit = {.operation = "set_node_key",
		.decision = sha256 ? "set" : "removed", .at = ClockNow()};
	Values	   *args;

	SqlConnect();
	args = VALUES(TextValue(node));
	if (sha256 == NULL)
		(void) SqlRun(&key_delete, args);
	else
	{
		if (SqlRun(&node_exists, args).n == 0)
			NotFoundNode(node);
		ValuesAdd(args, DatumValue(PointerGetDatum(sha256)),
				  TimeValue(audit.at));
		(void) SqlRun(&key_upsert, args);
	}
	AuditText(&audit, "node", node);
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}
