/*
 * 60_webhook.sql: webhooks, which are addresses to which the daemon sends
 * events.
 *
 * A webhook belongs to an account of an organisation and gets the events of
 * that account and of all below it. It has the rights of the role that set it
 * last: when that role may no longer read these events, the webhook is
 * disabled.
 *
 * The feed itself is the queue. A webhook has a position in it ("after"), and
 * only the next events have a row in gpucredit_http.delivery
 * (66_delivery.sql). The daemons share the work by locking a webhook's row
 * while they decide what is sent next, and by leasing the deliveries that they
 * send.
 *
 * A caller's transaction may stay open while the row of its webhook is locked.
 * Therefore no function of the daemon waits for such a lock: it skips that
 * webhook. What the daemon writes for many webhooks at once is in tables that
 * callers do not write (webhook_feed, webhook_notice).
 *
 * Locks: webhook_feed, then webhooks in the order of their keys, then
 * deliveries of that webhook. Calls that create webhooks of one account wait
 * for each other, because they insert the same ordinal. Only the daemon writes
 * webhook_feed, so a caller's transaction does not make another organisation
 * wait.
 */
CREATE TABLE gpucredit_http.webhook (
	org text COLLATE "C" NOT NULL,
	webhook bigint GENERATED ALWAYS AS IDENTITY,
	account text COLLATE "C" NOT NULL,
	ordinal integer NOT NULL,
	role name NOT NULL,
	url text NOT NULL,
	kinds text[],
	template jsonb,
	label text NOT NULL,
	created_at timestamptz NOT NULL,
	after bigint NOT NULL,
	due_at timestamptz NOT NULL,
	paused_until timestamptz NOT NULL DEFAULT '-infinity',
	waiting integer NOT NULL DEFAULT 0,
	failures integer NOT NULL DEFAULT 0,
	failing_since timestamptz,
	failed_at timestamptz,
	delivered_at timestamptz,
	disabled_at timestamptz,
	disabled_why text,
	removed_at timestamptz,
	CONSTRAINT webhook_pkey PRIMARY KEY (org, webhook),
	CONSTRAINT webhook_ordinal UNIQUE (org, account, ordinal),
	CONSTRAINT webhook_disabled CHECK ((disabled_at IS NULL) = (disabled_why IS NULL)
		AND (disabled_at IS NULL OR (due_at = 'infinity' AND waiting = 0))
		AND (removed_at IS NULL OR disabled_at IS NOT NULL)),
	CONSTRAINT webhook_why CHECK (disabled_why IN ('by_hand', 'failures', 'gone', 'rights')),
	CONSTRAINT webhook_waiting CHECK (waiting >= 0 AND failures >= 0)
);
/*
 * The daemon finds webhooks that are due by this index, the most overdue
 * first.
 */
CREATE INDEX webhook_due ON gpucredit_http.webhook (due_at) WHERE disabled_at IS NULL;
COMMENT ON TABLE gpucredit_http.webhook IS
'Webhooks: addresses to which events of an account and all below it are sent';
COMMENT ON COLUMN gpucredit_http.webhook.org IS 'The organisation; '''': events of no tenant, such as those of nodes.';
COMMENT ON COLUMN gpucredit_http.webhook.webhook IS 'Its number.';
COMMENT ON COLUMN gpucredit_http.webhook.account IS 'The account whose events are sent, with those of all accounts below it; '''': the organisation.';
COMMENT ON COLUMN gpucredit_http.webhook.ordinal IS 'One more than the highest one that the account''s webhooks had when it was made, so that of two calls at once the later one counts the earlier one''s webhook.';
COMMENT ON COLUMN gpucredit_http.webhook.role IS 'The role that set it last. It has that role''s rights.';
COMMENT ON COLUMN gpucredit_http.webhook.url IS 'The address. It may hold a secret, as those of Slack do.';
COMMENT ON COLUMN gpucredit_http.webhook.kinds IS 'Which kinds of events are sent; NULL: all.';
COMMENT ON COLUMN gpucredit_http.webhook.template IS 'What a message is made from; NULL: the form of standardwebhooks. It may hold a secret.';
COMMENT ON COLUMN gpucredit_http.webhook.label IS 'What its owner calls it.';
COMMENT ON COLUMN gpucredit_http.webhook.created_at IS 'When it was made.';
COMMENT ON COLUMN gpucredit_http.webhook.after IS 'Its position in the feed: up to this event, those that it wants have a row in table delivery.';
COMMENT ON COLUMN gpucredit_http.webhook.due_at IS 'When a daemon should next work for it; infinity: not until there are events.';
COMMENT ON COLUMN gpucredit_http.webhook.paused_until IS 'Before that nothing is sent: it failed several times in a row, or asked for a pause.';
COMMENT ON COLUMN gpucredit_http.webhook.waiting IS 'How many of its deliveries wait.';
COMMENT ON COLUMN gpucredit_http.webhook.failures IS 'How many attempts have failed since the last one that succeeded.';
COMMENT ON COLUMN gpucredit_http.webhook.failing_since IS 'When the first of these failed. Two days without any attempt begin a new count; NULL: the last attempt succeeded, or there was none.';
COMMENT ON COLUMN gpucredit_http.webhook.failed_at IS 'When an attempt last failed; NULL: none did.';
COMMENT ON COLUMN gpucredit_http.webhook.delivered_at IS 'When an attempt last succeeded; NULL: none did.';
COMMENT ON COLUMN gpucredit_http.webhook.disabled_at IS 'Since when nothing is sent; NULL: it is enabled.';
COMMENT ON COLUMN gpucredit_http.webhook.disabled_why IS 'by_hand; failures: a week of them; gone: the receiver answered 410; rights: its role may no longer read the events, or was made by rules of identity providers that are gone.';
COMMENT ON COLUMN gpucredit_http.webhook.removed_at IS 'When it was removed; NULL: it was not.';

/*
 * No role has a right to this table: only functions with its owner's rights
 * read it.
 */
CREATE TABLE gpucredit_http.webhook_secret (
	org text COLLATE "C" NOT NULL,
	webhook bigint NOT NULL,
	generation integer NOT NULL,
	secret bytea NOT NULL,
	ends_at timestamptz NOT NULL,
	CONSTRAINT webhook_secret_pkey PRIMARY KEY (org, webhook, generation),
	CONSTRAINT webhook_secret_size CHECK (octet_length(secret) = 32)
);
COMMENT ON TABLE gpucredit_http.webhook_secret IS
'Keys that sign what webhooks are sent. They are in a dump, as each receiver has its copy';
COMMENT ON COLUMN gpucredit_http.webhook_secret.org IS 'The webhook''s organisation.';
COMMENT ON COLUMN gpucredit_http.webhook_secret.webhook IS 'The webhook.';
COMMENT ON COLUMN gpucredit_http.webhook_secret.generation IS '1 for its first key, and one more for each that was made later.';
COMMENT ON COLUMN gpucredit_http.webhook_secret.secret IS 'The key of HMAC-SHA256.';
COMMENT ON COLUMN gpucredit_http.webhook_secret.ends_at IS 'Until when it signs; infinity: until it is renewed.';

/*
 * notice_events() creates the row, so that a restored row never conflicts with
 * one.
 */
CREATE TABLE gpucredit_http.webhook_feed (
	feed boolean NOT NULL DEFAULT true,
	event bigint NOT NULL,
	CONSTRAINT webhook_feed_pkey PRIMARY KEY (feed),
	CONSTRAINT webhook_feed_one CHECK (feed)
);
COMMENT ON TABLE gpucredit_http.webhook_feed IS
'One row: up to which event of the feed the webhooks that want it were noted';
COMMENT ON COLUMN gpucredit_http.webhook_feed.feed IS 'True.';
COMMENT ON COLUMN gpucredit_http.webhook_feed.event IS 'The number of the event.';

CREATE TABLE gpucredit_http.webhook_notice (
	org text COLLATE "C" NOT NULL,
	webhook bigint NOT NULL,
	CONSTRAINT webhook_notice_pkey PRIMARY KEY (org, webhook)
);
COMMENT ON TABLE gpucredit_http.webhook_notice IS
'Webhooks for which the feed has new events';
COMMENT ON COLUMN gpucredit_http.webhook_notice.org IS 'The webhook''s organisation.';
COMMENT ON COLUMN gpucredit_http.webhook_notice.webhook IS 'The webhook.';

CREATE TABLE gpucredit_http.delivery (
	org text COLLATE "C" NOT NULL,
	webhook bigint NOT NULL,
	event bigint NOT NULL,
	kind text NOT NULL,
	job bigint,
	state text NOT NULL DEFAULT 'waiting',
	due_at timestamptz NOT NULL,
	attempts integer NOT NULL DEFAULT 0,
	underway boolean NOT NULL DEFAULT false,
	first_at timestamptz,
	last_at timestamptz,
	status integer,
	problem text,
	ended_at timestamptz,
	CONSTRAINT delivery_pkey PRIMARY KEY (org, webhook, event),
	CONSTRAINT delivery_state CHECK (state IN ('waiting', 'delivered', 'failed')
		AND (state = 'waiting') = (ended_at IS NULL)
		AND (state = 'waiting' OR (due_at = 'infinity' AND NOT underway))
		AND (NOT underway OR due_at < 'infinity'))
) WITH (fillfactor = 70);
CREATE INDEX delivery_due ON gpucredit_http.delivery (org, webhook, due_at, event)
	WHERE state = 'waiting';
CREATE INDEX delivery_job ON gpucredit_http.delivery (org, webhook, job, event)
	WHERE state = 'waiting' AND job IS NOT NULL;
CREATE INDEX delivery_underway ON gpucredit_http.delivery (org, webhook) WHERE underway;
CREATE INDEX delivery_failed ON gpucredit_http.delivery (org, webhook, event)
	WHERE state = 'failed';
CREATE INDEX delivery_ended ON gpucredit_http.delivery (ended_at) WHERE state <> 'waiting';
COMMENT ON TABLE gpucredit_http.delivery IS
'Events that webhooks are sent next, or were sent within a week';
COMMENT ON COLUMN gpucredit_http.delivery.org IS 'The webhook''s organisation.';
COMMENT ON COLUMN gpucredit_http.delivery.webhook IS 'The webhook.';
COMMENT ON COLUMN gpucredit_http.delivery.event IS 'The event''s number.';
COMMENT ON COLUMN gpucredit_http.delivery.kind IS 'The event''s kind.';
COMMENT ON COLUMN gpucredit_http.delivery.job IS 'The event''s job; NULL: none.';
COMMENT ON COLUMN gpucredit_http.delivery.state IS 'waiting; delivered; failed: it was given up a day after the first attempt, or its webhook was disabled.';
COMMENT ON COLUMN gpucredit_http.delivery.due_at IS 'When it is sent; while it is being sent, when another daemon sends it again; infinity: not before an earlier event of the same job, or never.';
COMMENT ON COLUMN gpucredit_http.delivery.attempts IS 'How many attempts have begun.';
COMMENT ON COLUMN gpucredit_http.delivery.underway IS 'Whether the last attempt has begun and not ended, as far as is known.';
COMMENT ON COLUMN gpucredit_http.delivery.first_at IS 'When the first attempt began, since it was last redelivered by hand; NULL: none has.';
COMMENT ON COLUMN gpucredit_http.delivery.last_at IS 'When the last attempt began; NULL: none has.';
COMMENT ON COLUMN gpucredit_http.delivery.status IS 'The HTTP status that answered the last attempt; NULL: none did.';
COMMENT ON COLUMN gpucredit_http.delivery.problem IS 'Why the last attempt failed; NULL: it did not.';
COMMENT ON COLUMN gpucredit_http.delivery.ended_at IS 'When it was delivered or given up; NULL: it waits.';

/*
 * Whether a named role may read the events of an account, by the same rules as
 * row-level security (gpucredit_internal.may_read()).
 */
CREATE FUNCTION gpucredit_http.may_follow(role name, org text, account text) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT EXISTS (
		SELECT FROM pg_roles r, pg_roles t
		WHERE r.rolname = may_follow.role AND t.rolname = 'gpucredit_tenant'
			AND gpucredit_http.role_holds(r.rolname)
			AND has_function_privilege(r.oid,
				'gpucredit.events(bigint,int,text,text,text[],bigint)'::regprocedure, 'EXECUTE')
			AND (r.rolsuper OR NOT pg_has_role(r.oid, t.oid, 'MEMBER')
				OR EXISTS (SELECT FROM gpucredit.tenant b JOIN pg_roles o ON o.rolname = b.role
					WHERE b.org = may_follow.org AND pg_has_role(r.oid, o.oid, 'USAGE')
						AND gpucredit_http.is_below(may_follow.account, b.account))));
END;
COMMENT ON FUNCTION gpucredit_http.may_follow(name, text, text) IS
'Internal: whether a role may read the events of an account and all below it.';

/*
 * Whether a role may set webhooks of an account, and so may also read their
 * addresses.
 */
CREATE FUNCTION gpucredit_http.may_manage(role name, org text, account text) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT gpucredit_http.may_follow(may_manage.role, may_manage.org, may_manage.account)
		AND EXISTS (SELECT FROM pg_roles r, pg_roles m
			WHERE r.rolname = may_manage.role
				AND m.rolname IN ('gpucredit_admin', 'gpucredit_operator', 'gpucredit_app',
					'gpucredit_tenant')
				AND pg_has_role(r.oid, m.oid, 'USAGE'));
END;
COMMENT ON FUNCTION gpucredit_http.may_manage(name, text, text) IS
'Internal: whether a role may set and change webhooks of an account.';

/* Returns the part of an address that is not secret: scheme, host and port. */
CREATE FUNCTION gpucredit_http.url_origin(url text) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT substring(url_origin.url FROM '^[a-z]+://[^/?]+');
END;
COMMENT ON FUNCTION gpucredit_http.url_origin(text) IS
'Internal: scheme, host and port of a webhook''s address.';

/*
 * Checks the form of an address. The daemon decides whether it may connect,
 * from the IP address that it connects to, because a name can resolve to any
 * address and change at any time.
 */
CREATE FUNCTION gpucredit_http.check_url(url text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	port text;
BEGIN
	IF check_url.url IS NULL OR octet_length(check_url.url) NOT BETWEEN 1 AND 2000
		OR check_url.url ~ '[^!-~]' OR check_url.url ~ '["<>\\^`{|}#]'
	THEN
		PERFORM gpucredit_http.refuse('a webhook''s address has 1 to 2,000 characters of a URL',
			'Spaces, control characters, quotes, braces, backslashes, "#" and letters beyond ASCII are none; they are written as % and two hex digits, and names in their ASCII form.');
	ELSIF check_url.url !~ '^https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?([/?].*)?$' THEN
		PERFORM gpucredit_http.refuse('a webhook''s address is https://HOST/PATH',
			'It has no user, no password and no fragment, and begins with https:// in small letters; http:// is for networks that the operator allows.');
	END IF;
	port := substring(gpucredit_http.url_origin(check_url.url) FROM ':([0-9]+)$');
	IF port IS NOT NULL AND port::integer NOT BETWEEN 1 AND 65535 THEN
		PERFORM gpucredit_http.refuse('a port is 1 to 65535', format('It is %s.', port));
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_http.check_url(text) IS
'Internal: refuses what is no address for a webhook (22023).';

CREATE FUNCTION gpucredit_http.check_webhook(url text, kinds text[], template jsonb, label text)
RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wrong text;
BEGIN
	PERFORM gpucredit_http.check_url(check_webhook.url);
	IF cardinality(check_webhook.kinds) NOT BETWEEN 1 AND 100 THEN
		PERFORM gpucredit_http.refuse('a webhook has 1 to 100 kinds of events',
			'NULL is for all kinds.');
	END IF;
	SELECT coalesce(k.kind, 'NULL') INTO wrong FROM unnest(check_webhook.kinds) AS k (kind)
	WHERE k.kind IS NULL OR k.kind !~ '^[a-z_]{1,40}\.[a-z_]{1,40}$' LIMIT 1;
	IF wrong IS NOT NULL THEN
		PERFORM gpucredit_http.refuse(format('"%s" is no kind of event', left(wrong, 64)),
			'A kind is two words, as job.ended.');
	END IF;
	IF check_webhook.label IS NULL OR octet_length(check_webhook.label) > 255
		OR check_webhook.label ~ '[[:cntrl:]]'
	THEN
		PERFORM gpucredit_http.refuse('a webhook''s label has at most 255 bytes and no control characters',
			'It is shown in lists.');
	END IF;
	PERFORM gpucredit_http.check_template(check_webhook.template);
END
$$;
COMMENT ON FUNCTION gpucredit_http.check_webhook(text, text[], jsonb, text) IS
'Internal: refuses arguments of a webhook that are none (22023).';

/*
 * Checks that the account exists and that the caller may set webhooks for it.
 */
CREATE FUNCTION gpucredit_http.check_managed(org text, account text) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF check_managed.org IS NULL OR check_managed.account IS NULL
		OR (check_managed.org = '' AND check_managed.account <> '')
	THEN
		PERFORM gpucredit_http.refuse('a webhook has an organisation and an account',
			'The organisation '''' has the events of no tenant, and no accounts; the account '''' is the organisation itself.');
	END IF;
	IF check_managed.org <> '' THEN
		PERFORM gpucredit_http.check_account(check_managed.org, check_managed.account);
	END IF;
	IF NOT gpucredit_http.may_manage(gpucredit_http.caller(), check_managed.org,
			check_managed.account) THEN
		RAISE EXCEPTION 'role "%" may set no webhook of this account', gpucredit_http.caller()
			USING ERRCODE = 'insufficient_privilege',
			DETAIL = 'Events of no tenant are for operators, and those of an account for who may read them.',
			HINT = 'Have a role set it that may read the account''s events.';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_http.check_managed(text, text) IS
'Internal: refuses an account that does not exist (UC001), or whose webhooks are not the caller''s (42501).';

/*
 * Returns a webhook that the caller may change, with its row locked; if
 * "removed" is true, also one that was removed.
 */
CREATE FUNCTION gpucredit_http.lock_webhook(org text, webhook bigint,
	removed boolean DEFAULT false) RETURNS gpucredit_http.webhook
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	caller name := gpucredit_http.caller();
	one gpucredit_http.webhook;
BEGIN
	SELECT w.* INTO one FROM gpucredit_http.webhook w
	WHERE w.org = lock_webhook.org AND w.webhook = lock_webhook.webhook
		AND (w.removed_at IS NULL OR lock_webhook.removed)
		AND gpucredit_http.may_manage(caller, w.org, w.account)
	FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM gpucredit_http.raise('UC701', 'the webhook does not exist',
			'It is not there, or the caller may not change it.',
			'gpucredit_http.webhooks() lists those that you may change.');
	END IF;
	RETURN one;
END
$$;
COMMENT ON FUNCTION gpucredit_http.lock_webhook(text, bigint, boolean) IS
'Internal: a webhook that the caller may change, locked. Errors: UC701 no such webhook, or another''s.';

/*
 * Creates a new key. The body is parsed when the function is created, so that
 * it calls pgcrypto's function whatever schema that is in.
 */
CREATE FUNCTION gpucredit_http.new_webhook_secret(org text, webhook bigint) RETURNS text
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	INSERT INTO gpucredit_http.webhook_secret AS s (org, webhook, generation, secret, ends_at)
	SELECT new_webhook_secret.org, new_webhook_secret.webhook,
		coalesce(max(o.generation), 0) + 1, gen_random_bytes(32), 'infinity'
	FROM gpucredit_http.webhook_secret o
	WHERE o.org = new_webhook_secret.org AND o.webhook = new_webhook_secret.webhook
	RETURNING 'whsec_' || encode(s.secret, 'base64');
END;
COMMENT ON FUNCTION gpucredit_http.new_webhook_secret(text, bigint) IS
'Internal: makes a key of a webhook, and answers it as its owner gets it.';

CREATE FUNCTION gpucredit_http.set_webhook(org text, account text, key text, url text,
	kinds text[] DEFAULT NULL, template jsonb DEFAULT NULL, label text DEFAULT '',
	OUT webhook bigint, OUT secret text, OUT replayed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	earlier jsonb;
	made record;
BEGIN
	PERFORM gpucredit_http.check_webhook(set_webhook.url, set_webhook.kinds,
		set_webhook.template, set_webhook.label);
	PERFORM gpucredit_http.check_managed(set_webhook.org, set_webhook.account);
	earlier := gpucredit_http.request_begin(set_webhook.org, set_webhook.key, 'set_webhook',
		jsonb_build_object('account', set_webhook.account, 'url', set_webhook.url,
			'kinds', to_jsonb(set_webhook.kinds), 'template', set_webhook.template,
			'label', set_webhook.label));
	set_webhook.replayed := earlier IS NOT NULL;
	IF set_webhook.replayed THEN
		set_webhook.webhook := (earlier ->> 'webhook')::bigint;
		RETURN;
	END IF;
	LOOP
		SELECT count(*) FILTER (WHERE w.removed_at IS NULL) AS kept,
			count(*) FILTER (WHERE w.created_at > gpucredit.now() - interval '1 day') AS of_a_day,
			coalesce(max(w.ordinal), 0) AS last
		INTO made
		FROM gpucredit_http.webhook w
		WHERE w.org = set_webhook.org AND w.account = set_webhook.account;
		IF made.kept >= 20 OR made.of_a_day >= 100 THEN
			PERFORM gpucredit_http.refuse('the account has 20 webhooks, or 100 were made within a day',
				'Each gets every event that it wants.', 'Change or remove one that nobody needs.');
		END IF;
		INSERT INTO gpucredit_http.webhook AS w (org, account, ordinal, role, url, kinds, template,
			label, created_at, after, due_at)
		VALUES (set_webhook.org, set_webhook.account, made.last + 1, gpucredit_http.caller(),
			set_webhook.url, set_webhook.kinds, set_webhook.template, set_webhook.label,
			gpucredit.now(), gpucredit_http.feed_end(), gpucredit.now())
		ON CONFLICT ON CONSTRAINT webhook_ordinal DO NOTHING
		RETURNING w.webhook INTO set_webhook.webhook;
		EXIT WHEN FOUND;		/* otherwise another call has created one,
								 * which is counted now */
	END LOOP;
	set_webhook.secret := gpucredit_http.new_webhook_secret(set_webhook.org, set_webhook.webhook);
	PERFORM gpucredit_http.record(set_webhook.org, 'set_webhook', gpucredit_http.caller(),
		jsonb_build_object('webhook', set_webhook.webhook, 'account', set_webhook.account,
			'address', gpucredit_http.url_origin(set_webhook.url),
			'kinds', to_jsonb(set_webhook.kinds), 'label', set_webhook.label));
	PERFORM gpucredit_http.request_end(set_webhook.org, set_webhook.key,
		jsonb_build_object('webhook', set_webhook.webhook));
END
$$;
COMMENT ON FUNCTION gpucredit_http.set_webhook(text, text, text, text, text[], jsonb, text) IS
'Webhooks: makes a webhook: from now on the daemon sends each event of an account, and of all accounts below it, to an address, signed as https://www.standardwebhooks.com describes. An event is sent at least once; its number is in the message and in the header webhook-id, by which a receiver knows what it already had. Events of one job are sent in their order. What fails is sent again for a day; after a week of failures the webhook is disabled, with an alert.
org: '''' for the events of no tenant, such as those of nodes. account: '''' for the organisation. url: https://HOST/PATH; http:// only to networks that the operator allows. The daemon sends nothing to private or link-local addresses that the operator does not allow, and follows no redirect. kinds: as job.ended; NULL for all. template: NULL for the form of standardwebhooks; "slack"; or an object whose texts have {kind}, {event}, {at}, {org}, {account}, {job}, {attempt}, {decision}, {reason}, {detail}, {summary} or {escaped_summary} (with &, < and > as Slack wants them). label: what you call it.
Result: its number; the secret whsec_..., which is shown this once, and not when the call is repeated: renew_webhook_secret() makes another; replayed: the key''s earlier call made it. An account has at most 20. The webhook has the rights of the role that calls. Errors: UC001 no such account; UC201 key used with other arguments; 42501; 22023.';

CREATE FUNCTION gpucredit_http.change_webhook(org text, webhook bigint, key text, url text,
	kinds text[] DEFAULT NULL, template jsonb DEFAULT NULL, label text DEFAULT '')
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	w gpucredit_http.webhook;
	page record;
BEGIN
	PERFORM gpucredit_http.check_webhook(change_webhook.url, change_webhook.kinds,
		change_webhook.template, change_webhook.label);
	w := gpucredit_http.lock_webhook(change_webhook.org, change_webhook.webhook);
	IF gpucredit_http.request_begin(change_webhook.org, change_webhook.key, 'change_webhook',
		jsonb_build_object('webhook', change_webhook.webhook, 'url', change_webhook.url,
			'kinds', to_jsonb(change_webhook.kinds), 'template', change_webhook.template,
			'label', change_webhook.label)) IS NOT NULL
	THEN
		RETURN false;
	END IF;
	IF w.disabled_at IS NULL AND w.kinds IS DISTINCT FROM change_webhook.kinds THEN
		/*
		 * Events up to now are selected by the old kinds, later ones by the
		 * new kinds.
		 */
		page := gpucredit_http.read_feed(w, gpucredit.now());
		UPDATE gpucredit_http.webhook o
		SET after = page.after, waiting = o.waiting + page.added,
			due_at = greatest(gpucredit.now(), o.paused_until)
		WHERE o.org = w.org AND o.webhook = w.webhook;
	END IF;
	UPDATE gpucredit_http.webhook o
	SET url = change_webhook.url, kinds = change_webhook.kinds,
		template = change_webhook.template, label = change_webhook.label,
		role = gpucredit_http.caller()
	WHERE o.org = w.org AND o.webhook = w.webhook;
	PERFORM gpucredit_http.record(change_webhook.org, 'change_webhook', gpucredit_http.caller(),
		jsonb_build_object('webhook', change_webhook.webhook,
			'address', gpucredit_http.url_origin(change_webhook.url),
			'kinds', to_jsonb(change_webhook.kinds), 'label', change_webhook.label));
	PERFORM gpucredit_http.request_end(change_webhook.org, change_webhook.key, 'true');
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_http.change_webhook(text, bigint, text, text, text[], jsonb, text) IS
'Webhooks: gives a webhook another address, kinds, template and label: what is left out is as in set_webhook(). What waits is sent to the new address. Its secret stays. It has the caller''s rights from now on.
Result: true, or false if the key''s earlier call did it. Errors: UC701 no such webhook, or another''s; UC201; 22023.';

CREATE FUNCTION gpucredit_http.renew_webhook_secret(org text, webhook bigint, key text,
	keep interval DEFAULT '1 day', OUT secret text, OUT replayed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF renew_webhook_secret.keep IS NULL OR renew_webhook_secret.keep NOT BETWEEN '0' AND '7 days' THEN
		PERFORM gpucredit_http.refuse('an old secret signs for 0 to 7 days more',
			format('It is %s.', coalesce(renew_webhook_secret.keep::text, 'NULL')));
	END IF;
	PERFORM gpucredit_http.lock_webhook(renew_webhook_secret.org, renew_webhook_secret.webhook);
	renew_webhook_secret.replayed := gpucredit_http.request_begin(renew_webhook_secret.org,
		renew_webhook_secret.key, 'renew_webhook_secret',
		jsonb_build_object('webhook', renew_webhook_secret.webhook,
			'keep', extract(epoch FROM renew_webhook_secret.keep))) IS NOT NULL;
	IF renew_webhook_secret.replayed THEN
		RETURN;
	END IF;
	UPDATE gpucredit_http.webhook_secret s
	SET ends_at = least(s.ends_at, gpucredit.now() + renew_webhook_secret.keep)
	WHERE s.org = renew_webhook_secret.org AND s.webhook = renew_webhook_secret.webhook;
	/*
	 * At most two keys are valid, so that frequent renewal does not make the
	 * signature header long.
	 */
	DELETE FROM gpucredit_http.webhook_secret s
	WHERE s.org = renew_webhook_secret.org AND s.webhook = renew_webhook_secret.webhook
		AND s.generation < (SELECT max(o.generation) FROM gpucredit_http.webhook_secret o
			WHERE o.org = s.org AND o.webhook = s.webhook);
	renew_webhook_secret.secret := gpucredit_http.new_webhook_secret(renew_webhook_secret.org,
		renew_webhook_secret.webhook);
	PERFORM gpucredit_http.record(renew_webhook_secret.org, 'renew_webhook_secret',
		gpucredit_http.caller(), jsonb_build_object('webhook', renew_webhook_secret.webhook,
			'keep', renew_webhook_secret.keep));
	PERFORM gpucredit_http.request_end(renew_webhook_secret.org, renew_webhook_secret.key, 'true');
END
$$;
COMMENT ON FUNCTION gpucredit_http.renew_webhook_secret(text, bigint, text, interval) IS
'Webhooks: makes another secret of a webhook. The one before signs as well for "keep" (0 to 7 days), so that the receiver can change over; with 0 it is good no more.
Result: the secret, which is shown this once, and not when the call is repeated; replayed: the key''s earlier call made it. Errors: UC701 no such webhook, or another''s; UC201; 22023.';

/*
 * Stops a webhook, whose row is locked. Deliveries that wait have failed; one
 * that is being sent may still be reported as delivered.
 */
CREATE FUNCTION gpucredit_http.stop_webhook(w gpucredit_http.webhook, why text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	at timestamptz := gpucredit.now();
	detail jsonb;
BEGIN
	UPDATE gpucredit_http.webhook o
	SET disabled_at = at, disabled_why = stop_webhook.why, due_at = 'infinity', waiting = 0
	WHERE o.org = (w).org AND o.webhook = (w).webhook;
	UPDATE gpucredit_http.delivery d
	SET state = 'failed', due_at = 'infinity', underway = false, ended_at = at,
		problem = concat_ws('; ', d.problem, 'the webhook was disabled')
	WHERE d.org = (w).org AND d.webhook = (w).webhook AND d.state = 'waiting';
	IF stop_webhook.why = 'by_hand' THEN
		RETURN;
	END IF;
	detail := jsonb_strip_nulls(jsonb_build_object('kind', 'webhook', 'org', (w).org,
		'account', (w).account, 'webhook', (w).webhook, 'why', stop_webhook.why,
		'address', gpucredit_http.url_origin((w).url), 'label', (w).label,
		'failing_since', (w).failing_since));
	PERFORM gpucredit_http.record((w).org, 'stop_webhook', NULL, detail);
	IF (w).org = '' THEN		/* an alert needs an organisation */
		PERFORM gpucredit_internal.write_event('webhook.disabled', '', '', detail);
	ELSE
		PERFORM gpucredit_internal.raise_alert((w).org, at, (w).account, 'webhook', 'day',
			date_trunc('day', at, 'UTC'), (w).webhook::numeric, 0, detail);
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_http.stop_webhook(gpucredit_http.webhook, text) IS
'Internal: disables a locked webhook; unless that is by hand, its owners get an alert.';

CREATE FUNCTION gpucredit_http.disable_webhook(org text, webhook bigint, key text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	w gpucredit_http.webhook;
BEGIN
	w := gpucredit_http.lock_webhook(disable_webhook.org, disable_webhook.webhook);
	IF gpucredit_http.request_begin(disable_webhook.org, disable_webhook.key, 'disable_webhook',
			jsonb_build_object('webhook', disable_webhook.webhook)) IS NOT NULL
	THEN
		RETURN false;
	END IF;
	IF w.disabled_at IS NULL THEN
		PERFORM gpucredit_http.stop_webhook(w, 'by_hand');
		PERFORM gpucredit_http.record(disable_webhook.org, 'disable_webhook',
			gpucredit_http.caller(), jsonb_build_object('webhook', disable_webhook.webhook));
	END IF;
	PERFORM gpucredit_http.request_end(disable_webhook.org, disable_webhook.key, 'true');
	RETURN w.disabled_at IS NULL;
END
$$;
COMMENT ON FUNCTION gpucredit_http.disable_webhook(text, bigint, text) IS
'Webhooks: sends a webhook nothing more until enable_webhook(). What waits has failed, and can be redelivered by hand later.
Result: true, or false if it was disabled before, or the key''s earlier call did it. Errors: UC701 no such webhook, or another''s; UC201; 22023.';

CREATE FUNCTION gpucredit_http.enable_webhook(org text, webhook bigint, key text,
	after bigint DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	w gpucredit_http.webhook;
	begins bigint := coalesce(enable_webhook.after, gpucredit_http.feed_end());
BEGIN
	IF begins NOT BETWEEN 0 AND gpucredit_http.feed_end() THEN
		PERFORM gpucredit_http.refuse('"after" is the number of an event of the feed, or 0',
			format('It is %s.', begins));
	END IF;
	w := gpucredit_http.lock_webhook(enable_webhook.org, enable_webhook.webhook);
	IF gpucredit_http.request_begin(enable_webhook.org, enable_webhook.key, 'enable_webhook',
			jsonb_build_object('webhook', enable_webhook.webhook, 'after', enable_webhook.after))
		IS NOT NULL
	THEN
		RETURN false;
	END IF;
	IF w.disabled_at IS NULL AND enable_webhook.after IS NULL THEN
		PERFORM gpucredit_http.request_end(enable_webhook.org, enable_webhook.key, 'true');
		RETURN false;
	END IF;
	/*
	 * All events after this one are sent again, even those that were sent
	 * already.
	 */
	DELETE FROM gpucredit_http.delivery d
	WHERE d.org = enable_webhook.org AND d.webhook = enable_webhook.webhook AND d.event > begins;
	UPDATE gpucredit_http.webhook o
	SET after = begins, due_at = gpucredit.now(), paused_until = '-infinity', failures = 0,
		failing_since = NULL, disabled_at = NULL, disabled_why = NULL,
		role = gpucredit_http.caller(),
		waiting = (SELECT count(*) FROM gpucredit_http.delivery d
			WHERE d.org = o.org AND d.webhook = o.webhook AND d.state = 'waiting')
	WHERE o.org = enable_webhook.org AND o.webhook = enable_webhook.webhook;
	PERFORM gpucredit_http.record(enable_webhook.org, 'enable_webhook', gpucredit_http.caller(),
		jsonb_build_object('webhook', enable_webhook.webhook, 'after', begins));
	PERFORM gpucredit_http.request_end(enable_webhook.org, enable_webhook.key, 'true');
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_http.enable_webhook(text, bigint, text, bigint) IS
'Webhooks: sends a disabled webhook what happens from now on, or all events after one that are in the feed; the latter also for a webhook that is enabled, which gets again what it had. It has the caller''s rights from now on.
Result: true, or false if nothing was to be done, or the key''s earlier call did it. Errors: UC701 no such webhook, or another''s; UC201; 22023.';

CREATE FUNCTION gpucredit_http.remove_webhook(org text, webhook bigint, key text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	w gpucredit_http.webhook;
BEGIN
	w := gpucredit_http.lock_webhook(remove_webhook.org, remove_webhook.webhook, removed => true);
	IF w.removed_at IS NOT NULL THEN
		RETURN false;
	END IF;
	PERFORM gpucredit_http.request_begin(remove_webhook.org, remove_webhook.key,
		'remove_webhook', jsonb_build_object('webhook', remove_webhook.webhook));
	IF w.disabled_at IS NULL THEN
		PERFORM gpucredit_http.stop_webhook(w, 'by_hand');
	END IF;
	UPDATE gpucredit_http.webhook o SET removed_at = gpucredit.now()
	WHERE o.org = remove_webhook.org AND o.webhook = remove_webhook.webhook;
	DELETE FROM gpucredit_http.webhook_secret s
	WHERE s.org = remove_webhook.org AND s.webhook = remove_webhook.webhook;
	PERFORM gpucredit_http.record(remove_webhook.org, 'remove_webhook', gpucredit_http.caller(),
		jsonb_build_object('webhook', remove_webhook.webhook));
	PERFORM gpucredit_http.request_end(remove_webhook.org, remove_webhook.key, 'true');
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_http.remove_webhook(text, bigint, text) IS
'Webhooks: removes a webhook for ever, with its secret; the daemon deletes its rows a day later.
Result: true, or false if it was removed before. Errors: UC701 no such webhook, or another''s; UC201; 22023.';

CREATE FUNCTION gpucredit_http.webhooks(org text, account text DEFAULT '')
RETURNS TABLE (webhook bigint, account text, role name, url text, kinds text[],
	template jsonb, label text, created_at timestamptz, after bigint, waiting integer,
	failures integer, failing_since timestamptz, failed_at timestamptz,
	delivered_at timestamptz, paused_until timestamptz, disabled_at timestamptz,
	disabled_why text)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT w.webhook, w.account, w.role,
		CASE WHEN v.whole THEN w.url ELSE gpucredit_http.url_origin(w.url) || '/...' END,
		w.kinds, CASE WHEN v.whole OR w.template = '"slack"' THEN w.template
			WHEN w.template IS NOT NULL THEN '"..."' END,
		w.label, w.created_at, w.after, w.waiting, w.failures, w.failing_since, w.failed_at,
		w.delivered_at, CASE WHEN isfinite(w.paused_until) THEN w.paused_until END,
		w.disabled_at, w.disabled_why
	FROM gpucredit_http.webhook w,
		LATERAL (SELECT gpucredit_http.scope() = 'admin'
			AND gpucredit_http.may_manage(gpucredit_http.caller(), w.org, w.account) AS whole) v
	WHERE w.org = webhooks.org AND w.removed_at IS NULL
		AND gpucredit_http.is_below(w.account, webhooks.account)
		AND gpucredit_http.may_follow(gpucredit_http.caller(), w.org, w.account)
	ORDER BY w.webhook;
END;
COMMENT ON FUNCTION gpucredit_http.webhooks(text, text) IS
'Webhooks: those of an account and all below it, by number. Addresses and templates may hold secrets, so who may not change the webhook, or calls with a token of a smaller scope than admin, gets an address without its path. Result: a row each, of those whose events the caller may read.';
