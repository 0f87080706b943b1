/* 84_verify_trace.sql: every row of a job has the trace of its submission. */
CREATE FUNCTION gpucredit_internal.check_traces(from_org text, to_org text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH traced AS (
		SELECT j.org, j.job, j.traceparent ~
				'^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-|$)'
				AS sound,
			substr(j.traceparent, 4, 32) AS trace
		FROM gpucredit.job j
		WHERE j.traceparent IS NOT NULL
			AND gpucredit_internal.in_orgs(j.org,
				check_traces.from_org, check_traces.to_org)),
	told AS (
		SELECT a.org, a.job, format('attempt %s', a.attempt) AS what, a.trace
		FROM gpucredit.attempt a
		WHERE gpucredit_internal.in_orgs(a.org,
			check_traces.from_org, check_traces.to_org)
		UNION ALL
		SELECT h.org, h.job, format('hold %s', h.hold), h.trace
		FROM gpucredit.hold h
		WHERE h.job IS NOT NULL
			AND gpucredit_internal.in_orgs(h.org,
				check_traces.from_org, check_traces.to_org)
		UNION ALL
		SELECT a.org, a.job, format('audit %s', a.audit), a.trace
		FROM gpucredit.audit a
		WHERE a.job IS NOT NULL
			AND gpucredit_internal.in_orgs(a.org,
				check_traces.from_org, check_traces.to_org))
	SELECT 'traceparent_is_sound', t.org, format('job %s', t.job),
		'gpucredit.traceparent would not take it'
	FROM traced t WHERE NOT t.sound
	UNION ALL
	SELECT 'trace_is_of_job', t.org, format('job %s', t.job),
		format('%s is of %s, the job of %s', o.what,
			coalesce(o.trace::text, 'none'), t.trace::uuid)
	FROM traced t JOIN told o ON o.org = t.org AND o.job = t.job
	WHERE t.sound AND o.trace IS DISTINCT FROM
		CASE WHEN t.sound THEN t.trace::uuid END
	UNION ALL
	SELECT 'trace_is_of_hold', e.org, format('entry %s', e.entry),
		format('it is of %s, hold %s of %s',
			coalesce(e.trace::text, 'none'), h.hold, h.trace)
	FROM gpucredit.hold h
		JOIN gpucredit.entry e ON e.org = h.org AND e.hold = h.hold
			AND gpucredit_internal.in_orgs(e.org, check_traces.from_org,
				check_traces.to_org)
	WHERE h.trace IS NOT NULL AND e.trace IS DISTINCT FROM h.trace
		AND gpucredit_internal.in_orgs(h.org,
			check_traces.from_org, check_traces.to_org);
END;
COMMENT ON FUNCTION gpucredit_internal.check_traces(text, text) IS
'verify: everything of a job or hold with a trace has that trace.';
