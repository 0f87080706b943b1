/*
 * 10_set.sql: golden sets.
 *
 * A set's cases are numbered in the order in which they are added, and never
 * change. A version contains the cases up to its last number, except those
 * that were retired before it was frozen. So a version is one row.
 *
 * A caller who may act as the set's account may do everything with the set,
 * and all accounts below may run it. A permission is given to an account and
 * all below it:
 *
 *   run     use the set in a run;
 *   read    also see its cases;
 *   curate  also add, retire and freeze cases, and see those that are held
 *           out.
 */
CREATE TABLE gpucredit_eval.golden_set (
	org text COLLATE "C" NOT NULL,
	set text COLLATE "C" NOT NULL,
	kind text NOT NULL CHECK (kind IN ('locked', 'live', 'held_out')),
	account text COLLATE "C" NOT NULL,
	runs_per_month integer NOT NULL CHECK (runs_per_month >= 0),
	cases integer NOT NULL DEFAULT 0,		/* also the number of the last
											 * case */
	versions integer NOT NULL DEFAULT 0,
	created_at timestamptz NOT NULL,
	/*
	 * Makes the samples of previews unpredictable for authors of cases. No
	 * function returns it.
	 */
	salt bytea NOT NULL DEFAULT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())),
	CONSTRAINT golden_set_pkey PRIMARY KEY (org, set)
);
COMMENT ON TABLE gpucredit_eval.golden_set IS
'Sets of cases; runs_per_month limits runs of held-out ones';

CREATE TABLE gpucredit_eval.set_permission (
	org text COLLATE "C" NOT NULL,
	set text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	permission text NOT NULL CHECK (permission IN ('run', 'read', 'curate')),
	CONSTRAINT set_permission_pkey PRIMARY KEY (org, set, account),
	FOREIGN KEY (org, set) REFERENCES gpucredit_eval.golden_set
);
COMMENT ON TABLE gpucredit_eval.set_permission IS
'What an account and those below it may do with a set of another';

CREATE TABLE gpucredit_eval.golden_case (
	org text COLLATE "C" NOT NULL,
	set text COLLATE "C" NOT NULL,
	"case" bigint GENERATED ALWAYS AS IDENTITY,
	ordinal integer NOT NULL,
	name text COLLATE "C" NOT NULL,
	task text COLLATE "C" NOT NULL,
	input jsonb NOT NULL,
	expected jsonb,
	checks jsonb NOT NULL,
	rubric text,
	threshold numeric,
	weight numeric NOT NULL,
	tags text[] NOT NULL,
	source text,
	digest bytea NOT NULL,
	added_at timestamptz NOT NULL,
	retired_version integer,	/* the first version without it */
	CONSTRAINT golden_case_pkey PRIMARY KEY (org, "case"),
	CONSTRAINT golden_case_ordinal UNIQUE (org, set, ordinal),
	CONSTRAINT golden_case_name UNIQUE (org, set, name),
	FOREIGN KEY (org, set) REFERENCES gpucredit_eval.golden_set
);
CREATE INDEX golden_case_digest ON gpucredit_eval.golden_case (org, digest);
COMMENT ON TABLE gpucredit_eval.golden_case IS
'Cases: what a model is asked, how its answer is checked, what a judge looks for';

CREATE TABLE gpucredit_eval.set_version (
	org text COLLATE "C" NOT NULL,
	set text COLLATE "C" NOT NULL,
	version integer NOT NULL,
	last_ordinal integer NOT NULL,
	cases integer NOT NULL,
	tasks jsonb NOT NULL,		/* number of cases for each task */
	judged integer NOT NULL,	/* number of cases with a rubric */
	texts integer NOT NULL,		/* number of cases that score texts */
	embedded integer NOT NULL,	/* number of cases whose answers are embedded */
	aggregates jsonb NOT NULL,	/* of each task whose score is no mean: what it
								 * is */
	digest bytea NOT NULL,
	frozen_at timestamptz NOT NULL,
	CONSTRAINT set_version_pkey PRIMARY KEY (org, set, version),
	FOREIGN KEY (org, set) REFERENCES gpucredit_eval.golden_set
);
COMMENT ON TABLE gpucredit_eval.set_version IS
'Frozen versions of sets; none of their cases changes';

CREATE FUNCTION gpucredit_eval.in_version(c gpucredit_eval.golden_case,
	v gpucredit_eval.set_version) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT (c).ordinal <= (v).last_ordinal
		AND ((c).retired_version IS NULL OR (c).retired_version > (v).version);
END;
COMMENT ON FUNCTION gpucredit_eval.in_version(gpucredit_eval.golden_case, gpucredit_eval.set_version) IS
'Internal: is a case in a frozen version of its set?';

/*
 * Returns the login, or the role of SET ROLE. SECURITY DEFINER functions do
 * not change it.
 */
CREATE FUNCTION gpucredit_eval.caller() RETURNS name
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce(nullif(current_setting('role'), 'none'), session_user)::name;
END;
COMMENT ON FUNCTION gpucredit_eval.caller() IS
'Internal: the role on whose behalf the session calls.';

/*
 * Whether the session may act as this account. As in gpucredit, a caller who
 * is not a tenant may act as any account; for tenants, reading the balance is
 * the check.
 */
CREATE FUNCTION gpucredit_eval.acts_as(org text, account text) RETURNS boolean
LANGUAGE plpgsql STABLE
AS $$
BEGIN
	IF current_setting('is_superuser') = 'on'
		OR NOT pg_has_role(gpucredit_eval.caller(), 'gpucredit_tenant', 'MEMBER')
	THEN
		RETURN true;
	END IF;
	BEGIN
		PERFORM gpucredit_eval.check_account(acts_as.org, acts_as.account);
		RETURN true;
	EXCEPTION WHEN SQLSTATE 'UC001' OR insufficient_privilege THEN
		RETURN false;
	END;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.acts_as(text, text) IS
'Internal: may the session act as an account?';

/*
 * Whether the caller is a member of one of the roles. A superuser is a member
 * of every role, but does not count as an application or a tenant.
 */
CREATE FUNCTION gpucredit_eval.caller_is(VARIADIC roles text[]) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT current_setting('is_superuser') <> 'on' AND EXISTS (
		SELECT FROM unnest(roles) q WHERE pg_has_role(gpucredit_eval.caller(), q::name, 'MEMBER'));
END;
COMMENT ON FUNCTION gpucredit_eval.caller_is(text[]) IS
'Internal: is the caller a member of one of these roles, and no superuser?';

CREATE FUNCTION gpucredit_eval.caller_administers() RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT current_setting('is_superuser') = 'on'
		OR pg_has_role(gpucredit_eval.caller(), 'gpucredit_admin', 'MEMBER');
END;
COMMENT ON FUNCTION gpucredit_eval.caller_administers() IS
'Internal: is the caller an administrator?';

/*
 * Refuses a caller who rates answers by hand and must not know what the judge
 * thinks of them: a member of gpucredit_eval_rater, or a request with a token
 * of scope "label".
 */
CREATE FUNCTION gpucredit_eval.check_not_blind() RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF gpucredit_eval.is_blind() THEN
		RAISE EXCEPTION 'role "%" rates answers by hand', gpucredit_eval.caller()
			USING ERRCODE = 'insufficient_privilege',
			DETAIL = 'It is a member of gpucredit_eval_rater, or its token has scope "label"; so it sees no scores, which tell what the judge thinks.',
			HINT = 'Look at scores as a role that rates nothing.';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.check_not_blind() IS
'Internal: refuses to show scores to raters (42501).';

CREATE FUNCTION gpucredit_eval.is_blind() RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT gpucredit_eval.caller_is('gpucredit_eval_rater') AND NOT gpucredit_eval.caller_administers()
		OR coalesce(current_setting('gpucredit_http.scope', true), '') = 'label';
END;
COMMENT ON FUNCTION gpucredit_eval.is_blind() IS
'Internal: whether the session rates answers without knowing scores.';

/*
 * Raises an error unless the caller may act as some account of the
 * organisation.
 */
CREATE FUNCTION gpucredit_eval.check_member(org text) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM gpucredit.accounts a WHERE a.org = check_member.org
		AND gpucredit_eval.acts_as(a.org, a.account))
	THEN
		PERFORM gpucredit_eval.check_account(check_member.org, '');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.check_member(text) IS
'Internal: raises UC001 unless the organisation exists and the caller may act as one of its accounts.';

/* Whether an account is another one or below it. */
CREATE FUNCTION gpucredit_eval.is_below(account text, above text) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT account IS NOT NULL
		AND (above = '' OR account = above OR starts_with(account, above || '/'));
END;
COMMENT ON FUNCTION gpucredit_eval.is_below(text, text) IS
'Internal: is an account another, or below it?';

/*
 * Returns the set, if the session has the permission. "account" is the account
 * for which the session runs the set, which was checked before; NULL means the
 * session's own.
 */
CREATE FUNCTION gpucredit_eval.require_set(org text, set text, need text,
	account text DEFAULT NULL) RETURNS gpucredit_eval.golden_set
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	s gpucredit_eval.golden_set;
	p record;
BEGIN
	SELECT * INTO s FROM gpucredit_eval.golden_set g
	WHERE g.org = require_set.org AND g.set = require_set.set;
	IF FOUND THEN
		IF gpucredit_eval.acts_as(s.org, s.account) THEN
			RETURN s;
		END IF;
		IF require_set.need = 'run' AND gpucredit_eval.is_below(require_set.account, s.account) THEN
			RETURN s;
		END IF;
		FOR p IN
			SELECT t.account FROM gpucredit_eval.set_permission t
			WHERE t.org = s.org AND t.set = s.set
				AND array_position('{run,read,curate}', t.permission)
					>= array_position('{run,read,curate}', require_set.need)
			ORDER BY t.account
		LOOP
			IF (require_set.account IS NULL AND gpucredit_eval.acts_as(s.org, p.account))
				OR gpucredit_eval.is_below(require_set.account, p.account)
			THEN
				RETURN s;
			END IF;
		END LOOP;
	END IF;
	PERFORM gpucredit_eval.not_found(format('set "%s/%s"', left(require_set.org, 64),
		left(require_set.set, 96)));
END
$$;
COMMENT ON FUNCTION gpucredit_eval.require_set(text, text, text, text) IS
'Internal: a set that the session may run, read or curate. Errors: UC601.';

CREATE FUNCTION gpucredit_eval.create_set(org text, name text, kind text, key text,
	account text DEFAULT '', runs_per_month integer DEFAULT 12) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	kept jsonb;
BEGIN
	PERFORM gpucredit_eval.check_account(create_set.org, create_set.account);
	PERFORM gpucredit_eval.check_name('set', create_set.name);
	IF coalesce(create_set.kind, '') NOT IN ('locked', 'live', 'held_out')
		OR coalesce(create_set.runs_per_month, -1) < 0
	THEN
		PERFORM gpucredit_eval.refuse('a set''s kind is locked, live or held_out, its runs a month are 0 or more',
			format('They are "%s" and %s.', left(create_set.kind, 64), create_set.runs_per_month));
	END IF;
	kept := gpucredit_eval.request_begin(create_set.org, create_set.key, 'create_set',
		jsonb_build_array(create_set.name, create_set.kind, create_set.account,
			create_set.runs_per_month));
	IF kept IS NOT NULL THEN
		RETURN true;
	END IF;
	INSERT INTO gpucredit_eval.golden_set
	VALUES (create_set.org, create_set.name, create_set.kind, create_set.account,
		create_set.runs_per_month, 0, 0, gpucredit.now())
	ON CONFLICT DO NOTHING;
	IF NOT FOUND THEN
		PERFORM gpucredit_eval.wrong_state(format('set "%s/%s" exists', create_set.org,
				create_set.name),
			'A name stands for one set.', 'Choose another name, or use the set that is there.');
	END IF;
	PERFORM gpucredit_eval.record(create_set.org, 'create_set', NULL,
		jsonb_build_object('set', create_set.name, 'kind', create_set.kind));
	PERFORM gpucredit_eval.request_end(create_set.org, create_set.key, 'true');
	RETURN false;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.create_set(text, text, text, text, text, integer) IS
'Sets: makes an empty one. Its account may do everything with it.
kind: locked, which baselines compare on; live, which grows from production; held_out, whose cases nobody but curators and agents sees. runs_per_month: of a held-out set.
Result: whether the call was replayed. Errors: UC001 no such account; UC201 key used with other arguments; UC602 the name is taken; 22023.';

CREATE FUNCTION gpucredit_eval.grant_set(org text, set text, principal text,
	permission text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	s gpucredit_eval.golden_set;
BEGIN
	s := gpucredit_eval.require_set(grant_set.org, grant_set.set, 'curate');
	IF NOT gpucredit_eval.acts_as(s.org, s.account) THEN
		PERFORM gpucredit_eval.not_found(format('set "%s/%s"', s.org, s.set));
	END IF;
	IF coalesce(grant_set.permission, 'run') NOT IN ('run', 'read', 'curate') THEN
		PERFORM gpucredit_eval.refuse('permission is run, read, curate, or NULL to take it back',
			format('It is "%s".', left(grant_set.permission, 64)));
	END IF;
	IF grant_set.permission IS NULL THEN
		DELETE FROM gpucredit_eval.set_permission p
		WHERE p.org = s.org AND p.set = s.set AND p.account = grant_set.principal;
	ELSE
		IF NOT EXISTS (SELECT FROM gpucredit.accounts a
			WHERE a.org = s.org AND a.account = grant_set.principal)
		THEN
			PERFORM gpucredit_eval.refuse(format('account "%s/%s" does not exist', s.org,
					left(grant_set.principal, 255)),
				'A permission is given to an account of the organisation and all below it.');
		END IF;
		INSERT INTO gpucredit_eval.set_permission
		VALUES (s.org, s.set, grant_set.principal, grant_set.permission)
		ON CONFLICT ON CONSTRAINT set_permission_pkey
		DO UPDATE SET permission = excluded.permission;
	END IF;
	PERFORM gpucredit_eval.record(s.org, 'grant_set', NULL,
		jsonb_build_object('set', s.set, 'principal', grant_set.principal,
			'permission', grant_set.permission));
END
$$;
COMMENT ON FUNCTION gpucredit_eval.grant_set(text, text, text, text) IS
'Sets: lets an account and all below it use a set; the last call for an account stands. Only a caller who may act as the set''s account may call it.
principal: an account of the organisation. permission: run; read: see cases, too; curate: add, retire and freeze, too; NULL: none.
Errors: UC601 no such set; 22023.';

/*
 * Returns the check types that workers can decide. The prefix "not-" negates a
 * type.
 */
CREATE FUNCTION gpucredit_eval.known_checks() RETURNS jsonb
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT '{"types": ["equals", "contains", "icontains", "contains-any", "contains-all", "icontains-any",
		"icontains-all", "regex", "starts-with", "levenshtein", "is-json", "contains-json",
		"latency", "cost", "finish-reason", "javascript", "exact_match", "assert-set", "similar", "not-similar",
		"not-equals", "not-contains", "not-icontains", "not-contains-any", "not-contains-all",
		"not-icontains-any", "not-icontains-all", "not-regex", "not-starts-with",
		"not-levenshtein", "not-is-json", "not-contains-json", "not-latency", "not-cost",
		"not-finish-reason", "not-javascript", "not-exact_match",
		"multiple_choice", "loglikelihood"]}'::jsonb;
END;
COMMENT ON FUNCTION gpucredit_eval.known_checks() IS
'Internal: the types of checks, as the variable "types" of a JSON path.';

/*
 * Whether a case asks how likely given texts are, instead of for an answer, as
 * lm-eval's output types of these names do.
 */
CREATE FUNCTION gpucredit_eval.scores_texts(checks jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT jsonb_path_exists(checks, '$[*] ? (@.type == "multiple_choice" || @.type == "loglikelihood")');
END;
COMMENT ON FUNCTION gpucredit_eval.scores_texts(jsonb) IS
'Internal: whether a case asks how likely texts are.';

/*
 * Whether a check of a case asks how similar the answer is to given texts, for
 * which an embedding model is called.
 */
CREATE FUNCTION gpucredit_eval.embeds(checks jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT jsonb_path_exists(checks, '$[*] ? (@.type == "similar" || @.type == "not-similar")');
END;
COMMENT ON FUNCTION gpucredit_eval.embeds(jsonb) IS
'Internal: whether the answer to a case is embedded.';

/*
 * Returns the check of a case from which the score of its task is computed, if
 * that score is no mean of the cases' scores: the metrics perplexity, mcc and
 * f1 of lm-eval. A check without weight only informs.
 */
CREATE FUNCTION gpucredit_eval.aggregated_check(checks jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT jsonb_path_query_first(checks, '$[*] ? ((@.type == "multiple_choice" && (@.metric == "mcc" || @.metric == "f1")
		|| @.type == "loglikelihood" && @.metric == "perplexity") && (!exists(@.weight) || @.weight > 0))');
END;
COMMENT ON FUNCTION gpucredit_eval.aggregated_check(jsonb) IS
'Internal: the check of a case whose task has another score than the mean of its cases; NULL: the score is the mean.';

/* Returns what the score of a case's task is: mean, perplexity, mcc or f1. */
CREATE FUNCTION gpucredit_eval.aggregate_of(checks jsonb) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT coalesce(gpucredit_eval.aggregated_check(checks) ->> 'metric', 'mean');
END;
COMMENT ON FUNCTION gpucredit_eval.aggregate_of(jsonb) IS
'Internal: what the score of the task of a case is.';

/* Returns how many calls a case that scores texts takes: one for each text. */
CREATE FUNCTION gpucredit_eval.texts_of(input jsonb) RETURNS integer
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE jsonb_typeof(input -> 'requests') WHEN 'array' THEN jsonb_array_length(input -> 'requests') ELSE 0 END;
END;
COMMENT ON FUNCTION gpucredit_eval.texts_of(jsonb) IS
'Internal: how many texts the input of a case has to be scored.';

/*
 * Whether each element of an array is a check: an object with a type that
 * workers know, and with a valid weight if it has one. A check of another type
 * would fail every answer, and its author would notice that only after a run.
 *
 * The path query that verifies that all elements are objects uses strict mode,
 * because a filter in lax mode unwraps arrays: [[{...}]] would count as one
 * check. A set of checks has the array "assert" of checks that are no sets.
 */
CREATE FUNCTION gpucredit_eval.valid_checks(checks jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT NOT jsonb_path_exists(checks, 'strict $[*] ? (@.type() != "object")')
		AND jsonb_array_length(checks) = jsonb_array_length(jsonb_path_query_array(checks,
		'$[*] ? (@.type.type() == "string" && @.type == $types[*]
			&& (!exists(@.weight) || @.weight.type() == "number" && @.weight >= 0 && @.weight <= 1000000)
			&& (@.type != "assert-set" || exists(@.assert)))',
		gpucredit_eval.known_checks()))
		AND NOT (jsonb_path_exists(checks, '$[*].assert')
			AND (coalesce(jsonb_path_exists(checks,
				'strict $[*].keyvalue() ? (@.key == "assert").value[*] ? (@.type() != "object")', '{}', true), true)
			OR jsonb_path_exists(checks, '$[*].assert[*] ? (!(@.type.type() == "string" && @.type == $types[*])
				|| @.type == "assert-set" || @.type == "multiple_choice" || @.type == "loglikelihood"
				|| @.type == "similar" || @.type == "not-similar"
				|| exists(@.weight) && !(@.weight.type() == "number" && @.weight >= 0 && @.weight <= 1000000))',
				gpucredit_eval.known_checks())));
END;
COMMENT ON FUNCTION gpucredit_eval.valid_checks(jsonb) IS
'Internal: whether each check of an array has a type that workers know, and a weight from 0 to 1,000,000 if it has one.';

/* Raises an error that names the first invalid check. */
CREATE FUNCTION gpucredit_eval.refuse_checks(name text, checks jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wrong jsonb;
BEGIN
	SELECT k INTO wrong FROM jsonb_array_elements(refuse_checks.checks) k
	WHERE jsonb_typeof(k -> 'type') IS DISTINCT FROM 'string'
		OR NOT gpucredit_eval.known_checks() -> 'types' ? (k ->> 'type')
	LIMIT 1;
	IF FOUND THEN
		PERFORM gpucredit_eval.refuse(format('case "%s" has a check of unknown type "%s"',
				left(refuse_checks.name, 64), left(coalesce(wrong ->> 'type', wrong::text), 64)),
			format('A type is one of these: %s.', (SELECT string_agg(t, ', ' ORDER BY t)
				FROM jsonb_array_elements_text(gpucredit_eval.known_checks() -> 'types') t WHERE t NOT LIKE 'not-%')));
	END IF;
	SELECT k INTO wrong FROM jsonb_array_elements(refuse_checks.checks) k
	WHERE NOT gpucredit_eval.valid_checks(jsonb_build_array(k))
	LIMIT 1;
	IF wrong ->> 'type' = 'assert-set' THEN
		PERFORM gpucredit_eval.refuse(format('case "%s" has a malformed set of checks',
				left(refuse_checks.name, 64)),
			'"assert" is an array of checks of known types, whose weights are 0 to 1,000,000; none of them is a set, and none asks how similar texts are.');
	END IF;
	PERFORM gpucredit_eval.refuse(format('case "%s" has a check of weight %s',
			left(refuse_checks.name, 64), left((wrong -> 'weight')::text, 64)),
		'A weight is a number from 0 to 1,000,000.');
END
$$;
COMMENT ON FUNCTION gpucredit_eval.refuse_checks(text, jsonb) IS
'Internal: says which check is not valid (22023).';

/* Returns the members that the document of a case may have. */
CREATE FUNCTION gpucredit_eval.case_words() RETURNS text[]
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT '{name,task,input,expected,checks,rubric,threshold,weight,tags,source}'::text[];
END;
COMMENT ON FUNCTION gpucredit_eval.case_words() IS
'Internal: what the document of a case may have.';

/*
 * Whether a document is a valid case, by the rules of check_case(), in one
 * expression. Documents about which this expression is not certain are left to
 * check_case().
 */
CREATE FUNCTION gpucredit_eval.is_plain_case(d jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE WHEN jsonb_typeof(d) <> 'object' OR octet_length(d::text) > 1048576
			OR jsonb_typeof(coalesce(d -> 'checks', '[]')) <> 'array'
			OR jsonb_typeof(coalesce(d -> 'tags', '[]')) <> 'array' THEN false
		ELSE d - gpucredit_eval.case_words() = '{}' AND jsonb_typeof(d -> 'input') <> 'null'
			AND jsonb_path_match(d, '(!exists($.weight) || $.weight.type() == "number" && $.weight >= 0 && $.weight <= 1000000)
				&& (!exists($.threshold) || $.threshold.type() == "number" && $.threshold >= 0 && $.threshold <= 1)')
			AND octet_length(coalesce(d ->> 'name', '?')) BETWEEN 1 AND 255
			AND octet_length(coalesce(d ->> 'task', '?')) BETWEEN 1 AND 255
			AND octet_length(coalesce(d ->> 'rubric', '')) <= 8192
			AND octet_length(coalesce(d ->> 'source', '')) <= 8192
			AND gpucredit_eval.valid_checks(coalesce(d -> 'checks', '[]'))
			AND NOT gpucredit_eval.scores_texts(coalesce(d -> 'checks', '[]'))
			AND NOT gpucredit_eval.embeds(coalesce(d -> 'checks', '[]'))
			AND (d -> 'checks' <> '[]' OR d ->> 'rubric' IS NOT NULL) END;
END;
COMMENT ON FUNCTION gpucredit_eval.is_plain_case(jsonb) IS
'Internal: true if a document is a case; otherwise check_case() decides.';

/*
 * Checks a case from which the score of its whole task is computed. Its one
 * check that counts says which choice is the right one.
 */
CREATE FUNCTION gpucredit_eval.check_aggregated(name text, checks jsonb, n integer) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	k jsonb := gpucredit_eval.aggregated_check(check_aggregated.checks);
BEGIN
	IF k IS NULL THEN
		RETURN;
	END IF;
	IF 1 <> (SELECT count(*) FROM jsonb_array_elements(check_aggregated.checks) o
		WHERE coalesce((o ->> 'weight')::numeric, 1) > 0)
	THEN
		PERFORM gpucredit_eval.refuse(format('case "%s" has a check of metric "%s", and others that count', check_aggregated.name,
				k ->> 'metric'),
			'A task has one score.', 'Give the others weight 0, so that they inform only.');
	END IF;
	IF k ->> 'metric' <> 'perplexity' AND (CASE jsonb_typeof(k -> 'value') WHEN 'number'
			THEN (k ->> 'value')::numeric <> ALL (ARRAY(SELECT generate_series(0, check_aggregated.n - 1)::numeric))
			ELSE true END
		OR k ->> 'metric' = 'f1' AND check_aggregated.n <> 2)
	THEN
		PERFORM gpucredit_eval.refuse(format('case "%s" has a malformed check of metric "%s"', check_aggregated.name, k ->> 'metric'),
			'Its value is the number of the one right choice, from 0; f1 has two choices, of which the second is the positive one.');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.check_aggregated(text, jsonb, integer) IS
'Internal: refuses a case of metric perplexity, mcc or f1 that is malformed (22023).';

/*
 * Checks a case that scores texts. Each text is a call that the run pays for,
 * so their number is limited. All checks of the case are about them: there is
 * no answer that another check or a judge could read.
 */
CREATE FUNCTION gpucredit_eval.check_texts(name text, document jsonb, checks jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	d jsonb := check_texts.document;
	n integer := gpucredit_eval.texts_of(d -> 'input');
BEGIN
	IF (CASE WHEN n NOT BETWEEN 1 AND 100 THEN true
		WHEN jsonb_path_exists(d -> 'input', 'strict $.requests[*] ? (@.type() != "object")') THEN true
		ELSE (d -> 'input') - 'requests' <> '{}'
			OR n <> (SELECT count(*) FROM jsonb_array_elements(d -> 'input' -> 'requests') q
				WHERE q - '{context,continuation}'::text[] = '{}' AND jsonb_typeof(q -> 'context') = 'string'
					AND jsonb_typeof(q -> 'continuation') = 'string' AND q ->> 'continuation' <> '') END)
	THEN
		PERFORM gpucredit_eval.refuse(format('the input of case "%s" is no list of texts to be scored', check_texts.name),
			'It is {"requests": [{"context": text, "continuation": text that is not empty}, ..]}, with 1 to 100 of them.');
	END IF;
	IF d ->> 'rubric' IS NOT NULL OR jsonb_path_exists(check_texts.checks,
		'$[*] ? (@.type != "multiple_choice" && @.type != "loglikelihood" || exists(@.transform))')
	THEN
		PERFORM gpucredit_eval.refuse(format('case "%s" scores texts, and has other checks or a rubric', check_texts.name),
			'There is no answer for them.', 'Make two cases of it.');
	END IF;
	IF EXISTS (SELECT FROM jsonb_array_elements(check_texts.checks) k
		WHERE CASE k ->> 'type' WHEN 'loglikelihood' THEN n > 1 OR coalesce(k ->> 'metric', '') NOT IN ('acc', 'perplexity')
			ELSE coalesce(k ->> 'metric', '') NOT IN ('acc', 'acc_norm', 'acc_bytes', 'exact_match', 'mcc', 'f1')
				OR CASE jsonb_typeof(k -> 'choices') WHEN 'array' THEN jsonb_array_length(k -> 'choices') <> n
					ELSE true END END)
	THEN
		PERFORM gpucredit_eval.refuse(format('case "%s" has a malformed check of texts', check_texts.name),
			'multiple_choice has "choices", as many as the input has texts, and a metric acc, acc_norm, acc_bytes, exact_match, mcc or f1; loglikelihood has one text, and metric acc or perplexity.');
	END IF;
	PERFORM gpucredit_eval.check_aggregated(check_texts.name, check_texts.checks, n);
END
$$;
COMMENT ON FUNCTION gpucredit_eval.check_texts(text, jsonb, jsonb) IS
'Internal: refuses a case that scores texts and is malformed (22023).';

/*
 * Checks what a case compares its answer with. Each text is embedded at the
 * run's cost, so their number is limited. The answer is embedded as it came.
 */
CREATE FUNCTION gpucredit_eval.check_similar(name text, checks jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	k jsonb;
	n integer := 0;
BEGIN
	FOR k IN SELECT * FROM jsonb_path_query(check_similar.checks,
		'$[*] ? (@.type == "similar" || @.type == "not-similar")')
	LOOP
		n := n + CASE jsonb_typeof(k -> 'value') WHEN 'array' THEN jsonb_array_length(k -> 'value') ELSE 1 END;
		IF n > 100 OR k ? 'transform' OR k -> 'value' = '[]'
			OR (CASE jsonb_typeof(k -> 'value') WHEN 'string' THEN k ->> 'value' = ''
				WHEN 'array' THEN jsonb_path_exists(k, 'strict $.value[*] ? (@.type() != "string" || @ == "")')
				ELSE true END)
			OR NOT coalesce(jsonb_path_match(k,
				'!exists($.threshold) || $.threshold.type() == "number" && $.threshold >= -1 && $.threshold <= 1'), false)
		THEN
			PERFORM gpucredit_eval.refuse(format('case "%s" has a malformed check of similarity', check_similar.name),
				'Its value is a text, or an array of texts, none of them empty, at most 100 in a case; its threshold is -1 to 1, and it has no transform.');
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.check_similar(text, jsonb) IS
'Internal: refuses a case whose checks of similarity are malformed (22023).';

CREATE FUNCTION gpucredit_eval.check_case(document jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	d jsonb := check_case.document;
	named text;
	checks jsonb;
BEGIN
	PERFORM gpucredit_eval.check_words('a case', d, gpucredit_eval.case_words());
	named := left(coalesce(d ->> 'name', d ->> 'input'), 64);
	checks := coalesce(nullif(d -> 'checks', 'null'), '[]');
	IF coalesce(jsonb_typeof(d -> 'input'), 'null') = 'null' THEN
		PERFORM gpucredit_eval.refuse('a case has no "input"', 'It is what the model is asked.');
	END IF;
	PERFORM gpucredit_eval.number_in('a case', d, 'threshold', 0, 1, NULL);
	PERFORM gpucredit_eval.number_in('a case', d, 'weight', 0, 1000000, 1);
	IF jsonb_typeof(checks) <> 'array'
		OR coalesce(jsonb_typeof(d -> 'tags'), 'array') NOT IN ('array', 'null')
	THEN
		PERFORM gpucredit_eval.refuse('"checks" and "tags" of a case are arrays',
			format('The case is "%s".', named));
	END IF;
	IF NOT gpucredit_eval.valid_checks(checks) THEN
		PERFORM gpucredit_eval.refuse_checks(named, checks);
	END IF;
	IF gpucredit_eval.scores_texts(checks) THEN
		PERFORM gpucredit_eval.check_texts(named, d, checks);
	END IF;
	IF gpucredit_eval.embeds(checks) THEN
		PERFORM gpucredit_eval.check_similar(named, checks);
	END IF;
	IF octet_length(d ->> 'name') NOT BETWEEN 1 AND 255 OR octet_length(d ->> 'task') NOT BETWEEN 1 AND 255
		OR octet_length(d ->> 'rubric') > 8192 OR octet_length(d ->> 'source') > 8192
		OR octet_length((d -> 'input')::text) > 1048576 OR octet_length((d -> 'expected')::text) > 1048576
		OR octet_length(checks::text) > 1048576
	THEN
		PERFORM gpucredit_eval.refuse(format('case "%s" is too long', named),
			'Names and tasks have 1 to 255 bytes, rubrics and sources 8 kB,'
			' inputs, expected answers and checks 1 MiB.');
	END IF;
	IF checks = '[]' AND d ->> 'rubric' IS NULL THEN
		PERFORM gpucredit_eval.refuse(format('case "%s" has neither checks nor a rubric', named),
			'Nothing would tell a good answer from a bad one.');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.check_case(jsonb) IS
'Internal: refuses what is no case (22023).';

/*
 * Returns the cases of documents that check_case() accepts, with their
 * defaults. A case without a name is named after its content.
 */
CREATE FUNCTION gpucredit_eval.parse_cases(documents jsonb)
RETURNS TABLE (n bigint, name text, task text, input jsonb, expected jsonb, checks jsonb,
	rubric text, threshold numeric, weight numeric, tags text[], source text, digest bytea)
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT a.n, coalesce(a.d ->> 'name', left(encode(p.digest, 'hex'), 16)),
		coalesce(a.d ->> 'task', 'default'), a.d -> 'input', nullif(a.d -> 'expected', 'null'),
		coalesce(nullif(a.d -> 'checks', 'null'), '[]'), a.d ->> 'rubric',
		(a.d ->> 'threshold')::numeric, coalesce((a.d ->> 'weight')::numeric, 1),
		CASE jsonb_typeof(a.d -> 'tags') WHEN 'array'
			THEN ARRAY(SELECT jsonb_array_elements_text(a.d -> 'tags')) ELSE '{}' END,
		a.d ->> 'source', p.digest
	FROM jsonb_array_elements(parse_cases.documents) WITH ORDINALITY a (d, n)
		CROSS JOIN LATERAL (SELECT sha256(convert_to((a.d - 'name')::text, 'UTF8')) OFFSET 0) p (digest);
END;
COMMENT ON FUNCTION gpucredit_eval.parse_cases(jsonb) IS
'Internal: cases from documents, numbered from 1.';

CREATE FUNCTION gpucredit_eval.add_cases(org text, set text, cases jsonb, key text,
	OUT added integer, OUT same integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	s gpucredit_eval.golden_set;
	kept jsonb;
	other text;
BEGIN
	s := gpucredit_eval.require_set(add_cases.org, add_cases.set, 'curate');
	IF jsonb_typeof(add_cases.cases) IS DISTINCT FROM 'array'
		OR jsonb_array_length(add_cases.cases) > 100000
	THEN
		PERFORM gpucredit_eval.refuse('cases is an array of at most 100,000 objects',
			'Each is {"input", "checks", "rubric", "expected", "task", "name", "weight", "threshold", "tags", "source"}.');
	END IF;
	kept := gpucredit_eval.request_begin(s.org, add_cases.key, 'add_cases',
		jsonb_build_array(s.set, add_cases.cases));
	IF kept IS NOT NULL THEN
		add_cases.added := kept -> 0;
		add_cases.same := kept -> 1;
		RETURN;
	END IF;
	SELECT * INTO STRICT s FROM gpucredit_eval.golden_set g
	WHERE g.org = s.org AND g.set = s.set FOR NO KEY UPDATE;
	PERFORM gpucredit_eval.check_case(d) FROM jsonb_array_elements(add_cases.cases) d
	WHERE gpucredit_eval.is_plain_case(d) IS NOT TRUE;
	WITH given AS MATERIALIZED (SELECT * FROM gpucredit_eval.parse_cases(add_cases.cases)),
	named AS (
		SELECT g.*, first_value(g.digest) OVER w AS first_digest,
			row_number() OVER w AS repetition
		FROM given g WINDOW w AS (PARTITION BY g.name ORDER BY g.n)),
	clash AS (
		SELECT n.name FROM named n
			LEFT JOIN gpucredit_eval.golden_case c
				ON c.org = s.org AND c.set = s.set AND c.name = n.name
		WHERE n.digest <> coalesce(c.digest, n.first_digest)
		LIMIT 1),
	put AS (
		INSERT INTO gpucredit_eval.golden_case (org, set, ordinal, name, task, input,
			expected, checks, rubric, threshold, weight, tags, source, digest, added_at)
		SELECT s.org, s.set, s.cases + row_number() OVER (ORDER BY n.n), n.name, n.task,
			n.input, n.expected, n.checks, n.rubric, n.threshold, n.weight, n.tags,
			n.source, n.digest, gpucredit.now()
		FROM named n
		WHERE n.repetition = 1 AND NOT EXISTS (SELECT FROM clash)
			AND NOT EXISTS (SELECT FROM gpucredit_eval.golden_case c
				WHERE c.org = s.org AND c.set = s.set AND c.name = n.name)
		RETURNING 1)
	SELECT count(*), (SELECT clash.name FROM clash) INTO add_cases.added, other FROM put;
	IF other IS NOT NULL THEN
		PERFORM gpucredit_eval.refuse(format('case "%s" is there with other content', left(other, 64)),
			'A case never changes, as runs refer to it.',
			'Retire it with retire_cases(), and add the new one under another name.');
	END IF;
	add_cases.same := jsonb_array_length(add_cases.cases) - add_cases.added;
	UPDATE gpucredit_eval.golden_set g SET cases = g.cases + add_cases.added
	WHERE g.org = s.org AND g.set = s.set;
	PERFORM gpucredit_eval.record(s.org, 'add_cases', NULL,
		jsonb_build_object('set', s.set, 'added', add_cases.added, 'same', add_cases.same));
	PERFORM gpucredit_eval.request_end(s.org, add_cases.key,
		jsonb_build_array(add_cases.added, add_cases.same));
END
$$;
COMMENT ON FUNCTION gpucredit_eval.add_cases(text, text, jsonb, text) IS
'Sets: adds cases. Those that are there with the same name and content are counted as same. Frozen versions do not change.
cases: an array of {"input", "checks": [..], "rubric", "expected", "task", "name", "weight", "threshold", "tags", "source"}; all but "input" may be missing, but checks or a rubric are needed. Without a name a case is named by its content.
Errors: UC601 no such set; UC201 key used with other arguments; 22023 a case is malformed, or is there with other content.';

CREATE FUNCTION gpucredit_eval.retire_cases(org text, set text, names text[], key text)
RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	s gpucredit_eval.golden_set;
	kept jsonb;
	n integer;
	missing text;
BEGIN
	s := gpucredit_eval.require_set(retire_cases.org, retire_cases.set, 'curate');
	kept := gpucredit_eval.request_begin(s.org, retire_cases.key, 'retire_cases',
		jsonb_build_array(s.set, to_jsonb(retire_cases.names)));
	IF kept IS NOT NULL THEN
		RETURN kept;
	END IF;
	SELECT * INTO STRICT s FROM gpucredit_eval.golden_set g
	WHERE g.org = s.org AND g.set = s.set FOR NO KEY UPDATE;
	SELECT a INTO missing FROM unnest(retire_cases.names) a
	WHERE NOT EXISTS (SELECT FROM gpucredit_eval.golden_case c
		WHERE c.org = s.org AND c.set = s.set AND c.name = a)
	LIMIT 1;
	IF FOUND THEN
		PERFORM gpucredit_eval.not_found(format('case "%s" of set "%s/%s"', left(missing, 64),
			s.org, s.set));
	END IF;
	UPDATE gpucredit_eval.golden_case c SET retired_version = s.versions + 1
	WHERE c.org = s.org AND c.set = s.set AND c.name = ANY (retire_cases.names)
		AND c.retired_version IS NULL;
	GET DIAGNOSTICS n = ROW_COUNT;
	PERFORM gpucredit_eval.record(s.org, 'retire_cases', NULL,
		jsonb_build_object('set', s.set, 'cases', to_jsonb(retire_cases.names)));
	PERFORM gpucredit_eval.request_end(s.org, retire_cases.key, to_jsonb(n));
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.retire_cases(text, text, text[], text) IS
'Sets: takes cases out of the versions that are frozen from now on.
Result: how many were not yet retired. Errors: UC601 no such set or case; UC201 key used with other arguments.';

CREATE FUNCTION gpucredit_eval.freeze_set(org text, set text, key text,
	OUT version integer, OUT digest text, OUT cases integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	s gpucredit_eval.golden_set;
	v gpucredit_eval.set_version;
	kept jsonb;
	print bytea;
	mixed text;
BEGIN
	s := gpucredit_eval.require_set(freeze_set.org, freeze_set.set, 'curate');
	kept := gpucredit_eval.request_begin(s.org, freeze_set.key, 'freeze_set',
		jsonb_build_array(s.set));
	IF kept IS NULL THEN
		SELECT * INTO STRICT s FROM gpucredit_eval.golden_set g
		WHERE g.org = s.org AND g.set = s.set FOR NO KEY UPDATE;
		SELECT count(*), sha256(convert_to(coalesce(string_agg(
				c.name || ' ' || encode(c.digest, 'hex'), E'\n' ORDER BY c.ordinal), ''), 'UTF8')),
			count(*) FILTER (WHERE c.rubric IS NOT NULL),
			count(*) FILTER (WHERE gpucredit_eval.scores_texts(c.checks)),
			count(*) FILTER (WHERE gpucredit_eval.embeds(c.checks))
		INTO v.cases, print, v.judged, v.texts, v.embedded
		FROM gpucredit_eval.golden_case c
		WHERE c.org = s.org AND c.set = s.set AND c.retired_version IS NULL;
		IF v.cases = 0 THEN
			PERFORM gpucredit_eval.wrong_state(format('set "%s/%s" has no case', s.org, s.set),
				'A version of no case measures nothing.', 'Call add_cases() first.');
		END IF;
		SELECT coalesce(jsonb_object_agg(t.task, t.n), '{}'),
			coalesce(jsonb_object_agg(t.task, t.metric) FILTER (WHERE t.metric <> 'mean'), '{}'),
			min(t.task) FILTER (WHERE t.metrics > 1)
		INTO v.tasks, v.aggregates, mixed
		FROM (SELECT c.task, count(*) AS n, min(a.metric) AS metric, count(DISTINCT a.metric) AS metrics
			FROM gpucredit_eval.golden_case c
				CROSS JOIN LATERAL gpucredit_eval.aggregate_of(c.checks) a (metric)
			WHERE c.org = s.org AND c.set = s.set AND c.retired_version IS NULL
			GROUP BY c.task) t;
		IF mixed IS NOT NULL THEN
			PERFORM gpucredit_eval.wrong_state(format('the cases of task "%s" of set "%s/%s" have several metrics', mixed, s.org, s.set),
				'A task has one score.', 'Give cases of another metric a task of their own.');
		END IF;
		SELECT o.version INTO v.version FROM gpucredit_eval.set_version o
		WHERE o.org = s.org AND o.set = s.set AND o.version = s.versions AND o.digest = print;
		IF NOT FOUND THEN
			v.version := s.versions + 1;
			INSERT INTO gpucredit_eval.set_version
			VALUES (s.org, s.set, v.version, s.cases, v.cases, v.tasks, v.judged, v.texts, v.embedded, v.aggregates,
				print, gpucredit.now());
			UPDATE gpucredit_eval.golden_set g SET versions = v.version
			WHERE g.org = s.org AND g.set = s.set;
			PERFORM gpucredit_eval.record(s.org, 'freeze_set', NULL,
				jsonb_build_object('set', s.set, 'version', v.version, 'cases', v.cases));
		END IF;
		kept := gpucredit_eval.request_end(s.org, freeze_set.key,
			jsonb_build_array(v.version, encode(print, 'hex'), v.cases));
	END IF;
	freeze_set.version := kept -> 0;
	freeze_set.digest := kept ->> 1;
	freeze_set.cases := kept -> 2;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.freeze_set(text, text, text) IS
'Sets: makes a version of the cases that are not retired. Without a change since the last version it is that one.
Result: its number, the SHA-256 of its cases in hex, how many they are. Errors: UC601 no such set; UC602 it has no case, or a task has cases of several metrics; UC201 key used with other arguments.';

/*
 * Returns a version of a set for "set" or "set@version". The default is the
 * newest version.
 */
CREATE FUNCTION gpucredit_eval.find_version(s gpucredit_eval.golden_set, version integer)
RETURNS gpucredit_eval.set_version
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_eval.set_version;
BEGIN
	SELECT * INTO v FROM gpucredit_eval.set_version o
	WHERE o.org = (s).org AND o.set = (s).set
		AND o.version = coalesce(find_version.version, (s).versions);
	IF NOT FOUND THEN
		PERFORM gpucredit_eval.not_found(format('version %s of set "%s/%s"',
			coalesce(find_version.version, 1), (s).org, (s).set));
	END IF;
	RETURN v;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.find_version(gpucredit_eval.golden_set, integer) IS
'Internal: a frozen version of a set; NULL: the newest. Errors: UC601.';

CREATE FUNCTION gpucredit_eval.cases(org text, set text, version integer DEFAULT NULL)
RETURNS TABLE ("case" bigint, name text, task text, input jsonb, expected jsonb, checks jsonb,
	rubric text, threshold numeric, weight numeric, tags text[], source text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	s gpucredit_eval.golden_set;
	v gpucredit_eval.set_version;
BEGIN
	s := gpucredit_eval.require_set(cases.org, cases.set, 'read');
	IF s.kind = 'held_out' THEN
		PERFORM gpucredit_eval.require_set(s.org, s.set, 'curate');
		/*
		 * The users of an application may see what it sees, and may tune
		 * models on it.
		 */
		IF NOT pg_has_role(gpucredit_eval.caller(), 'gpucredit_tenant', 'MEMBER')
			AND NOT pg_has_role(gpucredit_eval.caller(), 'gpucredit_admin', 'MEMBER')
		THEN
			PERFORM gpucredit_eval.held_out(format('set "%s/%s" is held out', s.org, s.set),
				'Read it as a login of a curator, which grant_set() names.');
		END IF;
	END IF;
	v := gpucredit_eval.find_version(s, cases.version);
	RETURN QUERY
		SELECT c."case", c.name, c.task, c.input, c.expected, c.checks, c.rubric,
			c.threshold, c.weight, c.tags, c.source
		FROM gpucredit_eval.golden_case c
		WHERE c.org = s.org AND c.set = s.set AND gpucredit_eval.in_version(c, v)
		ORDER BY c.ordinal;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.cases(text, text, integer) IS
'Sets: the cases of a frozen version; NULL: the newest.
Errors: UC601 no such set, or not to be read; UC604 held out, and the caller is no curator.';
