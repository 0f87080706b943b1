/*-------------------------------------------------------------------------
 *
 * spend.c
 *		What accounts have spent, less refunds: recorded as it happens.
 *
 * Each settlement and refund appends a delta; upkeep folds the deltas into
 * totals and into days, so nothing here is a row that two calls meet at.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/sql.h"
#include "api/count.h"
#include "ledger/alert.h"
#include "ledger/post.h"

SQL_STATEMENT(spend_insert, SPI_OK_INSERT,
			  "text, text, gpucredit.credits, timestamptz",
			  "INSERT INTO gpucredit.spend_delta (org, account, spent, day)"
			  " VALUES ($1, $2, $3, pg_catalog.timezone('UTC',"
			  "  $4)::pg_catalog.date)");

/*
 * Record what the account of a hold has spent at an instant; below 0: it got
 * so much back.
 */
void
SpendAdd(const Hold *hold, Credits spent, TimestampTz at)
{
	SqlArgs		args = {0};

	SqlArgText(&args, hold->org);
	SqlArgText(&args, hold->account);
	SqlArgCredits(&args, spent);
	SqlArgTime(&args, at);
	(void) SqlRun(&spend_insert, &args);
	CountSpend(spent);
	if (spent > 0)
		AlertSpend(hold->org, hold->account, at);
}
