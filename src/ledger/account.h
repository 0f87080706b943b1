/*-------------------------------------------------------------------------
 *
 * account.h
 *		Reading an account's path, with whatever else is known of its levels.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ACCOUNT_H
#define GPUCREDIT_ACCOUNT_H

#include "common/sql.h"
#include "ledger/ledger.h"

/*
 * The levels of a path there are, "p" and "a", and what AccountSee() takes.
 * The first of an organisation's budgets is asked for in order, which only the
 * key has: to find any, the planner may read those of all, who has none or not.
 */
#define ACCOUNT_TYPES "text, text, text[]"
#define ACCOUNT_COLUMNS(budgeted) \
	"a.suspended, p.account = $2, a.slices > 1," \
	" a.balance_low IS NOT NULL, " budgeted
#define ORG_BUDGETED \
	"(SELECT b.account FROM gpucredit.budget b WHERE b.org = $1" \
	"  ORDER BY b.account LIMIT 1) IS NOT NULL"
#define ACCOUNT_LEVELS \
	" FROM " PATH_LEVELS(3) " CROSS JOIN LATERAL (SELECT a.suspended," \
	"  a.slices, a.balance_low FROM gpucredit.account a" \
	"  WHERE a.org = $1 AND a.account = p.account OFFSET 0) a"

/* A look at a path. */
typedef struct AccountLook
{
	AccountPath *path;
	bool		exists;
	bool		suspended;
} AccountLook;

extern void AccountLookWith(SqlStatement *statement, SqlRowFunction see,
							AccountLook *look);
extern void AccountSee(AccountLook *look, const Datum *values);

#endif							/* GPUCREDIT_ACCOUNT_H */
