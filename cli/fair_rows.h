/*-------------------------------------------------------------------------
 *
 * fair_rows.h
 *		SQL that selects the accounts of pools in the order of fair share, as
 *		Slurm's commands list them. Only operators may read these rows.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_FAIR_ROWS_H
#define GPUCREDIT_CLI_FAIR_ROWS_H

/*
 * Selects the rows of fair_share() for pools "p", with Slurm's fair-share
 * factor, which is 1 for the account whose jobs go first, and the sum of the
 * use of the pool's accounts.
 */
#define SLURM_FAIR_ROWS(pools) \
	" (SELECT p.pool, f.*, round((count(*) OVER w - f.rank + 1)::numeric" \
	"   / count(*) OVER w, 6) AS factor," \
	"  sum(f.decayed) FILTER (WHERE f.account = '') OVER w AS all_decayed" \
	"  FROM " pools " p CROSS JOIN LATERAL gpucredit.fair_share(p.pool) f" \
	"  WINDOW w AS (PARTITION BY p.pool)) "

#endif							/* GPUCREDIT_CLI_FAIR_ROWS_H */
