/*
 * 55_protect.sql: protected refs, which no commit moves.
 *
 * Only move_ref() moves a protected ref; a gate calls it.
 */
CREATE FUNCTION gpucredit_registry.find_revision(org text, name text, rev text,
	OUT model bigint, OUT version bigint, OUT oid text, OUT quarantined boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model;
	v gpucredit_registry.version;
BEGIN
	SELECT * INTO m FROM gpucredit_registry.model o
	WHERE o.org = find_revision.org AND o.kind = 'model' AND o.name = find_revision.name
		AND o.deleted_at IS NULL;
	IF FOUND THEN
		m := gpucredit_registry.own_model(m.org, m.model);
		v := gpucredit_registry.find_version(m, find_revision.rev);
	END IF;
	IF v.version IS NULL THEN
		PERFORM gpucredit_registry.not_found(format('revision "%s" of model "%s/%s"',
			left(find_revision.rev, 200), left(find_revision.org, 64), left(find_revision.name, 96)));
	END IF;
	find_revision.model := v.model;
	find_revision.version := v.version;
	find_revision.oid := v.oid;
	find_revision.quarantined := v.quarantined_at IS NOT NULL;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.find_revision(text, text, text) IS
'Repositories: the numbers and oid that a model''s name and revision stand for.
rev: a branch, tag or oid. Errors: UC501 no such model or revision, or its account is not the session''s.';

/*
 * The lines are those that sha256sum prints. No path has a character that it
 * would escape (check_path()).
 */
CREATE FUNCTION gpucredit_registry.folder_digest(org text, version bigint) RETURNS bytea
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version;
	lines text;
BEGIN
	SELECT * INTO v FROM gpucredit_registry.version o
	WHERE o.org = folder_digest.org AND o.version = folder_digest.version AND o.dropped_at IS NULL;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.not_found(format('version %s of "%s"', folder_digest.version,
			left(folder_digest.org, 64)));
	END IF;
	PERFORM gpucredit_registry.own_model(v.org, v.model);
	SELECT string_agg(encode(f.object, 'hex') || '  ./' || f.path || E'\n', '' ORDER BY f.path COLLATE "C")
	INTO lines
	FROM gpucredit_registry.file f WHERE f.org = v.org AND f.version = v.version;
	RETURN sha256(convert_to(coalesce(lines, ''), 'UTF8'));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.folder_digest(text, bigint) IS
'Repositories: the digest of a folder that has the files of a version and no other, as gpucredit-agent reports it of a checkpoint: the SHA-256 of the lines that sha256sum prints of its files, sorted by name.
Errors: UC501 no such version, its files were deleted, or its account is not the session''s.';

CREATE FUNCTION gpucredit_registry.check_protected(m gpucredit_registry.model, ref text,
	version bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF EXISTS (SELECT FROM gpucredit_registry.protected_ref p
		WHERE p.org = (m).org AND p.model = (m).model
			AND p.ref = coalesce(check_protected.ref, p.ref))
	THEN
		RAISE EXCEPTION 'a ref of "%/%" is protected', (m).org, (m).name
			USING ERRCODE = 'insufficient_privilege',
			DETAIL = format('It is "%s".', coalesce(check_protected.ref, 'one of several')),
			HINT = 'It moves by move_ref(), after a gate let the version pass.';
	END IF;
	PERFORM gpucredit_registry.check_immutable(m, check_protected.ref, check_protected.version);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.check_protected(gpucredit_registry.model, text, bigint) IS
'Internal: refuses to move a protected ref or an immutable tag to a version, or to delete it (42501); ref NULL: any of the repository.';

CREATE FUNCTION gpucredit_registry.check_movable(m gpucredit_registry.model, ref text,
	version bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_registry.check_protected(m, check_movable.ref, check_movable.version);
	IF EXISTS (SELECT FROM gpucredit_registry.mirror_ref r
		WHERE r.org = (m).org AND r.model = (m).model AND r.ref = check_movable.ref
			AND NOT r.gone)
	THEN
		RAISE EXCEPTION 'ref "%" of "%/%" is mirrored', check_movable.ref, (m).org, (m).name
			USING ERRCODE = 'insufficient_privilege',
			DETAIL = 'It moves only as the ref of the repository that it mirrors.',
			HINT = 'Use another branch, or end the mirror by delete_mirror().';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.check_movable(gpucredit_registry.model, text, bigint) IS
'Internal: refuses what check_protected() refuses, and to move or delete a ref that a mirror moves (42501).';

/* Moves a ref. The caller has locked the repository. */
CREATE FUNCTION gpucredit_registry.put_ref(m gpucredit_registry.model, ref text,
	version bigint, author text) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	INSERT INTO gpucredit_registry.ref
	VALUES ((m).org, (m).model, put_ref.ref, put_ref.version)
	ON CONFLICT ON CONSTRAINT ref_pkey DO UPDATE SET version = excluded.version;
	SELECT gpucredit_registry.record((m).org, 'set_ref', put_ref.author,
		jsonb_build_object('model', (m).model, 'ref', put_ref.ref, 'version', put_ref.version));
	SELECT gpucredit_registry.publish_model('ref_moved', (m).org, (m).model,
		jsonb_build_object('ref', put_ref.ref, 'version', put_ref.version));
END;
COMMENT ON FUNCTION gpucredit_registry.put_ref(gpucredit_registry.model, text, bigint, text) IS
'Internal: moves a ref to a version, and records it.';

CREATE FUNCTION gpucredit_registry.protect_ref(org text, model bigint, ref text,
	protected boolean DEFAULT true) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model := gpucredit_registry.own_model(protect_ref.org,
		protect_ref.model);
BEGIN
	PERFORM gpucredit_registry.check_any_ref(protect_ref.ref);
	/* Commits lock the repository, too, so none is in progress. */
	PERFORM gpucredit_registry.fence_model(m);
	IF protect_ref.protected THEN
		INSERT INTO gpucredit_registry.protected_ref
		VALUES (m.org, m.model, protect_ref.ref)
		ON CONFLICT DO NOTHING;
	ELSIF pg_has_role(coalesce(nullif(current_setting('role'), 'none'), session_user)::name,
		'gpucredit_admin', 'MEMBER')
	THEN
		DELETE FROM gpucredit_registry.protected_ref p
		WHERE p.org = m.org AND p.model = m.model AND p.ref = protect_ref.ref;
	ELSE
		RAISE EXCEPTION 'only a member of gpucredit_admin ends the protection of a ref'
			USING ERRCODE = 'insufficient_privilege',
			DETAIL = 'Its owner could else move what gates protect.',
			HINT = 'Ask an administrator.';
	END IF;
	PERFORM gpucredit_registry.record(m.org, 'protect_ref', NULL, jsonb_build_object('model',
		m.model, 'ref', protect_ref.ref, 'protected', protect_ref.protected));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.protect_ref(text, bigint, text, boolean) IS
'Rights: lets commits, branches and deletion no longer move a ref; false ends that, which takes gpucredit_admin.
Errors: UC501 no such repository; 42501; 22023.';

CREATE FUNCTION gpucredit_registry.move_ref(org text, model bigint, ref text, version bigint,
	key text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model := gpucredit_registry.own_model(move_ref.org, move_ref.model);
	v gpucredit_registry.version;
BEGIN
	PERFORM gpucredit_registry.check_any_ref(move_ref.ref);
	IF gpucredit_registry.request_begin(m.org, move_ref.key, 'move_ref',
		jsonb_build_array(m.model, move_ref.ref, move_ref.version)) IS NOT NULL
	THEN
		RETURN true;
	END IF;
	PERFORM gpucredit_registry.lock_model(m);
	/* A concurrent quarantine waits for this lock, or is visible here. */
	SELECT * INTO v FROM gpucredit_registry.version o
	WHERE o.org = m.org AND o.version = move_ref.version AND o.model = m.model
		AND o.dropped_at IS NULL
	FOR KEY SHARE;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.not_found(format('version %s of "%s/%s"', move_ref.version,
			m.org, m.name));
	END IF;
	PERFORM gpucredit_registry.refuse_read(v, CASE
		WHEN v.quarantined_at IS NOT NULL THEN 'quarantined'
		WHEN v.restricted_at IS NOT NULL THEN 'restricted' END);
	PERFORM gpucredit_registry.check_immutable(m, move_ref.ref, v.version);
	PERFORM gpucredit_registry.put_ref(m, move_ref.ref, v.version, NULL);
	PERFORM gpucredit_registry.request_end(m.org, move_ref.key, 'true');
	RETURN false;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.move_ref(text, bigint, text, bigint, text) IS
'Repositories: moves a ref, protected or not, to a version of its repository.
Result: whether the call was replayed. Errors: UC501 no such repository, or no such version that has its files; UC504 in quarantine or restricted; 42501 the tag is immutable; UC201 key used with other arguments; 22023.';
