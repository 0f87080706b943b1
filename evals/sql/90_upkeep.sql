/*
 * 90_upkeep.sql: what nobody's call does at its time: deleting answers that
 * have expired, and publishing that a judge's calibration ends.
 *
 * No result depends on it. An expired answer is not read, and a lapsed
 * calibration does not count, whether this was called or not.
 */
CREATE FUNCTION gpucredit_eval.upkeep(org text, OUT forgotten bigint, OUT announced integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c gpucredit_eval.calibration;
	stage text;
BEGIN
	DELETE FROM gpucredit_eval.answer d
	WHERE d.ctid = ANY (ARRAY(SELECT a.ctid FROM gpucredit_eval.answer a
		WHERE a.org = upkeep.org AND a.expires_at <= gpucredit.now()
		ORDER BY a.expires_at LIMIT 10000
		FOR UPDATE SKIP LOCKED));
	GET DIAGNOSTICS forgotten = ROW_COUNT;
	announced := 0;
	/* Judges that the newest version of some config has. */
	FOR c IN
		SELECT o.* FROM gpucredit_eval.calibration o
		WHERE o.org = upkeep.org AND o.status = 'calibrated' AND o.announced <> 'lapsed'
			AND o.calibrated_at < gpucredit.now() - gpucredit_eval.calibration_life() + interval '14 days'
			AND NOT EXISTS (SELECT FROM gpucredit_eval.calibration newer
				WHERE newer.org = o.org AND newer.judge = o.judge AND newer.calibrated_at > o.calibrated_at)
			AND o.judge IN (SELECT gpucredit_eval.judge_of(f) FROM gpucredit_eval.config f
				WHERE f.org = o.org AND NOT EXISTS (SELECT FROM gpucredit_eval.config n
					WHERE n.org = f.org AND n.config = f.config AND n.version > f.version))
		ORDER BY o.judge
		FOR NO KEY UPDATE SKIP LOCKED
	LOOP
		stage := CASE WHEN c.calibrated_at < gpucredit.now() - gpucredit_eval.calibration_life()
			THEN 'lapsed' ELSE 'soon' END;
		CONTINUE WHEN stage = c.announced;
		UPDATE gpucredit_eval.calibration o SET announced = stage
		WHERE o.org = c.org AND o.judge = c.judge AND o.calibrated_at = c.calibrated_at;
		PERFORM gpucredit_eval.publish(CASE stage WHEN 'lapsed' THEN 'eval_judge.lapsed'
				ELSE 'eval_judge.lapses_soon' END, c.org, '', jsonb_build_object('judge', c.judge,
			'calibrated_at', c.calibrated_at,
			'lapses_at', c.calibrated_at + gpucredit_eval.calibration_life()));
		announced := announced + 1;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.upkeep(text) IS
'Upkeep: deletes answers of production whose time is over, and publishes which judges'' calibrations end within 14 days (eval_judge.lapses_soon) or have ended (eval_judge.lapsed), each once. "gpucredit-eval work" and "watch" call it each time that they look for runs.
Result: answers deleted; events published.';
