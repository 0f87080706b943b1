/*
 * 63_mirror.sql: repositories that follow a repository of another registry.
 *
 * An owner says which repository of which remote his repository mirrors. The
 * remote is a name: its address, the token for it, and which organisations may
 * use it, stand in a file of the operator's that the worker (registry-mirror)
 * reads, so nobody who may write a row chooses where the worker connects to.
 *
 * Workers claim mirrors whose time has come. A claim is a number that nobody
 * can guess, and all a worker can do is what a claim allows: to send bytes to
 * the repository, and to bring its versions. Each such call extends the claim.
 * A worker that dies leaves nothing but its claim, which ends, and the bytes
 * that it sent, with which the next one goes on.
 *
 * Organisations queue: each stands in the queue of a remote once, from when its
 * first mirror is due, and goes to its end after each turn. So one organisation
 * waits for one turn of each other at most, however many mirrors those have,
 * and a worker finds the next mirror by an index, however many there are.
 */
CREATE TABLE gpucredit_registry.mirror (
	org text COLLATE "C" NOT NULL,
	model bigint NOT NULL,
	remote text COLLATE "C" NOT NULL,
	repository text NOT NULL,	/* ORG/NAME there */
	refs text[] NOT NULL,		/* patterns */
	every interval NOT NULL,
	rewrites boolean NOT NULL,	/* follows a ref whose history was replaced */
	created_at timestamptz NOT NULL,
	due_at timestamptz NOT NULL,
	claim uuid CONSTRAINT mirror_claim UNIQUE,
	lease interval,
	claimed_until timestamptz,
	/* When a worker may claim it: a claim that nobody extends has to end first. */
	ready_at timestamptz NOT NULL GENERATED ALWAYS AS (greatest(due_at, claimed_until)) STORED,
	failures integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
	last_error text,
	synced_at timestamptz,		/* when all refs were last as there */
	CONSTRAINT mirror_pkey PRIMARY KEY (org, model),
	CONSTRAINT mirror_claimed CHECK ((claim IS NULL) = (claimed_until IS NULL)
		AND (claim IS NULL) = (lease IS NULL)),
	FOREIGN KEY (org, model) REFERENCES gpucredit_registry.model
);
CREATE INDEX mirror_ready ON gpucredit_registry.mirror (org, remote, ready_at);
COMMENT ON TABLE gpucredit_registry.mirror IS
'Repositories that follow one of another registry, and when each is looked at next';

/*
 * The queues. No row is later than the first of its mirrors and the last turn,
 * whichever is later, so nobody is missed. One may be earlier: the worker that
 * finds no mirror there corrects it.
 *
 * Whoever writes a mirror locks the mirror first and then its row here, and may
 * wait for both. claim_mirror() locks a row here first and waits for nothing.
 */
CREATE TABLE gpucredit_registry.mirror_turn (
	org text COLLATE "C" NOT NULL,
	remote text COLLATE "C" NOT NULL,
	ready_at timestamptz NOT NULL,
	claimed_at timestamptz,		/* the organisation's last turn */
	CONSTRAINT mirror_turn_pkey PRIMARY KEY (org, remote)
);
CREATE INDEX mirror_turn_next ON gpucredit_registry.mirror_turn (remote, ready_at, org);
COMMENT ON TABLE gpucredit_registry.mirror_turn IS
'Organisations that mirror repositories of a remote, and since when each waits for its turn; computed from the mirrors by a trigger';

/*
 * Keeps mirror_turn no later than a mirror that is written, and without rows
 * of which no mirror is left. The rows of two remotes are locked in order.
 */
CREATE FUNCTION gpucredit_registry.queue_mirror() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	was text := CASE WHEN TG_OP <> 'INSERT' THEN OLD.remote END;
	becomes text := CASE WHEN TG_OP <> 'DELETE' THEN NEW.remote END;
	of_org text := CASE WHEN TG_OP = 'DELETE' THEN OLD.org ELSE NEW.org END;
	r text;
BEGIN
	IF was = becomes AND NEW.ready_at >= OLD.ready_at THEN
		RETURN NULL;
	END IF;
	FOR r IN SELECT DISTINCT u.remote COLLATE "C" FROM unnest(ARRAY[was, becomes]) u (remote)
		WHERE u.remote IS NOT NULL ORDER BY 1
	LOOP
		IF r = becomes THEN
			INSERT INTO gpucredit_registry.mirror_turn AS t (org, remote, ready_at)
			VALUES (of_org, r, NEW.ready_at)
			ON CONFLICT ON CONSTRAINT mirror_turn_pkey DO UPDATE
			SET ready_at = least(t.ready_at, greatest(excluded.ready_at, t.claimed_at));
		ELSE
			PERFORM FROM gpucredit_registry.mirror_turn t
			WHERE t.org = of_org AND t.remote = r FOR UPDATE;
			/* A statement of its own sees mirrors of whoever had the lock. */
			DELETE FROM gpucredit_registry.mirror_turn t
			WHERE t.org = of_org AND t.remote = r
				AND NOT EXISTS (SELECT FROM gpucredit_registry.mirror o
					WHERE o.org = t.org AND o.remote = t.remote);
		END IF;
	END LOOP;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.queue_mirror() IS
'Internal: trigger that lets the queue of a remote follow its mirrors.';
CREATE TRIGGER queue_mirror AFTER INSERT OR UPDATE OR DELETE ON gpucredit_registry.mirror
FOR EACH ROW EXECUTE FUNCTION gpucredit_registry.queue_mirror();

CREATE TABLE gpucredit_registry.mirror_ref (
	org text COLLATE "C" NOT NULL,
	model bigint NOT NULL,
	ref text COLLATE "C" NOT NULL,
	oid text COLLATE "C" NOT NULL,	/* of the commit there */
	gone boolean NOT NULL DEFAULT false,	/* the remote has it no more */
	seen_at timestamptz NOT NULL,
	CONSTRAINT mirror_ref_pkey PRIMARY KEY (org, model, ref),
	FOREIGN KEY (org, model) REFERENCES gpucredit_registry.mirror ON DELETE CASCADE
);
COMMENT ON TABLE gpucredit_registry.mirror_ref IS
'The refs that a mirror moves, and the commit of the remote that each was last seen at';

CREATE FUNCTION gpucredit_registry.set_mirror(org text, model bigint, remote text,
	repository text, refs text[] DEFAULT '{main}', every interval DEFAULT '1 hour',
	rewrites boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model :=
		gpucredit_registry.own_model(set_mirror.org, set_mirror.model);
BEGIN
	PERFORM gpucredit_registry.check_origin(m, set_mirror.remote, set_mirror.repository,
		repeat('0', 40), '{}');
	IF coalesce(cardinality(set_mirror.refs), 0) NOT BETWEEN 1 AND 20
		OR coalesce(set_mirror.every, '0') NOT BETWEEN '1 minute' AND '366 days'
		OR set_mirror.rewrites IS NULL
	THEN
		PERFORM gpucredit_registry.refuse('refs are 1 to 20 patterns, every is 1 minute to 366 days, and rewrites is true or false',
			format('There are %s patterns, every is %s.', cardinality(set_mirror.refs),
				set_mirror.every));
	END IF;
	PERFORM gpucredit_registry.pattern_regex(p) FROM unnest(set_mirror.refs) p;
	PERFORM gpucredit_registry.lock_model(m);
	/* A worker that mirrors what was set before loses its claim. */
	INSERT INTO gpucredit_registry.mirror AS o (org, model, remote, repository, refs, every,
		rewrites, created_at, due_at)
	VALUES (m.org, m.model, set_mirror.remote, set_mirror.repository, set_mirror.refs,
		set_mirror.every, set_mirror.rewrites, gpucredit.now(), gpucredit.now())
	ON CONFLICT ON CONSTRAINT mirror_pkey DO UPDATE
	SET remote = excluded.remote, repository = excluded.repository, refs = excluded.refs,
		every = excluded.every, rewrites = excluded.rewrites, due_at = excluded.due_at,
		claim = NULL, claimed_until = NULL, lease = NULL, failures = 0;
	PERFORM gpucredit_registry.record(m.org, 'set_mirror', NULL, jsonb_build_object(
		'model', m.model, 'remote', set_mirror.remote, 'repository', set_mirror.repository,
		'refs', set_mirror.refs, 'every', set_mirror.every, 'rewrites', set_mirror.rewrites));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.set_mirror(text, bigint, text, text, text[], interval, boolean) IS
'Federation: lets a repository follow one of another registry. registry-mirror brings its versions, at once and from then on; the refs that it brings move with those there, and nobody else moves them. The same again has it look at once.
remote: a name that the operator gave to a registry, 1 to 63 letters, digits, ".", "_" or "-". repository: ORG/NAME there. refs: 1 to 20 patterns of branches and tags, as set_immutable_tags(). every: how often it looks, 1 minute to 366 days. rewrites: follow also a branch whose history was replaced, and a tag that was moved.
Errors: UC501 no such repository; 22023, also for an image.';

CREATE FUNCTION gpucredit_registry.delete_mirror(org text, model bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model :=
		gpucredit_registry.own_model(delete_mirror.org, delete_mirror.model);
	was boolean;
BEGIN
	PERFORM gpucredit_registry.lock_model(m);
	DELETE FROM gpucredit_registry.mirror o WHERE o.org = m.org AND o.model = m.model;
	was := FOUND;
	IF was THEN
		PERFORM gpucredit_registry.record(m.org, 'delete_mirror', NULL,
			jsonb_build_object('model', m.model));
	END IF;
	RETURN was;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.delete_mirror(text, bigint) IS
'Federation: a repository no longer follows another; what it has stays, and its refs are its own.
Result: whether it did. Errors: UC501 no such repository.';

CREATE FUNCTION gpucredit_registry.mirrors(org text, account text DEFAULT '')
RETURNS TABLE (model bigint, name text, remote text, repository text, patterns text[],
	every interval, rewrites boolean, state text, refs jsonb, synced_at timestamptz,
	due_at timestamptz, failures integer, last_error text)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_registry.check_account(mirrors.org, mirrors.account);
	RETURN QUERY
	SELECT o.model, m.name::text, o.remote::text, o.repository, o.refs, o.every, o.rewrites,
		CASE WHEN o.claimed_until > gpucredit.now() THEN 'running'
			WHEN o.failures > 0 THEN 'failing'
			WHEN o.synced_at IS NULL THEN 'new' ELSE 'synced' END,
		(SELECT coalesce(jsonb_object_agg(r.ref, jsonb_build_object('oid', r.oid, 'gone', r.gone,
				'seen_at', r.seen_at)), '{}')
			FROM gpucredit_registry.mirror_ref r
			WHERE r.org = o.org AND r.model = o.model),
		o.synced_at, o.due_at, o.failures, o.last_error
	FROM gpucredit_registry.mirror o
		JOIN gpucredit_registry.model m USING (org, model)
	WHERE o.org = mirrors.org AND (mirrors.account IN ('', m.account)
		OR starts_with(m.account, mirrors.account || '/'))
	ORDER BY o.model;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.mirrors(text, text) IS
'Federation: the repositories of an account, and all below it, that follow others.
Result: state: new, running, synced or failing, with last_error; refs: of each the commit there that it was last seen at, and whether the remote has removed it (gone): the ref stays here. due_at: when it is looked at next.
Errors: UC001 no such account.';

/*
 * The functions of workers.
 */

/*
 * Returns the mirror that has waited longest, of the organisation whose turn it
 * is in the queues of some remotes, and locks it and the organisation's row
 * there. Passes over what others have locked. Returns NULL if nothing is left.
 */
CREATE FUNCTION gpucredit_registry.next_mirror(remotes text[], instant timestamptz)
RETURNS gpucredit_registry.mirror
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	t gpucredit_registry.mirror_turn;
	o gpucredit_registry.mirror;
BEGIN
	t.ready_at := '-infinity';
	LOOP
		SELECT n.* INTO t FROM unnest(next_mirror.remotes) AS r (remote)
			CROSS JOIN LATERAL (SELECT k.* FROM gpucredit_registry.mirror_turn k
				WHERE k.remote = r.remote AND k.ready_at <= next_mirror.instant
					AND k.ready_at >= t.ready_at
					AND (k.ready_at, k.org, k.remote) > (t.ready_at, coalesce(t.org, ''),
						coalesce(t.remote, ''))
				ORDER BY k.ready_at, k.org LIMIT 1) n
		ORDER BY n.ready_at, n.org, n.remote LIMIT 1;
		IF NOT FOUND THEN
			RETURN NULL;
		END IF;
		PERFORM FROM gpucredit_registry.mirror_turn k
		WHERE k.org = t.org AND k.remote = t.remote AND k.ready_at <= next_mirror.instant
		FOR UPDATE SKIP LOCKED;
		CONTINUE WHEN NOT FOUND;
		SELECT c.* INTO o FROM unnest(next_mirror.remotes) AS r (remote)
			CROSS JOIN LATERAL (SELECT k.* FROM gpucredit_registry.mirror k
				WHERE k.org = t.org AND k.remote = r.remote AND k.ready_at <= next_mirror.instant
				ORDER BY k.ready_at LIMIT 1 FOR UPDATE SKIP LOCKED) c
		ORDER BY c.ready_at, c.model LIMIT 1;
		IF FOUND THEN
			RETURN o;
		END IF;
		UPDATE gpucredit_registry.mirror_turn k
		SET ready_at = first.ready_at
		FROM (SELECT min(c.ready_at) AS ready_at FROM gpucredit_registry.mirror c
			WHERE c.org = t.org AND c.remote = t.remote) first
		WHERE k.org = t.org AND k.remote = t.remote AND first.ready_at > k.ready_at;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.next_mirror(text[], timestamptz) IS
'Internal: locks the mirror that a worker claims next.';

CREATE FUNCTION gpucredit_registry.claim_mirror(remotes text[],
	lease interval DEFAULT '10 minutes', OUT org text, OUT model bigint, OUT kind text,
	OUT name text, OUT remote text, OUT repository text, OUT refs text[], OUT rewrites boolean,
	OUT seen jsonb, OUT claim uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	instant timestamptz := gpucredit.now();
	o gpucredit_registry.mirror;
BEGIN
	IF claim_mirror.remotes IS NULL
		OR coalesce(claim_mirror.lease, '0') NOT BETWEEN '10 s' AND '1 day'
	THEN
		PERFORM gpucredit_registry.refuse('remotes are names, lease is 10 seconds to 1 day',
			format('The lease is %s.', claim_mirror.lease));
	END IF;
	o := gpucredit_registry.next_mirror(claim_mirror.remotes, instant);
	IF o IS NULL THEN
		RETURN;
	END IF;
	/* Where its worker dies, it waits longer each time: others go first. */
	UPDATE gpucredit_registry.mirror c
	SET claim = gen_random_uuid(), lease = claim_mirror.lease,
		claimed_until = instant + claim_mirror.lease,
		failures = c.failures + 1, due_at = gpucredit_registry.mirror_retry(c.failures + 1),
		last_error = CASE WHEN c.claim IS NULL THEN c.last_error
			ELSE 'The worker that mirrored it ended.' END
	WHERE c.org = o.org AND c.model = o.model
	RETURNING c.claim INTO claim_mirror.claim;
	/* The organisation goes to the end of the worker's queues, but for one that is locked. */
	UPDATE gpucredit_registry.mirror_turn t
	SET claimed_at = instant, ready_at = greatest(instant, t.ready_at)
	FROM (SELECT k.remote FROM gpucredit_registry.mirror_turn k
		WHERE k.org = o.org AND k.remote = ANY (claim_mirror.remotes)
		FOR UPDATE SKIP LOCKED) mine
	WHERE t.org = o.org AND t.remote = mine.remote;
	org := o.org;
	model := o.model;
	remote := o.remote;
	repository := o.repository;
	refs := ARRAY(SELECT gpucredit_registry.pattern_regex(p) FROM unnest(o.refs) p);
	rewrites := o.rewrites;
	SELECT m.kind, m.name INTO claim_mirror.kind, claim_mirror.name
	FROM gpucredit_registry.model m WHERE m.org = o.org AND m.model = o.model;
	SELECT coalesce(jsonb_object_agg(r.ref, r.oid), '{}') INTO seen
	FROM gpucredit_registry.mirror_ref r
	WHERE r.org = o.org AND r.model = o.model;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.claim_mirror(text[], interval) IS
'Mirror worker: gives it the repository that has waited longest, of the organisation whose turn it is, for its remote to be looked at; what it does not report in time others claim.
remotes: the names that it knows. lease: how long it has until its next call, 10 seconds to 1 day.
Result: claim: its right to mirror_object(), mirror_version() and report_mirror(); NULL: nothing waits. refs: regular expressions. seen: the commit of each ref that it has.
Errors: 22023.';

/* Returns when a mirror that failed so many times in a row is tried again. */
CREATE FUNCTION gpucredit_registry.mirror_retry(failures integer) RETURNS timestamptz
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT gpucredit.now() + interval '1 minute' * (1 << least(mirror_retry.failures - 1, 10));
END;
COMMENT ON FUNCTION gpucredit_registry.mirror_retry(integer) IS
'Internal: 1 minute from now, twice as long after each failure, at most 17 hours.';

CREATE FUNCTION gpucredit_registry.require_claim(claim uuid,
	OUT o gpucredit_registry.mirror, OUT m gpucredit_registry.model)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	SELECT c.* INTO o FROM gpucredit_registry.mirror c WHERE c.claim = require_claim.claim;
	IF FOUND THEN
		SELECT k.* INTO m FROM gpucredit_registry.model k
		WHERE k.org = o.org AND k.model = o.model;
		/* As set_mirror() does, lock the repository first. */
		PERFORM gpucredit_registry.lock_model(m);
		UPDATE gpucredit_registry.mirror c SET claimed_until = gpucredit.now() + c.lease
		WHERE c.claim = require_claim.claim AND c.claimed_until > gpucredit.now()
		RETURNING c.* INTO o;
	END IF;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'the claim has ended'
			USING ERRCODE = 'UC501',
			DETAIL = 'Its time was over, or the mirror was changed or deleted.',
			HINT = 'Claim the next one.', COLUMN = 'ClaimEnded';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.require_claim(uuid) IS
'Internal: the mirror of a claim, which is extended, and its repository, which is locked. Errors: UC501 the claim has ended.';

CREATE FUNCTION gpucredit_registry.mirror_object(claim uuid, sha256 text, size bigint,
	OUT status text, OUT reason text, OUT received bigint, OUT url text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c record := gpucredit_registry.require_claim(mirror_object.claim);
	r record;
BEGIN
	r := gpucredit_registry.receive_object(c.m, mirror_object.sha256, mirror_object.size);
	status := r.status;
	reason := r.reason;
	received := r.received;
	url := r.url;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.mirror_object(uuid, text, bigint) IS
'Mirror worker: opens an upload of a file, as import_object().
Errors: UC501 the claim has ended; UC504 the file is on a list of known bad ones; 22023.';

CREATE FUNCTION gpucredit_registry.extend_mirror(claim uuid) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT gpucredit_registry.require_claim(extend_mirror.claim);
END;
COMMENT ON FUNCTION gpucredit_registry.extend_mirror(uuid) IS
'Mirror worker: its claim holds for another lease from now.
Errors: UC501 the claim has ended.';

CREATE FUNCTION gpucredit_registry.mirror_version(claim uuid, ref text, tag boolean, oid text,
	files jsonb, detail jsonb, rewritten boolean)
RETURNS gpucredit_registry.commit_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c record;
	o gpucredit_registry.mirror;
	m gpucredit_registry.model;
	r gpucredit_registry.commit_result;
	mine boolean;
	last text;
BEGIN
	c := gpucredit_registry.require_claim(mirror_version.claim);
	o := c.o;
	m := c.m;
	PERFORM gpucredit_registry.check_ref(mirror_version.ref);
	IF mirror_version.tag IS NULL OR mirror_version.rewritten IS NULL OR NOT EXISTS (
		SELECT FROM unnest(o.refs) p WHERE mirror_version.ref ~ gpucredit_registry.pattern_regex(p))
	THEN
		PERFORM gpucredit_registry.refuse(format('ref "%s" is not mirrored', mirror_version.ref),
			'The ref matches no pattern of the mirror, or tag or rewritten is NULL.');
	END IF;
	SELECT f.oid INTO last FROM gpucredit_registry.mirror_ref f
	WHERE f.org = m.org AND f.model = m.model AND f.ref = mirror_version.ref;
	mine := FOUND;
	IF mirror_version.rewritten AND last IS DISTINCT FROM mirror_version.oid AND NOT o.rewrites THEN
		RAISE EXCEPTION 'ref "%" was rewritten', mirror_version.ref
			USING ERRCODE = 'UC506',
			DETAIL = format('The remote has it at %s now, which does not follow %s.',
				mirror_version.oid, last),
			HINT = 'Find out why; set_mirror() with rewrites follows it all the same.';
	END IF;
	r := gpucredit_registry.receive_version(m, mirror_version.ref, o.remote, o.repository,
		mirror_version.oid, mirror_version.files, mirror_version.detail,
		'mirror:' || o.remote);
	IF r.status = 'denied' THEN
		RETURN r;
	END IF;
	PERFORM gpucredit_registry.receive_ref(m, mirror_version.ref, mirror_version.tag, r.version,
		o.remote, mine, 'mirror:' || o.remote);
	INSERT INTO gpucredit_registry.mirror_ref
	VALUES (m.org, m.model, mirror_version.ref, mirror_version.oid, false, gpucredit.now())
	ON CONFLICT ON CONSTRAINT mirror_ref_pkey DO UPDATE
	SET oid = excluded.oid, gone = false, seen_at = excluded.seen_at;
	RETURN r;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.mirror_version(uuid, text, boolean, text, jsonb, jsonb, boolean) IS
'Mirror worker: brings the version that a ref of the remote has, and moves the ref. The same again changes nothing.
oid, files, detail: as import_version(). rewritten: the ref''s last commit that was seen is no ancestor of this one.
Result: as commit(). Errors: UC501 the claim has ended; UC506 the ref was rewritten, or is not the mirror''s; those of import_version().';

CREATE FUNCTION gpucredit_registry.report_mirror(claim uuid, error text DEFAULT NULL,
	refs text[] DEFAULT NULL, again boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c record;
	o gpucredit_registry.mirror;
	m gpucredit_registry.model;
BEGIN
	c := gpucredit_registry.require_claim(report_mirror.claim);
	o := c.o;
	m := c.m;
	UPDATE gpucredit_registry.mirror_ref f
	SET gone = f.ref <> ALL (report_mirror.refs), seen_at = gpucredit.now()
	WHERE f.org = o.org AND f.model = o.model AND report_mirror.refs IS NOT NULL
		AND f.gone <> (f.ref <> ALL (report_mirror.refs));
	UPDATE gpucredit_registry.mirror k
	SET claim = NULL, claimed_until = NULL, lease = NULL,
		failures = CASE WHEN report_mirror.error IS NULL THEN 0 ELSE k.failures END,
		last_error = left(report_mirror.error, 1000),
		synced_at = CASE WHEN report_mirror.error IS NULL AND NOT report_mirror.again
			THEN gpucredit.now() ELSE k.synced_at END,
		due_at = CASE WHEN report_mirror.error IS NOT NULL
				THEN gpucredit_registry.mirror_retry(k.failures)
			WHEN report_mirror.again THEN gpucredit.now()
			ELSE gpucredit.now() + k.every END
	WHERE k.org = o.org AND k.model = o.model
	RETURNING k.* INTO o;
	IF report_mirror.error IS NOT NULL THEN
		PERFORM gpucredit_registry.raise_alert(m.org, m.account, 'mirror', m.model::text,
			jsonb_build_object('model', m.model, 'name', m.name, 'remote', o.remote,
				'repository', o.repository, 'error', o.last_error));
		IF o.failures = 1 THEN
			PERFORM gpucredit_registry.record(m.org, 'mirror', 'mirror:' || o.remote,
				jsonb_build_object('model', m.model, 'error', o.last_error));
		END IF;
	END IF;
	RETURN CASE WHEN report_mirror.error IS NOT NULL THEN 'failing'
		WHEN report_mirror.again THEN 'waiting' ELSE 'synced' END;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.report_mirror(uuid, text, text[], boolean) IS
'Mirror worker: ends a claim. A mirror that failed is tried again after a minute, then after twice as long each time, and its owner gets an alert, once a day.
error: why it failed; NULL: it did not. refs: the refs that the remote has, of those that are mirrored; NULL: unknown. again: it is not done, and goes on when its turn comes.
Result: synced, waiting or failing. Errors: UC501 the claim has ended.';
