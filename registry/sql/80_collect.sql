/*
 * 80_collect.sql: garbage collection.
 *
 * collect() locks candidates first, then checks them again in a separate
 * statement, which sees what others began to use before the lock. So it
 * refuses to run if all statements share one snapshot.
 */
CREATE FUNCTION gpucredit_registry.collect(max integer DEFAULT 1000)
RETURNS TABLE (task text, affected bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	instant timestamptz := gpucredit.now();
	numbers bigint[];
	r record;
BEGIN
	PERFORM gpucredit_registry.require_read_committed('collect()');
	IF coalesce(collect.max, 0) NOT BETWEEN 1 AND 1000000 THEN
		PERFORM gpucredit_registry.refuse('max is 1 to 1,000,000', format('It is %s.', collect.max));
	END IF;

	/*
	 * It locks rows of many organisations, so only one collect() runs at a
	 * time.
	 */
	IF NOT gpucredit_internal.lock_name('gpucredit_registry.collect', wait => false) THEN
		RETURN;
	END IF;

	task := 'uploads'; affected := 0;
	FOR r IN
		SELECT u.org, u.upload FROM gpucredit_registry.upload u
		WHERE u.expires_at <= instant
		LIMIT collect.max FOR UPDATE SKIP LOCKED
	LOOP
		PERFORM gpucredit_registry.drop_upload(r.org, r.upload);
		affected := affected + 1;
	END LOOP;
	DELETE FROM gpucredit_registry.sending d
	WHERE d.opened_at < instant - interval '1 day';
	DELETE FROM gpucredit_registry.sender s
	WHERE s.sent_at < instant - interval '1 day';
	RETURN NEXT;

	task := 'versions';
	affected := gpucredit_registry.apply_retentions(collect.max);
	RETURN NEXT;

	/* Objects that were sent and never committed. */
	task := 'objects'; affected := 0;
	FOR r IN
		SELECT p.org, p.object FROM gpucredit_registry.possession p
		WHERE p.since <= instant - interval '24 hours'
			AND NOT EXISTS (SELECT FROM gpucredit_registry.entry f
				WHERE f.org = p.org AND f.object = p.object)
		LIMIT collect.max FOR UPDATE SKIP LOCKED
	LOOP
		/* An object is deleted with its last possession, before its chunks. */
		PERFORM FROM gpucredit_registry.object b
		WHERE b.sha256 = r.object FOR UPDATE SKIP LOCKED;
		CONTINUE WHEN NOT FOUND;
		DELETE FROM gpucredit_registry.possession p
		WHERE p.org = r.org AND p.object = r.object
			AND NOT EXISTS (SELECT FROM gpucredit_registry.entry f
				WHERE f.org = p.org AND f.object = p.object);
		CONTINUE WHEN NOT FOUND;
		PERFORM gpucredit_registry.leave_chunks(r.org,
			gpucredit_registry.chunks_of(r.object));
		affected := affected + 1;
		IF NOT EXISTS (SELECT FROM gpucredit_registry.possession p WHERE p.object = r.object) THEN
			DELETE FROM gpucredit_registry.segment s WHERE s.object = r.object;
			DELETE FROM gpucredit_registry.object b WHERE b.sha256 = r.object;
		END IF;
	END LOOP;
	RETURN NEXT;

	task := 'chunks';
	SELECT array_agg(l.chunk) INTO numbers
	FROM (SELECT c.chunk FROM gpucredit_registry.chunk c
		WHERE NOT EXISTS (SELECT FROM gpucredit_registry.org_chunk o WHERE o.chunk = c.chunk)
		ORDER BY c.chunk
		LIMIT collect.max FOR UPDATE SKIP LOCKED) l;
	DELETE FROM gpucredit_registry.chunk c
	WHERE c.chunk = ANY (numbers)
		AND NOT EXISTS (SELECT FROM gpucredit_registry.org_chunk o WHERE o.chunk = c.chunk);
	GET DIAGNOSTICS affected = ROW_COUNT;
	RETURN NEXT;

	/* The daemon may still write into newer packs. */
	task := 'packs';
	SELECT array_agg(l.pack) INTO numbers
	FROM (SELECT p.pack FROM gpucredit_registry.pack p
		WHERE p.state = 'open' AND p.created_at <= instant - interval '24 hours'
			AND NOT EXISTS (SELECT FROM gpucredit_registry.chunk c WHERE c.pack = p.pack)
		ORDER BY p.pack
		LIMIT collect.max FOR UPDATE SKIP LOCKED) l;
	UPDATE gpucredit_registry.pack p SET state = 'condemned', condemned_at = instant
	WHERE p.pack = ANY (numbers)
		AND NOT EXISTS (SELECT FROM gpucredit_registry.chunk c WHERE c.pack = p.pack);
	GET DIAGNOSTICS affected = ROW_COUNT;
	RETURN NEXT;

	task := 'downloads';
	affected := gpucredit_registry.forget_downloads(collect.max);
	RETURN NEXT;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.collect(integer) IS
'Upkeep: deletes what nobody uses: uploads of 24 hours, versions that a retention removes, files that were sent and not committed within 24 hours, chunks without a user, packs without chunks, downloads past their retention. Call it until nothing is affected.
max: how many of each. Result: what went; nothing where another collect() runs.
Errors: 25001 above READ COMMITTED; 22023.';

CREATE FUNCTION gpucredit_registry.condemned_packs(grace interval DEFAULT '24 hours')
RETURNS SETOF bigint
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT p.pack FROM gpucredit_registry.pack p
	WHERE p.condemned_at <= gpucredit.now() - condemned_packs.grace
		AND NOT EXISTS (SELECT FROM gpucredit_registry.chunk c WHERE c.pack = p.pack)
	ORDER BY p.pack;
END;
COMMENT ON FUNCTION gpucredit_registry.condemned_packs(interval) IS
'Daemon: packs whose files it may delete: no chunk is in them for longer than any download runs.
grace: how long ago they were condemned at least.';

CREATE FUNCTION gpucredit_registry.pack_gone(pack bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	DELETE FROM gpucredit_registry.pack p
	WHERE p.pack = pack_gone.pack AND p.state = 'condemned';
	RETURN FOUND;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.pack_gone(bigint) IS
'Daemon: a condemned pack''s file is deleted.
Result: whether it was condemned.';

CREATE FUNCTION gpucredit_registry.has_pack(pack bigint) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT EXISTS (SELECT FROM gpucredit_registry.pack p WHERE p.pack = has_pack.pack);
END;
COMMENT ON FUNCTION gpucredit_registry.has_pack(bigint) IS
'Daemon: is there such a pack?';

CREATE FUNCTION gpucredit_registry.stored_chunks(after bigint)
RETURNS TABLE (chunk bigint, size integer, pack bigint, first_byte integer, sha256 bytea)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT c.chunk, c.size, c.pack, c.first_byte, c.sha256
	FROM gpucredit_registry.chunk c
	WHERE c.chunk > stored_chunks.after AND c.pack IS NOT NULL
	ORDER BY c.chunk LIMIT 10000;
END;
COMMENT ON FUNCTION gpucredit_registry.stored_chunks(bigint) IS
'Daemon: the next 10,000 chunks that are in packs, after one; for verify.';

/*
 * Returns the packs that are not written any more, and how many bytes of each
 * are used.
 */
CREATE FUNCTION gpucredit_registry.aged_packs()
RETURNS TABLE (pack bigint, live_bytes bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT p.pack, sum(c.size)::bigint
	FROM gpucredit_registry.pack p JOIN gpucredit_registry.chunk c ON c.pack = p.pack
	WHERE p.created_at <= gpucredit.now() - interval '24 hours'
	GROUP BY p.pack;
END;
COMMENT ON FUNCTION gpucredit_registry.aged_packs() IS
'Daemon: packs of a day ago, and the bytes in them that are used.';

CREATE FUNCTION gpucredit_registry.chunks_in(pack bigint)
RETURNS TABLE (chunk bigint, first_byte integer, size integer)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT c.chunk, c.first_byte, c.size FROM gpucredit_registry.chunk c
	WHERE c.pack = chunks_in.pack ORDER BY c.first_byte;
END;
COMMENT ON FUNCTION gpucredit_registry.chunks_in(bigint) IS
'Daemon: the chunks of a pack that are used, and where they are.';

/*
 * Moves a chunk to another pack. Readers continue in the old pack, which is
 * kept for the grace period.
 */
CREATE FUNCTION gpucredit_registry.move_chunk(chunk bigint, from_pack bigint,
	to_pack bigint, first_byte integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	UPDATE gpucredit_registry.chunk c
	SET pack = move_chunk.to_pack, first_byte = move_chunk.first_byte
	WHERE c.chunk = move_chunk.chunk AND c.pack = move_chunk.from_pack;
	RETURN FOUND;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.move_chunk(bigint, bigint, bigint, integer) IS
'Daemon: a copy of a chunk is on disk in another pack, and is the one that is used.
Result: false where the chunk has gone meanwhile.';
