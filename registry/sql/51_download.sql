/*
 * 51_download.sql: the log of downloads.
 *
 * A download is one file that one client reads. All requests of an hour belong
 * to it, so a client that fetches a file by many ranges counts once. Requests
 * that go on with a file that was not sent in full yet belong to it as long as
 * no hour passes without one. A client is the account of a token, or else the
 * address that the connection comes from: nothing that a client may choose
 * freely, as its User-Agent, tells clients apart.
 */
CREATE TABLE gpucredit_registry.download (
	org text COLLATE "C" NOT NULL,
	download bigint GENERATED ALWAYS AS IDENTITY,
	model bigint NOT NULL,
	version bigint,				/* that was asked for first; NULL for git-lfs */
	object bytea NOT NULL,
	size bigint NOT NULL,
	client text COLLATE "C" NOT NULL,	/* account:ORG/PATH, address:NETWORK or
										 * unknown */
	began_at timestamptz NOT NULL,
	last_at timestamptz NOT NULL,
	bytes bigint NOT NULL CHECK (bytes >= 0),
	requests bigint NOT NULL CHECK (requests > 0),
	latest boolean NOT NULL DEFAULT true,	/* requests are added to it */
	CONSTRAINT download_pkey PRIMARY KEY (org, download)
);
CREATE UNIQUE INDEX download_latest ON gpucredit_registry.download (org, model, object, client)
	WHERE latest;
CREATE INDEX download_began ON gpucredit_registry.download (began_at);
CREATE INDEX download_model ON gpucredit_registry.download (org, model, download);
COMMENT ON TABLE gpucredit_registry.download IS
'Log of downloads: which client read which file, how often and how much, for as long as set_download_retention() says';

CREATE TABLE gpucredit_registry.download_retention (
	org text COLLATE "C" PRIMARY KEY,	/* empty: all that have none of their own */
	kept interval NOT NULL
);
COMMENT ON TABLE gpucredit_registry.download_retention IS
'How long the log of downloads is kept, where it is not 90 days';

/*
 * Returns the name by which the log knows a client. An IPv6 address stands for
 * its network of 64 bits, as each client has all addresses of one.
 */
CREATE FUNCTION gpucredit_registry.client_name(caller gpucredit_registry.caller, address text)
RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	plain text := regexp_replace(client_name.address, '^::ffff:([0-9.]+)$', '\1', 'i');
	known inet;
BEGIN
	IF client_name.caller IS NOT NULL THEN
		RETURN gpucredit_registry.caller_name(client_name.caller);
	END IF;
	BEGIN
		known := plain;
	EXCEPTION WHEN invalid_text_representation THEN
		NULL;					/* a proxy's socket, which has no address */
	END;
	RETURN CASE family(known) WHEN 4 THEN 'address:' || host(known)
		WHEN 6 THEN 'address:' || network(set_masklen(known, 64)) ELSE 'unknown' END;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.client_name(gpucredit_registry.caller, text) IS
'Internal: a reader''s account, or his address where no account is known.';

/*
 * Adds an answered request to the download that it belongs to. Returns true if
 * it is the first of a new one. Requests of one client for one file wait for
 * each other at the row of their download.
 */
CREATE FUNCTION gpucredit_registry.count_download(s gpucredit_registry.sending, sent bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	instant timestamptz := gpucredit.now();
	d gpucredit_registry.download;
	belongs boolean;
BEGIN
	LOOP
		SELECT * INTO d FROM gpucredit_registry.download o
		WHERE o.org = (s).org AND o.model = (s).model AND o.object = (s).object
			AND o.client = (s).client AND o.latest
		FOR NO KEY UPDATE;
		IF FOUND THEN
			belongs := (s).opened_at < d.began_at + interval '1 hour'
				OR d.bytes < d.size AND (s).opened_at < d.last_at + interval '1 hour';
			IF belongs THEN
				UPDATE gpucredit_registry.download o
				SET began_at = least(o.began_at, (s).opened_at),
					last_at = greatest(o.last_at, instant),
					bytes = o.bytes + count_download.sent, requests = o.requests + 1
				WHERE o.org = d.org AND o.download = d.download;
				RETURN false;
			END IF;
			UPDATE gpucredit_registry.download o SET latest = false
			WHERE o.org = d.org AND o.download = d.download;
		END IF;
		INSERT INTO gpucredit_registry.download (org, model, version, object, size, client,
			began_at, last_at, bytes, requests)
		VALUES ((s).org, (s).model, (s).version, (s).object, (s).size, (s).client,
			(s).opened_at, greatest(instant, (s).opened_at), count_download.sent, 1)
		ON CONFLICT (org, model, object, client) WHERE latest DO NOTHING;
		IF FOUND THEN
			RETURN true;
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.count_download(gpucredit_registry.sending, bigint) IS
'Internal: adds a request to the log of downloads; whether a new download began with it.';

CREATE FUNCTION gpucredit_registry.downloads(org text, account text DEFAULT '',
	after bigint DEFAULT 0, n integer DEFAULT 100)
RETURNS TABLE (download bigint, began_at timestamptz, last_at timestamptz, model bigint,
	name text, version bigint, path text, sha256 text, size bigint, client text, bytes bigint,
	requests bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_registry.check_account(downloads.org, downloads.account);
	IF coalesce(downloads.n, 0) NOT BETWEEN 1 AND 1000 THEN
		PERFORM gpucredit_registry.refuse('n is 1 to 1,000', format('It is %s.', downloads.n));
	END IF;
	RETURN QUERY
	SELECT d.download, d.began_at, d.last_at, d.model, m.name::text, d.version,
		(SELECT min(f.path) FROM gpucredit_registry.file f
			WHERE f.org = d.org AND f.version = d.version AND f.object = d.object)::text,
		encode(d.object, 'hex'), d.size, d.client::text, d.bytes, d.requests
	FROM gpucredit_registry.download d
		JOIN gpucredit_registry.model m ON m.org = d.org AND m.model = d.model
	WHERE d.org = downloads.org AND d.download > downloads.after
		AND (downloads.account IN ('', m.account)
			OR starts_with(m.account, downloads.account || '/'))
	ORDER BY d.download
	LIMIT downloads.n;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.downloads(text, text, bigint, integer) IS
'Reading: the log of downloads from the repositories of an account and all below it, oldest first: which client read which file, from when until when, how many bytes by how many requests.
after: the last download that was read; one to which requests are still added is shown as it is now. n: 1 to 1,000.
Result: client: account:ORG/PATH of the token, or address:ADDRESS, for IPv6 its network of 64 bits, or unknown. version, path: what was asked for first; NULL by git-lfs.
Errors: UC001 no such account; 22023.';

CREATE FUNCTION gpucredit_registry.set_download_retention(org text, kept interval)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF set_download_retention.org IS DISTINCT FROM '' THEN
		PERFORM gpucredit_registry.check_account(set_download_retention.org, '');
	END IF;
	IF coalesce(set_download_retention.kept, '0') NOT BETWEEN '1 day' AND '36600 days' THEN
		PERFORM gpucredit_registry.refuse('downloads are kept for 1 day to 36,600 days',
			format('It is %s.', set_download_retention.kept));
	END IF;
	INSERT INTO gpucredit_registry.download_retention
	VALUES (set_download_retention.org, set_download_retention.kept)
	ON CONFLICT ON CONSTRAINT download_retention_pkey DO UPDATE SET kept = excluded.kept;
	PERFORM gpucredit_registry.record(set_download_retention.org, 'set_download_retention', NULL,
		jsonb_build_object('kept', set_download_retention.kept));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.set_download_retention(text, interval) IS
'Reading: how long collect() leaves the log of downloads of an organisation; 90 days where nothing is set. The bytes and the number of downloads of each day stay.
org: empty for all organisations that have none of their own. kept: 1 to 36,600 days. Errors: UC001 no such organisation; 22023.';

CREATE FUNCTION gpucredit_registry.forget_downloads(max integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	instant timestamptz := gpucredit.now();
	shortest interval := (SELECT least(min(r.kept), '90 days')
		FROM gpucredit_registry.download_retention r);
	n bigint;
BEGIN
	DELETE FROM gpucredit_registry.download o
	USING (SELECT d.org, d.download
		FROM gpucredit_registry.download d
			LEFT JOIN gpucredit_registry.download_retention a ON a.org = ''
			LEFT JOIN gpucredit_registry.download_retention r ON r.org = d.org
		WHERE d.began_at < instant - shortest
			AND d.began_at < instant - coalesce(r.kept, a.kept, '90 days')
		ORDER BY d.began_at
		LIMIT forget_downloads.max) past
	WHERE o.org = past.org AND o.download = past.download;
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.forget_downloads(integer) IS
'Internal: removes so many downloads at most from the log that are past their retention; returns how many.';
