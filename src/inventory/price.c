/*-------------------------------------------------------------------------
 *
 * price.c
 *		Prices, with history: of a GPU per type, pool and kind of node; of a
 *		core and a GiB of main memory per pool.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "api/api.h"
#include "inventory/inventory.h"
#include "types/clip.h"
#include "types/gpureq.h"
#include "utils/builtins.h"

API_FUNCTION(gpucredit_set_price, set_price);
API_FUNCTION(gpucredit_set_resource_price, set_resource_price);

SQL_STATEMENT(price_last, SPI_OK_SELECT, "text, text, boolean, timestamptz",
			  "SELECT p.revision, p.per_gpu_hour FROM gpucredit.price p"
			  " WHERE p.gpu_type = $1 AND p.pool = $2 AND p.spot = $3"
			  " AND p.effective_at = $4 ORDER BY p.revision DESC LIMIT 1");
SQL_STATEMENT(price_insert, SPI_OK_INSERT,
			  "text, text, boolean, timestamptz, int, gpucredit.credits,"
			  " timestamptz",
			  "INSERT INTO gpucredit.price (gpu_type, pool, spot,"
			  " effective_at, revision, per_gpu_hour, recorded_at)"
			  " VALUES ($1, $2, $3, $4, $5, $6, $7)"
			  " ON CONFLICT (gpu_type, pool, spot, effective_at, revision)"
			  " DO NOTHING");
SQL_STATEMENT(price_read, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT p.gpu_type, p.pool, p.spot, p.effective_at,"
			  " p.per_gpu_hour, p.revision FROM gpucredit.price p"
			  " WHERE p.pool IN ($1, '') AND p.effective_at <= $2");
SQL_STATEMENT(price_known, SPI_OK_SELECT, "text",
			  "SELECT 1 FROM gpucredit.price p WHERE p.gpu_type = $1"
			  " LIMIT 1");
SQL_STATEMENT(node_known, SPI_OK_SELECT, "text",
			  "SELECT 1 FROM gpucredit.node n WHERE n.gpu_type = $1"
			  " LIMIT 1");

/* The price that takes precedence among the rows read so far. */
typedef struct InForce
{
	char	   *gpu_type;
	bool		spot;
	bool		own;			/* whether it is of this pool, not of all
								 * pools */
	TimestampTz since;
	int32		revision;
	Credits		per_gpu_hour;
} InForce;

static void record_price(AuditRow *audit, const char *type, const char *pool,
						 bool spot, TimestampTz effective_at, Credits price);
static bool compare_price(void *context, const Datum *values, const bool *nulls);
static bool text_is(Datum value, const char *word);
static int	compare_prices(const ListCell *a, const ListCell *b);

/*
 * Returns the prices in force in a pool at an instant, by type.  If a type
 * only has a spot price, this price applies on every node.
 */
int
PricesRead(const char *pool, TimestampTz at, bool read_only, Price **prices)
{
	List	   *in_force = NIL;
	int			n = 0;
	ListCell   *lc;

	SqlEach(&price_read,
			VALUES(TextValue(pool),
				   TimeValue(at)), read_only, compare_price, &in_force);
	list_sort(in_force, compare_prices);
	*prices = palloc(sizeof(Price) * Max(list_length(in_force), 1));
	foreach(lc, in_force)
	{
		const InForce *price = lfirst(lc);
		Price		both = {price->gpu_type, price->per_gpu_hour,
			price->per_gpu_hour};

		/* The spot price of a type comes after its regular price. */
		if (n > 0 && strcmp((*prices)[n - 1].gpu_type, price->gpu_type) == 0)
			(*prices)[n - 1].spot = price->per_gpu_hour;
		else
			(*prices)[n++] = both;
	}
	return n;
}

/*----------
 * Called for each price: keeps the one that is in force for each GPU type,
 * spot or regular.  This is a loop because sorting would cost the statement
 * more time.  The order of precedence is:
 *
 * 1. a price of the pool before a price of all pools;
 * 2. start of validity, the latest first;
 * 3. revision, the highest first.
 *----------
 */
static bool
compare_price(void *context, const Datum *values, const bool *nulls)
{
	List	  **in_force = context;
	bool		own = !text_is(values[1], "");
	bool		spot = DatumGetBool(values[2]);
	TimestampTz since = DatumGetTimestampTz(values[3]);
	int32		revision = DatumGetInt32(values[5]);
	InForce    *price = NULL;
	ListCell   *lc;

	foreach(lc, *in_force)
	{
		price = lfirst(lc);
		if (price->spot == spot && text_is(values[0], price->gpu_type))
			break;
		price = NULL;
	}
	if (price == NULL)
	{
		price = palloc(sizeof(InForce));
		price->gpu_type = TextDatumGetCString(values[0]);
		price->spot = spot;
		*in_force = lappend(*in_force, price);
	}
	else if (own != price->own ? price->own :
			 since != price->since ? since < price->since :
			 revision < price->revision)
		return true;
	price->own = own;
	price->since = since;
	price->revision = revision;
	price->per_gpu_hour = DatumGetCredits(values[4]);
	return true;
}

static bool
text_is(Datum value, const char *word)
{
	const char *data = VARDATA_ANY(DatumGetPointer(value));
	Size		size = VARSIZE_ANY_EXHDR(DatumGetPointer(value));

	return size == strlen(word) && memcmp(data, word, size) == 0;
}

/*----------
 * The order in which prices are returned:
 *
 * 1. GPU type;
 * 2. the regular price, then the spot price.
 *----------
 */
static int
compare_prices(const ListCell *a, const ListCell *b)
{
	const InForce *one = lfirst(a);
	const InForce *other = lfirst(b);
	int			order = strcmp(one->gpu_type, other->gpu_type);

	return order != 0 ? order : (int) one->spot - (int) other->spot;
}

/* Whether this type ever had a price or a node. */
bool
PriceTypeKnown(const char *gpu_type)
{
	Values	   *args = VALUES(TextValue(gpu_type));

	return SqlRun(&price_known, args).n > 0 ||
		SqlRun(&node_known, args).n > 0;
}

/*
 * Adds a price to the history.  Rows of the history never change, so the bills
 * of past runs can always be explained.  The same price for the same instant
 * is recorded only once.
 */
static void
record_price(AuditRow *audit, const char *type, const char *pool, bool spot,
			 TimestampTz effective_at, Credits price)
{
	TimestampTz now = audit->at;
	Values	   *name;
	int32		revision;

	/*
	 * If the caller passes now(), the start of its transaction, it means the
	 * present instant.
	 */
	if (effective_at == DT_NOBEGIN ||
		(effective_at < now && !ClockFrozen() &&
		 effective_at >= GetCurrentTransactionStartTimestamp()))
		effective_at = now;
	if (effective_at < now)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"effective_at\" is in the past"),
				 errdetail("Runs were billed at the prices of that time."),
				 errhint("Pass an instant from now on; refund() gives back "
						 "what a job paid too much.")));
	name = VALUES(TextValue(type), TextValue(pool ? pool : ""),
				  BoolValue(spot), TimeValue(effective_at));
	do
	{
		SqlResult	last = SqlRun(&price_last, name);

		revision = last.n > 0 ? SqlInt4(last, 0, 1) : -1;
		if (last.n > 0 && SqlCredits(last, 0, 2) == price)
		{
			audit->decision = "unchanged";
			break;
		}
		revision++;
		/* If another session has just recorded that revision, read again. */
	} while (SqlRun(&price_insert,
					VALUES(TextValue(type), TextValue(pool ? pool : ""),
						   BoolValue(spot), TimeValue(effective_at),
						   Int4Value(revision), CreditsValue(price),
						   TimeValue(now))).n == 0);
	AuditTime(audit, "effective_at", effective_at);
	AuditInt8(audit, "revision", revision);
}

Datum
call_set_price(PG_FUNCTION_ARGS)
{
	char	   *type = ArgName(fcinfo, 0, "gpu_type");
	Credits		price = ArgAmount(fcinfo, 1, "per_gpu_hour", true);
	char	   *pool = ArgNameOrNull(fcinfo, 2, "pool");
	TimestampTz effective_at = ArgTimeOrNull(fcinfo, 3, "effective_at");
	bool		spot = ArgBool(fcinfo, 4, "spot");
	AuditRow	audit = {.operation = "set_price", .decision = "set",
		.at = ClockNow()};

	if (!GpuTypeNameValid(type, strlen(type)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("malformed GPU type \"%s\"", ClipForMessage(type)),
				 errdetail("A request cannot name such a type."),
				 errhint("Use 1 to 63 bytes without \"|\", \"@\", \"*\" or "
						 "white space.")));

	SqlConnect();
	if (pool != NULL)
		(void) PoolShape(pool);
	record_price(&audit, type, pool, spot, effective_at, price);
	AuditText(&audit, "gpu_type", type);
	AuditText(&audit, "pool", pool);
	AuditCredits(&audit, "per_gpu_hour", price);
	AuditText(&audit, "spot", spot ? "true" : "false");
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}

/*
 * set_resource_price(): the prices of a core and of a GiB of memory are rows
 * of the same history, under names that no GPU type can have.
 */
Datum
call_set_resource_price(PG_FUNCTION_ARGS)
{
	static const char *const resources[] = {"cpu", "memory"};
	static const char *const names[] = {PRICE_CPU_CORE, PRICE_MEMORY_GIB};
	char	   *resource = ArgName(fcinfo, 0, "resource");
	Credits		price = ArgAmount(fcinfo, 1, "per_hour", true);
	char	   *pool = ArgNameOrNull(fcinfo, 2, "pool");
	TimestampTz effective_at = ArgTimeOrNull(fcinfo, 3, "effective_at");
	int			which = ArgWord(resource, "resource", resources,
								lengthof(resources));
	AuditRow	audit = {.operation = "set_resource_price",
		.decision = "set", .at = ClockNow()};

	SqlConnect();
	if (pool != NULL)
		(void) PoolShape(pool);
	record_price(&audit, names[which], pool, false, effective_at, price);
	AuditText(&audit, "resource", resource);
	AuditText(&audit, "pool", pool);
	AuditCredits(&audit, "per_hour", price);
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}
