/*-------------------------------------------------------------------------
 *
 * account.h
 *		An account and the accounts above it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ACCOUNT_H
#define GPUCREDIT_ACCOUNT_H

#include "datatype/timestamp.h"
#include "types/credits.h"
#include "utils/jsonb.h"

#define ACCOUNT_MAX_LEVELS	8

/* An account and its ancestors, leaf first; the last one is ''. */
typedef struct AccountPath
{
	const char *org;
	int			n;
	const char *accounts[ACCOUNT_MAX_LEVELS + 1];
	/* as AccountSuspended() saw */
	bool		sliced;			/* one of them is */
	bool		leased;			/* for a lease: only hard budgets count it */
	bool		looked;			/* the fields below are known */
	bool		watched;		/* one of them has a balance threshold */
	Credits		owed;			/* what the organisation's use cost and nobody
								 * paid (uncollected.h) */
	Jsonb	   *limits[ACCOUNT_MAX_LEVELS + 1]; /* NULL: none */
	TimestampTz looked_at;		/* of ClockSteady() */
} AccountPath;

/*
 * A path's levels as rows "p", to look up a few rows at each level. Join
 * LATERAL with OFFSET 0. With "= ANY" a generic plan assumes ten elements, and
 * reads all accounts of an organisation with a few dozen.
 */
#define PATH_LEVELS(n) "(SELECT pg_catalog.unnest($" #n ") AS account) p"

extern AccountPath AccountParse(const char *org, const char *account);
extern bool AccountSuspended(AccountPath *path);	/* UC001 */

#endif							/* GPUCREDIT_ACCOUNT_H */
