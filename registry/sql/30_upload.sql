/*
 * 30_upload.sql: uploads.
 *
 * An upload has parts, each of which is a range of the file's bytes; a file
 * that is sent as a whole has one part. A part's chunks are stored as they
 * arrive, so after a broken connection it continues where store_chunks() last
 * committed. When all bytes are stored and their digest is right, the parts
 * become the object, and the upload is deleted.
 */
CREATE TABLE gpucredit_registry.upload (
	org text COLLATE "C" NOT NULL,
	upload bigint GENERATED ALWAYS AS IDENTITY,
	model bigint NOT NULL,
	object bytea CHECK (octet_length(object) = 32),	/* NULL if known only at
													 * the end */
	size bigint CHECK (size >= 0),
	/* digest that the client named at the end */
	announced bytea CHECK (octet_length(announced) = 32),
	caller text COLLATE "C" NOT NULL,	/* the sender */
	part_size bigint NOT NULL CHECK (part_size > 0),
	created_at timestamptz NOT NULL,
	expires_at timestamptz NOT NULL,
	CONSTRAINT upload_pkey PRIMARY KEY (org, upload),
	CONSTRAINT upload_object UNIQUE (org, model, object, caller),
	CONSTRAINT upload_told CHECK ((object IS NULL) = (size IS NULL)),
	FOREIGN KEY (org, model) REFERENCES gpucredit_registry.model
);
CREATE INDEX upload_expires ON gpucredit_registry.upload (expires_at);
COMMENT ON TABLE gpucredit_registry.upload IS
'Files that clients are sending; what is not finished in 24 hours goes';

CREATE TABLE gpucredit_registry.upload_part (
	org text COLLATE "C" NOT NULL,
	upload bigint NOT NULL,
	part integer NOT NULL CHECK (part > 0),
	received bigint NOT NULL DEFAULT 0 CHECK (received >= 0),
	writer bigint,				/* the request that sends it now, by a number
								 * that the daemon assigns */
	CONSTRAINT upload_part_pkey PRIMARY KEY (org, upload, part),
	FOREIGN KEY (org, upload) REFERENCES gpucredit_registry.upload ON DELETE CASCADE
);
COMMENT ON TABLE gpucredit_registry.upload_part IS
'How much of a part is stored';

/*
 * Each row stems from one call of store_chunks(), and uses each of its chunks
 * once.
 */
CREATE TABLE gpucredit_registry.upload_run (
	org text COLLATE "C" NOT NULL,
	upload bigint NOT NULL,
	part integer NOT NULL,
	first_byte bigint NOT NULL,
	chunks bigint[] NOT NULL,
	CONSTRAINT upload_run_pkey PRIMARY KEY (org, upload, part, first_byte),
	FOREIGN KEY (org, upload, part) REFERENCES gpucredit_registry.upload_part ON DELETE CASCADE
);
COMMENT ON TABLE gpucredit_registry.upload_run IS
'The chunks of a part as far as it is stored, in order';

/*
 * Who has sent the bytes of an object. A digest gives no right: only a caller
 * who has sent the bytes within the last 24 hours, or may read them somewhere,
 * may commit them.
 */
CREATE TABLE gpucredit_registry.sender (
	org text COLLATE "C" NOT NULL,
	object bytea NOT NULL,
	caller text COLLATE "C" NOT NULL,
	sent_at timestamptz NOT NULL,
	CONSTRAINT sender_pkey PRIMARY KEY (org, object, caller),
	FOREIGN KEY (org, object) REFERENCES gpucredit_registry.possession ON DELETE CASCADE
);
CREATE INDEX sender_sent ON gpucredit_registry.sender (sent_at);
COMMENT ON TABLE gpucredit_registry.sender IS
'Which accounts sent the bytes of which objects to an organisation within a day';

/*
 * Blobs that were sent or mounted to an image repository, before a manifest
 * names them.
 */
CREATE TABLE gpucredit_registry.blob (
	org text COLLATE "C" NOT NULL,
	model bigint NOT NULL,
	object bytea NOT NULL,
	CONSTRAINT blob_pkey PRIMARY KEY (org, model, object),
	FOREIGN KEY (org, model) REFERENCES gpucredit_registry.model,
	FOREIGN KEY (org, object) REFERENCES gpucredit_registry.possession ON DELETE CASCADE
);
CREATE INDEX blob_object ON gpucredit_registry.blob (org, object);
COMMENT ON TABLE gpucredit_registry.blob IS
'Blobs that were sent or mounted to image repositories';

CREATE TABLE gpucredit_registry.quota (
	org text COLLATE "C" PRIMARY KEY,
	bytes bigint CHECK (bytes >= 0),
	egress_bytes bigint CHECK (egress_bytes >= 0),
	storage_told boolean NOT NULL DEFAULT false,	/* whether the alert about
													 * 80 % use was raised */
	egress_told boolean NOT NULL DEFAULT false
);
COMMENT ON TABLE gpucredit_registry.quota IS
'The unique bytes an organisation may store, and read in 30 days; NULL: any number';

CREATE FUNCTION gpucredit_registry.set_storage_quota(org text, bytes bigint,
	egress_bytes bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_registry.check_account(set_storage_quota.org, '');
	IF set_storage_quota.bytes < 0 OR set_storage_quota.egress_bytes < 0 THEN
		PERFORM gpucredit_registry.refuse('a quota is 0 or more bytes',
			format('They are %s and %s.', set_storage_quota.bytes,
				set_storage_quota.egress_bytes));
	END IF;
	INSERT INTO gpucredit_registry.quota
	VALUES (set_storage_quota.org, set_storage_quota.bytes, set_storage_quota.egress_bytes)
	ON CONFLICT ON CONSTRAINT quota_pkey DO UPDATE
	SET bytes = excluded.bytes, egress_bytes = excluded.egress_bytes,
		storage_told = false, egress_told = false;
	PERFORM gpucredit_registry.alert_quota(set_storage_quota.org, 'storage_quota',
			gpucredit_registry.unique_bytes(set_storage_quota.org)),
		gpucredit_registry.alert_quota(set_storage_quota.org, 'egress_quota',
			gpucredit_registry.egress_bytes(set_storage_quota.org));
	PERFORM gpucredit_registry.record(set_storage_quota.org, 'set_storage_quota', NULL,
		jsonb_build_object('bytes', set_storage_quota.bytes, 'egress_bytes',
			set_storage_quota.egress_bytes));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.set_storage_quota(text, bigint, bigint) IS
'Quotas: how many unique bytes an organisation may store, and how many it may read in 30 days; NULL: any number.
What is stored already stays. Once 80 % of a quota are used, the owner gets an alert (alerts). Errors: UC001 no such organisation; 22023.';

/*
 * Returns the size of the largest file that is sent as a whole, which is also
 * the size of a part of a multipart upload.
 */
CREATE FUNCTION gpucredit_registry.part_bytes() RETURNS bigint
LANGUAGE sql IMMUTABLE RETURN 268435456;
COMMENT ON FUNCTION gpucredit_registry.part_bytes() IS
'Internal: the bytes of one part, 256 MiB.';

CREATE TYPE gpucredit_registry.upload_result AS (
	upload bigint,
	status text,
	reason text,
	received bigint,
	expires_at timestamptz
);

/*
 * What an account may store: nothing, for the reason "denial", or this number
 * of additional bytes of its organisation; NULL: any number.
 */
CREATE TYPE gpucredit_registry.upload_room AS (
	denial text,
	bytes numeric
);

/*
 * Returns what the account of a repository may store beyond what is stored, and
 * beyond what open uploads have announced. Whoever opens many uploads computes
 * it once, because it reads all that are open. The caller holds the lock of the
 * organisation's usage.
 */
CREATE FUNCTION gpucredit_registry.upload_room(m gpucredit_registry.model)
RETURNS gpucredit_registry.upload_room
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	room gpucredit_registry.upload_room;
	credit numeric;
	allowed bigint;
BEGIN
	SELECT b.spendable INTO credit
	FROM gpucredit.balance((m).org, (m).account) b;
	room.denial := CASE
		WHEN EXISTS (SELECT FROM gpucredit.account a
			WHERE a.org = (m).org AND a.suspended AND (a.account IN ('', (m).account)
				OR starts_with((m).account, a.account || '/')))
		THEN 'account_suspended'
		WHEN credit <= 0 THEN 'insufficient_credits'
	END;
	SELECT q.bytes INTO allowed FROM gpucredit_registry.quota q WHERE q.org = (m).org;
	IF allowed IS NOT NULL THEN
		room.bytes := allowed - gpucredit_registry.unique_bytes((m).org)
			- (SELECT coalesce(sum(u.size - coalesce((SELECT sum(p.received)
					FROM gpucredit_registry.upload_part p
					WHERE p.org = u.org AND p.upload = u.upload), 0)), 0)
				FROM gpucredit_registry.upload u
				WHERE u.org = (m).org AND u.expires_at > gpucredit.now());
	END IF;
	RETURN room;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.upload_room(gpucredit_registry.model) IS
'Internal: what the account of a repository may store.';

/* Returns why this number of bytes does not fit into a room; NULL: it does. */
CREATE FUNCTION gpucredit_registry.room_denial(room gpucredit_registry.upload_room, size bigint)
RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT coalesce((room).denial, CASE WHEN size > (room).bytes THEN 'storage_quota' END);
END;
COMMENT ON FUNCTION gpucredit_registry.room_denial(gpucredit_registry.upload_room, bigint) IS
'Internal: NULL, or storage_quota, insufficient_credits or account_suspended.';

/*
 * Returns why the account of a repository may not store this number of
 * additional bytes, or NULL. The caller holds the lock of the organisation's
 * usage.
 */
CREATE FUNCTION gpucredit_registry.upload_denial(m gpucredit_registry.model,
	size bigint) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN gpucredit_registry.room_denial(gpucredit_registry.upload_room(m),
		upload_denial.size);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.upload_denial(gpucredit_registry.model, bigint) IS
'Internal: NULL, or storage_quota, insufficient_credits or account_suspended.';

/*
 * Opens an upload. A batch passes "room" from one to the next: it is computed
 * when the first one needs it, under the lock of the organisation's usage,
 * which is held until the transaction ends.
 */
CREATE FUNCTION gpucredit_registry.begin_upload(m gpucredit_registry.model,
	sha256 bytea, size bigint, parts boolean, caller gpucredit_registry.caller,
	INOUT room gpucredit_registry.upload_room, OUT r gpucredit_registry.upload_result)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	sends text := gpucredit_registry.caller_name(begin_upload.caller);
BEGIN
	IF begin_upload.size IS NULL OR begin_upload.size NOT BETWEEN 0 AND 1::bigint << 42
		OR coalesce(octet_length(begin_upload.sha256), 0) <> 32
	THEN
		PERFORM gpucredit_registry.refuse('an upload has a SHA-256 and 0 to 4 TiB',
			format('The size is %s.', begin_upload.size));
	END IF;
	IF EXISTS (SELECT FROM gpucredit_registry.possession p
			WHERE p.org = m.org AND p.object = begin_upload.sha256)
		AND gpucredit_registry.may_use_object(m.org, begin_upload.sha256,
			begin_upload.caller)
	THEN
		r.status := 'present';
		r.received := begin_upload.size;
		RETURN;
	END IF;
	/*
	 * Uploads wait for each other here, so that together they stay within the
	 * quota.
	 */
	PERFORM gpucredit_registry.lock_usage(m.org);
	SELECT u.upload, u.expires_at, coalesce((SELECT sum(p.received)
			FROM gpucredit_registry.upload_part p
			WHERE p.org = u.org AND p.upload = u.upload), 0)
	INTO r.upload, r.expires_at, r.received
	FROM gpucredit_registry.upload u
	WHERE u.org = m.org AND u.model = m.model AND u.object = begin_upload.sha256
		AND u.caller = sends AND u.size = begin_upload.size
		AND u.expires_at > gpucredit.now();
	IF FOUND THEN
		r.status := 'open';
		RETURN;
	END IF;
	room := coalesce(room, gpucredit_registry.upload_room(m));
	r.reason := gpucredit_registry.room_denial(room, begin_upload.size);
	IF r.reason IS NOT NULL THEN
		r.status := 'denied';
		PERFORM gpucredit_registry.record(m.org, 'start_upload', NULL,
			jsonb_build_object('model', m.model, 'size', begin_upload.size,
				'denied', r.reason));
		PERFORM gpucredit_registry.report_denial(m.org, m.account, r.reason);
		RETURN;
	END IF;
	/* An upload that ended without all its bytes is replaced. */
	PERFORM gpucredit_registry.drop_upload(u.org, u.upload)
	FROM gpucredit_registry.upload u
	WHERE u.org = m.org AND u.model = m.model AND u.object = begin_upload.sha256
		AND u.caller = sends;
	room.bytes := room.bytes - begin_upload.size;
	r.expires_at := gpucredit.now() + interval '24 hours';
	INSERT INTO gpucredit_registry.upload AS u (org, model, object, caller, size,
		part_size, created_at, expires_at)
	VALUES (m.org, m.model, begin_upload.sha256, sends, begin_upload.size,
		CASE WHEN begin_upload.parts THEN gpucredit_registry.part_bytes()
			ELSE greatest(begin_upload.size, 1) END,
		gpucredit.now(), r.expires_at)
	RETURNING u.upload INTO r.upload;
	INSERT INTO gpucredit_registry.upload_part
	SELECT m.org, r.upload, n FROM generate_series(1, CASE WHEN begin_upload.parts
		THEN greatest(ceil(begin_upload.size::numeric / gpucredit_registry.part_bytes()), 1)
		ELSE 1 END::int) n;
	r.status := 'open';
	r.received := 0;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.begin_upload(gpucredit_registry.model, bytea, bigint, boolean, gpucredit_registry.caller, gpucredit_registry.upload_room) IS
'Internal: opens an upload of a caller, or gives the one that he has open.';

CREATE FUNCTION gpucredit_registry.start_upload(org text, model bigint,
	sha256 bytea, size bigint) RETURNS gpucredit_registry.upload_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model :=
		gpucredit_registry.own_model(start_upload.org, start_upload.model);
BEGIN
	RETURN (gpucredit_registry.begin_upload(m, start_upload.sha256, start_upload.size,
		false, (m.org, m.account, 'write')::gpucredit_registry.caller, NULL)).r;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.start_upload(text, bigint, bytea, bigint) IS
'Uploads: opens one for a file of a repository; the same file again gives the same upload.
sha256: 32 bytes, of the whole file. size: bytes, at most 4 TiB.
Result: status open; present, where the repository''s account sent the bytes within a day or may read them somewhere; denied, with reason storage_quota, insufficient_credits or account_suspended. received: what is stored of it.
Errors: UC501 no such repository; 22023.';

/* Releases the chunks that an upload, or one part of it, has stored. */
CREATE FUNCTION gpucredit_registry.drop_runs(org text, upload bigint,
	part integer DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
BEGIN
	FOR r IN
		DELETE FROM gpucredit_registry.upload_run o
		WHERE o.org = drop_runs.org AND o.upload = drop_runs.upload
			AND o.part = coalesce(drop_runs.part, o.part)
		RETURNING o.chunks
	LOOP
		PERFORM gpucredit_registry.leave_chunks(drop_runs.org, r.chunks);
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.drop_runs(text, bigint, integer) IS
'Internal: forgets what is stored of an upload, or of a part of it.';

CREATE FUNCTION gpucredit_registry.drop_upload(org text, upload bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM FROM gpucredit_registry.upload u
	WHERE u.org = drop_upload.org AND u.upload = drop_upload.upload FOR UPDATE;
	PERFORM gpucredit_registry.drop_runs(drop_upload.org, drop_upload.upload);
	DELETE FROM gpucredit_registry.upload u
	WHERE u.org = drop_upload.org AND u.upload = drop_upload.upload;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.drop_upload(text, bigint) IS
'Internal: forgets an upload; its chunks go if nothing else uses them.';

CREATE FUNCTION gpucredit_registry.no_upload(upload bigint) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
	SELECT gpucredit_registry.raise('UC502', format('upload %s does not exist', upload),
		'It was finished, has ended after 24 hours, or never began.',
		'Start the upload again.');
END;
COMMENT ON FUNCTION gpucredit_registry.no_upload(bigint) IS
'Internal: raises UC502.';

CREATE FUNCTION gpucredit_registry.require_part(org text, upload bigint, part integer,
	OUT u gpucredit_registry.upload, OUT p gpucredit_registry.upload_part)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	SELECT o.* INTO u FROM gpucredit_registry.upload o
	WHERE o.org = require_part.org AND o.upload = require_part.upload
		AND o.expires_at > gpucredit.now()
	FOR KEY SHARE;
	SELECT o.* INTO p FROM gpucredit_registry.upload_part o
	WHERE o.org = require_part.org AND o.upload = require_part.upload
		AND o.part = require_part.part
	FOR NO KEY UPDATE;
	IF (u).upload IS NULL OR (p).upload IS NULL THEN
		PERFORM gpucredit_registry.no_upload(require_part.upload);
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.require_part(text, bigint, integer) IS
'Internal: an upload and one of its parts, locked. Errors: UC502.';

/*
 * Functions for the daemon: each part has one writer, and its chunks are
 * stored as they arrive.
 */

CREATE FUNCTION gpucredit_registry.new_pack() RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	INSERT INTO gpucredit_registry.pack (created_at) VALUES (gpucredit.now())
	RETURNING pack;
END;
COMMENT ON FUNCTION gpucredit_registry.new_pack() IS
'Daemon: the number of a pack that it may begin to write.';

/*
 * Begins a part. The newest request becomes the writer, so that a client that
 * continues after a broken connection does not wait for the old connection. If
 * two requests send at the same time, the older one gets 409 at its next
 * chunks.
 */
CREATE FUNCTION gpucredit_registry.begin_part(org text, upload bigint, part integer,
	from_byte bigint, writer bigint, OUT expected bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	o record;
BEGIN
	o := gpucredit_registry.require_part(begin_part.org, begin_part.upload, begin_part.part);
	IF begin_part.from_byte = 0 AND (o.p).received > 0 THEN
		/*
		 * The part starts from its first byte: what is stored may be another
		 * client's mistake.
		 */
		PERFORM gpucredit_registry.drop_runs(begin_part.org, begin_part.upload, begin_part.part);
		UPDATE gpucredit_registry.upload_part p SET received = 0
		WHERE p.org = begin_part.org AND p.upload = begin_part.upload
			AND p.part = begin_part.part;
	ELSIF begin_part.from_byte <> (o.p).received THEN
		RAISE EXCEPTION 'upload % goes on at byte %', begin_part.upload, (o.p).received
			USING ERRCODE = 'UC506',
			DETAIL = format('The request begins at byte %s.', begin_part.from_byte),
			HINT = 'Ask how much was received, and go on there.';
	END IF;
	UPDATE gpucredit_registry.upload_part p SET writer = begin_part.writer
	WHERE p.org = begin_part.org AND p.upload = begin_part.upload
		AND p.part = begin_part.part;
	expected := least((o.u).part_size, (o.u).size - (begin_part.part - 1) * (o.u).part_size)
		- begin_part.from_byte;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.begin_part(text, bigint, integer, bigint, bigint) IS
'Daemon: bytes of a part of an upload come, from a byte on.
writer: a number that no other request has. Result: how many bytes are expected.
Errors: UC502 no such upload; UC506 it goes on at another byte.';

CREATE FUNCTION gpucredit_registry.known_chunks(digests bytea[]) RETURNS boolean[]
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT array_agg(EXISTS (SELECT FROM gpucredit_registry.chunk c
		WHERE c.sha256 = d.digest) ORDER BY d.n)
	FROM unnest(known_chunks.digests) WITH ORDINALITY AS d (digest, n);
END;
COMMENT ON FUNCTION gpucredit_registry.known_chunks(bytea[]) IS
'Daemon: which chunks are stored now; store_chunks says whether they still are.';

/*
 * Stores chunks. "packs" and "first_bytes" name the location of each chunk's
 * bytes on disk, and are NULL for a known chunk. If a known chunk was deleted
 * in the meantime, nothing is stored, and the result lists such chunks; the
 * daemon must write them, too.
 */
CREATE FUNCTION gpucredit_registry.store_chunks(org text, upload bigint, part integer,
	from_byte bigint, writer bigint, digests bytea[], sizes integer[],
	packs bigint[], first_bytes integer[]) RETURNS integer[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	o record;
	numbers bigint[];
	gone integer[];
	bytes bigint := (SELECT sum(s.size) FROM unnest(store_chunks.sizes) s (size));
BEGIN
	o := gpucredit_registry.require_part(store_chunks.org, store_chunks.upload,
		store_chunks.part);
	IF (o.p).writer IS DISTINCT FROM store_chunks.writer
		OR (o.p).received <> store_chunks.from_byte
	THEN
		RAISE EXCEPTION 'another request sends part % of upload %', store_chunks.part,
			store_chunks.upload
			USING ERRCODE = 'UC506', DETAIL = 'The last request to begin is the one that goes on.',
			HINT = 'Ask how much was received, and go on there.';
	END IF;
	IF (o.p).received + bytes > least((o.u).part_size,
		(o.u).size - (store_chunks.part - 1) * (o.u).part_size)
	THEN
		PERFORM gpucredit_registry.refuse('more bytes than the part has', 'The part is complete.');
	END IF;
	INSERT INTO gpucredit_registry.chunk (sha256, size, pack, first_byte)
	SELECT DISTINCT ON (c.digest) c.digest, c.size, c.pack, c.first_byte
	FROM unnest(store_chunks.digests, store_chunks.sizes, store_chunks.packs,
		store_chunks.first_bytes) AS c (digest, size, pack, first_byte)
	WHERE c.pack IS NOT NULL
	ORDER BY c.digest
	ON CONFLICT DO NOTHING;
	/*
	 * Lock the chunks, then check them in a separate statement, which sees the
	 * present state.
	 */
	PERFORM FROM gpucredit_registry.chunk k
	WHERE k.sha256 = ANY (store_chunks.digests)
	ORDER BY k.chunk FOR KEY SHARE;
	SELECT array_agg(k.chunk ORDER BY c.n),
		array_agg(c.n ORDER BY c.n) FILTER (WHERE k.chunk IS NULL)
	INTO numbers, gone
	FROM unnest(store_chunks.digests) WITH ORDINALITY AS c (digest, n)
		LEFT JOIN gpucredit_registry.chunk k ON k.sha256 = c.digest;
	IF gone IS NOT NULL THEN
		RETURN gone;
	END IF;
	PERFORM gpucredit_registry.use_chunks(store_chunks.org, numbers);
	/* An upload that did not announce its size may exceed the quota. */
	IF (o.u).size IS NULL AND gpucredit_registry.unique_bytes(store_chunks.org)
		> (SELECT q.bytes FROM gpucredit_registry.quota q WHERE q.org = store_chunks.org)
	THEN
		RAISE EXCEPTION 'storage_quota'
			USING ERRCODE = 'UC509', DETAIL = 'The organisation stores all that it may.',
			HINT = 'Delete something, or ask for set_storage_quota().';
	END IF;
	INSERT INTO gpucredit_registry.upload_run
	VALUES (store_chunks.org, store_chunks.upload, store_chunks.part,
		store_chunks.from_byte, numbers);
	UPDATE gpucredit_registry.upload_part p SET received = p.received + bytes
	WHERE p.org = store_chunks.org AND p.upload = store_chunks.upload
		AND p.part = store_chunks.part;
	RETURN '{}';
END
$$;
COMMENT ON FUNCTION gpucredit_registry.store_chunks(text, bigint, integer, bigint, bigint, bytea[], integer[], bigint[], integer[]) IS
'Daemon: a run of chunks of a part is on disk.
packs, first_bytes: where; NULL for a chunk that known_chunks named. Result: the ordinals of those that are gone meanwhile, and then nothing is kept; else empty.
Errors: UC502 no such upload; UC506 another request sends the part; UC509 the storage quota is used; 22023.';

/*
 * Makes an object from an upload. The object takes over the upload's uses of
 * its chunks, so most of their rows stay unchanged. If several runs used a
 * chunk, all uses except one are released. An existing object may have been
 * cut into other chunks.
 */
CREATE FUNCTION gpucredit_registry.keep_upload(u gpucredit_registry.upload,
	chunks bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	again bigint[];
BEGIN
	IF gpucredit_registry.chunks_of((u).object) <> chunks THEN
		PERFORM gpucredit_registry.possess((u).org, (u).object);
	ELSIF gpucredit_registry.hold_object((u).org, (u).object) THEN
		FOR again IN
			SELECT array_agg(c.chunk)
			FROM (SELECT k.chunk, row_number() OVER (PARTITION BY k.chunk) AS use
				FROM gpucredit_registry.upload_run r,
					LATERAL (SELECT DISTINCT unnest(r.chunks) AS chunk) k
				WHERE r.org = (u).org AND r.upload = (u).upload) c
			WHERE c.use > 1 GROUP BY c.use
		LOOP
			PERFORM gpucredit_registry.leave_chunks((u).org, again);
		END LOOP;
		DELETE FROM gpucredit_registry.upload_run r
		WHERE r.org = (u).org AND r.upload = (u).upload;
	END IF;
	PERFORM gpucredit_registry.drop_upload((u).org, (u).upload);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.keep_upload(gpucredit_registry.upload, bigint[]) IS
'Internal: an upload''s object is its organisation''s, and the upload goes.';

/*
 * Completes an upload whose bytes have all arrived: with the right digest they
 * become the object.
 */
CREATE FUNCTION gpucredit_registry.finish_upload(org text, upload bigint,
	sha256 bytea) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	u gpucredit_registry.upload;
	all_chunks bigint[];
	n bigint;
	late boolean;				/* its digest was not announced */
BEGIN
	SELECT * INTO u FROM gpucredit_registry.upload o
	WHERE o.org = finish_upload.org AND o.upload = finish_upload.upload
		AND o.expires_at > gpucredit.now()
	FOR UPDATE;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.no_upload(finish_upload.upload);
	END IF;
	SELECT coalesce(sum(p.received), 0) INTO n FROM gpucredit_registry.upload_part p
	WHERE p.org = u.org AND p.upload = u.upload;
	late := u.object IS NULL;
	u.object := coalesce(u.object, u.announced);
	u.size := coalesce(u.size, n);
	IF n <> u.size THEN
		RAISE EXCEPTION 'upload % has % of % bytes', u.upload, n, u.size
			USING ERRCODE = 'UC502', DETAIL = 'Some bytes are missing.',
			HINT = 'Send what is missing.';
	END IF;
	IF finish_upload.sha256 IS DISTINCT FROM u.object THEN
		PERFORM gpucredit_registry.drop_upload(u.org, u.upload);
		PERFORM gpucredit_registry.record(u.org, 'upload', NULL, jsonb_build_object(
			'model', u.model, 'object', encode(u.object, 'hex'),
			'denied', 'bytes do not match'));
		RETURN false;
	END IF;
	SELECT coalesce(array_agg(c.chunk ORDER BY r.part, r.first_byte, c.n), '{}')
	INTO all_chunks
	FROM gpucredit_registry.upload_run r, unnest(r.chunks) WITH ORDINALITY AS c (chunk, n)
	WHERE r.org = u.org AND r.upload = u.upload;
	PERFORM gpucredit_registry.make_object(u.object, all_chunks);
	PERFORM gpucredit_registry.keep_upload(u, all_chunks);
	INSERT INTO gpucredit_registry.sender
	VALUES (u.org, u.object, u.caller, gpucredit.now())
	ON CONFLICT ON CONSTRAINT sender_pkey DO UPDATE SET sent_at = excluded.sent_at;
	INSERT INTO gpucredit_registry.blob SELECT u.org, u.model, u.object WHERE late
	ON CONFLICT DO NOTHING;
	PERFORM gpucredit_registry.record(u.org, 'upload', NULL, jsonb_build_object(
		'model', u.model, 'object', encode(u.object, 'hex'), 'size', u.size));
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.finish_upload(text, bigint, bytea) IS
'Daemon: all bytes of an upload have come, or were read again, and this is their SHA-256.
Result: whether that is what was announced; if not, the upload is over and nothing of it is kept.
Errors: UC502 no such upload, or bytes are missing.';

CREATE FUNCTION gpucredit_registry.upload_pieces(org text, upload bigint)
RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT jsonb_build_object('org', upload_pieces.org, 'upload', upload_pieces.upload,
		'pieces', coalesce(jsonb_agg(CASE WHEN k.pack IS NULL
				THEN to_jsonb(translate(encode(k.body, 'base64'), E'\n', ''))
				ELSE jsonb_build_array(k.pack, k.first_byte, k.size) END
			ORDER BY r.part, r.first_byte, c.n), '[]'))
	FROM gpucredit_registry.upload_run r,
		unnest(r.chunks) WITH ORDINALITY AS c (chunk, n)
		JOIN gpucredit_registry.chunk k USING (chunk)
	WHERE r.org = upload_pieces.org AND r.upload = upload_pieces.upload;
END;
COMMENT ON FUNCTION gpucredit_registry.upload_pieces(text, bigint) IS
'Daemon: where the bytes of an upload are that were stored so far, in order.';
