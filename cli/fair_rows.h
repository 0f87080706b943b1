/*-------------------------------------------------------------------------
 *
 * fair_rows.h
 *		Accounts of a pool in the order of fair share, as Slurm's commands list
 *		them.  Operators may read them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_FAIR_ROWS_H
#define GPUCREDIT_CLI_FAIR_ROWS_H

/*
 * The SQL of rows of fair_share() for pools "p", with Slurm's factor, which is 1
 * for the account whose jobs go first, and the sum of what the pool's accounts
 * used.
 */
#define SLURM_FAIR_ROWS(pools) \
	" (SELECT p.pool, f.*, round((count(*) OVER w - f.rank + 1)::numeric" \
	"   / count(*) OVER w, 6) AS factor," \
	"  sum(f.decayed) FILTER (WHERE f.account = '') OVER w AS all_decayed" \
	"  FROM " pools " p CROSS JOIN LATERAL gpucredit.fair_share(p.pool) f" \
	"  WINDOW w AS (PARTITION BY p.pool)) "

#endif							/* GPUCREDIT_CLI_FAIR_ROWS_H */
