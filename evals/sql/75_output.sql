/*
 * 75_output.sql: results for other programs.
 *
 * Held-out cases are in the figures of their tasks alone.
 */
CREATE FUNCTION gpucredit_eval.as_text(bytes bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN convert_from(as_text.bytes, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character
	OR invalid_text_representation
THEN
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.as_text(bytea) IS
'Internal: bytes as text, or NULL if they are none.';

/* Replaces characters that XML cannot have by question marks. */
CREATE FUNCTION gpucredit_eval.for_xml(value text) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT regexp_replace(value, '[\x01-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]', '?', 'g');
END;
COMMENT ON FUNCTION gpucredit_eval.for_xml(text) IS
'Internal: a text without characters that XML 1.0 does not have.';

/* Who may run a set need not see its cases, which a run's results would show. */
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
	r gpucredit_eval.run := gpucredit_eval.require_run(results.org, results.run);
	hidden boolean := r.held_out AND r.state <> 'finished';
	tasks jsonb;
	cases jsonb;
BEGIN
	SELECT coalesce(jsonb_agg(to_jsonb(g) || CASE WHEN NOT (hidden AND m.held_out) THEN
			jsonb_build_object('errors', m.errors, 'unfinished', m.unfinished) ELSE '{}' END
			ORDER BY g.task), '[]') INTO tasks
	FROM gpucredit_eval.gate_rows(r) g
		LEFT JOIN gpucredit_eval.metrics(r) m USING (task);
	SELECT coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('case', (x.c)."case",
			'name', (x.c).name, 'task', (x.c).task, 'tags', to_jsonb((x.c).tags),
			'weight', (x.c).weight, 'input', (x.c).input, 'expected', (x.c).expected,
			'output', gpucredit_eval.as_text((x.o).output),
			'output_base64', CASE WHEN gpucredit_eval.as_text((x.o).output) IS NULL
				THEN encode((x.o).output, 'base64') END,
			'checks', (x.o).checks, 'passed', (x.o).passed, 'score', (x.o).score,
			'error', (x.o).error, 'attempt', (x.o).attempt, 'usage', (x.o).usage,
			'cost', (x.o).cost,
			'judgements', (SELECT jsonb_agg(jsonb_build_object('sample', j.sample,
					'score', j.score, 'parsed', j.parsed, 'reason', j.reason,
					'cost', j.cost) ORDER BY j.sample)
				FROM gpucredit_eval.judgement j
				WHERE j.org = r.org AND j.run = r.run AND j."case" = (x.c)."case")))
			ORDER BY s.place, (x.c).ordinal), '[]') INTO cases
	FROM gpucredit_eval.run_cases(r.org, r.run) x
		JOIN gpucredit_eval.run_set s ON s.org = r.org AND s.run = r.run AND s.set = (x.c).set
	WHERE x.kind <> 'held_out' AND (x.c).set = ANY (gpucredit_eval.readable_sets(r));
	RETURN jsonb_build_object('run', r.run, 'org', r.org, 'account', r.account,
		'config', r.config, 'version', r.config_version, 'model', r.model, 'oid', r.oid,
		'purpose', r.purpose, 'state', r.state, 'verdict', gpucredit_eval.verdict_of(r),
		'baseline', r.baseline, 'cap', r.cap + r.gpu_held,
		'spent', CASE WHEN NOT hidden THEN r.spent END,
		'captured', CASE WHEN NOT hidden OR r.ended_at IS NOT NULL THEN r.captured END,
		'problem', r.problem, 'started_at', r.started_at, 'ended_at', r.ended_at,
		'tasks', tasks, 'cases', cases);
END
$$;
COMMENT ON FUNCTION gpucredit_eval.results(text, bigint) IS
'Gates: all of a run as one document: its tasks, and its cases of the sets that the caller may read and that are not held out.
Errors: UC601 no such run.';

CREATE FUNCTION gpucredit_eval.junit(org text, run bigint) RETURNS xml
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r gpucredit_eval.run := gpucredit_eval.require_run(junit.org, junit.run);
	readable text[] := gpucredit_eval.readable_sets(r);
	suites xml;
	gates xml;
BEGIN
	/* a case fails where its checks fail, or its score is below its task's gate */
	WITH cases AS (
		SELECT (x.c).task, (x.c).name, (x.c).ordinal, s.place, (x.o).score, (x.o).error,
			(x.o).passed, g.threshold,
			(SELECT string_agg(j.reason, E'\n' ORDER BY j.sample)
			FROM gpucredit_eval.judgement j
			WHERE j.org = r.org AND j.run = r.run AND j."case" = (x.c)."case") AS reasons,
			(SELECT string_agg(coalesce(k ->> 'reason', k ->> 'type', 'check') , E'\n')
			FROM jsonb_array_elements((x.o).checks) k
			WHERE k -> 'pass' = 'false') AS failed
		FROM gpucredit_eval.run_cases(r.org, r.run) x
			JOIN gpucredit_eval.run_set s ON s.org = r.org AND s.run = r.run AND s.set = (x.c).set
			JOIN gpucredit_eval.gate_rows(r) g ON g.task = (x.c).task
		WHERE x.kind <> 'held_out' AND (x.c).set = ANY (readable)),
	told AS (
		SELECT c.*, c.error IS NOT NULL AS is_error, c.score IS NULL AS is_skipped,
			c.error IS NULL AND c.score < c.threshold AS is_failure
		FROM cases c)
	SELECT xmlagg(t.suite ORDER BY t.task) INTO suites
	FROM (
		SELECT c.task, xmlelement(name testsuite, xmlattributes(
				gpucredit_eval.for_xml(c.task) AS name, count(*) AS tests,
				count(*) FILTER (WHERE c.is_failure) AS failures,
				count(*) FILTER (WHERE c.is_error) AS errors,
				count(*) FILTER (WHERE c.is_skipped) AS skipped),
			xmlagg(xmlelement(name testcase, xmlattributes(
					gpucredit_eval.for_xml(c.task) AS classname,
					gpucredit_eval.for_xml(c.name) AS name),
				CASE WHEN c.is_error THEN xmlelement(name error,
						xmlattributes(gpucredit_eval.for_xml(c.error) AS message))
					WHEN c.is_skipped THEN xmlelement(name skipped)
					WHEN c.is_failure THEN xmlelement(name failure, xmlattributes(
						format('score %s', round(c.score, 6)) AS message),
						gpucredit_eval.for_xml(coalesce(c.failed, c.reasons))) END)
				ORDER BY c.place, c.ordinal)) AS suite
		FROM told c GROUP BY c.task) t;
	SELECT xmlelement(name testsuite, xmlattributes('gates' AS name, count(*) AS tests,
			count(*) FILTER (WHERE g.passes IS FALSE AND g.blocking) AS failures,
			count(*) FILTER (WHERE g.passes IS NULL AND g.blocking) AS errors,
			count(*) FILTER (WHERE g.passes IS NOT TRUE AND NOT g.blocking) AS skipped),
		xmlagg(xmlelement(name testcase, xmlattributes('gates' AS classname,
				gpucredit_eval.for_xml(g.task) AS name),
			CASE WHEN g.passes THEN NULL
				WHEN NOT g.blocking THEN xmlelement(name skipped, xmlattributes(g.reason AS message))
				WHEN g.passes IS NULL THEN xmlelement(name error, xmlattributes(g.reason AS message))
				ELSE xmlelement(name failure, xmlattributes(
					format('%s: score %s, threshold %s, baseline %s', g.reason, g.score,
						g.threshold, coalesce(g.baseline::text, 'none')) AS message)) END)
			ORDER BY g.task)) INTO gates
	FROM gpucredit_eval.gate_rows(r) g;
	RETURN xmlelement(name testsuites, xmlattributes(
		gpucredit_eval.for_xml(format('%s@%s %s', r.config, r.config_version, r.model)) AS name),
		gates, suites);
END
$$;
COMMENT ON FUNCTION gpucredit_eval.junit(text, bigint) IS
'Gates: a run as JUnit XML: a suite "gates" with a case per task, and a suite per task with its cases of the sets that the caller may read and that are not held out.
Errors: UC601 no such run.';
