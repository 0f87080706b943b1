/*
 * 00_schema.sql: creates the schema. sql/companion/common.sql follows it.
 */
CREATE SCHEMA gpucredit_billing;
COMMENT ON SCHEMA gpucredit_billing IS
'Invoices and credit notes of gpucredit, and exports of usage';
