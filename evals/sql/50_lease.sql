/*
 * 50_lease.sql: leases of cases to workers, and their cost.
 *
 * A worker leases cases, calls the model, and reports. A lease that ends
 * without a report is lost: its calls may have cost the whole reserved amount,
 * so that amount counts as spent. The case is leased again with a new reserved
 * amount.
 */

/*
 * Captures what was spent and is not captured yet. Sums are exact; the
 * captured figure is the sum, rounded once. Without credit, the difference is
 * left for the next call.
 */
CREATE FUNCTION gpucredit_eval.capture_spent(r gpucredit_eval.run, final boolean)
RETURNS numeric
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
	total numeric := round(r.spent, 6);
BEGIN
	RETURN CASE WHEN gpucredit_eval.charge(r.org, r.account, r.hold, total - r.captured,
			format('eval/run/%s/%s', r.run, total), capture_spent.final)
		THEN total ELSE r.captured END;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.capture_spent(gpucredit_eval.run, boolean) IS
'Internal: captures what a run has spent; final: and frees the rest of its hold. Result: what is captured in all.';

/*
 * Returns which attempt of the GPU job serves the run's model now, and what is
 * wrong with the job. Its script names a folder as its checkpoint, and the
 * agent reports the digest of that folder, which neither the script nor whoever
 * started the run can choose. No attempt serves while the job waits, is told to
 * stop, or has reported nothing yet.
 */
CREATE FUNCTION gpucredit_eval.serving_attempt(r gpucredit_eval.run, OUT attempt integer,
	OUT problem text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	j record;
	n integer;
	others integer;
BEGIN
	SELECT o.state, o.attempt, o.ended_at, o.pool INTO j FROM gpucredit.jobs o
	WHERE o.org = (r).org AND o.job = (r).gpu_job;
	IF j.attempt IS NULL OR j.ended_at IS NOT NULL OR gpucredit_eval.is_foreign(j.pool) THEN
		serving_attempt.problem := 'not_served';
		RETURN;
	END IF;
	SELECT count(*), count(*) FILTER (WHERE c.sha256 <> (r).model_digest) INTO n, others
	FROM gpucredit.checkpoints((r).org, (r).gpu_job) c WHERE c.attempt = j.attempt;
	IF others > 0 THEN
		serving_attempt.problem := 'other_model';
	ELSIF j.state = 'running' AND n > 0 THEN
		serving_attempt.attempt := j.attempt;
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.serving_attempt(gpucredit_eval.run) IS
'Internal: the attempt of a run''s GPU job whose agent has reported the digest of the version that the run measures; NULL: none yet. problem: the job is over, or another scheduler places the jobs of its pool by now (not_served), or its agent has reported another digest (other_model).';

/*
 * Whether somebody could reach into the GPU job: he opened a terminal or
 * forwarded a port of it, or had another job of the account on one of its
 * nodes, which runs as the same user. Jobs of runs whose config says what they
 * execute do not count. The nodes of an attempt that another one followed are
 * not known, so such an attempt counts wherever it ran.
 */
CREATE FUNCTION gpucredit_eval.was_entered(r gpucredit_eval.run) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH served AS (
		SELECT j.account, j.pool, j.nodes, a.since
		FROM gpucredit.jobs j
			CROSS JOIN LATERAL (SELECT min(t.started_at) AS since FROM gpucredit.attempts t
				WHERE t.org = j.org AND t.job = j.job) a
		WHERE j.org = (r).org AND j.job = (r).gpu_job),
	beside AS (
		SELECT o.job, o.nodes
		FROM served s JOIN gpucredit.jobs o ON o.account = s.account AND o.pool = s.pool
		WHERE o.org = (r).org AND o.ended_at IS NULL AND o.state IN ('starting', 'running', 'stopping')
		UNION ALL
		SELECT o.job, CASE WHEN o.attempt = t.attempt THEN o.nodes END
		FROM served s JOIN gpucredit.attempts t ON t.account = s.account AND t.pool = s.pool
				AND t.ended_at >= s.since
			JOIN gpucredit.jobs o ON o.org = t.org AND o.job = t.job
		WHERE t.org = (r).org)
	SELECT EXISTS (SELECT FROM gpucredit.history((r).org, (r).gpu_job) h
			WHERE h.what LIKE 'open_session %')
		OR EXISTS (SELECT FROM beside b CROSS JOIN served s
			WHERE b.job <> (r).gpu_job
				AND NOT EXISTS (SELECT FROM gpucredit_eval.run o
					WHERE o.org = (r).org AND o.gpu_job = b.job AND o.model_digest IS NOT NULL)
				AND (b.nodes IS NULL OR EXISTS (
					SELECT FROM string_to_table(b.nodes, ' ') theirs (node)
						JOIN string_to_table(s.nodes, ' ') ours (node)
							ON split_part(theirs.node, '{', 1) = split_part(ours.node, '{', 1))));
END;
COMMENT ON FUNCTION gpucredit_eval.was_entered(gpucredit_eval.run) IS
'Internal: whether somebody could reach into the job that serves a run''s model.';

/*
 * Returns why the answers of a run need not be those of the version that it
 * measures, or NULL. Each answer must have come while the attempt that served
 * when its case was leased was live, and the job must run until the end.
 */
CREATE FUNCTION gpucredit_eval.serving_problem(r gpucredit_eval.run) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	s record;
BEGIN
	IF (r).model_digest IS NULL OR NOT EXISTS (SELECT FROM gpucredit_eval.lease l
		WHERE l.org = (r).org AND l.run = (r).run)
	THEN
		RETURN NULL;		/* nothing was asked of the job */
	END IF;
	s := gpucredit_eval.serving_attempt(r);
	IF s.problem IS NOT NULL THEN
		RETURN s.problem;
	END IF;
	IF s.attempt IS NULL OR EXISTS (
		SELECT FROM gpucredit_eval.result o
			JOIN gpucredit_eval.lease l ON l.org = o.org AND l.run = o.run AND l."case" = o."case"
				AND l.attempt = o.attempt
			LEFT JOIN gpucredit.attempts a ON a.org = o.org AND a.job = (r).gpu_job
				AND a.attempt = l.job_attempt
		WHERE o.org = (r).org AND o.run = (r).run AND o.output IS NOT NULL
			AND (a.attempt IS NULL OR a.ended_at <= o.reported_at))
	THEN
		RETURN 'not_served';
	END IF;
	RETURN CASE WHEN gpucredit_eval.was_entered(r) THEN 'entered' END;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.serving_problem(gpucredit_eval.run) IS
'Internal: why answers of a run may be another model''s: not_served, other_model, entered; or NULL.';

/*
 * Ends a run and settles its cost. A run that has finished, and whose answers
 * may be those of another model, is cancelled, so that nothing counts them.
 */
CREATE FUNCTION gpucredit_eval.end_run(r gpucredit_eval.run, state text)
RETURNS gpucredit_eval.run
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_eval'
AS $$
DECLARE
	lost numeric;
	step numeric := greatest(round((r).cap / 10, 6), 0.000001);
BEGIN
	IF end_run.state = 'finished' THEN
		r.problem := gpucredit_eval.serving_problem(r);
		IF (r).problem IS NOT NULL THEN
			end_run.state := 'cancelled';
		END IF;
	END IF;
	/*
	 * The cost of lost calls is unknown, so they count with the whole reserved
	 * amount.
	 */
	WITH gone AS (
		UPDATE gpucredit_eval.lease l
		SET state = CASE l.state WHEN 'open' THEN 'lost' ELSE l.state END,
			cost = l.cost + l.open_max, open_max = 0, accounted = true
		WHERE l.org = (r).org AND l.run = (r).run AND NOT l.accounted
		RETURNING l.cost)
	SELECT coalesce(sum(gone.cost), 0) INTO lost FROM gone;
	r.spent := (r).spent + lost;
	/*
	 * The exact cost of a few held-out cases would reveal the length of their
	 * answers.
	 */
	IF (r).held_out AND end_run.state <> 'finished' THEN
		r.padding := least(ceil((r).spent / step) * step, (r).cap) - (r).spent;
		r.spent := (r).spent + (r).padding;
	END IF;
	r.set_aside := 0;
	r.captured := gpucredit_eval.capture_spent(r, true);
	r.state := end_run.state;
	r.ended_at := gpucredit.now();
	UPDATE gpucredit_eval.run o
	SET spent = (r).spent, set_aside = 0, captured = (r).captured, state = (r).state,
		ended_at = (r).ended_at, padding = (r).padding, problem = (r).problem
	WHERE o.org = (r).org AND o.run = (r).run;
	IF (r).gpu_job IS NOT NULL THEN
		PERFORM gpucredit.cancel((r).org, (r).gpu_job, format('eval/run/%s/cancel', (r).run),
			'the run has ended');
	END IF;
	PERFORM gpucredit_eval.keep_metrics(r);
	PERFORM gpucredit_eval.publish_scores(r);
	PERFORM gpucredit_eval.record((r).org, 'end_run', NULL,
		jsonb_build_object('run', (r).run, 'state', (r).state, 'spent', (r).spent,
			'captured', (r).captured, 'lost', nullif(lost, 0), 'problem', (r).problem));
	PERFORM gpucredit_eval.publish('eval_run.ended', (r).org, (r).account, jsonb_build_object(
		'run', (r).run, 'config', (r).config, 'version', (r).config_version, 'model', (r).model,
		'purpose', (r).purpose, 'state', (r).state, 'problem', (r).problem,
		'cases', (r).cases, 'set_cases', (r).set_cases, 'decided_early', (r).decided_early,
		'verdict', gpucredit_eval.verdict_of(r)));
	RETURN r;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.end_run(gpucredit_eval.run, text) IS
'Internal: ends a locked run, and settles what it cost.';

/*
 * Ends a preview whose verdict is certain, when no call is under way any more.
 * From then on no case is leased. The caller has locked the run.
 */
CREATE FUNCTION gpucredit_eval.end_decided(r gpucredit_eval.run) RETURNS gpucredit_eval.run
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT (r).decided_early AND gpucredit_eval.is_decided(r) THEN
		r.decided_early := true;
		UPDATE gpucredit_eval.run o SET decided_early = true
		WHERE o.org = (r).org AND o.run = (r).run;
	END IF;
	IF (r).decided_early AND NOT EXISTS (SELECT FROM gpucredit_eval.lease l
		WHERE l.org = (r).org AND l.run = (r).run AND l.state = 'open'
			AND l.expires_at > gpucredit.now())
	THEN
		r := gpucredit_eval.end_run(r, 'finished');
	END IF;
	RETURN r;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.end_decided(gpucredit_eval.run) IS
'Internal: ends a locked preview whose verdict the cases that are left cannot change.';

/*
 * Adds the costs of closed leases to the run. The caller has locked the run.
 */
CREATE FUNCTION gpucredit_eval.account_for(r gpucredit_eval.run) RETURNS gpucredit_eval.run
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off		-- only index scans mark dead index entries
AS $$
DECLARE
	sums record;
BEGIN
	WITH closed AS (
		UPDATE gpucredit_eval.lease l
		SET accounted = true
		WHERE l.org = (r).org AND l.run = (r).run AND l.state IN ('retry', 'closed')
			AND NOT l.accounted
		RETURNING l.cost, l.max_cost, l.finishes)
	SELECT coalesce(sum(closed.cost), 0) AS cost,
		coalesce(sum(closed.max_cost), 0) AS max_cost,
		count(*) FILTER (WHERE closed.finishes) AS finished, count(*) AS n
	INTO sums FROM closed;
	IF sums.n > 0 THEN
		r.spent := (r).spent + sums.cost;
		r.set_aside := (r).set_aside - sums.max_cost;
		r.finished := (r).finished + sums.finished;
		IF (r).state IN ('running', 'paused') AND NOT (r).held_out THEN
			r.captured := gpucredit_eval.capture_spent(r, false);
		END IF;
		UPDATE gpucredit_eval.run o
		SET spent = (r).spent, set_aside = (r).set_aside, finished = (r).finished,
			captured = (r).captured, accounted_at = clock_timestamp()
		WHERE o.org = (r).org AND o.run = (r).run;
	END IF;
	IF (r).state IN ('running', 'paused') AND EXISTS (SELECT FROM gpucredit_eval.overrun v
		WHERE v.org = (r).org AND v.run = (r).run)
	THEN
		r.problem := 'over_bound';
		RETURN gpucredit_eval.end_run(r, 'cancelled');
	END IF;
	IF (r).state IN ('running', 'paused') AND (r).finished = (r).cases
		AND NOT EXISTS (SELECT FROM gpucredit_eval.lease l
			WHERE l.org = (r).org AND l.run = (r).run AND l.state = 'open'
				AND l.expires_at > gpucredit.now())
	THEN
		r := gpucredit_eval.end_run(r, 'finished');
	ELSIF (r).purpose = 'preview' AND (r).state IN ('running', 'paused') THEN
		r := gpucredit_eval.end_decided(r);
	END IF;
	RETURN r;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.account_for(gpucredit_eval.run) IS
'Internal: takes the costs of closed leases over into a locked run, captures them, and ends the run that is finished, or whose calls cost more than they could. Costs of held-out cases are captured at the end.';

/* The highest cost of a case, and the calls that its worker must make. */
CREATE TYPE gpucredit_eval.bounds AS (call_max numeric, sample_max numeric, samples integer[]);

CREATE FUNCTION gpucredit_eval.bounds_of(r gpucredit_eval.run, document jsonb,
	c gpucredit_eval.golden_case, answered boolean) RETURNS gpucredit_eval.bounds
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	model jsonb := bounds_of.document -> 'model';
	judge jsonb := bounds_of.document -> 'judge';
	b gpucredit_eval.bounds;
	asked bigint;		/* in bytes */
BEGIN
	b.call_max := 0;
	b.sample_max := 0;
	b.samples := '{}';
	IF NOT bounds_of.answered AND gpucredit_eval.scores_texts((c).checks) THEN
		/*
		 * One call for each text, which reads context and continuation and
		 * writes one token. The input contains all of them, and around each
		 * more bytes than there are special tokens.
		 */
		b.call_max := gpucredit_eval.token_cost((r).model_terms,
			gpucredit_eval.most_tokens(NULL, octet_length((c).input::text), 0),
			gpucredit_eval.texts_of((c).input));
	ELSIF NOT bounds_of.answered THEN
		/*
		 * The model also reads what requests contain in addition to the
		 * prompt.
		 */
		asked := coalesce(octet_length(bounds_of.document ->> 'template'), 0)
			+ octet_length((c).input::text)
			+ coalesce(octet_length((model -> 'response_format')::text), 0)
			+ coalesce(octet_length((model -> 'stop')::text), 0)
			+ coalesce(octet_length((model -> 'parameters')::text), 0);
		b.call_max := gpucredit_eval.token_cost((r).model_terms,
			gpucredit_eval.most_tokens((model ->> 'max_input_tokens')::numeric, asked, asked),
			(model ->> 'max_tokens')::numeric);
	END IF;
	IF NOT bounds_of.answered AND gpucredit_eval.embeds((c).checks) THEN
		/*
		 * The embedding model reads the answer and each text once. The checks
		 * contain the texts, and around each more bytes than there are special
		 * tokens.
		 */
		b.call_max := b.call_max + gpucredit_eval.token_cost((r).embedding_terms,
			gpucredit_eval.most_tokens(NULL, (bounds_of.document #>> '{embedding,max_response_bytes}')::integer
				+ octet_length((c).checks::text), 0), 0);
	END IF;
	IF (c).rubric IS NOT NULL THEN
		asked := octet_length((c).rubric) + octet_length((c).input::text)
			+ coalesce(octet_length((c).expected::text), 0)
			+ (judge ->> 'max_response_bytes')::integer;
		b.sample_max := gpucredit_eval.token_cost((r).judge_terms,
			gpucredit_eval.most_tokens((judge ->> 'max_input_tokens')::numeric,
				coalesce(octet_length(judge ->> 'template'), 4096) + asked,
				coalesce(octet_length(judge ->> 'template'), 1024) + asked),
			(judge ->> 'max_tokens')::numeric);
		SELECT array_agg(n ORDER BY n) INTO b.samples
		FROM generate_series(1, (judge ->> 'samples')::integer) n
		WHERE NOT EXISTS (SELECT FROM gpucredit_eval.judgement j
			WHERE j.org = (r).org AND j.run = (r).run AND j."case" = (c)."case"
				AND j.sample = n);
	END IF;
	RETURN b;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.bounds_of(gpucredit_eval.run, jsonb, gpucredit_eval.golden_case, boolean) IS
'Internal: what the calls for a case may cost at most, and which samples the judge still owes.';

/*
 * Gives up a case that failed too often. It has no score: it counts as 0, and
 * as an error.
 */
CREATE FUNCTION gpucredit_eval.abandon_lease(r gpucredit_eval.run, l gpucredit_eval.lease)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	why text := coalesce((l).error, 'its worker was lost');
BEGIN
	INSERT INTO gpucredit_eval.result AS o
	VALUES ((r).org, (r).run, (l)."case", (l).attempt, NULL, '[]', NULL, '\x', false, why, 0,
		0, gpucredit.now())
	ON CONFLICT ON CONSTRAINT result_pkey DO UPDATE SET error = why, score = 0
	WHERE o.score IS NULL;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.abandon_lease(gpucredit_eval.run, gpucredit_eval.lease) IS
'Internal: a case whose attempts are used up gets the score 0 and an error.';

/*
 * Returns the cases to lease next: first those to repeat, then new ones. Each
 * is returned with its last lease, if it has one.
 */
CREATE FUNCTION gpucredit_eval.next_cases(r gpucredit_eval.run, n integer)
RETURNS TABLE (c gpucredit_eval.golden_case, last_lease gpucredit_eval.lease,
	place integer)
LANGUAGE sql STABLE
BEGIN ATOMIC
	(SELECT g, l, NULL::integer
	FROM gpucredit_eval.lease l
		JOIN gpucredit_eval.golden_case g ON g.org = l.org AND g."case" = l."case"
	WHERE l.org = (r).org AND l.run = (r).run AND l.state IN ('open', 'retry')
		AND l.expires_at <= gpucredit.now()
	ORDER BY l.expires_at, l."case" LIMIT n)
	UNION ALL
	(SELECT g.k, NULL::gpucredit_eval.lease, s.place
	FROM gpucredit_eval.run_set s
		JOIN gpucredit_eval.set_version v ON v.org = s.org AND v.set = s.set AND v.version = s.version
		JOIN gpucredit_eval.golden_set o ON o.org = s.org AND o.set = s.set
		CROSS JOIN LATERAL (
			SELECT k FROM gpucredit_eval.golden_case k
			WHERE k.org = s.org AND k.set = s.set
				AND ((r).sample IS NULL OR gpucredit_eval.in_sample(k, o.salt, (r).sample))
				AND k.ordinal > CASE s.place WHEN (r).set_place THEN (r).set_ordinal ELSE 0 END
				AND k.ordinal <= v.last_ordinal
				AND (k.retired_version IS NULL OR k.retired_version > v.version)
			ORDER BY k.ordinal LIMIT n) g
	WHERE s.org = (r).org AND s.run = (r).run AND s.place >= (r).set_place
	ORDER BY s.place, (g.k).ordinal LIMIT n)
	LIMIT n;
END;
COMMENT ON FUNCTION gpucredit_eval.next_cases(gpucredit_eval.run, integer) IS
'Internal: which cases of a run are to be leased next.';

/*
 * Whether the caller may execute a run's cases. The party that is measured
 * must not measure itself: applications and tenants start production gates and
 * calibrations, and workers, which are neither, execute them.
 */
CREATE FUNCTION gpucredit_eval.may_measure(r gpucredit_eval.run) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN (r).purpose NOT IN ('production_gate', 'preview', 'calibration') OR NOT (
		gpucredit_eval.caller_is('gpucredit_app', 'gpucredit_tenant', 'gpucredit_agent')
		AND NOT gpucredit_eval.caller_administers()
		OR (r).started_by = gpucredit_eval.caller() AND current_setting('is_superuser') <> 'on');
END
$$;
COMMENT ON FUNCTION gpucredit_eval.may_measure(gpucredit_eval.run) IS
'Internal: whether the session may measure a run: false if it may own what a production gate, a preview or a calibration measures.';

CREATE FUNCTION gpucredit_eval.check_measurer(r gpucredit_eval.run) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT gpucredit_eval.may_measure(r) THEN
		RAISE EXCEPTION 'role "%" does not measure a run of purpose "%"', gpucredit_eval.caller(),
			(r).purpose
			USING ERRCODE = 'insufficient_privilege',
			DETAIL = 'It started the run, or belongs to gpucredit_app, gpucredit_tenant or gpucredit_agent, whose members may own what is measured.',
			HINT = 'Work on it as a login of gpucredit_eval_worker alone.';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.check_measurer(gpucredit_eval.run) IS
'Internal: refuses workers that may own what a production gate, a preview or a calibration measures (42501).';

/*
 * The first gate of each account and those below it comes before all other
 * runs. Of these, each account's first comes before others' second, so that
 * nobody keeps others waiting by starting many.
 */
CREATE FUNCTION gpucredit_eval.open_runs(org text)
RETURNS TABLE (run bigint, purpose text, first boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN QUERY
	WITH own AS (
		SELECT o.run, o.purpose, gpucredit_eval.is_gate(o.purpose) AS gate, row_number() OVER (
				PARTITION BY gpucredit_eval.top_account(o.account)
				ORDER BY gpucredit_eval.is_gate(o.purpose) DESC, o.run) AS place
		FROM gpucredit_eval.run o
		WHERE o.org = open_runs.org AND o.state = 'running'
			AND gpucredit_eval.acts_as(o.org, o.account) AND gpucredit_eval.may_measure(o))
	SELECT w.run, w.purpose, w.gate AND w.place = 1 FROM own w
	ORDER BY w.gate AND w.place = 1 DESC, w.place, w.run LIMIT 1000;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.open_runs(text) IS
'Workers: the runs of an organisation that go on and that the session may measure, for workers that are not told a number.
Result: runs and their purposes; first: it is the first gate of its account and those below, which comes before other runs. Of the others each account''s first comes first; at most 1,000.';

/*
 * Returns the runs whose results a preview may take over, the first one first:
 * runs of the same version of the registry, served by the same job at the same
 * address, with the same parameters, template and judge, which workers measured
 * that neither started them nor may own what is measured. Nobody can repeat a
 * case until he likes its result, because the first result stands.
 *
 * An endpoint outside the registry has no digest of its model, so nothing of it
 * is taken over. Held-out cases would tell what they score.
 */
CREATE FUNCTION gpucredit_eval.reusable_runs(r gpucredit_eval.run, document jsonb)
RETURNS bigint[]
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce(array_agg(o.run ORDER BY o.run), '{}')
	FROM gpucredit_eval.run o
		JOIN gpucredit_eval.config f ON f.org = o.org AND f.config = o.config
			AND f.version = o.config_version
	WHERE (r).purpose = 'preview' AND o.org = (r).org AND o.registry_version = (r).registry_version
		AND o.oid = (r).oid AND o.purpose IN ('production_gate', 'preview') AND o.run <> (r).run
		AND o.source IS NULL AND NOT o.held_out AND o.problem IS NULL
		AND o.started_at > gpucredit.now() - interval '92 days'
		AND o.model_terms - '{price_in,price_out,max_rps,gate_share,secret}'::text[]
			= (r).model_terms - '{price_in,price_out,max_rps,gate_share,secret}'::text[]
		AND f.document - '{sets,gates,preview,max_errors,max_attempts}'::text[]
			= reusable_runs.document - '{sets,gates,preview,max_errors,max_attempts}'::text[];
END;
COMMENT ON FUNCTION gpucredit_eval.reusable_runs(gpucredit_eval.run, jsonb) IS
'Internal: the runs whose results a preview may take over.';

/*
 * Gives a preview the result that another run measured of a case, with the
 * judge's samples, by the same program. It costs nothing. Returns false if
 * there is none. The case may have another name or be in another set; its
 * digest covers everything else.
 */
CREATE FUNCTION gpucredit_eval.reuse_result(r gpucredit_eval.run, c gpucredit_eval.golden_case,
	runs bigint[], harness text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	o gpucredit_eval.result;
BEGIN
	SELECT res.* INTO o
	FROM gpucredit_eval.golden_case k
		JOIN gpucredit_eval.result res ON res.org = k.org AND res.run = ANY (reuse_result.runs)
			AND res."case" = k."case"
		JOIN gpucredit_eval.lease l ON l.org = res.org AND l.run = res.run AND l."case" = res."case"
			AND l.attempt = res.attempt
	WHERE k.org = (r).org AND k.digest = (c).digest
		AND res.reused IS NULL AND res.error IS NULL AND res.score IS NOT NULL
		AND l.harness = reuse_result.harness
	ORDER BY res.run LIMIT 1;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	INSERT INTO gpucredit_eval.result
	VALUES ((r).org, (r).run, (c)."case", 0, o.output, o.checks, o.usage, o.digest, o.passed, NULL,
		o.score, 0, gpucredit.now(), o.run);
	INSERT INTO gpucredit_eval.judgement
	SELECT j.org, (r).run, (c)."case", j.sample, j.raw, j.usage, j.score, j.parsed, j.reason, 0,
		gpucredit.now()
	FROM gpucredit_eval.judgement j
	WHERE j.org = o.org AND j.run = o.run AND j."case" = o."case";
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.reuse_result(gpucredit_eval.run, gpucredit_eval.golden_case, bigint[], text) IS
'Internal: takes a result over into a preview; false: there is none.';

CREATE FUNCTION gpucredit_eval.lease_cases(org text, run bigint, worker text, n integer,
	ttl interval, harness text DEFAULT NULL)
RETURNS TABLE ("case" bigint, attempt integer, input jsonb, checks jsonb, parameters jsonb,
	max_cost numeric)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	r gpucredit_eval.run;
	document jsonb;
	instant timestamptz;
	k record;
	c gpucredit_eval.golden_case;
	l gpucredit_eval.lease;
	o gpucredit_eval.result;
	b gpucredit_eval.bounds;
	reusable bigint[];
	leased integer := 0;
	passed_over integer := 0;	/* cases that needed no lease */
	seen boolean := true;
	full_up boolean := false;
	waits boolean := false;		/* nothing serves the model yet */
	moved boolean := false;
	served_by integer;			/* the job's attempt that serves it */
	problem text;
BEGIN
	IF coalesce(lease_cases.n, 0) NOT BETWEEN 1 AND 1000
		OR coalesce(lease_cases.ttl, '0') NOT BETWEEN '1 s' AND '1 day'
		OR octet_length(coalesce(lease_cases.worker, '')) NOT BETWEEN 1 AND 255
		OR octet_length(lease_cases.harness) NOT BETWEEN 1 AND 255
	THEN
		PERFORM gpucredit_eval.refuse('n is 1 to 1,000, ttl 1 second to 1 day, a worker''s name and its harness 1 to 255 bytes',
			format('They are %s, %s and "%s".', lease_cases.n, lease_cases.ttl,
				left(lease_cases.worker, 64)));
	END IF;
	r := gpucredit_eval.lock_run(lease_cases.org, lease_cases.run);
	PERFORM gpucredit_eval.check_measurer(r);
	r := gpucredit_eval.account_for(r);
	IF r.state NOT IN ('running', 'paused') OR r.decided_early THEN
		RETURN;
	END IF;
	IF r.model_digest IS NOT NULL THEN
		SELECT a.attempt, a.problem INTO served_by, problem FROM gpucredit_eval.serving_attempt(r) a;
		IF problem IS NOT NULL THEN
			r.problem := problem;
			PERFORM gpucredit_eval.end_run(r, 'cancelled');
			RETURN;
		END IF;
	END IF;
	instant := gpucredit.now();
	r := gpucredit_eval.extend_deadline(r, instant + lease_cases.ttl);
	SELECT f.document INTO STRICT document FROM gpucredit_eval.config f
	WHERE f.org = r.org AND f.config = r.config AND f.version = r.config_version;
	reusable := gpucredit_eval.reusable_runs(r, document);

	/*
	 * Cases that need no lease make room for others. The run is locked
	 * meanwhile, so a call passes over a limited number of them, and the next
	 * call goes on from there.
	 */
	WHILE leased < lease_cases.n AND passed_over < 500 AND seen AND NOT full_up AND NOT waits LOOP
		seen := false;
		FOR k IN SELECT * FROM gpucredit_eval.next_cases(r, least(lease_cases.n - leased, 500)) LOOP
			seen := true;
			c := k.c;
			l := k.last_lease;
			IF l.run IS NOT NULL THEN
				/* A report may have closed the lease in the meantime. */
				SELECT * INTO l FROM gpucredit_eval.lease m
				WHERE m.org = r.org AND m.run = r.run AND m."case" = l."case"
					AND m.attempt = l.attempt AND m.state IN ('open', 'retry')
					AND m.expires_at <= gpucredit.now()
				FOR NO KEY UPDATE;
				CONTINUE WHEN NOT FOUND;
			END IF;
			SELECT * INTO o FROM gpucredit_eval.result res
			WHERE res.org = r.org AND res.run = r.run AND res."case" = c."case";
			IF o.score IS NULL AND l.attempt >= (document ->> 'max_attempts')::integer
				+ (SELECT count(*) FROM gpucredit_eval.lease m WHERE m.org = r.org AND m.run = r.run
					AND m."case" = c."case" AND m.released)
			THEN
				PERFORM gpucredit_eval.abandon_lease(r, l);
				r.finished := r.finished + 1;
				o.score := 0;
			ELSIF l.run IS NULL AND o.run IS NULL AND cardinality(reusable) > 0
				AND gpucredit_eval.reuse_result(r, c, reusable, lease_cases.harness)
			THEN
				r.finished := r.finished + 1;
				o.score := 0;		/* it has one */
			ELSIF o.score IS NULL THEN
				IF o.run IS NULL AND r.model_digest IS NOT NULL AND served_by IS NULL THEN
					waits := true;
					EXIT;
				END IF;
				b := gpucredit_eval.bounds_of(r, document, c, o.run IS NOT NULL);
				max_cost := b.call_max + cardinality(b.samples) * b.sample_max;
				IF r.spent + r.set_aside + max_cost > r.cap
					OR instant + lease_cases.ttl > r.deadline
				THEN
					full_up := true;
					EXIT;
				END IF;
			END IF;
			moved := true;
			IF l.run IS NULL THEN
				r.set_place := k.place;
				r.set_ordinal := c.ordinal;
			ELSE
				UPDATE gpucredit_eval.lease m
				SET state = CASE m.state WHEN 'open' THEN 'lost' ELSE 'closed' END
				WHERE m.org = r.org AND m.run = r.run AND m."case" = l."case"
					AND m.attempt = l.attempt;
			END IF;
			IF o.score IS NOT NULL THEN
				passed_over := passed_over + 1;
				CONTINUE;
			END IF;
			r.set_aside := r.set_aside + max_cost;
			"case" := c."case";
			attempt := coalesce(l.attempt, 0) + 1;
			input := c.input;
			checks := c.checks;
			parameters := jsonb_strip_nulls(jsonb_build_object('expected', c.expected,
				'threshold', c.threshold, 'rubric', c.rubric,
				'samples', to_jsonb(b.samples), 'tags', to_jsonb(c.tags),
				'output', translate(encode(o.output, 'base64'), E'\n', '')));
			INSERT INTO gpucredit_eval.lease (org, run, "case", attempt, worker, state, expires_at,
				judged, threshold, called, call_max, sample_max, max_cost, open_max, leased_by, harness,
				job_attempt)
			VALUES (r.org, r.run, "case", attempt, lease_cases.worker, 'open',
				instant + lease_cases.ttl, c.rubric IS NOT NULL, c.threshold,
				o.run IS NOT NULL, b.call_max, b.sample_max, max_cost, max_cost,
				gpucredit_eval.caller(), lease_cases.harness, served_by);
			leased := leased + 1;
			RETURN NEXT;
		END LOOP;
	END LOOP;

	/*
	 * No further case fits into the cap, and no open lease can return credit.
	 */
	IF full_up AND NOT EXISTS (SELECT FROM gpucredit_eval.lease m
		WHERE m.org = r.org AND m.run = r.run AND m.state = 'open' AND m.expires_at > instant)
	THEN
		IF r.state = 'running' THEN
			r.state := 'paused';
			moved := true;
			/*
			 * Every login may LISTEN, so the notification contains only the
			 * event's number.
			 */
			PERFORM gpucredit_eval.notify_number('gpucredit_eval_paused',
				gpucredit_eval.record(r.org, 'pause_run', NULL, jsonb_build_object('run', r.run,
					'cap', r.cap, 'spent', r.spent, 'set_aside', r.set_aside, 'needs', max_cost)));
			/* A case's cost would tell of one that is held out. */
			PERFORM gpucredit_eval.publish('eval_run.paused', r.org, r.account, jsonb_build_object(
				'run', r.run, 'config', r.config, 'version', r.config_version, 'model', r.model,
				'purpose', r.purpose, 'cap', r.cap));
		END IF;
	ELSIF r.state = 'paused' AND NOT waits THEN
		r.state := 'running';
		moved := true;
	END IF;
	IF moved THEN
		UPDATE gpucredit_eval.run u
		SET set_place = r.set_place, set_ordinal = r.set_ordinal,
			set_aside = r.set_aside, finished = r.finished, state = r.state
		WHERE u.org = r.org AND u.run = r.run;
		PERFORM gpucredit_eval.account_for(r);		/* giving up a case may end
													 * the run */
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.lease_cases(text, bigint, text, integer, interval, text) IS
'Workers: leases up to n cases of a run for a time. Their dearest outcome is set aside of the run''s cap; what does not fit is not leased, and a run that can lease nothing is paused, with a NOTIFY gpucredit_eval_paused that has the number of the row in table event. A worker calls it until run_state() says that the run has ended.
Result: the case and attempt to report under; input and checks; parameters: expected, rubric, threshold, samples the judge owes, and output in base64 if the model has answered before: then only the judge is asked; max_cost: credits.
harness: a digest of the worker''s program; a preview takes over what the same program has measured of the same model, case and config, and leases only the rest; NULL: nothing.
A production gate, preview or calibration is measured by roles that are no application, tenant or agent of nodes, and did not start it. Where a GPU job of the config serves the version of a production gate or preview, nothing is leased until the job''s agent has reported the digest of the version; another digest, or the end of the job, ends the run.
Errors: UC601 no such run; 42501 such a run, and a role that may own what it measures; 22023.';

/*
 * Extends a run's hold, which must last longer than the leases that it pays
 * for. A hold that has ended cannot be extended; raise_cap() opens a new one.
 */
CREATE FUNCTION gpucredit_eval.extend_deadline(r gpucredit_eval.run, until timestamptz)
RETURNS gpucredit_eval.run
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_eval'
AS $$
DECLARE
	h record;
BEGIN
	IF extend_deadline.until <= (r).deadline OR gpucredit.now() >= (r).deadline THEN
		RETURN r;
	END IF;
	SELECT * INTO h FROM gpucredit.extend_hold((r).org, (r).hold,
		format('eval/run/%s/until/%s', (r).run, extract(epoch FROM (r).deadline)), 0,
		extend_deadline.until - gpucredit.now() + '1 hour');
	IF h.status = 'granted' THEN
		r.deadline := h.expires_at;
		UPDATE gpucredit_eval.run o SET deadline = h.expires_at
		WHERE o.org = (r).org AND o.run = (r).run;
	END IF;
	RETURN r;
EXCEPTION WHEN SQLSTATE 'UC003' THEN
	RETURN r;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.extend_deadline(gpucredit_eval.run, timestamptz) IS
'Internal: lets the hold of a locked run live until then, if it lives.';

CREATE FUNCTION gpucredit_eval.release_case(org text, run bigint, "case" bigint,
	attempt integer, sent boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	l gpucredit_eval.lease;
BEGIN
	SELECT * INTO l FROM gpucredit_eval.lease m
	WHERE m.org = release_case.org AND m.run = release_case.run
		AND m."case" = release_case."case" AND m.attempt = release_case.attempt
	FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'run % of "%" has no attempt % of case %', release_case.run,
			left(release_case.org, 64), release_case.attempt, release_case."case"
			USING ERRCODE = 'UC603', DETAIL = 'Nobody leased it.',
			HINT = 'Release what lease_cases() returned.';
	END IF;
	PERFORM gpucredit_eval.check_leaseholder(l.leased_by);
	IF l.state <> 'open' OR l.accounted THEN
		RETURN false;
	END IF;
	UPDATE gpucredit_eval.lease m
	SET cost = m.cost + CASE WHEN release_case.sent IS FALSE THEN 0 ELSE m.open_max END,
		open_max = 0, called = true, state = 'retry', released = true,
		expires_at = gpucredit.now()
	WHERE m.org = l.org AND m.run = l.run AND m."case" = l."case" AND m.attempt = l.attempt;
	PERFORM gpucredit_eval.account_if_free(l.org, l.run);
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.release_case(text, bigint, bigint, integer, boolean) IS
'Workers: gives a lease back that was not reported, as the worker is stopped. The case is leased again at once, and this was no attempt of it.
sent: whether a request was sent that has no answer: then it counts in full, as it may have been billed.
Result: whether the lease was still open. Errors: UC603 no such case or attempt; 42501 another role leased it.';

CREATE FUNCTION gpucredit_eval.run_spec(org text, run bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r gpucredit_eval.run;
BEGIN
	r := gpucredit_eval.require_run(run_spec.org, run_spec.run);
	PERFORM gpucredit_eval.check_measurer(r);
	RETURN (SELECT jsonb_build_object('run', r.run, 'purpose', r.purpose, 'account', r.account,
			'config', r.config, 'version', r.config_version, 'oid', r.oid,
			'endpoint', r.model_terms, 'judge_endpoint', r.judge_terms,
			'model', c.document -> 'model', 'template', c.document -> 'template',
			'judge', c.document -> 'judge', 'embedding', c.document -> 'embedding',
			'embedding_endpoint', r.embedding_terms)
		FROM gpucredit_eval.config c
		WHERE c.org = r.org AND c.config = r.config AND c.version = r.config_version);
END
$$;
COMMENT ON FUNCTION gpucredit_eval.run_spec(text, bigint) IS
'Workers: what all cases of a run have in common: endpoints with their prices, the model''s parameters, template, judge.
Errors: UC601 no such run.';

CREATE FUNCTION gpucredit_eval.run_state(org text, run bigint, OUT state text, OUT cases integer,
	OUT finished integer, OUT errors integer, OUT cap numeric, OUT spent numeric,
	OUT set_aside numeric, OUT captured numeric, OUT gpu_job bigint, OUT problem text,
	OUT set_cases integer, OUT reused integer, OUT decided_early boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r gpucredit_eval.run;
BEGIN
	r := gpucredit_eval.require_run(run_state.org, run_state.run);
	run_state.state := r.state;
	run_state.cases := r.cases;
	run_state.cap := r.cap + r.gpu_held;
	run_state.gpu_job := r.gpu_job;
	run_state.problem := r.problem;
	run_state.set_cases := r.set_cases;
	run_state.decided_early := r.decided_early;
	IF r.held_out AND r.state <> 'finished' THEN
		IF r.ended_at IS NOT NULL THEN
			run_state.captured := r.captured;
		END IF;
		RETURN;
	END IF;
	run_state.captured := r.captured;
	SELECT count(*) FILTER (WHERE o.score IS NOT NULL), count(o.error), count(o.reused)
	INTO run_state.finished, run_state.errors, run_state.reused
	FROM gpucredit_eval.result o WHERE o.org = r.org AND o.run = r.run;
	/* Includes reported costs that are not added to the run yet. */
	SELECT r.spent + coalesce(sum(l.cost), 0), r.set_aside - coalesce(sum(l.max_cost), 0)
	INTO run_state.spent, run_state.set_aside
	FROM gpucredit_eval.lease l
	WHERE l.org = r.org AND l.run = r.run AND l.state IN ('retry', 'closed') AND NOT l.accounted;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.run_state(text, bigint) IS
'Runs: how far a run is, and what it has cost.
Result: state running, paused (the cap is used up: see raise_cap), finished or cancelled; cases finished and those of them that failed; credits: the cap, spent, set aside for what is under way, captured; its GPU job; problem: over_bound: an endpoint reported more than a call could cost, which overruns() lists, and the run was stopped; how many cases its sets have, of which a preview asks a sample, and how many results were measured by earlier runs; decided_early: a preview whose verdict the cases that are left cannot change. Of a run over held-out sets no figures are there until it is finished.
Errors: UC601 no such run.';

CREATE FUNCTION gpucredit_eval.raise_cap(org text, run bigint, key text, cap numeric,
	OUT status text, OUT reason text, OUT held numeric, OUT replayed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_eval'
AS $$
DECLARE
	kept jsonb;
	r gpucredit_eval.run;
	added numeric;
	h record;
BEGIN
	PERFORM gpucredit_eval.require_run(raise_cap.org, raise_cap.run);
	kept := gpucredit_eval.request_begin(raise_cap.org, raise_cap.key, 'raise_cap',
		jsonb_build_array(raise_cap.run, trim_scale(raise_cap.cap)));
	raise_cap.replayed := kept IS NOT NULL;
	IF kept IS NULL THEN
		r := gpucredit_eval.account_for(gpucredit_eval.lock_run(raise_cap.org, raise_cap.run));
		IF r.state NOT IN ('running', 'paused') THEN
			PERFORM gpucredit_eval.wrong_state(format('run %s is %s', r.run, r.state),
				'It leases no more cases.', 'Start a new run.');
		END IF;
		added := raise_cap.cap - r.gpu_held - r.cap;
		IF added IS NULL OR added <= 0 OR raise_cap.cap <> round(raise_cap.cap, 6) THEN
			PERFORM gpucredit_eval.refuse('the new cap is above the old one and has at most 6 decimals',
				format('The old one is %s.', r.cap + r.gpu_held));
		END IF;
		IF r.held_out AND added < r.whole_max THEN
			PERFORM gpucredit_eval.held_out(format('the cap of run %s is raised by less than all of its cases cost', r.run),
				format('Raise it by %s at least: case by case it would show what each costs.', r.whole_max));
		END IF;
		IF gpucredit.now() < r.deadline THEN
			SELECT * INTO h FROM gpucredit.extend_hold(r.org, r.hold,
				gpucredit_eval.ledger_key('raise', raise_cap.key), added);
		ELSE
			PERFORM gpucredit_eval.free_hold(r.org, r.hold);
			SELECT * INTO h FROM gpucredit.hold(r.org, r.account,
				gpucredit_eval.ledger_key('raise', raise_cap.key), r.cap + added - r.captured,
				'24 hours');
		END IF;
		IF h.status = 'granted' THEN
			UPDATE gpucredit_eval.run o
			SET cap = o.cap + added, hold = h.hold, deadline = h.expires_at, state = 'running'
			WHERE o.org = r.org AND o.run = r.run;
			PERFORM gpucredit_eval.record(r.org, 'raise_cap', NULL,
				jsonb_build_object('run', r.run, 'cap', raise_cap.cap));
		END IF;
		kept := gpucredit_eval.request_end(raise_cap.org, raise_cap.key,
			jsonb_build_array(h.status, h.reason, h.held));
	END IF;
	raise_cap.status := kept ->> 0;
	raise_cap.reason := kept ->> 1;
	raise_cap.held := kept ->> 2;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.raise_cap(text, bigint, text, numeric) IS
'Runs: lets a run cost more; a paused one goes on. cap: the new one, in credits, GPU job included.
Result: status granted, or denied with a reason of gpucredit.extend_hold; what the hold then holds. Errors: UC201 key used with other arguments; UC601 no such run; UC602 it has ended; UC604 a run over held-out sets, raised by less than all of its cases cost; 22023.';

CREATE FUNCTION gpucredit_eval.overruns(org text, run bigint)
RETURNS TABLE ("case" bigint, endpoint text, usage jsonb, cost numeric, bound numeric,
	reported_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	r gpucredit_eval.run := gpucredit_eval.require_run(overruns.org, overruns.run);
BEGIN
	RETURN QUERY
	SELECT CASE WHEN NOT r.held_out THEN v."case" END, v.endpoint,
		CASE WHEN NOT r.held_out THEN v.usage END, CASE WHEN NOT r.held_out THEN v.cost END,
		CASE WHEN NOT r.held_out THEN v.bound END, v.reported_at
	FROM gpucredit_eval.overrun v
	WHERE v.org = r.org AND v.run = r.run ORDER BY v.overrun;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.overruns(text, bigint) IS
'Runs: the calls of which an endpoint reported more than they could cost. The first stops its run; each costs what was set aside for it.
Result: the case, endpoint and usage as it was reported; its cost and its bound, in credits; of a run over held-out sets only the endpoint and when it was.
Errors: UC601 no such run.';

CREATE FUNCTION gpucredit_eval.cancel_run(org text, run bigint, key text, OUT state text,
	OUT replayed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	kept jsonb;
	r gpucredit_eval.run;
BEGIN
	PERFORM gpucredit_eval.require_run(cancel_run.org, cancel_run.run);
	kept := gpucredit_eval.request_begin(cancel_run.org, cancel_run.key, 'cancel_run',
		to_jsonb(cancel_run.run));
	cancel_run.replayed := kept IS NOT NULL;
	IF kept IS NULL THEN
		r := gpucredit_eval.account_for(gpucredit_eval.lock_run(cancel_run.org, cancel_run.run));
		IF r.state IN ('running', 'paused') THEN
			r := gpucredit_eval.end_run(r, 'cancelled');
		END IF;
		kept := gpucredit_eval.request_end(cancel_run.org, cancel_run.key, to_jsonb(r.state));
	END IF;
	cancel_run.state := kept #>> '{}';
END
$$;
COMMENT ON FUNCTION gpucredit_eval.cancel_run(text, bigint, text) IS
'Runs: ends a run. Calls that are under way count as spent; the rest of the hold is free again.
Result: its state then: cancelled, or finished if it was. Errors: UC201 key used with other arguments; UC601 no such run.';
