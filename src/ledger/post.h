/*-------------------------------------------------------------------------
 *
 * post.h
 *		Entries: inside the ledger only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_POST_H
#define GPUCREDIT_POST_H

#include "ledger/ledger.h"

typedef enum Compartment
{
	ISSUED, AVAILABLE, HELD, SPENT, EXPIRED, REVOKED, MOVED
} Compartment;

#define COMPARTMENTS	7

/* An amount of a bucket, from one compartment to another. */
typedef struct Move
{
	int64		bucket;
	int32		part;			/* of the hold; 0: no hold's */
	Compartment source;
	Compartment target;
	Credits		amount;
} Move;

typedef struct Posting
{
	const char *org;
	const char *account;		/* on whose behalf */
	const Cause *cause;
	int64		hold;			/* 0: none */
	TimestampTz at;
	int			n;
	const Move *moves;
} Posting;

extern void LedgerPost(const Posting *posting);

/* What a locked bucket gives to a draw. */
typedef struct DrawPart
{
	int64		bucket;
	Credits		amount;
	TimestampTz expires_at;
} DrawPart;

/* What to draw, for whom, and (filled in) from where. */
typedef struct Draw
{
	const AccountPath *path;
	const Purpose *purpose;
	const Hold *hold;			/* being extended, or NULL */
	Credits		amount;
	bool		wait;
	TimestampTz at;				/* the instant it is good for */
	int			nparts;
	int			maxparts;
	DrawPart   *parts;
} Draw;

extern LedgerStatus LedgerDraw(Draw *draw);
extern void LedgerReclaim(const AccountPath *path, Credits amount);

/* The columns of burn order: total, and immutable. */
#define BURN_ORDER \
	" b.priority, b.expires_at NULLS LAST," \
	" CASE b.kind WHEN 'promo' THEN 1 WHEN 'grant' THEN 2 ELSE 3 END," \
	" pg_catalog.length(b.account) DESC, b.effective_at, b.bucket"

#endif							/* GPUCREDIT_POST_H */
