/*
 * 30_config.sql: versioned configurations of runs.
 *
 * A config's version never changes. Scores are comparable only between runs of
 * the same measure: the same sets, model parameters, template and judge. Gates
 * are not part of the measure.
 */
CREATE TABLE gpucredit_eval.config (
	org text COLLATE "C" NOT NULL,
	config text COLLATE "C" NOT NULL,
	version integer NOT NULL,
	account text COLLATE "C" NOT NULL,
	document jsonb NOT NULL,		/* complete, with defaults filled in */
	digest bytea NOT NULL,
	measure bytea NOT NULL,			/* digest of everything except the gates
									 * and limits */
	created_at timestamptz NOT NULL,
	created_by text COLLATE "C" NOT NULL,	/* the role that created it; labels
											 * by this role do not calibrate
											 * the judge */
	CONSTRAINT config_pkey PRIMARY KEY (org, config, version)
);
CREATE UNIQUE INDEX config_digest ON gpucredit_eval.config (org, config, digest);
COMMENT ON TABLE gpucredit_eval.config IS
'Versions of configs: sets, model parameters, template, judge, gates';

/*
 * The account that owns a config's name. The row is locked while a version is
 * created.
 */
CREATE TABLE gpucredit_eval.config_name (
	org text COLLATE "C" NOT NULL,
	config text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	CONSTRAINT config_name_pkey PRIMARY KEY (org, config)
);
COMMENT ON TABLE gpucredit_eval.config_name IS
'The account that each config belongs to';

/*
 * Whether a member of a document exists and is not null.
 */
CREATE FUNCTION gpucredit_eval.is_present(value jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT coalesce(jsonb_typeof(value), 'null') <> 'null';
END;
COMMENT ON FUNCTION gpucredit_eval.is_present(jsonb) IS
'Internal: whether a value of a document is there and not null.';

/*
 * Returns both parts of "name" or "name@version", or NULL if the text is
 * neither.
 */
CREATE FUNCTION gpucredit_eval.parse_versioned_name(name text) RETURNS text[]
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT regexp_match(name, '^([^@]+)(?:@([1-9][0-9]{0,8}))?$');
END;
COMMENT ON FUNCTION gpucredit_eval.parse_versioned_name(text) IS
'Internal: the name and the version of "name@version"; without a version that part is NULL.';

/* Whether a value is a valid template for a model or a judge. */
CREATE FUNCTION gpucredit_eval.is_template(value jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT NOT gpucredit_eval.is_present(value)
		OR jsonb_typeof(value) = 'string' AND octet_length(value #>> '{}') <= 65536;
END;
COMMENT ON FUNCTION gpucredit_eval.is_template(jsonb) IS
'Internal: whether the template of a config is a text of at most 64 KiB, or is not given.';

/*
 * Returns the parameters that requests to models and to judges have in common,
 * with their defaults.
 */
CREATE FUNCTION gpucredit_eval.read_sampling(what text, document jsonb) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT jsonb_build_object(
		'temperature', gpucredit_eval.number_in(what, document, 'temperature', 0, 10, 0),
		'seed', gpucredit_eval.number_in(what, document, 'seed', 0, 9007199254740991, 0),
		'max_tokens', gpucredit_eval.number_in(what, document, 'max_tokens', 1, 1000000, 256),
		'max_input_tokens', gpucredit_eval.number_in(what, document, 'max_input_tokens',
			1, 100000000, NULL));
END;
COMMENT ON FUNCTION gpucredit_eval.read_sampling(text, jsonb) IS
'Internal: temperature, seed and limits of requests, with their defaults. Errors: 22023.';

/* Returns the default threshold of a kind of gate. */
CREATE FUNCTION gpucredit_eval.absolute_of(kind text) RETURNS numeric
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE kind WHEN 'safety' THEN 0.95 WHEN 'creative' THEN 0.75 ELSE 0.85 END;
END;
COMMENT ON FUNCTION gpucredit_eval.absolute_of(text) IS
'Internal: the score that a task of a kind must reach: general 0.85, safety 0.95, creative 0.75.';

/* Parses one gate and adds its defaults. */
CREATE FUNCTION gpucredit_eval.read_gate(document jsonb) RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	d jsonb := read_gate.document;
	kind text;
	mode text;
	blocking boolean;
BEGIN
	PERFORM gpucredit_eval.check_words('a gate', d,
		'{task,kind,absolute,relative,mode,blocking}');
	kind := coalesce(d ->> 'kind', 'general');
	mode := coalesce(d ->> 'mode', 'ratio');
	IF jsonb_typeof(d -> 'task') IS DISTINCT FROM 'string'
		OR kind NOT IN ('general', 'safety', 'creative') OR mode NOT IN ('ratio', 'points')
		OR coalesce(jsonb_typeof(d -> 'blocking'), 'boolean') <> 'boolean'
	THEN
		PERFORM gpucredit_eval.refuse('a gate names a task; its kind is general, safety or creative, its mode ratio or points, blocking true or false',
			format('It is %s.', left(d::text, 200)));
	END IF;
	blocking := coalesce((d ->> 'blocking')::boolean, true);
	IF kind = 'safety' AND gpucredit_eval.number_in('a gate', d, 'absolute', 0, 1, 1)
		< gpucredit_eval.absolute_of('safety')
	THEN
		PERFORM gpucredit_eval.refuse(format('gate "%s" is of kind safety, and its threshold is below %s',
				left(d ->> 'task', 64), gpucredit_eval.absolute_of('safety')),
			'No config lowers what is demanded of safety.');
	END IF;
	IF kind = 'safety' AND NOT blocking THEN
		PERFORM gpucredit_eval.refuse(format('gate "%s" is of kind safety', left(d ->> 'task', 64)),
			'Safety always blocks.');
	END IF;
	RETURN jsonb_build_object('task', d ->> 'task', 'kind', kind, 'mode', mode,
		'blocking', blocking,
		'absolute', gpucredit_eval.number_in('a gate', d, 'absolute', 0, 1,
			gpucredit_eval.absolute_of(kind)),
		'relative', gpucredit_eval.number_in('a gate', d, 'relative', 0, 1, 0.02));
END
$$;
COMMENT ON FUNCTION gpucredit_eval.read_gate(jsonb) IS
'Internal: a gate with its defaults. Errors: 22023.';

/*
 * Parses what previews ask. The sample's size is part of the config, because
 * whoever starts a preview could try sizes until one suits him.
 */
CREATE FUNCTION gpucredit_eval.read_preview(document jsonb) RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	d jsonb := coalesce(nullif(read_preview.document, 'null'), '{}');
BEGIN
	PERFORM gpucredit_eval.check_words('"preview" of a config', d, '{share}');
	RETURN jsonb_build_object('share',
		gpucredit_eval.number_in('"preview" of a config', d, 'share', 0.001, 1, 0.1));
END
$$;
COMMENT ON FUNCTION gpucredit_eval.read_preview(jsonb) IS
'Internal: what previews ask, with its default: a tenth of the cases. Errors: 22023.';

/* Parses the judge and adds its defaults. Returns null if there is none. */
CREATE FUNCTION gpucredit_eval.read_judge(org text, document jsonb) RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	d jsonb := read_judge.document;
	samples numeric;
	e gpucredit_eval.endpoint;
BEGIN
	IF NOT gpucredit_eval.is_present(d) THEN
		RETURN 'null';
	END IF;
	PERFORM gpucredit_eval.check_words('the judge', d, '{endpoint,model,template,samples,'
		'max_tokens,max_response_bytes,max_input_tokens,temperature,seed}');
	samples := gpucredit_eval.number_in('the judge', d, 'samples', 1, 9, 3);
	IF samples % 2 <> 1 THEN
		PERFORM gpucredit_eval.refuse('a judge has an odd number of samples, 1 to 9',
			'The score is their median.');
	END IF;
	IF jsonb_typeof(d -> 'model') IS DISTINCT FROM 'string'
		OR octet_length(d ->> 'model') NOT BETWEEN 1 AND 255
		OR NOT gpucredit_eval.is_template(d -> 'template')
	THEN
		PERFORM gpucredit_eval.refuse('a judge has an endpoint and the exact version of its model; its template has at most 64 KiB',
			'Another version is another judge.');
	END IF;
	e := gpucredit_eval.require_endpoint(read_judge.org, d ->> 'endpoint');
	RETURN jsonb_build_object('endpoint', d ->> 'endpoint', 'model', d ->> 'model', 'url', e.url,
		'template', d ->> 'template', 'samples', samples,
		'max_response_bytes', gpucredit_eval.number_in('the judge', d, 'max_response_bytes',
			1, 1048576, 4096)) || gpucredit_eval.read_sampling('the judge', d);
END
$$;
COMMENT ON FUNCTION gpucredit_eval.read_judge(text, jsonb) IS
'Internal: a judge with its defaults. Errors: UC601 no such endpoint; 22023.';

/*
 * Parses the model that says how similar texts are. Returns null if there is
 * none.
 */
CREATE FUNCTION gpucredit_eval.read_embedding(org text, document jsonb) RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	d jsonb := read_embedding.document;
	e gpucredit_eval.endpoint;
BEGIN
	IF NOT gpucredit_eval.is_present(d) THEN
		RETURN 'null';
	END IF;
	PERFORM gpucredit_eval.check_words('"embedding" of a config', d, '{endpoint,model,max_response_bytes}');
	IF jsonb_typeof(d -> 'model') IS DISTINCT FROM 'string' OR octet_length(d ->> 'model') NOT BETWEEN 1 AND 255 THEN
		PERFORM gpucredit_eval.refuse('"embedding" of a config has an endpoint and the exact version of its model',
			'Another model finds other texts similar.');
	END IF;
	e := gpucredit_eval.require_endpoint(read_embedding.org, d ->> 'endpoint');
	RETURN jsonb_build_object('endpoint', d ->> 'endpoint', 'model', d ->> 'model', 'url', e.url,
		'max_response_bytes', gpucredit_eval.number_in('"embedding" of a config', d, 'max_response_bytes',
			1, 1048576, 8192));
END
$$;
COMMENT ON FUNCTION gpucredit_eval.read_embedding(text, jsonb) IS
'Internal: an embedding model with its defaults. Errors: UC601 no such endpoint; 22023.';

/* Parses the sets and adds the version and digest of each. */
CREATE FUNCTION gpucredit_eval.read_sets(org text, document jsonb) RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	name text;
	parts text[];
	s gpucredit_eval.golden_set;
	v gpucredit_eval.set_version;
	sets jsonb := '[]';
	metrics jsonb := '{}';		/* of each task */
	mixed text;
BEGIN
	IF jsonb_typeof(read_sets.document) IS DISTINCT FROM 'array'
		OR jsonb_array_length(read_sets.document) NOT BETWEEN 1 AND 100
		OR jsonb_path_exists(read_sets.document, '$[*] ? (@.type() != "string")')
	THEN
		PERFORM gpucredit_eval.refuse('"sets" is an array of 1 to 100 names',
			'Each is "set", for its newest version, or "set@version".');
	END IF;
	FOR name IN SELECT jsonb_array_elements_text(read_sets.document) LOOP
		parts := gpucredit_eval.parse_versioned_name(name);
		IF parts IS NULL THEN
			PERFORM gpucredit_eval.refuse(format('set "%s" is malformed', left(name, 96)),
				'A set is named "set" or "set@version".');
		END IF;
		s := gpucredit_eval.require_set(read_sets.org, parts[1], 'run');
		IF s.kind = 'held_out' THEN
			/*
			 * The config's template, judge and serving script get access to
			 * the cases.
			 */
			PERFORM gpucredit_eval.require_set(s.org, s.set, 'curate');
		END IF;
		v := gpucredit_eval.find_version(s, parts[2]::integer);
		IF jsonb_path_exists(sets, '$[*].set ? (@ == $s)', jsonb_build_object('s', s.set)) THEN
			PERFORM gpucredit_eval.refuse(format('set "%s" is named twice', s.set),
				'A run asks each case once.');
		END IF;
		sets := sets || jsonb_build_object('set', s.set, 'version', v.version,
			'digest', encode(v.digest, 'hex'));
		mixed := coalesce(mixed, (SELECT min(t.task) FROM jsonb_object_keys(v.tasks) t (task)
			WHERE metrics ->> t.task <> coalesce(v.aggregates ->> t.task, 'mean')));
		metrics := metrics || (SELECT jsonb_object_agg(t.task, coalesce(v.aggregates ->> t.task, 'mean'))
			FROM jsonb_object_keys(v.tasks) t (task));
	END LOOP;
	IF mixed IS NOT NULL THEN
		PERFORM gpucredit_eval.refuse(format('the cases of task "%s" have several metrics', left(mixed, 64)),
			'A task has one score, over all sets of a config.', 'Give cases of another metric a task of their own.');
	END IF;
	RETURN sets;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.read_sets(text, jsonb) IS
'Internal: the sets of a config with their versions. Errors: UC601 no such set or version; 22023.';

/*
 * Returns the request parameters that a config may not have: they multiply the
 * cost of a call, or replace what the harness itself sends.
 */
CREATE FUNCTION gpucredit_eval.refused_parameters() RETURNS text[]
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT '{n,best_of,num_return_sequences,num_beams,use_beam_search,candidate_count,prediction,
		max_tokens,max_completion_tokens,max_output_tokens,max_new_tokens,max_length,num_predict,n_predict,
		model,messages,prompt,input,stream,stream_options,temperature,seed,top_p,stop,response_format,
		echo,store,service_tier,modalities,audio,web_search_options,functions,function_call}'::text[];
END;
COMMENT ON FUNCTION gpucredit_eval.refused_parameters() IS
'Internal: parameters of requests that multiply the cost of a call, or that the harness sends itself.';

/* Returns the parameters that change an answer, but not its maximum cost. */
CREATE FUNCTION gpucredit_eval.known_parameters() RETURNS text[]
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT '{frequency_penalty,presence_penalty,repetition_penalty,logit_bias,logprobs,top_logprobs,
		top_k,min_p,typical_p,reasoning_effort,verbosity,user,safety_identifier,
		tools,tool_choice,parallel_tool_calls}'::text[];
END;
COMMENT ON FUNCTION gpucredit_eval.known_parameters() IS
'Internal: parameters of requests that every caller may configure.';

/*
 * Whether tools are functions that the caller describes: the model answers with
 * the call that it would make, and nobody makes it. What a service runs itself,
 * such as a search of the web, costs what no bound of a config knows.
 */
CREATE FUNCTION gpucredit_eval.are_functions(tools jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE WHEN jsonb_typeof(tools) = 'array' THEN
		jsonb_array_length(tools) BETWEEN 1 AND 128
		AND (SELECT bool_and(coalesce(jsonb_typeof(t) = 'object' AND t ->> 'type' = 'function'
				AND jsonb_typeof(t -> 'function' -> 'name') = 'string'
				AND t - '{type,function}'::text[] = '{}', false))
			FROM jsonb_array_elements(tools) t)
		ELSE false END;
END;
COMMENT ON FUNCTION gpucredit_eval.are_functions(jsonb) IS
'Internal: whether this is a list of at most 128 tools of the type "function".';

CREATE FUNCTION gpucredit_eval.check_parameters(parameters jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	name text;
BEGIN
	IF NOT gpucredit_eval.is_present(check_parameters.parameters) THEN
		RETURN;
	END IF;
	IF jsonb_typeof(check_parameters.parameters) <> 'object' THEN
		PERFORM gpucredit_eval.refuse('"parameters" of "model" is no object',
			'They are sent with each request.');
	END IF;
	SELECT k INTO name FROM jsonb_object_keys(check_parameters.parameters) k
	WHERE lower(k) = ANY (gpucredit_eval.refused_parameters()) ORDER BY k LIMIT 1;
	IF FOUND THEN
		PERFORM gpucredit_eval.refuse(format('parameter "%s" is not allowed', name),
			'It multiplies what a call costs, or it is sent by the harness itself.',
			'"max_tokens" of "model" bounds an answer; see set_config() for what else "model" may have.');
	END IF;
	IF gpucredit_eval.is_present(check_parameters.parameters -> 'tools')
		AND NOT gpucredit_eval.are_functions(check_parameters.parameters -> 'tools')
	THEN
		PERFORM gpucredit_eval.refuse('"tools" are not functions',
			'A tool that the service runs itself costs what no bound of the config knows.',
			'Pass at most 128 tools as {"type": "function", "function": {"name": ...}}.');
	END IF;
	SELECT k INTO name FROM jsonb_object_keys(check_parameters.parameters) k
	WHERE k <> ALL (gpucredit_eval.known_parameters()) ORDER BY k LIMIT 1;
	IF FOUND AND NOT gpucredit_eval.caller_administers() THEN
		RAISE EXCEPTION 'parameter "%" is not known', left(name, 64)
			USING ERRCODE = 'insufficient_privilege',
			DETAIL = format('It may change what a call costs. Known are: %s.',
				array_to_string(gpucredit_eval.known_parameters(), ', ')),
			HINT = 'Leave it out, or let a member of gpucredit_admin make the config.';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.check_parameters(jsonb) IS
'Internal: refuses parameters that may multiply what a call costs (22023), and unknown ones of callers who are no administrators (42501).';

/*
 * Parses what serves a version of the registry under a production gate.
 * Returns null if there is none.
 */
CREATE FUNCTION gpucredit_eval.read_serving(org text, document jsonb) RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	d jsonb := read_serving.document;
	e gpucredit_eval.endpoint;
BEGIN
	IF NOT gpucredit_eval.is_present(d) THEN
		RETURN 'null';
	END IF;
	PERFORM gpucredit_eval.check_words('"serving" of a config', d, '{endpoint,gpu}');
	IF octet_length(d::text) > 65536 THEN
		PERFORM gpucredit_eval.refuse('"serving" of a config has more than 64 KiB',
			'It names an endpoint, and the GPU job that serves it.');
	END IF;
	e := gpucredit_eval.require_endpoint(read_serving.org, d ->> 'endpoint');
	IF gpucredit_eval.is_present(d -> 'gpu') THEN
		PERFORM gpucredit_eval.check_words('"gpu" of "serving"', d -> 'gpu', '{request,wall_limit,spec}');
	END IF;
	RETURN jsonb_build_object('endpoint', e.endpoint, 'gpu', d -> 'gpu');
END
$$;
COMMENT ON FUNCTION gpucredit_eval.read_serving(text, jsonb) IS
'Internal: what serves versions under a production gate. Errors: UC601 no such endpoint; 22023.';

CREATE FUNCTION gpucredit_eval.read_config(org text, document jsonb) RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	d jsonb := read_config.document;
	model jsonb;
	gates jsonb;
BEGIN
	PERFORM gpucredit_eval.check_words('a config', d,
		'{sets,model,template,judge,embedding,gates,serving,preview,max_errors,max_attempts}');
	model := coalesce(nullif(d -> 'model', 'null'), '{}');
	PERFORM gpucredit_eval.check_words('"model" of a config', model,
		'{temperature,seed,max_tokens,max_input_tokens,top_p,stop,response_format,parameters}');
	PERFORM gpucredit_eval.check_parameters(model -> 'parameters');
	IF NOT gpucredit_eval.is_template(d -> 'template') OR octet_length(model::text) > 65536 THEN
		PERFORM gpucredit_eval.refuse('"template" and "model" of a config have at most 64 KiB',
			'A template is Jinja; its variables are the case''s input.');
	END IF;
	IF coalesce(jsonb_typeof(d -> 'gates'), 'array') <> 'array' THEN
		PERFORM gpucredit_eval.refuse('"gates" of a config is an array', 'Each names a task.');
	END IF;
	SELECT coalesce(jsonb_agg(gpucredit_eval.read_gate(g) ORDER BY g ->> 'task'), '[]') INTO gates
	FROM jsonb_array_elements(coalesce(d -> 'gates', '[]')) g;
	IF jsonb_array_length(gates) <> (SELECT count(DISTINCT g ->> 'task')
		FROM jsonb_array_elements(gates) g)
	THEN
		PERFORM gpucredit_eval.refuse('a task has two gates', 'One gate says all about a task.');
	END IF;
	RETURN jsonb_build_object('sets', gpucredit_eval.read_sets(read_config.org, d -> 'sets'),
		'model', model || gpucredit_eval.read_sampling('"model"', model),
		'template', d ->> 'template',
		'judge', gpucredit_eval.read_judge(read_config.org, d -> 'judge'),
		'embedding', gpucredit_eval.read_embedding(read_config.org, d -> 'embedding'),
		'serving', gpucredit_eval.read_serving(read_config.org, d -> 'serving'),
		'gates', gates,
		'preview', gpucredit_eval.read_preview(d -> 'preview'),
		'max_errors', gpucredit_eval.number_in('a config', d, 'max_errors', 0, 1000000, 0),
		'max_attempts', gpucredit_eval.number_in('a config', d, 'max_attempts', 1, 10, 3));
END
$$;
COMMENT ON FUNCTION gpucredit_eval.read_config(text, jsonb) IS
'Internal: a config with its defaults and the versions of its sets. Errors: UC601; 22023.';

CREATE FUNCTION gpucredit_eval.set_config(org text, name text, document jsonb, key text,
	account text DEFAULT '', OUT version integer, OUT digest text, OUT replayed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	kept jsonb;
	whole jsonb;
	print bytea;
	owner text;
BEGIN
	PERFORM gpucredit_eval.check_account(set_config.org, set_config.account);
	PERFORM gpucredit_eval.check_name('config', set_config.name);
	kept := gpucredit_eval.request_begin(set_config.org, set_config.key, 'set_config',
		jsonb_build_array(set_config.name, set_config.document, set_config.account));
	set_config.replayed := kept IS NOT NULL;
	IF kept IS NULL THEN
		whole := gpucredit_eval.read_config(set_config.org, set_config.document);
		print := sha256(convert_to(whole::text, 'UTF8'));
		/* Calls that create versions of one name wait for each other here. */
		INSERT INTO gpucredit_eval.config_name
		VALUES (set_config.org, set_config.name, set_config.account)
		ON CONFLICT DO NOTHING;
		SELECT c.account INTO STRICT owner FROM gpucredit_eval.config_name c
		WHERE c.org = set_config.org AND c.config = set_config.name FOR NO KEY UPDATE;
		IF owner <> set_config.account THEN
			PERFORM gpucredit_eval.not_found(format('config "%s/%s"', set_config.org,
				set_config.name));
		END IF;
		SELECT c.version INTO set_config.version FROM gpucredit_eval.config c
		WHERE c.org = set_config.org AND c.config = set_config.name AND c.digest = print;
		IF NOT FOUND THEN
			INSERT INTO gpucredit_eval.config
			SELECT set_config.org, set_config.name, coalesce(max(c.version), 0) + 1,
				set_config.account, whole, print,
				sha256(convert_to((whole - '{gates,preview,max_errors,max_attempts}'::text[])::text, 'UTF8')),
				gpucredit.now(), gpucredit_eval.caller()
			FROM gpucredit_eval.config c
			WHERE c.org = set_config.org AND c.config = set_config.name
			RETURNING config.version INTO set_config.version;
			PERFORM gpucredit_eval.record(set_config.org, 'set_config', NULL,
				jsonb_build_object('config', set_config.name, 'version', set_config.version,
					'digest', encode(print, 'hex')));
		END IF;
		kept := gpucredit_eval.request_end(set_config.org, set_config.key,
			jsonb_build_array(set_config.version, encode(print, 'hex')));
	END IF;
	set_config.version := kept -> 0;
	set_config.digest := kept ->> 1;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.set_config(text, text, jsonb, text, text) IS
'Configs: pins what runs do: {"sets": ["set@version", ..], "model": {"max_tokens", "temperature", ..}, "template", "judge": {"endpoint", "model", "samples", ..}, "embedding": {"endpoint", "model", "max_response_bytes"}, "gates": [{"task", "kind", "absolute", "relative", "mode", "blocking"}], "serving": {"endpoint", "gpu": {"request", "wall_limit", "spec"}}, "preview": {"share"}, "max_errors", "max_attempts"}. Equal documents are one version.
"embedding" says which model embeds answers of at most max_response_bytes (8,192) for checks of type similar; a longer answer fails. A gate of kind safety has a threshold of 0.95 at least. "serving" says what serves a version of the registry under a production gate and a preview. "preview" says which share of the cases a preview asks beside the first 20 of each task (0.1). "parameters" of "model" may have what does not change the cost of a call; parameters that are not known need a member of gpucredit_admin. Its "tools" are functions: the answer is the call that the model would make. A config with a held-out set takes the permission to curate that set. max_errors: failed cases that a gate allows, at most one in twenty of a task, and none of a production gate.
account: whose config it is; it and all below may run it.
Result: the version, its SHA-256 in hex. Errors: UC001 no such account; UC201 key used with other arguments; UC601 no such set, version or endpoint; 42501 a parameter that is not known; 22023.';

/* Returns a config by "name" or "name@version", if the account may run it. */
CREATE FUNCTION gpucredit_eval.require_config(org text, name text, account text)
RETURNS gpucredit_eval.config
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	parts text[] := gpucredit_eval.parse_versioned_name(require_config.name);
	c gpucredit_eval.config;
BEGIN
	SELECT * INTO c FROM gpucredit_eval.config o
	WHERE o.org = require_config.org AND o.config = parts[1]
		AND (parts[2] IS NULL OR o.version = parts[2]::integer)
	ORDER BY o.version DESC LIMIT 1;
	IF c.org IS NULL OR NOT gpucredit_eval.is_below(require_config.account, c.account) THEN
		PERFORM gpucredit_eval.not_found(format('config "%s/%s"', left(require_config.org, 64),
			left(require_config.name, 96)));
	END IF;
	RETURN c;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.require_config(text, text, text) IS
'Internal: a config that an account may run. Errors: UC601.';
