/*
 * 19_card.sql: parses the metadata of a repository's card, which are the lines
 * between the first two lines "---" at its beginning.
 *
 * The metadata are YAML, of which this file supports "key: value", "key:
 * [value, value]" and lists of "- value". Deeper nesting is skipped.
 */
CREATE FUNCTION gpucredit_registry.card_word(word text) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT nullif(left(coalesce(
		substring(btrim(card_word.word) FROM '^"([^"]*)"'),
		substring(btrim(card_word.word) FROM '^''([^'']*)'''),
		regexp_replace(btrim(card_word.word), '\s+#.*$', '')), 200), '');
END;
COMMENT ON FUNCTION gpucredit_registry.card_word(text) IS
'Internal: a value of a card without its quotes; NULL: an empty one.';

CREATE FUNCTION gpucredit_registry.card_fields(card text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	fields jsonb := '{}';
	line text;
	key text;
	rest text;
	words text[];
BEGIN
	IF coalesce(card_fields.card, '') !~ '^---\s*\n' THEN
		RETURN fields;
	END IF;
	FOREACH line IN ARRAY (string_to_array(replace(card_fields.card, E'\r', ''), E'\n'))[2:500] LOOP
		EXIT WHEN line ~ '^---\s*$';
		words := '{}';
		IF line ~ '^[A-Za-z_][A-Za-z0-9_-]{0,62}:' THEN
			key := split_part(line, ':', 1);
			rest := btrim(substr(line, length(key) + 2));
			IF rest ~ '^\[.*\]' THEN
				words := string_to_array(substring(rest FROM '^\[(.*)\]'), ',');
			ELSIF rest ~ '^[^#|>&*{]' THEN
				words := ARRAY[rest];
			END IF;
			fields := fields || jsonb_build_object(key, '[]'::jsonb);
		ELSIF key IS NOT NULL AND line ~ '^\s*-\s+[^-\s]' AND line !~ '^\s*-\s+[A-Za-z0-9_-]+:(\s|$)' THEN
			words := ARRAY[substring(line FROM '^\s*-\s+(.*)$')];
		ELSIF line ~ '^\S' THEN
			key := NULL;
		END IF;
		CONTINUE WHEN key IS NULL OR jsonb_array_length(fields -> key) >= 100;
		fields := jsonb_set(fields, ARRAY[key], (fields -> key) || coalesce((
			SELECT jsonb_agg(w.word) FROM (
				SELECT gpucredit_registry.card_word(u.word) AS word
				FROM unnest(words[1:100]) AS u (word)) w
			WHERE w.word IS NOT NULL), '[]'));
	END LOOP;
	RETURN fields;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.card_fields(text) IS
'Internal: the fields at the beginning of a card, each with an array of values.';

/*
 * Returns the words by which the Hub's clients filter; for example the licence
 * "mit" becomes "license:mit".
 */
CREATE FUNCTION gpucredit_registry.card_facets(fields jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT coalesce(array_agg(DISTINCT p.prefix || w.word), '{}')
	FROM (VALUES ('tags', ''), ('library_name', ''), ('pipeline_tag', ''), ('language', ''),
			('license', 'license:'), ('datasets', 'dataset:'), ('base_model', 'base_model:'))
			AS p (key, prefix),
		jsonb_array_elements_text(coalesce(card_facets.fields -> p.key, '[]')) AS w (word);
END;
COMMENT ON FUNCTION gpucredit_registry.card_facets(jsonb) IS
'Internal: what searches filter a repository by, from the fields of its card.';
