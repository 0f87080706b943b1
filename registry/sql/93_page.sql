/*
 * 93_page.sql: what a browser is shown at / and at /ORG/NAME.
 *
 * The pages have no script, no style from elsewhere and no picture, and say so
 * to the browser (Content-Security-Policy), so nothing that an author wrote is
 * more than text. They show what the caller may read: without a token what is
 * public. A repository that the caller may not read is answered as one that does
 * not exist; without a token both are 401, so that a browser asks for one, as
 * the password of any user name. The console shows more, after signing in.
 */
CREATE FUNCTION gpucredit_registry.html_text(value text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN replace(replace(replace(replace(replace(coalesce(value, ''), '&', '&amp;'), '<', '&lt;'),
	'>', '&gt;'), '"', '&quot;'), '''', '&#39;');
COMMENT ON FUNCTION gpucredit_registry.html_text(text) IS
'Internal: a text as HTML shows it.';

/* Returns the name of a repository, with a link to its page, in HTML. */
CREATE FUNCTION gpucredit_registry.html_link(m gpucredit_registry.model) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT format('<a href="%s/%s/%s">%s</a>',
		CASE (m).kind WHEN 'model' THEN '' ELSE '/' || (m).kind || 's' END,
		gpucredit_registry.url_encode((m).org), gpucredit_registry.url_encode((m).name),
		gpucredit_registry.html_text((m).org || '/' || (m).name));
END;
COMMENT ON FUNCTION gpucredit_registry.html_link(gpucredit_registry.model) IS
'Internal: a link to the page of a repository.';

/*
 * Returns the answer that is a page. What it shows depends on the caller, so no
 * cache keeps it.
 */
CREATE FUNCTION gpucredit_registry.html_response(r gpucredit_registry.http_request, title text,
	body text) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	page bytea := convert_to(format('<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
		'<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
		'<title>%1$s</title></head><body><h1>%1$s</h1>%2$s</body></html>' || E'\n',
		gpucredit_registry.html_text(title), body), 'UTF8');
	headers jsonb := '{"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store",'
		' "Content-Security-Policy": "default-src ''none''; form-action ''self''; frame-ancestors ''none''; base-uri ''none''",'
		' "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}';
BEGIN
	IF (r).method = 'HEAD' THEN
		RETURN (200, headers, NULL, jsonb_build_object('length', octet_length(page))
			)::gpucredit_registry.http_response;
	END IF;
	RETURN (200, headers, page, NULL)::gpucredit_registry.http_response;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.html_response(gpucredit_registry.http_request, text, text) IS
'Internal: an answer that a browser shows.';

CREATE FUNCTION gpucredit_registry.page_list(r gpucredit_registry.http_request)
RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	words text := left((r).query ->> 'search', 200);
	list text;
BEGIN
	SELECT string_agg(format('<li>%s %s, %s</li>', gpucredit_registry.html_link(m), m.kind,
			m.visibility), '' ORDER BY m.model DESC)
	INTO list
	FROM gpucredit_registry.search(gpucredit_registry.caller_name((r).caller), nullif(words, ''),
			n => 100) s
		JOIN gpucredit_registry.model m ON m.org = s.org AND m.model = s.model;
	RETURN gpucredit_registry.html_response(r, 'Models', format(
		'<form method="get" action="/"><label>Words <input name="search" value="%s"></label>'
		' <button>Search</button></form><ul>%s</ul><p>%s</p>',
		gpucredit_registry.html_text(words), coalesce(list, '<li>There is nothing to show.</li>'),
		CASE WHEN (r).caller IS NULL THEN 'These are public repositories, the newest 100 at most.'
			ELSE 'These are repositories that the account of the token may read, the newest 100 at most.' END));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.page_list(gpucredit_registry.http_request) IS
'Internal: GET /, for browsers.';

/*
 * Shows a repository. The card is a file of the version, so it is withheld from
 * whoever may not read that file.
 */
CREATE FUNCTION gpucredit_registry.page_model(r gpucredit_registry.http_request,
	m gpucredit_registry.model) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version := gpucredit_registry.find_version(m, 'main');
	row record := gpucredit_registry.model_row(m);
	facts text;
	refs text;
	files text;
	refused text;
BEGIN
	SELECT string_agg(format('<dt>%s</dt><dd>%s</dd>', f.name,
		gpucredit_registry.html_text(f.value)), '')
	INTO facts
	FROM (VALUES ('kind', row.kind), ('visibility', row.visibility), ('licence', row.license),
		('library', row.library), ('task', row.task), ('tags', array_to_string(row.tags, ', ')),
		('state', row.state), ('versions', row.versions::text), ('files', row.files::text),
		('downloads in 30 days', row.downloads::text), ('changed', row.modified_at::text)
		) AS f (name, value)
	WHERE f.value <> '';
	SELECT string_agg(format('<li>%s <code>%s</code></li>', gpucredit_registry.html_text(f.ref),
		f.oid), '' ORDER BY f.ref)
	INTO refs
	FROM (SELECT k.ref, n.oid
		FROM gpucredit_registry.ref k JOIN gpucredit_registry.version n USING (org, version)
		WHERE k.org = (m).org AND k.model = (m).model ORDER BY k.ref LIMIT 100) f;
	SELECT string_agg(format('<li>%s, %s bytes</li>', gpucredit_registry.html_text(f.path), f.size),
		'' ORDER BY f.path)
	INTO files
	FROM (SELECT o.path, o.size FROM gpucredit_registry.file o
		WHERE o.org = v.org AND o.version = v.version ORDER BY o.path LIMIT 100) f;
	refused := gpucredit_registry.read_refusal(v, (SELECT f.object FROM gpucredit_registry.file f
		WHERE f.org = v.org AND f.version = v.version AND f.path = 'README.md'), (r).caller);
	RETURN gpucredit_registry.html_response(r, (m).org || '/' || (m).name, format(
		'<dl>%s</dl><h2>Refs</h2><ul>%s</ul><h2>Files of main</h2><ul>%s</ul><h2>Card</h2>%s<p><a href="/">Models</a></p>',
		facts, coalesce(refs, '<li>none</li>'), coalesce(files, '<li>none</li>'),
		CASE WHEN refused IS NOT NULL THEN '<p>It is withheld: ' || refused || '.</p>'
			WHEN (m).card IS NULL THEN '<p>There is none.</p>'
			ELSE '<pre>' || gpucredit_registry.html_text((m).card) || '</pre>' END));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.page_model(gpucredit_registry.http_request, gpucredit_registry.model) IS
'Internal: GET /ORG/NAME, for browsers.';
