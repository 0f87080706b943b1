/* 86_upkeep_check.sql: checking the books daily, and logging the result. */
CREATE FUNCTION gpucredit_internal.log_finding(invariant text, org text, subject text,
	detail text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_log_finding';
COMMENT ON FUNCTION gpucredit_internal.log_finding(text, text, text, text) IS
'check_books: writes a line to the server log at commit.';

CREATE FUNCTION gpucredit.check_books()
RETURNS SETOF gpucredit.maintain_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE ROWS 2
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	told CONSTANT int := 20;	/* the most lines of each; others are counted */
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
'Upkeep: runs verify(), and verify_audit() of what was sealed in the last two days; call it once a day. It writes what they find to the server log (event=verify_failed), at most 20 lines of each.
Result: verify, verify_audit, and how much each found; 0 when all is well.';
