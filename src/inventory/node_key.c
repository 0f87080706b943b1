/*-------------------------------------------------------------------------
 *
 * node_key.c
 *		set_node_key(): from then on an agent must prove that it knows a
 *		node's key.
 *
 * The row stores the SHA-256 of the key, which api/node_proof.c compares.  The
 * row stays when the node is removed, so a new node of that name has the same
 * key.
 *
 * Locks: the key's row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/digest.h"
#include "util/sql.h"
#include "util/not_found.h"
#include "api/api.h"
#include "utils/builtins.h"

API_FUNCTION(gpucredit_set_node_key, set_node_key);

SQL_STATEMENT(node_exists, SPI_OK_SELECT, "text",
			  "SELECT 1 FROM gpucredit.node n WHERE n.node = $1");
SQL_STATEMENT(key_upsert, SPI_OK_INSERT, "text, bytea, timestamptz",
			  "INSERT INTO gpucredit.node_key (node, sha256, set_at)"
			  " VALUES ($1, $2, $3) ON CONFLICT (node)"
			  " DO UPDATE SET sha256 = EXCLUDED.sha256,"
			  " set_at = EXCLUDED.set_at");
SQL_STATEMENT(key_delete, SPI_OK_DELETE, "text",
			  "DELETE FROM gpucredit.node_key k WHERE k.node = $1");

static void audit_digest(AuditRow *audit, bytea *sha256);

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
	{
		if (SqlRun(&key_delete, args).n == 0)
			audit.decision = "unchanged";
	}
	else
	{
		if (SqlRun(&node_exists, args).n == 0)
			NotFoundNode(node);
		ValuesAdd(args, DatumValue(PointerGetDatum(sha256)),
				  TimeValue(audit.at));
		(void) SqlRun(&key_upsert, args);
		audit_digest(&audit, sha256);
	}
	AuditText(&audit, "node", node);
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}

/*
 * Adds the SHA-256 of the stored digest to the audit row, not the digest
 * itself: an auditor must not get something that guesses of the key can be
 * compared with.
 */
static void
audit_digest(AuditRow *audit, bytea *sha256)
{
	StringInfoData stored;
	uint8		digest[DIGEST_SIZE];
	char		hex[2 * DIGEST_SIZE + 1] = {0};

	initStringInfo(&stored);
	appendBinaryStringInfo(&stored, VARDATA_ANY(sha256),
						   VARSIZE_ANY_EXHDR(sha256));
	DigestOf(&stored, digest);
	(void) hex_encode((char *) digest, DIGEST_SIZE, hex);
	AuditText(audit, "digest", hex);
}
