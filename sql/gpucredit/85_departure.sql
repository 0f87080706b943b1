/*
 * 85_departure.sql: who sees to it that old rows leave, and that what left is
 * accounted for.
 */
CREATE FUNCTION gpucredit.depart(kind text, most int) RETURNS bigint
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_depart';
COMMENT ON FUNCTION gpucredit.depart(text, int) IS
'maintain: entries (kind entry) or audit rows (audit) of at most so many sealed batches past their retention leave, after their closings are written; the number of rows. 0 above READ COMMITTED, or where sealing is at work.';

CREATE FUNCTION gpucredit.forget_usage(most int) RETURNS bigint
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_forget_usage';
COMMENT ON FUNCTION gpucredit.forget_usage(int) IS
'maintain: at most so many usage rows past gpucredit.usage_retention, of attempts as long over, leave; the number of rows.';

/* What left is what was sealed, and the closings are what was written then. */
CREATE FUNCTION gpucredit.check_departures(tenant text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH d AS (
		SELECT d.*, gpucredit.departure_digest(d) AS expected,
			lag(d.departure, 1, 0::bigint) OVER chain AS departure_before,
			lag(d.digest, 1, decode(repeat('00', 32), 'hex')) OVER chain
				AS digest_before,
			lag(d.batch_to, 1, 0::bigint) OVER (PARTITION BY d.kind
				ORDER BY d.departure) AS batch_before
		FROM gpucredit.departure d WHERE check_departures.tenant IS NULL
		WINDOW chain AS (ORDER BY d.departure))
	SELECT 'departures_unbroken', '', format('departure %s', d.departure),
		format('of %s in batches above %s up to %s, after departure %s and batch %s',
			d.kind, d.batch_from, d.batch_to, d.departure_before,
			d.batch_before)
	FROM d
	WHERE d.departure <> d.departure_before + 1
		OR d.previous <> d.digest_before OR d.batch_from <> d.batch_before
		OR d.digest <> d.expected
	UNION ALL
	SELECT 'departure_is_sealed', '', format('departure %s', d.departure),
		format('%s rows of table %s left, %s were sealed', d.rows, d.kind,
			coalesce(s.rows, 0))
	FROM d CROSS JOIN LATERAL (SELECT sum(CASE d.kind WHEN 'entry'
				THEN s.entries ELSE s.audits END) AS rows
			FROM gpucredit.seal s
			WHERE s.batch > d.batch_from AND s.batch <= d.batch_to) s
	WHERE s.rows IS DISTINCT FROM d.rows
	UNION ALL
	SELECT 'closings_are_as_written', '', format('departure %s', d.departure),
		'the closing balances do not have the digest they had'
	FROM d
	WHERE d.closings <> gpucredit.closings_digest(d.departure)
	UNION ALL
	SELECT 'closing_has_departure', '', format('departure %s', c.departure),
		format('%s closings, but no such departure of entries', count(*))
	FROM gpucredit.closing c
		LEFT JOIN d ON d.departure = c.departure AND d.kind = 'entry'
	WHERE check_departures.tenant IS NULL AND d.departure IS NULL
	GROUP BY c.departure
	UNION ALL
	SELECT 'left_is_gone', '', format('table gpucredit.%s', l.kind),
		format('has row %s, of batch %s, which left', l.least, l.batch_to)
	FROM (SELECT d.kind, max(d.batch_to) AS batch_to FROM d
			GROUP BY d.kind) m
		JOIN gpucredit.seal s ON s.batch = m.batch_to
		CROSS JOIN LATERAL (SELECT m.kind, m.batch_to, CASE m.kind
			WHEN 'entry' THEN (SELECT min(e.entry) FROM gpucredit.entry e
				WHERE e.entry <= s.entry_to)
			ELSE (SELECT min(a.audit) FROM gpucredit.audit a
				WHERE a.audit <= s.audit_to) END AS least) l
	WHERE l.least IS NOT NULL;
END;
COMMENT ON FUNCTION gpucredit.check_departures(text) IS
'verify: what left is what was sealed, and its closing balances are as they were written.';
