-- registry_models.sql: :models repositories with tags of a task (40), a library
-- (10), a number of bits (5) and a language (100), and cards of 30 words out of
-- 20,000, of which the first are in many and the last in few.
SET client_min_messages = warning;
SET synchronous_commit = off;
SELECT setseed(0.5);
INSERT INTO gpucredit_registry.model (org, name, account, visibility, card, tags, created_at)
SELECT (n % 1000)::text, 's' || n, '', CASE WHEN n % 4 > 0 THEN 'public' ELSE 'private' END,
	(SELECT string_agg('w' || floor(20000 * random() ^ 4), ' ')
		FROM generate_series(1, 30) WHERE n > 0),
	ARRAY['task=' || floor(40 * random() ^ 2), 'library=' || floor(10 * random() ^ 2),
		'bits=' || n % 5, 'language=' || floor(100 * random() ^ 2)], now()
FROM generate_series(1, :models) n;
VACUUM ANALYZE gpucredit_registry.model;
