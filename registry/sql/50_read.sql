/*
 * 50_read.sql: what is read.
 *
 * The owner pays for what is read. A request that is being answered is a row of
 * "sending" and counts with its whole size against the quota; once it has
 * ended, only the bytes that were sent count, for each request anew.
 */
CREATE TABLE gpucredit_registry.sending (
	org text COLLATE "C" NOT NULL,
	sending bigint GENERATED ALWAYS AS IDENTITY,
	model bigint NOT NULL,
	version bigint,
	object bytea NOT NULL,
	size bigint NOT NULL,
	client text COLLATE "C" NOT NULL,
	bytes bigint NOT NULL CHECK (bytes >= 0),
	opened_at timestamptz NOT NULL,
	CONSTRAINT sending_pkey PRIMARY KEY (org, sending)
);
COMMENT ON TABLE gpucredit_registry.sending IS
'Requests for bytes that are being answered; one that ended without close_download counts for a day';

CREATE TABLE gpucredit_registry.egress (
	org text COLLATE "C" NOT NULL,
	day date NOT NULL,
	model bigint NOT NULL,
	bytes bigint NOT NULL CHECK (bytes >= 0),
	downloads bigint NOT NULL CHECK (downloads >= 0),
	CONSTRAINT egress_pkey PRIMARY KEY (org, day, model)
);
COMMENT ON TABLE gpucredit_registry.egress IS
'Bytes sent, and downloads that began, by repository and day (UTC)';

/*
 * Parses 'account:ORG/PATH', by which the application names the reader. NULL
 * means an unknown reader.
 */
CREATE FUNCTION gpucredit_registry.named_caller(name text)
RETURNS gpucredit_registry.caller
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE WHEN named_caller.name IS NOT NULL THEN
		(substring(named_caller.name FROM '^account:([^/]+)'),
		 coalesce(substring(named_caller.name FROM '^account:[^/]+/(.*)$'), ''),
		 'write')::gpucredit_registry.caller END;
END;
COMMENT ON FUNCTION gpucredit_registry.named_caller(text) IS
'Internal: who a name like account:ORG/PATH is.';

CREATE FUNCTION gpucredit_registry.no_revision(m gpucredit_registry.model, rev text)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION 'revision "%" of "%/%" does not exist', left(rev, 64), (m).org, (m).name
		USING ERRCODE = 'UC501', DETAIL = 'It is no branch, tag or oid of the repository.',
		HINT = 'List the refs of the repository.', COLUMN = 'RevisionNotFound';
END
$$;
COMMENT ON FUNCTION gpucredit_registry.no_revision(gpucredit_registry.model, text) IS
'Internal: raises UC501 for a revision.';

CREATE FUNCTION gpucredit_registry.require_version(m gpucredit_registry.model, rev text)
RETURNS gpucredit_registry.version
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version := gpucredit_registry.find_version(m, require_version.rev);
BEGIN
	IF v.version IS NULL THEN
		PERFORM gpucredit_registry.no_revision(m, require_version.rev);
	END IF;
	RETURN v;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.require_version(gpucredit_registry.model, text) IS
'Internal: the version of a branch, tag or oid. Errors: UC501 there is none.';

/*
 * Returns a version's file for a caller. A missing and a hidden file cause the
 * same error.
 */
CREATE FUNCTION gpucredit_registry.require_file(m gpucredit_registry.model, rev text,
	path text, caller gpucredit_registry.caller, OUT v gpucredit_registry.version,
	OUT f gpucredit_registry.file)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	v := gpucredit_registry.require_version(m, require_file.rev);
	SELECT o.* INTO f FROM gpucredit_registry.file o
	WHERE o.org = (m).org AND o.version = (v).version AND o.path = require_file.path;
	IF (f).path IS NULL THEN
		RAISE EXCEPTION 'file "%" of "%/%" does not exist', left(require_file.path, 96),
			(m).org, (m).name
			USING ERRCODE = 'UC501', DETAIL = 'The version has no such path.',
			HINT = 'List the files of the version.', COLUMN = 'EntryNotFound';
	END IF;
	PERFORM gpucredit_registry.refuse_read(v, gpucredit_registry.read_refusal(v, (f).object,
		require_file.caller));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.require_file(gpucredit_registry.model, text, text, gpucredit_registry.caller) IS
'Internal: a file of a version that may be read. Errors: UC501, UC504.';

CREATE FUNCTION gpucredit_registry.resolve(org text, model bigint, rev text,
	path text, caller text, OUT version bigint, OUT object bytea, OUT size bigint,
	OUT segments jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model;
	o record;
BEGIN
	SELECT * INTO m FROM gpucredit_registry.model k
	WHERE k.org = resolve.org AND k.model = resolve.model;
	m := gpucredit_registry.require_model(resolve.org, m.name, coalesce(m.kind, 'model'),
		gpucredit_registry.named_caller(resolve.caller), 'read');
	o := gpucredit_registry.require_file(m, resolve.rev, resolve.path,
		gpucredit_registry.named_caller(resolve.caller));
	resolve.version := (o.v).version;
	resolve.object := (o.f).object;
	resolve.size := (o.f).size;
	resolve.segments := gpucredit_registry.send_plan((o.f).object, 0, (o.f).size - 1);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.resolve(text, bigint, text, text, text) IS
'Reading: what a path of a version is, and where its bytes are.
rev: a branch, tag or oid. caller: account:ORG/PATH on whose behalf it is read; NULL: nobody, who reads what is public.
Result: segments: in order, each [pack, first byte, length], or a small file''s bytes in base64.
Errors: UC501 no such repository, revision or file, or not for the caller; UC504 in quarantine, restricted, or waiting for its scans.';

CREATE FUNCTION gpucredit_registry.send_plan(object bytea, first bigint, last bigint)
RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce(jsonb_agg(CASE WHEN p.pack IS NULL
			THEN to_jsonb(translate(encode(p.body, 'base64'), E'\n', ''))
			ELSE jsonb_build_array(p.pack, p.first_byte, p.length) END ORDER BY p.n), '[]')
	FROM gpucredit_registry.pieces(send_plan.object, send_plan.first, send_plan.last)
		WITH ORDINALITY AS p (pack, first_byte, length, body, n);
END;
COMMENT ON FUNCTION gpucredit_registry.send_plan(bytea, bigint, bigint) IS
'Internal: what the daemon sends: ranges of packs, and bodies in base64.';

CREATE FUNCTION gpucredit_registry.egress_bytes(org text) RETURNS bigint
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce((SELECT sum(e.bytes) FROM gpucredit_registry.egress e
			WHERE e.org = egress_bytes.org
				AND e.day > (gpucredit.now() AT TIME ZONE 'UTC')::date - 30), 0)::bigint
		+ coalesce((SELECT sum(d.bytes) FROM gpucredit_registry.sending d
			WHERE d.org = egress_bytes.org
				AND d.opened_at > gpucredit.now() - interval '1 day'), 0)::bigint;
END;
COMMENT ON FUNCTION gpucredit_registry.egress_bytes(text) IS
'Internal: what an organisation''s repositories sent in 30 days, and what is being sent.';

/*
 * Records the start of an answer with bytes of an object; "version" is NULL
 * for git-lfs.
 */
CREATE FUNCTION gpucredit_registry.open_read(org text, version bigint, model bigint,
	object bytea, caller gpucredit_registry.caller, address text, bytes bigint,
	OUT download bigint, OUT reason text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	today date := (gpucredit.now() AT TIME ZONE 'UTC')::date;
	allowed bigint;
	used bigint;
BEGIN
	SELECT q.egress_bytes INTO allowed FROM gpucredit_registry.quota q
	WHERE q.org = open_read.org;
	IF allowed IS NOT NULL THEN
		/*
		 * Downloads wait for each other here, so that together they stay
		 * within the quota.
		 */
		PERFORM gpucredit_internal.lock_name('gpucredit_registry.egress '
			|| open_read.org);
		used := gpucredit_registry.egress_bytes(open_read.org) + open_read.bytes;
		IF used > allowed THEN
			open_read.reason := 'egress_quota';
			PERFORM gpucredit_registry.report_denial(open_read.org, '', open_read.reason);
			RETURN;
		END IF;
		PERFORM gpucredit_registry.alert_quota(open_read.org, 'egress_quota', used);
	END IF;
	IF gpucredit_registry.in_debt(open_read.org, open_read.model) THEN
		open_read.reason := 'insufficient_credits';
		RETURN;
	END IF;
	INSERT INTO gpucredit_registry.sending AS d (org, model, version, object, size, client,
		bytes, opened_at)
	SELECT open_read.org, open_read.model, open_read.version, b.sha256, b.size,
		gpucredit_registry.client_name(open_read.caller, open_read.address), open_read.bytes,
		gpucredit.now()
	FROM gpucredit_registry.object b WHERE b.sha256 = open_read.object
	RETURNING d.sending INTO open_read.download;
	UPDATE gpucredit_registry.version v SET read_on = today
	WHERE v.org = open_read.org AND v.version = open_read.version
		AND (v.read_on < today OR v.read_on IS NULL);
	UPDATE gpucredit_registry.possession p SET read_on = today
	WHERE p.org = open_read.org AND p.object = open_read.object AND p.read_on < today;
	INSERT INTO gpucredit_registry.reader
	SELECT open_read.org, open_read.object, gpucredit_registry.caller_name(open_read.caller),
		gpucredit.now()
	WHERE open_read.caller IS NOT NULL
	ON CONFLICT DO NOTHING;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.open_read(text, bigint, bigint, bytea, gpucredit_registry.caller, text, bigint) IS
'Internal: begins to answer with bytes of an object, or says why not.';

CREATE FUNCTION gpucredit_registry.open_download(org text, version bigint,
	path text, caller text, bytes bigint, address text DEFAULT NULL,
	OUT download bigint, OUT status text, OUT reason text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	f gpucredit_registry.file;
	v gpucredit_registry.version;
	caller_is gpucredit_registry.caller :=
		gpucredit_registry.named_caller(open_download.caller);
	d record;
BEGIN
	SELECT * INTO v FROM gpucredit_registry.version o
	WHERE o.org = open_download.org AND o.version = open_download.version;
	SELECT * INTO f FROM gpucredit_registry.file o
	WHERE o.org = open_download.org AND o.version = open_download.version
		AND o.path = open_download.path;
	IF f.path IS NULL
		OR gpucredit_registry.permission_of(v.org, v.model, caller_is) IS NULL
	THEN
		PERFORM gpucredit_registry.not_found(format('file "%s"', left(open_download.path, 96)));
	END IF;
	IF coalesce(open_download.bytes, -1) NOT BETWEEN 0 AND f.size THEN
		PERFORM gpucredit_registry.refuse('a download has 0 to as many bytes as the file',
			format('It has %s, the file %s.', open_download.bytes, f.size));
	END IF;
	open_download.reason := gpucredit_registry.read_refusal(v, f.object, caller_is);
	IF open_download.reason IS NULL THEN
		d := gpucredit_registry.open_read(v.org, v.version, v.model, f.object,
			caller_is, open_download.address, open_download.bytes);
		open_download.download := d.download;
		open_download.reason := d.reason;
	END IF;
	open_download.status := CASE WHEN open_download.reason IS NULL THEN 'granted'
		ELSE 'denied' END;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.open_download(text, bigint, text, text, bigint, text) IS
'Reading: begins to send bytes of a file; they count against the owner''s quota.
caller: as resolve. bytes: how many will be sent at most. address: where the reader connects from, by which downloads are counted where caller is NULL.
Result: status granted, or denied with reason egress_quota, quarantined, restricted (it failed a scan), scan_pending or insufficient_credits (unpaid for 7 days).
Errors: UC501 no such file, or not for the caller; 22023.';

CREATE FUNCTION gpucredit_registry.close_download(org text, download bigint,
	sent bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	s gpucredit_registry.sending;
	counts bigint;
	began boolean;
BEGIN
	DELETE FROM gpucredit_registry.sending o
	WHERE o.org = close_download.org AND o.sending = close_download.download
	RETURNING * INTO s;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	counts := least(greatest(coalesce(close_download.sent, 0), 0), s.bytes);
	/* A client that broke off before the first byte has downloaded nothing. */
	IF counts = 0 AND s.size > 0 THEN
		RETURN true;
	END IF;
	began := gpucredit_registry.count_download(s, counts);
	INSERT INTO gpucredit_registry.egress AS e
	VALUES (s.org, (gpucredit.now() AT TIME ZONE 'UTC')::date, s.model, counts, began::integer)
	ON CONFLICT ON CONSTRAINT egress_pkey DO UPDATE
	SET bytes = e.bytes + excluded.bytes, downloads = e.downloads + excluded.downloads;
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.close_download(text, bigint, bigint) IS
'Reading: what open_download began is over; sent, at most what was opened, is what is billed. All requests of one client for one file within an hour count as one download.
Result: false where it was closed before.';
