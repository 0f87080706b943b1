/*
 * 40_commit.sql: revisions.
 *
 * A version has a complete list of files and never changes. A branch names the
 * newest version.
 *
 * A commit stores only what it changes: successive versions make a line, and
 * an entry of the line is a file from one of its versions on until another.
 * The line ends, and the next commit copies the list of files into a new one,
 * where a commit does not continue the newest version of its line, and where
 * most entries are of the past, so that old versions do not make a list slow.
 */
CREATE TABLE gpucredit_registry.version (
	org text COLLATE "C" NOT NULL,
	version bigint GENERATED ALWAYS AS IDENTITY,
	model bigint NOT NULL,
	oid text COLLATE "C" NOT NULL CHECK (oid ~ '^[0-9a-f]{40}$'),
	parent bigint,
	title text NOT NULL,
	description text,
	author text NOT NULL,
	created_at timestamptz NOT NULL,
	quarantined_at timestamptz,
	quarantine_reason text,
	restricted_at timestamptz,	/* set by a scan that failed */
	restricted_reason text,
	line bigint,				/* the version that began its line; NULL while
								 * it is being made */
	files bigint NOT NULL DEFAULT 0,
	past bigint NOT NULL DEFAULT 0, /* entries of the line that ended before
									 * it */
	dropped_at timestamptz,		/* its files were deleted */
	read_on date,				/* the last day on which a file was read */
	CONSTRAINT version_pkey PRIMARY KEY (org, version),
	CONSTRAINT version_number UNIQUE (version),		/* lineage refers to
													 * versions of other
													 * organisations */
	CONSTRAINT version_oid UNIQUE (org, model, oid),
	FOREIGN KEY (org, model) REFERENCES gpucredit_registry.model,
	FOREIGN KEY (org, parent) REFERENCES gpucredit_registry.version
);
CREATE INDEX version_line ON gpucredit_registry.version (org, line, version);
/* Only one version continues another's line. */
CREATE UNIQUE INDEX version_continues ON gpucredit_registry.version (org, line, parent);
/* What held_versions() lists. */
CREATE INDEX version_held ON gpucredit_registry.version (version)
	WHERE quarantined_at IS NOT NULL OR restricted_at IS NOT NULL;
COMMENT ON TABLE gpucredit_registry.version IS
'Revisions of repositories; their files stay as they are, or are removed';

CREATE TABLE gpucredit_registry.ref (
	org text COLLATE "C" NOT NULL,
	model bigint NOT NULL,
	ref text COLLATE "C" NOT NULL
		CHECK (ref ~ '^@?[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$' AND ref !~ '\.\.|//|/$'),
	version bigint NOT NULL,
	tag boolean NOT NULL DEFAULT false,	/* commits do not move it */
	CONSTRAINT ref_pkey PRIMARY KEY (org, model, ref),
	FOREIGN KEY (org, version) REFERENCES gpucredit_registry.version
);
COMMENT ON TABLE gpucredit_registry.ref IS
'Names of versions: branches, tags and, with "@", aliases';

/* Refs that commits do not move (55_protect.sql). */
CREATE TABLE gpucredit_registry.protected_ref (
	org text COLLATE "C" NOT NULL,
	model bigint NOT NULL,
	ref text COLLATE "C" NOT NULL,
	CONSTRAINT protected_ref_pkey PRIMARY KEY (org, model, ref),
	FOREIGN KEY (org, model) REFERENCES gpucredit_registry.model
);
COMMENT ON TABLE gpucredit_registry.protected_ref IS
'Refs that move_ref() alone moves';

/*
 * Where versions that were not made here come from (62_origin.sql). A client
 * may name such a version by the oid that it has there.
 */
CREATE TABLE gpucredit_registry.origin (
	org text COLLATE "C" NOT NULL,
	version bigint NOT NULL,
	model bigint NOT NULL,
	source text COLLATE "C" NOT NULL,	/* as this registry's operator names a
										 * remote, or the key of an export */
	repository text NOT NULL,	/* its name there */
	oid text COLLATE "C" NOT NULL CHECK (oid ~ '^[0-9a-f]{40}$'),
	files bytea NOT NULL,		/* SHA-256 of its list of files */
	detail jsonb NOT NULL,		/* what the source says of it */
	recorded_at timestamptz NOT NULL,
	CONSTRAINT origin_pkey PRIMARY KEY (org, version),
	CONSTRAINT origin_oid UNIQUE (org, model, oid),
	FOREIGN KEY (org, version) REFERENCES gpucredit_registry.version
);
CREATE INDEX origin_named ON gpucredit_registry.origin (oid);
COMMENT ON TABLE gpucredit_registry.origin IS
'The registry, repository and oid from which versions were mirrored or imported';

CREATE TABLE gpucredit_registry.entry (
	org text COLLATE "C" NOT NULL,
	line bigint NOT NULL,
	path text COLLATE "C" NOT NULL,
	since bigint NOT NULL,		/* the version that added it */
	until bigint,				/* the version that deleted or replaced it */
	object bytea NOT NULL,
	size bigint NOT NULL,
	lfs boolean NOT NULL,
	CONSTRAINT entry_pkey PRIMARY KEY (org, line, path, since),
	CONSTRAINT entry_ends CHECK (until > since),
	FOREIGN KEY (org, line) REFERENCES gpucredit_registry.version,
	FOREIGN KEY (org, object) REFERENCES gpucredit_registry.possession
);
CREATE INDEX entry_object ON gpucredit_registry.entry (org, object);
CREATE INDEX entry_folded ON gpucredit_registry.entry (org, line,
	lower(path COLLATE "und-x-icu") COLLATE "C") WHERE until IS NULL;
COMMENT ON TABLE gpucredit_registry.entry IS
'Files of successive versions: each from a version on until another';

CREATE VIEW gpucredit_registry.file AS
SELECT v.org, v.version, e.path, e.object, e.size, e.lfs
FROM gpucredit_registry.version v
	JOIN gpucredit_registry.entry e ON e.org = v.org AND e.line = v.line
		AND e.since <= v.version AND (e.until IS NULL OR e.until > v.version)
WHERE v.dropped_at IS NULL;
COMMENT ON VIEW gpucredit_registry.file IS
'The files of each version';

/*
 * The versions that a version was made from, also across organisations. Both
 * directions are indexed.
 */
CREATE TABLE gpucredit_registry.edge (
	parent_org text COLLATE "C" NOT NULL,
	parent bigint NOT NULL,
	child_org text COLLATE "C" NOT NULL,
	child bigint NOT NULL,
	kind text NOT NULL CHECK (kind IN ('fine_tune', 'adapter', 'quantized', 'merge')),
	CONSTRAINT edge_pkey PRIMARY KEY (parent, child, parent_org, child_org)
);
CREATE INDEX edge_child ON gpucredit_registry.edge (child, parent) INCLUDE (child_org, kind);
COMMENT ON TABLE gpucredit_registry.edge IS
'Lineage: which versions a version was made from';

/* Checks that a path is valid for git clients, file systems and URLs. */
CREATE FUNCTION gpucredit_registry.check_path(path text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF coalesce(octet_length(check_path.path), 0) NOT BETWEEN 1 AND 1024
		OR check_path.path ~ '(^|/)(\.{0,2}|\.[Gg][Ii][Tt]|[Gg][Ii][Tt]~[0-9]+)[. ]*(/|$)|[\x01-\x1f\x7f\\:]'
	THEN
		PERFORM gpucredit_registry.refuse(format('path "%s" is malformed', left(check_path.path, 64)),
			'A path has 1 to 1,024 bytes, no empty part, ".", ".." or ".git" in whatever case, no backslash, colon or control character.');
	ELSIF getdatabaseencoding() = 'UTF8' AND check_path.path IS NOT NFC NORMALIZED THEN
		PERFORM gpucredit_registry.refuse(format('path "%s" is not in Unicode''s form NFC',
				left(check_path.path, 64)),
			'A file system may take it for another path that looks the same.',
			'Write accented letters as one character each.');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.check_path(text) IS
'Internal: refuses what is no file''s path (22023).';

CREATE FUNCTION gpucredit_registry.check_ref(ref text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF check_ref.ref IS NULL OR check_ref.ref !~ '^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$'
		OR check_ref.ref ~ '\.\.|//|/$|^[0-9a-f]{40}$'
	THEN
		PERFORM gpucredit_registry.refuse(format('ref "%s" is malformed', left(check_ref.ref, 64)),
			'A ref has 1 to 200 letters, digits, ".", "_", "/" or "-", and is no 40 hex digits.');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.check_ref(text) IS
'Internal: refuses what is no ref (22023).';

/*
 * Whether bytes may be added to a repository of "org" without being sent
 * again. Only the caller's own rights count: the fact that others of the
 * organisation have the bytes gives the caller no right, and must not become
 * visible. Only versions in repositories that the caller may read are
 * searched.
 */
CREATE FUNCTION gpucredit_registry.may_use_object(org text, object bytea,
	caller gpucredit_registry.caller) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN EXISTS (SELECT FROM gpucredit_registry.sender s
			WHERE s.org = may_use_object.org AND s.object = may_use_object.object
				AND s.sent_at > gpucredit.now() - interval '24 hours'
				AND (s.caller = gpucredit_registry.caller_name(may_use_object.caller)
					OR starts_with(s.caller, rtrim(gpucredit_registry.caller_name(
						may_use_object.caller), '/') || '/')))
		OR EXISTS (SELECT
			FROM (SELECT DISTINCT v.org, v.model
				FROM gpucredit_registry.possession p
					JOIN gpucredit_registry.entry e USING (org, object)
					JOIN gpucredit_registry.version v ON v.org = e.org AND v.version = e.line
				WHERE p.object = may_use_object.object OFFSET 0) m
			WHERE gpucredit_registry.permission_of(m.org, m.model,
					may_use_object.caller) IS NOT NULL
				AND EXISTS (SELECT FROM gpucredit_registry.file f
					JOIN gpucredit_registry.version v USING (org, version)
				WHERE f.org = m.org AND f.object = may_use_object.object
					AND v.model = m.model
					AND gpucredit_registry.read_refusal(v, may_use_object.object,
						may_use_object.caller) IS NULL));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.may_use_object(text, bytea, gpucredit_registry.caller) IS
'Internal: did the caller send these bytes within a day, or may he read them somewhere?';

/*
 * Returns the version that a ref's name or an oid denotes: its own, or the one
 * that it has where it comes from.
 */
CREATE FUNCTION gpucredit_registry.find_version(m gpucredit_registry.model, rev text)
RETURNS gpucredit_registry.version
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT v FROM gpucredit_registry.version v
	WHERE v.org = (m).org AND v.model = (m).model
		AND (v.oid = find_version.rev OR v.version = (SELECT r.version
			FROM gpucredit_registry.ref r
			WHERE r.org = (m).org AND r.model = (m).model
				AND r.ref = CASE find_version.rev WHEN 'HEAD' THEN 'main'
					ELSE find_version.rev END)
			OR v.version = (SELECT o.version FROM gpucredit_registry.origin o
				WHERE o.org = (m).org AND o.model = (m).model AND o.oid = find_version.rev));
END;
COMMENT ON FUNCTION gpucredit_registry.find_version(gpucredit_registry.model, text) IS
'Internal: the version of a branch, tag or oid; NULL for none.';

/*
 * Returns a version by its number, for database logins: gpucredit_app, or a
 * tenant bound to its account.
 */
CREATE FUNCTION gpucredit_registry.own_version(org text, version bigint)
RETURNS gpucredit_registry.version
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version;
BEGIN
	SELECT * INTO v FROM gpucredit_registry.version o
	WHERE o.org = own_version.org AND o.version = own_version.version;
	PERFORM gpucredit_registry.own_model(own_version.org, v.model);
	RETURN v;
EXCEPTION WHEN SQLSTATE 'UC501' THEN
	PERFORM gpucredit_registry.not_found(format('version %s of "%s"', own_version.version,
		left(own_version.org, 64)));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.own_version(text, bigint) IS
'Internal: a version whose account the session may see. Errors: UC501.';

CREATE TYPE gpucredit_registry.commit_result AS (
	version bigint,
	oid text,
	status text,
	reason text,
	replayed boolean
);

CREATE FUNCTION gpucredit_registry.inline_body(operation jsonb) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	body bytea;
BEGIN
	BEGIN
		body := decode(inline_body.operation ->> 'content', 'base64');
	EXCEPTION WHEN invalid_parameter_value THEN
		PERFORM gpucredit_registry.refuse(format('content of "%s" is no base64',
			left(inline_body.operation ->> 'path', 64)), SQLERRM);
	END;
	IF octet_length(body) > 1048576 THEN
		PERFORM gpucredit_registry.refuse('a file sent within a commit has at most 1 MiB',
			format('It has %s bytes.', octet_length(body)),
			'Upload larger files first, and commit their digest.');
	END IF;
	RETURN body;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.inline_body(jsonb) IS
'Internal: the bytes of a file that came with a commit (22023).';

/*
 * Stores small files. The body of a small file is a chunk in the table, and at
 * the same time a whole object. Both are inserted in a fixed order, so that
 * commits of the same files do not wait for each other in a cycle, and before
 * the commit takes its organisation's lock, because an upload that waits for
 * that lock has inserted its object, too.
 */
CREATE FUNCTION gpucredit_registry.store_bodies(bodies bytea[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	digests bytea[] := ARRAY(SELECT DISTINCT sha256(b) FROM unnest(store_bodies.bodies) b
		WHERE b IS NOT NULL);
BEGIN
	/* Repeat if collect() has deleted a chunk or an object that existed. */
	LOOP
		INSERT INTO gpucredit_registry.chunk (sha256, size, body)
		SELECT DISTINCT ON (sha256(b)) sha256(b), octet_length(b), b
		FROM unnest(store_bodies.bodies) b
		WHERE b IS NOT NULL
		ORDER BY sha256(b)
		ON CONFLICT DO NOTHING;
		PERFORM FROM gpucredit_registry.chunk c
		WHERE c.sha256 = ANY (digests)
		ORDER BY c.chunk FOR KEY SHARE;
		WITH made AS (
			INSERT INTO gpucredit_registry.object
			SELECT c.sha256, c.size, gpucredit.now(), CASE WHEN c.pack IS NULL THEN '{}'
				ELSE int8multirange(int8range(c.chunk, c.chunk, '[]')) END
			FROM gpucredit_registry.chunk c
			WHERE c.sha256 = ANY (digests)
			ORDER BY c.sha256
			ON CONFLICT DO NOTHING
			RETURNING sha256)
		INSERT INTO gpucredit_registry.segment
		SELECT m.sha256, 0, 0, ARRAY[c.chunk]
		FROM made m JOIN gpucredit_registry.chunk c ON c.sha256 = m.sha256;
		EXIT WHEN (SELECT count(*) FROM (SELECT FROM gpucredit_registry.object b
			WHERE b.sha256 = ANY (digests) FOR KEY SHARE) l) = cardinality(digests);
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.store_bodies(bytea[]) IS
'Internal: keeps small files; NULL elements are left out.';

/*
 * Returns the objects that a commit adds, one element for each operation; NULL
 * for an operation that deletes, or is malformed. Bytes that arrived with the
 * commit are stored; for all others the caller needs the right to use them.
 * That right is checked before anything else about them, so no answer depends
 * on what others have stored.
 */
CREATE FUNCTION gpucredit_registry.commit_objects(org text, operations jsonb,
	caller gpucredit_registry.caller) RETURNS bytea[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	bodies bytea[];
	objects bytea[];
	o record;
BEGIN
	SELECT coalesce(array_agg(p.body ORDER BY p.n), '{}'),
		coalesce(array_agg(CASE WHEN p.body IS NOT NULL THEN sha256(p.body)
			WHEN p.o ->> 'sha256' ~ '^[0-9a-f]{64}$' THEN decode(p.o ->> 'sha256', 'hex') END
			ORDER BY p.n), '{}')
	INTO bodies, objects
	FROM (SELECT e.o, e.n, gpucredit_registry.inline_body(e.o) AS body
		FROM jsonb_array_elements(commit_objects.operations) WITH ORDINALITY AS e (o, n)) p;
	FOR o IN
		SELECT DISTINCT ON (d.object) d.object, commit_objects.operations -> (d.n - 1)::integer ->> 'path' AS path
		FROM unnest(objects, bodies) WITH ORDINALITY AS d (object, body, n)
		WHERE d.object IS NOT NULL AND d.body IS NULL
		ORDER BY d.object, d.n
	LOOP
		IF NOT gpucredit_registry.may_use_object(commit_objects.org, o.object,
			commit_objects.caller)
		THEN
			RAISE EXCEPTION 'the bytes of "%" were not uploaded', left(o.path, 64)
				USING ERRCODE = 'UC503',
				DETAIL = format('The caller sent no object %s within 24 hours, and may read none.',
					encode(o.object, 'hex')),
				HINT = 'Upload the file first, then commit.';
		END IF;
	END LOOP;
	PERFORM gpucredit_registry.store_bodies(bodies);
	RETURN objects;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.commit_objects(text, jsonb, gpucredit_registry.caller) IS
'Internal: the objects that the operations of a commit put. Errors: UC503 bytes were not uploaded; 22023.';

/*
 * Returns why a commit may not add its objects, or NULL. Only objects count
 * that the organisation did not store before: small files in the commit, and
 * others' objects that it begins to keep. A commit that only deletes is always
 * allowed.
 */
CREATE FUNCTION gpucredit_registry.commit_denial(m gpucredit_registry.model,
	objects bytea[], fresh bytea[]) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF array_remove(commit_denial.objects, NULL) = '{}' THEN
		RETURN NULL;
	END IF;
	/*
	 * Commits wait for each other here, so that together they stay within the
	 * quota. One that adds no bytes, as after uploads, need not wait.
	 */
	IF commit_denial.fresh <> '{}' THEN
		PERFORM gpucredit_registry.lock_usage((m).org);
	END IF;
	RETURN gpucredit_registry.upload_denial(m, (SELECT coalesce(sum(b.size), 0)
		FROM gpucredit_registry.object b
		WHERE b.sha256 = ANY (commit_denial.fresh))::bigint);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.commit_denial(gpucredit_registry.model, bytea[], bytea[]) IS
'Internal: NULL, or storage_quota, insufficient_credits or account_suspended; fresh: the objects that its organisation had not.';

/*
 * Returns the first two folded paths of the newest version of a line, from one
 * on. The order and the setting make sure that entry_folded is used for it: a
 * plan that was made while the table was small could otherwise read the whole
 * line.
 */
CREATE FUNCTION gpucredit_registry.next_folded(org text, line bigint, folded text)
RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_sort = off
AS $$
BEGIN
	RETURN ARRAY(SELECT lower(e.path COLLATE "und-x-icu")
		FROM gpucredit_registry.entry e
		WHERE e.org = next_folded.org AND e.line = next_folded.line
			AND lower(e.path COLLATE "und-x-icu") COLLATE "C" >= next_folded.folded COLLATE "C"
			AND e.until IS NULL
		ORDER BY lower(e.path COLLATE "und-x-icu") COLLATE "C"
		LIMIT 2);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.next_folded(text, bigint, text) IS
'Internal: two paths of a line, in lower case, from one on.';

/*
 * Checks that no path is both a file and a folder, and that no two paths
 * differ only in case. Only paths that a commit writes can violate this, so
 * only they are looked up, each by an index; the version is the newest of its
 * line.
 */
CREATE FUNCTION gpucredit_registry.check_tree(org text, line bigint, paths text[])
RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	one text;
	folded text COLLATE "C";
	found_paths text[] COLLATE "C";
	broken boolean;
BEGIN
	FOREACH one IN ARRAY check_tree.paths LOOP
		folded := lower(one COLLATE "und-x-icu");
		/* A later operation of the commit may have deleted it. */
		CONTINUE WHEN NOT EXISTS (SELECT FROM gpucredit_registry.entry e
			WHERE e.org = check_tree.org AND e.line = check_tree.line
				AND lower(e.path COLLATE "und-x-icu") COLLATE "C" = folded
				AND e.until IS NULL AND e.path = one);
		found_paths := gpucredit_registry.next_folded(check_tree.org, check_tree.line, folded);
		IF found_paths[1] = folded AND found_paths[2] = folded THEN
			PERFORM gpucredit_registry.refuse('two paths differ only in the case of letters',
				'Some file systems can hold only one of them.', 'Rename one, or delete it.');
		END IF;
		found_paths := gpucredit_registry.next_folded(check_tree.org, check_tree.line,
			folded || '/');
		broken := coalesce(starts_with(found_paths[1], folded || '/'), false);
		WHILE NOT broken AND strpos(folded, '/') > 0 LOOP
			folded := left(folded, -strpos(reverse(folded), '/'));
			found_paths := gpucredit_registry.next_folded(check_tree.org, check_tree.line, folded);
			broken := coalesce(found_paths[1] = folded, false);
		END LOOP;
		IF broken THEN
			PERFORM gpucredit_registry.refuse('a path is a file and a folder',
				'The files of a version make a tree, in which the case of letters does not matter.');
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.check_tree(text, bigint, text[]) IS
'Internal: refuses paths of the newest version of a line that a file system cannot hold together (22023).';

/*
 * Returns the line that a new version of a repository continues: that of its
 * head, or a new one into which the head's files are copied. The caller has
 * locked the repository.
 */
CREATE FUNCTION gpucredit_registry.continue_line(head gpucredit_registry.version,
	version bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF (head).dropped_at IS NULL AND (head).past <= greatest(1000, (head).files)
		AND (head).version = (SELECT max(v.version) FROM gpucredit_registry.version v
			WHERE v.org = (head).org AND v.line = (head).line)
	THEN
		RETURN (head).line;
	END IF;
	INSERT INTO gpucredit_registry.entry
	SELECT f.org, continue_line.version, f.path, continue_line.version, NULL, f.object,
		f.size, f.lfs
	FROM gpucredit_registry.file f
	WHERE f.org = (head).org AND f.version = (head).version;
	RETURN continue_line.version;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.continue_line(gpucredit_registry.version, bigint) IS
'Internal: the line of a version that is being made on top of another.';

/*
 * Ends entries of a line: those that the version itself has added are deleted.
 * They are looked up by their folded path, too: a plan that was made while the
 * table was small could otherwise use entry_folded for the line alone.
 */
CREATE FUNCTION gpucredit_registry.end_entries(v gpucredit_registry.version, path text,
	folder boolean, OUT deleted bigint, OUT ended bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	/* A folder's files are between PATH/ and PATH0, which follows "/". */
	first text COLLATE "C" := CASE WHEN folder THEN end_entries.path || '/' ELSE end_entries.path END;
	past text COLLATE "C" := CASE WHEN folder THEN end_entries.path || '0'
		ELSE end_entries.path || E'\x01' END;
	folded_first text COLLATE "C" := lower(first COLLATE "und-x-icu");
	folded_past text COLLATE "C" := lower(past COLLATE "und-x-icu");
BEGIN
	DELETE FROM gpucredit_registry.entry e
	WHERE e.org = (v).org AND e.line = (v).line
		AND e.path >= first AND e.path < past
		AND lower(e.path COLLATE "und-x-icu") COLLATE "C" >= folded_first
		AND lower(e.path COLLATE "und-x-icu") COLLATE "C" < folded_past
		AND e.until IS NULL AND e.since = (v).version;
	GET DIAGNOSTICS deleted = ROW_COUNT;
	UPDATE gpucredit_registry.entry e SET until = (v).version
	WHERE e.org = (v).org AND e.line = (v).line
		AND e.path >= first AND e.path < past
		AND lower(e.path COLLATE "und-x-icu") COLLATE "C" >= folded_first
		AND lower(e.path COLLATE "und-x-icu") COLLATE "C" < folded_past
		AND e.until IS NULL;
	GET DIAGNOSTICS ended = ROW_COUNT;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.end_entries(gpucredit_registry.version, text, boolean) IS
'Internal: a version that is being made no longer has a file, or the files of a folder; how many entries were deleted, and how many ended.';

/*
 * Applies the operations in their order; a later one overrides an earlier one.
 * Each is {"path", "op": "delete"}, {"path", "op": "delete_folder"}, {"path",
 * "content": BASE64} or {"path", "sha256": HEX}. Returns the version with its
 * counts.
 */
CREATE FUNCTION gpucredit_registry.apply_operations(v gpucredit_registry.version,
	operations jsonb, objects bytea[]) RETURNS gpucredit_registry.version
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	o jsonb;
	new_object bytea;
	o_path text COLLATE "C";
	was gpucredit_registry.entry;
	gone record;
BEGIN
	FOR o, new_object IN
		SELECT e.o, e.object
		FROM ROWS FROM (jsonb_array_elements(apply_operations.operations),
			unnest(apply_operations.objects)) WITH ORDINALITY AS e (o, object, n)
		ORDER BY e.n
	LOOP
		o_path := o ->> 'path';
		PERFORM gpucredit_registry.check_path(o_path);
		IF o ->> 'op' LIKE 'delete%' THEN
			SELECT sum(e.deleted) AS deleted, sum(e.ended) AS ended INTO gone
			FROM (VALUES (false), (true)) AS f (folder),
				gpucredit_registry.end_entries(v, o_path, f.folder) e
			WHERE NOT f.folder OR o ->> 'op' = 'delete_folder';
			IF gone.deleted + gone.ended = 0 THEN
				PERFORM gpucredit_registry.not_found(format('file "%s"', left(o_path, 96)));
			END IF;
			v.files := v.files - gone.deleted - gone.ended;
			v.past := v.past + gone.ended;
			CONTINUE;
		ELSIF new_object IS NULL THEN
			PERFORM gpucredit_registry.refuse(format('operation on "%s" is malformed',
				left(o_path, 64)), 'It has content, a sha256 of 64 hex digits, or op delete.');
		END IF;
		SELECT * INTO was FROM gpucredit_registry.entry e
		WHERE e.org = v.org AND e.line = v.line AND e.path = o_path
			AND lower(e.path COLLATE "und-x-icu") COLLATE "C"
				= lower(o_path COLLATE "und-x-icu") COLLATE "C"
			AND e.until IS NULL;
		IF was.object = new_object AND was.lfs = (NOT o ? 'content') THEN
			CONTINUE;
		ELSIF was.path IS NULL THEN
			v.files := v.files + 1;
		ELSE
			gone := gpucredit_registry.end_entries(v, o_path, false);
			v.past := v.past + gone.ended;
		END IF;
		INSERT INTO gpucredit_registry.entry
		SELECT v.org, v.line, o_path, v.version, NULL, b.sha256, b.size, NOT o ? 'content'
		FROM gpucredit_registry.object b WHERE b.sha256 = new_object;
	END LOOP;
	PERFORM gpucredit_registry.check_tree(v.org, v.line,
		ARRAY(SELECT DISTINCT e.o ->> 'path'
			FROM jsonb_array_elements(apply_operations.operations) AS e (o)
			WHERE e.o ?| '{content,sha256}'));
	RETURN v;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.apply_operations(gpucredit_registry.version, jsonb, bytea[]) IS
'Internal: changes the files of a version that is being made; objects: what each operation puts.';

/*
 * Deletes the files of a version: entries that no other version of its line
 * has. The version itself stays, because lineage refers to it.
 */
CREATE FUNCTION gpucredit_registry.drop_files(org text, version bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version;
BEGIN
	UPDATE gpucredit_registry.version o SET dropped_at = gpucredit.now()
	WHERE o.org = drop_files.org AND o.version = drop_files.version AND o.dropped_at IS NULL
	RETURNING * INTO v;
	DELETE FROM gpucredit_registry.entry e
	WHERE e.org = v.org AND e.line = v.line AND e.since <= v.version
		AND (e.until IS NULL OR e.until > v.version)
		AND NOT EXISTS (SELECT FROM gpucredit_registry.version o
			WHERE o.org = e.org AND o.line = e.line AND o.dropped_at IS NULL
				AND o.version >= e.since AND (e.until IS NULL OR o.version < e.until));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.drop_files(text, bigint) IS
'Internal: deletes the files of a version that no other version of its line has.';

/*
 * Returns the base models that a card states, which become parents of a
 * version of "main" that changes the card. Only models that the registry has
 * and the caller may read are returned.
 */
CREATE FUNCTION gpucredit_registry.card_parents(org text, model bigint,
	caller gpucredit_registry.caller) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce(jsonb_agg(jsonb_build_object('org', p.org, 'version', r.version,
		'kind', CASE m.fields #>> '{base_model_relation,0}' WHEN 'adapter' THEN 'adapter'
			WHEN 'quantized' THEN 'quantized' WHEN 'merge' THEN 'merge' ELSE 'fine_tune' END)),
		'[]')
	FROM gpucredit_registry.model m,
		jsonb_array_elements_text(coalesce(m.fields -> 'base_model', '[]')) AS b (name)
		JOIN gpucredit_registry.model p ON p.org = split_part(b.name, '/', 1)
			AND p.name = split_part(b.name, '/', 2) AND p.kind = 'model'
			AND p.deleted_at IS NULL
		JOIN gpucredit_registry.ref r ON r.org = p.org AND r.model = p.model
			AND r.ref = 'main'
	WHERE m.org = card_parents.org AND m.model = card_parents.model AND m.kind = 'model'
		AND p.model <> m.model
		AND gpucredit_registry.permission_of(p.org, p.model, card_parents.caller) IS NOT NULL;
END;
COMMENT ON FUNCTION gpucredit_registry.card_parents(text, bigint, gpucredit_registry.caller) IS
'Internal: the versions that a repository''s card says it was made from.';

/*
 * Makes the version of a commit: its entries, oid, card, parents and scans.
 * All this is computed before the commit takes the lock of its organisation's
 * usage.
 */
CREATE FUNCTION gpucredit_registry.make_version(m gpucredit_registry.model, ref text,
	head gpucredit_registry.version, operations jsonb, objects bytea[], parents jsonb,
	caller gpucredit_registry.caller, author text, title text, description text)
RETURNS gpucredit_registry.version
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	new gpucredit_registry.version;
	has_card boolean := make_version.ref = 'main' AND EXISTS (
		SELECT FROM jsonb_array_elements(make_version.operations) e
		WHERE e ->> 'path' = 'README.md');
BEGIN
	INSERT INTO gpucredit_registry.version AS v (org, model, oid, parent, title,
		description, author, created_at)
	VALUES ((m).org, (m).model, encode(substr(sha256(gen_random_uuid()::text::bytea), 1, 20), 'hex'),
		(head).version, coalesce(make_version.title, ''), make_version.description,
		make_version.author, gpucredit.now())
	RETURNING * INTO new;
	new.line := gpucredit_registry.continue_line(head, new.version);
	new.files := CASE WHEN (head).dropped_at IS NULL THEN coalesce((head).files, 0) ELSE 0 END;
	new.past := CASE new.line WHEN new.version THEN 0 ELSE (head).past END;
	new := gpucredit_registry.apply_operations(new, make_version.operations, objects);
	new.oid := encode(substr(sha256(convert_to(jsonb_build_array(new.org, new.model, new.version,
		(head).oid, new.title, new.description, new.author, new.created_at,
		(SELECT jsonb_agg(jsonb_build_array(e.o -> 'path', e.o -> 'op', encode(e.object, 'hex'))
				ORDER BY e.n)
			FROM ROWS FROM (jsonb_array_elements(make_version.operations), unnest(objects))
				WITH ORDINALITY AS e (o, object, n)))::text, 'UTF8')), 1, 20), 'hex');
	BEGIN
		UPDATE gpucredit_registry.version v
		SET oid = new.oid, line = new.line, files = new.files, past = new.past
		WHERE v.org = new.org AND v.version = new.version;
	EXCEPTION WHEN unique_violation THEN
		/* The snapshot is older than a commit that continued the line. */
		RAISE EXCEPTION 'another commit came first'
			USING ERRCODE = 'serialization_failure',
			DETAIL = 'It continues the same version.', HINT = 'Try again.';
	END;
	IF has_card THEN
		UPDATE gpucredit_registry.model o
		SET card = (SELECT left(convert_from(k.body, 'UTF8'), 100000)
			FROM gpucredit_registry.file f
				JOIN gpucredit_registry.chunk k ON k.sha256 = f.object
			WHERE f.org = new.org AND f.version = new.version AND f.path = 'README.md'
				AND k.body IS NOT NULL AND gpucredit_registry.is_text(k.body))
		WHERE o.org = new.org AND o.model = new.model;
	END IF;
	PERFORM gpucredit_registry.add_parents(new.org, new.version, (head).version,
		make_version.parents || CASE WHEN has_card
			THEN gpucredit_registry.card_parents(new.org, new.model, make_version.caller)
			ELSE '[]' END, make_version.caller);
	PERFORM gpucredit_registry.commit_datasets(new, has_card, make_version.caller);
	/* A file on a list stays in quarantine with the versions that follow. */
	IF (head).quarantined_at IS NOT NULL AND EXISTS (
		SELECT FROM gpucredit_registry.file f
			JOIN gpucredit_registry.fingerprint p USING (object)
		WHERE f.org = new.org AND f.version = new.version)
	THEN
		PERFORM gpucredit_registry.set_quarantine(new.org, new.version,
			(head).quarantine_reason);
	END IF;
	PERFORM gpucredit_registry.request_scans(new.org, new.version);
	RETURN new;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.make_version(gpucredit_registry.model, text, gpucredit_registry.version, jsonb, bytea[], jsonb, gpucredit_registry.caller, text, text, text) IS
'Internal: the version of a commit on top of another.';

/*
 * Stores the objects of a commit, and makes its version. Where the organisation
 * may not store them, "reason" says why, and all that was stored is rolled back.
 * The caller has locked the repository.
 */
CREATE FUNCTION gpucredit_registry.store_version(m gpucredit_registry.model, ref text,
	head gpucredit_registry.version, operations jsonb, parents jsonb,
	caller gpucredit_registry.caller, author text, title text, description text,
	OUT new gpucredit_registry.version, OUT reason text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	objects bytea[];
	fresh bytea[];
BEGIN
	objects := gpucredit_registry.commit_objects((m).org, store_version.operations,
		store_version.caller);
	PERFORM gpucredit_registry.check_fingerprints(objects);
	fresh := gpucredit_registry.hold_objects((m).org, array_remove(objects, NULL));
	new := gpucredit_registry.make_version(m, store_version.ref, head,
		store_version.operations, objects, store_version.parents, store_version.caller,
		store_version.author, store_version.title, store_version.description);
	reason := gpucredit_registry.commit_denial(m, objects, fresh);
	IF reason IS NOT NULL THEN
		RAISE EXCEPTION 'denied';
	END IF;
	PERFORM gpucredit_registry.use_objects((m).org, fresh);
EXCEPTION WHEN raise_exception THEN
	IF reason IS NULL THEN
		RAISE;
	END IF;
	new := NULL;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.store_version(gpucredit_registry.model, text, gpucredit_registry.version, jsonb, jsonb, gpucredit_registry.caller, text, text, text) IS
'Internal: the version of a commit, or why it may not be stored.';

/*
 * A commit of thousands of files fills tables for which its plans were made
 * while they were small. Without sequential scans these plans stay good. Their
 * estimated costs are then enormous where a table has no index, so compilation
 * is off: it took 30 ms of each commit.
 */
CREATE FUNCTION gpucredit_registry.commit_as(m gpucredit_registry.model, ref text,
	operations jsonb, key text, parent text, parents jsonb,
	caller gpucredit_registry.caller, author text, title text, description text)
RETURNS gpucredit_registry.commit_result
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	r gpucredit_registry.commit_result;
	head gpucredit_registry.version;
	kept jsonb;
	stored record;
BEGIN
	PERFORM gpucredit_registry.check_ref(commit_as.ref);
	IF jsonb_typeof(commit_as.operations) IS DISTINCT FROM 'array'
		OR jsonb_array_length(commit_as.operations) > 100000
		OR jsonb_typeof(commit_as.parents) IS DISTINCT FROM 'array'
		OR jsonb_array_length(commit_as.parents) > 1000
	THEN
		PERFORM gpucredit_registry.refuse('operations and parents are arrays',
			'A commit has at most 100,000 operations and 1,000 parents.');
	END IF;
	kept := gpucredit_registry.request_begin((m).org, commit_as.key, 'commit',
		jsonb_build_array((m).model, commit_as.ref, commit_as.operations, commit_as.parent,
			commit_as.parents, commit_as.title, commit_as.description));
	IF kept IS NOT NULL THEN
		r := jsonb_populate_record(r, kept);
		r.replayed := true;
		RETURN r;
	END IF;
	/* Commits to one repository wait for each other here. */
	PERFORM FROM gpucredit_registry.model o
	WHERE o.org = (m).org AND o.model = (m).model AND o.deleted_at IS NULL
	FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.not_found(format('repository %s of "%s"', (m).model, (m).org));
	END IF;
	PERFORM gpucredit_registry.check_movable(m, commit_as.ref);
	IF EXISTS (SELECT FROM gpucredit_registry.ref o WHERE o.org = (m).org
		AND o.model = (m).model AND o.ref = commit_as.ref AND o.tag)
	THEN
		PERFORM gpucredit_registry.refuse(format('ref "%s" is a tag', commit_as.ref),
			'A tag stays at its version.', 'Commit to a branch.');
	END IF;
	head := gpucredit_registry.find_version(m, commit_as.ref);
	IF commit_as.parent IS NOT NULL AND (head).oid IS DISTINCT FROM commit_as.parent THEN
		RAISE EXCEPTION 'ref "%" has moved', commit_as.ref
			USING ERRCODE = 'UC506',
			DETAIL = format('It is at %s, not at %s.', coalesce((head).oid, 'no version'),
				left(commit_as.parent, 64)),
			HINT = 'Look at what is new, and commit on top of it.';
	END IF;
	r.replayed := false;
	stored := gpucredit_registry.store_version(m, commit_as.ref, head, commit_as.operations,
		commit_as.parents, commit_as.caller, commit_as.author, commit_as.title,
		commit_as.description);
	IF stored.reason IS NOT NULL THEN
		r.status := 'denied';
		r.reason := stored.reason;
		PERFORM gpucredit_registry.record((m).org, 'commit', commit_as.author,
			jsonb_build_object('model', (m).model, 'ref', commit_as.ref, 'denied', r.reason));
		PERFORM gpucredit_registry.report_denial((m).org, (m).account, r.reason);
		PERFORM gpucredit_registry.request_end((m).org, commit_as.key, to_jsonb(r));
		RETURN r;
	END IF;
	r.version := (stored.new).version;
	r.oid := (stored.new).oid;
	INSERT INTO gpucredit_registry.ref
	VALUES ((m).org, (m).model, commit_as.ref, r.version)
	ON CONFLICT ON CONSTRAINT ref_pkey DO UPDATE SET version = excluded.version;
	r.status := CASE WHEN (SELECT v.quarantined_at FROM gpucredit_registry.version v
			WHERE v.org = (m).org AND v.version = r.version) IS NULL
		THEN 'committed' ELSE 'quarantined' END;
	PERFORM gpucredit_registry.record((m).org, 'commit', commit_as.author,
		jsonb_build_object('model', (m).model, 'ref', commit_as.ref, 'version', r.version,
			'oid', r.oid, 'status', r.status));
	PERFORM gpucredit_registry.publish_model('committed', (m).org, (m).model,
		jsonb_build_object('ref', commit_as.ref, 'version', r.version, 'oid', r.oid,
			'status', r.status, 'author', commit_as.author));
	PERFORM gpucredit_registry.request_end((m).org, commit_as.key, to_jsonb(r));
	RETURN r;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.commit_as(gpucredit_registry.model, text, jsonb, text, text, jsonb, gpucredit_registry.caller, text, text, text) IS
'Internal: commits on behalf of a caller.';

CREATE FUNCTION gpucredit_registry.is_text(body bytea) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM convert_from(is_text.body, 'UTF8');
	RETURN true;
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
	RETURN false;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.is_text(bytea) IS
'Internal: are these bytes valid UTF-8 without zero bytes?';

CREATE FUNCTION gpucredit_registry.commit(org text, model bigint, ref text,
	operations jsonb, key text, parent text DEFAULT NULL, parents jsonb DEFAULT '[]',
	title text DEFAULT '', description text DEFAULT NULL)
RETURNS gpucredit_registry.commit_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model := gpucredit_registry.own_model(commit.org, commit.model);
BEGIN
	RETURN gpucredit_registry.commit_as(m, commit.ref, commit.operations, commit.key,
		commit.parent, commit.parents, (m.org, m.account, 'write')::gpucredit_registry.caller,
		session_user, commit.title, commit.description);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.commit(text, bigint, text, jsonb, text, text, jsonb, text, text) IS
'Repositories: makes a new version of a repository and moves a ref to it, on behalf of its account.
operations: an array of {"path", "content": BASE64}, {"path", "sha256": HEX} of bytes that were uploaded, {"path", "op": "delete"} or "delete_folder". parent: the oid that the ref must still be at; NULL: any. parents: what the version was made from, an array of {"org", "version", "kind"}.
Result: status committed; quarantined where a parent is; denied, where bytes that it adds may not be stored, with reason storage_quota, insufficient_credits or account_suspended.
Errors: UC501 no such repository, file or parent; UC503 bytes were not uploaded; UC504 a file is on a list of known bad ones; UC505 a cycle; UC506 the ref has moved; UC201 key used with other arguments; 22023.';

/*
 * Deletes a repository. Its files are removed, so that collect() can delete
 * its bytes. Its versions stay, because versions that were made from them
 * refer to them.
 */
CREATE FUNCTION gpucredit_registry.delete_model(org text, model bigint, key text,
	OUT versions bigint, OUT replayed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	kept jsonb;
	m gpucredit_registry.model;
	kept_bytes bigint;
	u bigint;
BEGIN
	kept := gpucredit_registry.request_begin(delete_model.org, delete_model.key, 'delete_model',
		to_jsonb(delete_model.model));
	delete_model.replayed := kept IS NOT NULL;
	IF delete_model.replayed THEN
		delete_model.versions := kept;
		RETURN;
	END IF;
	m := gpucredit_registry.own_model(delete_model.org, delete_model.model);
	PERFORM FROM gpucredit_registry.model o
	WHERE o.org = m.org AND o.model = m.model AND o.deleted_at IS NULL FOR UPDATE;
	IF NOT FOUND THEN			/* under another key, meanwhile */
		PERFORM gpucredit_registry.not_found(format('repository %s of "%s"', m.model, m.org));
	END IF;
	PERFORM gpucredit_registry.check_movable(m, NULL);
	PERFORM gpucredit_registry.check_held(m, NULL);
	DELETE FROM gpucredit_registry.retention_rule r WHERE r.org = m.org AND r.model = m.model;
	DELETE FROM gpucredit_registry.mirror r WHERE r.org = m.org AND r.model = m.model;
	FOR u IN
		SELECT o.upload FROM gpucredit_registry.upload o
		WHERE o.org = m.org AND o.model = m.model
	LOOP
		PERFORM gpucredit_registry.drop_upload(m.org, u);
	END LOOP;
	DELETE FROM gpucredit_registry.ref r WHERE r.org = m.org AND r.model = m.model;
	DELETE FROM gpucredit_registry.permission p WHERE p.org = m.org AND p.model = m.model;
	DELETE FROM gpucredit_registry.scan s
	USING gpucredit_registry.version v
	WHERE v.org = m.org AND v.model = m.model AND s.org = v.org AND s.version = v.version;
	SELECT coalesce(sum(b.size), 0) INTO kept_bytes
	FROM gpucredit_registry.object b
	WHERE b.sha256 IN (SELECT f.object FROM gpucredit_registry.file f
		JOIN gpucredit_registry.version v USING (org, version)
		WHERE v.org = m.org AND v.model = m.model);
	DELETE FROM gpucredit_registry.entry e
	USING gpucredit_registry.version v
	WHERE v.org = m.org AND v.model = m.model AND e.org = v.org AND e.line = v.version;
	UPDATE gpucredit_registry.version v SET dropped_at = gpucredit.now()
	WHERE v.org = m.org AND v.model = m.model AND v.dropped_at IS NULL;
	UPDATE gpucredit_registry.model o
	SET deleted_at = gpucredit.now(), visibility = 'private', card = NULL,
		deleted_bytes = kept_bytes
	WHERE o.org = m.org AND o.model = m.model;
	SELECT count(*) INTO delete_model.versions FROM gpucredit_registry.version v
	WHERE v.org = m.org AND v.model = m.model;
	PERFORM gpucredit_registry.record(m.org, 'delete_model', NULL,
		jsonb_build_object('model', m.model, 'name', m.name));
	PERFORM gpucredit_registry.publish_model('deleted', m.org, m.model, '{}');
	PERFORM gpucredit_registry.request_end(m.org, delete_model.key,
		to_jsonb(delete_model.versions));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.delete_model(text, bigint, text) IS
'Repositories: deletes one with all its files, for good; the name is free again. Bytes that nothing else uses go within two days. Lineage keeps its versions.
Result: how many versions it had. Errors: UC501 no such repository; UC201 key used with other arguments.';
