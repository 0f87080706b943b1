/*
 * 37_closing.sql: removed entries and audit rows, and their closings.
 *
 * Once their retention is over, entries and audit rows are removed by whole
 * sealed batches, the oldest first: an archive batch.  Before entries are
 * removed, their sums are written as closings, one row for each hold part, or
 * for a bucket's entries without a hold. So a sum of entries is the sum of the
 * present entries plus all closings.  Each archive batch has a digest of its
 * closings and of the archive batch before, and an audit row.  So a closing
 * cannot change unnoticed, just like an entry.
 *
 * DELETE removes rows oldest first, so whole pages become free for new rows,
 * and the tables do not grow beyond their content.  (docs/decisions/audit.md
 * says why these are no partitions.)
 */
CREATE TABLE gpucredit.archive_batch (
	archive_batch bigint NOT NULL,
	kind text NOT NULL,
	batch_from bigint NOT NULL,		/* last batch before the removed ones */
	batch_to bigint NOT NULL,		/* last removed batch */
	rows bigint NOT NULL,
	until timestamptz NOT NULL,		/* instant of the latest removed row */
	at timestamptz NOT NULL,
	closings bytea NOT NULL,		/* digest of its closings */
	previous bytea NOT NULL,		/* digest of the archive batch before; zeros for the first */
	digest bytea NOT NULL,
	CONSTRAINT archive_batch_pkey PRIMARY KEY (archive_batch),
	CONSTRAINT archive_batch_kind CHECK (kind IN ('entry', 'audit')),
	/*
	 * Both are equal for closings of an organisation that was moved here from
	 * another server: such an archive batch covers no batch of this server.
	 */
	CONSTRAINT archive_batch_range CHECK (batch_from <= batch_to)
);
COMMENT ON TABLE gpucredit.archive_batch IS
'Append-only: which sealed batches of entries and audit rows were removed, chained by digests';
COMMENT ON COLUMN gpucredit.archive_batch.archive_batch IS 'Its number.';
COMMENT ON COLUMN gpucredit.archive_batch.kind IS 'Which rows were removed: entry or audit.';
COMMENT ON COLUMN gpucredit.archive_batch.batch_from IS 'Rows of batches after this one were removed; batch_to: none, and an organisation brought its closings from another server.';
COMMENT ON COLUMN gpucredit.archive_batch.batch_to IS 'Rows of batches up to this one were removed.';
COMMENT ON COLUMN gpucredit.archive_batch.rows IS 'How many rows were removed.';
COMMENT ON COLUMN gpucredit.archive_batch.until IS 'No removed row is later than this instant.';
COMMENT ON COLUMN gpucredit.archive_batch.at IS 'When they were removed.';
COMMENT ON COLUMN gpucredit.archive_batch.closings IS 'A digest of the closings that were written.';
COMMENT ON COLUMN gpucredit.archive_batch.previous IS 'The archive batch before; zeros before the first.';
COMMENT ON COLUMN gpucredit.archive_batch.digest IS 'The digest of this archive batch and those before it.';

/*
 * hold and part are 0 for entries without a hold.  Each amount is the sum over
 * entries of one source and target.
 */
CREATE TABLE gpucredit.closing (
	org text COLLATE "C" NOT NULL,
	archive_batch bigint NOT NULL,
	account text COLLATE "C" NOT NULL,
	bucket bigint NOT NULL,
	hold bigint NOT NULL,
	part int NOT NULL,
	job bigint,
	attempt int,
	entries int NOT NULL,
	drawn_first timestamptz,
	drawn_last timestamptz,
	issued gpucredit.credits,		/* from issued to available; NULL if none */
	drawn gpucredit.credits,		/* from available to held */
	spent gpucredit.credits,		/* from held to spent */
	returned gpucredit.credits,		/* from held to available */
	held_expired gpucredit.credits,
	held_revoked gpucredit.credits,
	refunded gpucredit.credits,		/* from spent to available */
	given_back gpucredit.credits,	/* the part of it that a settlement refunded for lost work */
	spent_expired gpucredit.credits,
	spent_revoked gpucredit.credits,
	expired gpucredit.credits,		/* from available to expired */
	revoked gpucredit.credits,
	moved gpucredit.credits,
	CONSTRAINT closing_pkey PRIMARY KEY (org, bucket, hold, part, account,
		archive_batch)
);
CREATE INDEX closing_archive_batch ON gpucredit.closing (archive_batch);
COMMENT ON TABLE gpucredit.closing IS
'Append-only: the sums of removed entries, by hold part (hold 0: by bucket)';
COMMENT ON COLUMN gpucredit.closing.archive_batch IS 'The archive batch that removed the entries.';
COMMENT ON COLUMN gpucredit.closing.hold IS 'The hold; 0: none.';
COMMENT ON COLUMN gpucredit.closing.part IS 'The part of the hold; 0: no hold.';
COMMENT ON COLUMN gpucredit.closing.job IS 'The job; NULL: none.';
COMMENT ON COLUMN gpucredit.closing.attempt IS 'The attempt; NULL: none.';
COMMENT ON COLUMN gpucredit.closing.entries IS 'How many entries were removed.';
COMMENT ON COLUMN gpucredit.closing.drawn_first IS 'Instant of the first of them that drew credit; NULL: none did.';
COMMENT ON COLUMN gpucredit.closing.drawn_last IS 'Instant of the last of them that drew credit; NULL: none did.';
COMMENT ON COLUMN gpucredit.closing.issued IS 'Credits that came into the bucket; NULL: none.';
COMMENT ON COLUMN gpucredit.closing.drawn IS 'Credits from available to held; NULL: none.';
COMMENT ON COLUMN gpucredit.closing.spent IS 'Credits from held to spent; NULL: none.';
COMMENT ON COLUMN gpucredit.closing.returned IS 'Credits from held to available; NULL: none.';
COMMENT ON COLUMN gpucredit.closing.held_expired IS 'Credits from held to expired; NULL: none.';
COMMENT ON COLUMN gpucredit.closing.held_revoked IS 'Credits from held to revoked; NULL: none.';
COMMENT ON COLUMN gpucredit.closing.refunded IS 'Credits from spent to available; NULL: none.';
COMMENT ON COLUMN gpucredit.closing.given_back IS 'Credits of refunded that settlements returned for lost work; NULL: none.';
COMMENT ON COLUMN gpucredit.closing.spent_expired IS 'Credits from spent to expired; NULL: none.';
COMMENT ON COLUMN gpucredit.closing.spent_revoked IS 'Credits from spent to revoked; NULL: none.';
COMMENT ON COLUMN gpucredit.closing.expired IS 'Credits from available to expired; NULL: none.';
COMMENT ON COLUMN gpucredit.closing.revoked IS 'Credits from available to revoked; NULL: none.';
COMMENT ON COLUMN gpucredit.closing.moved IS 'Credits from available to moved; NULL: none.';

CREATE TRIGGER archive_batch_append_only BEFORE UPDATE OR DELETE OR TRUNCATE
	ON gpucredit.archive_batch
	FOR EACH STATEMENT EXECUTE FUNCTION gpucredit_internal.refuse_change();
ALTER TABLE gpucredit.archive_batch ENABLE ALWAYS TRIGGER archive_batch_append_only;
CREATE TRIGGER closing_append_only BEFORE UPDATE OR DELETE OR TRUNCATE
	ON gpucredit.closing
	FOR EACH STATEMENT EXECUTE FUNCTION gpucredit_internal.refuse_change();
ALTER TABLE gpucredit.closing ENABLE ALWAYS TRIGGER closing_append_only;

/*
 * Usage is not sealed, so its removal is recorded only by the instant of the
 * latest row.
 */
CREATE TABLE gpucredit.usage_horizon (
	until timestamptz NOT NULL		/* all removed rows are earlier */
);
ALTER TABLE gpucredit.usage_horizon REPLICA IDENTITY FULL;	/* because it has no key */
COMMENT ON TABLE gpucredit.usage_horizon IS
'Usage rows up to this instant may have been removed; no row: none was';
COMMENT ON COLUMN gpucredit.usage_horizon.until IS 'Every removed row was metered before this instant.';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.archive_batch', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.closing', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.usage_horizon', '');

/* The net effect of a closing on each compartment and on its hold part. */
CREATE VIEW gpucredit.closing_net AS
	SELECT c.org, c.archive_batch, c.account, c.bucket, c.hold, c.part, c.job,
		c.attempt, c.drawn_first, c.drawn_last, c.entries,
		m.issued, m.drawn, m.returned, m.given_back,
		m.issued - m.drawn + m.returned + m.refunded - m.out AS available,
		m.drawn - m.spent - m.returned - m.lapsed AS held,
		m.spent - m.back AS spent, m.spent AS billed,
		m.back AS refunded, m.lapsed,
		m.held_expired + m.spent_expired + m.expired AS expired,
		m.held_revoked + m.spent_revoked + m.revoked AS revoked, m.moved
	FROM gpucredit.closing c
		CROSS JOIN LATERAL (SELECT coalesce(c.issued, '0') AS issued,
			coalesce(c.drawn, '0') AS drawn,
			coalesce(c.spent, '0') AS spent,
			coalesce(c.returned, '0') AS returned,
			coalesce(c.held_expired, '0') AS held_expired,
			coalesce(c.held_revoked, '0') AS held_revoked,
			coalesce(c.refunded, '0') AS refunded,
			coalesce(c.given_back, '0') AS given_back,
			coalesce(c.spent_expired, '0') AS spent_expired,
			coalesce(c.spent_revoked, '0') AS spent_revoked,
			coalesce(c.expired, '0') AS expired,
			coalesce(c.revoked, '0') AS revoked,
			coalesce(c.moved, '0') AS moved,
			coalesce(c.held_expired, '0') + coalesce(c.held_revoked, '0')
				AS lapsed,
			coalesce(c.refunded, '0') + coalesce(c.spent_expired, '0')
				+ coalesce(c.spent_revoked, '0') AS back,
			coalesce(c.expired, '0') + coalesce(c.revoked, '0')
				+ coalesce(c.moved, '0') AS out) m;
COMMENT ON VIEW gpucredit.closing_net IS
'How much each closing changed the compartments of its bucket and its hold part';
COMMENT ON COLUMN gpucredit.closing_net.archive_batch IS 'The archive batch that removed the entries.';
COMMENT ON COLUMN gpucredit.closing_net.hold IS 'The hold; 0: none.';
COMMENT ON COLUMN gpucredit.closing_net.part IS 'The part of the hold; 0: no hold.';
COMMENT ON COLUMN gpucredit.closing_net.job IS 'The job; NULL: none.';
COMMENT ON COLUMN gpucredit.closing_net.attempt IS 'The attempt; NULL: none.';
COMMENT ON COLUMN gpucredit.closing_net.drawn_first IS 'Instant of the first of them that drew credit; NULL: none did.';
COMMENT ON COLUMN gpucredit.closing_net.drawn_last IS 'Instant of the last of them that drew credit; NULL: none did.';
COMMENT ON COLUMN gpucredit.closing_net.entries IS 'How many entries were removed.';
COMMENT ON COLUMN gpucredit.closing_net.issued IS 'Credits that were issued.';
COMMENT ON COLUMN gpucredit.closing_net.drawn IS 'Credits that were drawn.';
COMMENT ON COLUMN gpucredit.closing_net.returned IS 'Credits that went back unspent.';
COMMENT ON COLUMN gpucredit.closing_net.given_back IS 'Credits of refunded that were for lost work.';
COMMENT ON COLUMN gpucredit.closing_net.available IS 'Credits by which available changed.';
COMMENT ON COLUMN gpucredit.closing_net.held IS 'Credits by which held changed.';
COMMENT ON COLUMN gpucredit.closing_net.spent IS 'Credits by which spent changed.';
COMMENT ON COLUMN gpucredit.closing_net.billed IS 'Credits that were spent, before refunds.';
COMMENT ON COLUMN gpucredit.closing_net.refunded IS 'Credits that were spent and refunded.';
COMMENT ON COLUMN gpucredit.closing_net.expired IS 'Credits by which expired changed.';
COMMENT ON COLUMN gpucredit.closing_net.revoked IS 'Credits by which revoked changed.';
COMMENT ON COLUMN gpucredit.closing_net.moved IS 'Credits by which moved changed.';

/*
 * The digest of an archive batch's closings.  It is computed from values whose
 * text does not depend on the session's settings.
 */
CREATE FUNCTION gpucredit_internal.closings_digest(archive_batch bigint) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT sha256(coalesce(string_agg(sha256(convert_to(jsonb_build_array(
			c.org, c.account, c.bucket, c.hold, c.part, c.job, c.attempt,
			c.entries, extract(epoch FROM c.drawn_first),
			extract(epoch FROM c.drawn_last), c.issued::text, c.drawn::text,
			c.spent::text, c.returned::text, c.held_expired::text,
			c.held_revoked::text, c.refunded::text, c.given_back::text,
			c.spent_expired::text, c.spent_revoked::text, c.expired::text,
			c.revoked::text, c.moved::text)::text, 'UTF8')), ''
		ORDER BY c.org, c.bucket, c.hold, c.part, c.account), ''))
	FROM gpucredit.closing c
	WHERE c.archive_batch = closings_digest.archive_batch;
END;
COMMENT ON FUNCTION gpucredit_internal.closings_digest(bigint) IS
'The digest that an archive batch''s closings must have.';

/*
 * The instant in microseconds.  extract(epoch FROM at) alone would round
 * distant instants.
 */
CREATE FUNCTION gpucredit_internal.micros(at timestamptz) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT trunc(extract(epoch FROM micros.at
			- timestamptz '2000-01-01 00:00+00') * 1000000)
		+ 946684800000000;
END;
COMMENT ON FUNCTION gpucredit_internal.micros(timestamptz) IS
'Internal: an instant in microseconds since 1970, exactly, as seals and archive batches date themselves.';

CREATE FUNCTION gpucredit_internal.archive_batch_digest(d gpucredit.archive_batch)
RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT sha256(d.previous || d.closings || convert_to(concat_ws(' ',
		d.archive_batch, d.kind, d.batch_from, d.batch_to, d.rows,
		gpucredit_internal.micros(d.until), gpucredit_internal.micros(d.at)), 'UTF8'));
END;
COMMENT ON FUNCTION gpucredit_internal.archive_batch_digest(gpucredit.archive_batch) IS
'The digest that an archive batch must have: of the batch before, of its closings, and of itself.';

/* The instant from which on all rows of a kind are still present. */
CREATE FUNCTION gpucredit_internal.kept_from(kind text) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE kept_from.kind WHEN 'usage'
		THEN (SELECT max(u.until) FROM gpucredit.usage_horizon u)
		ELSE (SELECT max(d.until) FROM gpucredit.archive_batch d
			WHERE d.kind = kept_from.kind) END;
END;
COMMENT ON FUNCTION gpucredit_internal.kept_from(text) IS
'The instant up to which rows (entry, audit, usage) may have been removed; NULL: none was.';

CREATE FUNCTION gpucredit_internal.require_kept(name text, at timestamptz,
	kind text DEFAULT 'entry') RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	kept timestamptz := gpucredit_internal.kept_from(kind);
BEGIN
	IF at <= kept THEN
		RAISE EXCEPTION '"%" is before what is kept', name
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = format('Rows of table "%s" up to %s were removed.', kind,
				kept),
			HINT = 'Pass a later instant; of earlier ones only sums are kept.';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.require_kept(text, timestamptz, text) IS
'Refuses an instant whose rows were removed (22023).';
