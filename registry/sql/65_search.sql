/*
 * 65_search.sql: tags, and search.
 *
 * A tag is also stored in the repository's row as "tag=value", so that one
 * index finds several tags at once.
 */
CREATE FUNCTION gpucredit_registry.set_words() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	NEW.words := setweight(to_tsvector('simple', translate(NEW.name, '._-', '   ')), 'A')
		|| to_tsvector('simple', left(coalesce(NEW.card, ''), 100000))
		/*
		 * every suffix of the name, so that an index finds any part of it by a
		 * prefix search
		 */
		|| array_to_tsvector(ARRAY(SELECT substr(lower(NEW.name), n)
			FROM generate_series(1, greatest(length(NEW.name) - 2, 1)) n));
	NEW.fields := gpucredit_registry.card_fields(NEW.card);
	/* A licence of create_model() is found like that of a card, which goes first. */
	NEW.facets := gpucredit_registry.card_facets(NEW.fields)
		|| CASE WHEN NEW.license IS NOT NULL AND NOT NEW.fields ? 'license'
			THEN ARRAY['license:' || NEW.license] ELSE '{}' END;
	RETURN NEW;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.set_words() IS
'Internal: what searches find a repository by: its name, its card, and the fields of the card.';
CREATE TRIGGER model_words BEFORE INSERT OR UPDATE OF name, card, license ON gpucredit_registry.model
FOR EACH ROW EXECUTE FUNCTION gpucredit_registry.set_words();

CREATE FUNCTION gpucredit_registry.set_tag(org text, model bigint, tag text, value text)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model := gpucredit_registry.own_model(set_tag.org, set_tag.model);
BEGIN
	IF coalesce(set_tag.tag, '') !~ '^[a-z0-9][a-z0-9_.:-]{0,62}$'
		OR octet_length(set_tag.value) NOT BETWEEN 1 AND 255
	THEN
		PERFORM gpucredit_registry.refuse(format('tag "%s" is malformed', left(set_tag.tag, 64)),
			'A tag has 1 to 63 small letters, digits, "_", ".", ":" or "-", its value 1 to 255 bytes.');
	END IF;
	/* Changes of one repository's tags wait for each other here. */
	SELECT * INTO m FROM gpucredit_registry.model o
	WHERE o.org = m.org AND o.model = m.model FOR NO KEY UPDATE;
	UPDATE gpucredit_registry.model o
	SET tags = ARRAY(SELECT t FROM unnest(m.tags) t
			WHERE split_part(t, '=', 1) <> set_tag.tag)
		|| CASE WHEN set_tag.value IS NULL THEN '{}'
			ELSE ARRAY[set_tag.tag || '=' || set_tag.value] END
	WHERE o.org = m.org AND o.model = m.model;
	PERFORM gpucredit_registry.record(m.org, 'set_tag', NULL, jsonb_build_object(
		'model', m.model, 'tag', set_tag.tag, 'value', set_tag.value));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.set_tag(text, bigint, text, text) IS
'Search: gives a repository a tag, or takes it away.
value: NULL: the tag goes. Errors: UC501 no such repository; 22023.';

CREATE FUNCTION gpucredit_registry.sort_key(m gpucredit_registry.model, sort text)
RETURNS numeric
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE sort_key.sort
		WHEN 'created' THEN extract(epoch FROM (m).created_at)
		WHEN 'modified' THEN extract(epoch FROM coalesce((
			SELECT max(v.created_at) FROM gpucredit_registry.version v
			WHERE v.org = (m).org AND v.model = (m).model), (m).created_at))
		WHEN 'downloads' THEN coalesce((SELECT sum(e.downloads)
			FROM gpucredit_registry.egress e
			WHERE e.org = (m).org AND e.model = (m).model), 0) END;
END;
COMMENT ON FUNCTION gpucredit_registry.sort_key(gpucredit_registry.model, text) IS
'Internal: what a repository is sorted by.';

/*
 * Returns repositories. The query itself filters by what the caller may see, so
 * that a page is full; "everything" lets an operator see all. Each call is
 * planned for its words and tags: an index finds rare ones; for common ones the
 * scan reads repositories from the newest on until the page is full.
 */
CREATE FUNCTION gpucredit_registry.found_models(caller gpucredit_registry.caller,
	everything boolean, query text, labels text[], after bigint, n integer, in_org text,
	of_kind text, facets text[], sort text, ascending boolean, skip bigint)
RETURNS SETOF gpucredit_registry.model
LANGUAGE plpgsql STABLE ROWS 20
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
	found_words tsquery := websearch_to_tsquery('simple', nullif(found_models.query, ''));
	part text := substring(lower(found_models.query) FROM '^[a-z0-9._-]{3,96}$');
BEGIN
	IF coalesce(found_models.n, 0) NOT BETWEEN 1 AND 1000
		OR coalesce(found_models.sort, 'created') NOT IN ('created', 'modified', 'downloads', 'name')
		OR found_models.facets IS NULL OR found_models.labels IS NULL
		OR coalesce(found_models.skip, -1) NOT BETWEEN 0 AND 1000000
	THEN
		PERFORM gpucredit_registry.refuse('tags is an object, n is 1 to 1,000, sort is created, modified, downloads or name, skip is 0 to 1,000,000',
			format('n is %s, sort is "%s".', found_models.n, left(found_models.sort, 64)));
	END IF;
	IF part IS NOT NULL THEN
		found_words := found_words || (quote_literal(part) || ':*')::tsquery;
	END IF;
	RETURN QUERY
	SELECT m.*
	FROM gpucredit_registry.model m
	WHERE (found_models.labels = '{}' OR m.tags @> found_models.labels)
		AND (found_models.facets = '{}' OR m.facets @> found_models.facets)
		AND (found_words IS NULL OR m.words @@ found_words)
		AND (found_models.after IS NULL OR m.model < found_models.after)
		AND (found_models.in_org IS NULL OR m.org = found_models.in_org)
		AND (found_models.of_kind IS NULL OR m.kind = found_models.of_kind)
		AND m.deleted_at IS NULL
		AND (found_models.everything OR m.visibility = 'public'
			OR gpucredit_registry.permission_of(m.org, m.model, found_models.caller) IS NOT NULL)
	/*
	 * A sort key that was not requested is constant, and the planner removes
	 * it.
	 */
	ORDER BY
		CASE WHEN found_models.sort = 'name' AND found_models.ascending THEN m.name END,
		CASE WHEN found_models.sort = 'name' AND NOT found_models.ascending THEN m.name END DESC,
		CASE WHEN found_models.sort <> 'name' AND found_models.ascending
			THEN gpucredit_registry.sort_key(m, found_models.sort) END,
		CASE WHEN found_models.sort <> 'name' AND NOT found_models.ascending
			THEN gpucredit_registry.sort_key(m, found_models.sort) END DESC,
		m.model DESC
	OFFSET found_models.skip
	LIMIT found_models.n;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.found_models(gpucredit_registry.caller, boolean, text, text[], bigint, integer, text, text, text[], text, boolean, bigint) IS
'Internal: repositories that a caller may read, or all, in an order. Errors: 22023.';

CREATE FUNCTION gpucredit_registry.search(caller text, query text DEFAULT NULL,
	tags jsonb DEFAULT '{}', after bigint DEFAULT NULL, n integer DEFAULT 20,
	in_org text DEFAULT NULL, of_kind text DEFAULT NULL, facets text[] DEFAULT '{}',
	sort text DEFAULT NULL, ascending boolean DEFAULT false, skip bigint DEFAULT 0)
RETURNS TABLE (org text, model bigint, name text, kind text, visibility text, license text,
	has_tags text[])
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 20
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	labels text[] := CASE jsonb_typeof(search.tags) WHEN 'object' THEN ARRAY(
		SELECT t.key || '=' || t.value FROM jsonb_each_text(search.tags) t) END;
BEGIN
	RETURN QUERY
	SELECT m.org, m.model, m.name, m.kind, m.visibility, m.license, m.tags
	FROM gpucredit_registry.found_models(gpucredit_registry.named_caller(search.caller), false,
		search.query, labels, search.after, search.n, search.in_org, search.of_kind,
		search.facets, search.sort, search.ascending, search.skip) m;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.search(text, text, jsonb, bigint, integer, text, text, text[], text, boolean, bigint) IS
'Search: repositories that a caller may read, newest first, by words of name and card, a part of the name, and by tags.
caller: account:ORG/PATH; NULL: nobody known. query: words, "phrases", -without, or. tags: {"tag": "value"}, all of which a repository has. after: the last model of the page before. n: 1 to 1,000. in_org, of_kind: only those of an organisation, only model or dataset. facets: what the card must state, as "text-generation", "license:mit", "dataset:NAME", "base_model:ORG/NAME". sort: created, modified, downloads or name, of all that is found; NULL: the newest first, found page by page. ascending: the least first. skip: so many of them are left out.
Errors: 22023.';

CREATE FUNCTION gpucredit_registry.popular(since timestamptz, n integer DEFAULT 100)
RETURNS TABLE (org text, model bigint, name text, downloads bigint, bytes bigint)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT m.org, m.model, m.name, sum(e.downloads)::bigint, sum(e.bytes)::bigint
	FROM gpucredit_registry.egress e JOIN gpucredit_registry.model m USING (org, model)
	WHERE e.day >= (popular.since AT TIME ZONE 'UTC')::date
		AND m.visibility = 'public' AND m.deleted_at IS NULL
	GROUP BY m.org, m.model, m.name
	ORDER BY sum(e.downloads) DESC, sum(e.bytes) DESC, m.model
	LIMIT popular.n;
END;
COMMENT ON FUNCTION gpucredit_registry.popular(timestamptz, integer) IS
'Search: the public repositories that were downloaded most since a day.';

/* Returns how many bytes two versions have in common, by their chunks. */
CREATE FUNCTION gpucredit_registry.overlap(org text, a bigint, b bigint,
	OUT shared_bytes bigint, OUT share numeric)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v bigint;
BEGIN
	FOREACH v IN ARRAY ARRAY[overlap.a, overlap.b] LOOP
		PERFORM gpucredit_registry.own_model(overlap.org, (SELECT o.model
			FROM gpucredit_registry.version o
			WHERE o.org = overlap.org AND o.version = v));
	END LOOP;
	WITH
	chunks AS (
		SELECT DISTINCT f.version, c.chunk
		FROM gpucredit_registry.file f
			JOIN gpucredit_registry.segment s ON s.object = f.object,
			unnest(s.chunks) AS c (chunk)
		WHERE f.org = overlap.org AND f.version IN (overlap.a, overlap.b))
	SELECT coalesce(sum(k.size) FILTER (WHERE c.chunk IN (SELECT d.chunk FROM chunks d
				WHERE d.version = overlap.b)), 0),
		round(coalesce(sum(k.size) FILTER (WHERE c.chunk IN (SELECT d.chunk FROM chunks d
				WHERE d.version = overlap.b)), 0)::numeric / nullif(sum(k.size), 0), 6)
	INTO overlap.shared_bytes, overlap.share
	FROM chunks c JOIN gpucredit_registry.chunk k USING (chunk)
	WHERE c.version = overlap.a;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.overlap(text, bigint, bigint) IS
'Lineage: how many bytes of version a are in version b, too, by the chunks they share.
Result: share: of a''s unique bytes, 0 to 1. Errors: UC501 no such version.';
