/*
 * 05_errors.sql: errors that several calls raise.
 */

/* One message, whether it is not there or not for the caller. */
CREATE FUNCTION gpucredit_registry.not_found(what text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION '% does not exist', not_found.what
		USING ERRCODE = 'UC501',
		DETAIL = 'It is not there, or the caller may not see it.',
		HINT = 'Check the name, and that the caller may read the repository.';
END
$$;
COMMENT ON FUNCTION gpucredit_registry.not_found(text) IS
'Internal: raises UC501.';
