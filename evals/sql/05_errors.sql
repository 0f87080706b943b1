/*
 * 05_errors.sql: errors that several calls raise.
 */

/*
 * Raises the same error for a missing object and for one that is hidden from
 * the caller.
 */
CREATE FUNCTION gpucredit_eval.not_found(what text) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
	SELECT gpucredit_eval.raise('UC601', what || ' does not exist',
		'It is not there, or the caller may not see it.',
		'Check the name, and that the caller has the permission.');
END;
COMMENT ON FUNCTION gpucredit_eval.not_found(text) IS
'Internal: raises UC601.';

CREATE FUNCTION gpucredit_eval.wrong_state(message text, detail text, hint text)
RETURNS void
LANGUAGE sql
BEGIN ATOMIC
	SELECT gpucredit_eval.raise('UC602', message, detail, hint);
END;
COMMENT ON FUNCTION gpucredit_eval.wrong_state(text, text, text) IS
'Internal: raises UC602.';

CREATE FUNCTION gpucredit_eval.held_out(message text, hint text) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
	SELECT gpucredit_eval.raise('UC604', message,
		'A held-out set measures only as long as nobody who tunes models sees it.', hint);
END;
COMMENT ON FUNCTION gpucredit_eval.held_out(text, text) IS
'Internal: raises UC604.';

/* Checks a name of a set, config, endpoint or stream. */
CREATE FUNCTION gpucredit_eval.check_name(what text, name text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF check_name.name IS NULL OR check_name.name !~ '^[A-Za-z0-9][A-Za-z0-9._/-]{0,95}$' THEN
		PERFORM gpucredit_eval.refuse(format('%s name "%s" is malformed', check_name.what,
				left(check_name.name, 64)),
			'A name has 1 to 96 letters, digits, ".", "_", "/" or "-", and begins with a letter or digit.');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.check_name(text, text) IS
'Internal: refuses what is no name (22023).';

/* Refuses unknown members of an object, so that a typing error is reported. */
CREATE FUNCTION gpucredit_eval.check_words(what text, document jsonb, words text[])
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	unknown text;
BEGIN
	IF jsonb_typeof(check_words.document) IS DISTINCT FROM 'object' THEN
		PERFORM gpucredit_eval.refuse(format('%s is no object', check_words.what),
			format('It is %s.', coalesce(jsonb_typeof(check_words.document), 'NULL')));
	END IF;
	IF check_words.document - check_words.words <> '{}' THEN
		SELECT min(k) INTO unknown
		FROM jsonb_object_keys(check_words.document - check_words.words) k;
		PERFORM gpucredit_eval.refuse(format('%s has an unknown word "%s"', check_words.what,
				left(unknown, 64)),
			format('It may have: %s.', array_to_string(check_words.words, ', ')));
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.check_words(text, jsonb, text[]) IS
'Internal: refuses what is no object, or has an unknown member (22023).';

/* Returns a number within bounds from an object, or its default. */
CREATE FUNCTION gpucredit_eval.number_in(what text, document jsonb, word text,
	lowest numeric, highest numeric, otherwise numeric) RETURNS numeric
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found numeric;
BEGIN
	IF NOT number_in.document ? number_in.word
		OR jsonb_typeof(number_in.document -> number_in.word) = 'null'
	THEN
		RETURN number_in.otherwise;
	END IF;
	IF jsonb_typeof(number_in.document -> number_in.word) = 'number' THEN
		found := number_in.document ->> number_in.word;
		IF found BETWEEN number_in.lowest AND number_in.highest THEN
			RETURN found;
		END IF;
	END IF;
	PERFORM gpucredit_eval.refuse(format('"%s" of %s is out of range', number_in.word,
			number_in.what),
		format('It is a number from %s to %s.', number_in.lowest, number_in.highest));
END
$$;
COMMENT ON FUNCTION gpucredit_eval.number_in(text, jsonb, text, numeric, numeric, numeric) IS
'Internal: a number of an object, or a default; refuses others (22023).';
