/*-------------------------------------------------------------------------
 *
 * fund.h
 *		Jobs that wait for credit, and their next holds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_FUND_H
#define GPUCREDIT_FUND_H

#include "job/sweep.h"

/*
 * Selects unfunded jobs in the order in which they are tried: first the oldest
 * job of each account, then the second of each. At most $1 jobs are selected.
 * If more are unfunded, the first job of each kind goes before the second of
 * any kind, and the order of accounts depends on the seed $2, so that accounts
 * take turns. A kind is a set of jobs with the same account, pool, tier and
 * request class. The column of that name numbers the kinds, because if one job
 * of a kind finds no credit, no other job of the kind does. A held job is not
 * selected, as it waits without credit.
 */
#define UNFUNDED_MOST	1000
#define UNFUNDED_TURNS \
	" pg_catalog.hashtextextended(c.org || '/' || c.account, $2)," \
	" c.org, c.account"
#define UNFUNDED(columns, of_pool) \
	"SELECT" columns " FROM (SELECT u.*, pg_catalog.row_number()" \
	"   OVER (PARTITION BY u.org, u.account ORDER BY u.submitted_at, u.job)" \
	"    AS turn, pg_catalog.dense_rank() OVER (ORDER BY u.org, u.first)::int" \
	"    AS kind" \
	"  FROM (SELECT c.* FROM (SELECT k.org, k.job, k.account," \
	"     k.submitted_at, pg_catalog.first_value(k.job) OVER w AS first," \
	"     pg_catalog.row_number() OVER w AS n" \
	"    FROM gpucredit.job k" \
	"    WHERE k.state = 'unfunded' AND k.held_by IS NULL" of_pool \
	"    WINDOW w AS (PARTITION BY k.org, k.account, k.pool, k.tier, k.request_class" \
	"     ORDER BY k.submitted_at, k.job)) c" \
	"   ORDER BY c.n," UNFUNDED_TURNS ", c.submitted_at, c.job LIMIT $1) u) c" \
	" JOIN gpucredit.job j ON j.org = c.org AND j.job = c.job" \
	" ORDER BY c.turn," UNFUNDED_TURNS
#define UNFUNDED_OF_POOL " AND k.pool = $3"

extern bool FundWaitingJob(const char *org, int64 id, bool wait);
extern int64 FundSwept(Sweep *sweep);

#endif							/* GPUCREDIT_FUND_H */
