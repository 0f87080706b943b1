/*
 * 57_immutable.sql: immutable tags: set_immutable_tags().
 *
 * A tag that matches a pattern of its repository may be made, and then neither
 * moves nor is deleted, nor is the repository. The versions that an index of
 * images names are part of its tag.
 */
CREATE TABLE gpucredit_registry.immutable_tag (
	org text COLLATE "C" NOT NULL,
	model bigint NOT NULL,
	pattern text COLLATE "C" NOT NULL,
	CONSTRAINT immutable_tag_pkey PRIMARY KEY (org, model, pattern),
	FOREIGN KEY (org, model) REFERENCES gpucredit_registry.model
);
COMMENT ON TABLE gpucredit_registry.immutable_tag IS
'Patterns of the tags of a repository that neither move nor are deleted';

/*
 * Returns the regular expression of a pattern: "*" stands for any characters
 * but "/", "**" for any, "?" for one, and {a,b} for one of both.
 */
CREATE FUNCTION gpucredit_registry.pattern_regex(pattern text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF coalesce(pattern_regex.pattern, '')
		!~ '^([A-Za-z0-9._/*?-]|\{[A-Za-z0-9._/-]+(,[A-Za-z0-9._/-]+)*\}){1,200}$'
	THEN
		PERFORM gpucredit_registry.refuse(format('pattern "%s" is malformed',
				left(pattern_regex.pattern, 64)),
			'A pattern has letters, digits, ".", "_", "/", "-", "*", "?" and {A,B}.');
	END IF;
	RETURN '^(?:' || (SELECT string_agg(CASE p.piece[1] WHEN '**' THEN '.*' WHEN '*' THEN '[^/]*'
			WHEN '?' THEN '[^/]' WHEN '.' THEN '\.' WHEN '{' THEN '(?:' WHEN '}' THEN ')'
			WHEN ',' THEN '|' ELSE p.piece[1] END, '' ORDER BY p.n)
		FROM regexp_matches(pattern_regex.pattern, '\*\*|.', 'g') WITH ORDINALITY AS p (piece, n))
		|| ')$';
END
$$;
COMMENT ON FUNCTION gpucredit_registry.pattern_regex(text) IS
'Internal: a pattern of tags as a regular expression (22023).';

/* Whether a ref is a tag. Each ref of an image but its digest is one. */
CREATE FUNCTION gpucredit_registry.is_tag(kind text, r gpucredit_registry.ref) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT (r).tag OR is_tag.kind = 'image' AND NOT starts_with((r).ref, 'sha256/')
		AND NOT starts_with((r).ref, '@');
END;
COMMENT ON FUNCTION gpucredit_registry.is_tag(text, gpucredit_registry.ref) IS
'Internal: is a ref a tag, neither a branch nor an alias nor an image''s digest?';

/* Returns the versions whose manifests an index of images names. */
CREATE FUNCTION gpucredit_registry.image_parts(m gpucredit_registry.model, version bigint)
RETURNS TABLE (part bigint)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT r.version
	FROM gpucredit_registry.file f
		JOIN gpucredit_registry.chunk k ON k.sha256 = f.object AND k.body IS NOT NULL,
		jsonb_array_elements(convert_from(k.body, 'UTF8')::jsonb -> 'manifests') AS e (entry)
		JOIN gpucredit_registry.ref r ON r.org = (m).org AND r.model = (m).model
			AND r.ref = replace(e.entry ->> 'digest', ':', '/')
	WHERE (m).kind = 'image' AND f.org = (m).org AND f.version = image_parts.version
		AND f.path = 'manifest.json';
END;
COMMENT ON FUNCTION gpucredit_registry.image_parts(gpucredit_registry.model, bigint) IS
'Internal: the images of an index.';

/*
 * Returns the immutable tags of a repository, and the version that each has:
 * for an index of images also the versions of the manifests that it names.
 */
CREATE FUNCTION gpucredit_registry.immutable_tags(m gpucredit_registry.model)
RETURNS TABLE (tag text, version bigint)
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH RECURSIVE
	named AS (
		SELECT r.ref::text AS tag, r.version
		FROM gpucredit_registry.ref r
		WHERE r.org = (m).org AND r.model = (m).model
			AND gpucredit_registry.is_tag((m).kind, r)
			AND EXISTS (SELECT FROM gpucredit_registry.immutable_tag i
				WHERE i.org = r.org AND i.model = r.model
					AND r.ref ~ gpucredit_registry.pattern_regex(i.pattern))
		UNION
		SELECT n.tag, p.part
		FROM named n, gpucredit_registry.image_parts(m, n.version) AS p (part))
	SELECT n.tag, n.version FROM named n;
END;
COMMENT ON FUNCTION gpucredit_registry.immutable_tags(gpucredit_registry.model) IS
'Internal: the tags of a repository that match a pattern, and their versions.';

/* Raises an error if a tag may not move to another version, or be deleted. */
CREATE FUNCTION gpucredit_registry.check_immutable(m gpucredit_registry.model, ref text,
	version bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	fixed text;
BEGIN
	IF NOT EXISTS (SELECT FROM gpucredit_registry.immutable_tag i
			WHERE i.org = (m).org AND i.model = (m).model)
		OR EXISTS (SELECT FROM gpucredit_registry.ref r
			WHERE r.org = (m).org AND r.model = (m).model AND r.ref = check_immutable.ref
				AND r.version = check_immutable.version)
	THEN
		RETURN;
	END IF;
	fixed := (SELECT min(t.tag) FROM gpucredit_registry.immutable_tags(m) t
		WHERE t.tag = coalesce(check_immutable.ref, t.tag));
	IF fixed IS NOT NULL THEN
		RAISE EXCEPTION 'tag "%" of "%/%" is immutable', fixed, (m).org, (m).name
			USING ERRCODE = 'insufficient_privilege',
			DETAIL = 'It neither moves nor is deleted, nor is its repository.',
			HINT = 'Make another tag, or let the owner call set_immutable_tags().';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.check_immutable(gpucredit_registry.model, text, bigint) IS
'Internal: refuses to move an immutable tag to another version, or to delete it (42501); ref NULL: any of the repository.';

CREATE FUNCTION gpucredit_registry.set_immutable_tags(org text, model bigint,
	patterns text[]) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model := gpucredit_registry.own_model(set_immutable_tags.org,
		set_immutable_tags.model);
BEGIN
	IF set_immutable_tags.patterns IS NULL OR cardinality(set_immutable_tags.patterns) > 20 THEN
		PERFORM gpucredit_registry.refuse('patterns are an array of at most 20',
			'An empty array lets all tags move.');
	END IF;
	PERFORM gpucredit_registry.pattern_regex(p) FROM unnest(set_immutable_tags.patterns) p;
	PERFORM gpucredit_registry.fence_model(m);
	DELETE FROM gpucredit_registry.immutable_tag i
	WHERE i.org = m.org AND i.model = m.model AND i.pattern <> ALL (set_immutable_tags.patterns);
	INSERT INTO gpucredit_registry.immutable_tag
	SELECT DISTINCT m.org, m.model, p FROM unnest(set_immutable_tags.patterns) p
	ON CONFLICT DO NOTHING;
	PERFORM gpucredit_registry.record(m.org, 'set_immutable_tags', NULL, jsonb_build_object(
		'model', m.model, 'patterns', set_immutable_tags.patterns));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.set_immutable_tags(text, bigint, text[]) IS
'Rights: tags that match one of these patterns are made once, and then neither move nor are deleted, nor is their repository. Replaces the patterns that were set before.
patterns: at most 20, of the tag''s characters with "*" for any but "/", "**" for any, "?" for one, {A,B} for one of both; an empty array: none.
Errors: UC501 no such repository; 22023.';
