/*
 * 20_endpoint.sql: the addresses of models and judges, and the prices of their
 * tokens.
 *
 * A run keeps a copy of its endpoints as they were when it started, including
 * prices.
 */
CREATE TABLE gpucredit_eval.endpoint (
	org text COLLATE "C" NOT NULL,
	endpoint text COLLATE "C" NOT NULL,
	url text NOT NULL,
	price_in numeric,		/* credits per million tokens; NULL for no price */
	price_out numeric,
	max_rps numeric,		/* NULL for no limit */
	secret text,			/* the environment variable that contains the key,
							 * where workers run */
	model text,				/* the model's name in requests; NULL for the one
							 * in the run */
	serves_registry boolean NOT NULL,
	many_models boolean NOT NULL,	/* it serves different models by their
									 * names */
	gate_share numeric NOT NULL,	/* the part of max_rps for gates while
									 * other runs also make calls */
	logprobs boolean NOT NULL,	/* it scores texts: /v1/completions has echo
								 * and logprobs */
	/*
	 * The turns of gates and of other runs: when the next one begins, and the
	 * last call of pace().
	 */
	gate_turn_at timestamptz NOT NULL DEFAULT '-infinity',
	gate_asked_at timestamptz NOT NULL DEFAULT '-infinity',
	other_turn_at timestamptz NOT NULL DEFAULT '-infinity',
	other_asked_at timestamptz NOT NULL DEFAULT '-infinity',
	/* until then, one of the two has all of max_rps */
	whole_until timestamptz NOT NULL DEFAULT '-infinity',
	CONSTRAINT endpoint_pkey PRIMARY KEY (org, endpoint)
);
COMMENT ON TABLE gpucredit_eval.endpoint IS
'OpenAI-compatible endpoints. serves_registry: it serves versions of the registry, from there alone; secret: a name, never the secret';

/*
 * The gate that has an account's place in the line of gates at an endpoint.
 * Whoever starts runs would call each of them a gate if all of them came before
 * others' runs, so only one gate at a time of an account and those below it
 * does. It keeps the place as long as it makes calls. The row is written while
 * the endpoint's row is locked.
 */
CREATE TABLE gpucredit_eval.gate_place (
	org text COLLATE "C" NOT NULL,
	endpoint text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,	/* the highest below the organisation */
	run bigint NOT NULL,
	asked_at timestamptz NOT NULL,		/* the last call of pace() for it */
	CONSTRAINT gate_place_pkey PRIMARY KEY (org, endpoint, account),
	FOREIGN KEY (org, endpoint) REFERENCES gpucredit_eval.endpoint
);
COMMENT ON TABLE gpucredit_eval.gate_place IS
'Which gate of an account comes before other runs at an endpoint';

CREATE FUNCTION gpucredit_eval.set_endpoint(org text, name text, url text,
	price_in numeric, price_out numeric, max_rps numeric, secret text DEFAULT NULL,
	model text DEFAULT NULL, serves_registry boolean DEFAULT false,
	many_models boolean DEFAULT false, gate_share numeric DEFAULT 0.75,
	logprobs boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_eval.check_account(set_endpoint.org, '');
	PERFORM gpucredit_eval.check_name('endpoint', set_endpoint.name);
	IF coalesce(set_endpoint.url, '') !~ '^https?://[^/@?#[:space:]]+(/[^?#[:space:]]*)?(\?api-version=[0-9A-Za-z.-]{1,32})?$'
		OR octet_length(set_endpoint.url) > 2048
	THEN
		PERFORM gpucredit_eval.refuse(format('url "%s" is malformed', left(set_endpoint.url, 64)),
			'It begins with http:// or https://, and has no user, password or fragment, and no query but Azure''s api-version.');
	END IF;
	IF NOT coalesce(set_endpoint.price_in BETWEEN 0 AND 1000000, true)
		OR NOT coalesce(set_endpoint.price_out BETWEEN 0 AND 1000000, true)
		OR NOT coalesce(set_endpoint.max_rps BETWEEN 0.001 AND 1000000, true)
		OR (set_endpoint.price_in IS NULL) <> (set_endpoint.price_out IS NULL)
		OR NOT coalesce(set_endpoint.gate_share BETWEEN 0.1 AND 0.9, false)
		OR set_endpoint.serves_registry IS NULL OR set_endpoint.many_models IS NULL
		OR set_endpoint.logprobs IS NULL
	THEN
		PERFORM gpucredit_eval.refuse('prices are both set or both NULL, 0 to 1,000,000 credits a million tokens; max_rps is 0.001 to 1,000,000, gate_share 0.1 to 0.9',
			format('They are %s, %s, %s and %s.', set_endpoint.price_in, set_endpoint.price_out,
				set_endpoint.max_rps, set_endpoint.gate_share));
	END IF;
	IF NOT coalesce(set_endpoint.secret ~ '^[A-Za-z_][A-Za-z0-9_]{0,95}$', true)
		OR octet_length(set_endpoint.model) NOT BETWEEN 1 AND 255
	THEN
		PERFORM gpucredit_eval.refuse('secret is the name of an environment variable, model has 1 to 255 bytes',
			'The secret itself stays where workers run.');
	END IF;
	INSERT INTO gpucredit_eval.endpoint
	VALUES (set_endpoint.org, set_endpoint.name, set_endpoint.url, set_endpoint.price_in,
		set_endpoint.price_out, set_endpoint.max_rps, set_endpoint.secret,
		set_endpoint.model, set_endpoint.serves_registry, set_endpoint.many_models,
		set_endpoint.gate_share, set_endpoint.logprobs)
	ON CONFLICT ON CONSTRAINT endpoint_pkey DO UPDATE
	SET url = excluded.url, price_in = excluded.price_in, price_out = excluded.price_out,
		max_rps = excluded.max_rps, secret = excluded.secret, model = excluded.model,
		serves_registry = excluded.serves_registry, many_models = excluded.many_models,
		gate_share = excluded.gate_share, logprobs = excluded.logprobs;
	PERFORM gpucredit_eval.record(set_endpoint.org, 'set_endpoint', NULL,
		jsonb_build_object('endpoint', set_endpoint.name, 'url', set_endpoint.url,
			'price_in', set_endpoint.price_in, 'price_out', set_endpoint.price_out,
			'max_rps', set_endpoint.max_rps, 'serves_registry', set_endpoint.serves_registry,
			'many_models', set_endpoint.many_models, 'gate_share', set_endpoint.gate_share, 'logprobs', set_endpoint.logprobs));
END
$$;
COMMENT ON FUNCTION gpucredit_eval.set_endpoint(text, text, text, numeric, numeric, numeric, text, text, boolean, boolean, numeric, boolean) IS
'Endpoints: says where a model or judge answers /v1/chat/completions, and what it costs; calling again changes it for later runs.
price_in, price_out: credits per million tokens, NULL: not known, so that runs are denied. max_rps: requests a second of all workers together. secret: the environment variable that has its key where workers run. model: what requests call the model. serves_registry: it serves versions of the registry, from there alone. many_models: it tells models apart by the name in a request; without it, all names at one address are one model, which does not judge itself. gate_share: the part of max_rps that is reserved for gates while other runs ask the endpoint, too; 0.1 to 0.9. logprobs: /v1/completions beside that address takes "echo" and "logprobs", as vLLM does, so that the model can be asked how likely given texts are; without it, runs of sets with such cases are refused.
Errors: UC001 no such organisation; 22023.';

CREATE FUNCTION gpucredit_eval.require_endpoint(org text, name text)
RETURNS gpucredit_eval.endpoint
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	e gpucredit_eval.endpoint;
BEGIN
	SELECT * INTO e FROM gpucredit_eval.endpoint o
	WHERE o.org = require_endpoint.org AND o.endpoint = require_endpoint.name;
	IF NOT FOUND THEN
		PERFORM gpucredit_eval.not_found(format('endpoint "%s/%s"', left(require_endpoint.org, 64),
			left(require_endpoint.name, 96)));
	END IF;
	RETURN e;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.require_endpoint(text, text) IS
'Internal: an endpoint. Errors: UC601.';

/* Returns what a run stores of an endpoint and passes to workers. */
CREATE FUNCTION gpucredit_eval.endpoint_terms(e gpucredit_eval.endpoint, model text)
RETURNS jsonb
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT jsonb_build_object('endpoint', (e).endpoint, 'url', (e).url,
		'price_in', (e).price_in, 'price_out', (e).price_out, 'max_rps', (e).max_rps,
		'gate_share', (e).gate_share, 'secret', (e).secret, 'model', coalesce((e).model, model));
END;
COMMENT ON FUNCTION gpucredit_eval.endpoint_terms(gpucredit_eval.endpoint, text) IS
'Internal: what a run keeps of an endpoint.';

/*
 * Returns the server of a URL. Two URLs are one server if they differ only in
 * what does not matter: the case of the host, the scheme's default port, the
 * end of the path, and the version of the API.
 */
CREATE FUNCTION gpucredit_eval.server_of(url text) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT regexp_replace(regexp_replace(regexp_replace(regexp_replace(
		lower(substring(url from '^[^/]*//[^/?]*'))
			|| coalesce(substring(url from '^[^/]*//[^/?]*(/[^?]*)'), ''),
		'^(http://[^/]*):80(?=/|$)|^(https://[^/]*):443(?=/|$)', '\1\2'),
		'/+$', ''), '/chat/completions$', ''), '(/v1)?/*$', '');
END;
COMMENT ON FUNCTION gpucredit_eval.server_of(text) IS
'Internal: an address, without differences that mean nothing.';

/* Returns the account below the organisation to which an account belongs. */
CREATE FUNCTION gpucredit_eval.top_account(account text) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT split_part(account, '/', 1);
END;
COMMENT ON FUNCTION gpucredit_eval.top_account(text) IS
'Internal: the highest account below the organisation that an account belongs to; empty for the organisation''s own.';

/*
 * Gives a gate its account's place in the line of gates at an endpoint, which is
 * locked. Returns false if another gate has it, which has made a call since.
 */
CREATE FUNCTION gpucredit_eval.claim_gate_place(org text, endpoint text, account text,
	run bigint, instant timestamptz, since timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	INSERT INTO gpucredit_eval.gate_place AS p
	VALUES (claim_gate_place.org, claim_gate_place.endpoint, gpucredit_eval.top_account(claim_gate_place.account),
		claim_gate_place.run, claim_gate_place.instant)
	ON CONFLICT ON CONSTRAINT gate_place_pkey DO UPDATE
	SET run = excluded.run, asked_at = excluded.asked_at
	WHERE p.run = excluded.run OR p.asked_at < claim_gate_place.since;
	RETURN FOUND;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.claim_gate_place(text, text, text, bigint, timestamptz, timestamptz) IS
'Internal: whether a gate comes before other runs at an endpoint now, as no other one of its account does.';

/*
 * Limits the rate of requests. Each request takes 1/max_rps seconds of the
 * endpoint's time. An idle endpoint does not accumulate time.
 *
 * Gates and other runs have separate lines of turns. Of an account and those
 * below it, one gate at a time is in the line of gates, and its other gates are
 * in the line of other runs. While both lines make calls,
 * gates have gate_share of max_rps and the others the remaining part; if only
 * one does, it has all of max_rps. Turns are assigned for only a second ahead,
 * or for two requests of a slow endpoint. So a new gate gets its share within
 * that time, however many workers of a nightly run wait. Together, the lines
 * stay within max_rps: a line that is assigned all of it begins after the end
 * of the other line, and the next turn of the other line begins after
 * whole_until.
 */
CREATE FUNCTION gpucredit_eval.pace(org text, endpoint text, n integer DEFAULT 1,
	run bigint DEFAULT NULL, OUT wait interval, OUT every interval, OUT granted integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	e gpucredit_eval.endpoint;
	gate_account text;
	gates boolean;
	alone boolean;
	rate numeric;
	ahead interval;
	instant timestamptz;
	first_turn timestamptz;
	next_turn timestamptz;
BEGIN
	IF coalesce(pace.n, 0) NOT BETWEEN 1 AND 10000 THEN
		PERFORM gpucredit_eval.refuse('n is 1 to 10,000', format('It is %s.', pace.n));
	END IF;
	e := gpucredit_eval.require_endpoint(pace.org, pace.endpoint);
	IF e.max_rps IS NULL THEN
		pace.wait := '0';
		pace.every := '0';
		pace.granted := pace.n;
		RETURN;
	END IF;
	SELECT r.account INTO gate_account FROM gpucredit_eval.run r
	WHERE r.org = e.org AND r.run = pace.run AND gpucredit_eval.is_gate(r.purpose);
	SELECT * INTO STRICT e FROM gpucredit_eval.endpoint o
	WHERE o.org = e.org AND o.endpoint = e.endpoint FOR NO KEY UPDATE;
	instant := gpucredit.now();
	ahead := greatest(interval '1 s', make_interval(secs => 2.0 / e.max_rps));
	gates := gate_account IS NOT NULL AND gpucredit_eval.claim_gate_place(e.org, e.endpoint,
		gate_account, pace.run, instant, instant - 2 * ahead);
	alone := CASE WHEN gates THEN e.other_asked_at ELSE e.gate_asked_at END < instant - 2 * ahead;
	rate := e.max_rps * CASE WHEN alone THEN 1 WHEN gates THEN e.gate_share ELSE 1 - e.gate_share END;
	first_turn := CASE WHEN alone THEN greatest(instant, e.gate_turn_at, e.other_turn_at)
		ELSE greatest(instant, e.whole_until, CASE WHEN gates THEN e.gate_turn_at ELSE e.other_turn_at END) END;
	pace.every := make_interval(secs => 1.0 / rate);
	pace.wait := first_turn - instant;
	pace.granted := least(pace.n, greatest(0, ceil(extract(epoch FROM ahead - pace.wait) * rate)));
	next_turn := first_turn + pace.every * pace.granted;
	UPDATE gpucredit_eval.endpoint o
	SET gate_turn_at = CASE WHEN gates AND pace.granted > 0 THEN next_turn ELSE o.gate_turn_at END,
		gate_asked_at = CASE WHEN gates THEN instant ELSE o.gate_asked_at END,
		other_turn_at = CASE WHEN NOT gates AND pace.granted > 0 THEN next_turn ELSE o.other_turn_at END,
		other_asked_at = CASE WHEN NOT gates THEN instant ELSE o.other_asked_at END,
		whole_until = CASE WHEN alone AND pace.granted > 0 THEN next_turn ELSE o.whole_until END
	WHERE o.org = e.org AND o.endpoint = e.endpoint;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.pace(text, text, integer, bigint) IS
'Endpoints: assigns turns to up to n requests, so that all workers together keep max_rps. Gates come first: while other runs ask the endpoint, too, gates have the part gate_share of max_rps; who asks alone has all of it. Of an account and those below it, one gate at a time comes first, for as long as it asks; its other gates count as other runs.
run: for which run the requests are; NULL: for none, which counts as no gate.
Result: how long to wait before the first request, and how long from each to the next; how many requests have a turn, as turns are assigned for a second ahead: for the others call again after half of that time. Errors: UC601 no such endpoint; 22023.';
