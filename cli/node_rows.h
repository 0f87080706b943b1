/*-------------------------------------------------------------------------
 *
 * node_rows.h
 *		SQL that selects nodes as Slurm's commands list them. Only operators
 *		may read these rows.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_NODE_ROWS_H
#define GPUCREDIT_CLI_NODE_ROWS_H

/*
 * Selects nodes "n" with their present state "s", their devices "c" (nulls for
 * a node without), what live attempts use there "u", and Slurm's words for the
 * state "w": long, short, and "*" for a node that does not report.
 */
#define SLURM_NODE_ROWS \
	" gpucredit.node n JOIN gpucredit.nodes s ON s.node = n.node" \
	" LEFT JOIN gpucredit.node_capacity c ON c.node = n.node" \
	" CROSS JOIN LATERAL (SELECT count(*) AS parts," \
	"  coalesce(sum(g.cpu_milli), 0) AS cpu_milli," \
	"  coalesce(sum(g.memory_mib), 0) AS memory_mib" \
	"  FROM gpucredit.attempt_gpu g WHERE g.pool = n.pool" \
	"  AND g.node = n.node AND NOT g.free AND g.ended_at IS NULL) u" \
	" JOIN (VALUES ('down', 'down'), ('draining', 'drng')," \
	"  ('drained', 'drain'), ('allocated', 'alloc'), ('mixed', 'mix')," \
	"  ('idle', 'idle')) AS v (long, short) ON v.long =" \
	"  CASE WHEN s.state IN ('lost', 'gone') THEN 'down'" \
	"  WHEN s.state IN ('draining', 'reclaimed') THEN" \
	"   CASE WHEN u.parts > 0 THEN 'draining' ELSE 'drained' END" \
	"  WHEN c.allocated > 0 AND c.allocated >= c.in_service THEN 'allocated'" \
	"  WHEN c.allocated > 0 OR u.parts > 0 THEN 'mixed' ELSE 'idle' END" \
	" CROSS JOIN LATERAL (SELECT v.long, v.short," \
	"  CASE WHEN s.state IN ('lost', 'suspect') THEN '*' ELSE '' END" \
	"   AS mark) w"

/* A node's GPUs, as Slurm names generic resources. */
#define SLURM_GRES \
	"CASE WHEN n.gpus > 0 THEN 'gpu:' || n.gpu_type || ':' || n.gpus" \
	" ELSE " SLURM_NOTHING " END"

/* A node's labels, as Slurm's features. */
#define SLURM_FEATURES \
	"coalesce((SELECT string_agg(l.key || '=' || l.value, ',' ORDER BY l.key)" \
	" FROM jsonb_each_text(n.labels) AS l), " SLURM_NOTHING ")"

#endif							/* GPUCREDIT_CLI_NODE_ROWS_H */
