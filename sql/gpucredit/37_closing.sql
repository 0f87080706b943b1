/*
 * 37_closing.sql: what leaves, and what it came to.
 *
 * Entries and audit rows leave by whole sealed batches, from the first on,
 * once their retention has passed: a departure.  Before entries leave, what
 * they came to is written down, a row for each part of a hold (or for what a
 * bucket did without one): the closing balances.  So the sums of entries are
 * those of the entries that are there and of all closings.  Each departure has
 * the digest of its closings and of the departure before, and an audit row, so
 * a closing can no more be changed unseen than an entry.
 *
 * Rows leave by DELETE, oldest first, so whole pages become free and are used
 * again: the tables stay as large as what is kept.  (Why not by partitions:
 * docs/decisions.md.)
 */
CREATE TABLE gpucredit.departure (
	departure bigint NOT NULL,
	kind text NOT NULL,
	batch_from bigint NOT NULL,		/* above this batch */
	batch_to bigint NOT NULL,		/* up to this one */
	rows bigint NOT NULL,
	until timestamptz NOT NULL,		/* no row that left was of a later instant */
	at timestamptz NOT NULL,
	closings bytea NOT NULL,		/* their digest */
	previous bytea NOT NULL,		/* zeros before the first */
	digest bytea NOT NULL,
	CONSTRAINT departure_pkey PRIMARY KEY (departure),
	CONSTRAINT departure_kind CHECK (kind IN ('entry', 'audit')),
	CONSTRAINT departure_batches UNIQUE (kind, batch_to),
	CONSTRAINT departure_range CHECK (batch_from < batch_to)
);
COMMENT ON TABLE gpucredit.departure IS
'Append-only: which sealed batches of entries and of audit rows have left, chained by digests';

/* hold, part 0: none.  Each amount is the sum over one kind of move. */
CREATE TABLE gpucredit.closing (
	org text COLLATE "C" NOT NULL,
	departure bigint NOT NULL,
	account text COLLATE "C" NOT NULL,
	bucket bigint NOT NULL,
	hold bigint NOT NULL,
	part int NOT NULL,
	job bigint,
	attempt int,
	entries int NOT NULL,
	drawn_first timestamptz,
	drawn_last timestamptz,
	issued gpucredit.credits,		/* issued to available; NULL: none */
	drawn gpucredit.credits,		/* available to held */
	spent gpucredit.credits,		/* held to spent */
	returned gpucredit.credits,		/* held to available */
	held_expired gpucredit.credits,
	held_revoked gpucredit.credits,
	refunded gpucredit.credits,		/* spent to available */
	given_back gpucredit.credits,	/* of that, by itself, for an attempt */
	spent_expired gpucredit.credits,
	spent_revoked gpucredit.credits,
	expired gpucredit.credits,		/* available to expired */
	revoked gpucredit.credits,
	moved gpucredit.credits,
	CONSTRAINT closing_pkey PRIMARY KEY (org, bucket, hold, part, account,
		departure)
);
CREATE INDEX closing_departure ON gpucredit.closing (departure);
COMMENT ON TABLE gpucredit.closing IS
'Append-only: what the entries of a part of a hold (hold 0: of a bucket) that have left came to';

CREATE TRIGGER departure_append_only BEFORE UPDATE OR DELETE OR TRUNCATE
	ON gpucredit.departure
	FOR EACH STATEMENT EXECUTE FUNCTION gpucredit.refuse_change();
ALTER TABLE gpucredit.departure ENABLE ALWAYS TRIGGER departure_append_only;
CREATE TRIGGER closing_append_only BEFORE UPDATE OR DELETE OR TRUNCATE
	ON gpucredit.closing
	FOR EACH STATEMENT EXECUTE FUNCTION gpucredit.refuse_change();
ALTER TABLE gpucredit.closing ENABLE ALWAYS TRIGGER closing_append_only;

/* Usage is not sealed; of it only the instant is noted. */
CREATE TABLE gpucredit.usage_horizon (
	until timestamptz NOT NULL		/* all that left was before */
);
ALTER TABLE gpucredit.usage_horizon REPLICA IDENTITY FULL;	/* it has no key */
COMMENT ON TABLE gpucredit.usage_horizon IS
'Up to which instant usage rows may have left; no row: none has';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.departure', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.closing', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.usage_horizon', '');

/* A closing's net effect on each compartment, and on its hold's part. */
CREATE VIEW gpucredit.closing_net AS
	SELECT c.org, c.departure, c.account, c.bucket, c.hold, c.part, c.job,
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
'What closings did to each compartment of their bucket and to their part of a hold';

/* The digest of a departure's closings, the same whatever is set. */
CREATE FUNCTION gpucredit.closings_digest(departure bigint) RETURNS bytea
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
	WHERE c.departure = closings_digest.departure;
END;
COMMENT ON FUNCTION gpucredit.closings_digest(bigint) IS
'What a departure''s closings must have as digest.';

/* extract(epoch FROM at) is rounded where it is most. */
CREATE FUNCTION gpucredit.micros(at timestamptz) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT trunc(extract(epoch FROM micros.at
			- timestamptz '2000-01-01 00:00+00') * 1000000)
		+ 946684800000000;
END;
COMMENT ON FUNCTION gpucredit.micros(timestamptz) IS
'Internal: an instant in microseconds since 1970, exactly; what seals and departures are dated by.';

CREATE FUNCTION gpucredit.departure_digest(d gpucredit.departure)
RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT sha256(d.previous || d.closings || convert_to(concat_ws(' ',
		d.departure, d.kind, d.batch_from, d.batch_to, d.rows,
		gpucredit.micros(d.until), gpucredit.micros(d.at)), 'UTF8'));
END;
COMMENT ON FUNCTION gpucredit.departure_digest(gpucredit.departure) IS
'What a departure must have as digest: of the one before, of its closings, and of itself.';

/* From which instant on the past can be told in full. */
CREATE FUNCTION gpucredit.kept_from(kind text) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE kept_from.kind WHEN 'usage'
		THEN (SELECT max(u.until) FROM gpucredit.usage_horizon u)
		ELSE (SELECT max(d.until) FROM gpucredit.departure d
			WHERE d.kind = kept_from.kind) END;
END;
COMMENT ON FUNCTION gpucredit.kept_from(text) IS
'Rows (entry, audit, usage) up to this instant may have left; NULL: none has.';

CREATE FUNCTION gpucredit.require_kept(name text, at timestamptz,
	kind text DEFAULT 'entry') RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	kept timestamptz := gpucredit.kept_from(kind);
BEGIN
	IF at <= kept THEN
		RAISE EXCEPTION '"%" is before what is kept', name
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = format('Rows of table "%s" up to %s have left.', kind,
				kept),
			HINT = 'Pass a later instant; closing balances tell what was before it as a whole.';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit.require_kept(text, timestamptz, text) IS
'Refuses an instant of which the rows have left (22023).';
