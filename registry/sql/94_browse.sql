/*
 * 94_browse.sql: what somebody who looks through the registry is shown, by the
 * console and by programs with a database login.
 *
 * A reader is an account that the session may see. It is shown what this
 * account may read by any other way: its own repositories, those that others
 * opened to it, and what is public. So a tenant of one account learns of no
 * other's. A missing and a hidden repository cause the same error. Functions
 * whose name begins with "all_" are for operators and auditors, and have no
 * reader.
 */

/* Returns a repository that a reader may read. */
CREATE FUNCTION gpucredit_registry.readable_model(org text, account text, model bigint)
RETURNS gpucredit_registry.model
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model;
BEGIN
	PERFORM gpucredit_registry.check_account(readable_model.org, readable_model.account);
	SELECT * INTO m FROM gpucredit_registry.model o
	WHERE o.model = readable_model.model AND o.deleted_at IS NULL
		AND gpucredit_registry.permission_of(o.org, o.model,
			(readable_model.org, readable_model.account, 'read')) IS NOT NULL;
	IF m.model IS NULL THEN
		PERFORM gpucredit_registry.not_found(format('repository %s', readable_model.model));
	END IF;
	RETURN m;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.readable_model(text, text, bigint) IS
'Internal: a repository that an account of the session may read. Errors: UC001 no such account; UC501.';

/* Returns a version of any repository that a reader may read. */
CREATE FUNCTION gpucredit_registry.readable_version(org text, account text, version bigint)
RETURNS gpucredit_registry.version
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version;
BEGIN
	SELECT * INTO v FROM gpucredit_registry.version o
	WHERE o.version = readable_version.version;
	PERFORM gpucredit_registry.readable_model(readable_version.org, readable_version.account,
		v.model);
	RETURN v;
EXCEPTION WHEN SQLSTATE 'UC501' THEN
	PERFORM gpucredit_registry.not_found(format('version %s', readable_version.version));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.readable_version(text, text, bigint) IS
'Internal: a version that an account of the session may know of. Errors: UC001 no such account; UC501.';

CREATE FUNCTION gpucredit_registry.check_page(n integer) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	/* A caller that asks for one row more than a page knows whether there is another. */
	IF coalesce(check_page.n, 0) NOT BETWEEN 1 AND 1001 THEN
		PERFORM gpucredit_registry.refuse('limit is 1 to 1,001', format('It is %s.', check_page.n));
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.check_page(integer) IS
'Internal: refuses a page of no rows or of too many (22023).';

/*
 * Returns what can be done with a version, and why nothing more: what
 * read_refusal() looks at, but for blocked bytes, which are a file's.
 */
CREATE FUNCTION gpucredit_registry.state_of(v gpucredit_registry.version,
	OUT state text, OUT reason text)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE WHEN (v).quarantined_at IS NOT NULL THEN 'quarantined'
			WHEN (v).restricted_at IS NOT NULL THEN 'restricted'
			WHEN (v).dropped_at IS NOT NULL THEN 'removed'
			WHEN s.held THEN 'held' WHEN s.waiting THEN 'scanning' ELSE 'ready' END,
		CASE WHEN (v).quarantined_at IS NOT NULL THEN (v).quarantine_reason
			WHEN (v).restricted_at IS NOT NULL THEN (v).restricted_reason END
	FROM (SELECT coalesce(bool_or(c.hold), false) AS held, count(*) > 0 AS waiting
		FROM gpucredit_registry.scan c
		WHERE c.org = (v).org AND c.version = (v).version AND c.verdict IS NULL) s;
END;
COMMENT ON FUNCTION gpucredit_registry.state_of(gpucredit_registry.version) IS
'Internal: quarantined, restricted, removed, held, scanning or ready, and why.';

/* Returns the refs that name a version. */
CREATE FUNCTION gpucredit_registry.refs_of(v gpucredit_registry.version) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce(jsonb_agg(jsonb_build_object('ref', r.ref, 'kind',
			CASE WHEN starts_with(r.ref, '@') THEN 'alias' WHEN r.tag THEN 'tag' ELSE 'branch' END,
			'protected', EXISTS (SELECT FROM gpucredit_registry.protected_ref p
				WHERE p.org = r.org AND p.model = r.model AND p.ref = r.ref)) ORDER BY r.ref), '[]')
	FROM (SELECT o.* FROM gpucredit_registry.ref o
		WHERE o.org = (v).org AND o.model = (v).model AND o.version = (v).version
		ORDER BY o.ref LIMIT 100) r;
END;
COMMENT ON FUNCTION gpucredit_registry.refs_of(gpucredit_registry.version) IS
'Internal: at most 100 refs that name a version, each with its kind and whether it is protected.';

/* Returns one line of a list of repositories. */
CREATE FUNCTION gpucredit_registry.model_row(m gpucredit_registry.model,
	OUT model_org text, OUT model bigint, OUT name text, OUT kind text, OUT visibility text,
	OUT license text, OUT library text, OUT task text, OUT tags text[], OUT versions bigint,
	OUT files bigint, OUT modified_at timestamptz, OUT downloads bigint, OUT state text)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT (m).org, (m).model, (m).name, (m).kind, (m).visibility,
		coalesce((m).fields #>> '{license,0}', (m).license), (m).fields #>> '{library_name,0}',
		(m).fields #>> '{pipeline_tag,0}',
		ARRAY(SELECT jsonb_array_elements_text((m).fields -> 'tags') LIMIT 20),
		(SELECT count(*) FROM gpucredit_registry.version v
			WHERE v.org = (m).org AND v.model = (m).model),
		h.files,
		coalesce((SELECT max(v.created_at) FROM gpucredit_registry.version v
			WHERE v.org = (m).org AND v.model = (m).model), (m).created_at),
		coalesce((SELECT sum(e.downloads) FROM gpucredit_registry.egress e
			WHERE e.org = (m).org AND e.model = (m).model
				AND e.day > (gpucredit.now() AT TIME ZONE 'UTC')::date - 30), 0)::bigint,
		(SELECT s.state FROM gpucredit_registry.state_of(h) s WHERE h.version IS NOT NULL)
	FROM (SELECT) one LEFT JOIN LATERAL gpucredit_registry.find_version(m, 'main') h ON true;
END;
COMMENT ON FUNCTION gpucredit_registry.model_row(gpucredit_registry.model) IS
'Internal: what lists show of a repository.';

CREATE FUNCTION gpucredit_registry.models(org text, account text DEFAULT '',
	query text DEFAULT NULL, facets text[] DEFAULT '{}', labels text[] DEFAULT '{}',
	of_org text DEFAULT NULL, of_kind text DEFAULT NULL, sort text DEFAULT NULL,
	ascending boolean DEFAULT false, skip bigint DEFAULT 0, "limit" integer DEFAULT 100)
RETURNS TABLE (model_org text, model bigint, name text, kind text, visibility text,
	license text, library text, task text, tags text[], versions bigint, files bigint,
	modified_at timestamptz, downloads bigint, state text)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_registry.check_account(models.org, models.account);
	RETURN QUERY
	SELECT r.* FROM gpucredit_registry.found_models((models.org, models.account, 'read'), false,
			models.query, models.labels, NULL, models."limit", models.of_org, models.of_kind,
			models.facets, models.sort, models.ascending, models.skip) m,
		gpucredit_registry.model_row(m) r;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.models(text, text, text, text[], text[], text, text, text, boolean, bigint, integer) IS
'Search: repositories that an account may read, newest first: its own, those of others that are open to it, and what is public.
query: as search(). facets: what the card must state, as "text-generation", "license:mit". labels: tags of set_tag() that it has, as "stage=production". of_org, of_kind: only those of an organisation, only model, dataset or image. sort: created, modified, downloads or name. ascending: the least first. skip: so many of them are left out. limit: 1 to 1,001.
Result: files and state of main: ready; scanning; held: only who may write reads it until it was scanned; restricted: it failed a scan; quarantined; removed: retention removed its files; NULL: nothing was committed. downloads: of 30 days.
Errors: UC001 no such account; 22023.';

CREATE FUNCTION gpucredit_registry.all_models(query text DEFAULT NULL,
	facets text[] DEFAULT '{}', labels text[] DEFAULT '{}', of_org text DEFAULT NULL,
	of_kind text DEFAULT NULL, sort text DEFAULT NULL, ascending boolean DEFAULT false,
	skip bigint DEFAULT 0, "limit" integer DEFAULT 100)
RETURNS TABLE (model_org text, model bigint, name text, kind text, visibility text,
	license text, library text, task text, tags text[], versions bigint, files bigint,
	modified_at timestamptz, downloads bigint, state text)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN QUERY
	SELECT r.* FROM gpucredit_registry.found_models(NULL, true, all_models.query,
			all_models.labels, NULL, all_models."limit", all_models.of_org, all_models.of_kind,
			all_models.facets, all_models.sort, all_models.ascending, all_models.skip) m,
		gpucredit_registry.model_row(m) r;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.all_models(text, text[], text[], text, text, text, boolean, bigint, integer) IS
'Search: repositories of all organisations, for operators and auditors. Arguments and result: as models().
Errors: 22023.';

/* Counts what cards state; of each kind of facet those that most have. */
CREATE FUNCTION gpucredit_registry.count_facets(found_models gpucredit_registry.model[])
RETURNS TABLE (kind text, value text, facet text, models bigint)
LANGUAGE sql STABLE ROWS 50
BEGIN ATOMIC
	SELECT c.kind, c.value, c.facet, c.models
	FROM (
		SELECT s.kind, s.value, s.facet, count(DISTINCT m.model) AS models,
			row_number() OVER (PARTITION BY s.kind
				ORDER BY count(DISTINCT m.model) DESC, s.value COLLATE "C") AS n
		FROM unnest(count_facets.found_models) m,
			LATERAL (
				SELECT p.kind, w.word, p.prefix || w.word
				FROM (VALUES ('task', 'pipeline_tag', ''), ('library', 'library_name', ''),
						('license', 'license', 'license:'), ('language', 'language', ''),
						('tag', 'tags', '')) AS p (kind, key, prefix),
					jsonb_array_elements_text(coalesce(m.fields -> p.key, '[]')) AS w (word)
				UNION ALL
				SELECT 'license', m.license, 'license:' || m.license
				WHERE m.license IS NOT NULL AND NOT m.fields ? 'license'
				UNION ALL
				SELECT 'label', t.tag, NULL FROM unnest(m.tags) AS t (tag)) AS s (kind, value, facet)
		GROUP BY s.kind, s.value, s.facet) c
	WHERE c.n <= 10
	ORDER BY c.kind, c.models DESC, c.value COLLATE "C";
END;
COMMENT ON FUNCTION gpucredit_registry.count_facets(gpucredit_registry.model[]) IS
'Internal: what searches of these repositories could be narrowed by, and how many would stay.';

CREATE FUNCTION gpucredit_registry.model_facets(org text, account text DEFAULT '',
	query text DEFAULT NULL, facets text[] DEFAULT '{}', labels text[] DEFAULT '{}',
	of_org text DEFAULT NULL, of_kind text DEFAULT NULL)
RETURNS TABLE (kind text, value text, facet text, models bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 50
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_registry.check_account(model_facets.org, model_facets.account);
	RETURN QUERY
	SELECT c.* FROM gpucredit_registry.count_facets(ARRAY(
		SELECT m FROM gpucredit_registry.found_models((model_facets.org, model_facets.account,
			'read'), false, model_facets.query, model_facets.labels, NULL, 1000,
			model_facets.of_org, model_facets.of_kind, model_facets.facets, NULL, false, 0) m)) c;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.model_facets(text, text, text, text[], text[], text, text) IS
'Search: by what models() could be narrowed, of the 1,000 newest that it finds with these arguments.
Result: kind: task, library, license, language, tag: what cards state, to be passed as facet; label: a tag of set_tag(), to be passed in labels; of each kind the ten that most have. models: how many would stay.
Errors: UC001 no such account; 22023.';

CREATE FUNCTION gpucredit_registry.all_model_facets(query text DEFAULT NULL,
	facets text[] DEFAULT '{}', labels text[] DEFAULT '{}', of_org text DEFAULT NULL,
	of_kind text DEFAULT NULL)
RETURNS TABLE (kind text, value text, facet text, models bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 50
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN QUERY
	SELECT c.* FROM gpucredit_registry.count_facets(ARRAY(
		SELECT m FROM gpucredit_registry.found_models(NULL, true, all_model_facets.query,
			all_model_facets.labels, NULL, 1000, all_model_facets.of_org, all_model_facets.of_kind,
			all_model_facets.facets, NULL, false, 0) m)) c;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.all_model_facets(text, text[], text[], text, text) IS
'Search: by what all_models() could be narrowed. Result: as model_facets(). Errors: 22023.';

CREATE FUNCTION gpucredit_registry.model_details(org text, account text, of_org text,
	name text, kind text DEFAULT 'model', OUT model bigint, OUT paid_by text,
	OUT visibility text, OUT license text, OUT library text, OUT task text, OUT tags text[],
	OUT labels text[], OUT languages text[], OUT base_models text[], OUT permission text,
	OUT created_at timestamptz, OUT modified_at timestamptz, OUT versions bigint,
	OUT downloads bigint, OUT head text, OUT state text, OUT reason text, OUT card text,
	OUT card_refused text, OUT refs jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c gpucredit_registry.caller := (model_details.org, model_details.account, 'write');
	m gpucredit_registry.model;
	v gpucredit_registry.version;
	r record;
BEGIN
	PERFORM gpucredit_registry.check_account(model_details.org, model_details.account);
	m := gpucredit_registry.require_model(model_details.of_org, model_details.name,
		model_details.kind, c, 'read');
	v := gpucredit_registry.find_version(m, 'main');
	r := gpucredit_registry.model_row(m);
	model := m.model;
	permission := gpucredit_registry.permission_of(m.org, m.model, c);
	paid_by := CASE permission WHEN 'admin' THEN m.account END;
	visibility := m.visibility;
	license := r.license;
	library := r.library;
	task := r.task;
	tags := r.tags;
	labels := m.tags;
	languages := ARRAY(SELECT jsonb_array_elements_text(m.fields -> 'language') LIMIT 20);
	base_models := ARRAY(SELECT jsonb_array_elements_text(m.fields -> 'base_model') LIMIT 20);
	created_at := m.created_at;
	modified_at := r.modified_at;
	versions := r.versions;
	downloads := r.downloads;
	head := v.oid;
	IF v.version IS NOT NULL THEN
		SELECT s.state, s.reason INTO state, reason FROM gpucredit_registry.state_of(v) s;
		/* The card is a file of the version: who may not read that one is not shown it. */
		card_refused := gpucredit_registry.read_refusal(v, (SELECT f.object
			FROM gpucredit_registry.file f
			WHERE f.org = v.org AND f.version = v.version AND f.path = 'README.md'), c);
	END IF;
	card := CASE WHEN card_refused IS NULL THEN m.card END;
	SELECT coalesce(jsonb_agg(jsonb_build_object('ref', o.ref, 'kind', CASE
			WHEN starts_with(o.ref, '@') THEN 'alias' WHEN o.tag THEN 'tag' ELSE 'branch' END,
			'oid', o.oid) ORDER BY o.ref), '[]')
	INTO refs
	FROM (SELECT f.ref, f.tag, n.oid
		FROM gpucredit_registry.ref f JOIN gpucredit_registry.version n USING (org, version)
		WHERE f.org = m.org AND f.model = m.model
		ORDER BY f.ref LIMIT 200) o;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.model_details(text, text, text, text, text) IS
'Reading: a repository by its name, for an account that may read it.
org, account: the reader. of_org, name, kind: whose it is, and what it is called.
Result: permission: read, write or admin. paid_by: the account that pays for it, for who has admin. head, state, reason: the oid of main, and its state as in models(). card: text that its author chose: show it as such. card_refused: why the card is withheld: quarantined, restricted, scan_pending. refs: at most 200, each with kind branch, tag or alias, and the oid that it names. downloads: of 30 days.
Errors: UC001 no such account; UC501 no such repository.';

CREATE FUNCTION gpucredit_registry.versions(org text, account text, model bigint,
	after bigint DEFAULT NULL, "limit" integer DEFAULT 100)
RETURNS TABLE (version bigint, oid text, title text, author text, created_at timestamptz,
	files bigint, state text, reason text, refs jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model := gpucredit_registry.readable_model(versions.org,
		versions.account, versions.model);
BEGIN
	PERFORM gpucredit_registry.check_page(versions."limit");
	RETURN QUERY
	SELECT v.version, v.oid::text, left(v.title, 500), v.author, v.created_at,
		CASE WHEN v.dropped_at IS NULL THEN v.files ELSE 0 END, s.state, s.reason,
		gpucredit_registry.refs_of(v)
	FROM gpucredit_registry.version v, gpucredit_registry.state_of(v) s
	WHERE v.org = m.org AND v.model = m.model
		AND (versions.after IS NULL OR v.version < versions.after)
	ORDER BY v.version DESC
	LIMIT versions."limit";
END
$$;
COMMENT ON FUNCTION gpucredit_registry.versions(text, text, bigint, bigint, integer) IS
'Reading: the versions of a repository, newest first, for an account that may read it.
org, account: the reader. after: the last version of the page before. limit: 1 to 1,001.
Result: state, reason: as in models(). refs: an array of {"ref", "kind", "protected"}: the branches, tags and aliases that name it.
Errors: UC001 no such account; UC501 no such repository; 22023.';

CREATE FUNCTION gpucredit_registry.version_details(org text, account text, model bigint,
	revision text DEFAULT 'main', OUT version bigint, OUT oid text, OUT title text,
	OUT description text, OUT author text, OUT created_at timestamptz, OUT files bigint,
	OUT bytes numeric, OUT blocked bigint, OUT state text, OUT reason text, OUT refs jsonb,
	OUT source text, OUT source_repository text, OUT source_oid text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model := gpucredit_registry.readable_model(version_details.org,
		version_details.account, version_details.model);
	v gpucredit_registry.version :=
		gpucredit_registry.require_version(m, version_details.revision);
BEGIN
	version := v.version;
	oid := v.oid;
	title := v.title;
	description := left(v.description, 10000);
	author := v.author;
	created_at := v.created_at;
	SELECT count(*), coalesce(sum(f.size), 0),
		count(*) FILTER (WHERE gpucredit_registry.is_blocked(f.object))
	INTO files, bytes, blocked
	FROM gpucredit_registry.file f WHERE f.org = v.org AND f.version = v.version;
	SELECT s.state, s.reason INTO state, reason FROM gpucredit_registry.state_of(v) s;
	refs := gpucredit_registry.refs_of(v);
	SELECT o.source, o.repository, o.oid INTO source, source_repository, source_oid
	FROM gpucredit_registry.origin o WHERE o.org = v.org AND o.version = v.version;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.version_details(text, text, bigint, text) IS
'Reading: a version of a repository, for an account that may read it.
org, account: the reader. revision: a branch, tag, "@ALIAS" or oid.
Result: bytes: the sizes of its files. blocked: how many of them nobody may read, in whatever version. state, reason: as in models(). source, source_repository, source_oid: where it was mirrored or imported from.
Errors: UC001 no such account; UC501 no such repository or revision.';

CREATE FUNCTION gpucredit_registry.version_files(org text, account text, model bigint,
	revision text DEFAULT 'main', folder text DEFAULT '', after text DEFAULT '',
	"limit" integer DEFAULT 100)
RETURNS TABLE (name text, is_folder boolean, files bigint, bytes numeric, sha256 text,
	blocked boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model := gpucredit_registry.readable_model(version_files.org,
		version_files.account, version_files.model);
	v gpucredit_registry.version := gpucredit_registry.require_version(m, version_files.revision);
	inside text := CASE version_files.folder WHEN '' THEN '' ELSE version_files.folder || '/' END;
BEGIN
	PERFORM gpucredit_registry.check_page(version_files."limit");
	IF inside IS NULL OR version_files.after IS NULL THEN
		PERFORM gpucredit_registry.refuse('folder and after are texts, empty ones for the first page of all',
			'One of them is NULL.');
	END IF;
	RETURN QUERY
	SELECT e.name, bool_or(e.deeper), count(*), sum(e.size),
		CASE WHEN NOT bool_or(e.deeper) THEN min(encode(e.object, 'hex')) END,
		bool_or(gpucredit_registry.is_blocked(e.object))
	FROM (
		SELECT split_part(substr(f.path, length(inside) + 1), '/', 1) COLLATE "C" AS name,
			strpos(substr(f.path, length(inside) + 1), '/') > 0 AS deeper, f.size, f.object
		FROM gpucredit_registry.file f
		WHERE f.org = v.org AND f.version = v.version AND starts_with(f.path, inside)) e
	WHERE e.name > version_files.after
	GROUP BY e.name
	ORDER BY e.name
	LIMIT version_files."limit";
END
$$;
COMMENT ON FUNCTION gpucredit_registry.version_files(text, text, bigint, text, text, text, integer) IS
'Reading: what is in a folder of a version, by name, for an account that may read the repository.
org, account: the reader. revision: a branch, tag, "@ALIAS" or oid. folder: '''' for the uppermost. after: the last name of the page before. limit: 1 to 1,001.
Result: of a folder the number and the sizes of the files in it. blocked: nobody may read these bytes, or some in the folder, in whatever version.
Errors: UC001 no such account; UC501 no such repository or revision; 22023.';

/*
 * Returns the versions below or above one that a reader may know of, level by
 * level, each once with its smallest depth. The search goes on only from
 * those, so nobody learns by it what is made of what in between. It ends with
 * "most" of them, and a row without a version then says that there are more.
 * Repositories that were deleted stay in the lineage of their owner alone.
 * "everything" lets an operator see all.
 */
CREATE FUNCTION gpucredit_registry.readable_relatives(version bigint, down boolean,
	caller gpucredit_registry.caller, everything boolean, most integer)
RETURNS TABLE (related bigint, depth integer)
LANGUAGE plpgsql STABLE ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	level bigint[] := ARRAY[readable_relatives.version];
	seen bigint[] := level;
	rest integer := readable_relatives.most;
BEGIN
	depth := 0;
	LOOP
		depth := depth + 1;
		IF down THEN
			SELECT array_agg(n.child) INTO level
			FROM (SELECT DISTINCT e.child FROM gpucredit_registry.edge e
				WHERE e.parent = ANY (level) AND e.child <> ALL (seen)
				ORDER BY e.child LIMIT 20000) n;
		ELSE
			SELECT array_agg(n.parent) INTO level
			FROM (SELECT DISTINCT e.parent FROM gpucredit_registry.edge e
				WHERE e.child = ANY (level) AND e.parent <> ALL (seen)
				ORDER BY e.parent LIMIT 20000) n;
		END IF;
		SELECT array_agg(n.version) INTO level
		FROM (SELECT v.version
			FROM unnest(level) AS u (version)
				JOIN gpucredit_registry.version v USING (version)
				JOIN gpucredit_registry.model m ON m.org = v.org AND m.model = v.model
			WHERE readable_relatives.everything
				OR (m.deleted_at IS NULL OR m.org = (readable_relatives.caller).org)
				AND (m.visibility = 'public' OR gpucredit_registry.permission_of(m.org, m.model,
					readable_relatives.caller) IS NOT NULL)
			LIMIT rest + 1) n;
		EXIT WHEN level IS NULL;
		IF cardinality(level) > rest THEN
			RETURN QUERY SELECT u.version, readable_relatives.depth
			FROM unnest(level) AS u (version) ORDER BY 1 LIMIT rest;
			related := NULL;
			RETURN NEXT;
			RETURN;
		END IF;
		rest := rest - cardinality(level);
		seen := seen || level;
		RETURN QUERY SELECT unnest(level), readable_relatives.depth;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.readable_relatives(bigint, boolean, gpucredit_registry.caller, boolean, integer) IS
'Internal: at most so many ancestors or descendants that a caller may know of, and a row without a version where there are more.';

/* Returns a version and its relatives in both directions, for a picture. */
CREATE FUNCTION gpucredit_registry.graph_around(version bigint,
	caller gpucredit_registry.caller, everything boolean, most integer)
RETURNS TABLE (related bigint, depth integer, model_org text, name text, kind text, oid text,
	created_at timestamptz, state text, deleted boolean, parents bigint[], made text[],
	more boolean)
LANGUAGE plpgsql STABLE ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	shown bigint[];
	depths integer[];
	cut_above boolean;
	cut_below boolean;
BEGIN
	/* A version has no cycle above or below it, so it is in one direction alone. */
	SELECT array_agg(r.related) FILTER (WHERE r.related IS NOT NULL),
		array_agg(r.depth) FILTER (WHERE r.related IS NOT NULL),
		coalesce(bool_or(r.related IS NULL AND r.depth < 0), false),
		coalesce(bool_or(r.related IS NULL AND r.depth > 0), false)
	INTO shown, depths, cut_above, cut_below
	FROM (
		SELECT graph_around.version AS related, 0 AS depth
		UNION ALL
		SELECT a.related, -a.depth FROM gpucredit_registry.readable_relatives(
			graph_around.version, false, graph_around.caller, graph_around.everything,
			graph_around.most) a
		UNION ALL
		SELECT d.related, d.depth FROM gpucredit_registry.readable_relatives(
			graph_around.version, true, graph_around.caller, graph_around.everything,
			graph_around.most) d) r;
	RETURN QUERY
	SELECT v.version, s.depth, m.org::text, m.name::text, m.kind, v.oid::text, v.created_at,
		t.state, m.deleted_at IS NOT NULL, e.parents, e.made,
		CASE WHEN s.depth < 0 THEN cut_above WHEN s.depth > 0 THEN cut_below
			ELSE cut_above OR cut_below END
	FROM unnest(shown, depths) AS s (related, depth)
		JOIN gpucredit_registry.version v ON v.version = s.related
		JOIN gpucredit_registry.model m ON m.org = v.org AND m.model = v.model,
		gpucredit_registry.state_of(v) t,
		LATERAL (SELECT coalesce(array_agg(g.parent ORDER BY g.parent), '{}') AS parents,
				coalesce(array_agg(g.kind ORDER BY g.parent), '{}') AS made
			FROM gpucredit_registry.edge g
			WHERE g.child = v.version AND g.parent = ANY (shown)) e
	ORDER BY s.depth, v.version;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.graph_around(bigint, gpucredit_registry.caller, boolean, integer) IS
'Internal: a version, and at most so many above and below it.';

CREATE FUNCTION gpucredit_registry.lineage_graph(org text, account text, version bigint,
	"limit" integer DEFAULT 100)
RETURNS TABLE (related bigint, depth integer, model_org text, name text, kind text, oid text,
	created_at timestamptz, state text, deleted boolean, parents bigint[], made text[],
	more boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_registry.check_page(lineage_graph."limit");
	PERFORM gpucredit_registry.readable_version(lineage_graph.org, lineage_graph.account,
		lineage_graph.version);
	RETURN QUERY
	SELECT g.* FROM gpucredit_registry.graph_around(lineage_graph.version,
		(lineage_graph.org, lineage_graph.account, 'read'), false, lineage_graph."limit") g;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.lineage_graph(text, text, bigint, integer) IS
'Lineage: a version, what it was made from, and what was made from it, directly or not, each once, for an account that may read the repository. It is shown those alone that it may read, and what leads to them by those.
org, account: the reader. limit: how many in each direction, the nearest first; 1 to 1,001.
Result: depth: the fewest steps, below 0 what it was made from. parents, made: from which of the others, and how: fine_tune, adapter, quantized, merge. state: as in models(). deleted: the repository was deleted. more: in this direction there are more than limit.
Errors: UC001 no such account; UC501 no such version; 22023.';

CREATE FUNCTION gpucredit_registry.all_lineage_graph(version bigint,
	"limit" integer DEFAULT 100)
RETURNS TABLE (related bigint, depth integer, model_org text, name text, kind text, oid text,
	created_at timestamptz, state text, deleted boolean, parents bigint[], made text[],
	more boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_registry.check_page(all_lineage_graph."limit");
	IF NOT EXISTS (SELECT FROM gpucredit_registry.version v
		WHERE v.version = all_lineage_graph.version)
	THEN
		PERFORM gpucredit_registry.not_found(format('version %s', all_lineage_graph.version));
	END IF;
	RETURN QUERY
	SELECT g.* FROM gpucredit_registry.graph_around(all_lineage_graph.version, NULL, true,
		all_lineage_graph."limit") g;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.all_lineage_graph(bigint, integer) IS
'Lineage: as lineage_graph(), with versions of all organisations, for operators and auditors: what a quarantine of the version would reach.
Errors: UC501 no such version; 22023.';

CREATE FUNCTION gpucredit_registry.version_datasets(org text, account text, version bigint,
	"limit" integer DEFAULT 100)
RETURNS TABLE (dataset text, license text, depth integer, of_org text, of_name text,
	of_version bigint, in_registry boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c gpucredit_registry.caller := (version_datasets.org, version_datasets.account, 'read');
BEGIN
	PERFORM gpucredit_registry.check_page(version_datasets."limit");
	PERFORM gpucredit_registry.readable_version(version_datasets.org, version_datasets.account,
		version_datasets.version);
	RETURN QUERY
	SELECT d.dataset::text, d.license, r.depth, m.org::text, m.name::text, d.version,
		EXISTS (SELECT FROM gpucredit_registry.model k
			WHERE k.kind = 'dataset' AND k.deleted_at IS NULL
				AND k.org = split_part(d.dataset, '/', 1) AND k.name = split_part(d.dataset, '/', 2)
				AND gpucredit_registry.permission_of(k.org, k.model, c) IS NOT NULL)
	FROM (SELECT version_datasets.version AS related, 0 AS depth
			UNION ALL
			SELECT a.related, a.depth FROM gpucredit_registry.readable_relatives(
				version_datasets.version, false, c, false, 1000) a
			WHERE a.related IS NOT NULL) r
		JOIN gpucredit_registry.version v ON v.version = r.related
		JOIN gpucredit_registry.model m ON m.org = v.org AND m.model = v.model
		JOIN gpucredit_registry.dataset d ON d.org = v.org AND d.version = v.version
	ORDER BY r.depth, d.version, d.dataset
	LIMIT version_datasets."limit";
END
$$;
COMMENT ON FUNCTION gpucredit_registry.version_datasets(text, text, bigint, integer) IS
'Lineage: the datasets that a version, and the versions above it that the reader may read, were trained on, for an account that may read the repository.
org, account: the reader. limit: 1 to 1,001. Result: license: NULL: unknown. depth: 0 for the version itself, else how far above it the one is that was trained on it. in_registry: the account may read a repository of this name.
Errors: UC001 no such account; UC501 no such version; 22023.';

CREATE FUNCTION gpucredit_registry.traffic(org text, model bigint, days integer DEFAULT 30)
RETURNS TABLE (day date, downloads bigint, bytes bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 30
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model := gpucredit_registry.own_model(traffic.org, traffic.model);
	today date := (gpucredit.now() AT TIME ZONE 'UTC')::date;
BEGIN
	IF coalesce(traffic.days, 0) NOT BETWEEN 1 AND 366 THEN
		PERFORM gpucredit_registry.refuse('days are 1 to 366', format('They are %s.', traffic.days));
	END IF;
	RETURN QUERY
	SELECT d.day, coalesce(e.downloads, 0), coalesce(e.bytes, 0)
	FROM (SELECT today - n AS day FROM generate_series(0, traffic.days - 1) n) d
		LEFT JOIN gpucredit_registry.egress e ON e.org = m.org AND e.model = m.model
			AND e.day = d.day
	ORDER BY d.day;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.traffic(text, bigint, integer) IS
'Reading: how often files of a repository were downloaded, and the bytes that were sent, day by day (UTC), for its owner.
days: how many up to today, 1 to 366. Errors: UC501 no such repository; 22023.';

CREATE FUNCTION gpucredit_registry.model_downloads(org text, model bigint,
	after bigint DEFAULT NULL, "limit" integer DEFAULT 100)
RETURNS TABLE (download bigint, began_at timestamptz, last_at timestamptz, version bigint,
	path text, size bigint, client text, bytes bigint, requests bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model :=
		gpucredit_registry.own_model(model_downloads.org, model_downloads.model);
BEGIN
	PERFORM gpucredit_registry.check_page(model_downloads."limit");
	RETURN QUERY
	SELECT d.download, d.began_at, d.last_at, d.version,
		(SELECT min(f.path) FROM gpucredit_registry.file f
			WHERE f.org = d.org AND f.version = d.version AND f.object = d.object)::text,
		d.size, d.client::text, d.bytes, d.requests
	FROM gpucredit_registry.download d
	WHERE d.org = m.org AND d.model = m.model
		AND (model_downloads.after IS NULL OR d.download < model_downloads.after)
	ORDER BY d.download DESC
	LIMIT model_downloads."limit";
END
$$;
COMMENT ON FUNCTION gpucredit_registry.model_downloads(text, bigint, bigint, integer) IS
'Reading: who downloaded what from a repository, newest first, for auditors. after: the last download of the page before. limit: 1 to 1,001.
Result: as downloads(). Errors: UC501 no such repository; 22023.';

/*
 * Returns what a repository costs. Storage is stated as if no byte were shared
 * with other files, so a bill never has more.
 */
CREATE FUNCTION gpucredit_registry.model_cost(org text, model bigint, OUT bytes numeric,
	OUT sent_bytes numeric, OUT storage_price numeric, OUT cold_price numeric,
	OUT egress_price numeric, OUT storage_month numeric, OUT egress_cost numeric,
	OUT unpaid boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model := gpucredit_registry.own_model(model_cost.org, model_cost.model);
BEGIN
	SELECT coalesce(sum(b.size), 0) INTO bytes
	FROM (SELECT e.object
		FROM gpucredit_registry.version l
			JOIN gpucredit_registry.entry e ON e.org = l.org AND e.line = l.version
		WHERE l.org = m.org AND l.model = m.model AND l.line = l.version
		UNION
		SELECT k.object FROM gpucredit_registry.blob k
		WHERE k.org = m.org AND k.model = m.model) o
		JOIN gpucredit_registry.object b ON b.sha256 = o.object;
	SELECT coalesce(sum(e.bytes), 0) INTO sent_bytes
	FROM gpucredit_registry.egress e
	WHERE e.org = m.org AND e.model = m.model
		AND e.day > (gpucredit.now() AT TIME ZONE 'UTC')::date - 30;
	storage_price := gpucredit_registry.price_of('storage');
	cold_price := gpucredit_registry.price_of('cold');
	egress_price := gpucredit_registry.price_of('egress');
	storage_month := round(bytes * storage_price / 1000000000, 6);
	egress_cost := round(sent_bytes * egress_price / 1000000000, 6);
	unpaid := gpucredit_registry.in_debt(m.org, m.model);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.model_cost(text, bigint) IS
'Billing: what a repository costs its account, for its owner.
Result: bytes: of the files of all its versions, each content once. sent_bytes, egress_cost: of 30 days, today included. storage_month: what its bytes cost in a month of 720 hours if they share nothing with other files and are read, in credits; a bill has at most that. storage_price, cold_price: credits per GB-month; egress_price: per GB sent. unpaid: a bill of its account is open for more than 7 days, so its files are not read.
Errors: UC501 no such repository.';

CREATE FUNCTION gpucredit_registry.bills(org text, account text DEFAULT '',
	"limit" integer DEFAULT 100)
RETURNS TABLE (day date, of_account text, byte_hours numeric, cold_byte_hours numeric,
	egress_bytes bigint, amount numeric, paid_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_registry.check_account(bills.org, bills.account);
	PERFORM gpucredit_registry.check_page(bills."limit");
	RETURN QUERY
	SELECT b.day, b.account::text, b.byte_hours, b.cold_byte_hours, b.egress_bytes, b.amount,
		b.paid_at
	FROM gpucredit_registry.bill b
	WHERE b.org = bills.org
		AND (bills.account IN ('', b.account) OR starts_with(b.account, bills.account || '/'))
	ORDER BY b.day DESC, b.account
	LIMIT bills."limit";
END
$$;
COMMENT ON FUNCTION gpucredit_registry.bills(text, text, integer) IS
'Billing: what storing and sending cost an account and all below it, day by day (UTC), newest first. limit: 1 to 1,001.
Result: byte_hours, and of bytes that nobody read for 90 days cold_byte_hours; amount in credits; paid_at: NULL: not paid yet.
Errors: UC001 no such account; 22023.';

/* Lists versions that are in quarantine or restricted, the newest first. */
CREATE FUNCTION gpucredit_registry.list_held(in_org text, account text, after bigint, n integer)
RETURNS TABLE (version bigint, model_org text, model bigint, name text, kind text, oid text,
	state text, reason text, since timestamptz, refs jsonb)
LANGUAGE sql STABLE ROWS 100
BEGIN ATOMIC
	SELECT v.version, m.org::text, m.model, m.name::text, m.kind, v.oid::text, s.state,
		s.reason, coalesce(v.quarantined_at, v.restricted_at), gpucredit_registry.refs_of(v)
	FROM gpucredit_registry.version v
		JOIN gpucredit_registry.model m ON m.org = v.org AND m.model = v.model,
		gpucredit_registry.state_of(v) s
	WHERE (v.quarantined_at IS NOT NULL OR v.restricted_at IS NOT NULL)
		AND m.deleted_at IS NULL
		AND (list_held.in_org IS NULL OR v.org = list_held.in_org
			AND (list_held.account IN ('', m.account)
				OR starts_with(m.account, list_held.account || '/')))
		AND (list_held.after IS NULL OR v.version < list_held.after)
	ORDER BY v.version DESC
	LIMIT list_held.n;
END;
COMMENT ON FUNCTION gpucredit_registry.list_held(text, text, bigint, integer) IS
'Internal: versions that are held back, of an account and all below it, or of all organisations.';

CREATE FUNCTION gpucredit_registry.held_versions(org text, account text DEFAULT '',
	after bigint DEFAULT NULL, "limit" integer DEFAULT 100)
RETURNS TABLE (version bigint, model_org text, model bigint, name text, kind text, oid text,
	state text, reason text, since timestamptz, refs jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_registry.check_account(held_versions.org, held_versions.account);
	PERFORM gpucredit_registry.check_page(held_versions."limit");
	RETURN QUERY
	SELECT h.* FROM gpucredit_registry.list_held(held_versions.org, held_versions.account,
		held_versions.after, held_versions."limit") h;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.held_versions(text, text, bigint, integer) IS
'Scans: versions of an account''s repositories, and of all below it, that are in quarantine or restricted, newest first. after: the last version of the page before. limit: 1 to 1,001.
Result: state: quarantined: nobody reads it; restricted: it failed a scan, and who had downloaded it goes on reading; refs: as in versions().
Errors: UC001 no such account; 22023.';

CREATE FUNCTION gpucredit_registry.all_held_versions(after bigint DEFAULT NULL,
	"limit" integer DEFAULT 100)
RETURNS TABLE (version bigint, model_org text, model bigint, name text, kind text, oid text,
	state text, reason text, since timestamptz, refs jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_registry.check_page(all_held_versions."limit");
	RETURN QUERY
	SELECT h.* FROM gpucredit_registry.list_held(NULL, NULL, all_held_versions.after,
		all_held_versions."limit") h;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.all_held_versions(bigint, integer) IS
'Scans: versions of all organisations that are in quarantine or restricted, newest first, for operators and auditors. Arguments and result: as held_versions().
Errors: 22023.';
