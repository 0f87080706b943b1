/*
 * 40_commit.sql: revisions.
 *
 * A version has the whole list of its files and never changes; a commit copies
 * its parent's list and changes the copy.  A branch names the newest version.
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
	restricted_at timestamptz,	/* by a scan that failed */
	restricted_reason text,
	CONSTRAINT version_pkey PRIMARY KEY (org, version),
	CONSTRAINT version_number UNIQUE (version),		/* lineage crosses organisations */
	CONSTRAINT version_oid UNIQUE (org, model, oid),
	FOREIGN KEY (org, model) REFERENCES gpucredit_registry.model,
	FOREIGN KEY (org, parent) REFERENCES gpucredit_registry.version
);
COMMENT ON TABLE gpucredit_registry.version IS
'Revisions of repositories; all but quarantine and restriction stays as it is';

CREATE TABLE gpucredit_registry.ref (
	org text COLLATE "C" NOT NULL,
	model bigint NOT NULL,
	ref text COLLATE "C" NOT NULL
		CHECK (ref ~ '^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$' AND ref !~ '\.\.|//|/$'),
	version bigint NOT NULL,
	tag boolean NOT NULL DEFAULT false,	/* commits do not move it */
	CONSTRAINT ref_pkey PRIMARY KEY (org, model, ref),
	FOREIGN KEY (org, version) REFERENCES gpucredit_registry.version
);
COMMENT ON TABLE gpucredit_registry.ref IS
'Names of versions that move: branches and tags';

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

CREATE TABLE gpucredit_registry.file (
	org text COLLATE "C" NOT NULL,
	version bigint NOT NULL,
	path text COLLATE "C" NOT NULL,
	object bytea NOT NULL REFERENCES gpucredit_registry.object,
	size bigint NOT NULL,
	lfs boolean NOT NULL,
	CONSTRAINT file_pkey PRIMARY KEY (org, version, path),
	FOREIGN KEY (org, version) REFERENCES gpucredit_registry.version,
	FOREIGN KEY (org, object) REFERENCES gpucredit_registry.possession
);
CREATE INDEX file_object ON gpucredit_registry.file (org, object);
COMMENT ON TABLE gpucredit_registry.file IS
'The files of each version';

/* Where a version came from, over organisations; both ways are indexed. */
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

/* Names that a git client, a file system and a URL all take. */
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
 * May these bytes enter a repository of org without being sent again?  Only
 * the caller's own rights count: that others of his organisation have them
 * gives him nothing, and he does not learn it.  Versions are looked at only
 * in repositories that he may read.
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
					JOIN gpucredit_registry.file f USING (org, object)
					JOIN gpucredit_registry.version v USING (org, version)
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

/* The version a name or an oid stands for. */
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
					ELSE find_version.rev END));
END;
COMMENT ON FUNCTION gpucredit_registry.find_version(gpucredit_registry.model, text) IS
'Internal: the version of a branch, tag or oid; NULL for none.';

/* A version by number, for callers of the database: app, or its tenant. */
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
 * A small file's body is a chunk in the table, and the whole of an object.  Both
 * are inserted in one order, so that commits of the same files do not wait for
 * each other, and before the commit takes its organisation's turn: an upload
 * that waits for the turn has inserted its object, too.
 */
CREATE FUNCTION gpucredit_registry.store_bodies(bodies bytea[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	digests bytea[] := ARRAY(SELECT DISTINCT sha256(b) FROM unnest(store_bodies.bodies) b
		WHERE b IS NOT NULL);
BEGIN
	/* again, where collect() deletes a chunk or an object that was there */
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
 * The objects that a commit puts, an element for each of its operations; NULL
 * for one that deletes, or is malformed.  Bytes that came with the commit are
 * stored; others the caller must be allowed to use.  That is asked before
 * anything else is said of them, so no answer depends on what others stored.
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
 * Why a commit may not add its objects.  Those count that the organisation does
 * not store yet: small files that came with the commit, and objects of others
 * that it begins to keep.  A commit that only deletes is always allowed.
 */
CREATE FUNCTION gpucredit_registry.commit_denial(m gpucredit_registry.model,
	objects bytea[]) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF array_remove(commit_denial.objects, NULL) = '{}' THEN
		RETURN NULL;
	END IF;
	/* one after the other, so that together they stay within the quota */
	PERFORM gpucredit_registry.lock_usage((m).org);
	RETURN gpucredit_registry.upload_denial(m, (SELECT coalesce(sum(b.size), 0)
		FROM gpucredit_registry.object b
		WHERE b.sha256 = ANY (commit_denial.objects)
			AND NOT EXISTS (SELECT FROM gpucredit_registry.possession p
				WHERE p.org = (m).org AND p.object = b.sha256))::bigint);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.commit_denial(gpucredit_registry.model, bytea[]) IS
'Internal: NULL, or storage_quota, insufficient_credits or account_suspended.';

/*
 * A file is no folder, and no two paths differ in case alone.  Only paths that a
 * commit writes can be a file and a folder, so only they are looked up, each by
 * the index: the planner knows nothing of the files of a version that is new.
 */
CREATE FUNCTION gpucredit_registry.check_tree(org text, version bigint, paths text[])
RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	one text;
	folder text;
	broken boolean;
BEGIN
	FOREACH one IN ARRAY check_tree.paths LOOP
		/* a later operation of the commit may have deleted it */
		CONTINUE WHEN NOT EXISTS (SELECT FROM gpucredit_registry.file f
			WHERE f.org = check_tree.org AND f.version = check_tree.version
				AND f.path = one);
		broken := EXISTS (SELECT FROM gpucredit_registry.file f
			WHERE f.org = check_tree.org AND f.version = check_tree.version
				AND f.path > one COLLATE "C" || '/'
				AND f.path < one COLLATE "C" || '0');
		folder := one;
		WHILE NOT broken AND strpos(folder, '/') > 0 LOOP
			folder := regexp_replace(folder, '/[^/]*$', '');
			broken := EXISTS (SELECT FROM gpucredit_registry.file f
				WHERE f.org = check_tree.org AND f.version = check_tree.version
					AND f.path = folder);
		END LOOP;
		IF broken THEN
			PERFORM gpucredit_registry.refuse('a path is a file and a folder',
				'The files of a version make a tree.');
		END IF;
	END LOOP;
	IF EXISTS (SELECT FROM gpucredit_registry.file f
		WHERE f.org = check_tree.org AND f.version = check_tree.version
		GROUP BY lower(f.path COLLATE "und-x-icu") HAVING count(*) > 1)
	THEN
		PERFORM gpucredit_registry.refuse('two paths differ only in the case of letters',
			'Some file systems can hold only one of them.', 'Rename one, or delete it.');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.check_tree(text, bigint, text[]) IS
'Internal: refuses paths of a version that a file system cannot hold together (22023).';

/*
 * Applies the list in its order; a later entry wins.  Each is {"path", "op":
 * "delete"}, {"path", "op": "delete_folder"}, {"path", "content": BASE64} or
 * {"path", "sha256": HEX}.
 */
CREATE FUNCTION gpucredit_registry.apply_operations(org text, version bigint,
	operations jsonb, objects bytea[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	o jsonb;
	n bigint;
	path text;
BEGIN
	PERFORM gpucredit_registry.possess_all(apply_operations.org, ARRAY(
		SELECT DISTINCT d FROM unnest(apply_operations.objects) d WHERE d IS NOT NULL ORDER BY 1));
	FOR o, n IN
		SELECT e.o, e.n
		FROM jsonb_array_elements(apply_operations.operations) WITH ORDINALITY AS e (o, n)
		ORDER BY e.n
	LOOP
		path := o ->> 'path';
		PERFORM gpucredit_registry.check_path(path);
		IF o ->> 'op' LIKE 'delete%' THEN
			DELETE FROM gpucredit_registry.file f
			WHERE f.org = apply_operations.org AND f.version = apply_operations.version
				AND (f.path = o ->> 'path' OR (o ->> 'op' = 'delete_folder'
					AND starts_with(f.path, (o ->> 'path') || '/')));
			IF NOT FOUND THEN
				PERFORM gpucredit_registry.not_found(format('file "%s"', left(path, 96)));
			END IF;
			CONTINUE;
		ELSIF objects[n] IS NULL THEN
			PERFORM gpucredit_registry.refuse(format('operation on "%s" is malformed',
				left(path, 64)), 'It has content, a sha256 of 64 hex digits, or op delete.');
		END IF;
		INSERT INTO gpucredit_registry.file
		SELECT apply_operations.org, apply_operations.version, o ->> 'path', b.sha256, b.size,
			NOT o ? 'content'
		FROM gpucredit_registry.object b WHERE b.sha256 = objects[n]
		ON CONFLICT ON CONSTRAINT file_pkey DO UPDATE
		SET object = excluded.object, size = excluded.size, lfs = excluded.lfs;
	END LOOP;
	PERFORM gpucredit_registry.check_tree(apply_operations.org, apply_operations.version,
		ARRAY(SELECT DISTINCT e.o ->> 'path'
			FROM jsonb_array_elements(apply_operations.operations) AS e (o)
			WHERE e.o ?| '{content,sha256}'));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.apply_operations(text, bigint, jsonb, bytea[]) IS
'Internal: changes the list of files of a version that is being made; objects: what each operation puts.';

/*
 * The base models that a card states are parents of a version of "main" that
 * changes the card, where the registry has them and the caller may read them.
 */
CREATE FUNCTION gpucredit_registry.card_parents(org text, model bigint, operations jsonb,
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
		AND EXISTS (SELECT FROM jsonb_array_elements(card_parents.operations) e
			WHERE e ->> 'path' = 'README.md')
		AND gpucredit_registry.permission_of(p.org, p.model, card_parents.caller) IS NOT NULL;
END;
COMMENT ON FUNCTION gpucredit_registry.card_parents(text, bigint, jsonb, gpucredit_registry.caller) IS
'Internal: the versions that a repository''s card says it was made from.';

CREATE FUNCTION gpucredit_registry.commit_as(m gpucredit_registry.model, ref text,
	operations jsonb, key text, parent text, parents jsonb,
	caller gpucredit_registry.caller, author text, title text, description text)
RETURNS gpucredit_registry.commit_result
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r gpucredit_registry.commit_result;
	head gpucredit_registry.version;
	kept jsonb;
	objects bytea[];
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
	/* commits to one repository run one after the other */
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
	BEGIN
		objects := gpucredit_registry.commit_objects((m).org, commit_as.operations,
			commit_as.caller);
		r.reason := gpucredit_registry.commit_denial(m, objects);
		IF r.reason IS NOT NULL THEN
			RAISE EXCEPTION 'denied';
		END IF;
	EXCEPTION WHEN raise_exception THEN
		/* what it had stored is not stored any more */
		r.status := 'denied';
		PERFORM gpucredit_registry.record((m).org, 'commit', commit_as.author,
			jsonb_build_object('model', (m).model, 'ref', commit_as.ref, 'denied', r.reason));
		PERFORM gpucredit_registry.request_end((m).org, commit_as.key, to_jsonb(r));
		RETURN r;
	END;
	INSERT INTO gpucredit_registry.version AS v (org, model, oid, parent, title,
		description, author, created_at)
	VALUES ((m).org, (m).model, encode(substr(sha256(gen_random_uuid()::text::bytea), 1, 20), 'hex'),
		(head).version, coalesce(commit_as.title, ''), commit_as.description,
		commit_as.author, gpucredit.now())
	RETURNING v.version INTO r.version;
	INSERT INTO gpucredit_registry.file
	SELECT f.org, r.version, f.path, f.object, f.size, f.lfs
	FROM gpucredit_registry.file f
	WHERE f.org = (m).org AND f.version = (head).version;
	PERFORM gpucredit_registry.apply_operations((m).org, r.version, commit_as.operations,
		objects);
	UPDATE gpucredit_registry.version v
	SET oid = encode(substr(sha256(convert_to(jsonb_build_array((m).org, (m).model, v.version,
		(head).oid, v.title, v.description, v.author, v.created_at,
		(SELECT jsonb_agg(jsonb_build_array(f.path, encode(f.object, 'hex')) ORDER BY f.path)
			FROM gpucredit_registry.file f
			WHERE f.org = v.org AND f.version = v.version))::text, 'UTF8')), 1, 20), 'hex')
	WHERE v.org = (m).org AND v.version = r.version
	RETURNING v.oid INTO r.oid;
	UPDATE gpucredit_registry.model o
	SET card = (SELECT left(convert_from(k.body, 'UTF8'), 100000)
		FROM gpucredit_registry.file f
			JOIN gpucredit_registry.chunk k ON k.sha256 = f.object
		WHERE f.org = (m).org AND f.version = r.version AND f.path = 'README.md'
			AND k.body IS NOT NULL AND gpucredit_registry.is_text(k.body))
	WHERE o.org = (m).org AND o.model = (m).model AND commit_as.ref = 'main'
		AND EXISTS (SELECT FROM jsonb_array_elements(commit_as.operations) e
			WHERE e ->> 'path' = 'README.md');
	PERFORM gpucredit_registry.add_parents((m).org, r.version, (head).version,
		commit_as.parents || CASE commit_as.ref WHEN 'main'
			THEN gpucredit_registry.card_parents((m).org, (m).model, commit_as.operations,
				commit_as.caller) ELSE '[]' END, commit_as.caller);
	PERFORM gpucredit_registry.request_scans((m).org, r.version);
	INSERT INTO gpucredit_registry.ref
	VALUES ((m).org, (m).model, commit_as.ref, r.version)
	ON CONFLICT ON CONSTRAINT ref_pkey DO UPDATE SET version = excluded.version;
	r.status := CASE WHEN (SELECT v.quarantined_at FROM gpucredit_registry.version v
			WHERE v.org = (m).org AND v.version = r.version) IS NULL
		THEN 'committed' ELSE 'quarantined' END;
	PERFORM gpucredit_registry.record((m).org, 'commit', commit_as.author,
		jsonb_build_object('model', (m).model, 'ref', commit_as.ref, 'version', r.version,
			'oid', r.oid, 'status', r.status));
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
Errors: UC501 no such repository, file or parent; UC503 bytes were not uploaded; UC505 a cycle; UC506 the ref has moved; UC201 key used with other arguments; 22023.';

/*
 * A repository that is deleted has no files, so collect() lets its bytes go.
 * Its versions stay, as what was made from them names them.
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
	WHERE o.org = m.org AND o.model = m.model FOR UPDATE;
	PERFORM gpucredit_registry.check_movable(m, NULL);
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
	DELETE FROM gpucredit_registry.file f
	USING gpucredit_registry.version v
	WHERE v.org = m.org AND v.model = m.model AND f.org = v.org AND f.version = v.version;
	UPDATE gpucredit_registry.model o
	SET deleted_at = gpucredit.now(), visibility = 'private', card = NULL,
		deleted_bytes = kept_bytes
	WHERE o.org = m.org AND o.model = m.model;
	SELECT count(*) INTO delete_model.versions FROM gpucredit_registry.version v
	WHERE v.org = m.org AND v.model = m.model;
	PERFORM gpucredit_registry.record(m.org, 'delete_model', NULL,
		jsonb_build_object('model', m.model, 'name', m.name));
	PERFORM gpucredit_registry.request_end(m.org, delete_model.key,
		to_jsonb(delete_model.versions));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.delete_model(text, bigint, text) IS
'Repositories: deletes one with all its files, for good; the name is free again. Bytes that nothing else uses go within two days. Lineage keeps its versions.
Result: how many versions it had. Errors: UC501 no such repository; UC201 key used with other arguments.';
