/*
 * 66_allocation.sql: requests for credit and for quota.
 *
 * An account requests credit or quota, with a reason. An approver of its
 * organisation, who must be another person, decides: credit is transferred
 * from the buckets of the account for which the approver is appointed, and a
 * quota is set on the requesting account. A member of gpucredit_admin may
 * decide all requests, and issue new credit for one.
 *
 * Members of gpucredit_admin appoint approvers. An approver of an account
 * decides for the accounts below it, never for that account itself.
 *
 * Lock order: request key, the account's row of table asker, the request, then
 * as gpucredit.transfer(), issue() or set_quota().
 */
CREATE TABLE gpucredit_billing.approver (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	role name NOT NULL,
	quota boolean NOT NULL,
	set_at timestamptz NOT NULL,
	set_by name NOT NULL,
	CONSTRAINT approver_pkey PRIMARY KEY (org, account, role)
);
COMMENT ON TABLE gpucredit_billing.approver IS
'Who decides requests of the accounts below one';
COMMENT ON COLUMN gpucredit_billing.approver.account IS 'Credit comes out of this account''s buckets, for those below it.';
COMMENT ON COLUMN gpucredit_billing.approver.quota IS 'Whether he decides requests for quota as well.';

CREATE TABLE gpucredit_billing.allocation_request (
	request bigint GENERATED ALWAYS AS IDENTITY,
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	kind text NOT NULL,
	credits numeric,
	quota jsonb,
	reason text NOT NULL,
	asked_at timestamptz NOT NULL,
	asked_by name NOT NULL,
	asked_login name NOT NULL,
	state text NOT NULL,
	attempts integer NOT NULL DEFAULT 0,
	decided_at timestamptz,
	decided_by name,
	note text,
	granted numeric,
	from_account text COLLATE "C",
	bucket bigint,
	CONSTRAINT allocation_request_pkey PRIMARY KEY (request),
	CONSTRAINT allocation_request_kind CHECK (CASE kind WHEN 'credit' THEN credits > 0 AND quota IS NULL
		WHEN 'quota' THEN quota IS NOT NULL AND credits IS NULL ELSE false END),
	CONSTRAINT allocation_request_state CHECK (state IN ('open', 'granted', 'denied', 'withdrawn')),
	CONSTRAINT allocation_request_decided CHECK ((state = 'open') = (decided_at IS NULL)
		AND (state = 'open') = (decided_by IS NULL)),
	CONSTRAINT allocation_request_other CHECK (state = 'withdrawn' OR decided_by <> asked_by),
	CONSTRAINT allocation_request_granted CHECK ((granted IS NOT NULL) = (state = 'granted' AND kind = 'credit'))
);
CREATE INDEX allocation_request_org ON gpucredit_billing.allocation_request (org, request);
CREATE INDEX allocation_request_open ON gpucredit_billing.allocation_request (org, account) WHERE state = 'open';
COMMENT ON TABLE gpucredit_billing.allocation_request IS
'Requests for credit and for quota, and who decided them';
COMMENT ON COLUMN gpucredit_billing.allocation_request.quota IS 'The limits that are asked for, as set_quota() names them, and gpu_type.';
COMMENT ON COLUMN gpucredit_billing.allocation_request.asked_login IS 'The login of the session that asked. It may have asked as another role, asked_by.';
COMMENT ON COLUMN gpucredit_billing.allocation_request.from_account IS 'The account whose buckets the credit came out of; NULL: it was issued.';

/*
 * How many requests an account has made on a day. Concurrent requests of one
 * account wait here, so that none of them exceeds the limits unseen.
 */
CREATE TABLE gpucredit_billing.asker (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	day date NOT NULL,
	asked integer NOT NULL,
	CONSTRAINT asker_pkey PRIMARY KEY (org, account)
);
COMMENT ON TABLE gpucredit_billing.asker IS
'How many requests each account has made on the last day (UTC) on which it made any';

CREATE FUNCTION gpucredit_billing.is_admin(role name) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce((SELECT r.rolsuper OR pg_has_role(r.oid, 'gpucredit_admin', 'USAGE')
		FROM pg_roles r WHERE r.rolname = is_admin.role), false);
END;
COMMENT ON FUNCTION gpucredit_billing.is_admin(name) IS
'Internal: whether a role is a superuser or a member of gpucredit_admin.';

/* Whether a role that is not a superuser may act as another one. */
CREATE FUNCTION gpucredit_billing.can_act_as(role name, other name) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT can_act_as.role = can_act_as.other OR EXISTS (
		SELECT FROM pg_roles r, pg_roles o
		WHERE r.rolname = can_act_as.role AND o.rolname = can_act_as.other
			AND NOT r.rolsuper AND pg_has_role(r.oid, o.oid, 'MEMBER'));
END;
COMMENT ON FUNCTION gpucredit_billing.can_act_as(name, name) IS
'Internal: whether a role is another one, or a member of it. Superusers are members of nothing here.';

/* Whether a login that is not a superuser inherits the rights of a role. */
CREATE FUNCTION gpucredit_billing.has_rights_of(login name, role name) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT EXISTS (
		SELECT FROM pg_roles r, pg_roles o
		WHERE r.rolname = has_rights_of.login AND o.rolname = has_rights_of.role
			AND NOT r.rolsuper AND pg_has_role(r.oid, o.oid, 'USAGE'));
END;
COMMENT ON FUNCTION gpucredit_billing.has_rights_of(name, name) IS
'Internal: whether a login is a role, or inherits its rights.';

/*
 * Whether a request may be the caller's own. A person whose login inherits two
 * roles could ask as one of them and decide as the other, so the logins of both
 * sessions count as well as the roles. A login that inherits nothing acts for
 * many people, for example that of gpucreditd, and so says nothing.
 */
CREATE FUNCTION gpucredit_billing.is_own_request(caller name, asked_by name, asked_login name)
RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT gpucredit_billing.can_act_as(is_own_request.asked_by, is_own_request.caller)
		OR gpucredit_billing.can_act_as(is_own_request.caller, is_own_request.asked_by)
		OR gpucredit_billing.has_rights_of(session_user, is_own_request.asked_by)
		OR gpucredit_billing.has_rights_of(is_own_request.asked_login, is_own_request.caller);
END;
COMMENT ON FUNCTION gpucredit_billing.is_own_request(name, name, name) IS
'Internal: whether the caller, or the login of its session, is or may act as the role that asked, or the other way round.';

/*
 * Returns the account for which a role approves a request: the lowest one
 * above the requesting account. The role's binding must still include that
 * account.
 */
CREATE FUNCTION gpucredit_billing.approves_for(role name, org text, account text, kind text, source text)
RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT a.account
	FROM gpucredit_billing.approver a
		JOIN pg_roles g ON g.rolname = a.role
		JOIN pg_roles r ON r.rolname = approves_for.role
	WHERE a.org = approves_for.org AND pg_has_role(r.oid, g.oid, 'USAGE')
		AND (a.account = '' AND approves_for.account <> '' OR starts_with(approves_for.account, a.account || '/'))
		AND (approves_for.kind = 'credit' OR a.quota)
		AND (approves_for.source IS NULL OR a.account = approves_for.source)
		AND gpucredit_internal.may_read(a.org, a.account)
	ORDER BY length(a.account) DESC LIMIT 1;
END;
COMMENT ON FUNCTION gpucredit_billing.approves_for(name, text, text, text, text) IS
'Internal: the account for which a role decides requests of an account, NULL if there is none. source: only this one; NULL: the lowest.';

CREATE FUNCTION gpucredit_billing.set_approver(org text, account text, role name,
	quota boolean DEFAULT false, remove boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_billing.check_account(set_approver.org, set_approver.account);
	IF set_approver.role IS NULL OR set_approver.quota IS NULL OR set_approver.remove IS NULL THEN
		PERFORM gpucredit_billing.refuse('role, quota and remove have values', 'One of them is null.');
	ELSIF set_approver.remove THEN
		DELETE FROM gpucredit_billing.approver a
		WHERE a.org = set_approver.org AND a.account = set_approver.account AND a.role = set_approver.role;
		IF NOT FOUND THEN
			RETURN;
		END IF;
	ELSIF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = set_approver.role) THEN
		PERFORM gpucredit_billing.raise('42704', format('role "%s" does not exist', left(set_approver.role, 64)),
			'Only an existing role can approve.', 'Create it first: CREATE ROLE.');
	ELSE
		INSERT INTO gpucredit_billing.approver
		VALUES (set_approver.org, set_approver.account, set_approver.role, set_approver.quota,
			gpucredit.now(), gpucredit_billing.caller())
		ON CONFLICT ON CONSTRAINT approver_pkey DO UPDATE SET quota = excluded.quota,
			set_at = excluded.set_at, set_by = excluded.set_by;
	END IF;
	PERFORM gpucredit_billing.record(set_approver.org, 'set_approver', gpucredit_billing.caller(),
		jsonb_build_object('account', set_approver.account, 'role', set_approver.role,
			'quota', set_approver.quota, 'remove', set_approver.remove));
END
$$;
COMMENT ON FUNCTION gpucredit_billing.set_approver(text, text, name, boolean, boolean) IS
'Allocation: lets a role decide requests of the accounts below one, with credit of that account. The role has to be bound to it (gpucredit.bind_tenant()). quota: it also decides requests for quota, and can so raise limits below the account that an administrator has set. remove: it does so no more. Errors: UC001 no such account; 42704 no such role; 22023.';

CREATE FUNCTION gpucredit_billing.approvers(org text)
RETURNS TABLE (account text, role name, quota boolean, set_at timestamptz, set_by name)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM gpucredit.account a WHERE a.org = approvers.org
		AND gpucredit_internal.may_read(a.org, a.account))
	THEN
		PERFORM gpucredit_billing.check_account(approvers.org, '');
	END IF;
	/*
	 * An account may see who decides its requests, including approvers of
	 * accounts above it.
	 */
	RETURN QUERY
		SELECT a.account, a.role, a.quota, a.set_at, a.set_by
		FROM gpucredit_billing.approver a
		WHERE a.org = approvers.org
			AND EXISTS (SELECT FROM gpucredit.account o WHERE o.org = a.org
				AND (a.account = '' OR o.account = a.account OR starts_with(o.account, a.account || '/'))
				AND gpucredit_internal.may_read(o.org, o.account))
		ORDER BY a.account, a.role;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.approvers(text) IS
'Allocation: who decides requests in an organisation, of the accounts that the caller may see. Errors: UC001.';

CREATE TYPE gpucredit_billing.allocation_result AS (
	request bigint,
	state text,
	reason text,
	credits numeric,
	replayed boolean
);
COMMENT ON TYPE gpucredit_billing.allocation_result IS
'What request_allocation() and decide_allocation() answer: the request, its state, why it could not be granted, and the credits that were';
REVOKE ALL ON TYPE gpucredit_billing.allocation_result FROM PUBLIC;

CREATE FUNCTION gpucredit_billing.request_allocation(org text, account text, key text, reason text,
	credits numeric DEFAULT NULL, gpu_type text DEFAULT NULL, max_gpus integer DEFAULT NULL,
	max_running integer DEFAULT NULL, max_queued integer DEFAULT NULL,
	max_cpu_milli bigint DEFAULT NULL, max_memory_mib bigint DEFAULT NULL)
RETURNS gpucredit_billing.allocation_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	old jsonb;
	limits jsonb := jsonb_strip_nulls(jsonb_build_object('max_gpus', request_allocation.max_gpus,
		'max_running', request_allocation.max_running, 'max_queued', request_allocation.max_queued,
		'max_cpu_milli', request_allocation.max_cpu_milli, 'max_memory_mib', request_allocation.max_memory_mib));
	caller name := gpucredit_billing.caller();
	today integer;
	made bigint;
BEGIN
	PERFORM gpucredit_billing.check_account(request_allocation.org, request_allocation.account);
	IF (request_allocation.credits IS NOT NULL) = (limits <> '{}') THEN
		PERFORM gpucredit_billing.refuse('a request is for credits or for a quota',
			'It names either credits, or at least one limit.', 'Make a request for each.');
	ELSIF request_allocation.credits = 'NaN' OR request_allocation.credits <= 0
		OR scale(trim_scale(request_allocation.credits)) > 6 OR request_allocation.credits > 9223372036854.775807
	THEN
		PERFORM gpucredit_billing.refuse('credits is an amount above 0 with at most six decimals',
			format('It is %s.', request_allocation.credits));
	ELSIF EXISTS (SELECT FROM jsonb_each_text(limits) l WHERE l.value::bigint < 0) THEN
		PERFORM gpucredit_billing.refuse('a limit is 0 or more', 'One of them is below 0.');
	ELSIF octet_length(request_allocation.gpu_type) NOT BETWEEN 1 AND 63 OR request_allocation.gpu_type ~ '[|@*[:space:][:cntrl:]]'
		OR (request_allocation.gpu_type IS NOT NULL AND limits = '{}')
	THEN
		PERFORM gpucredit_billing.refuse('gpu_type is the name of a type of GPU, for a request for quota',
			'A quota is of one type, or (NULL) of all.');
	ELSIF coalesce(octet_length(btrim(request_allocation.reason)), 0) NOT BETWEEN 1 AND 2000
		OR translate(request_allocation.reason, E'\n', '') ~ '[[:cntrl:]]'
	THEN
		PERFORM gpucredit_billing.refuse('a request needs a reason of 2,000 bytes at most',
			'Whoever decides it reads the reason. Its only control characters are ends of lines.');
	END IF;
	old := gpucredit_billing.request_begin(request_allocation.org, request_allocation.key, 'request_allocation',
		jsonb_build_object('account', request_allocation.account, 'reason', request_allocation.reason,
			'credits', trim_scale(request_allocation.credits), 'gpu_type', request_allocation.gpu_type, 'limits', limits));
	IF old IS NOT NULL THEN
		RETURN (SELECT ROW(r.request, r.state, NULL, r.granted, true)::gpucredit_billing.allocation_result FROM gpucredit_billing.allocation_request r
			WHERE r.request = (old ->> 'request')::bigint);
	END IF;
	INSERT INTO gpucredit_billing.asker AS a
	VALUES (request_allocation.org, request_allocation.account, (gpucredit.now() AT TIME ZONE 'UTC')::date, 1)
	ON CONFLICT ON CONSTRAINT asker_pkey DO UPDATE SET day = excluded.day,
		asked = CASE WHEN a.day = excluded.day THEN a.asked + 1 ELSE 1 END
	RETURNING a.asked INTO today;
	IF today > 100 THEN
		PERFORM gpucredit_billing.refuse('the account has made 100 requests today',
			'Requests that were decided or withdrawn are counted, too.', 'Ask again tomorrow (UTC).');
	ELSIF (SELECT count(*) FROM gpucredit_billing.allocation_request r
		WHERE r.org = request_allocation.org AND r.account = request_allocation.account AND r.state = 'open') >= 20
	THEN
		PERFORM gpucredit_billing.refuse('the account has 20 open requests', 'Nobody has decided them yet.',
			'Withdraw one, or wait for a decision.');
	END IF;
	INSERT INTO gpucredit_billing.allocation_request AS r (org, account, kind, credits, quota, reason, asked_at,
		asked_by, asked_login, state)
	VALUES (request_allocation.org, request_allocation.account,
		CASE WHEN request_allocation.credits IS NULL THEN 'quota' ELSE 'credit' END, trim_scale(request_allocation.credits),
		CASE WHEN request_allocation.credits IS NULL
			THEN limits || jsonb_strip_nulls(jsonb_build_object('gpu_type', request_allocation.gpu_type)) END,
		request_allocation.reason, gpucredit.now(), caller, session_user, 'open')
	RETURNING r.request INTO made;
	PERFORM gpucredit_billing.record(request_allocation.org, 'request_allocation', caller, jsonb_build_object(
			'request', made, 'account', request_allocation.account, 'credits', request_allocation.credits,
			'quota', nullif(limits, '{}'), 'gpu_type', request_allocation.gpu_type, 'reason', request_allocation.reason));
	PERFORM gpucredit_internal.write_event('allocation.requested', request_allocation.org, request_allocation.account,
		jsonb_strip_nulls(jsonb_build_object('request', made, 'credits', round(request_allocation.credits, 6)::text,
			'quota', nullif(limits, '{}'), 'gpu_type', request_allocation.gpu_type, 'asked_by', caller,
			'reason', left(request_allocation.reason, 500))));
	PERFORM gpucredit_billing.request_end(request_allocation.org, request_allocation.key, jsonb_build_object('request', made));
	RETURN ROW(made, 'open', NULL, NULL, false)::gpucredit_billing.allocation_result;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.request_allocation(text, text, text, text, numeric, text, integer, integer, integer, bigint, bigint) IS
'Allocation: asks for credits, or for a quota (of one gpu_type, or NULL of all; limits that are not named stay as they are), for an account. reason: what it is for. An approver of an account above it decides, or a member of gpucredit_admin. It writes the event allocation.requested. Key: names the call; repeating it changes nothing. An account has at most 20 open requests, and makes at most 100 a day (UTC).
Result: the request and its state. Errors: UC001 no such account; UC201 the key was used with other arguments; 22023.';

CREATE FUNCTION gpucredit_billing.lock_request(request bigint) RETURNS gpucredit_billing.allocation_request
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r gpucredit_billing.allocation_request;
BEGIN
	SELECT o.* INTO r FROM gpucredit_billing.allocation_request o
	WHERE o.request = lock_request.request AND gpucredit_internal.may_read(o.org, o.account)
	FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM gpucredit_billing.raise('UC701', 'the request does not exist',
			'No request has that number, or the session may not see it.',
			'gpucredit_billing.allocation_requests() lists them.');
	END IF;
	RETURN r;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.lock_request(bigint) IS
'Internal: locks a request that the session may see. Errors: UC701.';

/* Grants a quota. Limits that the request does not name stay unchanged. */
CREATE FUNCTION gpucredit_billing.grant_quota(r gpucredit_billing.allocation_request) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	type text := r.quota ->> 'gpu_type';
	q record;
BEGIN
	/* Every call that sets a quota locks this row first. */
	PERFORM FROM gpucredit.account a WHERE a.org = r.org AND a.account = r.account FOR NO KEY UPDATE;
	SELECT o.max_gpus, o.max_running, o.max_queued, o.max_cpu_milli, o.max_memory_mib, o.max_nonpreemptible_gpus INTO q
	FROM gpucredit.quota o WHERE o.org = r.org AND o.account = r.account AND o.gpu_type = coalesce(type, '');
	PERFORM gpucredit_internal.allocate_quota(r.org, r.account, type,
		coalesce((r.quota ->> 'max_gpus')::integer, q.max_gpus),
		coalesce((r.quota ->> 'max_running')::integer, q.max_running),
		coalesce((r.quota ->> 'max_queued')::integer, q.max_queued),
		coalesce((r.quota ->> 'max_cpu_milli')::bigint, q.max_cpu_milli),
		coalesce((r.quota ->> 'max_memory_mib')::bigint, q.max_memory_mib),
		q.max_nonpreemptible_gpus);
END
$$;
COMMENT ON FUNCTION gpucredit_billing.grant_quota(gpucredit_billing.allocation_request) IS
'Internal: sets the limits that a request names.';

CREATE FUNCTION gpucredit_billing.decide_allocation(request bigint, key text, decision text,
	note text DEFAULT '', credits numeric DEFAULT NULL, from_account text DEFAULT NULL)
RETURNS gpucredit_billing.allocation_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_billing'
AS $$
DECLARE
	r gpucredit_billing.allocation_request;
	org text;
	caller name := gpucredit_billing.caller();
	admin boolean := gpucredit_billing.is_admin(caller);
	source text;
	old jsonb;
	moved record;
	answer gpucredit_billing.allocation_result;
BEGIN
	SELECT o.org INTO org FROM gpucredit_billing.allocation_request o
	WHERE o.request = decide_allocation.request AND gpucredit_internal.may_read(o.org, o.account);
	IF decide_allocation.decision IS NULL OR decide_allocation.decision NOT IN ('grant', 'deny') THEN
		PERFORM gpucredit_billing.refuse('a decision is grant or deny',
			format('It is "%s".', left(decide_allocation.decision, 64)));
	ELSIF decide_allocation.note IS NULL OR octet_length(decide_allocation.note) > 2000
		OR translate(decide_allocation.note, E'\n', '') ~ '[[:cntrl:]]'
	THEN
		PERFORM gpucredit_billing.refuse('a note has 2,000 bytes at most', 'Its only control characters are ends of lines.');
	END IF;
	IF org IS NOT NULL THEN
		old := gpucredit_billing.request_begin(org, decide_allocation.key, 'decide_allocation',
			jsonb_build_object('request', decide_allocation.request, 'decision', decide_allocation.decision,
				'note', decide_allocation.note, 'credits', trim_scale(decide_allocation.credits),
				'from_account', decide_allocation.from_account));
	END IF;
	IF old IS NOT NULL THEN
		answer := jsonb_populate_record(NULL::gpucredit_billing.allocation_result, old);
		answer.replayed := true;
		RETURN answer;
	END IF;
	r := gpucredit_billing.lock_request(decide_allocation.request);
	source := gpucredit_billing.approves_for(caller, r.org, r.account, r.kind, decide_allocation.from_account);
	IF NOT admin AND source IS NULL THEN
		PERFORM gpucredit_billing.raise('42501', 'the request is not yours to decide',
			format('Role "%s" is no approver %s of an account above "%s".', caller,
				CASE r.kind WHEN 'quota' THEN 'for quota' ELSE 'for credit' END, r.account),
			'An administrator appoints approvers: gpucredit_billing.set_approver().');
	ELSIF gpucredit_billing.is_own_request(caller, r.asked_by, r.asked_login) THEN
		PERFORM gpucredit_billing.raise('42501', 'whoever asks does not decide',
			format('The request is that of role "%s", as which the caller or its login may act, or which may act as the caller.', r.asked_by),
			'Somebody else has to decide it.');
	ELSIF r.state <> 'open' THEN
		PERFORM gpucredit_billing.raise('55000', 'the request is decided',
			format('It was %s by "%s".', r.state, r.decided_by), 'Make another request.');
	ELSIF decide_allocation.credits IS NOT NULL AND (r.kind <> 'credit' OR decide_allocation.decision <> 'grant'
			OR NOT coalesce(decide_allocation.credits > 0 AND decide_allocation.credits <= r.credits, false))
	THEN
		PERFORM gpucredit_billing.refuse('credits is for a grant of credit, above 0 and not more than was asked for',
			format('Asked for were %s, and granted %s.', coalesce(r.credits::text, 'none'), decide_allocation.credits));
	END IF;
	IF admin THEN
		source := decide_allocation.from_account;
	END IF;
	answer := ROW(r.request, CASE decide_allocation.decision WHEN 'grant' THEN 'granted' ELSE 'denied' END, NULL, NULL, false)::gpucredit_billing.allocation_result;
	IF answer.state = 'granted' AND r.kind = 'quota' THEN
		PERFORM gpucredit_billing.grant_quota(r);
	ELSIF answer.state = 'granted' THEN
		answer.credits := round(coalesce(decide_allocation.credits, r.credits), 6);
		IF source IS NULL THEN
			r.bucket := (gpucredit.issue(r.org, r.account, format('allocation/%s', r.request), answer.credits, 'grant',
					memo => format('request %s', r.request))).bucket;
		ELSE
			/*
			 * A denied transfer is stored under its idempotency key, so each
			 * attempt has its own key.
			 */
			SELECT t.status, t.reason INTO moved FROM gpucredit_internal.allocate(r.org, source, r.account,
				format('allocation/%s/%s', r.request, r.attempts), answer.credits) t;
			IF moved.status <> 'granted' THEN
				answer := ROW(r.request, 'open', moved.reason, NULL, false)::gpucredit_billing.allocation_result;
			END IF;
		END IF;
	END IF;
	UPDATE gpucredit_billing.allocation_request o SET attempts = o.attempts + 1, state = answer.state,
		decided_at = CASE WHEN answer.state <> 'open' THEN gpucredit.now() END,
		decided_by = CASE WHEN answer.state <> 'open' THEN caller END,
		note = CASE WHEN answer.state <> 'open' THEN decide_allocation.note END, granted = answer.credits,
		from_account = CASE WHEN answer.credits IS NOT NULL THEN source END, bucket = r.bucket
	WHERE o.request = r.request;
	PERFORM gpucredit_billing.record(r.org, 'decide_allocation', caller, jsonb_build_object(
			'request', r.request, 'account', r.account, 'decision', decide_allocation.decision, 'state', answer.state,
			'reason', answer.reason, 'credits', answer.credits, 'from_account', source, 'quota', r.quota,
			'note', nullif(decide_allocation.note, '')));
	IF answer.state <> 'open' THEN
		PERFORM gpucredit_internal.write_event('allocation.' || answer.state, r.org, r.account,
			jsonb_strip_nulls(jsonb_build_object('request', r.request, 'credits', answer.credits::text,
				'quota', r.quota, 'decided_by', caller, 'note', nullif(left(decide_allocation.note, 500), ''))));
	END IF;
	PERFORM gpucredit_billing.request_end(r.org, decide_allocation.key, to_jsonb(answer));
	RETURN answer;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.decide_allocation(bigint, text, text, text, numeric, text) IS
'Allocation: grants or denies a request. Approvers of accounts above the one that asks may, with credit out of the buckets of the lowest of these or of from_account; and members of gpucredit_admin, who issue new credit of kind grant unless they name from_account. Nobody decides what he asked for, as whichever of his roles. decision: grant or deny. note: is shown to who asked. credits: less than was asked for. It writes the event allocation.granted or allocation.denied. Key: names the call.
Result: the request''s state; open, with a reason, where the account has too little credit or is suspended. Errors: UC701 no such request; 42501 not yours to decide; 55000 it is decided; UC201 the key was used with other arguments; 22023.';

CREATE FUNCTION gpucredit_billing.withdraw_allocation(request bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r gpucredit_billing.allocation_request := gpucredit_billing.lock_request(withdraw_allocation.request);
	caller name := gpucredit_billing.caller();
BEGIN
	IF r.state = 'withdrawn' THEN
		RETURN false;
	ELSIF r.state <> 'open' THEN
		PERFORM gpucredit_billing.raise('55000', 'the request is decided',
			format('It was %s by "%s".', r.state, r.decided_by), 'What was granted stays.');
	END IF;
	UPDATE gpucredit_billing.allocation_request o SET state = 'withdrawn', decided_at = gpucredit.now(), decided_by = caller
	WHERE o.request = r.request;
	PERFORM gpucredit_billing.record(r.org, 'withdraw_allocation', caller,
		jsonb_build_object('request', r.request, 'account', r.account));
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.withdraw_allocation(bigint) IS
'Allocation: takes an open request back; whoever sees the account may. Result: false if it was taken back before. Errors: UC701 no such request; 55000 it is decided.';

CREATE TYPE gpucredit_billing.allocation_requests_result AS (
	request bigint,
	account text,
	kind text,
	credits numeric,
	quota jsonb,
	reason text,
	asked_at timestamptz,
	asked_by name,
	state text,
	decided_at timestamptz,
	decided_by name,
	note text,
	granted numeric,
	from_account text,
	may_decide boolean
);
COMMENT ON TYPE gpucredit_billing.allocation_requests_result IS
'A request, as allocation_requests() lists it';
REVOKE ALL ON TYPE gpucredit_billing.allocation_requests_result FROM PUBLIC;

CREATE FUNCTION gpucredit_billing.allocation_requests(org text, account text DEFAULT '', state text DEFAULT NULL,
	after bigint DEFAULT NULL, "limit" integer DEFAULT 100)
RETURNS SETOF gpucredit_billing.allocation_requests_result
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	caller name := gpucredit_billing.caller();
	admin boolean := gpucredit_billing.is_admin(caller);
BEGIN
	PERFORM gpucredit_billing.check_account(allocation_requests.org, allocation_requests.account);
	RETURN QUERY
		SELECT r.request, r.account, r.kind, r.credits, r.quota, r.reason, r.asked_at, r.asked_by, r.state,
			r.decided_at, r.decided_by, r.note, r.granted,
			/* A reader may not see a path above its own account. */
			CASE WHEN gpucredit_internal.may_read(r.org, r.from_account) THEN r.from_account END,
			r.state = 'open' AND NOT gpucredit_billing.is_own_request(caller, r.asked_by, r.asked_login)
				AND (admin OR gpucredit_billing.approves_for(caller, r.org, r.account, r.kind, NULL) IS NOT NULL)
		FROM gpucredit_billing.allocation_request r
		WHERE r.org = allocation_requests.org AND gpucredit_internal.may_read(r.org, r.account)
			AND (allocation_requests.account = '' OR r.account = allocation_requests.account
				OR starts_with(r.account, allocation_requests.account || '/'))
			AND (allocation_requests.state IS NULL OR r.state = allocation_requests.state)
			AND (allocation_requests.after IS NULL OR r.request < allocation_requests.after)
		ORDER BY r.request DESC
		LIMIT least(greatest(coalesce(allocation_requests."limit", 100), 1), 10000);
END
$$;
COMMENT ON FUNCTION gpucredit_billing.allocation_requests(text, text, text, bigint, integer) IS
'Allocation: requests of an account and all below it, newest first. state: open, granted, denied or withdrawn; NULL for all. after: the last request of the page before. may_decide: whether the caller may decide it now. Errors: UC001.';
