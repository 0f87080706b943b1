/*
 * 10_store.sql: stores bytes by digest. Only org_chunk knows which tenant uses
 * them.
 *
 *   object   a file's content: its SHA-256 and size;
 *   segment  the chunks of an object, in order, 1,024 per row;
 *   chunk    8 to 128 KiB in a pack, or a small file's whole content in the
 *            table;
 *   pack     an append-only file of the daemon's store; its number is never
 *            used again.
 *
 * A chunk exists as long as an organisation uses it (org_chunk), and its pack
 * as long as it has chunks. A call that begins to use chunks locks their rows
 * FOR KEY SHARE, in order; collect() locks unused rows FOR UPDATE, checks them
 * again, and deletes them.
 */
CREATE TABLE gpucredit_registry.pack (
	pack bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	state text NOT NULL DEFAULT 'open'
		CHECK (state IN ('open', 'condemned')),
	created_at timestamptz NOT NULL,
	condemned_at timestamptz,
	CONSTRAINT pack_condemned CHECK ((state = 'condemned') = (condemned_at IS NOT NULL))
);
COMMENT ON TABLE gpucredit_registry.pack IS
'Files of the store; condemned: no chunk is left, the file goes after a grace';

/*
 * There is a row for each 64 KiB, so the columns are in an order that needs no
 * padding.
 */
CREATE TABLE gpucredit_registry.chunk (
	chunk bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	pack integer REFERENCES gpucredit_registry.pack,
	size integer NOT NULL CHECK (size >= 0),
	first_byte integer,
	sha256 bytea NOT NULL CONSTRAINT chunk_sha256 UNIQUE
		CHECK (octet_length(sha256) = 32),
	body bytea,
	CONSTRAINT chunk_place CHECK ((pack IS NULL) = (first_byte IS NULL)
		AND (pack IS NULL) = (body IS NOT NULL)),
	CONSTRAINT chunk_body CHECK (octet_length(body) = size)
);
CREATE INDEX chunk_pack ON gpucredit_registry.chunk (pack);
COMMENT ON TABLE gpucredit_registry.chunk IS
'Pieces of content, each stored once: where in which pack, or the body itself';

CREATE TABLE gpucredit_registry.object (
	sha256 bytea PRIMARY KEY CHECK (octet_length(sha256) = 32),
	size bigint NOT NULL CHECK (size >= 0),
	created_at timestamptz NOT NULL,
	packed int8multirange NOT NULL		/* its chunks that are in packs */
);
CREATE INDEX object_packed ON gpucredit_registry.object USING gist (packed)
	WHERE packed <> '{}';
COMMENT ON TABLE gpucredit_registry.object IS
'Content of files whose bytes were all received and checked';

CREATE TABLE gpucredit_registry.segment (
	object bytea NOT NULL REFERENCES gpucredit_registry.object,
	ordinal integer NOT NULL,
	first_byte bigint NOT NULL,
	chunks bigint[] NOT NULL,
	CONSTRAINT segment_pkey PRIMARY KEY (object, ordinal)
);
COMMENT ON TABLE gpucredit_registry.segment IS
'The chunks of an object in order, up to 1,024 a row';

/*
 * What an organisation pays for. Rows that have ended are kept until their
 * days are billed.
 */
CREATE TABLE gpucredit_registry.org_chunk (
	chunk bigint NOT NULL,
	uses integer NOT NULL CHECK (uses > 0),
	org text COLLATE "C" NOT NULL,
	/* also used by collect() */
	CONSTRAINT org_chunk_pkey PRIMARY KEY (chunk, org)
);
COMMENT ON TABLE gpucredit_registry.org_chunk IS
'Chunks that an organisation''s objects and open uploads use, and how many of them do';

/*
 * The objects that an organisation has sent, or copied from a repository that
 * it may read.
 */
CREATE TABLE gpucredit_registry.possession (
	org text COLLATE "C" NOT NULL,
	object bytea NOT NULL REFERENCES gpucredit_registry.object,
	since timestamptz NOT NULL,
	read_on date NOT NULL,
	CONSTRAINT possession_pkey PRIMARY KEY (org, object)
);
CREATE INDEX possession_object ON gpucredit_registry.possession (object);
COMMENT ON TABLE gpucredit_registry.possession IS
'Objects an organisation has, and the day each was last read';

/*
 * Storage is billed by the byte-second. byte_seconds is the sum up to the
 * instant "as_of"; since then, "bytes" are stored.
 */
CREATE TABLE gpucredit_registry.usage (
	org text COLLATE "C" NOT NULL,
	day date NOT NULL,
	byte_seconds numeric NOT NULL,
	bytes bigint NOT NULL CHECK (bytes >= 0),
	as_of timestamptz NOT NULL,
	CONSTRAINT usage_pkey PRIMARY KEY (org, day)
);
COMMENT ON TABLE gpucredit_registry.usage IS
'Unique bytes an organisation stored, by day (UTC)';

CREATE FUNCTION gpucredit_registry.unique_bytes(org text) RETURNS bigint
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce((SELECT u.bytes FROM gpucredit_registry.usage u
		WHERE u.org = unique_bytes.org ORDER BY u.day DESC LIMIT 1), 0);
END;
COMMENT ON FUNCTION gpucredit_registry.unique_bytes(text) IS
'Internal: the unique bytes an organisation stores.';

/*
 * Serializes the changes of what one organisation stores. A call that changes
 * several objects takes this lock before the first of its org_chunk rows,
 * after it has inserted all its chunks.
 */
CREATE FUNCTION gpucredit_registry.lock_usage(org text) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	SELECT gpucredit_internal.lock_name('gpucredit_registry.usage '
		|| lock_usage.org);
END;
COMMENT ON FUNCTION gpucredit_registry.lock_usage(text) IS
'Internal: waits until nobody else changes what an organisation stores.';

/*
 * Updates an organisation's usage up to now, and changes how much it stores.
 */
CREATE FUNCTION gpucredit_registry.change_usage(org text, change bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	instant timestamptz;
	u gpucredit_registry.usage;
	ends timestamptz;
	today date;
BEGIN
	PERFORM gpucredit_registry.lock_usage(change_usage.org);
	instant := gpucredit.now();
	today := (instant AT TIME ZONE 'UTC')::date;
	SELECT * INTO u FROM gpucredit_registry.usage o
	WHERE o.org = change_usage.org ORDER BY o.day DESC LIMIT 1;
	IF NOT FOUND THEN
		INSERT INTO gpucredit_registry.usage
		VALUES (change_usage.org, today, 0, change_usage.change, instant);
		PERFORM gpucredit_registry.alert_quota(change_usage.org, 'storage_quota',
			change_usage.change);
		RETURN;
	END IF;
	instant := greatest(instant, u.as_of);
	today := greatest(today, u.day);
	WHILE u.day < today LOOP
		ends := (u.day + 1)::timestamp AT TIME ZONE 'UTC';
		UPDATE gpucredit_registry.usage o
		SET byte_seconds = o.byte_seconds
			+ o.bytes * extract(epoch FROM ends - o.as_of), as_of = ends
		WHERE o.org = u.org AND o.day = u.day;
		INSERT INTO gpucredit_registry.usage
		VALUES (u.org, u.day + 1, 0, u.bytes, ends)
		RETURNING * INTO u;
	END LOOP;
	UPDATE gpucredit_registry.usage o
	SET byte_seconds = o.byte_seconds
			+ o.bytes * extract(epoch FROM instant - o.as_of),
		bytes = o.bytes + change_usage.change, as_of = instant
	WHERE o.org = u.org AND o.day = u.day;
	PERFORM gpucredit_registry.alert_quota(u.org, 'storage_quota',
		u.bytes + change_usage.change);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.change_usage(text, bigint) IS
'Internal: adds to the bytes an organisation stores, from now on.';

/* Adds one use by an organisation to each of these chunks. */
CREATE FUNCTION gpucredit_registry.use_chunks(org text, chunks bigint[])
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	added bigint;
BEGIN
	PERFORM FROM gpucredit_registry.chunk c
	WHERE c.chunk = ANY (use_chunks.chunks)
	ORDER BY c.chunk FOR KEY SHARE;
	PERFORM gpucredit_registry.lock_usage(use_chunks.org);
	WITH used AS (
		INSERT INTO gpucredit_registry.org_chunk AS o
		SELECT c.chunk, 1, use_chunks.org
		FROM (SELECT DISTINCT unnest(use_chunks.chunks) AS chunk) c
		ORDER BY c.chunk
		ON CONFLICT ON CONSTRAINT org_chunk_pkey DO UPDATE SET uses = o.uses + 1
		RETURNING o.chunk, o.uses)
	SELECT sum(c.size) INTO added
	FROM used JOIN gpucredit_registry.chunk c USING (chunk)
	WHERE used.uses = 1;
	IF added > 0 THEN
		PERFORM gpucredit_registry.change_usage(use_chunks.org, added);
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.use_chunks(text, bigint[]) IS
'Internal: one more object or upload of an organisation uses these chunks.';

CREATE FUNCTION gpucredit_registry.leave_chunks(org text, chunks bigint[])
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	freed bigint;
BEGIN
	PERFORM gpucredit_registry.lock_usage(leave_chunks.org);
	WITH gone AS (
		DELETE FROM gpucredit_registry.org_chunk o
		WHERE o.org = leave_chunks.org AND o.chunk = ANY (leave_chunks.chunks)
			AND o.uses = 1
		RETURNING o.chunk)
	SELECT sum(c.size) INTO freed
	FROM gone JOIN gpucredit_registry.chunk c USING (chunk);
	UPDATE gpucredit_registry.org_chunk o SET uses = o.uses - 1
	WHERE o.org = leave_chunks.org AND o.chunk = ANY (leave_chunks.chunks)
		AND o.uses > 1;
	IF freed > 0 THEN
		PERFORM gpucredit_registry.change_usage(leave_chunks.org, -freed);
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.leave_chunks(text, bigint[]) IS
'Internal: one object or upload of an organisation no longer uses these chunks.';

/* Returns all chunks of an object, in order. */
CREATE FUNCTION gpucredit_registry.chunks_of(object bytea) RETURNS bigint[]
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce(array_agg(c.chunk ORDER BY s.ordinal, c.n), '{}')
	FROM gpucredit_registry.segment s,
		unnest(s.chunks) WITH ORDINALITY AS c (chunk, n)
	WHERE s.object = chunks_of.object;
END;
COMMENT ON FUNCTION gpucredit_registry.chunks_of(bytea) IS
'Internal: the chunks of an object, in order.';

/*
 * Creates an object from stored chunks. An object that exists already is
 * locked, so that collect() does not delete it.
 */
CREATE FUNCTION gpucredit_registry.make_object(sha256 bytea, chunks bigint[])
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	LOOP
		INSERT INTO gpucredit_registry.object
		SELECT make_object.sha256, coalesce(sum(k.size), 0), gpucredit.now(),
			coalesce(range_agg(int8range(k.chunk, k.chunk, '[]'))
				FILTER (WHERE k.pack IS NOT NULL), '{}')
		FROM unnest(make_object.chunks) AS c (chunk)
			JOIN gpucredit_registry.chunk k USING (chunk)
		ON CONFLICT DO NOTHING;
		EXIT WHEN FOUND;
		PERFORM FROM gpucredit_registry.object b
		WHERE b.sha256 = make_object.sha256 FOR KEY SHARE;
		IF FOUND THEN
			RETURN;
		END IF;
	END LOOP;
	INSERT INTO gpucredit_registry.segment
	SELECT make_object.sha256, p.ordinal, min(p.ends - p.size),
		array_agg(p.chunk ORDER BY p.n)
	FROM (SELECT c.chunk, c.n, (c.n - 1) / 1024 AS ordinal, k.size,
				sum(k.size) OVER (ORDER BY c.n) AS ends
			FROM unnest(make_object.chunks) WITH ORDINALITY AS c (chunk, n)
				JOIN gpucredit_registry.chunk k USING (chunk)) p
	GROUP BY p.ordinal;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.make_object(bytea, bigint[]) IS
'Internal: the object that these chunks make, in order.';

/*
 * Gives an organisation an object. Returns true if the organisation did not
 * have it before. Object and possession are locked.
 */
CREATE FUNCTION gpucredit_registry.hold_object(org text, object bytea)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM FROM gpucredit_registry.object b
	WHERE b.sha256 = hold_object.object FOR KEY SHARE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'object % is no longer stored', encode(hold_object.object, 'hex')
			USING ERRCODE = 'UC503',
			DETAIL = 'Nobody committed it within 24 hours after it was uploaded.',
			HINT = 'Upload the file again, then commit.';
	END IF;
	LOOP
		INSERT INTO gpucredit_registry.possession
		VALUES (hold_object.org, hold_object.object, gpucredit.now(),
			(gpucredit.now() AT TIME ZONE 'UTC')::date)
		ON CONFLICT DO NOTHING;
		IF FOUND THEN
			RETURN true;
		END IF;
		PERFORM FROM gpucredit_registry.possession p
		WHERE p.org = hold_object.org AND p.object = hold_object.object FOR KEY SHARE;
		IF FOUND THEN
			RETURN false;
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.hold_object(text, bytea) IS
'Internal: an organisation has an object; true if it had it not. Errors: UC503 it has gone.';

/*
 * Gives an organisation an object, for whose chunks it pays from now on.
 * Object and possession are locked, so that collect() does not delete them
 * before a file refers to them.
 */
CREATE FUNCTION gpucredit_registry.possess(org text, object bytea) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF gpucredit_registry.hold_object(possess.org, possess.object) THEN
		PERFORM gpucredit_registry.use_chunks(possess.org,
			gpucredit_registry.chunks_of(possess.object));
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.possess(text, bytea) IS
'Internal: an organisation has an object from now on.';

/*
 * Gives an organisation several objects, and returns those that it did not
 * have before. For these it pays from use_objects() on, which the caller must
 * call in the same transaction. The lock of the organisation's usage is not
 * needed for it, so a commit can compute before it takes that lock. Objects,
 * their chunks and possessions are locked, so that collect() does not delete
 * them.
 */
CREATE FUNCTION gpucredit_registry.hold_objects(org text, objects bytea[])
RETURNS bytea[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	instant timestamptz := gpucredit.now();
	fresh bytea[] := '{}';
	added bytea[];
	chunks bigint[];
BEGIN
	IF hold_objects.objects = '{}' THEN
		RETURN fresh;
	END IF;
	PERFORM FROM gpucredit_registry.object b
	WHERE b.sha256 = ANY (hold_objects.objects)
	ORDER BY b.sha256 FOR KEY SHARE;
	SELECT array_agg(u.chunk) INTO chunks
	FROM gpucredit_registry.segment s, unnest(s.chunks) AS u (chunk)
	WHERE s.object = ANY (hold_objects.objects);
	PERFORM FROM gpucredit_registry.chunk c
	WHERE c.chunk = ANY (chunks)
	ORDER BY c.chunk FOR KEY SHARE;
	/* Repeat if collect() has deleted a possession that existed. */
	LOOP
		WITH held AS (
			INSERT INTO gpucredit_registry.possession
			SELECT hold_objects.org, b.object, instant, (instant AT TIME ZONE 'UTC')::date
			FROM (SELECT DISTINCT unnest(hold_objects.objects) AS object) b
			ORDER BY b.object
			ON CONFLICT DO NOTHING
			RETURNING object)
		SELECT coalesce(array_agg(h.object), '{}') INTO added FROM held h;
		fresh := fresh || added;
		EXIT WHEN (SELECT count(*) FROM (SELECT FROM gpucredit_registry.possession p
				WHERE p.org = hold_objects.org AND p.object = ANY (hold_objects.objects)
				FOR KEY SHARE) l)
			= (SELECT count(DISTINCT b) FROM unnest(hold_objects.objects) b);
	END LOOP;
	RETURN fresh;
EXCEPTION WHEN foreign_key_violation THEN
	RAISE EXCEPTION 'an object is no longer stored'
		USING ERRCODE = 'UC503',
		DETAIL = 'Nobody committed it within 24 hours after it was uploaded.',
		HINT = 'Upload the file again, then commit.';
END
$$;
COMMENT ON FUNCTION gpucredit_registry.hold_objects(text, bytea[]) IS
'Internal: an organisation has these objects; those that it had not. Errors: UC503 one has gone.';

/*
 * Makes an organisation pay for the chunks of objects that hold_objects()
 * returned, with a few statements for all of them. A row of usage that one
 * transaction changes thousands of times would become slower with each change.
 */
CREATE FUNCTION gpucredit_registry.use_objects(org text, objects bytea[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	added bigint;
BEGIN
	IF use_objects.objects = '{}' THEN
		RETURN;
	END IF;
	PERFORM gpucredit_registry.lock_usage(use_objects.org);
	WITH wanted AS (
		SELECT u.chunk, count(*)::integer AS uses
		FROM (SELECT DISTINCT s.object, c.chunk
			FROM gpucredit_registry.segment s, unnest(s.chunks) AS c (chunk)
			WHERE s.object = ANY (use_objects.objects)) u
		GROUP BY u.chunk),
	used AS (
		INSERT INTO gpucredit_registry.org_chunk AS o
		SELECT w.chunk, w.uses, use_objects.org FROM wanted w ORDER BY w.chunk
		ON CONFLICT ON CONSTRAINT org_chunk_pkey DO UPDATE SET uses = o.uses + excluded.uses
		RETURNING o.chunk, o.uses)
	SELECT sum(c.size) INTO added
	FROM used
		JOIN wanted w USING (chunk, uses)	/* it did not use the chunk
											 * before */
		JOIN gpucredit_registry.chunk c USING (chunk);
	IF added > 0 THEN
		PERFORM gpucredit_registry.change_usage(use_objects.org, added);
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.use_objects(text, bytea[]) IS
'Internal: an organisation pays from now on for objects that hold_objects() gave it.';

/*
 * Returns where the bytes [first, last] of an object are stored: ranges of
 * packs, with neighbours merged, or the body of an object in the table. Each
 * download calls it, so it is in a language that keeps its plan.
 */
CREATE FUNCTION gpucredit_registry.pieces(object bytea, first bigint, last bigint)
RETURNS TABLE (pack bigint, first_byte bigint, length bigint, body bytea)
LANGUAGE plpgsql STABLE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY
	WITH
	cut AS (
		SELECT s.ordinal, s.first_byte, s.chunks
		FROM gpucredit_registry.segment s
		WHERE s.object = pieces.object AND s.first_byte <= pieces.last
			AND s.ordinal >= coalesce((SELECT max(b.ordinal)
				FROM gpucredit_registry.segment b
				WHERE b.object = pieces.object
					AND b.first_byte <= pieces.first), 0)),
	each AS (
		SELECT s.ordinal, c.n, k.pack, k.first_byte, k.size, k.body,
			s.first_byte + sum(k.size) OVER (PARTITION BY s.ordinal
				ORDER BY c.n) - k.size AS starts
		FROM cut s, unnest(s.chunks) WITH ORDINALITY AS c (chunk, n),
			gpucredit_registry.chunk k
		WHERE k.chunk = c.chunk),
	part AS (
		SELECT e.ordinal, e.n, e.pack, e.body,
			e.first_byte + greatest(pieces.first - e.starts, 0) AS first_byte,
			greatest(pieces.first - e.starts, 0) AS skipped,
			least(e.starts + e.size - 1, pieces.last)
				- greatest(e.starts, pieces.first) + 1 AS length
		FROM each e
		WHERE e.starts <= pieces.last AND e.starts + e.size > pieces.first),
	run AS (
		SELECT p.*, count(*) FILTER (WHERE p.begins) OVER (ORDER BY p.ordinal, p.n) AS number
		FROM (SELECT p.*, p.pack IS NULL OR lag(p.pack) OVER w IS DISTINCT FROM p.pack
					OR lag(p.first_byte + p.length) OVER w IS DISTINCT FROM p.first_byte
					AS begins
				FROM part p WINDOW w AS (ORDER BY p.ordinal, p.n)) p)
	SELECT r.pack::bigint, min(r.first_byte)::bigint, sum(r.length)::bigint,
		(array_agg(substr(r.body, r.skipped::int + 1, r.length::int)))[1]
	FROM run r
	GROUP BY r.number, r.pack
	ORDER BY r.number;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.pieces(bytea, bigint, bigint) IS
'Internal: where the bytes of an object from the first to the last, counted from 0, are stored.';
