/*
 * 60_plan.sql: plans, which give an account an amount of credit each month.
 *
 * The credit of a month is a separate bucket, which is issued before the month
 * begins and is active from its first instant (UTC). grant_plans() issues the
 * credit of the present month and of the next two, so no balance depends on a
 * task running in time: the task may fail for two months.
 *
 * Nothing is granted twice, even if a call runs twice or crashes: the row of
 * plan_grant and the bucket are written in one transaction, while the plan's
 * row is locked, and a plan has one row for each month.
 *
 * Lock order: request key, the plan, then as gpucredit.issue() or revoke().
 */
CREATE TABLE gpucredit_billing.plan (
	org text COLLATE "C" NOT NULL,
	plan bigint GENERATED ALWAYS AS IDENTITY,
	account text COLLATE "C" NOT NULL,
	label text NOT NULL,
	credits numeric NOT NULL,
	kind text NOT NULL,
	first_month date NOT NULL,
	last_month date,
	months_valid integer,
	priority integer NOT NULL,
	policy jsonb NOT NULL,
	turn bigint NOT NULL DEFAULT 0,
	created_at timestamptz NOT NULL,
	created_by name NOT NULL,
	CONSTRAINT plan_pkey PRIMARY KEY (plan),
	CONSTRAINT plan_credits CHECK (credits > 0 AND scale(credits) <= 6),
	CONSTRAINT plan_valid CHECK (months_valid BETWEEN 1 AND 120),
	CONSTRAINT plan_first CHECK (extract(day FROM first_month) = 1),
	CONSTRAINT plan_last CHECK (extract(day FROM last_month) = 1)
);
CREATE INDEX plan_org ON gpucredit_billing.plan (org, plan);
COMMENT ON TABLE gpucredit_billing.plan IS
'Plans: so much credit for an account each month';
COMMENT ON COLUMN gpucredit_billing.plan.first_month IS 'The first day of the first month (UTC) that it grants credit for.';
COMMENT ON COLUMN gpucredit_billing.plan.last_month IS 'The first day of the last one; NULL: it goes on.';
COMMENT ON COLUMN gpucredit_billing.plan.months_valid IS 'After how many months from its first instant a month''s credit expires; NULL: never.';
COMMENT ON COLUMN gpucredit_billing.plan.turn IS 'How often it was worked on. Of two at once above READ COMMITTED one gets 40001.';

CREATE TABLE gpucredit_billing.plan_grant (
	plan bigint NOT NULL,
	month date NOT NULL,
	bucket bigint,
	granted_at timestamptz NOT NULL,
	revoked_at timestamptz,
	CONSTRAINT plan_grant_pkey PRIMARY KEY (plan, month),
	CONSTRAINT plan_grant_plan FOREIGN KEY (plan) REFERENCES gpucredit_billing.plan
);
COMMENT ON TABLE gpucredit_billing.plan_grant IS
'What plans have granted: a row a month';
COMMENT ON COLUMN gpucredit_billing.plan_grant.bucket IS 'The bucket that the credit is in; NULL: nobody asked until it would have expired.';
COMMENT ON COLUMN gpucredit_billing.plan_grant.revoked_at IS 'When it was taken back, before its month began, because the plan had ended.';

CREATE FUNCTION gpucredit_billing.month_begin(month date) RETURNS timestamptz
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT month_begin.month::timestamp AT TIME ZONE 'UTC';
END;
COMMENT ON FUNCTION gpucredit_billing.month_begin(date) IS
'Internal: the first instant (UTC) of a day.';

CREATE FUNCTION gpucredit_billing.this_month() RETURNS date
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT date_trunc('month', gpucredit.now() AT TIME ZONE 'UTC')::date;
END;
COMMENT ON FUNCTION gpucredit_billing.this_month() IS
'Internal: the first day of the present month (UTC).';

/*
 * Grants the months of one plan that are due. The caller has locked the plan's
 * row.
 */
CREATE FUNCTION gpucredit_billing.grant_plan(p gpucredit_billing.plan) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	month date;
	begins timestamptz;
	ends timestamptz;
	bucket bigint;
	n bigint := 0;
BEGIN
	FOR month IN
		SELECT m::date FROM generate_series(p.first_month::timestamp,
			least(p.last_month, (gpucredit_billing.this_month() + interval '2 months')::date)::timestamp,
			interval '1 month') AS s (m)
		WHERE NOT EXISTS (SELECT FROM gpucredit_billing.plan_grant g
			WHERE g.plan = p.plan AND g.month = m::date)
		ORDER BY m
	LOOP
		begins := gpucredit_billing.month_begin(month);
		ends := gpucredit_billing.month_begin((month + make_interval(months => p.months_valid))::date);
		bucket := NULL;
		IF ends IS NULL OR ends > gpucredit.now() THEN
			bucket := (gpucredit.issue(p.org, p.account,
					format('plan/%s/%s', p.plan, to_char(month, 'YYYY-MM')), p.credits, p.kind, ends,
					CASE WHEN begins > gpucredit.now() THEN begins END, p.priority, p.policy,
					format('plan %s, %s', p.plan, to_char(month, 'YYYY-MM')))).bucket;
		END IF;
		INSERT INTO gpucredit_billing.plan_grant
		VALUES (p.plan, month, bucket, gpucredit.now());
		n := n + 1;
	END LOOP;
	IF n > 0 THEN
		UPDATE gpucredit_billing.plan o SET turn = o.turn + 1 WHERE o.plan = p.plan;
	END IF;
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.grant_plan(gpucredit_billing.plan) IS
'Internal: grants the months of a plan that are due, whose row the caller has locked; returns how many.';

CREATE FUNCTION gpucredit_billing.grant_plans(org text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_billing'
AS $$
DECLARE
	one bigint;
	p gpucredit_billing.plan;
	n bigint := 0;
	problem text;
BEGIN
	FOR one IN
		SELECT o.plan FROM gpucredit_billing.plan o
		WHERE (grant_plans.org IS NULL OR o.org = grant_plans.org)
			AND (SELECT count(*) FROM gpucredit_billing.plan_grant g WHERE g.plan = o.plan)
				< (SELECT count(*) FROM generate_series(o.first_month::timestamp,
					least(o.last_month, (gpucredit_billing.this_month() + interval '2 months')::date)::timestamp,
					interval '1 month') m)
		ORDER BY o.plan
	LOOP
		BEGIN
			SELECT o.* INTO p FROM gpucredit_billing.plan o WHERE o.plan = one
			FOR NO KEY UPDATE SKIP LOCKED;
			IF FOUND THEN
				n := n + gpucredit_billing.grant_plan(p);
			END IF;
		EXCEPTION
			WHEN serialization_failure OR deadlock_detected OR query_canceled THEN
				RAISE;
			/*
			 * A plan that fails does not prevent others from being granted;
			 * verify() reports it.
			 */
			WHEN OTHERS THEN
				GET STACKED DIAGNOSTICS problem = MESSAGE_TEXT;
				RAISE WARNING 'plan % is not granted: %', one, problem;
		END;
	END LOOP;
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.grant_plans(text) IS
'Plans: grants the present and the next two months of all plans that lack them, those of one organisation or (NULL) of all. A month''s credit is active from its first instant, so it suffices that this is called once in two months; upkeep() calls it, and issue_invoice() for its organisation. It skips plans that another transaction works on. Result: how many months were granted.';

CREATE TYPE gpucredit_billing.plan_result AS (
	plan bigint,
	replayed boolean
);
COMMENT ON TYPE gpucredit_billing.plan_result IS
'What set_plan() answers: the plan''s number';
REVOKE ALL ON TYPE gpucredit_billing.plan_result FROM PUBLIC;

CREATE FUNCTION gpucredit_billing.set_plan(org text, account text, key text, credits numeric,
	first_month date DEFAULT NULL, months_valid integer DEFAULT 1, kind text DEFAULT 'grant',
	label text DEFAULT '', policy jsonb DEFAULT '{}', priority integer DEFAULT 100,
	last_month date DEFAULT NULL) RETURNS gpucredit_billing.plan_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_billing'
AS $$
DECLARE
	old jsonb;
	now_month date := gpucredit_billing.this_month();
	first date := date_trunc('month', coalesce(set_plan.first_month, now_month)::timestamp)::date;
	last date := date_trunc('month', set_plan.last_month::timestamp)::date;
	p gpucredit_billing.plan;
BEGIN
	PERFORM gpucredit_billing.check_account(set_plan.org, set_plan.account);
	old := gpucredit_billing.request_begin(set_plan.org, set_plan.key, 'set_plan',
		jsonb_build_object('account', set_plan.account, 'credits', trim_scale(set_plan.credits),
			'first_month', date_trunc('month', set_plan.first_month::timestamp)::date, 'last_month', last,
			'months_valid', set_plan.months_valid, 'kind', set_plan.kind, 'label', set_plan.label,
			'policy', set_plan.policy, 'priority', set_plan.priority));
	IF old IS NOT NULL THEN
		RETURN ROW((old ->> 'plan')::bigint, true);
	END IF;
	IF NOT isfinite(first) OR first NOT BETWEEN now_month AND (now_month + interval '2 months')::date THEN
		PERFORM gpucredit_billing.refuse('a plan begins in this month or in one of the next two',
			format('It was asked for %s.', to_char(first, 'YYYY-MM')));
	ELSIF NOT isfinite(last) OR last < first THEN
		PERFORM gpucredit_billing.refuse('a plan''s last month is not before its first',
			format('They are %s and %s.', to_char(last, 'YYYY-MM'), to_char(first, 'YYYY-MM')));
	ELSIF set_plan.credits IS NULL OR set_plan.credits = 'NaN' OR set_plan.credits <= 0
		OR scale(trim_scale(set_plan.credits)) > 6
	THEN
		PERFORM gpucredit_billing.refuse('a plan grants an amount above 0 with at most six decimals',
			format('It was asked for %s.', coalesce(set_plan.credits::text, 'none')));
	ELSIF set_plan.months_valid NOT BETWEEN 1 AND 120 THEN
		PERFORM gpucredit_billing.refuse('a month''s credit is good for 1 to 120 months, or (NULL) for ever',
			format('It was asked for %s.', set_plan.months_valid));
	ELSIF set_plan.label IS NULL OR octet_length(set_plan.label) > 200 OR set_plan.label ~ '[[:cntrl:]]' THEN
		PERFORM gpucredit_billing.refuse('a plan''s label has at most 200 bytes and no control characters',
			'It is shown in lists.');
	ELSIF set_plan.priority IS NULL OR set_plan.policy IS NULL OR set_plan.kind IS NULL THEN
		PERFORM gpucredit_billing.refuse('kind, policy and priority have values',
			'They are those of gpucredit.issue().', 'Leave out what you do not need.');
	ELSIF (SELECT count(*) FROM gpucredit_billing.plan o WHERE o.org = set_plan.org
		AND (o.last_month IS NULL OR o.last_month >= now_month)) >= 1000
	THEN
		PERFORM gpucredit_billing.refuse('the organisation has 1,000 plans', 'Those that have ended are not counted.',
			'End those that nobody needs: gpucredit_billing.end_plan().');
	END IF;
	INSERT INTO gpucredit_billing.plan AS o (org, account, label, credits, kind, first_month, last_month,
		months_valid, priority, policy, created_at, created_by)
	VALUES (set_plan.org, set_plan.account, set_plan.label, trim_scale(set_plan.credits), set_plan.kind, first, last,
		set_plan.months_valid, set_plan.priority, set_plan.policy, gpucredit.now(),
		gpucredit_billing.caller())
	RETURNING o.* INTO p;
	/*
	 * Grant now, so that issue() refuses here what it would refuse in a later
	 * month.
	 */
	PERFORM gpucredit_billing.grant_plan(p);
	PERFORM gpucredit_billing.record(set_plan.org, 'set_plan', gpucredit_billing.caller(),
		to_jsonb(p) - '{org,turn,created_at,created_by}'::text[]);
	PERFORM gpucredit_billing.request_end(set_plan.org, set_plan.key, jsonb_build_object('plan', p.plan));
	RETURN ROW(p.plan, false);
END
$$;
COMMENT ON FUNCTION gpucredit_billing.set_plan(text, text, text, numeric, date, integer, text, text, jsonb, integer, date) IS
'Plans: grants an account so many credits each month (UTC), from first_month (any day of it; this month or one of the next two; NULL: this month) to last_month (NULL: until end_plan()). Each month''s credit is a bucket of its own, which begins with its month and expires months_valid months later (NULL: never). The buckets of this and of the next two months are issued at once. kind: grant, promo or paid; policy and priority: as gpucredit.issue() has them. A changed plan is another plan: end the old one with the month before. Key: names the call; repeating it changes nothing.
Result: the plan''s number. Errors: UC001 no such account; UC201 the key was used with other arguments; 22003, 22023.';

CREATE FUNCTION gpucredit_billing.end_plan(plan bigint, last_month date DEFAULT NULL) RETURNS numeric
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_billing'
AS $$
DECLARE
	p gpucredit_billing.plan;
	last date := date_trunc('month', coalesce(end_plan.last_month, gpucredit_billing.this_month())::timestamp)::date;
	g record;
	revoked numeric := 0;
BEGIN
	SELECT o.* INTO p FROM gpucredit_billing.plan o
	WHERE o.plan = end_plan.plan AND gpucredit_internal.may_read(o.org, o.account)
	FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM gpucredit_billing.raise('UC701', 'the plan does not exist',
			'No plan has that number.', 'gpucredit_billing.plans() lists them.');
	ELSIF NOT isfinite(last) OR last < (gpucredit_billing.this_month() - interval '1 month')::date THEN
		PERFORM gpucredit_billing.refuse('a plan ends with the last month or a later one',
			format('It was asked to end with %s; credit of a month that has begun stays.', to_char(last, 'YYYY-MM')));
	ELSIF p.last_month < last THEN
		PERFORM gpucredit_billing.raise('55000', 'the plan has ended',
			format('Its last month is %s.', to_char(p.last_month, 'YYYY-MM')), 'Set another plan: gpucredit_billing.set_plan().');
	END IF;
	/*
	 * Credit of a month that has not begun is revoked, as nobody could spend
	 * it yet.
	 */
	FOR g IN
		SELECT o.month, o.bucket FROM gpucredit_billing.plan_grant o
		WHERE o.plan = p.plan AND o.month > last AND o.bucket IS NOT NULL AND o.revoked_at IS NULL
			AND gpucredit_billing.month_begin(o.month) > gpucredit.now()
		ORDER BY o.month
		FOR UPDATE
	LOOP
		revoked := revoked + (gpucredit.revoke(p.org, g.bucket,
				format('plan/%s/%s/end', p.plan, to_char(g.month, 'YYYY-MM')),
				format('plan %s has ended', p.plan))).revoked;
		UPDATE gpucredit_billing.plan_grant o SET revoked_at = gpucredit.now()
		WHERE o.plan = p.plan AND o.month = g.month;
	END LOOP;
	IF p.last_month IS DISTINCT FROM last THEN
		UPDATE gpucredit_billing.plan o SET last_month = last, turn = o.turn + 1 WHERE o.plan = p.plan;
		PERFORM gpucredit_billing.record(p.org, 'end_plan', gpucredit_billing.caller(),
			jsonb_build_object('plan', p.plan, 'last_month', last, 'revoked', revoked));
	END IF;
	RETURN revoked;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.end_plan(bigint, date) IS
'Plans: ends a plan with a month (any day of it; NULL: the present one). Credit of later months that have not begun is revoked; that of months that have begun stays. Repeating it changes nothing; an earlier end replaces a later one. Result: how many credits were revoked. Errors: UC701 no such plan; 55000 it ended earlier; 22023.';

CREATE TYPE gpucredit_billing.plans_result AS (
	plan bigint,
	account text,
	label text,
	credits numeric,
	kind text,
	first_month date,
	last_month date,
	months_valid integer,
	priority integer,
	policy jsonb,
	granted_until date,
	next_at timestamptz,
	created_at timestamptz,
	created_by name
);
COMMENT ON TYPE gpucredit_billing.plans_result IS
'A plan, as plans() lists it';
REVOKE ALL ON TYPE gpucredit_billing.plans_result FROM PUBLIC;

CREATE FUNCTION gpucredit_billing.plans(org text, account text DEFAULT '')
RETURNS SETOF gpucredit_billing.plans_result
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_billing.check_account(plans.org, plans.account);
	RETURN QUERY
		SELECT p.plan, p.account, p.label, p.credits, p.kind, p.first_month, p.last_month, p.months_valid,
			p.priority, p.policy, g.month,
			CASE WHEN p.last_month IS NULL OR p.last_month > gpucredit_billing.this_month()
				THEN gpucredit_billing.month_begin(greatest(p.first_month,
					(gpucredit_billing.this_month() + interval '1 month')::date)) END,
			p.created_at, p.created_by
		FROM gpucredit_billing.plan p
			LEFT JOIN LATERAL (SELECT max(o.month) AS month FROM gpucredit_billing.plan_grant o
				WHERE o.plan = p.plan AND o.revoked_at IS NULL) g ON true
		WHERE p.org = plans.org AND gpucredit_internal.may_read(p.org, p.account)
			AND (plans.account = '' OR p.account = plans.account OR starts_with(p.account, plans.account || '/'))
		ORDER BY p.plan;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.plans(text, text) IS
'Plans: those of an account and all below it, also those that have ended. granted_until: the last month whose credit is issued. next_at: when the next month''s credit becomes active. Errors: UC001.';
