/*
 * 00_schema.sql: creates the schema. sql/companion/common.sql follows it.
 *
 * A judge's answer is JSON in UTF-8, and the database stores its strings, so
 * the server's encoding must be UTF-8.
 */
DO $$
BEGIN
	IF pg_catalog.current_setting('server_encoding') <> 'UTF8' THEN
		RAISE EXCEPTION 'gpucredit_eval needs a database in UTF8'
			USING ERRCODE = 'feature_not_supported',
			DETAIL = 'Models and judges answer in UTF-8.',
			HINT = 'Create the database with ENCODING ''UTF8''.';
	END IF;
END
$$;

CREATE SCHEMA gpucredit_eval;
COMMENT ON SCHEMA gpucredit_eval IS
'Eval harness on gpucredit: golden sets, configs, capped runs, judges, gates, drift';
