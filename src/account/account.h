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

/*
 * An account and the accounts above it: the account first, the organisation
 * ('') last.
 */
typedef struct AccountPath
{
	const char *org;
	int			n;
	const char *accounts[ACCOUNT_MAX_LEVELS + 1];
	/* The fields below are filled by AccountSuspended(). */
	bool		sliced;			/* whether an account of the path has slices */
	bool		leased;			/* for a lease, which only counts in hard
								 * budgets */
	bool		looked;			/* whether the fields below are known */
	bool		watched;		/* whether an account of the path has a
								 * balance threshold */
	Credits		owed;			/* what the organisation used and has not paid
								 * (uncollected.h) */
	Jsonb	   *limits[ACCOUNT_MAX_LEVELS + 1]; /* NULL for an account without
												 * limits */
	TimestampTz looked_at;		/* when they were read, by ClockSteady() */
} AccountPath;

/*
 * The levels of a path as rows "p", for statements that look a few rows up at
 * each level.  They must be joined LATERAL, with OFFSET 0.  With "= ANY" a
 * generic plan would assume ten elements, and read all accounts of an
 * organisation that has a few dozen.
 */
#define PATH_LEVELS(n) "(SELECT pg_catalog.unnest($" #n ") AS account) p"

extern AccountPath AccountParse(const char *org, const char *account);
extern bool AccountSuspended(AccountPath *path);	/* raises UC001 */

#endif							/* GPUCREDIT_ACCOUNT_H */
