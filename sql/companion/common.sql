/*
 * common.sql: keys, the event log, and checks that all calls of a companion
 * extension share.  Its Makefile writes the extension's schema for @schema@.
 */
/*
 * A call that changes anything inserts its key here first; a twin waits. Callers
 * of different spaces (gpucredit.key_space()) may use the same key.
 */
CREATE TABLE @schema@.request (
	org text COLLATE "C" NOT NULL,
	space text COLLATE "C" NOT NULL,
	key text COLLATE "C" NOT NULL,
	operation text NOT NULL,
	fingerprint bytea NOT NULL,
	result jsonb,				/* NULL only inside the call itself */
	created_at timestamptz NOT NULL,
	CONSTRAINT request_pkey PRIMARY KEY (org, space, key)
);
COMMENT ON TABLE @schema@.request IS
'Idempotency keys, each with its caller''s space, its arguments'' fingerprint and its result';

/* What was decided, by whom; rows are only ever added. */
CREATE TABLE @schema@.event (
	event bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at timestamptz NOT NULL DEFAULT gpucredit.now(),
	org text COLLATE "C" NOT NULL,
	operation text NOT NULL,
	caller text NOT NULL,
	detail jsonb NOT NULL
);
CREATE INDEX event_org ON @schema@.event (org, event);
COMMENT ON TABLE @schema@.event IS
'Audit log: each change, its caller and its arguments';

CREATE FUNCTION @schema@.refuse_change() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
	RAISE EXCEPTION 'table "%" is append-only', TG_TABLE_NAME
		USING ERRCODE = 'UC901',
		DETAIL = 'Its rows are the audit trail.',
		HINT = 'Add a row that says what changed.';
END
$$;
COMMENT ON FUNCTION @schema@.refuse_change() IS
'Internal: refuses to change or delete rows of an append-only table (UC901).';
CREATE TRIGGER event_append_only
BEFORE UPDATE OR DELETE OR TRUNCATE ON @schema@.event
FOR EACH STATEMENT EXECUTE FUNCTION @schema@.refuse_change();

/*
 * The result of an earlier call with this key, or NULL for the first one.
 */
CREATE FUNCTION @schema@.request_begin(org text, key text,
	operation text, arguments jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	print bytea := sha256(convert_to(request_begin.operation || ' '
		|| request_begin.arguments::text, 'UTF8'));
	old record;
BEGIN
	IF coalesce(octet_length(request_begin.key), 0) NOT BETWEEN 1 AND 255 THEN
		PERFORM @schema@.refuse('key must have 1 to 255 bytes',
			'A key names one call, so that its repetition changes nothing.');
	END IF;
	INSERT INTO @schema@.request
	VALUES (request_begin.org, gpucredit.key_space(), request_begin.key,
		request_begin.operation, print, NULL, gpucredit.now())
	ON CONFLICT DO NOTHING;
	IF FOUND THEN
		RETURN NULL;
	END IF;
	SELECT r.fingerprint, r.result INTO STRICT old
	FROM @schema@.request r
	WHERE r.org = request_begin.org AND r.space = gpucredit.key_space()
		AND r.key = request_begin.key;
	IF old.fingerprint <> print THEN
		RAISE EXCEPTION 'key "%" was used with other arguments', left(request_begin.key, 64)
			USING ERRCODE = 'UC201',
			DETAIL = 'A key stands for one call with one set of arguments.',
			HINT = 'Pass a new key for a new call.';
	END IF;
	RETURN old.result;
END
$$;
COMMENT ON FUNCTION @schema@.request_begin(text, text, text, jsonb) IS
'Internal: inserts a key, or gives the result of the call that had it. Errors: UC201 used with other arguments; 22023.';

CREATE FUNCTION @schema@.request_end(org text, key text, result jsonb)
RETURNS jsonb
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	UPDATE @schema@.request r SET result = request_end.result
	WHERE r.org = request_end.org AND r.space = (SELECT gpucredit.key_space())
		AND r.key = request_end.key
	RETURNING r.result;
END;
COMMENT ON FUNCTION @schema@.request_end(text, text, jsonb) IS
'Internal: keeps what a keyed call answers.';

CREATE FUNCTION @schema@.raise(code text, message text, detail text, hint text)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION '%', raise.message
		USING ERRCODE = raise.code, DETAIL = raise.detail, HINT = raise.hint;
END
$$;
COMMENT ON FUNCTION @schema@.raise(text, text, text, text) IS
'Internal: raises an error.';

CREATE FUNCTION @schema@.refuse(message text, detail text,
	hint text DEFAULT 'Correct the argument and call again.') RETURNS void
LANGUAGE sql
BEGIN ATOMIC
	SELECT @schema@.raise('22023', message, detail, hint);
END;
COMMENT ON FUNCTION @schema@.refuse(text, text, text) IS
'Internal: raises 22023.';

/* gpucredit knows who a tenant is, and whose accounts it may see. */
CREATE FUNCTION @schema@.check_account(org text, account text)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM b.available
	FROM gpucredit.balance(check_account.org, check_account.account) b;
END
$$;
COMMENT ON FUNCTION @schema@.check_account(text, text) IS
'Internal: raises UC001 unless the account exists and the session may see it.';

CREATE FUNCTION @schema@.record(org text, operation text, caller text,
	detail jsonb) RETURNS bigint
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	INSERT INTO @schema@.event AS e (org, operation, caller, detail)
	VALUES (record.org, record.operation, coalesce(record.caller, session_user),
		jsonb_strip_nulls(record.detail))
	RETURNING e.event;
END;
COMMENT ON FUNCTION @schema@.record(text, text, text, jsonb) IS
'Internal: adds a row to the event log, and returns its number.';
