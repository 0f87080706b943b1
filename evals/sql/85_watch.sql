/*
 * 85_watch.sql: starts a run for each new version in the registry.
 *
 * A watch names a ref. start_watched() starts one run for the version that the
 * ref names; until it ends, the version is pending. A run that was denied is
 * tried again, and at once when there is credit. A run is compared with the
 * version at the ref that a release gate protects; if that version was never
 * measured on the same sets, it is measured first. When a run of a version
 * ends, its scores are stored in the registry.
 */
CREATE TABLE gpucredit_eval.watch (
	org text COLLATE "C" NOT NULL,
	name text COLLATE "C" NOT NULL,		/* name of the model */
	ref text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	config text COLLATE "C" NOT NULL,
	purpose text NOT NULL,
	cap numeric NOT NULL,
	options jsonb NOT NULL,
	version bigint,			/* the last version for which a run was started */
	run bigint,				/* the run, or the reason why there is none */
	reason text,
	set_by text COLLATE "C" NOT NULL,	/* the role that set the watch, which
										 * starts the runs */
	tries integer NOT NULL DEFAULT 0,	/* number of denied attempts for one
										 * version */
	retry_at timestamptz NOT NULL DEFAULT '-infinity',
	CONSTRAINT watch_pkey PRIMARY KEY (org, name, ref),
	FOREIGN KEY (org, run) REFERENCES gpucredit_eval.run
);
COMMENT ON TABLE gpucredit_eval.watch IS
'Refs of the registry whose new versions are measured';

CREATE FUNCTION gpucredit_eval.watch_ref(org text, name text, ref text, account text,
	config text, purpose text DEFAULT 'gate', cap numeric DEFAULT 5,
	options jsonb DEFAULT '{}') RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_eval.check_account(watch_ref.org, watch_ref.account);
	IF watch_ref.config IS NULL THEN
		DELETE FROM gpucredit_eval.watch w
		WHERE w.org = watch_ref.org AND w.name = watch_ref.name AND w.ref = watch_ref.ref
			AND w.account = watch_ref.account;
	ELSE
		PERFORM gpucredit_eval.require_config(watch_ref.org, watch_ref.config, watch_ref.account);
		IF coalesce(watch_ref.purpose, '') NOT IN ('development', 'gate', 'production_gate', 'nightly')
			OR watch_ref.cap IS NULL OR watch_ref.cap <= 0
			OR watch_ref.cap <> round(watch_ref.cap, 6)
			OR octet_length(watch_ref.ref) NOT BETWEEN 1 AND 200
			OR octet_length(watch_ref.name) NOT BETWEEN 1 AND 96
			OR watch_ref.ref IS NULL OR watch_ref.name IS NULL
		THEN
			PERFORM gpucredit_eval.refuse('a watch has a model, a ref, a purpose and a positive cap',
				format('They are "%s", "%s", "%s" and %s.', left(watch_ref.name, 64),
					left(watch_ref.ref, 64), left(watch_ref.purpose, 64), watch_ref.cap));
		END IF;
		PERFORM gpucredit_eval.check_words('options', watch_ref.options, '{endpoint,ttl,gpu}');
		INSERT INTO gpucredit_eval.watch AS w (org, name, ref, account, config, purpose, cap,
			options, set_by)
		VALUES (watch_ref.org, watch_ref.name, watch_ref.ref, watch_ref.account,
			watch_ref.config, watch_ref.purpose, watch_ref.cap, watch_ref.options,
			gpucredit_eval.caller())
		ON CONFLICT ON CONSTRAINT watch_pkey DO UPDATE
		SET config = excluded.config, purpose = excluded.purpose, cap = excluded.cap,
			options = excluded.options, version = NULL, run = NULL, reason = NULL,
			set_by = excluded.set_by, tries = 0, retry_at = '-infinity'
		WHERE w.account = excluded.account;
		IF NOT FOUND THEN
			PERFORM gpucredit_eval.not_found(format('watch of "%s@%s"', watch_ref.name, watch_ref.ref));
		END IF;
	END IF;
	PERFORM gpucredit_eval.record(watch_ref.org, 'watch_ref', NULL, jsonb_build_object('model',
		watch_ref.name, 'ref', watch_ref.ref, 'config', watch_ref.config,
		'purpose', watch_ref.purpose, 'cap', watch_ref.cap));
END
$$;
COMMENT ON FUNCTION gpucredit_eval.watch_ref(text, text, text, text, text, text, numeric, jsonb) IS
'Runs: lets start_watched() start a run for each version that a ref of the registry comes to; calling again changes it.
name, ref: a model of the registry and its branch. account: who pays. config: NULL ends the watch. purpose, cap, options: as start_run.
Errors: UC001 no such account; UC601 no such config, or another account''s watch; 22023.';

/*
 * Starts the run of a watch for a version. A denial is stored under its
 * idempotency key, so an attempt after a denial has a key of its own.
 */
CREATE FUNCTION gpucredit_eval.start_watch(w gpucredit_eval.watch, what text, version bigint,
	revision text) RETURNS gpucredit_eval.run_result
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN gpucredit_eval.start_run_for((w).set_by, (w).org, (w).account,
		format('%s/%s/%s/%s/%s/%s', start_watch.what, (w).name, (w).ref, start_watch.version,
			left(encode(sha256(convert_to(jsonb_build_array((w).config, (w).purpose, (w).cap,
				(w).options)::text, 'UTF8')), 'hex'), 12), (w).tries),
		(w).config, (w).name || '@' || start_watch.revision, (w).purpose, (w).cap, NULL, (w).options);
END
$$;
COMMENT ON FUNCTION gpucredit_eval.start_watch(gpucredit_eval.watch, text, bigint, text) IS
'Internal: starts the run of a watch for a version.';

/*
 * Returns the version at the ref that a release gate of the watch's config
 * protects, if that version must be measured before the new one can be
 * compared with it.
 */
CREATE FUNCTION gpucredit_eval.missing_baseline(w gpucredit_eval.watch, model bigint,
	version bigint, OUT present bigint, OUT at text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c gpucredit_eval.config;
BEGIN
	IF NOT gpucredit_eval.is_gate((w).purpose) THEN
		RETURN;
	END IF;
	c := gpucredit_eval.require_config((w).org, (w).config, (w).account);
	SELECT gpucredit_eval.version_at(g.org, g.model, (w).name, g.ref), g.ref
	INTO missing_baseline.present, missing_baseline.at
	FROM gpucredit_eval.release_gate g
		JOIN gpucredit_eval.config gc ON gc.org = g.org AND gc.config = g.config
			AND gc.version = g.config_version
	WHERE g.org = (w).org AND g.model = missing_baseline.model AND gc.measure = c.measure
	ORDER BY g.ref LIMIT 1;
	IF missing_baseline.present IN (0, missing_baseline.version)
		OR gpucredit_eval.find_baseline(c, (w).purpose, missing_baseline.model, (w).name,
			missing_baseline.version) IS NOT NULL
	THEN
		missing_baseline.present := NULL;
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.missing_baseline(gpucredit_eval.watch, bigint, bigint) IS
'Internal: the version that a watched one has to be compared with and that was not measured, or NULL.';

/*
 * Whether the watch is to wait. After a denial for lack of credit, the balance
 * is checked; after other denials the pause grows.
 */
CREATE FUNCTION gpucredit_eval.watch_waits(w gpucredit_eval.watch) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF (w).tries = 0 OR (w).retry_at <= gpucredit.now() THEN
		RETURN false;
	END IF;
	RETURN (w).reason <> 'insufficient_credits' OR (w).cap > (
		SELECT b.available FROM gpucredit.balance((w).org, (w).account) b);
END
$$;
COMMENT ON FUNCTION gpucredit_eval.watch_waits(gpucredit_eval.watch) IS
'Internal: was a watch''s run denied, so that it is not yet time to try again?';

CREATE FUNCTION gpucredit_eval.is_first_gate(org text, run bigint) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT EXISTS (SELECT FROM gpucredit_eval.run r
		WHERE r.org = is_first_gate.org AND r.run = is_first_gate.run
			AND gpucredit_eval.is_gate(r.purpose) AND NOT EXISTS (SELECT FROM gpucredit_eval.run o
				WHERE o.org = r.org AND o.state = 'running' AND o.run < r.run
					AND gpucredit_eval.is_gate(o.purpose)
					AND gpucredit_eval.top_account(o.account) = gpucredit_eval.top_account(r.account)));
END;
COMMENT ON FUNCTION gpucredit_eval.is_first_gate(text, bigint) IS
'Internal: whether a run is the first gate under way of its account and those below it.';

CREATE FUNCTION gpucredit_eval.start_watched(org text)
RETURNS TABLE (name text, ref text, version bigint, run bigint, reason text, purpose text,
	first boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	w gpucredit_eval.watch;
	v record;
	s gpucredit_eval.run_result;
	b record;
	started bigint;
	message text;
	state text;
BEGIN
	FOR w IN
		SELECT * FROM gpucredit_eval.watch o
		WHERE o.org = start_watched.org
		ORDER BY gpucredit_eval.is_gate(o.purpose) DESC, o.name, o.ref
		FOR NO KEY UPDATE SKIP LOCKED
	LOOP
		name := w.name;
		ref := w.ref;
		purpose := w.purpose;
		/* A watch that fails does not prevent the others. */
		BEGIN
			SELECT * INTO v FROM gpucredit_registry.find_revision(w.org, w.name, w.ref);
			CONTINUE WHEN v.version = w.version OR v.quarantined OR gpucredit_eval.watch_waits(w);
			SELECT * INTO b FROM gpucredit_eval.missing_baseline(w, v.model, v.version);
			IF b.present IS NOT NULL THEN
				/*
				 * Once for each version, because an earlier run may have had
				 * too many errors.
				 */
				s := gpucredit_eval.start_watch(w, format('baseline of %s', v.version), b.present, b.at);
				IF s.run IS NOT NULL AND NOT s.replayed THEN
					version := b.present;
					run := s.run;
					reason := s.reason;
					first := gpucredit_eval.is_first_gate(w.org, run);
					RETURN NEXT;
				END IF;
			END IF;
			IF b.present IS NULL OR s.run IS NOT NULL THEN
				s := gpucredit_eval.start_watch(w, 'watch', v.version, v.oid);
			END IF;
			started := CASE WHEN s.run IS NOT NULL THEN v.version END;
			message := s.reason;
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, state = RETURNED_SQLSTATE;
			IF state ~ '^(40|53|57|58|XX)' THEN
				RAISE;			/* the error is not caused by the watch, so the
								 * next call tries again */
			END IF;
			started := NULL;
			s := NULL;
			CONTINUE WHEN w.version IS NULL AND w.reason = message;
		END;
		UPDATE gpucredit_eval.watch o
		SET version = started, run = s.run, reason = message,
			tries = CASE WHEN s.status = 'denied' THEN o.tries + 1 ELSE 0 END,
			retry_at = gpucredit.now() + CASE WHEN s.status = 'denied'
				THEN least(interval '1 minute' * power(2, least(o.tries, 10)), interval '1 hour')
				ELSE '0' END
		WHERE o.org = w.org AND o.name = w.name AND o.ref = w.ref;
		version := started;
		run := s.run;
		reason := message;
		first := gpucredit_eval.is_first_gate(w.org, run);
		RETURN NEXT;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.start_watched(text) IS
'Workers: starts a run for each watched ref that has come to a version without one. Whoever set the watch is who started the run. A denied run is tried again: when the account has the cap, if credit was lacking, else after a minute and then after twice as long each time, up to an hour. Where a release gate of the same measure protects a ref, and the version there has no run to compare with, that version is measured first.
Result: what was started, gates first; run NULL: it was denied, or could not start, with the reason; the purpose of the watch; first: it is the first gate under way of its account and those below it, which comes before other runs.';

CREATE FUNCTION gpucredit_eval.watched(org text, account text DEFAULT '')
RETURNS TABLE (name text, ref text, version bigint, run bigint, status text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	PERFORM gpucredit_eval.check_account(watched.org, watched.account);
	RETURN QUERY
	SELECT w.name, w.ref, w.version, w.run, CASE WHEN r.run IS NULL THEN coalesce(w.reason, 'waiting')
			WHEN r.ended_at IS NULL THEN 'pending'
			ELSE gpucredit_eval.verdict_of(r) END
	FROM gpucredit_eval.watch w LEFT JOIN gpucredit_eval.run r ON r.org = w.org AND r.run = w.run
	WHERE w.org = watched.org AND gpucredit_eval.is_below(w.account, watched.account)
	ORDER BY w.name, w.ref;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.watched(text, text) IS
'Runs: the watches of an account and those below, the version each took up last, and its status: waiting, pending, the run''s verdict, or why no run started.
Errors: UC001 no such account.';

/*
 * Stores the scores of a version in the registry, if it is installed. Scores
 * that a production gate measured are replaced only by those of another
 * production gate.
 */
CREATE FUNCTION gpucredit_eval.publish_scores(r gpucredit_eval.run) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_eval.metric;
BEGIN
	IF (r).registry_version IS NULL OR (r).state <> 'finished'
		OR (r).purpose IN ('development', 'preview', 'calibration')
		/* In other runs, the starter decides what serves the model. */
		OR (r).purpose <> 'production_gate' AND EXISTS (SELECT FROM gpucredit_eval.run o
			WHERE o.org = (r).org AND o.registry_version = (r).registry_version
				AND o.config = (r).config AND o.config_version = (r).config_version
				AND o.purpose = 'production_gate' AND o.state = 'finished')
	THEN
		RETURN;
	END IF;
	FOR m IN SELECT * FROM gpucredit_eval.metrics(r) o WHERE o.score IS NOT NULL ORDER BY o.task LOOP
		PERFORM gpucredit_registry.record_score((r).org, (r).registry_version,
			format('%s@%s', (r).config, (r).config_version),
			left(regexp_replace(m.task, '[^A-Za-z0-9_.:@-]|^[^A-Za-z0-9]', 'x', 'g'), 63),
			round(m.score, 6), jsonb_build_object('run', (r).run, 'n', m.n,
				'stderr', round(m.stderr, 6), 'errors', m.errors)
				|| CASE WHEN m.metric = 'mean' THEN '{}' ELSE jsonb_build_object('metric', m.metric, 'value', round(m.value, 6)) END);
	END LOOP;
EXCEPTION WHEN undefined_function OR invalid_schema_name OR SQLSTATE 'UC501' THEN
	NULL;			/* the registry or the model does not exist any more */
END
$$;
COMMENT ON FUNCTION gpucredit_eval.publish_scores(gpucredit_eval.run) IS
'Internal: gives the registry the scores of a version whose run has ended.';
