/*
 * 80_promote.sql: promotes registry versions that passed a gate.
 *
 * The registry protects a ref: it then moves only by move_ref(), which
 * promote() calls on the verdict of a production gate on that very version.
 */
CREATE FUNCTION gpucredit_eval.why_not_promoted(r gpucredit_eval.run, model bigint,
	version bigint) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE WHEN (r).purpose <> 'production_gate' THEN 'not_production_gate'
		WHEN (r).registry_model IS DISTINCT FROM why_not_promoted.model
			OR (r).registry_version IS DISTINCT FROM why_not_promoted.version
			THEN 'other_version'
		WHEN (r).state <> 'finished' THEN 'unfinished'
		WHEN gpucredit_eval.verdict_of(r) NOT IN ('pass', 'warn') THEN
			gpucredit_eval.verdict_of(r)
		END;
END;
COMMENT ON FUNCTION gpucredit_eval.why_not_promoted(gpucredit_eval.run, bigint, bigint) IS
'Internal: why a run lets a version not ship, or NULL.';

CREATE FUNCTION gpucredit_eval.promote(org text, model bigint, ref text, version bigint,
	run bigint, key text, OUT status text, OUT reason text, OUT replayed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r gpucredit_eval.run := gpucredit_eval.require_run(promote.org, promote.run);
	kept jsonb;
BEGIN
	kept := gpucredit_eval.request_begin(r.org, promote.key, 'promote',
		jsonb_build_array(promote.model, promote.ref, promote.version, r.run));
	promote.replayed := kept IS NOT NULL;
	IF kept IS NULL THEN
		promote.reason := gpucredit_eval.why_not_promoted(r, promote.model, promote.version);
		IF promote.reason IS NULL THEN
			PERFORM gpucredit_registry.move_ref(r.org, promote.model, promote.ref,
				promote.version, gpucredit_eval.ledger_key('promote', promote.key));
		END IF;
		PERFORM gpucredit_eval.record(r.org, 'promote', NULL, jsonb_build_object('model',
			promote.model, 'ref', promote.ref, 'version', promote.version, 'run', r.run,
			'oid', r.oid, 'reason', promote.reason));
		kept := gpucredit_eval.request_end(r.org, promote.key, jsonb_build_array(
			CASE WHEN promote.reason IS NULL THEN 'promoted' ELSE 'denied' END,
			promote.reason));
	END IF;
	promote.status := kept ->> 0;
	promote.reason := kept ->> 1;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.promote(text, bigint, text, bigint, bigint, text) IS
'Gates: moves a ref of the registry to a version that a production gate let pass.
model, version: the registry''s numbers. run: a finished production gate on that very version, with the verdict pass or warn.
Result: status promoted, or denied with reason not_production_gate, other_version, unfinished, block or inconclusive. Errors: UC201 key used with other arguments; UC601 no such run; the registry''s: UC501 no such version, UC504 in quarantine.';
