/* 86_upkeep_check.sql: checking the books daily, and logging the result. */
CREATE FUNCTION gpucredit_internal.log_finding(invariant text, org text, subject text,
	detail text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_log_finding';
COMMENT ON FUNCTION gpucredit_internal.log_finding(text, text, text, text) IS
'check_books: writes a line to the server log at commit.';

/*
 * These functions log at most 20 lines of what they find, and count the
 * others.
 */
CREATE FUNCTION gpucredit_internal.check_book_range(after text, upto text)
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET jit = off
AS $$
DECLARE
	v record;
	n bigint := 0;
BEGIN
	FOR v IN SELECT * FROM gpucredit.verify(after => check_book_range.after,
			upto => check_book_range.upto)
	LOOP
		n := n + 1;
		IF n <= 20 THEN
			PERFORM gpucredit_internal.log_finding(v.invariant, v.org, v.subject,
				v.detail);
		END IF;
	END LOOP;
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.check_book_range(text, text) IS
'check_books: verifies a range of organisations, logs what it finds, and returns how much.';

CREATE FUNCTION gpucredit_internal.check_seals_of_late() RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET jit = off
AS $$
DECLARE
	v record;
	n bigint := 0;
BEGIN
	FOR v IN SELECT * FROM gpucredit.verify_audit(
			gpucredit.now() - interval '2 days')
	LOOP
		n := n + 1;
		PERFORM gpucredit_internal.log_finding('sealed_row_' || v.problem, NULL,
			coalesce(v.row_name, 'batch ' || v.batch), v.detail);
	END LOOP;
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.check_seals_of_late() IS
'check_books: verifies what was sealed in the last two days, logs what it finds, and returns how much.';

/*
 * Returns the ranges for a check of all books.  A range has about 30,000
 * entries, which take about a second.  The number of entries is estimated from
 * the size of the table, because there may be no statistics.
 */
CREATE FUNCTION gpucredit_internal.book_ranges()
RETURNS SETOF gpucredit.verify_ranges_result
LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 100
BEGIN ATOMIC
	SELECT r.* FROM gpucredit.verify_ranges((SELECT least(10000,
		1 + pg_relation_size('gpucredit.entry') / 6000000)::int)) r;
END;
COMMENT ON FUNCTION gpucredit_internal.book_ranges() IS
'check_books: the ranges that its job of pg_cron verifies one by one.';

CREATE FUNCTION gpucredit.check_books()
RETURNS SETOF gpucredit.maintain_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE ROWS 2
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
BEGIN
	RETURN NEXT ROW('verify'::text,
		gpucredit_internal.check_book_range(NULL, NULL));
	RETURN NEXT ROW('verify_audit'::text,
		gpucredit_internal.check_seals_of_late());
END
$$;
COMMENT ON FUNCTION gpucredit.check_books() IS
'Upkeep: runs verify(), and verify_audit() of what was sealed in the last two days; call it once a day. It writes what they find to the server log (event=verify_failed), at most 20 lines of verify(). The call is one transaction, whose snapshot is as old as the call is long. The job that install_jobs() makes verifies one range of organisations after the other instead, each in a transaction of about a second; of each range it writes at most 20 lines.
Result: verify, verify_audit, and how much each found; 0 when all is well.';
