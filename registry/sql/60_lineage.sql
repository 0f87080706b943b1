/*
 * 60_lineage.sql: the versions that a version was made from, and quarantine.
 *
 * A version that is being committed has no descendants, so its edges cannot
 * close a cycle. Edges that are added later are serialized, and the parent's
 * ancestors are checked each time. To serialize them, each call updates one
 * row: with REPEATABLE READ, the update fails if another edge was added since
 * the snapshot.
 */
CREATE TABLE gpucredit_registry.lineage_turn (
	turn bigint NOT NULL
);
INSERT INTO gpucredit_registry.lineage_turn VALUES (0);
COMMENT ON TABLE gpucredit_registry.lineage_turn IS
'One row, which whoever adds an edge between existing versions locks';

/*
 * Returns all versions below or above one, level by level, each once with its
 * smallest depth. Numbers of versions are unique across organisations, so the
 * search compares only these.
 */
CREATE FUNCTION gpucredit_registry.related(version bigint, down boolean)
RETURNS TABLE (related bigint, depth integer)
LANGUAGE plpgsql STABLE ROWS 1000
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	level bigint[] := ARRAY[related.version];
	seen bigint[] := level;
BEGIN
	depth := 0;
	LOOP
		depth := depth + 1;
		IF down THEN
			SELECT array_agg(n.child) INTO level
			FROM (SELECT e.child
				FROM unnest(level) AS f (version)
					JOIN gpucredit_registry.edge e ON e.parent = f.version
				EXCEPT SELECT unnest(seen)) n;
		ELSE
			SELECT array_agg(n.parent) INTO level
			FROM (SELECT e.parent
				FROM unnest(level) AS f (version)
					JOIN gpucredit_registry.edge e ON e.child = f.version
				EXCEPT SELECT unnest(seen)) n;
		END IF;
		EXIT WHEN level IS NULL;
		seen := seen || level;
		RETURN QUERY SELECT unnest(level), depth;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.related(bigint, boolean) IS
'Internal: all descendants or ancestors of a version, each once, with its least depth.';

CREATE FUNCTION gpucredit_registry.lineage(org text, version bigint, down boolean)
RETURNS TABLE (related_org text, model text, related bigint, oid text, depth integer,
	kind text, quarantined boolean)
LANGUAGE plpgsql STABLE ROWS 1000
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM gpucredit_registry.version v
		WHERE v.org = lineage.org AND v.version = lineage.version)
	THEN
		PERFORM gpucredit_registry.not_found(format('version %s of "%s"', lineage.version,
			left(lineage.org, 64)));
	END IF;
	/* Most have a single kind, which is determined without sorting. */
	RETURN QUERY
	SELECT v.org, m.name, v.version, v.oid, r.depth,
		(SELECT CASE WHEN min(e.kind) = max(e.kind) THEN min(e.kind)
				ELSE (SELECT string_agg(DISTINCT o.kind, ', ') FROM gpucredit_registry.edge o
					WHERE o.child_org = v.org AND o.child = v.version) END
			FROM gpucredit_registry.edge e
			WHERE e.child_org = v.org AND e.child = v.version),
		v.quarantined_at IS NOT NULL
	FROM gpucredit_registry.related(lineage.version, down) r
		JOIN gpucredit_registry.version v ON v.version = r.related
		JOIN gpucredit_registry.model m ON m.org = v.org AND m.model = v.model
	ORDER BY r.depth, v.org, v.version;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.lineage(text, bigint, boolean) IS
'Internal: as related, with names.';

CREATE FUNCTION gpucredit_registry.descendants(org text, version bigint)
RETURNS TABLE (child_org text, model text, child bigint, oid text, depth integer,
	kind text, quarantined boolean)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 1000
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT * FROM gpucredit_registry.lineage(descendants.org, descendants.version, true);
END;
COMMENT ON FUNCTION gpucredit_registry.descendants(text, bigint) IS
'Lineage: all versions, of any organisation, that were made from a version, directly or not; each once.
Result: depth: the fewest steps. kind: fine_tune, adapter, quantized, merge: how it was made from its parents.
Errors: UC501 no such version.';

CREATE FUNCTION gpucredit_registry.ancestors(org text, version bigint)
RETURNS TABLE (parent_org text, model text, parent bigint, oid text, depth integer,
	kind text, quarantined boolean)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 1000
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT * FROM gpucredit_registry.lineage(ancestors.org, ancestors.version, false);
END;
COMMENT ON FUNCTION gpucredit_registry.ancestors(text, bigint) IS
'Lineage: all versions that a version was made from, directly or not; each once.
Result: as descendants. Errors: UC501 no such version.';

/*
 * Adds an edge. The parent is locked against a concurrent quarantine, which
 * either sees the edge, or is visible here; in that case the child is put into
 * quarantine, too.
 */
CREATE FUNCTION gpucredit_registry.add_edge(org text, child bigint, parent_org text,
	parent bigint, kind text, fresh boolean) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	p gpucredit_registry.version;
BEGIN
	IF coalesce(add_edge.kind, '') NOT IN ('fine_tune', 'adapter', 'quantized', 'merge') THEN
		PERFORM gpucredit_registry.refuse('a parent''s kind is fine_tune, adapter, quantized or merge',
			format('It is "%s".', left(add_edge.kind, 64)));
	END IF;
	IF NOT add_edge.fresh THEN
		UPDATE gpucredit_registry.lineage_turn SET turn = turn + 1;
	END IF;
	SELECT * INTO p FROM gpucredit_registry.version v
	WHERE v.org = add_edge.parent_org AND v.version = add_edge.parent
	FOR KEY SHARE;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.not_found(format('version %s of "%s"', add_edge.parent,
			left(add_edge.parent_org, 64)));
	END IF;
	IF (add_edge.parent_org, add_edge.parent) = (add_edge.org, add_edge.child)
		OR (NOT add_edge.fresh AND EXISTS (
			SELECT FROM gpucredit_registry.related(add_edge.parent, false) a
			WHERE a.related = add_edge.child))
	THEN
		RAISE EXCEPTION 'version % of "%" would be its own ancestor', add_edge.child, add_edge.org
			USING ERRCODE = 'UC505',
			DETAIL = format('Version %s of "%s" was made from it.', add_edge.parent,
				add_edge.parent_org),
			HINT = 'Lineage has no cycles; name the version that it was really made from.';
	END IF;
	INSERT INTO gpucredit_registry.edge
	VALUES (add_edge.parent_org, add_edge.parent, add_edge.org, add_edge.child, add_edge.kind)
	ON CONFLICT DO NOTHING;
	IF p.quarantined_at IS NOT NULL THEN
		IF NOT add_edge.fresh THEN
			PERFORM gpucredit_registry.require_read_committed('quarantine of descendants');
		END IF;
		PERFORM gpucredit_registry.set_quarantine(add_edge.org, add_edge.child,
			'made from one in quarantine: ' || p.quarantine_reason);
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.add_edge(text, bigint, text, bigint, text, boolean) IS
'Internal: a version was made from another; fresh: it is being committed. Errors: UC501, UC505, 22023.';

/* Tells the owners of repositories, once for each, which versions nobody may read. */
CREATE FUNCTION gpucredit_registry.publish_quarantine(versions bigint[], reason text)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	q record;
BEGIN
	FOR q IN
		SELECT m.org, m.account, m.model, m.name, v.first, v.n
		FROM (SELECT o.org, o.model, min(o.version) AS first, count(*) AS n
			FROM gpucredit_registry.version o
			WHERE o.version = ANY (publish_quarantine.versions)
			GROUP BY o.org, o.model) v
			JOIN gpucredit_registry.model m USING (org, model)
		ORDER BY m.org, v.first
	LOOP
		PERFORM gpucredit_registry.raise_alert(q.org, q.account, 'quarantine', q.first::text,
			jsonb_build_object('model', q.model, 'name', q.name, 'version', q.first,
				'versions', q.n, 'reason', publish_quarantine.reason));
		PERFORM gpucredit_registry.publish_model('quarantined', q.org, q.model,
			jsonb_build_object('version', q.first, 'versions', q.n,
				'reason', publish_quarantine.reason));
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.publish_quarantine(bigint[], text) IS
'Internal: alerts the owners that versions were put into quarantine, and publishes it.';

/*
 * Puts a version and its descendants into quarantine. Each version is locked
 * against children that are being added, and then its children are read again,
 * so statements must see what others have committed. A version that is being
 * committed has no children.
 */
CREATE FUNCTION gpucredit_registry.set_quarantine(org text, version bigint, reason text)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
	n bigint := 0;
	added bigint;
	changed bigint[] := '{}';
BEGIN
	/*
	 * Repeat until no new children appear, as one may be committed in the
	 * meantime.
	 */
	LOOP
		added := 0;
		FOR r IN
			SELECT set_quarantine.org AS o, set_quarantine.version AS v
			UNION ALL
			SELECT v.org, v.version
			FROM gpucredit_registry.related(set_quarantine.version, true) d
				JOIN gpucredit_registry.version v ON v.version = d.related
			ORDER BY 2
		LOOP
			PERFORM FROM gpucredit_registry.version v
			WHERE v.org = r.o AND v.version = r.v FOR UPDATE;
			UPDATE gpucredit_registry.version v
			SET quarantined_at = gpucredit.now(), quarantine_reason = set_quarantine.reason
			WHERE v.org = r.o AND v.version = r.v AND v.quarantined_at IS NULL;
			IF FOUND THEN
				added := added + 1;
				changed := changed || r.v;
				PERFORM gpucredit_registry.record(r.o, 'quarantine', NULL,
					jsonb_build_object('version', r.v, 'reason', set_quarantine.reason));
			END IF;
		END LOOP;
		EXIT WHEN added = 0;
		n := n + added;
	END LOOP;
	PERFORM gpucredit_registry.publish_quarantine(changed, set_quarantine.reason);
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.set_quarantine(text, bigint, text) IS
'Internal: puts a version and all below it into quarantine.';

CREATE FUNCTION gpucredit_registry.version_number(word text) RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN version_number.word ~ '^[0-9]{1,18}$' THEN version_number.word::bigint END;
COMMENT ON FUNCTION gpucredit_registry.version_number(text) IS
'Internal: the number that a client wrote, or NULL.';

CREATE FUNCTION gpucredit_registry.add_parents(org text, version bigint,
	head bigint, parents jsonb, caller gpucredit_registry.caller) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	p jsonb;
	v gpucredit_registry.version;
BEGIN
	/* All of them are locked in order, as a quarantine does. */
	PERFORM FROM gpucredit_registry.version o
	WHERE o.version IN (SELECT e.parent FROM gpucredit_registry.edge e
			WHERE e.child_org = add_parents.org AND e.child = add_parents.head
		UNION SELECT n.version
			FROM jsonb_array_elements(add_parents.parents) q
				JOIN gpucredit_registry.version n
					ON n.version = gpucredit_registry.version_number(q ->> 'version')
			WHERE gpucredit_registry.permission_of(n.org, n.model, add_parents.caller)
				IS NOT NULL)
	ORDER BY o.version FOR KEY SHARE;
	FOR p IN SELECT jsonb_array_elements(add_parents.parents) LOOP
		SELECT * INTO v FROM gpucredit_registry.version o
		WHERE o.org = p ->> 'org'
			AND o.version = gpucredit_registry.version_number(p ->> 'version');
		IF gpucredit_registry.permission_of(v.org, v.model, add_parents.caller) IS NULL THEN
			PERFORM gpucredit_registry.not_found(format('version %s of "%s"',
				left(p ->> 'version', 64), left(p ->> 'org', 64)));
		END IF;
		PERFORM gpucredit_registry.add_edge(add_parents.org, add_parents.version, v.org,
			v.version, coalesce(p ->> 'kind', 'fine_tune'), true);
	END LOOP;
	/*
	 * A new version inherits the parents of the version before it, and its
	 * quarantine.
	 */
	INSERT INTO gpucredit_registry.edge
	SELECT e.parent_org, e.parent, add_parents.org, add_parents.version, e.kind
	FROM gpucredit_registry.edge e
	WHERE e.child_org = add_parents.org AND e.child = add_parents.head
	ON CONFLICT DO NOTHING;
	IF EXISTS (SELECT FROM gpucredit_registry.edge e
			JOIN gpucredit_registry.version o ON o.org = e.parent_org AND o.version = e.parent
		WHERE e.child_org = add_parents.org AND e.child = add_parents.version
			AND o.quarantined_at IS NOT NULL)
	THEN
		PERFORM gpucredit_registry.set_quarantine(add_parents.org, add_parents.version,
			'made from one in quarantine');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.add_parents(text, bigint, bigint, jsonb, gpucredit_registry.caller) IS
'Internal: the lineage of a version that is being committed.';

CREATE FUNCTION gpucredit_registry.add_parent(org text, version bigint,
	parent_org text, parent bigint, kind text DEFAULT 'fine_tune') RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version;
	m gpucredit_registry.model;
	o gpucredit_registry.version;
BEGIN
	SELECT * INTO v FROM gpucredit_registry.version c
	WHERE c.org = add_parent.org AND c.version = add_parent.version;
	m := gpucredit_registry.own_model(add_parent.org, v.model);
	SELECT * INTO o FROM gpucredit_registry.version c
	WHERE c.org = add_parent.parent_org AND c.version = add_parent.parent;
	IF gpucredit_registry.permission_of(o.org, o.model, (m.org, m.account, 'read')) IS NULL THEN
		PERFORM gpucredit_registry.not_found(format('version %s of "%s"', add_parent.parent,
			left(add_parent.parent_org, 64)));
	END IF;
	PERFORM gpucredit_registry.add_edge(add_parent.org, add_parent.version,
		add_parent.parent_org, add_parent.parent, add_parent.kind, false);
	PERFORM gpucredit_registry.record(add_parent.org, 'add_parent', NULL,
		jsonb_build_object('version', add_parent.version, 'parent_org', add_parent.parent_org,
			'parent', add_parent.parent, 'kind', add_parent.kind));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.add_parent(text, bigint, text, bigint, text) IS
'Lineage: says what a version was made from; the same again changes nothing.
kind: fine_tune, adapter, quantized or merge.
Errors: UC501 no such version, or the parent may not be read; UC505 it would be its own ancestor; 22023.';

CREATE FUNCTION gpucredit_registry.quarantine(org text, version bigint, reason text,
	key text, descendants boolean DEFAULT false, files text[] DEFAULT NULL,
	OUT quarantined bigint, OUT replayed boolean, OUT blocked bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	kept jsonb;
	named gpucredit_registry.version;
BEGIN
	IF coalesce(octet_length(quarantine.reason), 0) NOT BETWEEN 1 AND 1000 THEN
		PERFORM gpucredit_registry.refuse('reason must have 1 to 1,000 bytes',
			'Readers see the reason of the refusal.');
	END IF;
	kept := gpucredit_registry.request_begin(quarantine.org, quarantine.key, 'quarantine',
		jsonb_build_array(quarantine.version, quarantine.reason, quarantine.descendants,
			quarantine.files));
	quarantine.replayed := kept IS NOT NULL;
	IF quarantine.replayed THEN
		quarantine.quarantined := kept -> 0;
		quarantine.blocked := kept -> 1;
		RETURN;
	END IF;
	SELECT * INTO named FROM gpucredit_registry.version v
	WHERE v.org = quarantine.org AND v.version = quarantine.version FOR UPDATE;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.not_found(format('version %s of "%s"', quarantine.version,
			left(quarantine.org, 64)));
	END IF;
	IF quarantine.descendants THEN
		PERFORM gpucredit_registry.require_read_committed('quarantine of descendants');
		quarantine.quarantined := gpucredit_registry.set_quarantine(quarantine.org,
			quarantine.version, quarantine.reason);
	ELSE
		UPDATE gpucredit_registry.version v
		SET quarantined_at = gpucredit.now(), quarantine_reason = quarantine.reason
		WHERE v.org = quarantine.org AND v.version = quarantine.version
			AND v.quarantined_at IS NULL;
		GET DIAGNOSTICS quarantined = ROW_COUNT;
		PERFORM gpucredit_registry.record(quarantine.org, 'quarantine', NULL,
			jsonb_build_object('version', quarantine.version, 'reason', quarantine.reason));
		IF quarantine.quarantined > 0 THEN
			PERFORM gpucredit_registry.publish_quarantine(ARRAY[quarantine.version],
				quarantine.reason);
		END IF;
	END IF;
	quarantine.blocked := gpucredit_registry.block_files(named, quarantine.files,
		quarantine.reason);
	PERFORM gpucredit_registry.request_end(quarantine.org, quarantine.key,
		jsonb_build_array(quarantine.quarantined, quarantine.blocked));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.quarantine(text, bigint, text, text, boolean, text[]) IS
'Lineage: nobody may read the version any more or, with descendants, what was made from it. What is made from it later starts in quarantine. Its files are blocked wherever their bytes were or will be committed.
reason: shown to readers. files: the paths to block; NULL: its uploaded files, or an image''s manifest, but for those that an older version outside quarantine has; an empty array: none.
Result: how many versions were put into quarantine by this call, and how many files were blocked; 0 where an older version has them all, which then wants quarantine as well, or where files names none.
Errors: 25001 with descendants above READ COMMITTED; UC501 no such version or file; UC201 key used with other arguments; 22023.';

CREATE FUNCTION gpucredit_registry.release_quarantine(org text, version bigint,
	reason text, key text, descendants boolean DEFAULT false,
	OUT released bigint, OUT replayed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	kept jsonb;
	r record;
BEGIN
	kept := gpucredit_registry.request_begin(release_quarantine.org, release_quarantine.key,
		'release_quarantine', jsonb_build_array(release_quarantine.version,
			release_quarantine.reason, release_quarantine.descendants));
	release_quarantine.replayed := kept IS NOT NULL;
	IF release_quarantine.replayed THEN
		release_quarantine.released := kept;
		RETURN;
	END IF;
	IF NOT EXISTS (SELECT FROM gpucredit_registry.version v
		WHERE v.org = release_quarantine.org AND v.version = release_quarantine.version)
	THEN
		PERFORM gpucredit_registry.not_found(format('version %s of "%s"',
			release_quarantine.version, left(release_quarantine.org, 64)));
	END IF;
	release_quarantine.released := 0;
	FOR r IN
		SELECT release_quarantine.org AS o, release_quarantine.version AS v
		UNION ALL
		SELECT v.org, v.version
		FROM gpucredit_registry.related(release_quarantine.version, true) d
			JOIN gpucredit_registry.version v ON v.version = d.related
		WHERE release_quarantine.descendants
		ORDER BY 2
	LOOP
		UPDATE gpucredit_registry.version v
		SET quarantined_at = NULL, quarantine_reason = NULL, restricted_at = NULL,
			restricted_reason = NULL
		WHERE v.org = r.o AND v.version = r.v
			AND (v.quarantined_at IS NOT NULL OR v.restricted_at IS NOT NULL);
		IF FOUND THEN
			DELETE FROM gpucredit_registry.blocked b WHERE b.org = r.o AND b.version = r.v;
			UPDATE gpucredit_registry.scan s SET verdict = 'released'
			WHERE s.org = r.o AND s.version = r.v AND s.verdict = 'failed';
			release_quarantine.released := release_quarantine.released + 1;
			PERFORM gpucredit_registry.record(r.o, 'release_quarantine', NULL,
				jsonb_build_object('version', r.v, 'reason', release_quarantine.reason));
			PERFORM gpucredit_registry.publish_model('released', v.org, v.model,
				jsonb_build_object('version', v.version, 'oid', v.oid))
			FROM gpucredit_registry.version v WHERE v.org = r.o AND v.version = r.v;
		END IF;
	END LOOP;
	PERFORM gpucredit_registry.request_end(release_quarantine.org, release_quarantine.key,
		to_jsonb(release_quarantine.released));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.release_quarantine(text, bigint, text, text, boolean) IS
'Lineage: a version may be read again, and with descendants what was made from it; also one that failed a scan. The files that its quarantine blocked are no longer blocked.
Result: how many versions left quarantine, or their restriction. Errors: UC501 no such version; UC201 key used with other arguments; 22023.';
