/*
 * 61_dataset.sql: the datasets that a version was trained on, with their
 * licences.
 *
 * A commit records the datasets that its card states, or those of the version
 * before it, and the owner may add others. A dataset of the registry is
 * recorded with the version that "main" had then, if the author may read it.
 * So a later change of the dataset or its licence does not change the record.
 */
CREATE TABLE gpucredit_registry.dataset (
	org text COLLATE "C" NOT NULL,
	version bigint NOT NULL,
	dataset text COLLATE "C" NOT NULL,
	dataset_version bigint,		/* of the registry; NULL for one elsewhere */
	license text,
	CONSTRAINT dataset_pkey PRIMARY KEY (org, version, dataset),
	FOREIGN KEY (org, version) REFERENCES gpucredit_registry.version
);
COMMENT ON TABLE gpucredit_registry.dataset IS
'The datasets that each version was trained on';

/* Records datasets by their names; a license that is NULL is that of the registry. */
CREATE FUNCTION gpucredit_registry.record_datasets(org text, version bigint,
	names text[], license text, caller gpucredit_registry.caller) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	INSERT INTO gpucredit_registry.dataset
	SELECT DISTINCT ON (n.name) record_datasets.org, record_datasets.version, n.name,
		d.version, coalesce(record_datasets.license, d.license)
	FROM unnest(record_datasets.names) AS n (name)
		LEFT JOIN (
			SELECT m.org || '/' || m.name AS name, r.version,
				coalesce(m.fields #>> '{license,0}', m.license) AS license
			FROM gpucredit_registry.model m
				LEFT JOIN gpucredit_registry.ref r ON r.org = m.org AND r.model = m.model
					AND r.ref = 'main'
			WHERE m.kind = 'dataset' AND m.deleted_at IS NULL
				AND (m.org, m.name) IN (
					SELECT split_part(o.name, '/', 1), split_part(o.name, '/', 2)
					FROM unnest(record_datasets.names) AS o (name))
				AND gpucredit_registry.permission_of(m.org, m.model, record_datasets.caller)
					IS NOT NULL) d USING (name)
	ORDER BY n.name
	ON CONFLICT ON CONSTRAINT dataset_pkey DO UPDATE
	SET dataset_version = excluded.dataset_version, license = excluded.license;
END;
COMMENT ON FUNCTION gpucredit_registry.record_datasets(text, bigint, text[], text, gpucredit_registry.caller) IS
'Internal: a version was trained on these datasets.';

/* Records the datasets of a version that is being committed. */
CREATE FUNCTION gpucredit_registry.commit_datasets(v gpucredit_registry.version,
	has_card boolean, caller gpucredit_registry.caller) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF commit_datasets.has_card THEN
		PERFORM gpucredit_registry.record_datasets((v).org, (v).version,
			ARRAY(SELECT jsonb_array_elements_text(coalesce(m.fields -> 'datasets', '[]'))),
			NULL, commit_datasets.caller)
		FROM gpucredit_registry.model m
		WHERE m.org = (v).org AND m.model = (v).model;
	ELSE
		INSERT INTO gpucredit_registry.dataset
		SELECT d.org, (v).version, d.dataset, d.dataset_version, d.license
		FROM gpucredit_registry.dataset d
		WHERE d.org = (v).org AND d.version = (v).parent;
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.commit_datasets(gpucredit_registry.version, boolean, gpucredit_registry.caller) IS
'Internal: the datasets that a new version''s card states, or those of the version before it.';

CREATE FUNCTION gpucredit_registry.add_dataset(org text, version bigint, dataset text,
	license text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version :=
		gpucredit_registry.own_version(add_dataset.org, add_dataset.version);
	m gpucredit_registry.model := gpucredit_registry.own_model(v.org, v.model);
BEGIN
	IF coalesce(add_dataset.dataset, '') !~ '^\S(.{0,198}\S)?$'
		OR coalesce(add_dataset.license, 'mit') !~ '^\S(.{0,98}\S)?$'
	THEN
		PERFORM gpucredit_registry.refuse('a dataset has 1 to 200 characters, its license 1 to 100',
			format('The dataset is "%s".', left(add_dataset.dataset, 96)));
	END IF;
	/* Additions wait for each other here, so that together they stay within the limit. */
	PERFORM FROM gpucredit_registry.version o
	WHERE o.org = v.org AND o.version = v.version FOR NO KEY UPDATE;
	IF (SELECT count(*) FROM gpucredit_registry.dataset d
		WHERE d.org = v.org AND d.version = v.version
			AND d.dataset <> add_dataset.dataset) >= 1000
	THEN
		PERFORM gpucredit_registry.refuse('a version has at most 1,000 datasets',
			format('Version %s has as many.', v.version));
	END IF;
	PERFORM gpucredit_registry.record_datasets(v.org, v.version, ARRAY[add_dataset.dataset],
		add_dataset.license, (m.org, m.account, 'read')::gpucredit_registry.caller);
	PERFORM gpucredit_registry.record(v.org, 'add_dataset', NULL, jsonb_build_object(
		'version', v.version, 'dataset', add_dataset.dataset, 'license', add_dataset.license));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.add_dataset(text, bigint, text, text) IS
'Lineage: says that a version was trained on a dataset, besides those that its card states; the same again replaces the licence.
dataset: ORG/NAME, or any other name of 1 to 200 characters. license: NULL: that of the dataset in the registry, where the repository''s account may read it.
Errors: UC501 no such version; 22023.';

CREATE FUNCTION gpucredit_registry.datasets(org text, version bigint)
RETURNS TABLE (dataset text, dataset_version bigint, license text, depth integer,
	of_org text, of_version bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version :=
		gpucredit_registry.own_version(datasets.org, datasets.version);
	m gpucredit_registry.model := gpucredit_registry.own_model(v.org, v.model);
BEGIN
	RETURN QUERY
	SELECT d.dataset, d.dataset_version, d.license, r.depth, d.org, d.version
	FROM (SELECT v.version AS related, 0 AS depth
			UNION ALL SELECT a.related, a.depth FROM gpucredit_registry.related(v.version, false) a) r
		JOIN gpucredit_registry.version o ON o.version = r.related
		JOIN gpucredit_registry.dataset d ON d.org = o.org AND d.version = o.version
	WHERE r.depth = 0 OR gpucredit_registry.permission_of(o.org, o.model,
		(m.org, m.account, 'read')::gpucredit_registry.caller) IS NOT NULL
	ORDER BY r.depth, d.org, d.version, d.dataset;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.datasets(text, bigint) IS
'Lineage: the datasets that a version, and the versions that it was made from, were trained on; of these only those that the repository''s account may read.
Result: dataset_version: of a dataset in the registry, as of that commit; license: NULL: unknown; depth: 0 for the version itself, else as ancestors(); of_org, of_version: which version was trained on it.
Errors: UC501 no such version.';
