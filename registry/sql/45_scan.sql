/*
 * 45_scan.sql: scanners check versions after they are committed.
 *
 * A policy names an organisation's scanners. Each version gets a row of table
 * scan for each scanner; workers claim rows, scan, and report. A version that
 * fails is restricted: nothing is deleted, but only callers who have the bytes
 * already may read them. The first verdict is final, except that "failed"
 * replaces a milder one.
 */
CREATE TABLE gpucredit_registry.scan_policy (
	org text COLLATE "C" PRIMARY KEY,	/* '' for all organisations without a
										 * policy */
	scanners text[] NOT NULL,
	licenses text[],
	hold boolean NOT NULL
);
COMMENT ON TABLE gpucredit_registry.scan_policy IS
'Which scanners look at an organisation''s versions, and which licences it may use';

CREATE TABLE gpucredit_registry.scan (
	org text COLLATE "C" NOT NULL,
	version bigint NOT NULL,
	scanner text COLLATE "C" NOT NULL,
	hold boolean NOT NULL,		/* only writers may read until the scan has
								 * ended */
	whole boolean NOT NULL DEFAULT false,	/* scan all files again, including
											 * those that passed in a parent */
	claims integer NOT NULL DEFAULT 0,
	claimed_until timestamptz,
	verdict text CHECK (verdict IN ('passed', 'noted', 'failed', 'released')),
	detail jsonb,
	created_at timestamptz NOT NULL,
	reported_at timestamptz,
	CONSTRAINT scan_pkey PRIMARY KEY (org, version, scanner),
	CONSTRAINT scan_reported CHECK ((verdict IS NULL) = (reported_at IS NULL)),
	FOREIGN KEY (org, version) REFERENCES gpucredit_registry.version
);
CREATE INDEX scan_waiting ON gpucredit_registry.scan (created_at) WHERE verdict IS NULL;
COMMENT ON TABLE gpucredit_registry.scan IS
'What each scanner found in a version; verdict NULL: it has not reported';

/*
 * Accounts that downloaded bytes, which they may still read when a version is
 * restricted.
 */
CREATE TABLE gpucredit_registry.reader (
	org text COLLATE "C" NOT NULL,
	object bytea NOT NULL,
	caller text COLLATE "C" NOT NULL,
	since timestamptz NOT NULL,
	CONSTRAINT reader_pkey PRIMARY KEY (org, object, caller),
	FOREIGN KEY (org, object) REFERENCES gpucredit_registry.possession ON DELETE CASCADE
);
COMMENT ON TABLE gpucredit_registry.reader IS
'Which accounts have downloaded which objects of an organisation';

CREATE FUNCTION gpucredit_registry.set_scan_policy(org text, scanners text[],
	licenses text[] DEFAULT NULL, hold boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	word text;
BEGIN
	IF set_scan_policy.org <> '' THEN
		PERFORM gpucredit_registry.check_account(set_scan_policy.org, '');
	END IF;
	FOREACH word IN ARRAY coalesce(set_scan_policy.scanners, '{}') LOOP
		IF coalesce(word, '') !~ '^[a-z][a-z0-9_]{0,62}$' THEN
			PERFORM gpucredit_registry.refuse(format('scanner "%s" is malformed', left(word, 64)),
				'A scanner''s name has 1 to 63 small letters, digits or "_".');
		END IF;
	END LOOP;
	IF set_scan_policy.org IS NULL OR cardinality(set_scan_policy.scanners) > 16
		OR cardinality(set_scan_policy.licenses) > 1000 OR set_scan_policy.hold IS NULL
		OR array_position(set_scan_policy.licenses, NULL) IS NOT NULL
	THEN
		PERFORM gpucredit_registry.refuse('a scan policy has an organisation, or '''' for all, and hold',
			'It names at most 16 scanners and 1,000 licences, none of them NULL.');
	END IF;
	DELETE FROM gpucredit_registry.scan_policy p
	WHERE p.org = set_scan_policy.org AND set_scan_policy.scanners IS NULL;
	INSERT INTO gpucredit_registry.scan_policy
	SELECT set_scan_policy.org, set_scan_policy.scanners, set_scan_policy.licenses,
		set_scan_policy.hold
	WHERE set_scan_policy.scanners IS NOT NULL
	ON CONFLICT ON CONSTRAINT scan_policy_pkey DO UPDATE
	SET scanners = excluded.scanners, licenses = excluded.licenses, hold = excluded.hold;
	PERFORM gpucredit_registry.record(set_scan_policy.org, 'set_scan_policy', NULL,
		jsonb_build_object('scanners', set_scan_policy.scanners,
			'licenses', set_scan_policy.licenses, 'hold', set_scan_policy.hold));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.set_scan_policy(text, text[], text[], boolean) IS
'Scans: which scanners look at versions that are committed from now on; rescan() has them look at older ones.
org: '''' for all organisations that have no policy of their own. scanners: yara, pickle, license, fingerprint of registry-scan, or your own; NULL removes the policy. licenses: which may be used; NULL: any. hold: until all have reported, only who may write reads a version.
Errors: UC001 no such organisation; 22023.';

CREATE FUNCTION gpucredit_registry.scan_policy_of(org text)
RETURNS gpucredit_registry.scan_policy
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT p FROM gpucredit_registry.scan_policy p
	WHERE p.org IN (scan_policy_of.org, '')
	ORDER BY p.org DESC LIMIT 1;
END;
COMMENT ON FUNCTION gpucredit_registry.scan_policy_of(text) IS
'Internal: an organisation''s policy, or that of all.';

CREATE FUNCTION gpucredit_registry.request_scans(org text, version bigint)
RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	INSERT INTO gpucredit_registry.scan (org, version, scanner, hold, created_at)
	SELECT DISTINCT request_scans.org, request_scans.version, s.scanner, p.hold,
		gpucredit.now()
	FROM gpucredit_registry.scan_policy_of(request_scans.org) p,
		unnest(p.scanners) AS s (scanner);
END;
COMMENT ON FUNCTION gpucredit_registry.request_scans(text, bigint) IS
'Internal: a version that is being committed waits for its scanners.';

/*
 * Whether an account has an explicit right to read: as the owner, or by a
 * grant.
 */
CREATE FUNCTION gpucredit_registry.is_named(org text, model bigint,
	caller gpucredit_registry.caller) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT EXISTS (SELECT FROM gpucredit_registry.permission p
			WHERE p.org = is_named.org AND p.model = is_named.model
				AND (p.principal = 'org:' || (caller).org
					OR starts_with('account:' || (caller).org || '/' || (caller).account || '/',
						p.principal || '/')))
		OR EXISTS (SELECT FROM gpucredit_registry.model m
			WHERE m.org = is_named.org AND m.model = is_named.model
				AND m.org = (caller).org AND ((caller).account IN ('', m.account)
					OR starts_with(m.account, (caller).account || '/')));
END;
COMMENT ON FUNCTION gpucredit_registry.is_named(text, bigint, gpucredit_registry.caller) IS
'Internal: has a caller an explicit right to a repository?';

/*
 * Returns why a caller who may read the repository may not read bytes of a
 * version, or NULL.
 */
CREATE FUNCTION gpucredit_registry.read_refusal(v gpucredit_registry.version,
	object bytea, caller gpucredit_registry.caller) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE
		WHEN (v).quarantined_at IS NOT NULL
			OR gpucredit_registry.is_blocked(read_refusal.object) THEN 'quarantined'
		WHEN (v).restricted_at IS NOT NULL THEN
			CASE WHEN NOT gpucredit_registry.is_named((v).org, (v).model, read_refusal.caller)
				OR NOT EXISTS (SELECT FROM gpucredit_registry.reader r
					WHERE r.org = (v).org AND r.object = read_refusal.object
						AND r.caller = gpucredit_registry.caller_name(read_refusal.caller))
				THEN 'restricted' END
		WHEN EXISTS (SELECT FROM gpucredit_registry.scan s
				WHERE s.org = (v).org AND s.version = (v).version AND s.hold
					AND s.verdict IS NULL)
			AND coalesce(gpucredit_registry.permission_of((v).org, (v).model,
				read_refusal.caller), 'read') = 'read'
		THEN 'scan_pending'
	END;
END;
COMMENT ON FUNCTION gpucredit_registry.read_refusal(gpucredit_registry.version, bytea, gpucredit_registry.caller) IS
'Internal: NULL, or quarantined, restricted or scan_pending.';

/*
 * Returns why an object may not be read, or NULL. It may be read if at least
 * one version of the repository that has the object may be read. If no version
 * of the repository has it, the versions of the organisation's other
 * repositories that the caller may read are considered. The versions come in
 * no order, so that the first one that may be read ends the search.
 */
CREATE FUNCTION gpucredit_registry.object_refusal(m gpucredit_registry.model,
	object bytea, caller gpucredit_registry.caller, OUT refusal text,
	OUT v gpucredit_registry.version)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	blocked boolean := gpucredit_registry.is_blocked(object_refusal.object);
	own boolean;
	o gpucredit_registry.version;
BEGIN
	FOREACH own IN ARRAY '{true,false}'::boolean[] LOOP
		FOR o IN
			SELECT k.*
			FROM gpucredit_registry.entry e
				JOIN gpucredit_registry.version l ON l.org = e.org AND l.version = e.line
				JOIN gpucredit_registry.version k ON k.org = e.org AND k.line = e.line
					AND k.version >= e.since AND (e.until IS NULL OR k.version < e.until)
			WHERE e.org = (m).org AND e.object = object_refusal.object
				AND (l.model = (m).model) = own AND k.dropped_at IS NULL
		LOOP
			CONTINUE WHEN NOT own AND gpucredit_registry.permission_of(o.org, o.model,
				object_refusal.caller) IS NULL;
			v := o;
			refusal := gpucredit_registry.read_refusal(v, object_refusal.object,
				object_refusal.caller);
			EXIT WHEN refusal IS NULL OR blocked;
		END LOOP;
		EXIT WHEN v.version IS NOT NULL;
	END LOOP;
	IF blocked THEN
		refusal := 'quarantined';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.object_refusal(gpucredit_registry.model, bytea, gpucredit_registry.caller) IS
'Internal: why no version lets a caller read these bytes, and one that does not.';

CREATE FUNCTION gpucredit_registry.refuse_read(v gpucredit_registry.version,
	refusal text) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	name text := coalesce((SELECT format('version %s of "%s/%s"', (v).oid, m.org, m.name)
		FROM gpucredit_registry.model m WHERE m.org = (v).org AND m.model = (v).model),
		'the file');
BEGIN
	IF refuse_read.refusal = 'quarantined' THEN
		RAISE EXCEPTION '% is in quarantine', name
			USING ERRCODE = 'UC504', DETAIL = coalesce((v).quarantine_reason,
				'Its bytes are blocked, in whatever version they are.'),
			HINT = 'Ask the operator, or use another version.', COLUMN = 'Quarantined';
	ELSIF refuse_read.refusal = 'restricted' THEN
		RAISE EXCEPTION '% is restricted', name
			USING ERRCODE = 'UC504', DETAIL = (v).restricted_reason,
			HINT = 'Use another version; its owner sees what was found by scans().',
			COLUMN = 'Restricted';
	ELSIF refuse_read.refusal = 'scan_pending' THEN
		RAISE EXCEPTION '% waits for its scans', name
			USING ERRCODE = 'UC504', DETAIL = 'Until they have reported only who may write reads it.',
			HINT = 'Try again later.', COLUMN = 'ScanPending';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.refuse_read(gpucredit_registry.version, text) IS
'Internal: raises UC504 for a refusal; nothing without one.';

/* Stores the verdict of a scan and applies its consequences. */
CREATE FUNCTION gpucredit_registry.set_verdict(s gpucredit_registry.scan,
	verdict text, detail jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version;
	m gpucredit_registry.model;
BEGIN
	UPDATE gpucredit_registry.scan o
	SET verdict = set_verdict.verdict, detail = set_verdict.detail,
		reported_at = gpucredit.now(), claimed_until = NULL
	WHERE o.org = (s).org AND o.version = (s).version AND o.scanner = (s).scanner;
	PERFORM gpucredit_registry.record((s).org, 'scan', NULL, jsonb_build_object(
		'version', (s).version, 'scanner', (s).scanner, 'verdict', set_verdict.verdict));
	SELECT * INTO v FROM gpucredit_registry.version o
	WHERE o.org = (s).org AND o.version = (s).version FOR UPDATE;
	IF set_verdict.verdict = 'failed' THEN
		UPDATE gpucredit_registry.version o
		SET restricted_at = coalesce(o.restricted_at, gpucredit.now()),
			restricted_reason = coalesce(o.restricted_reason,
				format('It failed the scan "%s".', (s).scanner))
		WHERE o.org = v.org AND o.version = v.version;
		SELECT * INTO m FROM gpucredit_registry.model o
		WHERE o.org = v.org AND o.model = v.model;
		PERFORM gpucredit_registry.raise_alert(m.org, m.account, 'scan',
			format('%s/%s', v.version, (s).scanner), jsonb_build_object('model', m.model,
				'name', m.name, 'version', v.version, 'oid', v.oid, 'scanner', (s).scanner,
				'found', set_verdict.detail));
		PERFORM gpucredit_registry.publish_model('restricted', v.org, v.model,
			jsonb_build_object('version', v.version, 'oid', v.oid, 'scanner', (s).scanner));
	ELSIF v.restricted_at IS NOT NULL AND NOT EXISTS (SELECT FROM gpucredit_registry.scan o
		WHERE o.org = v.org AND o.version = v.version
			AND coalesce(o.verdict, 'failed') = 'failed')
	THEN
		UPDATE gpucredit_registry.version o
		SET restricted_at = NULL, restricted_reason = NULL
		WHERE o.org = v.org AND o.version = v.version;
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.set_verdict(gpucredit_registry.scan, text, jsonb) IS
'Internal: keeps a scan''s verdict, restricts its version or lifts the restriction, and alerts the owner.';

/*
 * Fails a scan that no worker completed, so that a version which crashes its
 * scanners cannot be read.
 */
CREATE FUNCTION gpucredit_registry.fail_scan(s gpucredit_registry.scan, detail jsonb)
RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	SELECT gpucredit_registry.set_verdict(s, 'failed', jsonb_strip_nulls(jsonb_build_object(
		'reason', 'no scanner finished in three claims', 'unfinished', true,
		'last', fail_scan.detail)));
END;
COMMENT ON FUNCTION gpucredit_registry.fail_scan(gpucredit_registry.scan, jsonb) IS
'Internal: fails a scan that was claimed three times and never finished.';

/*
 * Returns the files that the scanner must check, with the URLs of their bytes.
 */
CREATE FUNCTION gpucredit_registry.scan_files(s gpucredit_registry.scan, life interval)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN (SELECT coalesce(jsonb_agg(jsonb_build_object('path', f.path, 'size', f.size,
			'sha256', encode(f.object, 'hex'), 'url', gpucredit_registry.sign('', 'GET',
				format('/scan/%s/%s/%s', (s).org, (s).version, encode(f.object, 'hex')),
				scan_files.life)) ORDER BY f.path), '[]')
	FROM gpucredit_registry.file f
	WHERE f.org = (s).org AND f.version = (s).version
		AND ((s).whole OR NOT EXISTS (
			SELECT FROM gpucredit_registry.version v
				JOIN gpucredit_registry.scan p ON p.org = v.org AND p.version = v.parent
					AND p.scanner = (s).scanner AND p.verdict = 'passed'
				JOIN gpucredit_registry.file g ON g.org = v.org AND g.version = v.parent
					AND g.path = f.path AND g.object = f.object
			WHERE v.org = (s).org AND v.version = (s).version)));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.scan_files(gpucredit_registry.scan, interval) IS
'Internal: the files of a version that a scanner has not passed yet.';

CREATE FUNCTION gpucredit_registry.claim_scans(n integer DEFAULT 1,
	scanners text[] DEFAULT NULL, lease interval DEFAULT '10 minutes')
RETURNS TABLE (org text, version bigint, scanner text, model text, oid text, files jsonb,
	expires_at timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	s gpucredit_registry.scan;
	life interval;
BEGIN
	IF coalesce(claim_scans.n, 0) NOT BETWEEN 1 AND 1000
		OR coalesce(claim_scans.lease, '0') NOT BETWEEN '1 s' AND '1 day'
	THEN
		PERFORM gpucredit_registry.refuse('n is 1 to 1,000, lease 1 second to 1 day',
			format('They are %s and %s.', claim_scans.n, claim_scans.lease));
	END IF;
	FOR s IN
		SELECT o.* FROM gpucredit_registry.scan o
		WHERE o.verdict IS NULL AND o.claims >= 3 AND o.claimed_until <= gpucredit.now()
		ORDER BY o.created_at, o.org, o.version, o.scanner
		LIMIT 100 FOR UPDATE SKIP LOCKED
	LOOP
		PERFORM gpucredit_registry.fail_scan(s, NULL);
	END LOOP;
	FOR s IN
		SELECT o.* FROM gpucredit_registry.scan o
		WHERE o.verdict IS NULL AND o.claims < 3
			AND (o.claimed_until IS NULL OR o.claimed_until <= gpucredit.now())
			AND (claim_scans.scanners IS NULL OR o.scanner = ANY (claim_scans.scanners))
		ORDER BY o.created_at, o.org, o.version, o.scanner
		LIMIT claim_scans.n FOR UPDATE SKIP LOCKED
	LOOP
		SELECT s.org, s.version, s.scanner, m.name, v.oid,
			claim_scans.lease + coalesce(sum(f.size), 0)::double precision / 2e7 * interval '1 s'
		INTO claim_scans.org, claim_scans.version, claim_scans.scanner, claim_scans.model,
			claim_scans.oid, life
		FROM gpucredit_registry.version v
			JOIN gpucredit_registry.model m USING (org, model)
			LEFT JOIN gpucredit_registry.file f ON f.org = v.org AND f.version = v.version
		WHERE v.org = s.org AND v.version = s.version
		GROUP BY m.name, v.oid;
		claim_scans.expires_at := gpucredit.now() + life;
		claim_scans.files := gpucredit_registry.scan_files(s, life);
		UPDATE gpucredit_registry.scan o
		SET claims = o.claims + 1, claimed_until = claim_scans.expires_at
		WHERE o.org = s.org AND o.version = s.version AND o.scanner = s.scanner;
		RETURN NEXT;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.claim_scans(integer, text[], interval) IS
'Scans: gives a worker versions that wait for a scanner, the oldest first. What it does not report in time others claim; after three claims the scan has failed.
n: 1 to 1,000. scanners: only these; NULL: all. lease: how long the worker has, and a second more for each 20 MB.
Result: files: {"path", "size", "sha256", "url"}: where registryd gives the bytes until then; files that its parent passed with are left out.
Errors: 22023.';

CREATE FUNCTION gpucredit_registry.report_scan(org text, version bigint, scanner text,
	verdict text, detail jsonb DEFAULT '{}', OUT status text, OUT replayed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	s gpucredit_registry.scan;
BEGIN
	IF coalesce(report_scan.verdict, '') NOT IN ('passed', 'noted', 'failed', 'error',
		'crashed')
		OR jsonb_typeof(report_scan.detail) IS DISTINCT FROM 'object'
		OR octet_length(report_scan.detail::text) > 65536
	THEN
		PERFORM gpucredit_registry.refuse('a verdict is passed, noted, failed, error or crashed, its detail an object',
			format('The verdict is "%s"; a detail has at most 64 kB.',
				left(report_scan.verdict, 64)));
	END IF;
	SELECT * INTO s FROM gpucredit_registry.scan o
	WHERE o.org = report_scan.org AND o.version = report_scan.version
		AND o.scanner = report_scan.scanner
	FOR UPDATE;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.not_found(format('scan "%s" of version %s of "%s"',
			left(report_scan.scanner, 64), report_scan.version, left(report_scan.org, 64)));
	END IF;
	report_scan.replayed := false;
	IF report_scan.verdict = 'crashed' AND s.verdict IS NULL AND s.claims >= 3 THEN
		PERFORM gpucredit_registry.fail_scan(s, report_scan.detail);
		report_scan.status := 'failed';
	ELSIF report_scan.verdict IN ('crashed', 'error') AND s.verdict IS NULL THEN
		/*
		 * An error that the files did not cause does not count as an attempt.
		 */
		UPDATE gpucredit_registry.scan o
		SET claimed_until = gpucredit.now() + CASE report_scan.verdict WHEN 'error'
				THEN interval '1 minute' ELSE '0' END,
			claims = greatest(o.claims - (report_scan.verdict = 'error')::int, 0),
			detail = report_scan.detail
		WHERE o.org = s.org AND o.version = s.version AND o.scanner = s.scanner;
		report_scan.status := 'waiting';
	ELSIF report_scan.verdict IN ('crashed', 'error') THEN
		report_scan.replayed := true;
		report_scan.status := s.verdict;
	ELSIF s.verdict IS NULL OR s.detail ? 'unfinished' AND s.verdict = 'failed'
		OR report_scan.verdict = 'failed' AND s.verdict IN ('passed', 'noted')
	THEN
		PERFORM gpucredit_registry.set_verdict(s, report_scan.verdict, report_scan.detail);
		report_scan.status := report_scan.verdict;
	ELSE
		report_scan.replayed := true;
		report_scan.status := s.verdict;
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.report_scan(text, bigint, text, text, jsonb) IS
'Scans: what a scanner found; also if its claim has ended. The first verdict stands, but failed replaces passed and noted, and any replaces the failure of a scan that nobody finished.
verdict: passed; noted: nothing that restricts it; failed: the version is restricted, and its owner told; error: the scanner could not look, another may in a minute; crashed: it died, another may now, and after three claims the scan has failed. detail: an object of at most 64 kB.
Result: status: the verdict that stands, or waiting; replayed: whether this call changed nothing.
Errors: UC501 the version has no such scan; 22023.';

CREATE FUNCTION gpucredit_registry.rescan(org text, version bigint,
	scanners text[] DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	p gpucredit_registry.scan_policy := gpucredit_registry.scan_policy_of(rescan.org);
	found_scans bigint;
BEGIN
	IF NOT EXISTS (SELECT FROM gpucredit_registry.version v
		WHERE v.org = rescan.org AND v.version = rescan.version)
	THEN
		PERFORM gpucredit_registry.not_found(format('version %s of "%s"', rescan.version,
			left(rescan.org, 64)));
	END IF;
	INSERT INTO gpucredit_registry.scan AS s (org, version, scanner, hold, whole, created_at)
	SELECT DISTINCT rescan.org, rescan.version, w.scanner, p.hold, true, gpucredit.now()
	FROM unnest(p.scanners) AS w (scanner)
	WHERE rescan.scanners IS NULL OR w.scanner = ANY (rescan.scanners)
	ORDER BY 1, 2, 3
	ON CONFLICT ON CONSTRAINT scan_pkey DO UPDATE
	SET whole = true, claims = 0, claimed_until = NULL, verdict = NULL, detail = NULL,
		reported_at = NULL, created_at = excluded.created_at;
	GET DIAGNOSTICS found_scans = ROW_COUNT;
	PERFORM gpucredit_registry.record(rescan.org, 'rescan', NULL, jsonb_build_object(
		'version', rescan.version, 'scanners', rescan.scanners));
	RETURN found_scans;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.rescan(text, bigint, text[]) IS
'Scans: has the policy''s scanners look at all files of a version again, or for the first time. If it is restricted it stays so until all have passed.
scanners: only these of the policy; NULL: all. Result: how many look. Errors: UC501 no such version.';

CREATE FUNCTION gpucredit_registry.scans(org text, version bigint)
RETURNS TABLE (scanner text, verdict text, detail jsonb, reported_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 4
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version := gpucredit_registry.own_version(scans.org, scans.version);
BEGIN
	RETURN QUERY
	SELECT s.scanner, coalesce(s.verdict, 'waiting'), s.detail, s.reported_at
	FROM gpucredit_registry.scan s
	WHERE s.org = v.org AND s.version = v.version
	ORDER BY s.scanner;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.scans(text, bigint) IS
'Scans: what was found in a version.
Result: verdict: waiting, passed, noted, failed, or released: it failed, and an operator released the version (release_quarantine).
Errors: UC501 no such version.';
