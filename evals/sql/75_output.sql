/*
 * 75_output.sql: results in formats for other programs.
 *
 * Held-out cases are only included in the figures of their tasks.
 */
CREATE FUNCTION gpucredit_eval.as_text(bytes bytea) RETURNS text
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_eval_as_text';
COMMENT ON FUNCTION gpucredit_eval.as_text(bytea) IS
'Internal: bytes as text, or NULL if they are none.';

/*
 * Escapes a text for XML attributes and content. A character that XML does not
 * allow becomes a question mark.
 */
CREATE FUNCTION gpucredit_eval.for_xml(value text) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE WHEN value !~ '[&<>"[:cntrl:]\ufffe\uffff]' THEN value
		ELSE replace(replace(replace(replace(replace(replace(replace(
			regexp_replace(value, '[\x01-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]', '?', 'g'),
			'&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;'),
			E'\t', '&#9;'), E'\n', '&#10;'), E'\r', '&#13;') END;
END;
COMMENT ON FUNCTION gpucredit_eval.for_xml(text) IS
'Internal: a text in XML 1.0, escaped, and without the characters that XML does not have.';

/*
 * Returns the sets of a run whose cases the caller may see. A caller who may
 * run a set may not always see its cases, which a run's results would show.
 */
CREATE FUNCTION gpucredit_eval.readable_sets(r gpucredit_eval.run) RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	named text;
	readable text[] := '{}';
BEGIN
	FOR named IN SELECT s.set FROM gpucredit_eval.run_set s
		WHERE s.org = (r).org AND s.run = (r).run ORDER BY s.place
	LOOP
		BEGIN
			PERFORM gpucredit_eval.require_set((r).org, named, 'read');
			readable := readable || named;
		EXCEPTION WHEN SQLSTATE 'UC601' THEN
			CONTINUE;
		END;
	END LOOP;
	RETURN readable;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.readable_sets(gpucredit_eval.run) IS
'Internal: the sets of a run whose cases the session may see.';

CREATE FUNCTION gpucredit_eval.results(org text, run bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r gpucredit_eval.run := gpucredit_eval.require_scores(results.org, results.run);
	readable text[] := gpucredit_eval.readable_sets(r);
	hidden boolean := r.held_out AND r.state <> 'finished';
	tasks jsonb;
	cases jsonb;
BEGIN
	SELECT coalesce(jsonb_agg(to_jsonb(g) || CASE WHEN NOT (hidden AND m.held_out) THEN
			jsonb_build_object('errors', m.errors, 'unfinished', m.unfinished) ELSE '{}' END
			ORDER BY g.task), '[]') INTO tasks
	FROM gpucredit_eval.gate_rows(r) g
		LEFT JOIN gpucredit_eval.metrics(r) m USING (task);
	WITH judged AS MATERIALIZED (
		SELECT j."case", jsonb_agg(jsonb_build_object('sample', j.sample, 'score', j.score,
			'parsed', j.parsed, 'reason', j.reason, 'cost', j.cost) ORDER BY j.sample) AS judgements
		FROM gpucredit_eval.judgement j
		WHERE j.org = r.org AND j.run = r.run GROUP BY j."case"),
	shown AS (
		SELECT x.c, x.o, s.place, gpucredit_eval.as_text((x.o).output) AS output
		FROM gpucredit_eval.run_cases(r.org, r.run) x
			JOIN gpucredit_eval.run_set s ON s.org = r.org AND s.run = r.run AND s.set = (x.c).set
		WHERE x.kind <> 'held_out' AND (x.c).set = ANY (readable))
	SELECT coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('case', (x.c)."case",
			'name', (x.c).name, 'task', (x.c).task, 'tags', to_jsonb((x.c).tags),
			'weight', (x.c).weight, 'input', (x.c).input, 'expected', (x.c).expected,
			'output', x.output, 'output_base64', CASE WHEN x.output IS NULL
				THEN encode((x.o).output, 'base64') END,
			'checks', (x.o).checks, 'passed', (x.o).passed, 'score', (x.o).score,
			'error', (x.o).error, 'attempt', (x.o).attempt, 'usage', (x.o).usage,
			'cost', (x.o).cost, 'reused', (x.o).reused, 'judgements', j.judgements))
			ORDER BY x.place, (x.c).ordinal), '[]') INTO cases
	FROM shown x LEFT JOIN judged j ON j."case" = (x.c)."case";
	RETURN jsonb_build_object('run', r.run, 'org', r.org, 'account', r.account,
		'config', r.config, 'version', r.config_version, 'model', r.model, 'oid', r.oid,
		'purpose', r.purpose, 'set_cases', r.set_cases, 'decided_early', r.decided_early, 'state', r.state, 'verdict', gpucredit_eval.verdict_of(r),
		'baseline', r.baseline, 'cap', r.cap + r.gpu_held,
		'spent', CASE WHEN NOT hidden THEN r.spent END,
		'captured', CASE WHEN NOT hidden OR r.ended_at IS NOT NULL THEN r.captured END,
		'problem', r.problem, 'started_at', r.started_at, 'ended_at', r.ended_at,
		'tasks', tasks, 'cases', cases);
END
$$;
COMMENT ON FUNCTION gpucredit_eval.results(text, bigint) IS
'Gates: all of a run as one document: its tasks, and its cases of the sets that the caller may read and that are not held out.
Errors: UC601 no such run; 42501 the caller rates answers by hand.';

/*
 * Describes for people why a case failed: each check with its type and its
 * value, the judge's reasons, the expected output, and the answer.
 */
CREATE FUNCTION gpucredit_eval.failure_text(c gpucredit_eval.golden_case,
	o gpucredit_eval.result, reasons text) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT concat_ws(E'\n',
		(SELECT string_agg(concat_ws(' ', 'failed:', k.k ->> 'type',
				left(coalesce(own.k ->> 'value', (own.k -> 'value')::text), 2000),
				(own.k -> 'filter')::text, k.k ->> 'reason', k.k ->> 'error'), E'\n' ORDER BY k.i)
		FROM jsonb_array_elements((o).checks) WITH ORDINALITY k (k, i)
			LEFT JOIN jsonb_array_elements((c).checks) WITH ORDINALITY own (k, i) USING (i)
		WHERE k.k -> 'pass' = 'false'),
		'judge: ' || nullif(reasons, ''),
		'expected: ' || left(coalesce((c).expected #>> '{}', (c).expected::text), 2000),
		'output: ' || left(coalesce(gpucredit_eval.as_text((o).output), encode((o).output, 'base64')), 4000));
END;
COMMENT ON FUNCTION gpucredit_eval.failure_text(gpucredit_eval.golden_case, gpucredit_eval.result, text) IS
'Internal: what failed of a case, with what was expected, and the answer.';

CREATE FUNCTION gpucredit_eval.junit_suites(r gpucredit_eval.run, readable text[]) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	/*
	 * A case fails if its checks fail, or if its score is below its task's
	 * gate.
	 */
	WITH gates AS MATERIALIZED (SELECT g.task, g.threshold FROM gpucredit_eval.gate_rows(r) g),
	judged AS MATERIALIZED (
		SELECT j."case", string_agg(j.reason, E'\n' ORDER BY j.sample) AS reasons
		FROM gpucredit_eval.judgement j
		WHERE j.org = (r).org AND j.run = (r).run GROUP BY j."case"),
	cases AS (
		SELECT (x.c).task, (x.c).ordinal, s.place,
			(x.o).error IS NOT NULL AS is_error, (x.o).score IS NULL AS is_skipped,
			(x.o).error IS NULL AND (x.o).score < g.threshold AS is_failure,
			format('<testcase classname="%s" name="%s"', gpucredit_eval.for_xml((x.c).task),
				gpucredit_eval.for_xml((x.c).name)) AS head,
			(x.o).error AS error, (x.o).score AS score,
			CASE WHEN (x.o).error IS NULL AND (x.o).score < g.threshold THEN
				gpucredit_eval.failure_text(x.c, x.o, j.reasons) END AS failure
		FROM gpucredit_eval.run_cases((r).org, (r).run) x
			JOIN gpucredit_eval.run_set s ON s.org = (r).org AND s.run = (r).run AND s.set = (x.c).set
			JOIN gates g ON g.task = (x.c).task
			LEFT JOIN judged j ON j."case" = (x.c)."case"
		WHERE x.kind <> 'held_out' AND (x.c).set = ANY (readable)),
	suites AS (
		SELECT c.task, format('<testsuite name="%s" tests="%s" failures="%s" errors="%s" skipped="%s">%s</testsuite>',
			gpucredit_eval.for_xml(c.task), count(*), count(*) FILTER (WHERE c.is_failure),
			count(*) FILTER (WHERE c.is_error), count(*) FILTER (WHERE c.is_skipped),
			string_agg(c.head || CASE
				WHEN c.is_error THEN '><error message="' || gpucredit_eval.for_xml(c.error) || '"/></testcase>'
				WHEN c.is_skipped THEN '><skipped/></testcase>'
				WHEN c.is_failure THEN '><failure message="score ' || round(c.score, 6) || '">'
					|| gpucredit_eval.for_xml(c.failure) || '</failure></testcase>'
				ELSE '/>' END, '' ORDER BY c.place, c.ordinal)) AS suite
		FROM cases c GROUP BY c.task)
	SELECT coalesce(string_agg(t.suite, '' ORDER BY t.task), '') FROM suites t;
END;
COMMENT ON FUNCTION gpucredit_eval.junit_suites(gpucredit_eval.run, text[]) IS
'Internal: a suite of JUnit XML for each task of a run, with its cases of the sets that may be read.';

CREATE FUNCTION gpucredit_eval.junit_gates(r gpucredit_eval.run) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT format('<testsuite name="gates" tests="%s" failures="%s" errors="%s" skipped="%s">%s</testsuite>',
		count(*), count(*) FILTER (WHERE g.passes IS FALSE AND g.blocking),
		count(*) FILTER (WHERE g.passes IS NULL AND g.blocking),
		count(*) FILTER (WHERE g.passes IS NOT TRUE AND NOT g.blocking),
		string_agg(format('<testcase classname="gates" name="%s"%s', gpucredit_eval.for_xml(g.task),
			CASE WHEN g.passes THEN '/>'
				WHEN NOT g.blocking THEN format('><skipped message="%s"/></testcase>', g.reason)
				WHEN g.passes IS NULL THEN format('><error message="%s"/></testcase>', g.reason)
				ELSE format('><failure message="%s: score %s, threshold %s, baseline %s"/></testcase>',
					g.reason, g.score, g.threshold, coalesce(g.baseline::text, 'none')) END),
			'' ORDER BY g.task))
	FROM gpucredit_eval.gate_rows(r) g;
END;
COMMENT ON FUNCTION gpucredit_eval.junit_gates(gpucredit_eval.run) IS
'Internal: the suite of JUnit XML that has the gates of a run.';

CREATE FUNCTION gpucredit_eval.junit(org text, run bigint) RETURNS xml
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r gpucredit_eval.run := gpucredit_eval.require_scores(junit.org, junit.run);
BEGIN
	/*
	 * The document is built as text and parsed once, because xmlagg() copies
	 * everything for each case.
	 */
	RETURN xmlparse(CONTENT format('<testsuites name="%s">%s%s</testsuites>',
		gpucredit_eval.for_xml(format('%s@%s %s', r.config, r.config_version, r.model)
			|| CASE WHEN r.purpose = 'preview' THEN format(': a preview of %s of %s cases%s', r.cases, r.set_cases,
				CASE WHEN r.decided_early THEN ', stopped early' ELSE '' END) ELSE '' END),
		gpucredit_eval.junit_gates(r),
		gpucredit_eval.junit_suites(r, gpucredit_eval.readable_sets(r))));
END
$$;
COMMENT ON FUNCTION gpucredit_eval.junit(text, bigint) IS
'Gates: a run as JUnit XML: a suite "gates" with a case per task, and a suite per task with its cases of the sets that the caller may read and that are not held out.
Errors: UC601 no such run; 42501 the caller rates answers by hand.';
