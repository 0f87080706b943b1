/*
 * 58_retention.sql: which versions of a repository are removed, and which never
 * are: set_retention(), retention(), apply_retention(), use_version() and
 * set_legal_hold().
 *
 * A rule removes the files of a version that is neither among the newest nor
 * younger than it says, and that nobody read for a while, unless something
 * keeps the version:
 *
 *   branch, tag, alias, protected_ref  a ref that names it; tags that the rule
 *                   may remove do not count;
 *   immutable_tag   a tag that neither moves nor is deleted;
 *   job             a job of the organisation that has said by use_version()
 *                   that it uses it, and is not over. What another one's job
 *                   says counts as a read on that day: who may read a version
 *                   must not keep it, at the owner's cost, by a job that never
 *                   ends;
 *   legal_hold      an operator;
 *   quarantine      it is in quarantine or restricted, and may be evidence.
 *
 * What keeps an index of images keeps the images that it names. All that keeps
 * a version is changed under the lock of its repository, which is held while a
 * rule is applied.
 */
CREATE TABLE gpucredit_registry.retention_rule (
	org text COLLATE "C" NOT NULL,
	model bigint NOT NULL,
	keep_last integer CHECK (keep_last >= 0),
	keep_for interval,
	keep_read interval NOT NULL,
	prune_tags text COLLATE "C",	/* pattern of tags that keep nothing */
	applied_at timestamptz NOT NULL,	/* or when it was set */
	CONSTRAINT retention_rule_pkey PRIMARY KEY (org, model),
	CONSTRAINT retention_rule_keeps CHECK (num_nonnulls(keep_last, keep_for) > 0),
	FOREIGN KEY (org, model) REFERENCES gpucredit_registry.model
);
CREATE INDEX retention_rule_applied ON gpucredit_registry.retention_rule (applied_at);
COMMENT ON TABLE gpucredit_registry.retention_rule IS
'Which versions of a repository are removed, and when that was last done';

CREATE TABLE gpucredit_registry.legal_hold (
	org text COLLATE "C" NOT NULL,
	version bigint NOT NULL,
	reason text NOT NULL,
	held_by text NOT NULL,
	held_at timestamptz NOT NULL,
	CONSTRAINT legal_hold_pkey PRIMARY KEY (org, version),
	FOREIGN KEY (org, version) REFERENCES gpucredit_registry.version
);
COMMENT ON TABLE gpucredit_registry.legal_hold IS
'Versions that nobody may remove';

CREATE TABLE gpucredit_registry.version_use (
	org text COLLATE "C" NOT NULL,
	version bigint NOT NULL,
	job_org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	CONSTRAINT version_use_pkey PRIMARY KEY (org, version, job_org, job),
	FOREIGN KEY (org, version) REFERENCES gpucredit_registry.version
);
COMMENT ON TABLE gpucredit_registry.version_use IS
'Jobs that use a version, which stays until they are over';

/* Returns what keeps the versions of a repository, whatever its rule says. */
CREATE FUNCTION gpucredit_registry.keepers(m gpucredit_registry.model)
RETURNS TABLE (version bigint, reason text, ref text)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT r.version, CASE
			WHEN EXISTS (SELECT FROM gpucredit_registry.protected_ref p
				WHERE p.org = r.org AND p.model = r.model AND p.ref = r.ref) THEN 'protected_ref'
			WHEN starts_with(r.ref, '@') THEN 'alias'
			WHEN gpucredit_registry.is_tag((m).kind, r) THEN 'tag'
			ELSE 'branch' END, r.ref::text
	FROM gpucredit_registry.ref r
	WHERE r.org = (m).org AND r.model = (m).model
		AND NOT ((m).kind = 'image' AND starts_with(r.ref, 'sha256/'))
	UNION ALL
	SELECT t.version, 'immutable_tag', t.tag FROM gpucredit_registry.immutable_tags(m) t
	UNION ALL
	SELECT v.version, k.reason, NULL
	FROM gpucredit_registry.version v,
		LATERAL (
			SELECT 'legal_hold' AS reason FROM gpucredit_registry.legal_hold h
			WHERE h.org = v.org AND h.version = v.version
			UNION ALL
			SELECT 'job' FROM gpucredit_registry.version_use u
				JOIN gpucredit.job j ON j.org = u.job_org AND j.job = u.job
			WHERE u.org = v.org AND u.version = v.version AND j.ended_at IS NULL
			UNION ALL
			SELECT 'quarantine' WHERE num_nonnulls(v.quarantined_at, v.restricted_at) > 0) k
	WHERE v.org = (m).org AND v.model = (m).model;
END;
COMMENT ON FUNCTION gpucredit_registry.keepers(gpucredit_registry.model) IS
'Internal: what keeps which versions of a repository.';

/*
 * Whether a version was read so lately that a rule keeps it. Only the day of the
 * last read is known, so it counts as read until that day ended.
 */
CREATE FUNCTION gpucredit_registry.is_read(read_on date, rule gpucredit_registry.retention_rule)
RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT (rule).keep_read > '0'
		AND is_read.read_on + 1 > (gpucredit.now() - (rule).keep_read) AT TIME ZONE 'UTC';
END;
COMMENT ON FUNCTION gpucredit_registry.is_read(date, gpucredit_registry.retention_rule) IS
'Internal: does a read on this day keep a version?';

/*
 * Returns the versions of a repository that have their files, and what keeps
 * each; NULL if the rule removes it.
 */
CREATE FUNCTION gpucredit_registry.plan_retention(m gpucredit_registry.model,
	rule gpucredit_registry.retention_rule)
RETURNS TABLE (version bigint, oid text, created_at timestamptz, files bigint, kept_by text)
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH RECURSIVE
	kept AS (
		SELECT k.version, k.reason
		FROM gpucredit_registry.keepers(m) k
		WHERE NOT (k.reason = 'tag' AND (rule).prune_tags IS NOT NULL
			AND k.ref ~ gpucredit_registry.pattern_regex((rule).prune_tags))
		UNION ALL
		SELECT l.version, 'newest'
		FROM (SELECT v.version FROM gpucredit_registry.version v
			WHERE v.org = (m).org AND v.model = (m).model AND v.dropped_at IS NULL
			ORDER BY v.version DESC LIMIT coalesce((rule).keep_last, 0)) l
		UNION ALL
		SELECT v.version, CASE WHEN v.created_at > gpucredit.now() - (rule).keep_for THEN 'recent'
			ELSE 'read' END
		FROM gpucredit_registry.version v
		WHERE v.org = (m).org AND v.model = (m).model
			AND (v.created_at > gpucredit.now() - (rule).keep_for
				OR gpucredit_registry.is_read(v.read_on, rule))),
	whole AS (
		SELECT k.version, k.reason FROM kept k
		UNION
		SELECT p.part, w.reason
		FROM whole w, gpucredit_registry.image_parts(m, w.version) AS p (part))
	SELECT v.version, v.oid, v.created_at, v.files,
		string_agg(DISTINCT w.reason, ', ' ORDER BY w.reason)
	FROM gpucredit_registry.version v LEFT JOIN whole w USING (version)
	WHERE v.org = (m).org AND v.model = (m).model AND v.dropped_at IS NULL
	GROUP BY v.version, v.oid, v.created_at, v.files;
END;
COMMENT ON FUNCTION gpucredit_registry.plan_retention(gpucredit_registry.model, gpucredit_registry.retention_rule) IS
'Internal: what a rule keeps and removes.';

/* Raises an error if a version may not be removed by anybody; NULL: any. */
CREATE FUNCTION gpucredit_registry.check_held(m gpucredit_registry.model, version bigint)
RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	held bigint := (SELECT min(h.version) FROM gpucredit_registry.legal_hold h
			JOIN gpucredit_registry.version v USING (org, version)
		WHERE v.org = (m).org AND v.model = (m).model
			AND v.version = coalesce(check_held.version, v.version));
BEGIN
	IF held IS NOT NULL THEN
		RAISE EXCEPTION 'version % of "%/%" is under a legal hold', held, (m).org, (m).name
			USING ERRCODE = 'insufficient_privilege',
			DETAIL = 'Nobody may remove it.',
			HINT = 'Ask an operator.';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.check_held(gpucredit_registry.model, bigint) IS
'Internal: refuses to remove what is under a legal hold (42501).';

/* Applies a rule. The caller has locked the repository. */
CREATE FUNCTION gpucredit_registry.prune(m gpucredit_registry.model,
	rule gpucredit_registry.retention_rule) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	p record;
	n bigint := 0;
BEGIN
	FOR p IN
		SELECT r.version FROM gpucredit_registry.plan_retention(m, rule) r
		WHERE r.kept_by IS NULL
		ORDER BY r.version
		LIMIT 1000
	LOOP
		/*
		 * A quarantine locks versions of many repositories, and none of the
		 * repositories. To wait for it here could be a deadlock, so a version
		 * that it has locked is passed over, and looked at again when the rule
		 * is next applied. So is one that somebody begins to read, or has read
		 * since the rule was looked up: readers do not lock the repository.
		 */
		PERFORM FROM gpucredit_registry.version v
		WHERE v.org = (m).org AND v.version = p.version
			AND num_nonnulls(v.quarantined_at, v.restricted_at) = 0
			AND gpucredit_registry.is_read(v.read_on, rule) IS NOT TRUE
		FOR UPDATE SKIP LOCKED;
		CONTINUE WHEN NOT FOUND;
		DELETE FROM gpucredit_registry.ref r
		WHERE r.org = (m).org AND r.model = (m).model AND r.version = p.version;
		DELETE FROM gpucredit_registry.scan s WHERE s.org = (m).org AND s.version = p.version;
		PERFORM gpucredit_registry.drop_files((m).org, p.version),
			gpucredit_registry.record((m).org, 'prune', NULL, jsonb_build_object('model',
				(m).model, 'version', p.version));
		n := n + 1;
	END LOOP;
	IF n > 0 THEN
		PERFORM gpucredit_registry.publish_model('pruned', (m).org, (m).model,
			jsonb_build_object('versions', n));
	END IF;
	UPDATE gpucredit_registry.retention_rule r SET applied_at = gpucredit.now()
	WHERE r.org = (m).org AND r.model = (m).model AND n < 1000;
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.prune(gpucredit_registry.model, gpucredit_registry.retention_rule) IS
'Internal: removes the files of at most 1,000 versions that a rule does not keep; returns how many.';

CREATE FUNCTION gpucredit_registry.set_retention(org text, model bigint,
	keep_last integer DEFAULT NULL, keep_for interval DEFAULT NULL,
	keep_read interval DEFAULT '7 days', prune_tags text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model := gpucredit_registry.own_model(set_retention.org,
		set_retention.model);
BEGIN
	IF set_retention.keep_last NOT BETWEEN 0 AND 1000000
		OR set_retention.keep_for NOT BETWEEN '0' AND '36600 days'
		OR coalesce(set_retention.keep_read, '-1 s') NOT BETWEEN '0' AND '36600 days'
		OR num_nonnulls(set_retention.keep_last, set_retention.keep_for) = 0
	THEN
		PERFORM gpucredit_registry.refuse('keep_last is 0 to 1,000,000, keep_for and keep_read are 0 to 36,600 days',
			'One of keep_last and keep_for says what is kept.');
	END IF;
	IF set_retention.prune_tags IS NOT NULL THEN
		PERFORM gpucredit_registry.pattern_regex(set_retention.prune_tags);
	END IF;
	PERFORM gpucredit_registry.lock_model(m);
	IF EXISTS (SELECT FROM gpucredit_registry.retention_rule r
		WHERE r.org = m.org AND r.model = m.model
			AND (r.keep_last, r.keep_for, r.keep_read, r.prune_tags) IS NOT DISTINCT FROM
				(set_retention.keep_last, set_retention.keep_for, set_retention.keep_read,
				set_retention.prune_tags))
	THEN
		RETURN;					/* its day goes on */
	END IF;
	INSERT INTO gpucredit_registry.retention_rule
	VALUES (m.org, m.model, set_retention.keep_last, set_retention.keep_for,
		set_retention.keep_read, set_retention.prune_tags, gpucredit.now())
	ON CONFLICT ON CONSTRAINT retention_rule_pkey DO UPDATE
	SET keep_last = excluded.keep_last, keep_for = excluded.keep_for,
		keep_read = excluded.keep_read, prune_tags = excluded.prune_tags,
		applied_at = excluded.applied_at;
	PERFORM gpucredit_registry.record(m.org, 'set_retention', NULL, jsonb_build_object(
		'model', m.model, 'keep_last', set_retention.keep_last, 'keep_for',
		set_retention.keep_for, 'keep_read', set_retention.keep_read, 'prune_tags',
		set_retention.prune_tags));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.set_retention(text, bigint, integer, interval, interval, text) IS
'Repositories: the files of old versions are removed once a day, from a day after this call on. retention() shows before which ones. A version stays if it is among the newest, or younger, or was read lately, or if a branch, a tag, an alias, a job, a legal hold or a quarantine keeps it.
keep_last: so many of the newest. keep_for: those younger than that. One of both is needed. keep_read: those read within that time, of which the day (UTC) counts until its end; 0: reading keeps nothing. The same again changes nothing. prune_tags: a pattern, as of set_immutable_tags, of tags that do not keep their version and go with it; NULL: all tags keep theirs.
Errors: UC501 no such repository; 22023.';

CREATE FUNCTION gpucredit_registry.delete_retention(org text, model bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model := gpucredit_registry.own_model(delete_retention.org,
		delete_retention.model);
BEGIN
	PERFORM gpucredit_registry.lock_model(m);
	DELETE FROM gpucredit_registry.retention_rule r WHERE r.org = m.org AND r.model = m.model;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	PERFORM gpucredit_registry.record(m.org, 'delete_retention', NULL,
		jsonb_build_object('model', m.model));
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.delete_retention(text, bigint) IS
'Repositories: no version of a repository is removed any more.
Result: whether it had a rule. Errors: UC501 no such repository.';

CREATE FUNCTION gpucredit_registry.retention(org text, model bigint)
RETURNS TABLE (version bigint, oid text, created_at timestamptz, files bigint, kept_by text)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model := gpucredit_registry.own_model(retention.org, retention.model);
	rule gpucredit_registry.retention_rule;
BEGIN
	SELECT * INTO rule FROM gpucredit_registry.retention_rule r
	WHERE r.org = m.org AND r.model = m.model;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.not_found(format('a retention of "%s/%s"', m.org, m.name));
	END IF;
	RETURN QUERY SELECT p.* FROM gpucredit_registry.plan_retention(m, rule) p ORDER BY p.version;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.retention(text, bigint) IS
'Repositories: what the rule of a repository would do now, and changes nothing: its versions, oldest first, and what keeps each.
Result: kept_by: of newest, recent, read, branch, tag, alias, protected_ref, immutable_tag, job, legal_hold and quarantine those that keep it; NULL: it would be removed.
Errors: UC501 no such repository, or it has no rule.';

CREATE FUNCTION gpucredit_registry.apply_retention(org text, model bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model := gpucredit_registry.own_model(apply_retention.org,
		apply_retention.model);
	rule gpucredit_registry.retention_rule;
BEGIN
	PERFORM gpucredit_registry.require_read_committed('apply_retention()');
	PERFORM gpucredit_registry.lock_model(m);
	SELECT * INTO rule FROM gpucredit_registry.retention_rule r
	WHERE r.org = m.org AND r.model = m.model;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.not_found(format('a retention of "%s/%s"', m.org, m.name));
	END IF;
	RETURN gpucredit_registry.prune(m, rule);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.apply_retention(text, bigint) IS
'Repositories: does at once what retention() shows, for at most 1,000 versions. A version whose files were removed stays in lineage.
Result: how many versions were removed. Errors: UC501 no such repository, or it has no rule; 25001 above READ COMMITTED.';

/* Applies the rules that were not applied for a day; returns how many versions went. */
CREATE FUNCTION gpucredit_registry.apply_retentions(max integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	due gpucredit_registry.retention_rule;
	rule gpucredit_registry.retention_rule;
	m gpucredit_registry.model;
	n bigint := 0;
BEGIN
	FOR due IN
		SELECT * FROM gpucredit_registry.retention_rule r
		WHERE r.applied_at <= gpucredit.now() - interval '1 day'
		ORDER BY r.applied_at
		LIMIT apply_retentions.max
	LOOP
		SELECT * INTO m FROM gpucredit_registry.model o
		WHERE o.org = due.org AND o.model = due.model AND o.deleted_at IS NULL
		FOR NO KEY UPDATE SKIP LOCKED;
		CONTINUE WHEN NOT FOUND;
		SELECT * INTO rule FROM gpucredit_registry.retention_rule r
		WHERE r.org = m.org AND r.model = m.model
			AND r.applied_at <= gpucredit.now() - interval '1 day';
		CONTINUE WHEN NOT FOUND;
		n := n + gpucredit_registry.prune(m, rule);
		EXIT WHEN n >= apply_retentions.max;
	END LOOP;
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.apply_retentions(integer) IS
'Internal: applies the rules that are due, so many at most; returns how many versions were removed.';

CREATE FUNCTION gpucredit_registry.set_legal_hold(org text, version bigint, reason text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version := gpucredit_registry.own_version(set_legal_hold.org,
		set_legal_hold.version);
BEGIN
	IF coalesce(octet_length(set_legal_hold.reason), 0) NOT BETWEEN 1 AND 1000 THEN
		PERFORM gpucredit_registry.refuse('reason must have 1 to 1,000 bytes',
			'Whoever is asked later learns from it why the version is kept.');
	END IF;
	PERFORM gpucredit_registry.fence_model(m) FROM gpucredit_registry.model m
	WHERE m.org = v.org AND m.model = v.model;
	PERFORM FROM gpucredit_registry.version o
	WHERE o.org = v.org AND o.version = v.version AND o.dropped_at IS NULL
	FOR KEY SHARE;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.not_found(format('version %s of "%s"', v.version, v.org));
	END IF;
	INSERT INTO gpucredit_registry.legal_hold
	VALUES (v.org, v.version, set_legal_hold.reason, session_user, gpucredit.now())
	ON CONFLICT DO NOTHING;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	PERFORM gpucredit_registry.record(v.org, 'set_legal_hold', NULL, jsonb_build_object(
		'version', v.version, 'reason', set_legal_hold.reason));
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.set_legal_hold(text, bigint, text) IS
'Repositories: nobody removes the version, by retention or otherwise, nor its repository, until lift_legal_hold().
reason: 1 to 1,000 bytes. Result: whether it was not held before. Errors: UC501 no such version that has its files; 22023.';

CREATE FUNCTION gpucredit_registry.lift_legal_hold(org text, version bigint, reason text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	DELETE FROM gpucredit_registry.legal_hold h
	WHERE h.org = lift_legal_hold.org AND h.version = lift_legal_hold.version;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	PERFORM gpucredit_registry.record(lift_legal_hold.org, 'lift_legal_hold', NULL,
		jsonb_build_object('version', lift_legal_hold.version, 'reason', lift_legal_hold.reason));
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.lift_legal_hold(text, bigint, text) IS
'Repositories: ends a legal hold; the reason is in the event log.
Result: whether there was one.';

CREATE FUNCTION gpucredit_registry.use_version(org text, version bigint, job_org text,
	job bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	of_account text;
	today date;
	v gpucredit_registry.version;
BEGIN
	SELECT j.account INTO of_account FROM gpucredit.job j
	WHERE j.org = use_version.job_org AND j.job = use_version.job AND j.ended_at IS NULL;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.not_found(format('a job %s of "%s" that is not over',
			use_version.job, left(use_version.job_org, 64)));
	END IF;
	PERFORM gpucredit_registry.check_account(use_version.job_org, of_account);
	SELECT * INTO v FROM gpucredit_registry.version o
	WHERE o.org = use_version.org AND o.version = use_version.version;
	PERFORM FROM gpucredit_registry.model o
	WHERE o.org = v.org AND o.model = v.model FOR NO KEY UPDATE;
	IF gpucredit_registry.permission_of(v.org, v.model,
			(use_version.job_org, of_account, 'read')) IS NULL
		OR EXISTS (SELECT FROM gpucredit_registry.version o
			WHERE o.org = v.org AND o.version = v.version AND o.dropped_at IS NOT NULL)
	THEN
		PERFORM gpucredit_registry.not_found(format('version %s of "%s"', use_version.version,
			left(use_version.org, 64)));
	END IF;
	IF use_version.job_org <> v.org THEN
		today := (gpucredit.now() AT TIME ZONE 'UTC')::date;
		UPDATE gpucredit_registry.version o SET read_on = today
		WHERE o.org = v.org AND o.version = v.version AND (o.read_on < today OR o.read_on IS NULL);
		RETURN;
	END IF;
	DELETE FROM gpucredit_registry.version_use u
	USING gpucredit.job j
	WHERE u.org = v.org AND u.version = v.version AND j.org = u.job_org AND j.job = u.job
		AND j.ended_at IS NOT NULL;
	INSERT INTO gpucredit_registry.version_use
	VALUES (v.org, v.version, use_version.job_org, use_version.job)
	ON CONFLICT DO NOTHING;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.use_version(text, bigint, text, bigint) IS
'Repositories: a job uses a version that its account may read, so no retention removes it before the job is over; the same again changes nothing. Of a job of another organisation than the version''s it counts as a read on this day, which keeps the version for keep_read of its rule: such a job calls again each day.
Errors: UC501 no such job that is not over, or no such version, or not for its account; UC001.';
