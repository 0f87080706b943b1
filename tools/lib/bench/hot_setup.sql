-- hot_setup.sql: one organisation with one bucket, and one row beside it.
SELECT gpucredit.create_account('hot');
SELECT gpucredit.issue('hot', '', 'setup', 1000000000);
CREATE TABLE bench.one (id int PRIMARY KEY, v bigint NOT NULL)
	WITH (fillfactor = 50);
INSERT INTO bench.one VALUES (1, 0);
