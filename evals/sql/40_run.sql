/*
 * 40_run.sql: runs and the limits of their cost.
 *
 * A run's cap is backed by a hold in the ledger, and does not include what its
 * GPU job holds. A lease reserves the highest cost of its case:
 *
 *   spent + set_aside <= cap    spent: cost of reported calls
 *                               set_aside: reserved by leases that are not
 *                               accounted for yet
 *
 * A report writes only the rows of its own case, so that workers do not wait
 * for each other. account_for() adds the costs of closed leases to the run,
 * and captures them. lease_cases() calls it before it creates a lease. A
 * report calls it if the run is not locked, at most ten times a second while
 * many cases are left.
 *
 * Lock order: golden_set, endpoint, run, lease, result; then the ledger's. A
 * call that has locked a lease does not wait for the run.
 */
CREATE TABLE gpucredit_eval.run (
	org text COLLATE "C" NOT NULL,
	run bigint GENERATED ALWAYS AS IDENTITY,
	account text COLLATE "C" NOT NULL,
	config text COLLATE "C" NOT NULL,
	config_version integer NOT NULL,
	purpose text NOT NULL CHECK (purpose IN ('development', 'gate', 'production_gate',
		'preview', 'nightly', 'calibration')),
	model text NOT NULL,
	model_terms jsonb NOT NULL,		/* its endpoint as it was at the start */
	judge_terms jsonb,
	embedding_terms jsonb,			/* those of the model that embeds answers, if
									 * a case needs it */
	registry_model bigint,			/* the registry's version that it measures,
									 * if any */
	registry_version bigint,
	oid text,
	baseline bigint,
	source bigint,					/* the run whose outputs are judged
									 * again */
	cases integer NOT NULL,
	sample jsonb,					/* which cases a preview asks; NULL: all */
	set_cases integer NOT NULL,		/* cases of its sets, of which a preview
									 * asks a sample */
	set_place integer NOT NULL DEFAULT 1,	/* position of the set whose cases
											 * are leased now; the cases of all
											 * sets before it were leased */
	set_ordinal integer NOT NULL DEFAULT 0,		/* number of the last case of
												 * that set that was leased */
	finished integer NOT NULL DEFAULT 0,
	cap numeric NOT NULL,			/* limit for calls; the GPU job's hold is
									 * separate */
	hold bigint NOT NULL,
	deadline timestamptz NOT NULL,	/* when the hold ends */
	gpu_job bigint,
	gpu_held numeric NOT NULL,
	set_aside numeric NOT NULL DEFAULT 0,
	spent numeric NOT NULL DEFAULT 0,
	captured numeric NOT NULL DEFAULT 0,
	accounted_at timestamptz NOT NULL DEFAULT '-infinity',
	state text NOT NULL DEFAULT 'running'
		CHECK (state IN ('running', 'paused', 'finished', 'cancelled')),
	started_by text COLLATE "C" NOT NULL,	/* the role that started it; a
											 * release gate defines which roles
											 * count */
	started_at timestamptz NOT NULL,
	ended_at timestamptz,
	held_out boolean NOT NULL,		/* some of its cases are held out */
	whole_max numeric NOT NULL,		/* for a held-out run: the cost of all
									 * cases once, at their maximum */
	padding numeric NOT NULL DEFAULT 0,		/* the part of "spent" that exceeds
											 * the cost of the leases */
	problem text CHECK (problem IN ('over_bound', 'not_served', 'other_model', 'entered')),
									/* what stopped it */
	decided_early boolean NOT NULL DEFAULT false,	/* a preview whose verdict was
													 * certain before all cases
													 * were asked */
	model_digest bytea,				/* what the agent of the GPU job has to
									 * report of the folder from which the
									 * config's script serves the model; NULL
									 * if no such job serves it */
	CONSTRAINT run_pkey PRIMARY KEY (org, run),
	CONSTRAINT run_money CHECK (set_aside >= 0 AND spent >= 0 AND captured >= 0
		AND captured <= cap),
	CONSTRAINT run_ended CHECK ((state IN ('finished', 'cancelled')) = (ended_at IS NOT NULL)),
	FOREIGN KEY (org, config, config_version) REFERENCES gpucredit_eval.config,
	FOREIGN KEY (org, baseline) REFERENCES gpucredit_eval.run,
	FOREIGN KEY (org, source) REFERENCES gpucredit_eval.run
);
CREATE INDEX run_started ON gpucredit_eval.run (org, purpose, started_at);
CREATE INDEX run_version ON gpucredit_eval.run (org, registry_version)
WHERE purpose IN ('production_gate', 'preview');
CREATE INDEX run_job ON gpucredit_eval.run (org, gpu_job) WHERE gpu_job IS NOT NULL;
CREATE INDEX run_open ON gpucredit_eval.run (org, run) WHERE state = 'running';
COMMENT ON TABLE gpucredit_eval.run IS
'Runs of a config against a model, what they may cost and what they have cost';

/* The sets of a run, in order. A run evaluates each case of each set. */
CREATE TABLE gpucredit_eval.run_set (
	org text COLLATE "C" NOT NULL,
	run bigint NOT NULL,
	place integer NOT NULL,
	set text COLLATE "C" NOT NULL,
	version integer NOT NULL,
	CONSTRAINT run_set_pkey PRIMARY KEY (org, run, place),
	FOREIGN KEY (org, run) REFERENCES gpucredit_eval.run,
	FOREIGN KEY (org, set, version) REFERENCES gpucredit_eval.set_version
);
CREATE INDEX run_set_set ON gpucredit_eval.run_set (org, set, run);
COMMENT ON TABLE gpucredit_eval.run_set IS
'The frozen sets that a run measures on';

CREATE TABLE gpucredit_eval.lease (
	org text COLLATE "C" NOT NULL,
	run bigint NOT NULL,
	"case" bigint NOT NULL,
	attempt integer NOT NULL,
	worker text NOT NULL,
	state text NOT NULL CHECK (state IN ('open', 'retry', 'lost', 'closed')),
	expires_at timestamptz NOT NULL,
	judged boolean NOT NULL,		/* whether a judge rates the case */
	threshold numeric,				/* threshold of the case */
	called boolean NOT NULL,		/* the model's call is reported */
	call_max numeric NOT NULL,		/* highest cost of the model's call, if it
									 * is still to be made */
	sample_max numeric NOT NULL,	/* highest cost of each of the judge's
									 * samples */
	max_cost numeric NOT NULL,		/* what was reserved for all calls of the
									 * lease */
	open_max numeric NOT NULL,		/* what is reserved for calls that are not
									 * reported yet */
	cost numeric NOT NULL DEFAULT 0,	/* cost of the reported calls */
	leased_by text COLLATE "C" NOT NULL,	/* the role that leased it; only
											 * this role may report it */
	error text,
	accounted boolean NOT NULL DEFAULT false,	/* its cost is included in
												 * run.spent */
	finishes boolean NOT NULL DEFAULT false,	/* the lease finished its
												 * case */
	released boolean NOT NULL DEFAULT false,	/* its worker was stopped, so
												 * it does not count as an
												 * attempt */
	harness text COLLATE "C",		/* digest of the worker's program */
	job_attempt integer,			/* attempt of the GPU job that served the
									 * model when the case was leased; NULL if
									 * the run has no model_digest */
	CONSTRAINT lease_pkey PRIMARY KEY (org, run, "case", attempt)
);
CREATE INDEX lease_due ON gpucredit_eval.lease (org, run, expires_at)
WHERE state IN ('open', 'retry');
CREATE INDEX lease_to_account ON gpucredit_eval.lease (org, run)
WHERE state IN ('retry', 'closed') AND NOT accounted;
COMMENT ON TABLE gpucredit_eval.lease IS
'Who works on which case until when; retry: to be leased again; lost: its worker was silent';

/*
 * Calls for which an endpoint reported a higher cost than was reserved. The
 * first one ends the run: either the run's bounds or the endpoint's figures
 * are wrong.
 */
CREATE TABLE gpucredit_eval.overrun (
	org text COLLATE "C" NOT NULL,
	run bigint NOT NULL,
	overrun bigint GENERATED ALWAYS AS IDENTITY,
	"case" bigint NOT NULL,
	endpoint text NOT NULL,
	usage jsonb NOT NULL,
	cost numeric NOT NULL,
	bound numeric NOT NULL,
	reported_at timestamptz NOT NULL,
	CONSTRAINT overrun_pkey PRIMARY KEY (org, run, overrun)
);
COMMENT ON TABLE gpucredit_eval.overrun IS
'Calls of which an endpoint reported more than they could cost; each stops its run';

CREATE TABLE gpucredit_eval.result (
	org text COLLATE "C" NOT NULL,
	run bigint NOT NULL,
	"case" bigint NOT NULL,
	attempt integer NOT NULL,
	output bytea,
	checks jsonb NOT NULL,
	usage jsonb,
	digest bytea NOT NULL,			/* digest of the report */
	passed boolean NOT NULL,		/* the checks passed */
	error text,						/* what failed; then there is no score */
	score numeric,					/* NULL while the judge's samples are
									 * missing */
	cost numeric NOT NULL,
	reported_at timestamptz NOT NULL,
	reused bigint,					/* the run that measured it, if a preview
									 * took it over */
	CONSTRAINT result_pkey PRIMARY KEY (org, run, "case")
);
COMMENT ON TABLE gpucredit_eval.result IS
'Each case''s answer, checks and score; the first report stands. A foreign key would have all reports lock the run';

CREATE TABLE gpucredit_eval.judgement (
	org text COLLATE "C" NOT NULL,
	run bigint NOT NULL,
	"case" bigint NOT NULL,
	sample integer NOT NULL,
	raw bytea NOT NULL,
	usage jsonb,
	score integer NOT NULL CHECK (score BETWEEN 1 AND 5),
	parsed boolean NOT NULL,
	reason text,
	cost numeric NOT NULL,
	reported_at timestamptz NOT NULL,
	CONSTRAINT judgement_pkey PRIMARY KEY (org, run, "case", sample),
	FOREIGN KEY (org, run, "case") REFERENCES gpucredit_eval.result
);
COMMENT ON TABLE gpucredit_eval.judgement IS
'What the judge answered, each sample; parsed: it was a verdict';

/*
 * Whether somebody waits for the result, as for a gate. Nobody waits for a
 * nightly run.
 */
CREATE FUNCTION gpucredit_eval.is_gate(purpose text) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT purpose IN ('gate', 'production_gate', 'preview');
END;
COMMENT ON FUNCTION gpucredit_eval.is_gate(text) IS
'Internal: whether runs of a purpose come before others.';

/*
 * Returns the exact cost of tokens. Rounding occurs only when a run's sum is
 * captured.
 */
CREATE FUNCTION gpucredit_eval.token_cost(terms jsonb, tokens_in numeric, tokens_out numeric)
RETURNS numeric
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT (tokens_in * (terms ->> 'price_in')::numeric
		+ tokens_out * (terms ->> 'price_out')::numeric) / 1000000;
END;
COMMENT ON FUNCTION gpucredit_eval.token_cost(jsonb, numeric, numeric) IS
'Internal: credits for tokens at an endpoint.';

/*
 * Returns an upper bound of the tokens of a request. A text has no more tokens
 * than bytes, and a chat's frame has fewer than the number added here. A
 * template that repeats its variables must declare max_input_tokens. A
 * declared number is raised to at least one token per 16 bytes, and workers
 * send no prompt that is longer than 16 bytes for each declared token.
 */
CREATE FUNCTION gpucredit_eval.most_tokens(declared numeric, bytes bigint, shortest bigint)
RETURNS numeric
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE WHEN declared IS NULL THEN bytes + 256
		ELSE greatest(declared, ceil(shortest / 16.0)) END;
END;
COMMENT ON FUNCTION gpucredit_eval.most_tokens(numeric, bigint, bigint) IS
'Internal: how many tokens a prompt may have.';

/*
 * Returns the run, if the session may act as its account. Agents may see all
 * runs.
 */
CREATE FUNCTION gpucredit_eval.require_run(org text, run bigint)
RETURNS gpucredit_eval.run
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r gpucredit_eval.run;
BEGIN
	SELECT * INTO r FROM gpucredit_eval.run o
	WHERE o.org = require_run.org AND o.run = require_run.run;
	IF NOT FOUND OR NOT gpucredit_eval.acts_as(r.org, r.account) THEN
		PERFORM gpucredit_eval.not_found(format('run %s of "%s"', require_run.run,
			left(require_run.org, 64)));
	END IF;
	RETURN r;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.require_run(text, bigint) IS
'Internal: a run of an account that the session may act as. Errors: UC601.';

/* Returns a run of which the caller may see the scores. */
CREATE FUNCTION gpucredit_eval.require_scores(org text, run bigint)
RETURNS gpucredit_eval.run
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_eval.check_not_blind();
	RETURN gpucredit_eval.require_run(require_scores.org, require_scores.run);
END
$$;
COMMENT ON FUNCTION gpucredit_eval.require_scores(text, bigint) IS
'Internal: a run of an account that the session may act as, and whose scores it may see. Errors: UC601; 42501 it rates answers by hand.';

/* Locks the run's row, and waits for it if necessary. */
CREATE FUNCTION gpucredit_eval.lock_run(org text, run bigint) RETURNS gpucredit_eval.run
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r gpucredit_eval.run;
BEGIN
	SELECT * INTO r FROM gpucredit_eval.run o
	WHERE o.org = lock_run.org AND o.run = lock_run.run FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM gpucredit_eval.not_found(format('run %s of "%s"', lock_run.run,
			left(lock_run.org, 64)));
	END IF;
	RETURN r;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.lock_run(text, bigint) IS
'Internal: a run, locked. Errors: UC601.';

/*
 * What a model's name denotes: an endpoint, or "NAME@REVISION" of the
 * registry, served by an endpoint that serves the registry.
 */
CREATE TYPE gpucredit_eval.subject AS (
	endpoint text,
	name text,
	registry_model bigint,
	registry_version bigint,
	oid text
);

CREATE FUNCTION gpucredit_eval.find_subject(org text, model text, endpoint text)
RETURNS gpucredit_eval.subject
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	parts text[] := regexp_match(find_subject.model, '^([^@]+)@(.+)$');
	s gpucredit_eval.subject;
	e gpucredit_eval.endpoint;
	v record;
BEGIN
	s.name := find_subject.model;
	s.endpoint := coalesce(find_subject.endpoint, parts[1], find_subject.model);
	e := gpucredit_eval.require_endpoint(find_subject.org, s.endpoint);
	IF parts IS NULL THEN
		RETURN s;
	END IF;
	IF to_regprocedure('gpucredit_registry.find_revision(text,text,text)') IS NULL THEN
		PERFORM gpucredit_eval.refuse(format('model "%s" is of the registry', left(s.name, 96)),
			'gpucredit_registry is not installed in this database.',
			'Install it, or name an endpoint.');
	END IF;
	IF NOT e.serves_registry THEN
		PERFORM gpucredit_eval.refuse(format('endpoint "%s" does not serve the registry', s.endpoint),
			'What it would answer with need not be that version.',
			'Name one that set_endpoint() marks, as options {"endpoint": ..}.');
	END IF;
	SELECT * INTO v FROM gpucredit_registry.find_revision(find_subject.org, parts[1], parts[2]);
	IF v.quarantined THEN
		PERFORM gpucredit_eval.wrong_state(format('model "%s" is in quarantine', left(s.name, 96)),
			'Versions in quarantine are not served.', 'See gpucredit_registry.release_quarantine().');
	END IF;
	s.registry_model := v.model;
	s.registry_version := v.version;
	s.oid := v.oid;
	s.name := parts[1] || '@' || v.oid;
	RETURN s;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.find_subject(text, text, text) IS
'Internal: the endpoint, and the version of the registry, that a model''s name stands for. Errors: UC601, UC602, 22023.';

/*
 * Checks that a judge does not judge itself or a model of its lineage. Its
 * endpoint must still have the address in the config, because it was
 * calibrated there.
 */
CREATE FUNCTION gpucredit_eval.check_judge(org text, s gpucredit_eval.subject, judge jsonb)
RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	j gpucredit_eval.subject;
	em gpucredit_eval.endpoint := gpucredit_eval.require_endpoint(check_judge.org, (s).endpoint);
	ej gpucredit_eval.endpoint := gpucredit_eval.require_endpoint(check_judge.org,
		check_judge.judge ->> 'endpoint');
	kin boolean;
BEGIN
	IF ej.url <> check_judge.judge ->> 'url' THEN
		PERFORM gpucredit_eval.wrong_state(format('endpoint "%s" of the judge or embedding model has another address than the config',
				ej.endpoint),
			'Another address is another model.', 'Call set_config() again, and calibrate the judge.');
	END IF;
	/*
	 * Two names at one address are different models only if the server
	 * distinguishes models by name.
	 */
	kin := gpucredit_eval.server_of(em.url) = gpucredit_eval.server_of(ej.url)
		AND (NOT (em.many_models AND ej.many_models OR em.serves_registry AND ej.serves_registry
				AND (s).registry_version IS NOT NULL)
			OR check_judge.judge ->> 'model' = coalesce(em.model, (s).name));
	IF NOT kin AND (s).registry_version IS NOT NULL AND check_judge.judge ->> 'model' LIKE '%@%' THEN
		j := gpucredit_eval.find_subject(check_judge.org, check_judge.judge ->> 'model',
			check_judge.judge ->> 'endpoint');
		kin := j.registry_version = (s).registry_version
			OR EXISTS (SELECT FROM gpucredit_registry.ancestors(check_judge.org, (s).registry_version) a
				WHERE a.parent_org = check_judge.org AND a.parent = j.registry_version)
			OR EXISTS (SELECT FROM gpucredit_registry.descendants(check_judge.org, (s).registry_version) d
				WHERE d.child_org = check_judge.org AND d.child = j.registry_version);
	END IF;
	IF kin THEN
		PERFORM gpucredit_eval.refuse(format('judge or embedding model "%s" is the model under test, or of its lineage',
				check_judge.judge ->> 'model'),
			'A model rates its own answers too well.', 'Configure another one.');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.check_judge(text, gpucredit_eval.subject, jsonb) IS
'Internal: refuses a judge that is the model under test or of its lineage (22023), and one whose endpoint has moved (UC602).';

/*
 * Checks the restrictions of held-out sets: only production gates of registry
 * versions may use them, for a limited number of runs a month, and only for
 * tasks whose mean reveals nothing about a single case.
 */
CREATE FUNCTION gpucredit_eval.check_held_out(org text, config gpucredit_eval.config,
	purpose text, s gpucredit_eval.subject) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	g record;
	few record;
	runs bigint;
BEGIN
	FOR g IN
		SELECT o.set, o.runs_per_month, o.versions, v.version, v.tasks
		FROM jsonb_array_elements((config).document -> 'sets') e
			JOIN gpucredit_eval.golden_set o ON o.org = check_held_out.org AND o.set = e ->> 'set'
			JOIN gpucredit_eval.set_version v ON v.org = o.org AND v.set = o.set
				AND v.version = (e ->> 'version')::integer
		WHERE o.kind = 'held_out'
		ORDER BY o.set
	LOOP
		IF check_held_out.purpose <> 'production_gate' OR (s).registry_version IS NULL THEN
			PERFORM gpucredit_eval.held_out(format('set "%s/%s" is held out', check_held_out.org, g.set),
				'Use purpose production_gate, and a version of the registry as model.');
		END IF;
		IF g.version < g.versions THEN
			PERFORM gpucredit_eval.held_out(format('version %s of set "%s/%s" is not its newest', g.version,
					check_held_out.org, g.set),
				'Two versions that differ by a few cases would show the results of these. Make a config of version '
				|| g.versions || '.');
		END IF;
		SELECT t.key AS task, t.value::integer AS n INTO few
		FROM jsonb_each_text(g.tasks) t WHERE t.value::integer < 20 LIMIT 1;
		IF FOUND THEN
			PERFORM gpucredit_eval.held_out(format('task "%s" of set "%s/%s" has %s held-out cases, fewer than 20',
					few.task, check_held_out.org, g.set, few.n),
				'Add cases to the task, or join it with another.');
		END IF;
		PERFORM FROM gpucredit_eval.golden_set o
		WHERE o.org = check_held_out.org AND o.set = g.set FOR NO KEY UPDATE;
		SELECT count(DISTINCT r.run) INTO runs
		FROM gpucredit_eval.run_set rs JOIN gpucredit_eval.run r USING (org, run)
		WHERE rs.org = check_held_out.org AND rs.set = g.set
			AND r.started_at >= date_trunc('month', gpucredit.now(), 'UTC');
		IF runs >= g.runs_per_month THEN
			RETURN false;
		END IF;
	END LOOP;
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.check_held_out(text, gpucredit_eval.config, text, gpucredit_eval.subject) IS
'Internal: refuses a use of held-out sets (UC604); false: their runs of this month are used up.';

CREATE TYPE gpucredit_eval.run_result AS (
	run bigint,
	status text,
	reason text,
	held numeric,
	cases integer,
	replayed boolean
);

CREATE FUNCTION gpucredit_eval.run_result(kept jsonb, replayed boolean)
RETURNS gpucredit_eval.run_result
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT (kept -> 'run')::text::bigint, kept ->> 'status', kept ->> 'reason',
		(kept ->> 'held')::numeric, (kept ->> 'cases')::integer, replayed;
END;
COMMENT ON FUNCTION gpucredit_eval.run_result(jsonb, boolean) IS
'Internal: what start_run answered.';

/*
 * Returns the idempotency key for a call of the ledger. It is short, however
 * long the caller's key is, and differs for equal keys of two callers' key
 * spaces.
 */
CREATE FUNCTION gpucredit_eval.ledger_key(what text, key text,
	space text DEFAULT gpucredit.key_space()) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT 'eval/' || what || '/' || encode(sha256(convert_to(
		length(space)::text || ':' || space || key, 'UTF8')), 'hex');
END;
COMMENT ON FUNCTION gpucredit_eval.ledger_key(text, text, text) IS
'Internal: the key of a call to the ledger on behalf of a keyed call. space: of that call''s key; empty: of a name that is alike for all callers.';

/*
 * Releases a hold. The organisation owns the hold and may have closed it
 * itself; that must not prevent the run's end, nor make its calls free.
 */
CREATE FUNCTION gpucredit_eval.free_hold(org text, hold bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET gpucredit.key_space = 'gpucredit_eval'
AS $$
BEGIN
	PERFORM gpucredit.release(free_hold.org, free_hold.hold,
		format('eval/hold/%s/release', free_hold.hold));
EXCEPTION WHEN SQLSTATE 'UC003' THEN
	RETURN;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.free_hold(text, bigint) IS
'Internal: frees what is left of a hold, if it is still open.';

/*
 * Captures the cost of calls from their hold; if "final" is true, it also
 * releases the rest. If the hold has ended, a new hold pays; the result is
 * false if there is no credit for one.
 */
CREATE FUNCTION gpucredit_eval.charge(org text, account text, hold bigint, amount numeric,
	key text, final boolean DEFAULT true) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET gpucredit.key_space = 'gpucredit_eval'
AS $$
DECLARE
	h record;
BEGIN
	BEGIN
		IF charge.amount > 0 THEN
			PERFORM gpucredit.capture(charge.org, charge.hold, charge.key, charge.amount, charge.final);
		ELSIF charge.final THEN
			PERFORM gpucredit_eval.free_hold(charge.org, charge.hold);
		END IF;
		RETURN true;
	EXCEPTION WHEN SQLSTATE 'UC003' THEN
		PERFORM gpucredit_eval.free_hold(charge.org, charge.hold);
	END;
	SELECT * INTO h FROM gpucredit.hold(charge.org, charge.account,
		format('eval/late/%s', gen_random_uuid()), charge.amount, '1 hour');
	IF h.status = 'denied' THEN
		RETURN false;
	END IF;
	PERFORM gpucredit.capture(charge.org, h.hold, charge.key, charge.amount);
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.charge(text, text, bigint, numeric, text, boolean) IS
'Internal: captures an amount from a hold, or from a new one if that has ended; false: there is no credit.';

/* Stores a denial under the key. A later attempt needs a new key. */
CREATE FUNCTION gpucredit_eval.deny_run(org text, key text, reason text)
RETURNS gpucredit_eval.run_result
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_eval.record(deny_run.org, 'deny_run', NULL,
		jsonb_build_object('key', deny_run.key, 'reason', deny_run.reason));
	RETURN gpucredit_eval.run_result(gpucredit_eval.request_end(deny_run.org, deny_run.key,
		jsonb_build_object('status', 'denied', 'reason', deny_run.reason, 'held', 0)), false);
END
$$;
COMMENT ON FUNCTION gpucredit_eval.deny_run(text, text, text) IS
'Internal: records that a run is denied.';

/*
 * Returns what serves the model. Under a production gate, the config defines
 * it; otherwise the starter of the run could choose what is measured. The same
 * holds for a preview, whose results later previews take over.
 */
CREATE FUNCTION gpucredit_eval.serving_of(c gpucredit_eval.config, purpose text, options jsonb)
RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF serving_of.purpose NOT IN ('production_gate', 'preview') THEN
		RETURN serving_of.options;
	END IF;
	IF serving_of.options ?| '{endpoint,gpu}' THEN
		PERFORM gpucredit_eval.refuse(format('options of a %s name no endpoint and no GPU job',
				replace(serving_of.purpose, '_', ' ')),
			'Whoever starts it does not choose what is measured.',
			'Let "serving" of the config say what serves the version.');
	END IF;
	RETURN serving_of.options || coalesce(nullif((c).document -> 'serving', 'null'), '{}');
END
$$;
COMMENT ON FUNCTION gpucredit_eval.serving_of(gpucredit_eval.config, text, jsonb) IS
'Internal: the options of a run, with what serves its model (22023).';

/*
 * Returns the cost of all cases of a run once, each at its maximum.
 */
CREATE FUNCTION gpucredit_eval.whole_cost(c gpucredit_eval.config, model_terms jsonb,
	judge_terms jsonb, embedding_terms jsonb) RETURNS numeric
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r gpucredit_eval.run;
	total numeric;
BEGIN
	r.org := (c).org;
	r.model_terms := whole_cost.model_terms;
	r.judge_terms := whole_cost.judge_terms;
	r.embedding_terms := whole_cost.embedding_terms;
	SELECT sum(b.call_max + cardinality(b.samples) * b.sample_max) INTO total
	FROM jsonb_array_elements((c).document -> 'sets') e
		JOIN gpucredit_eval.set_version v ON v.org = (c).org AND v.set = e ->> 'set'
			AND v.version = (e ->> 'version')::integer
		JOIN gpucredit_eval.golden_case k ON k.org = v.org AND k.set = v.set
			AND gpucredit_eval.in_version(k, v)
		CROSS JOIN LATERAL gpucredit_eval.bounds_of(r, (c).document, k, false) b;
	RETURN total;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.whole_cost(gpucredit_eval.config, jsonb, jsonb, jsonb) IS
'Internal: what all cases of a config cost at most, if each is asked once.';

/*
 * Returns the position of a case in samples, 16 hexadecimal digits. It depends
 * on the case and on a secret of its set, so that whoever writes cases cannot
 * compute it, and neither the model nor whoever starts a run can change it.
 */
CREATE FUNCTION gpucredit_eval.sample_key(salt bytea, digest bytea) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT left(encode(sha256(salt || digest), 'hex'), 16) COLLATE "C";
END;
COMMENT ON FUNCTION gpucredit_eval.sample_key(bytea, bytea) IS
'Internal: the position of a case in samples.';

/*
 * Whether a case is in a sample: it is among the first cases of its task, or
 * its key is within the share.
 */
CREATE FUNCTION gpucredit_eval.in_sample(c gpucredit_eval.golden_case, salt bytea,
	sample jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT (c).ordinal <= (in_sample.sample -> 'first' -> (c).set ->> (c).task)::integer
		OR gpucredit_eval.sample_key(in_sample.salt, (c).digest) <= (in_sample.sample ->> 'key') COLLATE "C";
END;
COMMENT ON FUNCTION gpucredit_eval.in_sample(gpucredit_eval.golden_case, bytea, jsonb) IS
'Internal: is a case in a sample?';

/*
 * Returns the sample of a config's previews: the last key of the config's
 * share, and of each set and task the number of the 20th case. Both depend on
 * a case and on those before it. Cases that are added later therefore push no
 * case out of the sample.
 */
CREATE FUNCTION gpucredit_eval.choose_sample(c gpucredit_eval.config, OUT sample jsonb,
	OUT cases integer)
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH keys AS (
		SELECT k.set, k.task, k.ordinal, gpucredit_eval.sample_key(g.salt, k.digest) AS key,
			row_number() OVER (PARTITION BY k.set, k.task ORDER BY k.ordinal) AS place
		FROM jsonb_array_elements((c).document -> 'sets') e
			JOIN gpucredit_eval.golden_set g ON g.org = (c).org AND g.set = e ->> 'set'
			JOIN gpucredit_eval.set_version v ON v.org = g.org AND v.set = g.set
				AND v.version = (e ->> 'version')::integer
			JOIN gpucredit_eval.golden_case k ON k.org = v.org AND k.set = v.set
				AND gpucredit_eval.in_version(k, v)),
	share AS (
		SELECT lpad(to_hex(floor(((c).document #>> '{preview,share}')::numeric * 4294967296)::bigint - 1), 8, '0')
			|| 'ffffffff' AS last_key),
	firsts AS (
		SELECT f.set, jsonb_object_agg(f.task, f.last_ordinal) AS tasks
		FROM (SELECT y.set, y.task, max(y.ordinal) AS last_ordinal FROM keys y WHERE y.place <= 20
			GROUP BY y.set, y.task) f
		GROUP BY f.set)
	SELECT jsonb_build_object('key', h.last_key,
			'first', (SELECT jsonb_object_agg(f.set, f.tasks) FROM firsts f)),
		(SELECT count(*)::integer FROM keys y WHERE y.place <= 20 OR y.key <= h.last_key COLLATE "C")
	FROM share h;
END;
COMMENT ON FUNCTION gpucredit_eval.choose_sample(gpucredit_eval.config) IS
'Internal: the sample that previews of a config ask, and how many cases it has.';

/*
 * Starts a run. "starter" is the role that requested the run, which is not
 * always the caller.
 */
CREATE FUNCTION gpucredit_eval.start_run_for(starter text, org text, account text, key text,
	config text, model text, purpose text, cap numeric, baseline bigint, options jsonb)
RETURNS gpucredit_eval.run_result
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_eval'
AS $$
DECLARE
	kept jsonb;
	serving jsonb;
	whole numeric := 0;
	hidden boolean;
	compared bigint := start_run_for.baseline;
	c gpucredit_eval.config;
	s gpucredit_eval.subject;
	judge jsonb;
	judge_terms jsonb;
	embedding_terms jsonb;
	model_terms jsonb;
	ttl interval;
	gpu record;
	h record;
	named text;
	ncases integer;
	ntexts integer;
	nembedded integer;
	chosen record;
	served bytea;
	number bigint;
BEGIN
	PERFORM gpucredit_eval.check_account(start_run_for.org, start_run_for.account);
	IF coalesce(start_run_for.purpose, '') NOT IN ('development', 'gate', 'production_gate',
			'preview', 'nightly', 'calibration')
		OR start_run_for.cap IS NULL OR start_run_for.cap <> round(start_run_for.cap, 6)
		OR start_run_for.cap <= 0 OR start_run_for.model IS NULL
	THEN
		PERFORM gpucredit_eval.refuse('purpose is development, gate, production_gate, preview, nightly or calibration; cap is positive and has at most 6 decimals',
			format('They are "%s" and %s.', left(start_run_for.purpose, 64), start_run_for.cap));
	END IF;
	PERFORM gpucredit_eval.check_words('options', start_run_for.options, '{endpoint,ttl,gpu}');
	kept := gpucredit_eval.request_begin(start_run_for.org, start_run_for.key, 'start_run',
		jsonb_build_array(start_run_for.account, start_run_for.config, start_run_for.model,
			start_run_for.purpose, trim_scale(start_run_for.cap), start_run_for.baseline, start_run_for.options));
	IF kept IS NOT NULL THEN
		RETURN gpucredit_eval.run_result(kept, true);
	END IF;

	/* Determine the cases and the endpoints. */
	c := gpucredit_eval.require_config(start_run_for.org, start_run_for.config, start_run_for.account);
	serving := gpucredit_eval.serving_of(c, start_run_for.purpose, start_run_for.options);
	FOR named IN SELECT e ->> 'set' FROM jsonb_array_elements(c.document -> 'sets') e LOOP
		PERFORM gpucredit_eval.require_set(start_run_for.org, named, 'run', start_run_for.account);
	END LOOP;
	s := gpucredit_eval.find_subject(start_run_for.org, start_run_for.model,
		serving ->> 'endpoint');
	judge := nullif(c.document -> 'judge', 'null');
	IF judge IS NOT NULL THEN
		PERFORM gpucredit_eval.check_judge(start_run_for.org, s, judge);
		judge_terms := gpucredit_eval.endpoint_terms(gpucredit_eval.require_endpoint(
			start_run_for.org, judge ->> 'endpoint'), judge ->> 'model')
			|| jsonb_build_object('model', judge -> 'model');
	END IF;
	SELECT sum(v.cases), coalesce(sum(v.judged), 0), coalesce(sum(v.texts), 0), coalesce(sum(v.embedded), 0)
	INTO ncases, number, ntexts, nembedded
	FROM jsonb_array_elements(c.document -> 'sets') e
		JOIN gpucredit_eval.set_version v ON v.org = start_run_for.org AND v.set = e ->> 'set'
			AND v.version = (e ->> 'version')::integer;
	IF number > 0 AND judge IS NULL THEN
		PERFORM gpucredit_eval.refuse(format('%s cases have a rubric, and config "%s" has no judge',
				number, c.config),
			'A rubric is for a judge.', 'Configure a judge, or leave those sets out.');
	END IF;
	IF ntexts > 0 AND NOT (gpucredit_eval.require_endpoint(start_run_for.org, s.endpoint)).logprobs THEN
		PERFORM gpucredit_eval.refuse(format('%s cases ask how likely texts are, and endpoint "%s" has no logprobs',
				ntexts, s.endpoint),
			'Such cases need /v1/completions with "echo" and "logprobs".',
			'Take another endpoint, or say logprobs => true in set_endpoint() if it has them.');
	END IF;
	IF nembedded > 0 THEN
		IF NOT gpucredit_eval.is_present(c.document -> 'embedding') THEN
			PERFORM gpucredit_eval.refuse(format('%s cases ask how similar texts are, and config "%s" has no embedding model',
					nembedded, c.config),
				'The model that embeds texts says so.', 'Configure "embedding", or leave those sets out.');
		END IF;
		PERFORM gpucredit_eval.check_judge(start_run_for.org, s, c.document -> 'embedding');
		embedding_terms := gpucredit_eval.endpoint_terms(gpucredit_eval.require_endpoint(start_run_for.org,
			c.document #>> '{embedding,endpoint}'), NULL) || jsonb_build_object('model', c.document #> '{embedding,model}');
	END IF;
	IF compared IS NOT NULL THEN
		PERFORM gpucredit_eval.require_run(start_run_for.org, compared);
	ELSIF s.registry_version IS NOT NULL AND gpucredit_eval.is_gate(start_run_for.purpose) THEN
		compared := gpucredit_eval.find_baseline(c, CASE start_run_for.purpose
				WHEN 'preview' THEN 'production_gate' ELSE start_run_for.purpose END,
			s.registry_model, s.name, s.registry_version);
	END IF;
	IF start_run_for.options ? 'ttl' AND jsonb_typeof(start_run_for.options -> 'ttl') <> 'string' THEN
		PERFORM gpucredit_eval.refuse('"ttl" of options is an interval', 'For example "24 hours".');
	END IF;
	ttl := coalesce((start_run_for.options ->> 'ttl')::interval, '24 hours');
	model_terms := gpucredit_eval.endpoint_terms(gpucredit_eval.require_endpoint(
		start_run_for.org, s.endpoint), s.name);

	/* Check the rights. */
	SELECT coalesce(bool_or(o.kind = 'held_out'), false) INTO hidden
	FROM jsonb_array_elements(c.document -> 'sets') e
		JOIN gpucredit_eval.golden_set o ON o.org = start_run_for.org AND o.set = e ->> 'set';
	IF NOT gpucredit_eval.check_held_out(start_run_for.org, c, start_run_for.purpose, s) THEN
		RETURN gpucredit_eval.deny_run(start_run_for.org, start_run_for.key, 'quota_exceeded');
	END IF;
	IF model_terms ->> 'price_in' IS NULL
		OR (judge IS NOT NULL AND judge_terms ->> 'price_in' IS NULL)
		OR (embedding_terms IS NOT NULL AND embedding_terms ->> 'price_in' IS NULL)
	THEN
		RETURN gpucredit_eval.deny_run(start_run_for.org, start_run_for.key, 'no_price');
	END IF;
	IF start_run_for.purpose = 'production_gate' AND number > 0
		AND gpucredit_eval.judge_status(start_run_for.org, judge) <> 'calibrated'
	THEN
		RETURN gpucredit_eval.deny_run(start_run_for.org, start_run_for.key, 'not_calibrated');
	END IF;

	/* Reserve the GPUs, and the remaining credit for calls. */
	gpu := gpucredit_eval.reserve_gpu(start_run_for.org, start_run_for.account, start_run_for.key,
		start_run_for.purpose, serving -> 'gpu', s);
	IF gpu.reason IS NULL AND gpu.held >= start_run_for.cap THEN
		PERFORM gpucredit.cancel(start_run_for.org, gpu.job,
			gpucredit_eval.ledger_key('cancel', start_run_for.key), 'over the cap');
		gpu.reason := 'cap_exceeded';
	END IF;
	IF gpu.reason IS NOT NULL THEN
		RETURN gpucredit_eval.deny_run(start_run_for.org, start_run_for.key, gpu.reason);
	END IF;
	IF hidden THEN
		whole := gpucredit_eval.whole_cost(c, model_terms, judge_terms, embedding_terms);
		IF start_run_for.cap - gpu.held < whole THEN
			PERFORM gpucredit_eval.held_out(format('a cap of %s does not suffice for all cases', start_run_for.cap),
				format('Pass %s at least: a run that asks held-out cases one by one would show the result of each.',
					ceil((whole + gpu.held) * 1000000) / 1000000));
		END IF;
	END IF;
	SELECT * INTO h FROM gpucredit.hold(start_run_for.org, start_run_for.account,
		gpucredit_eval.ledger_key('hold', start_run_for.key), start_run_for.cap - gpu.held, ttl);
	IF h.status = 'denied' THEN
		IF gpu.job IS NOT NULL THEN
			PERFORM gpucredit.cancel(start_run_for.org, gpu.job,
				gpucredit_eval.ledger_key('cancel', start_run_for.key), 'no credit for the run');
		END IF;
		RETURN gpucredit_eval.deny_run(start_run_for.org, start_run_for.key, h.reason);
	END IF;

	IF gpu.job IS NOT NULL AND s.registry_version IS NOT NULL
		AND start_run_for.purpose IN ('production_gate', 'preview')
	THEN
		served := gpucredit_registry.folder_digest(start_run_for.org, s.registry_version);
	END IF;
	IF start_run_for.purpose = 'preview' THEN
		SELECT o.sample, o.cases INTO chosen FROM gpucredit_eval.choose_sample(c) o;
	ELSE
		SELECT NULL::jsonb AS sample, ncases AS cases INTO chosen;
	END IF;
	INSERT INTO gpucredit_eval.run AS r (org, account, config, config_version, purpose, model,
		model_terms, judge_terms, registry_model, registry_version, oid, baseline, cases, sample,
		set_cases, cap, hold, deadline, gpu_job, gpu_held, started_by, started_at, held_out, whole_max,
		model_digest, embedding_terms)
	VALUES (start_run_for.org, start_run_for.account, c.config, c.version, start_run_for.purpose, s.name,
		model_terms, judge_terms, s.registry_model, s.registry_version, s.oid,
		compared, chosen.cases, chosen.sample, ncases, start_run_for.cap - gpu.held, h.hold, h.expires_at,
		gpu.job, gpu.held, start_run_for.starter, gpucredit.now(), hidden, whole, served,
		embedding_terms)
	RETURNING r.run INTO number;
	INSERT INTO gpucredit_eval.run_set
	SELECT start_run_for.org, number, e.n, e.d ->> 'set', (e.d ->> 'version')::integer
	FROM jsonb_array_elements(c.document -> 'sets') WITH ORDINALITY e (d, n);
	PERFORM gpucredit_eval.record(start_run_for.org, 'start_run', NULL,
		jsonb_build_object('run', number, 'account', start_run_for.account, 'config', c.config,
			'version', c.version, 'model', s.name, 'purpose', start_run_for.purpose,
			'cap', start_run_for.cap, 'gpu_job', gpu.job, 'baseline', compared,
			'starter', start_run_for.starter));
	RETURN gpucredit_eval.run_result(gpucredit_eval.request_end(start_run_for.org, start_run_for.key,
		jsonb_build_object('run', number, 'status', 'granted', 'held', h.held + gpu.held,
			'cases', chosen.cases)), false);
END
$$;
COMMENT ON FUNCTION gpucredit_eval.start_run_for(text, text, text, text, text, text, text, numeric, bigint, jsonb) IS
'Internal: starts a run for a role. Errors: as start_run.';

CREATE FUNCTION gpucredit_eval.start_run(org text, account text, key text, config text,
	model text, purpose text DEFAULT 'gate', cap numeric DEFAULT 5,
	baseline bigint DEFAULT NULL, options jsonb DEFAULT '{}')
RETURNS gpucredit_eval.run_result
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT gpucredit_eval.start_run_for(gpucredit_eval.caller()::text, start_run.org, start_run.account,
		start_run.key, start_run.config, start_run.model, start_run.purpose, start_run.cap,
		start_run.baseline, start_run.options);
END;
COMMENT ON FUNCTION gpucredit_eval.start_run(text, text, text, text, text, text, numeric, bigint, jsonb) IS
'Runs: starts one, and holds what it may cost at most. Workers lease its cases.
config: "name" or "name@version". model: an endpoint, or "NAME@REVISION" of the registry. purpose: development, gate, production_gate, preview, nightly, calibration; a preview asks a sample of the cases that digests choose, takes over what is measured already, stops when its verdict is certain, and is never a baseline or a reason to promote. cap: credits. baseline: a run to compare with; NULL: for a version of the registry, the newest run of the version at a ref that a release gate protects, measured in the same way. options: {"endpoint": which serves the version, "ttl": how long the hold lives (24 hours), "gpu": {"request", "wall_limit", "spec"}: a job for own replicas, within the cap}; of a production gate or preview "serving" of its config says endpoint and GPU job. The environment of a job that serves a version of the registry has EVAL_MODEL, "NAME@OID". The cap of a run over held-out sets suffices for all of its cases.
Result: status granted, or denied with a reason of gpucredit.hold or reserve, no_price, not_calibrated, quota_exceeded (held-out runs of the month), cap_exceeded (the GPU job alone is dearer).
Errors: UC001 no such account; UC201 key used with other arguments; UC601 no such config, set, endpoint or run; UC602 in quarantine, or another scheduler, as Slurm or Kubernetes, places the jobs of the pool that the GPU job would go to; UC604 held out; 22023.';

/*
 * Whether another scheduler, as Slurm or Kubernetes behind a bridge, places the
 * jobs of a pool. It runs programs of its own, whatever a job's spec says, and
 * no agent reports what they serve.
 */
CREATE FUNCTION gpucredit_eval.is_foreign(pool text) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce(gpucredit.pool_placed_by(is_foreign.pool) = 'foreign', false);
END;
COMMENT ON FUNCTION gpucredit_eval.is_foreign(text) IS
'Internal: whether another scheduler than gpucredit places the jobs of a pool.';

/*
 * Reserves the job that serves the model: in pool "eval-gate", which is
 * reserved for blocking gates, or in "eval-nightly". One script of a config
 * serves all versions, so the job's environment has the name of the version.
 */
CREATE FUNCTION gpucredit_eval.reserve_gpu(org text, account text, key text, purpose text,
	gpu jsonb, s gpucredit_eval.subject, OUT job bigint, OUT held numeric, OUT reason text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_eval'
AS $$
DECLARE
	r record;
	spec jsonb;
	pool text := CASE WHEN gpucredit_eval.is_gate(reserve_gpu.purpose) THEN 'eval-gate' ELSE 'eval-nightly' END;
BEGIN
	reserve_gpu.held := 0;
	IF NOT gpucredit_eval.is_present(reserve_gpu.gpu) THEN
		RETURN;
	END IF;
	PERFORM gpucredit_eval.check_words('"gpu" of options', reserve_gpu.gpu,
		'{request,wall_limit,spec}');
	IF gpucredit_eval.is_foreign(pool) THEN
		PERFORM gpucredit_eval.wrong_state(format('another scheduler places the jobs of pool "%s"', pool),
			'It would not run the script that serves the model, and no agent would report the digest of what is served.',
			'Let gpucredit place the jobs of that pool, or name an endpoint without "gpu", for which curators vouch.');
	END IF;
	spec := coalesce(nullif(reserve_gpu.gpu -> 'spec', 'null'), '{}');
	IF (reserve_gpu.s).registry_version IS NOT NULL AND jsonb_typeof(spec) = 'object'
		AND coalesce(jsonb_typeof(spec -> 'env'), 'object') = 'object'
	THEN
		spec := spec || jsonb_build_object('env', coalesce(spec -> 'env', '{}')
			|| jsonb_build_object('EVAL_MODEL', (reserve_gpu.s).name));
	END IF;
	SELECT * INTO r FROM gpucredit.reserve(reserve_gpu.org, reserve_gpu.account,
		gpucredit_eval.ledger_key('gpu', reserve_gpu.key), reserve_gpu.gpu ->> 'request',
		(reserve_gpu.gpu ->> 'wall_limit')::interval, tier => 'batch_inference',
		pool => pool, spec => spec);
	reserve_gpu.job := r.job;
	reserve_gpu.held := r.held;
	reserve_gpu.reason := r.reason;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.reserve_gpu(text, text, text, text, jsonb, gpucredit_eval.subject) IS
'Internal: reserves the GPU job of a run; reason: why it is denied.';
