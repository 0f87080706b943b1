/* 85_archive.sql: removing old rows, and checking what was removed. */
CREATE FUNCTION gpucredit_internal.archive(kind text, most int) RETURNS bigint
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_archive';
COMMENT ON FUNCTION gpucredit_internal.archive(text, int) IS
'maintain: writes closings, then removes entries (kind entry) or audit rows (audit) of at most so many sealed batches past their retention. Returns the number of rows; 0 above READ COMMITTED, or while sealing is at work.';

CREATE FUNCTION gpucredit_internal.forget_usage(most int) RETURNS bigint
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_forget_usage';
COMMENT ON FUNCTION gpucredit_internal.forget_usage(int) IS
'maintain: removes at most so many usage rows past gpucredit.usage_retention, of attempts that ended as long ago; returns the number of rows.';

/*
 * Checks that the removed rows were the sealed ones, and that the closings are
 * unchanged.
 */
CREATE FUNCTION gpucredit_internal.check_archive_batches(from_org text, to_org text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH d AS (
		SELECT d.*, gpucredit_internal.archive_batch_digest(d) AS expected,
			lag(d.archive_batch, 1, 0::bigint) OVER chain AS archive_batch_before,
			lag(d.digest, 1, decode(repeat('00', 32), 'hex')) OVER chain
				AS digest_before,
			lag(d.batch_to, 1, 0::bigint) OVER (PARTITION BY d.kind
				ORDER BY d.archive_batch) AS batch_before
		FROM gpucredit.archive_batch d WHERE check_archive_batches.from_org IS NULL
		WINDOW chain AS (ORDER BY d.archive_batch))
	SELECT 'archive_batches_unbroken', '', format('archive batch %s', d.archive_batch),
		format('of %s in batches above %s up to %s, after archive batch %s and batch %s',
			d.kind, d.batch_from, d.batch_to, d.archive_batch_before,
			d.batch_before)
	FROM d
	WHERE d.archive_batch <> d.archive_batch_before + 1
		OR d.previous <> d.digest_before OR d.batch_from <> d.batch_before
		OR d.digest <> d.expected
	UNION ALL
	SELECT 'archive_batch_is_sealed', '', format('archive batch %s', d.archive_batch),
		format('%s rows of table %s left, %s were sealed', d.rows, d.kind,
			coalesce(s.rows, 0))
	FROM d CROSS JOIN LATERAL (SELECT sum(CASE d.kind WHEN 'entry'
				THEN s.entries ELSE s.audits END) AS rows
			FROM gpucredit.seal s
			WHERE s.batch > d.batch_from AND s.batch <= d.batch_to) s
	WHERE coalesce(s.rows, 0) <> d.rows
	UNION ALL
	SELECT 'closings_are_as_written', '', format('archive batch %s', d.archive_batch),
		'the closing balances do not have the digest they had'
	FROM d
	WHERE d.closings <> gpucredit_internal.closings_digest(d.archive_batch)
	UNION ALL
	SELECT 'closing_has_archive_batch', '', format('archive batch %s', c.archive_batch),
		format('%s closings, but no such archive batch of entries', count(*))
	FROM gpucredit.closing c
		LEFT JOIN d ON d.archive_batch = c.archive_batch AND d.kind = 'entry'
	WHERE check_archive_batches.from_org IS NULL AND d.archive_batch IS NULL
	GROUP BY c.archive_batch
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
COMMENT ON FUNCTION gpucredit_internal.check_archive_batches(text, text) IS
'verify: removed rows are those that were sealed, and closings are as they were written.';
