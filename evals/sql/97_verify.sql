/*
 * 97_verify.sql: the invariants of all runs.
 */
CREATE FUNCTION gpucredit_eval.verify()
RETURNS TABLE (org text, invariant text, detail text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	WITH sums AS (
		SELECT l.org, l.run, sum(l.cost) FILTER (WHERE l.accounted) AS spent,
			sum(l.max_cost) FILTER (WHERE NOT l.accounted) AS set_aside
		FROM gpucredit_eval.lease l GROUP BY l.org, l.run)
	SELECT r.org, 'spent_is_leases_cost', format('run %s: %s spent, leases cost %s', r.run, r.spent,
		coalesce(s.spent, 0))
	FROM gpucredit_eval.run r LEFT JOIN sums s USING (org, run)
	WHERE r.spent <> coalesce(s.spent, 0) + r.padding
	UNION ALL
	SELECT r.org, 'set_aside_is_open_leases', format('run %s: %s set aside, leases %s', r.run,
		r.set_aside, coalesce(s.set_aside, 0))
	FROM gpucredit_eval.run r LEFT JOIN sums s USING (org, run)
	WHERE r.set_aside <> coalesce(s.set_aside, 0)
	UNION ALL
	SELECT r.org, 'cap_holds', format('run %s: %s spent, %s set aside, cap %s', r.run, r.spent,
		r.set_aside, r.cap)
	FROM gpucredit_eval.run r WHERE r.spent + r.set_aside > r.cap
	UNION ALL
	SELECT r.org, 'captured_is_spent', format('run %s: %s captured of %s', r.run, r.captured,
		r.spent)
	FROM gpucredit_eval.run r WHERE r.captured > round(r.spent, 6)
	UNION ALL
	SELECT r.org, 'hold_pays', format('run %s: the ledger captured %s of hold %s, the run %s',
		r.run, h.captured, r.hold, r.captured)
	FROM gpucredit_eval.run r JOIN gpucredit.holds h ON h.org = r.org AND h.hold = r.hold
	WHERE h.captured > r.captured
	UNION ALL
	SELECT l.org, 'cost_is_bounded', format('run %s, case %s, attempt %s: %s of %s', l.run,
		l."case", l.attempt, l.cost, l.max_cost)
	FROM gpucredit_eval.lease l WHERE l.cost + l.open_max > l.max_cost
	UNION ALL
	SELECT o.org, 'result_is_of_a_run', format('run %s, case %s', o.run, o."case")
	FROM gpucredit_eval.result o
	WHERE NOT EXISTS (SELECT FROM gpucredit_eval.run r WHERE r.org = o.org AND r.run = o.run)
	UNION ALL
	SELECT l.org, 'lease_is_of_a_run', format('run %s, case %s', l.run, l."case")
	FROM gpucredit_eval.lease l
	WHERE NOT EXISTS (SELECT FROM gpucredit_eval.run r WHERE r.org = l.org AND r.run = l.run)
	UNION ALL
	SELECT b.org, 'observation_is_of_a_stream', format('stream "%s", request "%s"', b.stream, b.request)
	FROM gpucredit_eval.observation b
	WHERE NOT EXISTS (SELECT FROM gpucredit_eval.stream s WHERE s.org = b.org AND s.stream = b.stream)
	UNION ALL
	SELECT o.org, 'score_is_the_median', format('run %s, case %s: %s', o.run, o."case", o.score)
	FROM gpucredit_eval.result o
	WHERE o.score IS NOT NULL AND o.error IS NULL
		AND EXISTS (SELECT FROM gpucredit_eval.judgement j
			WHERE j.org = o.org AND j.run = o.run AND j."case" = o."case")
		AND o.score <> (SELECT (percentile_disc(0.5) WITHIN GROUP (ORDER BY j.score) - 1) / 4.0
			FROM gpucredit_eval.judgement j
			WHERE j.org = o.org AND j.run = o.run AND j."case" = o."case")
	UNION ALL
	SELECT r.org, 'finished_is_finished', format('run %s: %s of %s cases have a score', r.run,
		count(o.score), r.cases)
	FROM gpucredit_eval.run r LEFT JOIN gpucredit_eval.result o USING (org, run)
	WHERE r.state = 'finished' AND NOT r.decided_early
	GROUP BY r.org, r.run, r.cases HAVING count(o.score) <> r.cases
	UNION ALL
	SELECT m.org, 'metrics_are_scores', format('run %s, task "%s"', m.run, m.task)
	FROM gpucredit_eval.run r
		CROSS JOIN LATERAL gpucredit_eval.task_scores(r.org, r.run) t
		JOIN gpucredit_eval.metric m ON m.org = t.org AND m.run = t.run AND m.task = t.task
	WHERE m IS DISTINCT FROM t
	UNION ALL
	SELECT v.org, 'version_is_its_cases', format('set "%s" version %s', v.set, v.version)
	FROM gpucredit_eval.set_version v
	WHERE v.digest <> (SELECT sha256(convert_to(string_agg(
			c.name || ' ' || encode(c.digest, 'hex'), E'\n' ORDER BY c.ordinal), 'UTF8'))
		FROM gpucredit_eval.golden_case c
		WHERE c.org = v.org AND c.set = v.set AND gpucredit_eval.in_version(c, v));
END;
COMMENT ON FUNCTION gpucredit_eval.verify() IS
'Upkeep: what does not hold, of all that the harness stores; nothing if all is well.
Result: the organisation, the invariant and what breaks it.';
