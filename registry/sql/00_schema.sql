/*
 * 00_schema.sql: creates the schema. sql/companion/common.sql follows it.
 */
CREATE SCHEMA gpucredit_registry;
COMMENT ON SCHEMA gpucredit_registry IS
'Model registry on gpucredit: repositories, their bytes, who may read them, what keeping them costs';
