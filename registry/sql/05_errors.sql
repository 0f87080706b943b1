/*
 * 05_errors.sql: errors that several calls raise.
 */

/*
 * Raises the same error for a missing object and for one that is hidden from
 * the caller.
 */
CREATE FUNCTION gpucredit_registry.not_found(what text) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
	SELECT gpucredit_registry.raise('UC501', what || ' does not exist',
		'It is not there, or the caller may not see it.',
		'Check the name, and that the caller may read the repository.');
END;
COMMENT ON FUNCTION gpucredit_registry.not_found(text) IS
'Internal: raises UC501.';

/*
 * Called by functions that lock rows and then must see what other transactions
 * committed before; with a higher isolation level they would not see it.
 */
CREATE FUNCTION gpucredit_registry.require_read_committed(what text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
		RAISE EXCEPTION '% runs at READ COMMITTED', require_read_committed.what
			USING ERRCODE = 'active_sql_transaction',
			DETAIL = 'Above that it cannot see what others do at the same time.',
			HINT = 'Call it in a transaction of isolation level READ COMMITTED.';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.require_read_committed(text) IS
'Internal: raises 25001 where statements share a snapshot.';
