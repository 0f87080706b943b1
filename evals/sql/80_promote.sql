/*
 * 80_promote.sql: promotes registry versions that have passed a gate.
 *
 * The registry protects a ref: it then moves only by move_ref(), which
 * promote() calls. The owner of a version must not decide what the version has
 * to pass. Therefore the organisation defines a release gate for the ref: a
 * version of a config, with its sets, judge and gates; the minimum scores of
 * tasks; and the roles whose runs count.
 */
CREATE TABLE gpucredit_eval.release_gate (
	org text COLLATE "C" NOT NULL,
	model bigint NOT NULL,
	ref text COLLATE "C" NOT NULL,
	config text COLLATE "C" NOT NULL,
	config_version integer NOT NULL,
	minimum jsonb NOT NULL,			/* minimum score of each task */
	runners text[],					/* roles whose runs count; NULL for any */
	max_age interval NOT NULL,		/* maximum age of a run that passed */
	set_at timestamptz NOT NULL,
	serving text NOT NULL CHECK (serving IN ('job', 'endpoint')),	/* what may
									 * have served the version */
	CONSTRAINT release_gate_pkey PRIMARY KEY (org, model, ref),
	FOREIGN KEY (org, config, config_version) REFERENCES gpucredit_eval.config
);
COMMENT ON TABLE gpucredit_eval.release_gate IS
'What a version has to pass before promote() moves a protected ref to it';

CREATE FUNCTION gpucredit_eval.check_release_gate(c gpucredit_eval.config, minimum jsonb,
	runners text[], max_age interval, serving text) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wrong text;
BEGIN
	IF jsonb_typeof(check_release_gate.minimum) IS DISTINCT FROM 'object'
		OR check_release_gate.max_age IS NULL
		OR check_release_gate.max_age NOT BETWEEN interval '1 hour' AND interval '10 years'
		OR array_position(check_release_gate.runners, NULL) IS NOT NULL
	THEN
		PERFORM gpucredit_eval.refuse('minimum is an object of scores by task, max_age 1 hour to 10 years, runners are roles',
			format('max_age is %s.', check_release_gate.max_age));
	END IF;
	IF coalesce(check_release_gate.serving, '') NOT IN ('job', 'endpoint')
		OR check_release_gate.serving = 'job'
			AND NOT gpucredit_eval.is_present((c).document #> '{serving,gpu}')
	THEN
		PERFORM gpucredit_eval.refuse(format('serving is job or endpoint, and "serving" of config "%s@%s" names no GPU job',
				(c).config, (c).version),
			'The agent of such a job reports the digest of the model that it serves.',
			'Let the config say which job serves a version, or pass serving => ''endpoint'' if curators vouch for the endpoint.');
	END IF;
	SELECT l.key INTO wrong FROM jsonb_each(check_release_gate.minimum) l
	WHERE NOT EXISTS (SELECT FROM jsonb_array_elements((c).document -> 'sets') e
			JOIN gpucredit_eval.set_version v ON v.org = (c).org AND v.set = e ->> 'set'
				AND v.version = (e ->> 'version')::integer
			WHERE v.tasks ? l.key)
		OR CASE jsonb_typeof(l.value) WHEN 'number' THEN l.value::numeric NOT BETWEEN 0 AND 1
			ELSE true END
	LIMIT 1;
	IF FOUND THEN
		PERFORM gpucredit_eval.refuse(format('the least score of task "%s" is out of range, or the sets of config "%s@%s" have no such task',
				left(wrong, 64), (c).config, (c).version),
			'A score is 0 to 1.');
	END IF;
	SELECT q INTO wrong FROM unnest(check_release_gate.runners) q
	WHERE NOT EXISTS (SELECT FROM pg_roles o WHERE o.rolname = q) LIMIT 1;
	IF FOUND THEN
		PERFORM gpucredit_eval.refuse(format('role "%s" does not exist', left(wrong, 64)),
			'Only runs that one of these roles, or a member of it, started count.');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.check_release_gate(gpucredit_eval.config, jsonb, text[], interval, text) IS
'Internal: refuses what is no release gate (22023).';

CREATE FUNCTION gpucredit_eval.set_release_gate(org text, model bigint, ref text, config text,
	key text, minimum jsonb DEFAULT '{}', runners text[] DEFAULT NULL,
	max_age interval DEFAULT '92 days', serving text DEFAULT 'job', OUT config_version integer, OUT replayed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	kept jsonb;
	c gpucredit_eval.config;
BEGIN
	PERFORM gpucredit_eval.check_account(set_release_gate.org, '');
	kept := gpucredit_eval.request_begin(set_release_gate.org, set_release_gate.key,
		'set_release_gate', jsonb_build_array(set_release_gate.model, set_release_gate.ref,
			set_release_gate.config, set_release_gate.minimum, to_jsonb(set_release_gate.runners),
			set_release_gate.max_age, set_release_gate.serving));
	set_release_gate.replayed := kept IS NOT NULL;
	IF kept IS NULL THEN
		/* Raises an error if the model does not exist. */
		PERFORM gpucredit_registry.protect_ref(set_release_gate.org, set_release_gate.model,
			set_release_gate.ref);
		IF set_release_gate.config IS NULL THEN
			DELETE FROM gpucredit_eval.release_gate g
			WHERE g.org = set_release_gate.org AND g.model = set_release_gate.model
				AND g.ref = set_release_gate.ref;
		ELSE
			c := gpucredit_eval.require_config(set_release_gate.org, set_release_gate.config,
				(SELECT n.account FROM gpucredit_eval.config_name n
				WHERE n.org = set_release_gate.org
					AND n.config = split_part(set_release_gate.config, '@', 1)));
			PERFORM gpucredit_eval.check_release_gate(c, set_release_gate.minimum,
				set_release_gate.runners, set_release_gate.max_age, set_release_gate.serving);
			INSERT INTO gpucredit_eval.release_gate
			VALUES (set_release_gate.org, set_release_gate.model, set_release_gate.ref, c.config,
				c.version, set_release_gate.minimum, set_release_gate.runners,
				set_release_gate.max_age, gpucredit.now(), set_release_gate.serving)
			ON CONFLICT ON CONSTRAINT release_gate_pkey DO UPDATE
			SET config = excluded.config, config_version = excluded.config_version,
				minimum = excluded.minimum, runners = excluded.runners, max_age = excluded.max_age,
				set_at = excluded.set_at, serving = excluded.serving;
		END IF;
		PERFORM gpucredit_eval.record(set_release_gate.org, 'set_release_gate', NULL,
			jsonb_build_object('model', set_release_gate.model, 'ref', set_release_gate.ref,
				'config', c.config, 'version', c.version, 'minimum', set_release_gate.minimum,
				'runners', to_jsonb(set_release_gate.runners), 'max_age', set_release_gate.max_age,
				'serving', set_release_gate.serving));
		kept := gpucredit_eval.request_end(set_release_gate.org, set_release_gate.key,
			jsonb_build_array(c.version));
	END IF;
	set_release_gate.config_version := kept -> 0;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.set_release_gate(text, bigint, text, text, text, jsonb, text[], interval, text) IS
'Gates: says what a version has to pass before promote() moves a ref of the registry to it, and protects the ref; calling again changes it. Only a caller who may act as the organisation may call it.
model: the registry''s number. config: "name" or "name@version", whose version is pinned here; NULL ends the gate, and then nothing is promoted. minimum: the least score of tasks, as {"task": 0.9}, beside the gates of the config. runners: only runs count that these roles, or members of them, started; NULL: of all who may start runs. max_age: how long a pass counts; it counts no longer once a set of the config has a newer version. serving: job: only runs count whose version was served by the GPU job of the config, and the digest that the job''s agent reported was that of the version; endpoint: the curators vouch for what the endpoint of the config serves.
Result: the config''s version. Errors: UC001 no such organisation, or the caller may not act as it; UC201 key used with other arguments; UC601 no such config; the registry''s: UC501 no such model; 22023.';

CREATE FUNCTION gpucredit_eval.release_gates(org text)
RETURNS TABLE (model bigint, ref text, config text, config_version integer, minimum jsonb,
	runners text[], max_age interval, stale boolean, set_at timestamptz, serving text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	PERFORM gpucredit_eval.check_member(release_gates.org);
	RETURN QUERY
	SELECT g.model, g.ref, g.config, g.config_version, g.minimum, g.runners, g.max_age,
		gpucredit_eval.sets_grew(g.org, g.config, g.config_version), g.set_at, g.serving
	FROM gpucredit_eval.release_gate g WHERE g.org = release_gates.org ORDER BY g.model, g.ref;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.release_gates(text) IS
'Gates: what versions have to pass, for each ref with a release gate. Any tenant of the organisation may read it.
Result: as set_release_gate(); stale: a set of the config has a newer version, so that nothing is promoted until the gate names a config with it.
Errors: UC001 no such organisation, or the caller is no tenant of it.';

CREATE FUNCTION gpucredit_eval.sets_grew(org text, config text, version integer) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT EXISTS (SELECT FROM gpucredit_eval.config c
			CROSS JOIN LATERAL jsonb_array_elements(c.document -> 'sets') e
			JOIN gpucredit_eval.golden_set s ON s.org = c.org AND s.set = e ->> 'set'
		WHERE c.org = sets_grew.org AND c.config = sets_grew.config AND c.version = sets_grew.version
			AND s.versions > (e ->> 'version')::integer);
END;
COMMENT ON FUNCTION gpucredit_eval.sets_grew(text, text, integer) IS
'Internal: has a set of a config a newer version than the config names?';

/*
 * Whether one of these roles, or a member of one, started the run. A role may
 * have been dropped, so that its membership is unknown; then the result is
 * false.
 */
CREATE FUNCTION gpucredit_eval.started_by_one_of(r gpucredit_eval.run, runners text[])
RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT runners IS NULL OR EXISTS (
		SELECT FROM unnest(runners) q
			JOIN pg_roles wanted ON wanted.rolname = q
			JOIN pg_roles starter ON starter.rolname = (r).started_by
		WHERE pg_has_role(starter.oid, wanted.oid, 'MEMBER'));
END;
COMMENT ON FUNCTION gpucredit_eval.started_by_one_of(gpucredit_eval.run, text[]) IS
'Internal: was a run started by one of these roles, or a member of one?';

/*
 * Returns the version that the ref names now, which is the baseline of the
 * next one. "name" is the model's name as runs have it, "NAME@OID"; the result
 * is 0 if it is now the name of another model.
 */
CREATE FUNCTION gpucredit_eval.version_at(org text, model bigint, name text, ref text)
RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v record;
BEGIN
	SELECT * INTO v FROM gpucredit_registry.find_revision(version_at.org,
		split_part(version_at.name, '@', 1), version_at.ref);
	RETURN CASE WHEN v.model = version_at.model THEN v.version ELSE 0 END;
EXCEPTION WHEN SQLSTATE 'UC501' THEN
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.version_at(text, bigint, text, text) IS
'Internal: the version at a ref of the registry, or NULL.';

/*
 * Returns the newest run that a version is compared with: a run of the version
 * at a ref with a release gate of this config's measure, for the same purpose
 * and finished, or under way if there is no other. A run with too many errors
 * does not count.
 */
CREATE FUNCTION gpucredit_eval.find_baseline(c gpucredit_eval.config, purpose text,
	model bigint, name text, version bigint) RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	g gpucredit_eval.release_gate;
	candidate record;
BEGIN
	FOR g IN
		SELECT o.* FROM gpucredit_eval.release_gate o
			JOIN gpucredit_eval.config gc ON gc.org = o.org AND gc.config = o.config
				AND gc.version = o.config_version
		WHERE o.org = (c).org AND o.model = find_baseline.model AND gc.measure = (c).measure
		ORDER BY o.ref
	LOOP
		/*
		 * Candidates are examined one by one, because reading their scores
		 * takes longest.
		 */
		FOR candidate IN
			SELECT r AS run, (rc.document ->> 'max_errors')::numeric AS max_errors
			FROM gpucredit_eval.run r
				JOIN gpucredit_eval.config rc ON rc.org = r.org AND rc.config = r.config
					AND rc.version = r.config_version
			WHERE r.org = g.org AND r.registry_model = g.model
				AND r.registry_version = gpucredit_eval.version_at(g.org, g.model, find_baseline.name, g.ref)
				AND r.registry_version <> find_baseline.version
				AND r.purpose = find_baseline.purpose AND r.source IS NULL
				AND rc.measure = (c).measure AND r.state <> 'cancelled'
				AND gpucredit_eval.started_by_one_of(r, g.runners)
			ORDER BY r.state = 'finished' DESC, r.run DESC
		LOOP
			IF (candidate.run).ended_at IS NULL
				OR NOT gpucredit_eval.has_many_errors(candidate.run, candidate.max_errors,
					ARRAY(SELECT m FROM gpucredit_eval.metrics(candidate.run) m))
			THEN
				RETURN (candidate.run).run;
			END IF;
		END LOOP;
	END LOOP;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.find_baseline(gpucredit_eval.config, text, bigint, text, bigint) IS
'Internal: the run that a run of a version is compared with, or NULL.';

/*
 * Returns why a run is not comparable with the version at the ref, which the
 * new version replaces, or NULL.
 */
CREATE FUNCTION gpucredit_eval.why_no_comparison(r gpucredit_eval.run,
	g gpucredit_eval.release_gate) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	present bigint := gpucredit_eval.version_at((g).org, (g).model, (r).model, (g).ref);
	b gpucredit_eval.run;
BEGIN
	IF present IS NULL OR present = (r).registry_version THEN
		RETURN NULL;		/* it is the first version, or the same version
							 * again */
	END IF;
	SELECT * INTO b FROM gpucredit_eval.run o WHERE o.org = (r).org AND o.run = (r).baseline;
	RETURN CASE WHEN NOT FOUND THEN 'no_baseline'
		WHEN b.registry_version IS DISTINCT FROM present OR b.purpose <> 'production_gate'
			OR b.source IS NOT NULL OR NOT gpucredit_eval.started_by_one_of(b, (g).runners)
			THEN 'other_baseline'
		WHEN b.state <> 'finished' THEN 'no_baseline' END;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.why_no_comparison(gpucredit_eval.run, gpucredit_eval.release_gate) IS
'Internal: why a run is not compared with the version that a ref is at, or NULL.';

CREATE FUNCTION gpucredit_eval.why_not_promoted(r gpucredit_eval.run, model bigint, ref text,
	version bigint) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	g gpucredit_eval.release_gate;
	verdict text;
BEGIN
	SELECT * INTO g FROM gpucredit_eval.release_gate o
	WHERE o.org = (r).org AND o.model = why_not_promoted.model AND o.ref = why_not_promoted.ref;
	IF NOT FOUND THEN
		RETURN 'no_release_gate';
	END IF;
	IF (r).purpose <> 'production_gate' THEN
		RETURN 'not_production_gate';
	END IF;
	IF (r).registry_model IS DISTINCT FROM why_not_promoted.model
		OR (r).registry_version IS DISTINCT FROM why_not_promoted.version
	THEN
		RETURN 'other_version';
	END IF;
	IF (r).config <> g.config OR (r).config_version <> g.config_version OR (r).source IS NOT NULL THEN
		RETURN 'other_config';
	END IF;
	IF NOT gpucredit_eval.started_by_one_of(r, g.runners) THEN
		RETURN 'other_starter';
	END IF;
	IF (r).problem IS NOT NULL THEN
		RETURN (r).problem;
	END IF;
	IF (r).state <> 'finished' THEN
		RETURN 'unfinished';
	END IF;
	verdict := gpucredit_eval.verdict_of(r);
	IF verdict NOT IN ('pass', 'warn') THEN
		RETURN verdict;
	END IF;
	IF EXISTS (SELECT FROM jsonb_each_text(g.minimum) l
			LEFT JOIN gpucredit_eval.gate_rows(r) t ON t.task = l.key
		WHERE (t.passes AND t.score >= l.value::numeric) IS NOT TRUE)
	THEN
		RETURN 'below_minimum';
	END IF;
	IF (r).ended_at < gpucredit.now() - g.max_age
		OR gpucredit_eval.sets_grew(g.org, g.config, g.config_version)
	THEN
		RETURN 'stale';
	END IF;
	RETURN gpucredit_eval.why_no_comparison(r, g);
END
$$;
COMMENT ON FUNCTION gpucredit_eval.why_not_promoted(gpucredit_eval.run, bigint, text, bigint) IS
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
		/*
		 * A change of the gate, and a promotion to another version, wait for
		 * this one.
		 */
		PERFORM FROM gpucredit_eval.release_gate g
		WHERE g.org = r.org AND g.model = promote.model AND g.ref = promote.ref
		FOR NO KEY UPDATE;
		promote.reason := gpucredit_eval.why_not_promoted(r, promote.model, promote.ref,
			promote.version);
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
'Gates: moves a ref of the registry to a version that passed the release gate of the ref.
model, version: the registry''s numbers. run: a finished production gate on that very version, with the config of the release gate and the verdict pass or warn, compared with the version at the ref.
Result: status promoted, or denied with reason no_release_gate, not_production_gate, other_version, other_config, other_starter, over_bound, not_served, other_model, entered (see gate()), unfinished, block, inconclusive, below_minimum, stale (a set has grown, or the pass is older than max_age), no_baseline or other_baseline (the version at the ref was not measured by the same gate, or is not what the run was compared with). Errors: UC201 key used with other arguments; UC601 no such run; the registry''s: UC501 no such version, UC504 in quarantine.';
