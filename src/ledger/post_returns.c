/*-------------------------------------------------------------------------
 *
 * post_returns.c
 *		Writes the entries of many holds that return credit, and the sums
 *		that they change.
 *
 * LedgerPost() writes one posting with a statement for each bucket and part. A
 * sweep over a thousand holds would need thousands of statements. The function
 * here writes many postings with three statements. It can do so only for the
 * kind of move that sweeps make: from a hold to its bucket's own row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/errors.h"
#include "util/sql.h"
#include "ledger/post.h"

SQL_STATEMENT(entries_insert, SPI_OK_INSERT,
			  "timestamptz, text, text[], text[], bigint[], text[],"
			  " gpucredit.credits[], bigint[], int[], bigint[], int[], uuid[]",
			  "WITH e AS (INSERT INTO gpucredit.entry"
			  " (org, at, account, bucket, source,"
			  " target, amount, operation, hold, part, job, attempt, trace)"
			  " SELECT u.org, $1, u.account, u.bucket, 'held', u.target,"
			  " u.amount, $2, u.hold, u.part, NULLIF(u.job, 0),"
			  " NULLIF(u.attempt, 0), u.trace"
			  " FROM ROWS FROM (pg_catalog.unnest($3),"
			  "  pg_catalog.unnest($4), pg_catalog.unnest($5),"
			  "  pg_catalog.unnest($6), pg_catalog.unnest($7),"
			  "  pg_catalog.unnest($8), pg_catalog.unnest($9),"
			  "  pg_catalog.unnest($10), pg_catalog.unnest($11),"
			  "  pg_catalog.unnest($12))"
			  "  AS u (org, account, bucket, target, amount, hold, part,"
			  "  job, attempt, trace) RETURNING org, account, amount)"
			  " INSERT INTO gpucredit.account_delta (org, account, held, at)"
			  " SELECT e.org, e.account, OPERATOR(gpucredit.-)"
			  "  gpucredit.sum(e.amount), $1 FROM e GROUP BY e.org, e.account");
SQL_STATEMENT(parts_return, SPI_OK_UPDATE,
			  "text[], bigint[], int[], gpucredit.credits[],"
			  " gpucredit.credits[]",
			  "UPDATE gpucredit.hold_part p"
			  " SET held = p.held OPERATOR(gpucredit.-)"
			  "  (u.returned OPERATOR(gpucredit.+) u.lapsed),"
			  " returned = p.returned OPERATOR(gpucredit.+) u.returned,"
			  " lapsed = p.lapsed OPERATOR(gpucredit.+) u.lapsed"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2), pg_catalog.unnest($3),"
			  "  pg_catalog.unnest($4), pg_catalog.unnest($5))"
			  "  AS u (org, hold, part, returned, lapsed)"
			  " WHERE p.org = u.org AND p.hold = u.hold AND p.part = u.part");
SQL_STATEMENT(buckets_return, SPI_OK_UPDATE,
			  "text[], bigint[], gpucredit.credits[], gpucredit.credits[],"
			  " gpucredit.credits[], gpucredit.credits[]",
			  "UPDATE gpucredit.bucket b"
			  " SET held = b.held OPERATOR(gpucredit.-) u.held,"
			  " available = b.available OPERATOR(gpucredit.+) u.available,"
			  " expired = b.expired OPERATOR(gpucredit.+) u.expired,"
			  " revoked = b.revoked OPERATOR(gpucredit.+) u.revoked,"
			  " credited_total = b.credited_total"
			  "  OPERATOR(pg_catalog.+) u.available::pg_catalog.numeric"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2), pg_catalog.unnest($3),"
			  "  pg_catalog.unnest($4), pg_catalog.unnest($5),"
			  "  pg_catalog.unnest($6))"
			  "  AS u (org, bucket, held, available, expired, revoked)"
			  " WHERE b.org = u.org AND b.bucket = u.bucket");

/* a move with its posting */
typedef struct Return
{
	const Posting *posting;
	const Move *move;
} Return;

static int	list_returns(const Posting *postings, int n, Return **list);
static void insert_entries(const Return *list, int n);
static void change_parts(const Return *list, int n);
static void change_buckets(Return *list, int n);
static int	compare_buckets(const void *a, const void *b);

/*
 * Posts what holds return to their buckets' own rows, with the same result as
 * LedgerPost(). All postings have the same operation and the same instant. The
 * caller has locked the holds and buckets.
 */
void
LedgerPostReturns(const Posting *postings, int n)
{
	Return	   *list;
	int			moves = list_returns(postings, n, &list);

	if (moves == 0)
		return;
	insert_entries(list, moves);
	change_parts(list, moves);
	change_buckets(list, moves);
}

/* Lists all moves in order, and returns their number. */
static int
list_returns(const Posting *postings, int n, Return **list)
{
	int			moves = 0;

	for (int i = 0; i < n; i++)
		moves += postings[i].n;
	*list = palloc(sizeof(Return) * Max(moves, 1));
	moves = 0;
	for (int i = 0; i < n; i++)
	{
		for (int m = 0; m < postings[i].n; m++)
		{
			const Move *move = &postings[i].moves[m];

			Ensure(move->amount > 0 && move->source == HELD &&
				   move->target != SPENT && move->slice == 0,
				   "A move does not give back.");
			(*list)[moves++] = (Return)
			{
				&postings[i], move
			};
		}
	}
	return moves;
}

/* Appends an entry for each move. */
static void
insert_entries(const Return *list, int n)
{
	const char **texts = palloc(sizeof(char *) * 3 * n);
	int64	   *ids = palloc(sizeof(int64) * 3 * n);
	int32	   *numbers = palloc(sizeof(int32) * 2 * n);
	Credits    *amounts = palloc(sizeof(Credits) * n);
	Trace	   *traces = palloc(sizeof(Trace) * n);

	for (int i = 0; i < n; i++)
	{
		const Posting *posting = list[i].posting;

		texts[i] = posting->org;
		texts[n + i] = posting->account;
		texts[2 * n + i] = LedgerCompartment(list[i].move->target);
		ids[i] = list[i].move->bucket;
		ids[n + i] = posting->hold;
		ids[2 * n + i] = posting->cause->job;
		numbers[i] = list[i].move->part;
		numbers[n + i] = posting->cause->attempt;
		amounts[i] = list[i].move->amount;
		traces[i] = TraceOr(posting->trace);
	}
	(void) SqlRun(&entries_insert,
				  VALUES(TimeValue(list[0].posting->at),
						 TextValue(list[0].posting->cause->operation),
						 TextArrayValue(texts, n),
						 TextArrayValue(texts + n, n), Int8ArrayValue(ids, n),
						 TextArrayValue(texts + 2 * n, n),
						 CreditsArrayValue(amounts, n),
						 Int8ArrayValue(ids + n, n),
						 Int4ArrayValue(numbers, n),
						 Int8ArrayValue(ids + 2 * n, n),
						 Int4ArrayValue(numbers + n, n),
						 TraceArrayValue(traces, n)));
}

/* Changes the parts of the holds. No two moves have the same part. */
static void
change_parts(const Return *list, int n)
{
	const char **orgs = palloc(sizeof(char *) * n);
	int64	   *holds = palloc(sizeof(int64) * n);
	int32	   *parts = palloc(sizeof(int32) * n);
	Credits    *amounts = palloc0(sizeof(Credits) * 2 * n);

	for (int i = 0; i < n; i++)
	{
		const Move *move = list[i].move;

		orgs[i] = list[i].posting->org;
		holds[i] = list[i].posting->hold;
		parts[i] = move->part;
		amounts[move->target == AVAILABLE ? i : n + i] = move->amount;
	}
	Ensure(SqlRun(&parts_return,
				  VALUES(TextArrayValue(orgs, n), Int8ArrayValue(holds, n),
						 Int4ArrayValue(parts, n),
						 CreditsArrayValue(amounts, n),
						 CreditsArrayValue(amounts + n, n))).n == (uint64) n,
		   "A part of a hold is missing.");
}

/* Changes each bucket once, by the sum of its moves. */
static void
change_buckets(Return *list, int n)
{
	const char **orgs = palloc(sizeof(char *) * n);
	int64	   *buckets = palloc(sizeof(int64) * n);
	Credits    *changes[COMPARTMENTS];
	int			last = -1;

	for (int c = 0; c < COMPARTMENTS; c++)
		changes[c] = palloc0(sizeof(Credits) * n);
	qsort(list, n, sizeof(Return), compare_buckets);
	for (int i = 0; i < n; i++)
	{
		const Move *move = list[i].move;

		if (i == 0 || compare_buckets(&list[i - 1], &list[i]) != 0)
		{
			orgs[++last] = list[i].posting->org;
			buckets[last] = move->bucket;
		}
		changes[HELD][last] = CreditsAdd(changes[HELD][last], move->amount);
		changes[move->target][last] =
			CreditsAdd(changes[move->target][last], move->amount);
	}
	Ensure(SqlRun(&buckets_return,
				  VALUES(TextArrayValue(orgs, last + 1),
						 Int8ArrayValue(buckets, last + 1),
						 CreditsArrayValue(changes[HELD], last + 1),
						 CreditsArrayValue(changes[AVAILABLE], last + 1),
						 CreditsArrayValue(changes[EXPIRED], last + 1),
						 CreditsArrayValue(changes[REVOKED],
										   last + 1))).n == (uint64) last + 1,
		   "A bucket is missing.");
}

/*----------
 * The order of returned credits by the bucket that gets them:
 *
 * 1. bucket;
 * 2. organisation.
 *----------
 */
static int
compare_buckets(const void *a, const void *b)
{
	const Return *ra = a;
	const Return *rb = b;
	int64		ba = ra->move->bucket;
	int64		bb = rb->move->bucket;

	return ba != bb ? (ba > bb) - (ba < bb) :
		strcmp(ra->posting->org, rb->posting->org);
}
