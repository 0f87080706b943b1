/*
 * 86_upkeep_check.sql: the books checked every night, and the log told.
 */
CREATE FUNCTION gpucredit_internal.log_finding(invariant text, org text, subject text,
	detail text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_log_finding';
COMMENT ON FUNCTION gpucredit_internal.log_finding(text, text, text, text) IS
'check_books: a line of the server log, once this commits.';

CREATE FUNCTION gpucredit.check_books()
RETURNS SETOF gpucredit.maintain_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE ROWS 2
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	told CONSTANT int := 20;	/* lines of each; the rest are counted */
	v record;
	n bigint := 0;
BEGIN
	FOR v IN SELECT * FROM gpucredit.verify() LOOP
		n := n + 1;
		IF n <= told THEN
			PERFORM gpucredit_internal.log_finding(v.invariant, v.org, v.subject,
				v.detail);
		END IF;
	END LOOP;
	RETURN NEXT ROW('verify'::text, n);
	n := 0;
	FOR v IN SELECT * FROM gpucredit.verify_audit(
			gpucredit.now() - interval '2 days')
	LOOP
		n := n + 1;
		PERFORM gpucredit_internal.log_finding('sealed_row_' || v.problem, NULL,
			coalesce(v.row_name, 'batch ' || v.batch), v.detail);
	END LOOP;
	RETURN NEXT ROW('verify_audit'::text, n);
END
$$;
COMMENT ON FUNCTION gpucredit.check_books() IS
'Upkeep: to be called once a day: verify(), and verify_audit() of what was sealed in the last two days. What they find is told in the server log (event=verify_failed), at most 20 lines of each.
Result: verify, verify_audit, and how much each found; 0 when all is well.';
