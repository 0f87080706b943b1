/*-------------------------------------------------------------------------
 *
 * price.c
 *		What a GPU costs: per type, pool and kind of node, with history.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "common/args.h"
#include "common/clock.h"
#include "common/errors.h"
#include "common/sql.h"
#include "entry/entry.h"
#include "inventory/inventory.h"
#include "types/clip.h"
#include "types/gpureq.h"

ENTRY_POINT(set_price);

SQL_STATEMENT(price_upsert, SPI_OK_INSERT,
			  "text, text, boolean, timestamptz, gpucredit.credits",
			  "INSERT INTO gpucredit.price"
			  " (gpu_type, pool, spot, effective_at, per_gpu_hour)"
			  " VALUES ($1, $2, $3, $4, $5)"
			  " ON CONFLICT (gpu_type, pool, spot, effective_at)"
			  " DO UPDATE SET per_gpu_hour = EXCLUDED.per_gpu_hour");
/* a pool's own price before the general one, then the latest */
SQL_STATEMENT(price_read, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT DISTINCT ON (p.gpu_type, p.spot)"
			  " p.gpu_type, p.spot, p.per_gpu_hour FROM gpucredit.price p"
			  " WHERE p.pool IN ($1, '') AND p.effective_at <= $2"
			  " ORDER BY p.gpu_type, p.spot, p.pool = '',"
			  " p.effective_at DESC");
SQL_STATEMENT(price_known, SPI_OK_SELECT, "text",
			  "SELECT 1 FROM gpucredit.price p WHERE p.gpu_type = $1"
			  " LIMIT 1");
SQL_STATEMENT(node_known, SPI_OK_SELECT, "text",
			  "SELECT 1 FROM gpucredit.node n WHERE n.gpu_type = $1"
			  " LIMIT 1");

/*
 * The prices in force in a pool at an instant, by type.  A type with only a
 * spot price has that on every node.
 */
int
PricesRead(const char *pool, TimestampTz at, bool read_only, Price **prices)
{
	SqlArgs		args = {0};
	SqlResult	rows;
	int			n = 0;

	SqlArgText(&args, pool);
	SqlArgTime(&args, at);
	rows = read_only ? SqlRead(&price_read, &args) :
		SqlRun(&price_read, &args);
	*prices = palloc(sizeof(Price) * Max(rows.n, 1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		char	   *type = SqlText(rows, i, 1);
		Credits		price = SqlCredits(rows, i, 3);

		/* false sorts before true: a spot price follows the other */
		if (n > 0 && strcmp((*prices)[n - 1].gpu_type, type) == 0)
			(*prices)[n - 1].spot = price;
		else
			(*prices)[n++] = (Price){type, price, price};
	}
	SqlFree(&rows);
	return n;
}

/*
 * Has anybody ever priced or registered this type?
 */
bool
PriceTypeKnown(const char *gpu_type)
{
	SqlArgs		args = {0};

	SqlArgText(&args, gpu_type);
	return SqlRun(&price_known, &args).n > 0 ||
		SqlRun(&node_known, &args).n > 0;
}

Datum
call_set_price(PG_FUNCTION_ARGS)
{
	char	   *type = ArgName(fcinfo, 0, "gpu_type");
	Credits		price = ArgAmount(fcinfo, 1, "per_gpu_hour", true);
	char	   *pool = ArgNameOrNull(fcinfo, 2, "pool");
	TimestampTz effective_at = ArgTimeOrNull(fcinfo, 3, "effective_at");
	bool		spot = ArgBool(fcinfo, 4, "spot");
	SqlArgs		args = {0};
	AuditRow	audit = {.operation = "set_price", .decision = "set",
		.at = ClockNow()};

	if (!GpuTypeNameValid(type, strlen(type)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("malformed GPU type \"%s\"", ClipForMessage(type)),
				 errdetail("A request could not name it."),
				 errhint("Use 1 to 63 bytes without \"|\", \"@\", \"*\" or "
						 "white space.")));
	if (effective_at == DT_NOBEGIN)
		effective_at = audit.at;

	SqlConnect();
	if (pool != NULL)
		(void) PoolShape(pool);
	SqlArgText(&args, type);
	SqlArgText(&args, pool ? pool : "");
	SqlArgBool(&args, spot);
	SqlArgTime(&args, effective_at);
	SqlArgCredits(&args, price);
	(void) SqlRun(&price_upsert, &args);
	AuditText(&audit, "gpu_type", type);
	AuditText(&audit, "pool", pool);
	AuditCredits(&audit, "per_gpu_hour", price);
	AuditText(&audit, "spot", spot ? "true" : "false");
	AuditTime(&audit, "effective_at", effective_at);
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}
